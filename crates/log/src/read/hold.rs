//! Stops trims for other processes: a pin in a file of the log's directory, which outlives every process.
//!
//! ```text
//! HOLD-NAME    hold LSN          the log keeps everything from there on
//!              …                 what its owner notes after that, which the log does not read
//! ```
//!
//! Who moves a hold may lock it, so that only one does ([`Hold::lock`]): by a file of its own, because the hold is replaced.
//!
//! A trim reads the files, so that the one who moves a hold needs no connection to the writer. What cannot be read holds
//! everything.
//!
//! Invariants: a hold is moved by a rename, so that each look finds the old one or the new one; its file is synced before it
//! gets the name, and a hold that a crash sets back holds more.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use seawall_sys::directory::{Directory, Permissions};

use crate::error::{Error, Result};
use crate::format::names::{HOLD_LOCK_PREFIX, HOLD_PREFIX, HOLD_STAGING_PREFIX};
use crate::lock::open_any_dir;
use crate::lsn::Lsn;

/// The longest file that is read, in bytes.
const HOLD_BYTES_MAX: u64 = 64 << 10;

/// A locked hold, which no other process moves: see [`Hold::lock`].
#[derive(Debug)]
pub struct HoldLock {
    _file: File,
}

/// A hold on a log: see [`Hold::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The log keeps everything from this LSN on.
    pub lsn: Lsn,
    /// The owner's note.
    pub note: String,
}

impl Hold {
    /// The hold called `name` on the log in `dir`, if there is one.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a name with other characters than letters, digits and `-`; [`Error::Io`], also for a file that is not a hold.
    pub fn read(dir: impl AsRef<Path>, name: &str) -> Result<Option<Self>> {
        let dir = open_any_dir(dir.as_ref())?;
        let file = file_name(name)?;
        read_in(&dir, &file).map_err(|source| Error::io("read", dir.path().join(file), source))
    }

    /// Makes every writer of the log in `dir` keep what lies after `self.lsn`, by a hold called `name`: durable when this
    /// returns, and respected by every later trim. It replaces the hold of that name.
    ///
    /// # Errors
    /// As [`Hold::read`].
    pub fn write(&self, dir: impl AsRef<Path>, name: &str) -> Result<()> {
        let dir = open_any_dir(dir.as_ref())?;
        let (file, staging) = (file_name(name)?, format!("{HOLD_STAGING_PREFIX}{name}"));
        let text = format!("hold {}\n{}", self.lsn, self.note);
        let written = dir
            .replace_content((&file, &staging), Permissions::OwnerOnly, text.as_bytes())
            .and_then(|()| dir.sync());
        written.map_err(|source| Error::io("write", dir.path().join(&file), source))
    }

    /// Locks the hold called `name`, which need not exist, until the lock is dropped or the process ends; `None` if it is locked already.
    ///
    /// # Errors
    /// As [`Hold::read`].
    pub fn lock(dir: impl AsRef<Path>, name: &str) -> Result<Option<HoldLock>> {
        let dir = open_any_dir(dir.as_ref())?;
        file_name(name)?;
        let file = format!("{HOLD_LOCK_PREFIX}{name}");
        let open = || match dir.open_file(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match dir.make_file(&file, Permissions::OwnerOnly) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => dir.open_file(&file),
                    made => made,
                }
            }
            opened => opened,
        };
        let failed = |source| Error::io("lock", dir.path().join(&file), source);
        let file = open().map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(HoldLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Removes the hold called `name`, if there is one.
    ///
    /// # Errors
    /// As [`Hold::read`].
    pub fn remove(dir: impl AsRef<Path>, name: &str) -> Result<()> {
        let dir = open_any_dir(dir.as_ref())?;
        let file = file_name(name)?;
        let removed = dir.remove_if_there(&file).and_then(|()| dir.sync());
        removed.map_err(|source| Error::io("remove", dir.path().join(&file), source))
    }
}

fn file_name(name: &str) -> Result<String> {
    let sound = !name.is_empty()
        && name.len() <= 100
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let reason = || format!("{name:?} is not a name for a hold: use letters, digits and `-`");
    let refusal = || Error::InvalidOption { option: "name", reason: reason() };
    sound.then(|| format!("{HOLD_PREFIX}{name}")).ok_or_else(refusal)
}

fn read_in(dir: &Directory, file: &str) -> std::io::Result<Option<Hold>> {
    let mut text = String::new();
    match dir.open_file(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?.take(HOLD_BYTES_MAX).read_to_string(&mut text)?,
    };
    let parsed = text.split_once('\n').and_then(|(head, note)| {
        let lsn = head.strip_prefix("hold ")?.parse().ok()?;
        Some(Hold { lsn, note: note.to_owned() })
    });
    let damaged = || std::io::Error::new(ErrorKind::InvalidData, "it does not begin with `hold LSN`");
    parsed.map(Some).ok_or_else(damaged)
}

/// The lowest LSN that a hold in `dir` names.
pub(crate) fn lowest(dir: &Directory) -> Result<Option<Lsn>> {
    let names = dir.list().map_err(|source| Error::io("list", dir.path(), source))?;
    let holds = names.into_iter().filter(|entry| entry.name.starts_with(HOLD_PREFIX));
    let mut lowest = None;
    for entry in holds {
        let read = read_in(dir, &entry.name);
        let read = read.map_err(|source| Error::io("read", dir.path().join(&entry.name), source))?;
        // One that was removed meanwhile holds nothing.
        let Some(hold) = read else { continue };
        lowest = Some(lowest.map_or(hold.lsn, |lowest: Lsn| lowest.min(hold.lsn)));
    }
    Ok(lowest)
}
