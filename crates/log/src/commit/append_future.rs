//! The future of an append that waits for memory or a segment without blocking a thread.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::commit::append_queue::Place;
use crate::error::Result;
use crate::log::Log;
use crate::lsn::Lsn;

/// Appends one record as soon as there is room for it; see [`Log::append_async`].
///
/// Nothing happens before the first poll. When it returns `Ok`, the whole record was appended; if it fails, or is dropped before it
/// is ready, nothing was appended.
#[must_use = "a future appends nothing before it is polled"]
pub struct AppendFuture<'a> {
    log: &'a Log,
    record: &'a [u8],
    place: Place,
    ended: bool,
}

impl<'a> AppendFuture<'a> {
    pub(crate) fn new(log: &'a Log, record: &'a [u8]) -> Self {
        Self { log, record, place: Place::default(), ended: false }
    }
}

impl std::fmt::Debug for AppendFuture<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppendFuture").field("bytes", &self.record.len()).finish_non_exhaustive()
    }
}

impl Future for AppendFuture<'_> {
    type Output = Result<Range<Lsn>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { log, record, place, ended } = self.get_mut();
        if *ended {
            // A caller that polls it once more must not append the record once more.
            return Poll::Pending;
        }
        log.group.status.check_process()?;
        let waited = place.is_taken();
        let queue = &log.group.waiters.appends;
        let size = (record.len(), log.is_large(record));
        let polled = queue.poll(place, size, context, || log.try_in_line(record));
        *ended = polled.is_ready();
        if place.is_taken() && !waited {
            log.group.recorder.stalled(log.group.core().lags());
        }
        polled
    }
}

impl Drop for AppendFuture<'_> {
    fn drop(&mut self) {
        // In a process that was forked off, a lock may be held for ever.
        if self.place.is_taken() && self.log.group.status.is_owner_process() {
            self.log.group.waiters.appends.give_up(&mut self.place);
        }
    }
}
