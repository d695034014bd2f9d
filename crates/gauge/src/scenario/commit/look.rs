//! Looks at the methods that were not asked for, once and briefly, so that the best of each class is measured with the rest.
//!
//! ```text
//!   methods ──────────────────────────────┐
//!   others ── one block of 40 ms each ──┬─┴─ rows of the run
//!                                       └─ better by a tenth than all of `methods` of the same class: joins
//! ```
//!
//! A run of few methods has many samples of each. A method that is not much better in the short look would be the same
//! within noise in the long one.
//!
//! Invariants: no figure of a look is in the result; a method that cannot be had is listed with its reason, whether it was
//! asked for or not; what was left out is said in a note.

use super::super::settings::{Amount, Settings};
use super::super::{Observer, RunError};
use crate::block::Slice;
use crate::figures::plural;
use crate::row::{Outcome, Row};
use crate::testbed::writers::Crew;
use crate::testbed::{BlockError, Testbed, Until};
use seawall_sys::durability::Durability;
use seawall_sys::method::Method;
use std::sync::atomic::Ordering;

pub(crate) const LOOK_NS: u64 = 40_000_000;
/// Runs shorter than this have no time for looks, nanoseconds.
const RUN_MIN_NS: u64 = 5_000_000_000;
/// So much better a method must be to join.
const TIMES_BETTER: f64 = 1.1;
/// The most commits in one look, for methods that leave their bytes in memory.
const COMMITS_MAX: u64 = 1024;

/// What is measured.
pub(super) struct Chosen {
    pub(super) settings: Settings,
    /// One row a method, in the order of the settings.
    pub(super) rows: Vec<Row>,
    /// What was left out.
    pub(super) note: Option<String>,
}

/// The settings with every method that is proved: those asked for and the others, in the order of the table.
pub(super) fn tried(settings: &Settings) -> Settings {
    let mut methods = settings.methods.clone();
    methods.extend(settings.others.iter().filter(|other| !settings.methods.contains(other)));
    methods.sort_by_key(|method| seawall_sys::methods::here().iter().position(|known| known == *method));
    Settings { methods, others: Vec::new(), ..settings.clone() }
}

/// Whether others are looked at in a run of these settings: it has the time, and a look does not spoil the journal.
pub(crate) fn looks(settings: &Settings) -> bool {
    let has_time = match settings.amount {
        Amount::TimeNs(ns) => ns >= RUN_MIN_NS,
        Amount::Transactions(_) | Amount::Rounds => true,
    };
    has_time && !settings.fresh_journal_per_block() && !settings.others.is_empty()
}

/// The methods asked for, and of the others the best of each class if it is better than those.
pub(super) fn choose(
    settings: &Settings,
    tried: &Settings,
    mut rows: Vec<Row>,
    testbed: &mut dyn Testbed,
    observer: &mut dyn Observer,
) -> Result<Chosen, RunError> {
    let mut looked: Vec<Option<u64>> = vec![None; rows.len()];
    if looks(settings) {
        for (index, method) in tried.methods.iter().copied().enumerate() {
            if rows[index].measured().is_none() {
                continue;
            }
            if observer.stop().load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            observer.doing(&format!("a short look at {}", method.id));
            match look(tried, method, index, testbed, observer) {
                Ok(p50_ns) => looked[index] = p50_ns,
                Err(_) if observer.stop().load(Ordering::Relaxed) => return Err(RunError::Stopped),
                Err(BlockError::Run(error)) => return Err(error.into()),
                Err(BlockError::Row(error)) => {
                    rows[index].outcome = error.into();
                    testbed.make_journal(&tried.journal, &mut |_| true).map_err(BlockError::of_all)?;
                }
            }
        }
    }
    let asked: Vec<bool> = tried.methods.iter().map(|method| settings.methods.contains(method)).collect();
    let joining = joining(&rows, &looked, &asked);
    let is_kept = |index: usize| {
        asked[index] || joining.contains(&index) || !matches!(rows[index].outcome, Outcome::Measured(_))
    };
    let kept: Vec<usize> = (0..rows.len()).filter(|index| is_kept(*index)).collect();
    let left = rows.len() - kept.len();
    let names: Vec<&str> = joining.iter().map(|index| rows[*index].id.as_str()).collect();
    let note = (left > 0 || !names.is_empty()).then(|| note(left, &names, looks(settings)));
    let settings = Settings {
        methods: kept.iter().map(|index| tried.methods[*index]).collect(),
        others: Vec::new(),
        ..settings.clone()
    };
    let rows = rows.into_iter().enumerate().filter(|(index, _)| kept.contains(index));
    Ok(Chosen { settings, rows: rows.map(|(_, row)| row).collect(), note })
}

/// What the note of a run ends with that left methods out.
pub(crate) const ALL_MEASURES: &str = "--all measures them.";

fn note(left: usize, joined: &[&str], looked: bool) -> String {
    let others = plural(left as u64, "other method", "other methods");
    match (looked, joined) {
        (false, _) => format!("{others} of this system were not measured: {ALL_MEASURES}"),
        (true, []) => format!(
            "{others} had a short look each and were no better than these, or by less than a tenth: {ALL_MEASURES}"
        ),
        (true, joined) => format!(
            "{} joined after a short look at all methods, better by a tenth than the usual ones of the class; {others} were not: {ALL_MEASURES}",
            joined.join(", ")
        ),
    }
}

/// The median of a short block; `None` if it was too short for any commit.
fn look(
    settings: &Settings,
    method: &'static Method,
    index: usize,
    testbed: &mut dyn Testbed,
    observer: &mut dyn Observer,
) -> Result<Option<u64>, BlockError> {
    let capacity = settings.capacity();
    let until = Until { block_ns: LOOK_NS, stop: observer.stop() };
    let workload = settings.workload.as_deref();
    let crew = Crew { bytes: settings.bytes, pin_to: &settings.pin_to, seed: settings.seed, workload, until };
    let slice = Slice {
        base: 0,
        capacity,
        writes: settings.writes.into(),
        // Each at a place of its own, so that none finds what the one before warmed.
        first: (index as u64 * COMMITS_MAX) % capacity,
        commits_max: COMMITS_MAX,
        time_max_ns: LOOK_NS,
        interval_ns: None,
        splits: false,
        slow_ns: None,
        warm: COMMITS_MAX.min(super::WARM_BYTES / settings.commit_bytes()),
    };
    let block = testbed.commit(method, &crew, &[slice]);
    let rested = testbed.quiesce();
    let block = block?;
    rested.map_err(BlockError::run)?;
    let latency = block.samples.first().map(|sample| &sample.latency);
    Ok(latency.filter(|latency| latency.count() > 0).map(crate::latency::Latency::p50_ns))
}

/// The indices of the others that join: the best of each class, if it is better than all that were asked for.
fn joining(rows: &[Row], looked: &[Option<u64>], asked: &[bool]) -> Vec<usize> {
    let class = |index: usize| rows[index].measured().and_then(crate::row::Measured::class);
    let best_of = |wanted: Durability, of_asked: bool| {
        (0..rows.len())
            .filter(|index| asked[*index] == of_asked && class(*index) == Some(wanted))
            .filter_map(|index| Some((looked[index]?, index)))
            .min()
    };
    let mut joining: Vec<usize> = Durability::ALL
        .into_iter()
        .filter_map(|class| {
            let (p50_ns, index) = best_of(class, false)?;
            let better = best_of(class, true)
                .is_none_or(|(known_ns, _)| p50_ns as f64 * TIMES_BETTER < known_ns as f64);
            better.then_some(index)
        })
        .collect();
    joining.sort_unstable();
    joining
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::result::RunResult;
    use crate::scenario::commit;
    use crate::testbed::sim::{Plant, SimTestbed};
    use crate::watcher::Watcher;

    fn run(plants: Vec<Plant>, change: fn(&mut Settings)) -> RunResult {
        let mut settings = Settings { amount: Amount::Transactions(400), ..commit::settings() };
        change(&mut settings);
        let mut testbed = SimTestbed::new(settings.seed, plants);
        commit::run(&settings, &mut testbed, &mut Watcher::default()).expect("a result")
    }

    fn ids(result: &RunResult) -> Vec<&str> {
        result.study.rows.iter().map(|row| row.id.as_str()).collect()
    }

    #[test]
    fn by_default_the_usual_methods_are_measured_and_what_is_no_better_is_named_as_left_out() {
        let result = run(Vec::new(), |_| {});
        let usual: Vec<&str> = commit::settings().methods.iter().map(|method| method.id).collect();
        assert_eq!(ids(&result), usual);
        for id in ["buffered+fdatasync", "direct+dsync", "mmap+msync", "direct+fdatasync"] {
            assert!(usual.contains(&id), "published, or called by a product: {id}");
        }
        let note = result.study.notes.concat();
        assert!(note.contains("short look") && note.contains("--all"), "{note}");
    }

    #[test]
    fn the_best_of_a_class_joins_if_it_is_better_and_has_as_many_commits_as_the_rest() {
        let slow = |method| Plant::Stall { method, every: 1, ns: 100_000 };
        let usual = commit::settings().methods;
        let durable = usual.iter().filter(|method| method.reach().letter() == 'D');
        let result = run(durable.map(|method| slow(method.id)).collect(), |_| {});
        assert_eq!(result.study.rows.len(), usual.len() + 1, "one of its class: {:?}", ids(&result));
        let joined = result.study.rows.iter().find(|row| result.study.notes[0].contains(&row.id));
        assert_eq!(joined.and_then(Row::measured).map(|measured| measured.commits), Some(400));
    }

    #[test]
    fn what_cannot_be_had_is_listed_and_short_runs_and_fresh_journals_have_no_look() {
        let plants = vec![Plant::Missing { method: "uring-linked", reason: "io_uring is not allowed here" }];
        let result = run(plants, |_| {});
        assert!(result.study.row("uring-linked").is_some_and(|row| row.measured().is_none()));
        for change in
            [(|settings| settings.amount = Amount::TimeNs(2_000_000_000)) as fn(&mut Settings), |settings| {
                settings.journal.state = seawall_sys::durability::FileState::Unwritten;
            }]
        {
            let note = run(Vec::new(), change).study.notes.concat();
            assert!(note.contains("were not measured: --all"), "{note}");
        }
    }

    #[test]
    fn a_method_that_fails_in_its_look_is_listed_as_failed_and_the_run_goes_on() {
        let result = run(vec![Plant::Fails { method: "uring-linked", after: 3 }], |_| {});
        let failed = &result.study.row("uring-linked").expect("listed").outcome;
        assert!(matches!(failed, Outcome::Failed { .. }), "{failed:?}");
        assert!(result.complete && result.measured().count() == commit::settings().methods.len());
    }

    #[test]
    fn a_run_that_is_stopped_while_it_looks_has_measured_nothing() {
        let settings = commit::settings();
        let mut watcher = Watcher::default();
        watcher.stop.store(true, Ordering::Relaxed);
        let stopped = commit::run(&settings, &mut SimTestbed::new(1, Vec::new()), &mut watcher);
        assert!(matches!(stopped, Err(RunError::Stopped)));
    }
}
