//! Runs a scenario's rows in rounds, each over all rows in an order of its own.
//!
//! ```text
//!   idle baseline ─ round 1 ─ round 2 …
//!                      └─ for each row, in an order drawn for this round: a block, its figures added to the row's
//! ```
//!
//! Invariants: drift does not pick the winner, because no row runs twice before all have run; the result is complete
//! and handed on after every round; a row that failed is not run again; warm-up rounds leave no trace in the figures.

use super::budget::Budget;
use super::settings::Settings;
use super::{Observer, RunError};
use crate::evidence;
use crate::result::{FORMAT, Idle, JournalRecord, PlanRecord, RunResult, VERSION};
use crate::row::{Measured, Outcome, Round};
use crate::study::Study;
use crate::testbed::{BlockError, Testbed, Until};
use std::sync::atomic::Ordering;

pub(crate) const IDLE_NS: u64 = 500_000_000;

/// A scenario, ready to run.
pub(crate) struct Course {
    pub(crate) name: &'static str,
    pub(crate) plan: PlanRecord,
    /// Rounds before those of the plan that are run and not counted.
    pub(crate) warm_up: u32,
    /// The rows, each waiting or with the reason why it will not run.
    pub(crate) study: Study,
    /// The journal, where all rows share one.
    pub(crate) journal: JournalRecord,
    /// What was spent on preparing, nanoseconds: it is part of the run's time.
    pub(crate) spent_ns: u64,
}

impl Course {
    /// A scenario whose blocks make their own files, of `file_bytes` for the record.
    pub(crate) fn new(name: &'static str, settings: &Settings, file_bytes: u64, study: Study) -> Self {
        Self {
            name,
            plan: settings.record(file_bytes),
            warm_up: settings.warm_up,
            study,
            journal: JournalRecord::default(),
            spent_ns: 0,
        }
    }
}

pub(crate) struct Turn<'a> {
    pub(crate) index: usize,
    pub(crate) round: u32,
    pub(crate) so_far: &'a Measured,
    /// The journal's record, to be kept up to date.
    pub(crate) journal: &'a mut JournalRecord,
    pub(crate) until: Until<'a>,
}

pub(crate) type RunBlock<'a> = &'a mut dyn FnMut(&mut dyn Testbed, Turn<'_>) -> Result<Measured, BlockError>;

/// Runs `course` on `testbed`. `finish` works out the figures that follow from others, after every round.
///
/// # Errors
/// A file could not be made, or the observer stopped it before anything was measured or could not keep a result. What
/// fails for one row only is that row's outcome.
pub(crate) fn run(
    course: Course,
    testbed: &mut dyn Testbed,
    observer: &mut dyn Observer,
    finish: &dyn Fn(&mut Study),
    block: RunBlock<'_>,
) -> Result<RunResult, RunError> {
    let Course { name, plan, warm_up, study, journal, spent_ns } = course;
    let started_unix_s = testbed.unix_seconds().saturating_sub(spent_ns / 1_000_000_000);
    let idle = watch_idle(testbed);
    let started_ns = testbed.now_ns().saturating_sub(spent_ns);
    let mut result = RunResult {
        format: FORMAT.to_owned(),
        version: VERSION,
        seawall: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: name.to_owned(),
        label: None,
        started_unix_s,
        complete: false,
        plan,
        environment: testbed.environment(0).clone(),
        journal,
        idle,
        order: Vec::new(),
        study: Study::default(),
    };
    let mut walk = Walk { started_ns, study };
    let rounds = warm_up + result.plan.rounds;
    // A row that is known not to run from the start takes no share of the time.
    let blocks = walk.running().len() as u64 * u64::from(rounds);
    let mut budget = Budget::new(started_ns, result.plan.time_ns.map(|ns| started_ns + ns), blocks);
    let mut random = fastrand::Rng::with_seed(result.plan.seed);
    for round in 0..rounds {
        let mut order = walk.running();
        random.shuffle(&mut order);
        for index in &order {
            if observer.stop().load(Ordering::Relaxed) {
                break;
            }
            let row = &walk.study.rows[*index];
            let Some(so_far) = row.measured() else { continue };
            let p50_ns = (so_far.main().count() > 0).then(|| so_far.main().p50_ns());
            let began_ns = testbed.now_ns();
            observer.block(&budget.announce([round, rounds], began_ns, &row.id, p50_ns));
            let until = Until { block_ns: budget.block_ns(began_ns), stop: observer.stop() };
            let turn = Turn { index: *index, round, so_far, journal: &mut result.journal, until };
            match block(testbed, turn) {
                Ok(measured) => {
                    let measuring_ns = measured.elapsed_ns;
                    walk.add(*index, round.checked_sub(warm_up), began_ns, measured);
                    budget.block_done((testbed.now_ns() - began_ns).saturating_sub(measuring_ns));
                }
                // Interrupted: the error is not the row's.
                Err(_) if observer.stop().load(Ordering::Relaxed) => break,
                Err(BlockError::Run(error)) => return Err(error.into()),
                Err(BlockError::Row(error)) => {
                    // What it measured before is not to be trusted.
                    walk.study.rows[*index].outcome = error.into();
                    budget.give_up(rounds - round);
                }
            }
        }
        let stopped = observer.stop().load(Ordering::Relaxed);
        if round >= warm_up {
            result.order.push(order);
        }
        result.complete = !stopped && round + 1 == rounds;
        if result.journal.times_made > 0 {
            result.journal.layout_after = testbed.layout()?;
        }
        result.study = walk.study.clone();
        evidence::convict(&mut result);
        finish(&mut result.study);
        observer.round(&result).map_err(RunError::NotKept)?;
        if stopped {
            break;
        }
    }
    if result.measured().next().is_none() && observer.stop().load(Ordering::Relaxed) {
        return Err(RunError::Stopped);
    }
    Ok(result)
}

fn watch_idle(testbed: &mut dyn Testbed) -> Option<Idle> {
    let (before, start_ns) = (testbed.counts()?, testbed.now_ns());
    testbed.idle(IDLE_NS);
    let elapsed_ns = testbed.now_ns() - start_ns;
    Some(Idle { elapsed_ns, counts: testbed.counts()?.since(&before) })
}

/// The rows on their way through the rounds.
struct Walk {
    started_ns: u64,
    study: Study,
}

impl Walk {
    /// The rows that have not failed.
    fn running(&self) -> Vec<usize> {
        let rows = self.study.rows.iter().enumerate();
        rows.filter(|(_, row)| row.measured().is_some()).map(|(index, _)| index).collect()
    }

    /// `round`: `None` in a warm-up round.
    fn add(&mut self, index: usize, round: Option<u32>, began_ns: u64, mut block: Measured) {
        let (Some(round), Outcome::Measured(row)) = (round, &mut self.study.rows[index].outcome) else {
            return;
        };
        let main = block.main();
        let start_ns = began_ns - self.started_ns;
        let figures = Round {
            round,
            start_ns,
            elapsed_ns: block.elapsed_ns,
            // Where not every commit is timed, there are fewer samples.
            commits: if block.commits > 0 { block.commits } else { main.count() },
            p50_ns: main.p50_ns(),
            p99_ns: main.raw_percentile_ns(99.0),
            max_ns: main.max_ns(),
            counts: block.counts,
        };
        for point in block.series.iter_mut().flat_map(|series| &mut series.points) {
            point.at_ns += start_ns;
        }
        row.absorb(block);
        row.rounds.push(figures);
    }
}
