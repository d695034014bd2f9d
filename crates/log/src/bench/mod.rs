//! Benchmarks the log against the raw disk: every workload takes turns with a plain loop of durable writes.
//!
//! Each workload is run in rounds, and in every round the *floor* is measured in turns with it: a plain loop of
//! durable writes of the same size, by the same commit method, into a zero-filled file in the same directory. The
//! result is the median of the rounds and the ratio of the medians, so that a machine that is slower today changes
//! the ratio little. Latencies are those of single commits as the caller sees them.

mod floor;
mod instruments;
mod runs;
mod table;
mod workloads;

use std::path::Path;

use crate::commit::stats::Summary;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::options::{EngineChoice, MethodChoice, Options};
use instruments::Scratch;
use runs::Bench;
pub use table::table;
use workloads::{WORKLOADS, Workload};

/// How a benchmark is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rounds of floor and workload. Default 5.
    pub rounds: usize,
    /// Part of the usual number of commits, in per cent. Default 100.
    pub percent: u64,
    /// Only the workloads of these names. Default, and if it is empty, all.
    pub only: Vec<String>,
    /// The commit method. Default the fastest.
    pub method: MethodChoice,
    /// The engine. Default whichever runs the method.
    pub engine: EngineChoice,
    /// Whether the directory may lie on a network file system. Default no.
    pub network_file_system: bool,
}

impl Default for Plan {
    fn default() -> Self {
        let (method, engine) = (MethodChoice::Fastest, EngineChoice::Probe);
        Self { rounds: 5, percent: 100, only: Vec::new(), method, engine, network_file_system: false }
    }
}

/// What one round of one workload gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// What the floor did in a second: writes or bytes, as the workload says; 0 if it has no floor. A loop of durable
    /// writes puts new bytes into its buffer before each.
    pub floor: f64,
    /// The same loop with one buffer that never changes; 0 if that was not taken.
    pub bare: f64,
    /// What the log did in a second, in the same unit.
    pub log: f64,
    /// Latency of one floor write in nanoseconds.
    pub floor_ns: Summary,
    /// Latency of one commit, append or read as the caller saw it, in nanoseconds; count 0 if not taken.
    pub log_ns: Summary,
    /// CPU seconds of the whole process for a million writes of the floor, where the system reports it.
    pub floor_cpu_s_per_million: Option<f64>,
    /// CPU seconds of the whole process for a million commits, where the system reports it.
    pub cpu_s_per_million: Option<f64>,
    /// Part of its time that the thread of the floor waited for a processor, 0 to 1, where the system reports it.
    pub floor_cpu_wait: Option<f64>,
    /// The same for the calling thread of the log, one of all.
    pub cpu_wait: Option<f64>,
    /// Records in a batch on average.
    pub records_per_batch: f64,
    /// Segments that the log filled with zeros while it committed.
    pub segments_filled: u64,
}

/// What a workload is to reach, by medians over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At least this many times the floor.
    Ratio(f64),
    /// At least so many in a second.
    Rate(f64),
    /// A latency of at most so many nanoseconds for 99 of 100.
    P99Ns(u64),
    /// A latency of at most so many nanoseconds for 999 of 1000.
    P999Ns(u64),
    /// A latency for 999 of 1000 that is not above the floor's.
    P999OfFloor,
    /// At most so many CPU seconds for a million commits.
    CpuSPerMillion(f64),
}

/// The result of one workload.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name: `W1` …
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// What is counted in a second.
    pub unit: &'static str,
    /// What it is to reach.
    pub goals: &'static [Goal],
    /// Every round.
    pub rounds: Vec<Round>,
}

impl Row {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        let mut values: Vec<f64> = self.rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    }

    /// The median of the floor.
    #[must_use]
    pub fn floor(&self) -> f64 {
        self.median(|round| round.floor)
    }

    /// The median of the log.
    #[must_use]
    pub fn log(&self) -> f64 {
        self.median(|round| round.log)
    }

    /// The log against the floor, by medians; 0 without a floor.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.floor() > 0.0 { self.log() / self.floor() } else { 0.0 }
    }

    /// The log against the loop whose buffer never changes, by medians; 0 where that was not taken.
    #[must_use]
    pub fn bare_ratio(&self) -> f64 {
        let bare = self.median(|round| round.bare);
        if bare > 0.0 { self.log() / bare } else { 0.0 }
    }

    /// Whether all goals are reached.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.goals.iter().all(|goal| self.reaches(*goal))
    }

    /// Whether the goal is reached. One that the system gives no figure for is not.
    #[must_use]
    pub fn reaches(&self, goal: Goal) -> bool {
        match goal {
            Goal::Ratio(least) => self.ratio() >= least,
            Goal::Rate(least) => self.log() >= least,
            Goal::P99Ns(most) => self.latency(|summary| summary.p99).1 <= most as f64,
            Goal::P999Ns(most) => self.latency(|summary| summary.p999).1 <= most as f64,
            Goal::P999OfFloor => {
                let (floor, log) = self.latency(|summary| summary.p999);
                log <= floor
            }
            Goal::CpuSPerMillion(most) => self.cpu()[1].is_some_and(|cpu| cpu <= most),
        }
    }

    /// The median over the rounds of a latency of the floor and of the log, in nanoseconds.
    #[must_use]
    pub fn latency(&self, of: impl Fn(&Summary) -> u64) -> (f64, f64) {
        (self.median(|round| of(&round.floor_ns) as f64), self.median(|round| of(&round.log_ns) as f64))
    }

    /// The median of the records in a batch, 0 where that was not taken.
    #[must_use]
    pub fn records_per_batch(&self) -> f64 {
        self.median(|round| round.records_per_batch)
    }

    /// The median of the segments filled with zeros while it committed of a round.
    #[must_use]
    pub fn segments_filled(&self) -> f64 {
        self.median(|round| round.segments_filled as f64)
    }

    /// The median CPU time for a million writes of the floor and for a million commits, where the system reports it.
    #[must_use]
    pub fn cpu(&self) -> [Option<f64>; 2] {
        [
            self.known_median(|round| round.floor_cpu_s_per_million),
            self.known_median(|round| round.cpu_s_per_million),
        ]
    }

    /// The median part of their time that the threads of floor and log waited for a processor, where the system reports it.
    #[must_use]
    pub fn cpu_wait(&self) -> [Option<f64>; 2] {
        [self.known_median(|round| round.floor_cpu_wait), self.known_median(|round| round.cpu_wait)]
    }

    /// The median of a figure, if every round has it.
    fn known_median(&self, of: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        let known = self.rounds.iter().all(|round| of(round).is_some());
        known.then(|| self.median(|round| of(round).unwrap_or(0.0)))
    }
}

/// Runs the workloads in `dir`, which must exist and lie on the disk to be measured; calls `progress` with each name.
///
/// # Errors
/// [`Error::InvalidOption`] if [`Plan::only`] names a workload that is not there; whatever the log or the floor meets.
pub fn run(dir: &Path, plan: &Plan, mut progress: impl FnMut(&str, usize)) -> Result<Vec<Row>> {
    if let Some(unknown) = plan.only.iter().find(|only| WORKLOADS.iter().all(|w| w.name != only.as_str())) {
        let names = WORKLOADS.map(|w| w.name).join(", ");
        let reason = format!("there is no workload {unknown}, there are {names}");
        return Err(Error::InvalidOption { option: "only", reason });
    }
    let probe = Scratch::new(dir, "probe")?;
    let options = Options::default().method(plan.method.clone()).engine(plan.engine);
    let options = options.network_file_system(plan.network_file_system);
    let method = Log::open(probe.path(), options)?.opened().method;
    drop(probe);
    let bench = Bench { dir, percent: plan.percent.max(1), method, grows: false };
    let wanted = |w: &&Workload| plan.only.is_empty() || plan.only.iter().any(|only| w.name == only.as_str());
    let mut rows: Vec<(Row, &Workload)> = WORKLOADS
        .iter()
        .filter(wanted)
        .map(|w| (Row { name: w.name, what: w.what, unit: w.unit, goals: w.goals, rounds: Vec::new() }, w))
        .collect();
    for round in 0..plan.rounds.max(1) {
        for (row, workload) in &mut rows {
            progress(workload.name, round);
            row.rounds.push((workload.run)(&bench)?);
        }
    }
    Ok(rows.into_iter().map(|(row, _)| row).collect())
}
