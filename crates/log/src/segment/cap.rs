//! Counts the disk space of a log and computes how many more segments may be prepared under its cap.
//!
//! ```text
//!   cap     segments + spares + the staging file + what could not be removed + one segment held back + rooms
//!   ahead   spares + rooms: the segments that can still be started
//!             records start one if two more are left, so that a trim and an opening find theirs
//!             a copy of what a stream needs of the oldest segment starts one if one more is left
//!             an opening starts one if one is left, otherwise it is refused
//!             a mark, which makes a trim durable, starts the last one, and so do trims of streams that let a segment go
//!             trims of streams that let none go are held back: see `recovery/held_trims.rs`
//!             without any, records are not accepted: marks and such trims get what is left of the segment
//! ```
//!
//! One segment is held back for an opening that must copy the newest one: see `recovery/copy_forward.rs`.
//!
//! Invariants: a log never takes more than its cap; a log that is open can always make a trim durable, and a trim that frees
//! segments lets records in again.

use crate::error::{Error, Result};
use crate::format::{FileRole, SegmentHeader, file_role};
use crate::segment::Spare;
use crate::storage::disk::Disk;
use seawall_sys::planted;

/// Segments that records leave to trims and openings.
pub(crate) const RECORDS_LEAVE: usize = 2;
/// The least cap, in segments: the one that is written to, one held back, and what a first record starts and leaves.
pub(crate) const SEGMENTS_LEAST: u64 = 6;

/// What an append gets that finds no room under [`crate::Options::disk_bytes_max`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFull {
    /// It waits until a trim has freed a segment: back-pressure.
    #[default]
    Wait,
    /// It returns [`Error::DiskCap`].
    Error,
}

/// The cap of one log, and what counts against it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cap {
    /// The most that the log takes, in bytes; `None` if it has no cap.
    pub(crate) bytes_max: Option<u64>,
    /// The size of the segments that are prepared, in bytes.
    pub(crate) segment_bytes: u64,
    /// What the log takes now, in bytes.
    pub(crate) disk_bytes: u64,
    /// The size of the newest segment, in bytes.
    pub(crate) newest_bytes: u64,
    /// The size of the largest one that is prepared, in bytes, 0 if there is none: it may be the newest next, and what is held
    /// back for that must not be missing then.
    pub(crate) spare_bytes: u64,
}

impl Cap {
    fn left(&self) -> Option<u64> {
        let spare_bytes = planted!(CapForgetsLargeSpare, self.spare_bytes);
        let held_back = self.segment_bytes.max(self.newest_bytes).max(spare_bytes);
        self.bytes_max.map(|max| max.saturating_sub(held_back).saturating_sub(self.disk_bytes))
    }

    /// Whether a segment of `bytes` bytes may be prepared.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let with_it = Self { spare_bytes: self.spare_bytes.max(bytes), ..*self };
        with_it.left().is_none_or(|left| bytes <= left)
    }

    /// How many segments may be prepared.
    pub(crate) fn rooms(&self) -> usize {
        let rooms = self.left().and_then(|left| left.checked_div(self.segment_bytes));
        rooms.map_or(usize::MAX, |rooms| usize::try_from(rooms).unwrap_or(usize::MAX))
    }

    /// Whether records could not start a segment of `bytes` bytes if everything were trimmed that can be, or not another one
    /// after it.
    pub(crate) fn never_fits(&self, bytes: u64) -> bool {
        let spare_and_left = (1 + RECORDS_LEAVE as u64) * self.segment_bytes;
        let fits_behind = |newest_bytes: u64, bytes: u64| {
            let disk_bytes = newest_bytes.saturating_add(bytes);
            let least = Self { disk_bytes, newest_bytes, spare_bytes: bytes, ..*self };
            least.left().is_none_or(|left| spare_and_left <= left)
        };
        !(fits_behind(self.newest_bytes, bytes) && fits_behind(bytes, self.segment_bytes))
    }

    /// The refusal of a segment of `needed` bytes; the directory is filled in by the caller.
    pub(crate) fn refusal(&self, needed: u64) -> Error {
        let bytes_max = self.bytes_max.unwrap_or(u64::MAX);
        Error::DiskCap { path: ".".into(), bytes_max, disk_bytes: self.disk_bytes, needed }
    }
}

/// What the log in this directory takes, in bytes.
pub(crate) fn owned_bytes<D: Disk>(disk: &mut D) -> Result<u64> {
    let entries = disk.list().map_err(|source| Error::io("list", ".", source))?;
    let owned = entries.iter().filter(|entry| is_counted(&entry.name));
    Ok(owned.map(|entry| entry.bytes).sum())
}

/// Whether a file of this name counts against the cap.
pub(crate) fn is_counted(name: &str) -> bool {
    matches!(file_role(name), Some(FileRole::Segment(_) | FileRole::Preparing(_)))
}

/// Refuses to open a log that takes more than its cap, or could not make a trim durable under it; nothing of it has been
/// changed. `starts` is the size of the segment that the opening starts after `newest`, if it does, which is one of `spares` if
/// there is any.
pub(crate) fn check_opening<D: Disk>(
    disk: &mut D,
    (bytes_max, segment_bytes): (Option<u64>, u64),
    newest: Option<&SegmentHeader>,
    (spares, starts): (&[Spare], Option<u64>),
) -> Result<()> {
    let Some(max) = bytes_max else { return Ok(()) };
    let newest_bytes = newest.map_or(0, |newest| newest.segment_bytes);
    // A spare that it starts holds marks enough for a trim, whatever is held back after it.
    let cap = Cap { bytes_max, segment_bytes, disk_bytes: owned_bytes(disk)?, newest_bytes, spare_bytes: 0 };
    let finds = |bytes| !spares.is_empty() || cap.has_room(bytes);
    let fits = cap.disk_bytes <= max && starts.is_none_or(finds);
    if fits { Ok(()) } else { Err(cap.refusal(segment_bytes)) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Cap;

    /// What an opening copies must be held back for the segment that is newest then.
    #[test]
    fn a_large_segment_takes_what_is_held_back_for_it_as_well() {
        let cap = |bytes_max, spare_bytes| Cap {
            bytes_max: Some(bytes_max),
            segment_bytes: 10,
            disk_bytes: 20,
            newest_bytes: 10,
            spare_bytes,
        };
        assert!(cap(70, 0).has_room(25) && !cap(69, 0).has_room(25));
        let started = Cap { newest_bytes: 25, spare_bytes: 0, ..cap(85, 25) };
        assert_eq!((cap(85, 0).rooms(), cap(85, 25).rooms(), started.rooms()), (5, 4, 4));
        #[cfg(feature = "mutants")]
        {
            use crate::testing::mutant::{Mutant, set};
            let (mutant, wrong) = (Mutant::CapForgetsLargeSpare, 5);
            set(Some(mutant));
            assert_eq!(cap(85, 25).rooms(), wrong);
            set(None);
        }
    }

    #[test]
    fn one_segment_is_held_back_and_the_rest_are_rooms() {
        let cap = |bytes_max, disk_bytes, newest_bytes| Cap {
            bytes_max,
            segment_bytes: 10,
            disk_bytes,
            newest_bytes,
            spare_bytes: 0,
        };
        for (max, taken, newest, rooms) in [
            (60, 20, 10, 3),
            (60, 21, 10, 2),
            (60, 50, 10, 0),
            (60, 70, 10, 0),
            (60, 20, 25, 1),
            (60, 20, 70, 0),
        ] {
            let cap = cap(Some(max), taken, newest);
            assert_eq!(cap.rooms(), rooms, "{cap:?}");
            let left = cap.left().expect("it has a cap");
            assert!(left >= 10 * rooms as u64 && left < 10 * (rooms as u64 + 1), "{cap:?}");
            assert_eq!(cap.has_room(10), rooms > 0, "{cap:?}");
        }
        let none = cap(None, u64::MAX, 10);
        assert!(none.has_room(u64::MAX) && none.rooms() == usize::MAX && !none.never_fits(1 << 40));
        assert!(!cap(Some(60), 60, 10).never_fits(10) && cap(Some(60), 20, 10).never_fits(11));
    }
}
