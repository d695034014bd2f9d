//! Rewrites forward what streams still need of the oldest segments, so that a lagging stream does not keep them on disk.
//!
//! ```text
//!   oldest segment        …         newest segment
//!   [a1 b1 a2 b2 …]                 [… a1']          a1 is needed, the rest was trimmed: a copy of a1 is appended, and
//!                                                    the segment goes when that copy is durable
//! ```
//!
//! A segment is rewritten when a quarter of it is needed or less, and whatever it holds when a third of the whole log is or less: so
//! at most a third of what is written are copies in the long run. From then on records are accepted no faster than what is needed
//! is rewritten, so that the log takes at most four times what its streams need, and eight segments:
//!
//! ```text
//!   0         needed                      3 x needed            4 x needed + 8 segments
//!   |----------|----------------------------|---------------------|
//!               records come as they like    ◄──────room─────────►    a step that copies one part in N of what is needed
//!                                                                     lets records take as much of the room that is left
//! ```
//!
//! Invariants: a record is copied only if it is still where it was when the copy gets its place; the segment goes only when
//! all copies are durable, because the trim that frees it comes after them; no append waits for this thread while it is idle.

use std::sync::Arc;

use seawall_sys::directory::Directory;

use crate::commit::group::Group;
use crate::commit::large::accept_large;
use crate::commit::state::Core;
use crate::error::{Error, Result};
use crate::format::{BATCH_HEADER_BYTES, RECORD_HEADER_BYTES, TAG_BYTES, tagged_header};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::read::index::{RecordIndex, Wanted};
use crate::stream::state::Numbering;
use crate::stream::table::Needed;

/// Segments of a log that is left as it is, unless it is at its cap.
const SEGMENTS_MIN: usize = 4;
/// A segment is rewritten when one part in this many of it is needed, or less.
const SEGMENT_SHARE: u64 = 4;
/// The same of the whole log.
const LOG_SHARE: u64 = 3;
/// A log takes at most this many times what is needed, and this many segments.
const LOG_SHARE_MAX: u64 = 4;
const SEGMENTS_MORE: u64 = 8;
/// Records that are copied between two commits, at most; their bytes are those of a batch. What waits for room gets some after each.
const AT_ONCE: usize = 8192;

/// What a log holds, as far as that decides whether its oldest segment is rewritten.
#[derive(Clone, Copy, Debug)]
struct Held {
    segments: usize,
    /// Bytes of all segments, and of the oldest one.
    bytes: u64,
    oldest_bytes: u64,
    /// What of each is needed, bytes.
    needed: u64,
    oldest_needed: u64,
}

impl Held {
    fn is_rewritten(self, is_full: bool) -> bool {
        let oldest_is_sparse = self.oldest_needed.saturating_mul(SEGMENT_SHARE) <= self.oldest_bytes;
        (self.segments > SEGMENTS_MIN || is_full) && (oldest_is_sparse || self.is_sparse())
    }

    fn is_sparse(self) -> bool {
        self.needed.saturating_mul(LOG_SHARE) <= self.bytes
    }

    /// What records may take of the disk until `copied` bytes are rewritten; `None` if any number of bytes.
    fn room(self, copied: u64) -> Option<u64> {
        let segment_bytes = self.bytes / self.segments.max(1) as u64;
        let most = self.needed * LOG_SHARE_MAX + segment_bytes * SEGMENTS_MORE;
        let room = u128::from(most.saturating_sub(self.bytes));
        let part = room * u128::from(copied) / u128::from(self.needed.max(copied).max(1));
        self.is_sparse().then(|| u64::try_from(part).unwrap_or(u64::MAX))
    }
}

/// Rewrites the segments of one log.
#[derive(Debug)]
pub(crate) struct Rewriter {
    pub(crate) group: Arc<Group>,
    pub(crate) dir: Arc<Directory>,
    pub(crate) index: Arc<RecordIndex>,
}

impl Rewriter {
    /// Runs until the log stops or fails.
    pub(crate) fn run(&self) {
        while !self.group.status.is_stopping() {
            match self.step() {
                Ok(true) => continue,
                Ok(false) => {}
                // A log that ends refuses the copies. Anything else is retried when a segment is started.
                Err(error) => {
                    if !self.group.status.is_closed() {
                        tracing::warn!(%error, "records of streams in the oldest segment could not be rewritten");
                    }
                }
            }
            self.pace(None);
            std::thread::park();
        }
        self.pace(None);
    }

    /// Lets records take this many bytes of the disk until this is called again; any number of them if there is none.
    fn pace(&self, bytes: Option<u64>) {
        let is_bound = self.group.core().pace(bytes);
        if is_bound {
            self.group.waiters.room_for_appends(self.group.config.batch_bytes);
        }
    }

    /// The end of the oldest segment, if what is needed of it is to be rewritten, and what the log holds.
    fn due(&self) -> Option<(Lsn, Held)> {
        let core = self.group.core();
        let tagged = &core.tagged;
        let (oldest_needed, end) = tagged.streams.oldest()?;
        // Without that the segment would not go either.
        let plain = core.trim_without_streams();
        let inventory = self.group.housekeeping.inventory();
        // Those that were trimmed are removed as soon as that is durable.
        let nexts = inventory.segments.iter().skip(1);
        let trimmed = nexts.take_while(|next| next.first_lsn <= core.trim()).count();
        let segments = inventory.segments.range(trimmed..);
        let held = Held {
            segments: segments.len(),
            bytes: segments.clone().map(|segment| segment.segment_bytes).sum(),
            oldest_bytes: segments.clone().next().map_or(0, |segment| segment.segment_bytes),
            needed: tagged.streams.live_bytes(),
            oldest_needed,
        };
        (plain >= end && oldest_needed > 0 && held.is_rewritten(core.is_full())).then_some((end, held))
    }

    /// Rewrites some records; returns whether there may be more.
    fn step(&self) -> Result<bool> {
        let Some((end, held)) = self.due() else { return Ok(false) };
        let at_once = (AT_ONCE, self.group.config.batch_bytes as u64);
        let needed = self.group.core().tagged.streams.needed_before(end, at_once);
        self.pace(held.room(needed.iter().map(Needed::bytes).sum()));
        let (mut records, mut bytes) = (0, 0);
        for needed in needed {
            if self.copy(&needed)? {
                records += 1;
                bytes += needed.place.map_or(0, |place| u64::from(place.bytes));
            }
        }
        // With that everything before it that was cut or trimmed becomes durable as well, and is released.
        let end = self.group.core().appended();
        self.group.commit(end, AckLevel::Full)?;
        self.group.recorder.rewritten(records, bytes);
        let first = self.group.core().trim();
        self.index.trimmed(&self.group, first);
        self.group.threads.note_activity();
        self.group.threads.wake_sleeping_writer();
        Ok(records > 0)
    }

    /// Appends a copy of one record, or a statement, if it is still needed there; whether it did.
    fn copy(&self, needed: &Needed) -> Result<bool> {
        let payload = match needed.place {
            None => None,
            Some(place) => match self.index.read(&self.group, &self.dir, Wanted::StartsAt(place.lsn)) {
                Ok(read) => Some(read.record.payload),
                // It was trimmed or cut meanwhile.
                Err(Error::Trimmed { .. } | Error::NoRecord { .. } | Error::BeyondEnd { .. }) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            },
        };
        let payload = payload.as_deref().unwrap_or_default();
        let mut copied = false;
        let head = tagged_header(payload.len(), false, &needed.tag);
        let Some(head) = head else { return Ok(false) };
        let config = &self.group.config;
        let used = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + TAG_BYTES + payload.len();
        if Core::is_large(config, used) {
            accept_large::<true>(&self.group, [&head, payload], true, |core, large| {
                copied = core.tagged.streams.still_needs(needed);
                if !copied {
                    return Ok(core.appended());
                }
                core.adopt(large.buf, large.used, (1, Numbering::Kept), large.sum)
            })?;
            return Ok(copied);
        }
        let accepted = self.group.accept(|core| {
            copied = core.tagged.streams.still_needs(needed);
            if copied { core.append_tagged(&needed.tag, payload) } else { Ok(core.appended()) }
        });
        accepted.map(|_| copied)
    }
}
