//! Prepares `cargo xtask crash --second-kernel`: Debian's kernel, an emulator and a static binary.
//!
//! Invariant: the kernel is unpacked under the target folder and never installed.

use crate::error::{Error, Result};
use crate::runner;
use crate::shell::{built_from, cargo, command, output, status, target};
use crate::tools::{self, For};
use std::path::{Path, PathBuf};
use std::process::Command;

const GUEST: &str = "x86_64-unknown-linux-musl";

struct Kernel {
    /// What `--linux` calls it.
    version: &'static str,
    package: &'static str,
    /// Where it lies under the target folder.
    folder: &'static str,
}

/// The release's own first, then the newest for this release.
const KERNELS: [Kernel; 2] = [
    Kernel { version: "6.1", package: "linux-image-cloud-amd64", folder: "second-kernel" },
    Kernel { version: "6.12", package: "linux-image-6.12-cloud-amd64", folder: "second-kernel-6.12" },
];
pub(crate) const VERSIONS: [&str; 2] = [KERNELS[0].version, KERNELS[1].version];

/// Provides everything and makes the cuts, for which `more` is handed on to `seawall-crash second-kernel`, or runs the table of
/// stacks.
pub(crate) fn run(version: &str, stacks: bool, more: &[String]) -> Result {
    let kernel = KERNELS.iter().find(|kernel| kernel.version == version);
    let kernel = kernel.ok_or_else(|| Error::check(format!("no kernel is called {version}")))?;
    let prepared = with(kernel)?;
    if stacks {
        return prepared.stacks();
    }
    let mut words: Vec<&str> = more.iter().map(String::as_str).collect();
    let victim = target().join(GUEST).join("release/seawall-crash").display().to_string();
    if words.contains(&"--states") {
        let wanted = ["--package", "seawall-crash", "--features", "mutants", "--target", GUEST];
        status(cargo(&[&["build", "--release", "--quiet"][..], &wanted].concat()))?;
        words.extend(["--victim", &victim]);
    }
    status(prepared.cuts(&words))
}

/// Everything that a cut needs, with what it is to be made of.
pub(crate) struct Prepared {
    crash: PathBuf,
    kernel: String,
    guest: String,
    /// What the guest's program was built from.
    build: String,
}

pub(crate) fn prepare() -> Result<Prepared> {
    with(&KERNELS[0])
}

/// Provides what is not built here: programs, the target's standard library, the kernel. Every build of the guest's comes
/// after it, because without that library the compiler says only that it "can't find crate for core".
fn provide(kernel: &Kernel) -> Result {
    tools::provide(For::SecondKernel)?;
    tools::provide_target(GUEST)?;
    let folder = target().join(kernel.folder);
    if folder.join("boot").is_dir() { Ok(()) } else { unpack_kernel(&folder, kernel.package) }
}

fn with(kernel: &Kernel) -> Result<Prepared> {
    provide(kernel)?;
    let folder = target().join(kernel.folder);
    status(cargo(&["build", "--release", "--quiet", "--package", "seawall-cli", "--target", GUEST]))?;
    let guest = target().join(GUEST).join("release/seawall").display().to_string();
    let crash = runner::program(&runner::programs(&["--bin", "seawall-crash"])?, "crash/bin")?;
    Ok(Prepared { crash, kernel: folder.display().to_string(), guest, build: built_from() })
}

/// Runs the rows that need an `NVMe` drive in one boot of the newer kernel; leaves their calls, requests and results in
/// `folder`.
pub(crate) fn rows(folder: &Path) -> Result {
    let lacking = |error| Error::lacking(format!("no machine with an NVMe drive: {error}"));
    provide(&KERNELS[1]).map_err(lacking)?;
    let folder = folder.display().to_string();
    status(with(&KERNELS[1])?.cuts(&["--bus", "nvme", "--rows", &folder]))
}

pub(crate) fn stacks() -> Result {
    with(&KERNELS[0])?.stacks()
}

impl Prepared {
    fn stacks(&self) -> Result {
        let built = runner::build(&["--test", "real_systems"])?;
        let tests = runner::program(&built, "cli/real_systems")?;
        status(self.cuts(&["--stacks", &tests.display().to_string()]))
    }

    pub(crate) fn cuts(&self, more: &[&str]) -> Command {
        let Self { crash, kernel, guest, build } = self;
        let first = ["second-kernel", "--kernel", kernel, "--guest-binary", guest, "--build", build];
        command(crash, &[&first, more].concat())
    }
}

/// The package depends on the one of the newest kernel.
fn unpack_kernel(folder: &Path, package: &str) -> Result {
    let depends = output(command("apt-cache", &["depends", "--important", package]))?;
    let image = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: ")).ok_or_else(|| {
        Error::lacking(format!("apt-cache knows no package behind {package}; run apt-get update"))
    })?;
    tools::unpack(image, folder)
}
