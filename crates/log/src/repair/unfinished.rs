//! Marks the folder of a log that is being rebuilt, so that a part of it is not taken for the log.
//!
//! ```text
//! REBUILDING    rebuilding                         nothing is saved yet
//!               rebuilding SEGMENT OFFSET LINK     everything in front of this byte of this segment is durable
//!               …                                  what its owner notes after that
//! ```
//!
//! A log whose folder holds the file is refused by everything that opens, reads or copies logs.
//!
//! Invariants: the file is there, durably, before the first segment, and goes when everything else is durable; it is moved on by a
//! rename, so that each look finds the old one or the new one.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use seawall_sys::directory::{Directory, Permissions};

use crate::error::{Error, Result};
use crate::format::file_role;
use crate::format::names::{LOCK_FILE, REBUILD_MARKER, REBUILD_STAGING, is_hold, is_rebuild_marker};
use crate::lock::open_any_dir;
use crate::read::sealed::Saved;
use crate::storage::disk::{Disk as _, remove as remove_file};
use crate::storage::os_disk::OsDisk;

/// The longest one that is read, in bytes.
const BYTES_MAX: u64 = 64 << 10;

/// What the marker in `dir` says, if there is one: where the rebuild was saved, and the note of its owner.
pub(crate) fn read(dir: &Directory) -> Result<Option<(Option<Saved>, String)>> {
    let failed = |source| Error::io("read", dir.path().join(REBUILD_MARKER), source);
    let mut text = String::new();
    match dir.open_file(REBUILD_MARKER) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => {
            let read = opened.and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text));
            read.map_err(failed)?;
        }
    }
    let damaged = || {
        let what = "it cannot be parsed: remove the folder and start over";
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
    let text = format!("rebuilding{head}\n{note}");
    let written = dir
        .replace_content((REBUILD_MARKER, REBUILD_STAGING), Permissions::OwnerOnly, text.as_bytes())
        .and_then(|()| dir.sync());
    written.map_err(|source| Error::io("write", dir.path().join(REBUILD_MARKER), source))
}

/// What a file system puts into its root.
pub(crate) const LOST_AND_FOUND: &str = "lost+found";

/// Whether the folder holds nothing, or what an interrupted rebuild or backup in it has left.
pub(crate) fn is_free(to: &Path) -> Result<bool> {
    if !to.is_dir() {
        return Ok(false);
    }
    let dir = open_any_dir(to)?;
    let entries = dir.list().map_err(|source| Error::io("list", to, source))?;
    let others = |name: &String| name != LOST_AND_FOUND && !is_rebuild_marker(name) && name != LOCK_FILE;
    Ok(match read(&dir)? {
        Some((saved, note)) => saved.is_none() && note.is_empty(),
        None => !entries.into_iter().map(|entry| entry.name).any(|name| others(&name)),
    })
}

/// Marks `dir`, and then removes what an interrupted rebuild or backup in it has left.
pub(crate) fn begin(dir: &Directory, disk: &mut OsDisk) -> Result<()> {
    write(dir, None, "")?;
    let entries = disk.list().map_err(|source| Error::io("list", dir.path(), source))?;
    let left = entries.iter().filter(|entry| file_role(&entry.name).is_some() || is_hold(&entry.name));
    left.map(|entry| entry.name.as_str()).try_for_each(|name| remove_file(disk, name))
}

/// Removes the marker durably: from now on the directory holds a log.
pub(crate) fn remove(dir: &Directory) -> Result<()> {
    let removed = dir.remove_if_there(REBUILD_STAGING).and_then(|()| dir.remove_if_there(REBUILD_MARKER));
    removed
        .and_then(|()| dir.sync())
        .map_err(|source| Error::io("remove", dir.path().join(REBUILD_MARKER), source))
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
