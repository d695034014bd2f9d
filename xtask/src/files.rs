//! Reads and writes whole files, with errors that name them.

use crate::error::{Error, Result};
use serde_json::Value;
use std::path::Path;

pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(Error::at(path.display()))
}

pub(crate) fn read_json(path: &Path) -> Result<Value> {
    serde_json::from_str(&read(path)?).map_err(Error::at(path.display()))
}

pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result {
    std::fs::write(path, text).map_err(Error::at(path.display()))
}

/// Makes a folder, and those above it, where it is not there yet.
pub(crate) fn make_folder(path: &Path) -> Result {
    std::fs::create_dir_all(path).map_err(Error::at(path.display()))
}

/// The paths in a folder.
pub(crate) fn list(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(Error::at(folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}
