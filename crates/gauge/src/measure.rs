//! Runs and times commits in the one loop that every method and every testbed share.
//!
//! ```text
//!        t0            t1           t2
//!   -----|--- write ---|--- sync ---|-----    latency = t2 - t0, write = t1 - t0, sync = t2 - t1
//!   |
//!   scheduled arrival (with a rate): response = t2 - scheduled, so that a stall is charged to every commit
//!   that it delayed, not only to the one that met it
//! ```
//!
//! A commit of several writes makes them one after the other at consecutive places, and syncs once after the last.
//!
//! Slow commits are attributed: a commit above the method's own p99 has the thread's run-queue wait read right
//! after it. Reading that for every commit would cost a microsecond each, so it is read for slow ones and
//! every 64 commits; the waiting that goes with ordinary commits (measured over the spans without slow ones)
//! is taken off.
//!
//! Invariants: nothing allocates between t0 and t2; a failed commit is not recorded; after the first error the loop
//! ends.

use crate::block::{Sample, Slice};
use crate::latency::Latency;
use crate::row::Tail;
use crate::testbed::Lane;
use crate::workload::Workload;
use seawall_sys::Error;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `slice` on `lane`, which was loaded with the `bytes` bytes of a write, or of the largest of `workload`, until its
/// bounds or `stop`.
///
/// # Errors
/// The first failed call. What was measured before it is lost: the file can no longer be trusted.
pub(crate) fn run<L: Lane>(
    lane: &mut L,
    slice: &Slice,
    bytes: u64,
    workload: Option<&Workload>,
    stop: &AtomicBool,
) -> Result<Sample, Error> {
    let mut sample = Sample::default();
    let mut attribution = Attribution::new(slice.slow_ns, lane.wait_ns());
    let times = lane.times();
    let start_ns = lane.now_ns();
    let end_ns = start_ns.saturating_add(slice.time_max_ns);
    let mut done_ns = start_ns;
    let region = slice.capacity.saturating_mul(slice.writes).saturating_mul(bytes);
    let mut place = slice.first % slice.capacity * slice.writes * bytes;
    // Where a load has times of its own, a block goes on where the one before ended.
    let first_at_ns = workload.map_or(0, |load| load.step(slice.first).at_ns);
    while sample.commits < slice.commits_max && done_ns < end_ns && !stop.load(Ordering::Relaxed) {
        let next = workload.map(|load| load.step(slice.first + sample.commits));
        let arriving = next.filter(|_| workload.is_some_and(Workload::is_scheduled));
        let scheduled_ns = match (arriving, slice.interval_ns) {
            (Some(next), _) => Some(start_ns + (next.at_ns - first_at_ns)),
            (None, interval_ns) => interval_ns.map(|interval| start_ns + sample.commits * interval),
        };
        if let Some(scheduled_ns) = scheduled_ns {
            if scheduled_ns >= end_ns {
                break;
            }
            lane.sleep_until(scheduled_ns);
        }
        let bytes = next.map_or(bytes, |next| next.bytes.into());
        if let Some(next) = next {
            lane.resize(next.bytes as usize);
        }
        let commit_bytes = slice.writes * bytes;
        if place.saturating_add(commit_bytes) > region {
            place = 0;
        }
        let (nth, offset) = (slice.first + sample.commits, slice.base + place);
        place += commit_bytes;
        let t0 = lane.now_ns();
        for write in 0..slice.writes {
            lane.write(offset + write * bytes, nth * slice.writes + write)?;
        }
        let t1 = if slice.splits { lane.now_ns() } else { t0 };
        lane.sync()?;
        done_ns = lane.now_ns();
        let latency_ns = done_ns - t0;
        sample.latency.record(latency_ns);
        sample.spans.record(done_ns - start_ns, latency_ns);
        if slice.splits {
            sample.write.record(t1 - t0);
            sample.sync.record(done_ns - t1);
        }
        if let Some(scheduled_ns) = scheduled_ns {
            sample.response.record(done_ns - scheduled_ns);
        }
        sample.commits += 1;
        sample.bytes += commit_bytes;
        attribution.after(latency_ns, sample.commits, &sample.latency, || lane.wait_ns());
    }
    sample.elapsed_ns = done_ns - start_ns;
    sample.times = lane.times().since(&times);
    sample.tail = attribution.tail();
    Ok(sample)
}

/// Separates waiting for a CPU from waiting for the device, for slow operations.
pub(crate) struct Attribution {
    slow_ns: Option<u64>,
    last_wait_ns: Option<u64>,
    commits_since: u64,
    ordinary: Ordinary,
    tail: Tail,
}

/// The waiting of spans without a slow commit.
#[derive(Default)]
struct Ordinary {
    commits: u64,
    wait_ns: u64,
}

impl Attribution {
    const READ_EVERY: u64 = 64;
    const LEARN_FROM: u64 = 128;

    /// `slow_ns`: from where on an operation is slow; `None`: learned from the first ones. `wait_ns`: the account now.
    pub(crate) fn new(slow_ns: Option<u64>, wait_ns: Option<u64>) -> Self {
        Self {
            slow_ns,
            last_wait_ns: wait_ns,
            commits_since: 0,
            ordinary: Ordinary::default(),
            tail: Tail::default(),
        }
    }

    pub(crate) fn tail(&self) -> Tail {
        self.tail
    }

    /// An operation took `latency_ns`; it was the `done`-th, and `latencies` holds all. `wait_ns` reads the account.
    #[inline]
    pub(crate) fn after(
        &mut self,
        latency_ns: u64,
        done: u64,
        latencies: &Latency,
        wait_ns: impl FnOnce() -> Option<u64>,
    ) {
        self.commits_since += 1;
        let slow = self.slow_ns.is_some_and(|slow_ns| latency_ns > slow_ns);
        if slow || self.commits_since >= Self::READ_EVERY {
            self.read(slow.then_some(latency_ns), done, latencies, wait_ns());
        }
    }

    #[cold]
    fn read(&mut self, slow_latency_ns: Option<u64>, done: u64, latencies: &Latency, wait_ns: Option<u64>) {
        if self.slow_ns.is_none() && done >= Self::LEARN_FROM {
            self.slow_ns = Some(latencies.raw_percentile_ns(99.0));
        }
        let (Some(last_ns), Some(now_ns)) = (self.last_wait_ns, wait_ns) else { return };
        let waited_ns = now_ns.saturating_sub(last_ns);
        if let Some(latency_ns) = slow_latency_ns {
            let usual_ns =
                self.ordinary.wait_ns * self.commits_since.saturating_sub(1) / self.ordinary.commits.max(1);
            let wait_ns = waited_ns.saturating_sub(usual_ns).min(latency_ns);
            self.tail = self.tail.plus(&Tail { commits: 1, latency_ns, wait_ns });
        } else {
            self.ordinary.commits += self.commits_since;
            self.ordinary.wait_ns += waited_ns;
        }
        self.last_wait_ns = Some(now_ns);
        self.commits_since = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_host::thread::Times;
    use seawall_sys::buffer::Aligned;
    use std::cell::Cell;
    use std::ops::Range;

    /// Notes the calls, each of which takes a nanosecond.
    #[derive(Default)]
    struct Noted {
        now_ns: Cell<u64>,
        calls: Vec<String>,
    }

    impl Noted {
        fn note(&mut self, call: String) {
            self.now_ns.set(self.now_ns.get() + 1);
            self.calls.push(call);
        }
    }

    impl Lane for Noted {
        fn enter(&mut self, _: Option<usize>) -> Result<(), Error> {
            Ok(())
        }
        fn now_ns(&self) -> u64 {
            self.now_ns.get()
        }
        fn sleep_until(&mut self, _: u64) {}
        fn load(&mut self, _: Aligned) {}
        fn resize(&mut self, bytes: usize) {
            self.note(format!("resize {bytes}"));
        }
        fn write(&mut self, offset: u64, stamp: u64) -> Result<(), Error> {
            self.note(format!("write {offset} {stamp}"));
            Ok(())
        }
        fn sync(&mut self) -> Result<(), Error> {
            self.note("sync".to_owned());
            Ok(())
        }
        fn warm(&mut self, _: Range<u64>) -> Result<(), Error> {
            Ok(())
        }
        fn times(&self) -> Times {
            Times::default()
        }
        fn wait_ns(&self) -> Option<u64> {
            None
        }
    }

    #[test]
    fn a_load_has_its_sizes_one_behind_the_other_and_begins_anew_where_the_journal_ends() {
        let stop = AtomicBool::new(false);
        let until = crate::testbed::Until { block_ns: u64::MAX, stop: &stop };
        let slice = Slice { commits_max: 4, ..crate::testbed::writers::slice(100, 2, until) };
        let load = crate::workload::parse("10\n4\n").expect("a trace").workload;
        let mut lane = Noted::default();
        let sample = run(&mut lane, &slice, 10, Some(&load), &stop).expect("four commits");
        let expected = [
            "resize 10",
            "write 100 0",
            "sync",
            "resize 4",
            "write 110 1",
            "sync",
            // Ten more do not fit.
            "resize 10",
            "write 100 2",
            "sync",
            "resize 4",
            "write 110 3",
            "sync",
        ];
        assert_eq!(lane.calls, expected);
        assert_eq!((sample.commits, sample.bytes), (4, 28));
    }

    #[test]
    fn a_commit_makes_all_its_writes_at_consecutive_places_and_then_syncs_once() {
        let stop = AtomicBool::new(false);
        let until = crate::testbed::Until { block_ns: u64::MAX, stop: &stop };
        let two = crate::testbed::writers::slice(100, 2, until);
        let slice = Slice { writes: 2, commits_max: 3, first: 1, splits: true, ..two };
        let mut lane = Noted::default();
        let sample = run(&mut lane, &slice, 10, None, &stop).expect("three commits");
        let expected = [
            "write 120 2",
            "write 130 3",
            "sync", // the second place
            "write 100 4",
            "write 110 5",
            "sync", // round again
            "write 120 6",
            "write 130 7",
            "sync",
        ];
        assert_eq!(lane.calls, expected);
        let [whole, write, sync] = [&sample.latency, &sample.write, &sample.sync].map(Latency::max_ns);
        assert_eq!((sample.commits, whole, write, sync), (3, 3, 2, 1));
    }
}
