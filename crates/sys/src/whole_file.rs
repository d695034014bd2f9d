//! Replaces a file by a whole new one: a temporary file that must be new, beside it, and a rename.
//!
//! Invariants: no link is followed and no existing file is written into, whatever stands at the file's name; a
//! reader sees the old text or the new one; a failure leaves no temporary file.

use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::output::replace_in;
use std::ffi::OsStr;
use std::io;
use std::path::Path;

/// Writes `bytes` as the whole content of `path`.
///
/// # Errors
/// The failed call and the path.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error| Error::new("replace", path, error);
    let name = path
        .file_name()
        .and_then(OsStr::to_str)
        .ok_or(io::ErrorKind::InvalidFilename.into())
        .map_err(failed)?;
    let directory = Directory::open_guarded(path.parent().unwrap_or(Path::new(""))).map_err(failed)?;
    replace_in(&directory, name, bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("report.md");
        replace(&path, b"one").expect("written");
        replace(&path, b"two").expect("written again");
        assert_eq!(std::fs::read(&path).expect("read"), b"two");
        std::fs::create_dir(dir.path().join("folder")).expect("made");
        std::fs::write(dir.path().join("folder/x"), b"x").expect("written");
        assert!(replace(&dir.path().join("folder"), b"three").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_its_place_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().expect("a folder");
        let (victim, path) = (dir.path().join("victim"), dir.path().join("report.md"));
        std::fs::write(&victim, b"precious").expect("written");
        std::os::unix::fs::symlink(&victim, &path).expect("linked");
        replace(&path, b"report").expect("written");
        assert_eq!(std::fs::read(&victim).expect("read"), b"precious");
        assert_eq!(std::fs::read(&path).expect("read"), b"report");
    }
}
