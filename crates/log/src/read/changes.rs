//! Detects cheaply whether a log has changed since it was read, by two small reads and the state of its directory.
//!
//! | what a writer does | how it is seen |
//! | --- | --- |
//! | writes a batch or a mark | a valid header stands where the walk through the last segment stopped |
//! | starts the next segment | a valid header stands in the prepared file after the last segment |
//! | makes, renames or removes a segment | the directory's time of change is another one |
//! | ends | the lock is free |
//!
//! Times of change are coarse: a change in the same tick as a look leaves the time as it was. So the names are listed
//! again a few times, at growing intervals, until the time is old.
//!
//! Invariant: what cannot be determined counts as changed.

use std::time::{Duration, SystemTime};

use seawall_sys::clock::monotonic_ns;

use crate::error::Result;
use crate::format::cursor::Cursor;
use crate::format::{BATCH_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, segment_name};
use crate::recovery::directory::READ_BLOCK_BYTES;
use crate::recovery::tail::Window;
use crate::segment::Spare;
use crate::storage::disk::{Access, Disk, FileId, open};
use crate::storage::os_disk::OsDisk;

/// The age of a change at which the names are listed for the first time, and for the last.
const LIST_FIRST: Duration = Duration::from_millis(50);
const LIST_LAST: Duration = Duration::from_secs(4);

/// What a look at the log saw, as far as a change shows in it.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Where the walk through the last segment stopped.
    pub(crate) cursor: Cursor,
    /// The checksum of the header that stood there though its batch was not valid.
    pub(crate) broken: Option<u32>,
    /// The file that is started next.
    next: Option<Spare>,
    names: Names,
}

/// The names in the directory, and when they changed.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    modified: Option<SystemTime>,
    listed: Vec<(String, u64)>,
    since_ns: u64,
    list_at: Duration,
}

impl Names {
    /// Lists the names. Called before the look that relies on them, so that a change during the look is noticed.
    pub(crate) fn of(disk: &mut OsDisk) -> Self {
        let modified = disk.dir.modified().ok();
        Self { modified, listed: list(disk), since_ns: monotonic_ns(), list_at: LIST_FIRST }
    }

    fn have_changed(&mut self, disk: &mut OsDisk) -> bool {
        if self.modified.is_none() || disk.dir.modified().ok() != self.modified {
            return true;
        }
        let age = Duration::from_nanos(monotonic_ns().saturating_sub(self.since_ns));
        if self.list_at > LIST_LAST || age < self.list_at {
            return false;
        }
        self.list_at = age * 2;
        list(disk) != self.listed
    }
}

/// The names and lengths, in order; none if they cannot be listed, which differs from those of any log.
fn list(disk: &mut OsDisk) -> Vec<(String, u64)> {
    let entries = disk.list().unwrap_or_default();
    let mut names: Vec<_> = entries.into_iter().map(|entry| (entry.name, entry.bytes)).collect();
    names.sort();
    names
}

/// The header of the batch at the cursor, if there is a valid one; its checksum.
pub(crate) fn peek(
    disk: &mut OsDisk,
    window: &mut Window,
    file: FileId,
    cursor: &Cursor,
) -> Result<Option<u32>> {
    if !cursor.has_room() {
        return Ok(None);
    }
    let name = segment_name(cursor.segment.number);
    let bytes = window.get(disk, (&name, file), cursor.offset, BATCH_HEADER_BYTES)?;
    Ok(cursor.check_header(bytes).ok().map(|(_, checksum)| checksum))
}

impl Watch {
    /// Of a log whose last segment was walked to `cursor`, with these files prepared after it.
    pub(crate) fn new(cursor: Cursor, broken: Option<u32>, unstarted: &[Spare], names: Names) -> Self {
        let next = unstarted.iter().find(|spare| spare.number > cursor.segment.number).copied();
        Self { cursor, broken, next, names }
    }

    /// Whether there may be other segments than there were.
    pub(crate) fn has_other_segments(&mut self, disk: &mut OsDisk) -> bool {
        self.names.have_changed(disk)
            || self.next.is_some_and(|spare| is_started(disk, spare).unwrap_or(true))
    }

    /// Whether a batch stands at the cursor that did not stand there. One whose body is not valid yet counts while there
    /// may be a writer to complete it.
    pub(crate) fn has_more(&self, disk: &mut OsDisk, written: bool) -> bool {
        let found = with_block(disk, self.cursor.segment.number, |disk, window, file| {
            peek(disk, window, file, &self.cursor)
        });
        found.map_or(true, |found| found.is_some() && (written || found != self.broken))
    }
}

/// Does `look` with one block of memory and a segment, past the page cache where the system can.
fn with_block<T>(
    disk: &mut OsDisk,
    number: u64,
    look: impl FnOnce(&mut OsDisk, &mut Window, FileId) -> Result<T>,
) -> Result<T> {
    let name = segment_name(number);
    let file = open(disk, &name, Access::Direct)?;
    let seen = look(disk, &mut Window::new(READ_BLOCK_BYTES), file);
    disk.close(file);
    seen
}

fn is_started(disk: &mut OsDisk, spare: Spare) -> Result<bool> {
    with_block(disk, spare.number, |disk, window, file| {
        let bytes = window.get(disk, (&segment_name(spare.number), file), 0, SEGMENT_HEADER_BYTES)?;
        Ok(SegmentHeader::decode(bytes, 0, spare.number, spare.bytes).is_ok())
    })
}
