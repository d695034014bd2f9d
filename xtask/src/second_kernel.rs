//! Prepares `cargo xtask crash --second-kernel`: Debian's kernel, an emulator and a static binary.
//!
//! Invariant: the kernel is unpacked under the target folder and never installed.

use crate::shell::{cargo, command, output, root, status, target};
use crate::tools;

const GUEST: &str = "x86_64-unknown-linux-musl";
/// Debian's kernel for virtual machines: the current one of the release.
const KERNEL: &str = "linux-image-cloud-amd64";

/// Provides everything and makes the cuts; what follows goes to `seawall-crash second-kernel`.
///
/// # Errors
/// What is missing or failed.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    tools::provide(&tools::SECOND_KERNEL)?;
    tools::provide_target(GUEST)?;
    let folder = target().join("second-kernel");
    if !folder.join("boot").is_dir() {
        unpack_kernel(&folder)?;
    }
    status(cargo(&["build", "--release", "--package", "seawall-cli", "--target", GUEST]))?;
    let (folder, binary) =
        (folder.display().to_string(), target().join(GUEST).join("release/seawall").display().to_string());
    let mut words = vec!["run", "--release", "--quiet", "--package", "seawall-crash", "--", "second-kernel"];
    words.extend(["--kernel", &folder, "--guest-binary", &binary]);
    words.extend(arguments.iter().map(String::as_str));
    status(cargo(&words))
}

fn unpack_kernel(folder: &std::path::Path) -> Result<(), String> {
    let depends = output(command("apt-cache", &["depends", "--important", KERNEL]))?;
    let package = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))
        .ok_or_else(|| format!("apt-cache knows no package behind {KERNEL}; run apt-get update"))?;
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut download = command("apt-get", &["download", package]);
    download.current_dir(folder);
    status(download)?;
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = entries.flatten().map(|entry| entry.path());
    let file = files.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let file = file.ok_or_else(|| format!("apt-get left no package in {}", folder.display()))?;
    let (file, folder) = (file.display().to_string(), folder.display().to_string());
    let mut unpack = command("dpkg-deb", &["--extract", &file, &folder]);
    unpack.current_dir(root());
    status(unpack)
}
