//! Finds the LSN of the log at a given time, by the times of its batches.
//!
//! A time says when a batch was gathered, by the clock of the machine, and never goes back within a log. So the segment is
//! found by the times of the first batches, and the batch by the headers in that segment; no record is read.
//!
//! Invariant: every record before the LSN that is returned was gathered before the time, as far as the batches of the log
//! state theirs.

use std::sync::Arc;

use seawall_sys::directory::Directory;

use crate::commit::group::Group;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::{BatchKind, SegmentHeader};
use crate::lsn::Lsn;
use crate::read::reader::Files;
use crate::read::scan::Scan;

/// One read of headers in bytes.
const READ_BYTES: usize = 64 << 10;

/// The LSN of the first batch of records that was gathered at or after `time_us`, microseconds since 1970; the end of what is
/// durable if there is none.
pub(crate) fn lsn_at(group: &Arc<Group>, dir: &Arc<Directory>, time_us: u64) -> Result<Lsn> {
    let durable = group.durable();
    let (segments, first) = {
        let core = group.core();
        let segments: Vec<SegmentHeader> = group.housekeeping.inventory().segments.iter().copied().collect();
        (segments, core.trim())
    };
    let mut files = Files::new(Arc::clone(dir), Arc::clone(group));
    let found = search(&mut files, &segments, time_us, durable);
    let found = found.map_err(|error| {
        // A segment that was recycled meanwhile looks damaged, and is not.
        let now = group.core().trim();
        if now > first { Error::Trimmed { lsn: first, first: now } } else { error.in_dir(dir.path()) }
    });
    Ok(found?.max(first))
}

fn search(
    files: &mut Files<Arc<Group>>,
    segments: &[SegmentHeader],
    time_us: u64,
    durable: Lsn,
) -> Result<Lsn> {
    // The last segment that begins before the time holds the first batch at or after it, or the next one begins with it.
    let mut later = segments.len();
    let mut earlier = 0;
    while earlier < later {
        let middle = usize::midpoint(earlier, later);
        let begins = first_at(files, &segments[middle], 0, durable)?.is_none_or(|(_, time)| time >= time_us);
        if begins { later = middle } else { earlier = middle + 1 }
    }
    for segment in segments.iter().skip(later.saturating_sub(1)) {
        if let Some((lsn, _)) = first_at(files, segment, time_us, durable)? {
            return Ok(lsn);
        }
    }
    Ok(durable)
}

/// The first durable batch of records in a segment that was gathered at or after `time_us`, and when.
fn first_at(
    files: &mut Files<Arc<Group>>,
    segment: &SegmentHeader,
    time_us: u64,
    durable: Lsn,
) -> Result<Option<(Lsn, u64)>> {
    let mut scan = Scan::at(Cursor::start(*segment), READ_BYTES);
    while scan.cursor.lsn < durable && scan.cursor.segment.number == segment.number {
        let Some(header) = scan.step_over(files, durable)? else { break };
        if header.kind == BatchKind::Records && header.time_us >= time_us {
            return Ok(Some((header.lsn, header.time_us)));
        }
    }
    Ok(None)
}
