//! Rewrites forward what streams still need of the oldest segments, so that a stream which lags does not hold the disk.
//!
//! ```text
//!   oldest segment        …         newest segment
//!   [a1 b1 a2 b2 …]                 [… a1']          a1 is needed, the rest was trimmed: a copy of a1 is appended, and
//!                                                    the segment goes when that copy is durable
//! ```
//!
//! A segment is rewritten when it holds little that is needed, or when the whole log does: so at most a third of what is
//! written are copies in the long run, and the log takes at most four times what its streams hold, and a few segments.
//!
//! Invariants: a record is copied only if it is still where it was when the copy gets its place; the segment goes only when
//! all copies are durable, because the trim that lets it go is stated behind them.

use std::sync::Arc;

use seawall_sys::directory::Directory;

use crate::commit::group::Group;
use crate::commit::state::Core;
use crate::error::{Error, Result};
use crate::format::{BATCH_HEADER_BYTES, RECORD_HEADER_BYTES, TAG_BYTES, tagged_header};
use crate::log::accept_large;
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::read::index::{RecordIndex, Wanted};
use crate::stream::state::Numbering;
use crate::stream::table::Needed;

/// Segments of a log that is left as it is.
const SEGMENTS_MIN: usize = 4;
/// A segment, or the log, is rewritten when less than one part in so many is needed.
const NEEDED_SHARE: u64 = 4;
/// Records that are copied between two commits.
const AT_ONCE: usize = 256;

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
    fn is_rewritten(self) -> bool {
        let sparse = |needed: u64, bytes: u64| needed.saturating_mul(NEEDED_SHARE) <= bytes;
        self.segments > SEGMENTS_MIN
            && (sparse(self.oldest_needed, self.oldest_bytes) || sparse(self.needed, self.bytes))
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
        while !self.group.status().is_stopping() {
            match self.step() {
                Ok(true) => {}
                Ok(false) => std::thread::park(),
                Err(error) => {
                    // A log that ends refuses the copies. Anything else is tried again when a segment is started.
                    if !self.group.status().is_closed() {
                        tracing::warn!(%error, "what streams need of the oldest segment could not be rewritten");
                    }
                    std::thread::park();
                }
            }
        }
    }

    /// The end of the oldest segment, if what is needed of it is to be rewritten.
    fn due(&self) -> Option<Lsn> {
        let core = self.group.core();
        let tagged = core.tagged();
        let (oldest_needed, end) = tagged.streams.oldest()?;
        // Without that the segment would not go either.
        let plain = core.trim_without_streams();
        let inventory = self.group.housekeeping().inventory();
        let segments = inventory.segments();
        let held = Held {
            segments: segments.len(),
            bytes: segments.iter().map(|segment| segment.segment_bytes).sum(),
            oldest_bytes: segments.front().map_or(0, |segment| segment.segment_bytes),
            needed: tagged.streams.live_bytes(),
            oldest_needed,
        };
        (plain >= end && oldest_needed > 0 && held.is_rewritten()).then_some(end)
    }

    /// Rewrites some records; returns whether there may be more.
    fn step(&self) -> Result<bool> {
        let Some(end) = self.due() else { return Ok(false) };
        let needed = self.group.core().tagged().streams.needed_before(end, AT_ONCE);
        let (mut records, mut bytes) = (0, 0);
        for needed in needed.into_iter().take(AT_ONCE) {
            if self.copy(&needed)? {
                records += 1;
                bytes += needed.place.map_or(0, |place| u64::from(place.bytes));
            }
        }
        // With that everything before it that was cut or trimmed becomes durable as well, and is released.
        let end = self.group.core().appended();
        self.group.commit(end, AckLevel::Full)?;
        self.group.recorder().rewritten(records, bytes);
        let first = self.group.core().trim();
        self.index.trimmed(&self.group, first);
        self.group.threads().note_activity();
        self.group.threads().wake_sleeping_writer();
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
        let config = self.group.config();
        let used = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + TAG_BYTES + payload.len();
        if Core::is_large(config, used) {
            let check = |core: &Core| core.tagged().streams.still_needs(needed);
            let (_, core) = accept_large::<true>(&self.group, [&head, payload], (1, Numbering::Kept), check)?;
            return Ok(core.tagged().streams.was_moved(needed));
        }
        let accepted = self.group.accept(|core| {
            copied = core.tagged().streams.still_needs(needed);
            if copied { core.append_tagged(&needed.tag, payload) } else { Ok(core.appended()) }
        });
        accepted.map(|_| copied)
    }
}
