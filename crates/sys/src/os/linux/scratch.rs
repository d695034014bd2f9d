//! Reaches a scratch folder through its held descriptor: `/proc/self/fd/N` leads to the folder, not to its name.

use super::super::scratch_unix;
pub(crate) use super::super::scratch_unix::{is_own_folder, make_folder, private};
use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Where this process sees its descriptors.
const DESCRIPTORS: &str = "/proc/self/fd/";

/// The descriptor of the folder and the way through it.
pub(crate) fn hold(name: &Path) -> Result<(Option<File>, PathBuf)> {
    let told = |operation, error| Error::new(operation, name, error);
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let held =
        File::options().read(true).custom_flags(flags).open(name).map_err(|error| told("open", error))?;
    let metadata = held.metadata().map_err(|error| told("stat", error))?;
    if !scratch_unix::is_own_folder(&metadata) {
        let why = "somebody else put another folder in its place";
        return Err(told("open", io::Error::new(io::ErrorKind::PermissionDenied, why)));
    }
    let way = PathBuf::from(format!("{DESCRIPTORS}{}", held.as_raw_fd()));
    let seen = fs::metadata(&way).map(|seen| (seen.dev(), seen.ino()));
    if !matches!(seen, Ok(seen) if seen == (metadata.dev(), metadata.ino())) {
        let why = "/proc/self/fd does not show it: mount /proc";
        return Err(told("open", io::Error::new(io::ErrorKind::Unsupported, why)));
    }
    Ok((Some(held), way))
}

/// The way for a process that this one starts.
pub(crate) fn way_for_children(way: &Path) -> PathBuf {
    match way.strip_prefix("/proc/self/fd") {
        Ok(rest) => PathBuf::from(format!("/proc/{}/fd", std::process::id())).join(rest),
        Err(_) => way.to_path_buf(),
    }
}

/// The name of what a path through a descriptor leads to.
pub(crate) fn named(path: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix("/proc/self/fd").ok()?;
    let mut parts = rest.components();
    let name = fs::read_link(Path::new(DESCRIPTORS).join(parts.next()?)).ok()?;
    let below = parts.as_path();
    Some(if below.as_os_str().is_empty() { name } else { name.join(below) })
}
