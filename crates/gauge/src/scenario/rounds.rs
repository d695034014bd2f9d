//! Runs a scenario's rows in rounds, each over all rows in an order of its own.
//!
//! Invariants: drift does not pick the winner, because no row runs twice before all have run; the result is complete
//! and handed on after every round; a row that failed is not run again; warm-up rounds leave no trace in the figures.

use super::budget::Budget;
use super::settings::Settings;
use super::{Observer, RunError};
use crate::latency::Latency;
use crate::result::{FORMAT, Idle, JournalRecord, Round, RunResult, VERSION};
use crate::stage::{Stage, Until};
use crate::study::{Study, StudyMeasured, StudyOutcome};
use seawall_sys::OpenError;
use seawall_sys::starting_line::START_THREAD;
use std::sync::atomic::Ordering;

/// How long the idle baseline is watched, nanoseconds.
const IDLE_NS: u64 = 300_000_000;

/// Measures one block of the row at this index.
pub(crate) type RunBlock<'a> =
    &'a mut dyn FnMut(&mut dyn Stage, usize, Until<'_>) -> Result<StudyMeasured, OpenError>;

/// A scenario, ready to run.
pub(crate) struct Course<'a> {
    pub(crate) name: &'static str,
    pub(crate) settings: &'a Settings,
    /// The size of the file that is written, bytes, for the record.
    pub(crate) file_bytes: u64,
    /// The rows, each [`waiting`].
    pub(crate) study: Study,
    /// Works out the figures that follow from others; called after every round.
    pub(crate) finish: fn(&mut Study),
}

/// The outcome of a row that has not run yet.
pub(crate) fn waiting() -> StudyOutcome {
    StudyOutcome::Measured(Box::default())
}

/// Runs `course` on `stage`.
///
/// # Errors
/// A file could not be made, or the observer stopped it before anything was measured or could not keep a result. What
/// fails for one row only is that row's outcome.
pub(crate) fn run(
    course: Course<'_>,
    stage: &mut dyn Stage,
    observer: &mut dyn Observer,
    block: RunBlock<'_>,
) -> Result<RunResult, RunError> {
    let finish = course.finish;
    run_and(course, stage, observer, block, &finish)
}

/// The same, with figures worked out by `finish`, which may know more than the study, in place of the course's own.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_and(
    course: Course<'_>,
    stage: &mut dyn Stage,
    observer: &mut dyn Observer,
    block: RunBlock<'_>,
    finish: &dyn Fn(&mut Study),
) -> Result<RunResult, RunError> {
    let Course { name, settings, file_bytes, study, .. } = course;
    let started_unix_s = stage.unix_seconds();
    let idle = watch_idle(stage);
    let started_ns = stage.now_ns();
    let mut result = RunResult {
        format: FORMAT.to_owned(),
        version: VERSION,
        seawall: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: name.to_owned(),
        label: None,
        started_unix_s,
        complete: false,
        plan: settings.record(file_bytes),
        environment: stage.environment(0).clone(),
        journal: JournalRecord::default(),
        idle,
        methods: Vec::new(),
        order: Vec::new(),
        study: None,
    };
    let mut walk = Walk { started_ns, study };
    let rounds = settings.warm_up + settings.rounds;
    // A row that is known not to run from the start takes no share of the time.
    let blocks = walk.running().len() as u64 * u64::from(rounds);
    let mut budget = Budget::new(started_ns, settings.timed.then(|| started_ns + settings.time_ns), blocks);
    let mut random = fastrand::Rng::with_seed(settings.seed);
    for round in 0..rounds {
        let mut order = walk.running();
        random.shuffle(&mut order);
        for index in &order {
            if observer.stop().load(Ordering::Relaxed) {
                break;
            }
            let row = &walk.study.rows[*index];
            observer.block(&budget.announce(
                [round, rounds],
                stage.now_ns(),
                &row.id,
                p50_ns(row.measured()),
            ));
            let began_ns = stage.now_ns();
            let until = Until { block_ns: budget.block_ns(began_ns), stop: observer.stop() };
            let counted = round.checked_sub(settings.warm_up);
            match block(stage, *index, until) {
                Ok(measured) => {
                    let measuring_ns = measured.elapsed_ns;
                    walk.add(*index, counted, began_ns, measured);
                    budget.block_done((stage.now_ns() - began_ns).saturating_sub(measuring_ns));
                }
                // Interrupted, whatever the words: the row has done nothing wrong.
                Err(_) if observer.stop().load(Ordering::Relaxed) => break,
                Err(error) => {
                    walk.end(*index, error)?;
                    budget.give_up(rounds - round);
                }
            }
        }
        let stopped = observer.stop().load(Ordering::Relaxed);
        if round >= settings.warm_up {
            result.order.push(order);
        }
        result.complete = !stopped && round + 1 == rounds;
        finish(&mut walk.study);
        result.study = Some(walk.study.clone());
        observer.round(&result).map_err(RunError::NotKept)?;
        if stopped {
            break;
        }
    }
    let nothing = walk.study.measured().all(|(_, measured)| measured.rounds.is_empty());
    if nothing && observer.stop().load(Ordering::Relaxed) {
        return Err(RunError::Stopped);
    }
    Ok(result)
}

fn p50_ns(measured: Option<&StudyMeasured>) -> Option<u64> {
    let main = &measured?.latencies.first()?.latency;
    (main.count() > 0).then(|| main.p50_ns())
}

fn watch_idle(stage: &mut dyn Stage) -> Option<Idle> {
    let (before, start_ns) = (stage.counts()?, stage.now_ns());
    stage.idle(IDLE_NS);
    let elapsed_ns = stage.now_ns() - start_ns;
    Some(Idle { elapsed_ns, counts: stage.counts()?.since(&before) })
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
    fn add(&mut self, index: usize, round: Option<u32>, began_ns: u64, mut block: StudyMeasured) {
        let (Some(round), StudyOutcome::Measured(row)) = (round, &mut self.study.rows[index].outcome) else {
            return;
        };
        let empty = Latency::new();
        let main = block.latencies.first().map_or(&empty, |first| &first.latency);
        let start_ns = began_ns - self.started_ns;
        let figures = Round {
            round,
            start_ns,
            elapsed_ns: block.elapsed_ns,
            commits: main.count(),
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

    /// The row ended with `error`; what it measured before is not to be trusted.
    fn end(&mut self, index: usize, error: OpenError) -> Result<(), RunError> {
        self.study.rows[index].outcome = match error {
            OpenError::Unavailable(reason) => StudyOutcome::NotAvailable { reason: reason.to_string() },
            // A file that cannot even be created is no matter of the row's.
            OpenError::Failed(error) if ["create", START_THREAD].contains(&error.operation()) => {
                return Err(error.into());
            }
            OpenError::Failed(error) => StudyOutcome::Failed { error: error.to_string() },
        };
        Ok(())
    }
}
