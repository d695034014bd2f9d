//! Reads and writes whole files, with errors that name them.

use crate::error::{Error, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(Error::at(path.display()))
}

pub(crate) fn read_json(path: &Path) -> Result<Value> {
    serde_json::from_str(&read(path)?).map_err(Error::at(path.display()))
}

pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result {
    std::fs::write(path, text).map_err(Error::at(path.display()))
}

pub(crate) fn make_folder(path: &Path) -> Result {
    std::fs::create_dir_all(path).map_err(Error::at(path.display()))
}

pub(crate) fn remove_folder(path: &Path) -> Result {
    std::fs::remove_dir_all(path).map_err(Error::at(path.display()))
}

pub(crate) fn empty_folder(path: &Path) -> Result {
    if path.exists() {
        remove_folder(path)?;
    }
    make_folder(path)
}

pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(Error::at(folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

pub(crate) fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = list(folder)?;
    for path in found.clone() {
        if path.is_dir() && !path.is_symlink() {
            found.extend(below(&path)?);
        }
    }
    Ok(found)
}

#[cfg(test)]
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = below(folder).expect("a folder of sources");
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    found
}
