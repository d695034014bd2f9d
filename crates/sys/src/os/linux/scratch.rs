//! Reaches a scratch folder through its held descriptor: `/proc/self/fd/N` leads to the folder, not to its name.

pub(crate) use crate::os::unix::scratch::{is_own_folder, make_folder, private};

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Where this process sees its descriptors.
const DESCRIPTORS: &str = "/proc/self/fd/";

/// The descriptor of the folder and the path through it.
pub(crate) fn hold(name: &Path) -> Result<(Option<File>, PathBuf)> {
    let failed = |operation, error| Error::new(operation, name, error);
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let held =
        File::options().read(true).custom_flags(flags).open(name).map_err(|error| failed("open", error))?;
    let metadata = held.metadata().map_err(|error| failed("stat", error))?;
    if !is_own_folder(&metadata) {
        let why = "another user put another folder in its place";
        return Err(failed("open", io::Error::new(io::ErrorKind::PermissionDenied, why)));
    }
    let path = PathBuf::from(format!("{DESCRIPTORS}{}", held.as_raw_fd()));
    let seen = fs::metadata(&path).map(|seen| (seen.dev(), seen.ino()));
    if !matches!(seen, Ok(seen) if seen == (metadata.dev(), metadata.ino())) {
        let why = "/proc/self/fd does not show it: mount /proc";
        return Err(failed("open", io::Error::new(io::ErrorKind::Unsupported, why)));
    }
    Ok((Some(held), path))
}

pub(crate) fn path_for_children(path: &Path) -> PathBuf {
    match path.strip_prefix("/proc/self/fd") {
        Ok(rest) => PathBuf::from(format!("/proc/{}/fd", std::process::id())).join(rest),
        Err(_) => path.to_path_buf(),
    }
}

pub(crate) fn named(path: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix("/proc/self/fd").ok()?;
    let mut parts = rest.components();
    let name = fs::read_link(Path::new(DESCRIPTORS).join(parts.next()?)).ok()?;
    let below = parts.as_path();
    Some(if below.as_os_str().is_empty() { name } else { name.join(below) })
}
