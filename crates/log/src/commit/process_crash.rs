//! Commits that outlive only the process: copies records into crash memory instead of writing them.
//!
//! ```text
//!   commit_as(ProcessCrash) ─► core lock ─► records not issued yet ─► crash memory ─► acknowledged
//!                                  └── no memory, or no room in it: written by the relaxed row, as every other commit
//! ```
//!
//! The memory is made by the first such commit, so that a log without them pays nothing. Batches are written when they are
//! full, when a commit requests more, and when the log is idle; what the segments then hold makes room in the memory.
//!
//! Invariants: what is acknowledged lies in the memory or in the segments without a gap; nothing is stored after the log
//! has failed or ended, nor by a process that was forked off; why there is no memory is kept and shown, and what could not be made
//! for want of descriptors or room is retried.

use std::sync::{Arc, OnceLock};

use crate::commit::state::Core;
use crate::commit::sync::{Mutex, lock, monotonic_ns};
use crate::crash_memory::ring::Ring;
use crate::crash_memory::{MEMORY_FILE, Memory, MemoryHeader, SLOTS_AT};
use crate::format::LogId;
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use seawall_sys::crash_memory::{CrashMapping, boot_id};
use seawall_sys::directory::{Directory, Permissions};
use seawall_sys::planted;

/// Parts of the memory that are used again one by one.
const SLOTS: u32 = 16;

/// How a log serves commits that are to outlive the process only: see [`crate::Log::commit_as`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessCrashCommits {
    /// There was none yet.
    #[default]
    NoneYet,
    /// Their records are copied into memory that outlives the process.
    InMemory,
    /// They are written, by the relaxed row or the log's own.
    Written {
        /// Why not in memory.
        reason: String,
    },
}

/// Where and how large the memory is to be.
#[derive(Debug)]
pub(crate) struct MemoryPlan {
    pub(crate) dir: Arc<Directory>,
    pub(crate) permissions: Permissions,
    /// Its size in bytes, more or less.
    pub(crate) bytes: usize,
    pub(crate) log_id: LogId,
    pub(crate) epoch: u64,
}

#[derive(Debug)]
pub(crate) struct CrashMemory {
    plan: Result<MemoryPlan, &'static str>,
    ring: OnceLock<Mutex<Ring<CrashMapping>>>,
    refused: Mutex<Option<Refused>>,
}

/// Why it could not be made, and when that is retried.
#[derive(Debug)]
struct Refused {
    reason: String,
    wait_ns: u64,
    again_ns: u64,
}

/// How soon it is retried to make what could not be made, for the first time and at last, in nanoseconds.
const AGAIN_NS: (u64, u64) = (1_000_000_000, 60_000_000_000);

impl CrashMemory {
    /// Memory that is made when it is needed, or why there is none.
    pub(crate) fn new(plan: Result<MemoryPlan, &'static str>) -> Self {
        Self { plan, ring: OnceLock::new(), refused: Mutex::default() }
    }

    /// Whether there is memory, which is made now if it never was and no attempt has failed just before.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        self.ring.get().is_some() || self.is_made_at(monotonic_ns())
    }

    #[cold]
    fn is_made_at(&self, now_ns: u64) -> bool {
        let mut refused = lock(&self.refused);
        if self.ring.get().is_some() || refused.as_ref().is_some_and(|refused| now_ns < refused.again_ns) {
            return self.ring.get().is_some();
        }
        match self.plan.as_ref().map_err(|reason| (*reason).to_owned()).and_then(MemoryPlan::make) {
            Ok(ring) => {
                tracing::debug!("commits that outlive the process only go to memory");
                *refused = None;
                self.ring.set(Mutex::new(ring)).is_ok()
            }
            Err(reason) => {
                tracing::info!(%reason, "commits that outlive only the process are written to the disk");
                // Descriptors and room on the disk come back; what the options say stays.
                let wait_ns = refused.as_ref().map_or(AGAIN_NS.0, |last| (last.wait_ns * 2).min(AGAIN_NS.1));
                let wait_ns = if self.plan.is_ok() { wait_ns } else { u64::MAX };
                *refused = Some(Refused { reason, wait_ns, again_ns: now_ns.saturating_add(wait_ns) });
                false
            }
        }
    }

    /// Stores what was not issued yet; returns up to where everything outlives the process.
    #[inline]
    pub(crate) fn store(&self, core: &mut Core) -> Lsn {
        self.ring.get().map_or(Lsn::ZERO, |ring| store_unissued(&mut lock(ring), core))
    }

    /// Removes the memory of a log that was closed: everything in it is durable.
    pub(crate) fn remove(&self) {
        if let (Ok(plan), Some(_)) = (&self.plan, self.ring.get())
            && let Err(error) = plan.dir.remove(MEMORY_FILE)
        {
            // The epoch of the next opening makes it worthless all the same once that has been opened.
            tracing::warn!(%error, "crash memory of a closed log could not be removed");
        }
    }

    /// How such commits are served.
    pub(crate) fn shown(&self) -> ProcessCrashCommits {
        if self.ring.get().is_some() {
            return ProcessCrashCommits::InMemory;
        }
        let refused = lock(&self.refused);
        let written = |refused: &Refused| ProcessCrashCommits::Written { reason: refused.reason.clone() };
        refused.as_ref().map_or(ProcessCrashCommits::NoneYet, written)
    }
}

impl MemoryPlan {
    fn make(&self) -> Result<Ring<CrashMapping>, String> {
        let boot = boot_id().map_err(|unavailable| unavailable.0)?;
        let slot_bytes = (self.bytes.saturating_sub(SLOTS_AT) / SLOTS as usize) & !63;
        let header = MemoryHeader { log_id: self.log_id, boot, epoch: self.epoch, slots: SLOTS, slot_bytes };
        let bytes = header.file_bytes().ok_or("it does not fit into the address space")?;
        let memory = CrashMapping::make_in(&self.dir, MEMORY_FILE, self.permissions, bytes);
        memory.map(|memory| Ring::new(memory, &header)).map_err(|error| error.to_string())
    }
}

/// Stores the records of `core` that were not issued yet in `ring`, as far as they fit; returns up to where everything
/// outlives the process.
#[inline]
pub(crate) fn store_unissued<M: Memory>(ring: &mut Ring<M>, core: &mut Core) -> Lsn {
    let written = core.reached(AckLevel::Process);
    // What was stored in part ends inside of a transaction and does not count.
    let mut end = core.in_memory().max(written);
    // A batch without records says nothing of those before it, which may be in flight.
    for (lsn, bytes) in core.unissued().filter(|(_, bytes)| !bytes.is_empty()) {
        let stored = usize::try_from(ring.end().get().saturating_sub(lsn.get())).unwrap_or(usize::MAX);
        let rest = bytes.get(stored..).unwrap_or_default();
        let put = rest.is_empty() || ring.put(lsn.saturating_add(stored as u64), rest, written);
        if !planted!(MemoryFullIgnored, put) {
            break;
        }
        end = end.max(lsn.saturating_add(bytes.len() as u64));
    }
    core.note_in_memory(end);
    end
}

#[cfg(test)]
mod tests {
    use crate::commit::state::{Core, ResumePoint};
    use crate::format::{Tag, TagKind};
    use crate::lsn::Lsn;
    use crate::segment::{Place, Spare};
    use crate::stream::state::TaggedState;
    use crate::testing::fixtures;

    /// A log with a trim that was held back at its cap and would let the first segment go.
    fn holds_a_trim_back() -> Core {
        let segments =
            [(1, 0), (2, 100)].map(|(number, lsn)| fixtures::segment(number, 512, 1 << 16, Lsn::new(lsn)));
        let mut tagged = TaggedState::of(&segments);
        tagged.apply(&Tag { kind: TagKind::Data, stream: 1, number: 0 }, b"", (Lsn::ZERO, 100), 1);
        tagged.streams.hold_back(&Tag { kind: TagKind::StreamTrim, stream: 1, number: 1 });
        let place = Place { segment: 2, offset: 512, data_end: 1 << 16 };
        let spares = [3, 4, 5].map(|number| Spare { number, bytes: 1 << 16 }).to_vec();
        let resume = ResumePoint { end: Lsn::new(200), trim: Lsn::ZERO, place, spares, tagged };
        let mut core = Core::new(fixtures::config(512, 8192, 2), resume);
        core.set_trim(Lsn::new(150), Lsn::MAX);
        core
    }

    #[test]
    fn no_held_trim_is_stated_among_drained_records() {
        let drained_at = || {
            let mut core = holds_a_trim_back();
            core.set_draining(true);
            core.append(b"one").expect("fits");
            // As the thread that keeps segments does whenever it is woken.
            core.let_held_go();
            let next = core.appended();
            core.set_draining(false);
            assert!(core.let_held_go(), "it is stated behind them");
            next
        };
        let behind_the_first = Lsn::new(200 + 4 + 3);
        assert_eq!(drained_at(), behind_the_first);
        #[cfg(feature = "mutants")]
        {
            use crate::testing::mutant::{Mutant, finds};
            assert!(finds(Mutant::HeldStatedInDrain, || assert_eq!(drained_at(), behind_the_first)));
        }
    }
}
