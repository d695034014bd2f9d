//! Systems that do not report the users of a block device: refuses, because overwriting could destroy data.

use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::path::Path;

/// Every device is refused here, before anything else is called.
pub(crate) fn uses(path: &Path) -> Result<Vec<String>> {
    Err(unsupported(path))
}

pub(crate) fn open_exclusively(path: &Path) -> Result<File> {
    Err(unsupported(path))
}

pub(crate) fn bytes(_: &File, path: &Path) -> Result<u64> {
    Err(unsupported(path))
}

pub(crate) fn start(_: &File, path: &Path, _: usize) -> Result<Vec<u8>> {
    Err(unsupported(path))
}

pub(crate) fn description(_: &Path) -> String {
    String::new()
}

fn unsupported(path: &Path) -> Error {
    let why = "only Linux reports whether a device is in use: name a folder instead";
    Error::new("open", path, io::Error::new(io::ErrorKind::Unsupported, why))
}
