//! The reader thread: follows the log and gathers its batches into parcels.
//!
//! Invariant: it waits while the inbox is full, so that memory is bounded by [`Settings::memory_bytes`] and one parcel.

use super::Settings;
use super::state::{Age, LOOK, Sent, Shared};
use crate::writer::Parcel;
use seawall::{Lsn, SealedBatch, SealedFollower};
use seawall_sys::clock::{monotonic_ns, nanoseconds, unix_us};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long batches are left to gather in the log while no commit waits for the destination: a read of each as it comes would share the
/// disk with the next commit, which then takes twice as long.
const BEHIND: Duration = Duration::from_millis(5);

/// Reads the log and gathers its batches.
pub(super) struct Reader {
    pub(super) shared: Arc<Shared>,
    pub(super) follower: SealedFollower,
    /// Where the log ended when shipping began.
    pub(super) begun_end: Lsn,
}

/// A parcel that is being gathered.
struct Gathered {
    parcel: Parcel,
    batches: u64,
    since_ns: u64,
    /// Of its oldest batch with records.
    age: Option<Age>,
}

impl Reader {
    pub(super) fn run(mut self) {
        let mut gathered: Option<Gathered> = None;
        loop {
            let (stop, hurry, awaited) = {
                let state = self.shared.lock();
                (state.stop || state.failed.is_some(), state.hurry, state.is_awaited())
            };
            if stop {
                return;
            }
            let due = gathered.as_ref().is_some_and(|gathered| self.is_due(gathered));
            if due && !self.put(&mut gathered) {
                return;
            }
            let wait = gathered.as_ref().map_or(LOOK, |gathered| self.left(gathered).min(LOOK));
            let before = self.follower.link();
            let batch = match self.follower.next_batch(if awaited && !hurry { wait } else { Duration::ZERO })
            {
                Ok(None) if !awaited && !hurry => {
                    self.leave(wait.min(BEHIND));
                    self.follower.next_batch(wait)
                }
                batch => batch,
            };
            match batch {
                Ok(Some(batch)) => {
                    if batch.segment.is_some()
                        && gathered.as_ref().is_some_and(|open| open.parcel.records > 0)
                        && !self.put(&mut gathered)
                    {
                        return;
                    }
                    self.gather(&mut gathered, &batch, before);
                }
                Ok(None) if hurry => {
                    if !self.put(&mut gathered) {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(None) => {}
                Err(error) => return self.shared.fail(error.into()),
            }
        }
    }

    /// Waits for `time`, or until a commit waits.
    fn leave(&self, time: Duration) {
        let until_ns = monotonic_ns() + nanoseconds(time);
        let mut state = self.shared.lock();
        while !(state.is_awaited() || state.hurry || state.stop) {
            let left = Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()));
            if left.is_zero() {
                return;
            }
            state = self.shared.asked.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn gather(&self, gathered: &mut Option<Gathered>, batch: &SealedBatch, before: u32) {
        let open = gathered.get_or_insert_with(|| Gathered {
            parcel: Parcel {
                lsn: batch.lsn,
                end: batch.lsn,
                link_before: before,
                link: before,
                records: 0,
                time_us: 0,
                sent_us: 0,
                // As it grows, the old and the new one would be there at once.
                bytes: Vec::with_capacity(self.gather_bytes()),
            },
            batches: 0,
            since_ns: monotonic_ns(),
            age: None,
        });
        if batch.records > 0 && open.age.is_none() {
            open.age = Some(Age::of(batch.time_us, batch.end <= self.begun_end));
            self.shared.lock().gathering = open.age;
        }
        open.batches += u64::from(batch.records > 0);
        batch.append_to(&mut open.parcel.bytes);
        let parcel = &mut open.parcel;
        (parcel.end, parcel.link) = (batch.end, batch.link);
        parcel.records += batch.records;
        parcel.time_us = parcel.time_us.max(batch.time_us);
    }

    fn is_due(&self, gathered: &Gathered) -> bool {
        let full = gathered.parcel.bytes.len() >= self.gather_bytes();
        gathered.parcel.records > 0 && (full || self.left(gathered).is_zero())
    }

    /// Batches are gathered up to this many bytes.
    fn gather_bytes(&self) -> usize {
        let Settings { memory_bytes, bytes_per_second, .. } = self.shared.settings;
        // No object takes longer than half a minute of the bandwidth.
        let paid = bytes_per_second
            .map_or(usize::MAX, |rate| usize::try_from(rate.get()).unwrap_or(usize::MAX).saturating_mul(30));
        self.shared.facts.gather_bytes.min(memory_bytes / 8).min(paid)
    }

    /// How long the parcel may wait for more.
    fn left(&self, gathered: &Gathered) -> Duration {
        let waited = Duration::from_nanos(monotonic_ns() - gathered.since_ns);
        let bound = if self.shared.facts.gather_bytes == 0 {
            Duration::ZERO
        } else {
            self.shared.settings.gather_time
        };
        if gathered.parcel.records == 0 { LOOK } else { bound.saturating_sub(waited) }
    }

    /// Puts what was gathered into the inbox, once there is room; `false` if shipping ends.
    fn put(&self, gathered: &mut Option<Gathered>) -> bool {
        let Some(Gathered { mut parcel, batches, age, .. }) =
            gathered.take_if(|open| open.parcel.records > 0)
        else {
            return true;
        };
        parcel.sent_us = unix_us();
        // Many may wait while the destination is away: each takes what it holds.
        parcel.bytes.shrink_to_fit();
        let mut state = self.shared.lock();
        loop {
            let inbox_bytes = state.inbox_bytes + parcel.bytes.len();
            let is_full = state.inbox_bytes > 0 && inbox_bytes > self.shared.settings.memory_bytes / 4;
            let left = state.pace.map_or(Duration::ZERO, |pace| pace.left(monotonic_ns()));
            if !is_full && left.is_zero() {
                break;
            }
            if state.stop || state.failed.is_some() {
                return false;
            }
            let wait = if is_full { LOOK } else { left.min(LOOK) };
            let woken = self.shared.progress.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(pace) = &mut state.pace {
            pace.took(parcel.bytes.len(), monotonic_ns());
        }
        state.inbox_bytes += parcel.bytes.len();
        state.records_read += u64::from(parcel.records);
        state.read = parcel.end;
        let (records, bytes) = (state.records_read, parcel.bytes.len());
        let (end, age) = (parcel.end, age.unwrap_or_else(|| Age::of(0, false)));
        state.gathering = None;
        state.unacknowledged.push_back(Sent { end, age, records, batches, bytes });
        state.inbox.push_back(parcel);
        drop(state);
        self.shared.work.notify_one();
        true
    }
}
