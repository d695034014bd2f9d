//! Prepares `cargo xtask crash --second-kernel`: Debian's kernel, an emulator and a static binary.
//!
//! Invariant: the kernel is unpacked under the target folder and never installed.

use crate::error::{Error, Result};
use crate::files;
use crate::runner;
use crate::shell::{cargo, command, output, status, target};
use crate::tools;
use std::path::{Path, PathBuf};
use std::process::Command;

const GUEST: &str = "x86_64-unknown-linux-musl";
/// Debian's kernel for virtual machines: the current one of the release.
const KERNEL: &str = "linux-image-cloud-amd64";

/// Provides everything and makes the cuts; the arguments go to `seawall-crash second-kernel`.
///
/// # Errors
/// What is missing or failed.
pub(crate) fn run(arguments: &[String]) -> Result {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    status(prepare()?.cuts(&words))
}

/// Everything that a cut needs, with what it is to be made of.
pub(crate) struct Prepared {
    crash: PathBuf,
    kernel: String,
    guest: String,
}

/// Installs and builds what a cut needs.
///
/// # Errors
/// What cannot be had here.
pub(crate) fn prepare() -> Result<Prepared> {
    tools::provide(&tools::SECOND_KERNEL)?;
    tools::provide_target(GUEST)?;
    let folder = target().join("second-kernel");
    if !folder.join("boot").is_dir() {
        unpack_kernel(&folder)?;
    }
    status(cargo(&["build", "--release", "--quiet", "--package", "seawall-cli", "--target", GUEST]))?;
    let guest = target().join(GUEST).join("release/seawall").display().to_string();
    let crash = runner::program(&runner::programs(&["--bin", "seawall-crash"])?, "crash/bin")?;
    Ok(Prepared { crash, kernel: folder.display().to_string(), guest })
}

impl Prepared {
    /// The program that makes the cuts.
    pub(crate) fn cuts(&self, more: &[&str]) -> Command {
        let Self { crash, kernel, guest } = self;
        command(crash, &[&["second-kernel", "--kernel", kernel, "--guest-binary", guest], more].concat())
    }
}

fn unpack_kernel(folder: &Path) -> Result {
    let depends = output(command("apt-cache", &["depends", "--important", KERNEL]))?;
    let package =
        depends.lines().find_map(|line| line.trim().strip_prefix("Depends: ")).ok_or_else(|| {
            Error::lacking(format!("apt-cache knows no package behind {KERNEL}; run apt-get update"))
        })?;
    files::make_folder(folder)?;
    let mut download = command("apt-get", &["download", package]);
    download.current_dir(folder);
    status(download)?;
    let mut files = files::list(folder)?.into_iter();
    let file = files.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let file =
        file.ok_or_else(|| Error::check(format!("apt-get left no package in {}", folder.display())))?;
    status(command("dpkg-deb", &[Path::new("--extract"), &file, folder]))
}
