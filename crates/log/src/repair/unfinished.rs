//! Marks the folder of a log that is being rebuilt, so that nobody takes a part of it for the log.
//!
//! ```text
//! REBUILDING    rebuilding                         nothing is saved yet
//!               rebuilding SEGMENT OFFSET LINK     everything in front of this byte of this segment is durable
//!               …                                  what its owner notes behind that
//! ```
//!
//! A log whose folder holds the file is refused by everything that opens, reads or copies logs.
//!
//! Invariants: the file is there, durably, before the first segment, and goes when everything else is durable; it is moved on by a
//! rename, so that each look finds the old one or the new one.

use std::io::{ErrorKind, Read as _, Write as _};

use seawall_sys::directory::{Directory, Permissions};

use crate::error::{Error, Result};

/// The name of the file.
const MARKER: &str = "REBUILDING";
/// The name of one that is being written.
const STAGING: &str = "REBUILDING.new";
/// The longest one that is read, in bytes.
const BYTES_MAX: u64 = 64 << 10;

/// Where a rebuild was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    /// The segment.
    pub(crate) segment: u64,
    /// Everything before this byte of it is durable.
    pub(crate) offset: u64,
    /// The link of the last batch.
    pub(crate) link: u32,
}

/// Whether a file of this name marks a rebuild.
pub(crate) fn is_marker(name: &str) -> bool {
    name == MARKER || name == STAGING
}

/// Refuses a directory in which a log is being rebuilt.
pub(crate) fn refuse_unfinished(dir: &Directory) -> Result<()> {
    match dir.open_file(MARKER) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::io("open", dir.path().join(MARKER), source)),
        Ok(_) => Err(Error::Rebuilding { path: dir.path().to_path_buf() }),
    }
}

/// What the marker in `dir` says, if there is one: where the rebuild was saved, and the note of its owner.
pub(crate) fn read(dir: &Directory) -> Result<Option<(Option<Saved>, String)>> {
    let failed = |source| Error::io("read", dir.path().join(MARKER), source);
    let mut text = String::new();
    match dir.open_file(MARKER) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => {
            let read = opened.and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text));
            read.map_err(failed)?;
        }
    }
    let damaged = || {
        let what = "it is not understood: remove the folder, and begin again";
        failed(std::io::Error::new(ErrorKind::InvalidData, what))
    };
    parse(&text).map(Some).ok_or_else(damaged)
}

fn parse(text: &str) -> Option<(Option<Saved>, String)> {
    let (head, note) = text.split_once('\n')?;
    let words: Vec<&str> = head.split(' ').collect();
    let saved = match words[..] {
        ["rebuilding"] => None,
        ["rebuilding", segment, offset, link] => {
            let (segment, offset, link) = (segment.parse().ok()?, offset.parse().ok()?, link.parse().ok()?);
            Some(Saved { segment, offset, link })
        }
        _ => return None,
    };
    Some((saved, note.to_owned()))
}

/// Makes the marker durable, in place of an older one.
pub(crate) fn write(dir: &Directory, saved: Option<Saved>, note: &str) -> Result<()> {
    let head = saved.map_or_else(String::new, |at| format!(" {} {} {}", at.segment, at.offset, at.link));
    let put = || {
        remove_if_there(dir, STAGING)?;
        let mut made = dir.make_file(STAGING, Permissions::OwnerOnly)?;
        write!(made, "rebuilding{head}\n{note}")?;
        made.sync_all()?;
        drop(made);
        dir.replace(STAGING, MARKER)?;
        dir.sync()
    };
    put().map_err(|source| Error::io("write", dir.path().join(MARKER), source))
}

/// Removes the marker durably: from now on the directory holds a log.
pub(crate) fn remove(dir: &Directory) -> Result<()> {
    let removed = remove_if_there(dir, STAGING).and_then(|()| remove_if_there(dir, MARKER));
    removed.and_then(|()| dir.sync()).map_err(|source| Error::io("remove", dir.path().join(MARKER), source))
}

fn remove_if_there(dir: &Directory, name: &str) -> std::io::Result<()> {
    match dir.remove(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Saved, parse};

    #[test]
    fn a_marker_is_understood_or_refused() {
        let saved = Saved { segment: 7, offset: 4096, link: 9 };
        assert_eq!(parse("rebuilding\n"), Some((None, String::new())));
        assert_eq!(parse("rebuilding 7 4096 9\na\nb"), Some((Some(saved), "a\nb".to_owned())));
        for wrong in ["", "rebuilding", "rebuilding 7\n", "rebuilding 7 4096 x\n", "something else\n"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
