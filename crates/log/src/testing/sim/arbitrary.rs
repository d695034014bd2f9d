//! Fuzzing entry point: recovers arbitrary files on a simulated disk, reads the log and recovers again.
//!
//! Memory and time are bounded by the size of the files.

use super::SimDisk;
use super::judge::READ_BYTES;
use super::life::plan;
use super::media::Media;
use super::read_back::read_all;
use crate::error::{Error, Result};
use crate::format::RECORD_HEADER_BYTES;
use crate::lsn::Lsn;
use crate::recovery::{Recovered, recover};
use crate::storage::disk::{Disk, write_all};
use seawall_sys::durability::Class;

/// What was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The first LSN that is left.
    pub first: Lsn,
    /// The end of the log.
    pub end: Lsn,
    /// The LSN and length of each record that was read.
    pub records: Vec<(Lsn, usize)>,
    /// Whether reading ended at damage in an older segment.
    pub damaged: bool,
}

fn read(disk: &mut SimDisk, recovered: &Recovered) -> Result<Found> {
    let resume = &recovered.resume;
    let mut found = Found { first: resume.trim, end: resume.end, records: Vec::new(), damaged: false };
    let seen = read_all(disk, recovered, READ_BYTES, |lsn, payload| {
        found.records.push((lsn, payload.len()));
        Ok(())
    });
    match seen {
        Ok(_) => {}
        Err(Error::Corrupt(_)) => found.damaged = true,
        Err(other) => return Err(other),
    }
    Ok(found)
}

/// Recovers the log that `files` (name and content) make up, and reads it; then does so again.
///
/// # Errors
/// What recovery refused the files with.
///
/// # Panics
/// If recovering a second time leads to anything but the same log with a later epoch, or if records do not follow one
/// another up to the end: that is a broken promise.
pub fn recover_files(files: &[(String, Vec<u8>)]) -> Result<Found> {
    let mut disk = SimDisk::idle(Media::default(), 0, None);
    for (name, bytes) in files {
        // Of two files with one name the first one counts.
        let Ok(file) = disk.create(name) else { continue };
        write_all(&mut disk, name, (file, 0), bytes, true)?;
        disk.close(file);
    }
    disk.sync_dir().map_err(|source| Error::io("sync", ".", source))?;
    let recovered = recover(&mut disk, &plan(false, Class::PowerLoss))?;
    let found = read(&mut disk, &recovered)?;
    let again = recover(&mut disk, &plan(false, Class::PowerLoss));
    if recovered.epoch == u64::MAX {
        assert!(matches!(again, Err(Error::Corrupt(_))), "there is no later epoch: {again:?}");
        return Ok(found);
    }
    let again = again.unwrap_or_else(|error| panic!("recovered once, refused the second time: {error}"));
    assert!(again.epoch > recovered.epoch, "every opening has an epoch of its own");
    assert_eq!(read(&mut disk, &again)?, found, "recovering twice leads to one log");
    in_order(&found);
    Ok(found)
}

/// Holds what was handed out against the log's own end.
fn in_order(found: &Found) {
    let mut due = None;
    for (lsn, length) in &found.records {
        assert!(due.is_none_or(|due| due == *lsn), "records follow one another without a gap");
        let bytes = (RECORD_HEADER_BYTES + length) as u64;
        due = lsn.checked_add(bytes);
        assert!(due.is_some_and(|due| due <= found.end), "nothing behind the end is handed out");
    }
    assert!(
        found.damaged || due.is_none_or(|due| due == found.end),
        "everything up to the end is handed out"
    );
}
