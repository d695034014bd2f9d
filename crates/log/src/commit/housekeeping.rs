//! The requests of appends to the maintenance thread, and the inventory of segments.
//!
//! Lock order: the request, then the core, then the inventory.

use crate::commit::state::Core;
use crate::commit::sync::{Mutex, MutexGuard, lock};
use crate::error::Error;
use crate::segment::Spare;
use crate::segment::cap::OnFull;
use crate::segment::inventory::SegmentInventory;
use crate::segment::lifecycle::Task;
use seawall_sys::planted;

/// A segment that appends wait for.
#[derive(Debug, Default)]
struct SegmentRequest {
    /// A segment of this many bytes is needed.
    needed: Option<u64>,
    /// Why the last attempt to prepare a segment failed.
    failure: Option<Error>,
}

/// What the commit path and the maintenance thread share.
#[derive(Debug)]
pub(crate) struct Housekeeping {
    request: Mutex<SegmentRequest>,
    inventory: Mutex<SegmentInventory>,
}

impl Housekeeping {
    pub(crate) fn new(inventory: SegmentInventory) -> Self {
        Self { request: Mutex::default(), inventory: Mutex::new(inventory) }
    }

    pub(crate) fn inventory(&self) -> MutexGuard<'_, SegmentInventory> {
        lock(&self.inventory)
    }

    /// Requests a segment of at least `bytes` bytes, unless one was offered since the append was refused; `core` locks the
    /// core. Returns why preparing it failed, if it was `requested` before.
    pub(crate) fn request_segment<'a>(
        &self,
        core: impl FnOnce() -> MutexGuard<'a, Core>,
        bytes: u64,
        requested: bool,
    ) -> Option<Error> {
        let mut request = lock(&self.request);
        let failure = request.failure.take().filter(|_| requested);
        if failure.is_none() && planted!(RequestBehindOffer, core().lacks(bytes)) {
            request.needed = Some(request.needed.unwrap_or(0).max(bytes));
        }
        failure
    }

    /// The next task, if there is any; `core` locks the core.
    pub(crate) fn next_task<'a>(&self, core: impl FnOnce() -> MutexGuard<'a, Core>) -> Option<Task> {
        let mut request = lock(&self.request);
        let mut core = core();
        let mut inventory = lock(&self.inventory);
        core.next_task(&mut inventory, &mut request.needed)
    }

    /// Refuses the appends that wait for a segment when no task is left that would prepare one: the log is at its cap. `None` if
    /// none waits, if they are to wait for a trim, or if one that frees segments is about to be durable; `core` locks the core.
    pub(crate) fn refusal<'a>(
        &self,
        core: impl FnOnce() -> MutexGuard<'a, Core>,
        full: OnFull,
    ) -> Option<Error> {
        let request = lock(&self.request);
        let core = core();
        let inventory = lock(&self.inventory);
        let needed = request.needed?;
        // A task that came since the last look has woken the thread.
        if inventory.has_task(core.spares(), core.durable_trim()) {
            return None;
        }
        let cap = inventory.cap();
        // Nobody can trim a log that is not open yet.
        let waits = (full == OnFull::Wait && !core.is_draining()) || inventory.frees(core.trim());
        (cap.never_fits(needed) || !waits).then(|| cap.refusal(needed))
    }

    pub(crate) fn awaits_room(&self) -> bool {
        lock(&self.request).needed.is_some()
    }

    /// Whether appends wait for room and a trim that is not durable yet will free some; `core` locks the core.
    pub(crate) fn frees_awaited_room<'a>(&self, core: impl FnOnce() -> MutexGuard<'a, Core>) -> bool {
        let request = lock(&self.request);
        let core = core();
        request.needed.is_some() && lock(&self.inventory).frees(core.trim())
    }

    /// A segment could not be prepared: appends that wait for one return why.
    pub(crate) fn report_failure(&self, error: Error) {
        *lock(&self.request) = SegmentRequest { failure: Some(error), needed: None };
    }

    /// Offers a segment that is open for writing, and with it drops the request that it meets: if an append could come in
    /// between, the next look would prepare another one. `core` locks the core.
    pub(crate) fn offer<'a>(&self, core: impl FnOnce() -> MutexGuard<'a, Core>, spare: Spare) {
        let mut request = lock(&self.request);
        request.needed = request.needed.filter(|bytes| *bytes > spare.bytes);
        core().add_spare(spare);
    }
}
