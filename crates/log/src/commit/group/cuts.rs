//! Shows readers what is cut off the log and its streams.

use std::sync::Arc;

use super::Group;
use crate::commit::state::Core;
use crate::commit::sync::{MutexGuard, Ordering, lock};
use crate::format::Tag;
use crate::stream::cuts::CutList;

impl Group {
    /// What is cut off the log, `None` if nothing is.
    pub(crate) fn cuts(&self) -> Option<Arc<CutList>> {
        let changes = self.cut_changes();
        if changes == 0 {
            return None;
        }
        let seen = lock(&self.cuts).clone();
        if seen.0 == changes {
            return Some(seen.1);
        }
        // Copied for the first reader that comes after a cut: cutting alone costs the same however much is cut.
        let core = self.core();
        let cuts = Arc::new(core.tagged.cuts.clone());
        *lock(&self.cuts) = (self.cut_changes(), Arc::clone(&cuts));
        Some(cuts)
    }

    /// Counts the changes of what is cut off the log, 0 as long as nothing is.
    #[inline]
    pub(crate) fn cut_changes(&self) -> u64 {
        self.cut_changes.0.load(Ordering::Acquire)
    }

    /// Counts the trims and cuts of streams.
    pub(crate) fn stream_changes(&self) -> u64 {
        self.stream_changes.load(Ordering::Acquire)
    }

    /// Streams were trimmed, cut or removed: readers look up again where their records are. Called under the core lock.
    pub(crate) fn note_stream_changes(&self, tags: &[Tag]) {
        if tags.is_empty() {
            return;
        }
        for tag in tags {
            self.stream_cuts.note(tag);
        }
        self.stream_changes.fetch_add(1, Ordering::AcqRel);
        self.threads.wake_rewriter();
        if self.is_bounded {
            // Appends may wait for what it lets go.
            self.threads.wake_maintenance();
        }
    }

    /// Has readers see what is cut off now, as the locked core has it.
    pub(crate) fn publish_cuts(&self, _: &MutexGuard<'_, Core>) {
        self.cut_changes.0.fetch_add(1, Ordering::Release);
    }
}
