//! Samples a disk for as long as it is wanted, in short bursts of durable commits: what `seawall watch` does.
//!
//! [`schedule`] decides when a burst is due, how large it may be and when it is put off; [`burst`] is one, on any testbed.
//!
//! Invariants: a burst takes no longer than its share of the time until the next, but for its first commit; it writes only
//! into the journal that [`prepare`] made.

pub mod schedule;

use crate::block::Slice;
use crate::testbed::writers::{self, Crew};
use crate::testbed::{Block, BlockError, FILL_BYTES, Testbed, Until};
use schedule::Policy;
use seawall_host::journal::Recipe;
use seawall_sys::counters::{Counting, Counts, Watched};
use seawall_sys::durability::{DeviceCache, FileState};
use seawall_sys::inspect::{Device, Environment};
use seawall_sys::method::Method;
use std::sync::atomic::AtomicBool;

/// Size of a commit, bytes.
pub const COMMIT_BYTES: usize = 4096;

/// The file that is written round and round: large enough that a burst does not come back to a place soon.
pub const JOURNAL: Recipe =
    Recipe { state: FileState::ZeroFilled, bytes: 4 << 20, fill_bytes: FILL_BYTES, keep_cached: false };

/// Proves the method here and makes the journal; what the devices counted during single commits.
///
/// # Errors
/// The method is not available, or a call failed.
pub fn prepare(testbed: &mut dyn Testbed, method: &'static Method) -> Result<Option<Watched>, BlockError> {
    let watched = testbed.prove(method, &JOURNAL, COMMIT_BYTES)?;
    testbed.make_journal(&JOURNAL, &mut |_| true)?;
    Ok(watched)
}

/// What is missing of the flushes of a burst, where the devices count each of them and no write of the method can stand for one:
/// its commits follow one another, so that each needs a flush of its own.
pub fn missing(place: &Environment, method: &Method, commits: u64, counted: &Counts) -> Option<String> {
    let cached = || place.leaves().filter(|leaf| leaf.write_cache != DeviceCache::WriteThrough);
    let counts = |leaf: &Device| {
        leaf.write_cache == DeviceCache::WriteBack && leaf.counting == Some(Counting::Flushes)
    };
    let all_count = cached().next().is_some() && cached().all(counts);
    let may_force = place.file_system.may_force(method) && cached().all(|leaf| leaf.fua != Some(false));
    (all_count && !may_force && counted.flushes < commits)
        .then(|| format!("the device counted {} flushes during {commits} commits", counted.flushes))
}

/// A burst of commits, from the `first`-th of all bursts on.
///
/// # Errors
/// The failed call: the journal must not be written to again.
pub fn burst(
    testbed: &mut dyn Testbed,
    method: &'static Method,
    policy: &Policy,
    first: u64,
    stop: &AtomicBool,
) -> Result<Block, BlockError> {
    let until = Until { block_ns: policy.burst_ns(), stop };
    let crew = Crew { bytes: COMMIT_BYTES, pin_to: &[], seed: first, workload: None, until };
    let capacity = JOURNAL.bytes / COMMIT_BYTES as u64;
    let commits_max = policy.commits.into();
    let slice =
        Slice { first, commits_max, warm: commits_max.min(capacity), ..writers::slice(0, capacity, until) };
    testbed.commit(method, &crew, &[slice])
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::testbed::sim::{Plant, SimTestbed};

    fn commits(plants: Vec<Plant>, policy: &Policy) -> u64 {
        let mut testbed = SimTestbed::new(1, plants);
        let method = seawall_sys::methods::find("dsync").expect("a row");
        prepare(&mut testbed, method).expect("made");
        let block = burst(&mut testbed, method, policy, 7, &AtomicBool::new(false)).expect("commits");
        assert_eq!(block.samples.len(), 1);
        block.samples[0].latency.count()
    }

    #[test]
    fn one_flush_that_is_missing_in_a_burst_is_seen_where_each_is_counted() {
        let place = |cache, counting, fua| {
            let mut place = crate::sample::volatile(Vec::new()).environment;
            let device = Device { counting: Some(counting), fua: Some(fua), ..place.devices[0].clone() };
            place.devices = vec![Device { write_cache: cache, ..device }];
            place
        };
        let (back, through) = (DeviceCache::WriteBack, DeviceCache::WriteThrough);
        for (cache, counting, fua, id, flushes, expected) in [
            (back, Counting::Flushes, false, "direct+dsync", 7, true),
            (back, Counting::Flushes, false, "direct+dsync", 8, false),
            (back, Counting::Flushes, true, "direct+dsync", 0, false),
            (back, Counting::Flushes, true, "buffered+fdatasync", 0, true),
            (back, Counting::Writes, false, "buffered+fdatasync", 0, false),
            (through, Counting::Flushes, false, "buffered+fdatasync", 0, false),
            (DeviceCache::Unknown, Counting::Flushes, false, "buffered+fdatasync", 0, false),
        ] {
            let method = seawall_sys::methods::find(id).expect("a row");
            let counted = Counts { flushes, ..Counts::default() };
            let found = missing(&place(cache, counting, fua), method, 8, &counted);
            assert_eq!(found.is_some(), expected, "{cache:?} {counting:?} {fua} {id} {flushes}");
        }
        let mut synced = place(back, Counting::Flushes, true);
        synced.file_system.synchronous = true;
        for (id, expected) in [("direct", false), ("dsync", true)] {
            let method = seawall_sys::methods::find(id).expect("a row");
            let found = missing(&synced, method, 8, &Counts::default());
            assert_eq!(found.is_some(), expected, "{id} on a mount that syncs each write");
        }
    }

    #[test]
    fn a_burst_is_as_long_as_its_policy_allows() {
        let policy = Policy { every_ns: 15_000_000_000, commits: 8, busy_percent: 50 };
        assert_eq!(commits(Vec::new(), &policy), 8);
        let slow = vec![Plant::Stall { method: "dsync", every: 1, ns: 9_000_000 }];
        assert_eq!(commits(slow, &policy), 2, "two of 9 ms are above 15 ms");
        let stalls = vec![Plant::Stall { method: "dsync", every: 1, ns: 2_000_000_000 }];
        assert_eq!(commits(stalls, &policy), 1, "one is always made");
    }
}
