//! Reaches a scratch folder by its name, on systems where no path leads through a descriptor.

use crate::error::Result;
use std::fs::{File, Metadata, OpenOptions};
use std::path::{Path, PathBuf};

pub(crate) fn make_folder(name: &Path) -> std::io::Result<()> {
    std::fs::create_dir(name)
}

pub(crate) fn is_own_folder(metadata: &Metadata) -> bool {
    metadata.is_dir()
}

pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

pub(crate) fn hold(name: &Path) -> Result<(Option<File>, PathBuf)> {
    Ok((None, name.to_path_buf()))
}

pub(crate) fn path_for_children(path: &Path) -> PathBuf {
    path.to_path_buf()
}

pub(crate) fn named(_: &Path) -> Option<PathBuf> {
    None
}
