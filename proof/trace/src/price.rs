//! Replays the syncs of a run with other durations.
//!
//! A thread's syncs follow each other with the time between them as it was. Threads whose syncs ever ran at the same time do
//! not wait for each other; those of other threads keep their order, because one may have waited for the other.

use std::collections::{BTreeMap, BTreeSet};

/// One sync of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The thread.
    pub thread: u32,
    /// When it began and ended, nanoseconds.
    pub span_ns: (u64, u64),
    /// What it took without the cost of following, nanoseconds.
    pub time_ns: u64,
    /// The [`crate::Syncs::number`] of its row.
    pub row: usize,
    /// Whether it failed.
    pub failed: bool,
}

/// How much longer (or shorter) the run is when each sync takes `price` nanoseconds.
pub(crate) fn longer_ns(runs: &[Run], price: impl Fn(&Run) -> i128) -> i128 {
    let mut runs: Vec<&Run> = runs.iter().collect();
    runs.sort_by_key(|run| run.span_ns);
    let beside = beside(&runs);
    let waits = |one: u32, other: u32| !beside.contains(&(one.min(other), one.max(other)));
    // Of each thread: when its last sync ended, here and there.
    let mut ended: BTreeMap<u32, (i128, i128)> = BTreeMap::new();
    for run in runs {
        let (begin, end) = (i128::from(run.span_ns.0), i128::from(run.span_ns.1));
        let before = || ended.iter().filter(|(thread, _)| waits(**thread, run.thread)).map(|(_, ends)| *ends);
        let moved = before().max().map_or(begin, |(here, there)| begin - here + there);
        let begins = before().map(|(_, there)| there).max().map_or(moved, |last| moved.max(last));
        ended.insert(run.thread, (end, begins + (end - begin) + price(run) - i128::from(run.time_ns)));
    }
    let last = |ends: fn(&(i128, i128)) -> i128| ended.values().map(ends).max().unwrap_or(0);
    last(|ends| ends.1) - last(|ends| ends.0)
}

/// The pairs of threads, the smaller first, whose syncs ran at the same time at least once.
fn beside(sorted: &[&Run]) -> BTreeSet<(u32, u32)> {
    let mut pairs = BTreeSet::new();
    let mut running: Vec<&Run> = Vec::new();
    for run in sorted {
        running.retain(|other| other.span_ns.1 > run.span_ns.0);
        pairs
            .extend(running.iter().map(|other| (run.thread.min(other.thread), run.thread.max(other.thread))));
        running.push(run);
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::{Run, longer_ns};

    #[test]
    fn threads_that_ran_together_stay_apart_and_others_keep_their_order() {
        let run = |thread, begin: u64, end: u64| Run {
            thread,
            span_ns: (begin, end),
            time_ns: end - begin,
            row: 0,
            failed: false,
        };
        // (What, the syncs, how much longer the run is with 110 each, and with 5 each, in place of 10.)
        let rows: [(&str, &[Run], i128, i128); 6] = [
            ("no sync", &[], 0, 0),
            ("one thread", &[run(1, 0, 10), run(1, 50, 60)], 200, -10),
            (
                "two threads at once",
                &[run(1, 0, 10), run(2, 5, 15), run(1, 50, 60), run(2, 55, 65)],
                200,
                -10,
            ),
            ("two threads, one after the other", &[run(1, 0, 10), run(2, 50, 60), run(1, 70, 80)], 300, -15),
            (
                "a thread that synced once at the start",
                &[run(1, 0, 10), run(2, 20, 30), run(2, 40, 50)],
                300,
                -15,
            ),
            (
                "the shorter one becomes the longer",
                &[run(1, 0, 10), run(1, 11, 21), run(2, 5, 15), run(2, 90, 100), run(1, 22, 32)],
                232,
                -10,
            ),
        ];
        for (what, runs, slower, faster) in rows {
            assert_eq!(longer_ns(runs, |_| 110), slower, "{what}");
            assert_eq!(longer_ns(runs, |_| 5), faster, "{what}");
            assert_eq!(longer_ns(runs, |run| i128::from(run.time_ns)), 0, "{what}");
        }
    }
}
