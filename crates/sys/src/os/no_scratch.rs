//! Reaches a scratch folder by its name, where no path leads through a descriptor.

#[cfg(unix)]
pub(crate) use super::scratch_unix::{is_own_folder, make_folder, private};
use crate::error::Result;
use std::fs::File;
use std::path::{Path, PathBuf};

#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) fn hold(name: &Path) -> Result<(Option<File>, PathBuf)> {
    Ok((None, name.to_path_buf()))
}

pub(crate) fn way_for_children(way: &Path) -> PathBuf {
    way.to_path_buf()
}

pub(crate) fn named(_: &Path) -> Option<PathBuf> {
    None
}

#[cfg(not(unix))]
pub(crate) fn make_folder(name: &Path) -> std::io::Result<()> {
    std::fs::create_dir(name)
}

#[cfg(not(unix))]
pub(crate) fn is_own_folder(metadata: &std::fs::Metadata) -> bool {
    metadata.is_dir()
}

#[cfg(not(unix))]
pub(crate) fn private(options: &mut std::fs::OpenOptions) -> &mut std::fs::OpenOptions {
    options
}
