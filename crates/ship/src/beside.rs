//! Compares a log with a destination batch by batch: how far one is behind the other, or where they diverge.
//!
//! ```text
//!   destination  … a b c d e              behind: the log has f, which will be shipped
//!   log          … a b c d e f
//!
//!   destination  … a b c x y              forked: another writer went on after c; d and e are only in the log
//!   log          … a b c d e
//! ```
//!
//! Invariant: both sides are read forwards, once, side by side; memory does not grow with the log.

use crate::error::{Error, Result};
use crate::note::Note;
use crate::shipping::diverged;
use seawall::{Lsn, SealedBatch, SealedFollower, View};
use seawall_sys::planted;
use std::path::Path;
use std::time::Duration;

/// How a log lies to what a destination has of it; they do not contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    /// Where the log ends.
    pub end: Lsn,
    /// Records of the log that the destination does not have yet.
    pub behind: u64,
    /// Whether another writer owns the destination, or one of several: then nothing more of this log goes there.
    pub is_replaced: bool,
}

/// The log beside what is read.
pub(crate) struct Beside {
    follower: SealedFollower,
    /// Where the destination's last batch ended.
    read: Lsn,
    /// Up to here both are the same.
    common: Lsn,
    /// The log has another batch there.
    is_forked: bool,
    has_ended: bool,
    /// Records of the log after that.
    records: u64,
}

impl Beside {
    /// The log in `dir`, from the last message on that it knows to be acknowledged; the destination begins with `begin`.
    pub(crate) fn open(dir: &Path, note: &Note, begin: Lsn) -> Result<Self> {
        let view = View::open(dir)?;
        let from = note.chain.needed.max(view.first_sealed()).max(begin);
        let follower = view.follow_sealed(from).map_err(|error| diverged(from, error))?;
        let (is_forked, has_ended) = (false, false);
        Ok(Self { follower, read: from, common: from, is_forked, has_ended, records: 0 })
    }

    /// The next batch of the log with records: marks take no LSN, and each batch states the one before it.
    fn next(&mut self) -> Result<Option<SealedBatch>> {
        loop {
            match self.follower.next_batch(Duration::ZERO)? {
                Some(batch) if batch.records == 0 => {}
                next => return Ok(next),
            }
        }
    }

    /// The destination has a batch that ends at `lsn`, with this link.
    pub(crate) fn step(&mut self, lsn: Lsn, link: u32) -> Result<()> {
        if lsn <= self.read || self.is_forked || self.has_ended {
            return Ok(());
        }
        self.read = lsn;
        match self.next()? {
            Some(here) if planted!(DrillForkUnseen, (here.end, here.link) != (lsn, link)) => {
                self.is_forked = true;
                self.records += u64::from(here.records);
            }
            Some(_) => self.common = lsn,
            None => self.has_ended = true,
        }
        Ok(())
    }

    /// The destinations end here; the last epoch there, and whether another writer owns one of them.
    ///
    /// # Errors
    /// [`Error::Forked`] if the log has records that never come there.
    pub(crate) fn end(mut self, epoch: u64, is_replaced: bool) -> Result<Between> {
        while let Some(batch) = self.next()? {
            self.records += u64::from(batch.records);
        }
        let (end, records) = (self.follower.lsn(), self.records);
        if records > 0 && (self.is_forked || planted!(DrillForkUnseen, is_replaced)) {
            return Err(Error::Forked { lsn: self.common, end, records, epoch });
        }
        Ok(Between { end, behind: records, is_replaced })
    }
}
