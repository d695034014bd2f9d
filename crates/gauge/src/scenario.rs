//! Lists the workloads, [`SCENARIOS`]: one row and one file each; [`commit`] is the default.
//!
//! Invariants: a scenario reports its progress to an [`Observer`], which may stop it; it prints nothing. Each
//! produces a [`Study`], so that reporting and comparing them needs no code of their own; findings come from their
//! row's `judge` as well.

mod budget;
pub mod cached;
pub mod commit;
pub mod group;
pub mod interfere;
pub mod log;
pub mod path;
pub mod peers;
pub mod replicated;
pub(crate) mod rounds;
pub mod settings;
pub mod stall;

use crate::Error;
use crate::findings::Finding;
use crate::result::RunResult;
use crate::study::Study;
use crate::testbed::Testbed;
use settings::{Amount, Settings};

/// A workload.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Unique, as on the command line.
    pub name: &'static str,
    /// What it measures, in one line.
    pub summary: &'static str,
    /// The published experiment that it reproduces; empty if there is none.
    pub reproduces: &'static str,
    /// Its parameters and their defaults in words, those of the original where there is one.
    pub defaults: &'static str,
    /// Its default parameters.
    pub settings: fn() -> Settings,
    /// Runs it.
    pub run: fn(&Settings, &mut dyn Testbed, &mut dyn Observer) -> Result<RunResult, RunError>,
    /// What its table says in words, beyond what [`findings`](crate::findings) says of every scenario.
    pub judge: fn(&Study) -> Vec<Finding>,
    /// Space that its files take at most, bytes, in a folder with so much memory (if known) and free space.
    pub needs_bytes: fn(&Settings, Option<u64>, u64) -> u64,
    /// Rows of its table at least, each of which has a block in every round.
    pub rows: fn(&Settings) -> u64,
    /// Whether its rows are methods, ranked by class and latency.
    pub ranked: bool,
    /// Whether its figures mean nothing where nothing outlives a crash.
    pub durable: bool,
    /// Whether it speaks to clusters, which must be named.
    pub clusters: bool,
    /// Why `all` leaves it out; empty if it runs it.
    pub alone: &'static str,
}

impl Scenario {
    /// How long it takes at least, nanoseconds: a block is never shorter than its figures need.
    pub(crate) fn least_ns(&self, settings: &Settings) -> u64 {
        let rounds = u64::from(settings.rounds) + u64::from(settings.warm_up);
        // Opening, warming and syncing take about as long as a quarter of the shortest block.
        rounds.saturating_mul((self.rows)(settings)).saturating_mul(budget::BLOCK_MIN_NS / 4 * 5)
    }
}

/// What most rows of the table share, and the default scenario's own.
const COMMIT: Scenario = Scenario {
    name: commit::NAME,
    summary: "one durable commit by each method; the default",
    reproduces: "65,536 transactions of 16 KiB into a preallocated journal, by six methods",
    defaults: "30 s, 16 KiB into a journal of 1 GiB, by the published methods and the best of each class; --all: by every one; --full: the original's amount",
    settings: commit::settings,
    rows: |s| s.methods.len() as u64,
    run: commit::run,
    judge: |_| Vec::new(),
    needs_bytes: |s, _, _| s.journal.bytes,
    ranked: true,
    durable: true,
    clusters: false,
    alone: "",
};
/// A scenario of its own table, without an original.
const STUDY: Scenario = Scenario { reproduces: "", ranked: false, ..COMMIT };

/// What a writer that sleeps between two writes writes in a round, bytes.
fn paced_bytes(settings: &Settings) -> u64 {
    let round_ns = settings.time_ns().unwrap_or(0) / u64::from(settings.rounds.max(1));
    (settings.bytes as u64).saturating_mul(round_ns / settings.write_sleep_ns.max(1))
}

/// All scenarios, the default first.
pub const SCENARIOS: [Scenario; 9] = [
    COMMIT,
    Scenario {
        name: stall::NAME,
        summary: "what a sync in one thread does to the appends of another",
        reproduces: "pdflush-test 1024 100 500: appends while another thread calls fsync, against kernel writeback only",
        defaults: "--size 1024 --write-sleep 100 --sync-sleep 500 (µs), 20 s",
        settings: || Settings { bytes: 1024, ..Settings::default() },
        rows: |_| 6,
        run: stall::run,
        judge: stall::judge,
        needs_bytes: |s, _, _| paced_bytes(s).saturating_add(96 << 20),
        ..STUDY
    },
    Scenario {
        name: cached::NAME,
        summary: "whether a sync costs more, the more of the file is in the cache",
        reproduces: "write_random_fsync testfile 4096 100, under timex and truss -c",
        defaults: "--size 4096 --rewrites 100, --file up to 1 GiB as memory allows, however long the rounds take; several DIRs compare file systems",
        settings: || Settings { rounds: 3, amount: Amount::Rounds, ..Settings::default() },
        rows: |_| 3,
        run: cached::run,
        judge: cached::judge,
        needs_bytes: cached::file_bytes,
        ..STUDY
    },
    Scenario {
        name: path::NAME,
        summary: "seek+write, pwrite and other write calls, with no disk in them",
        reproduces: "seek() + write() against pwrite(), 4 KiB blocks in files of 1 MiB on tmpfs",
        defaults: "--size 4096 --write-sleep 50 (µs, spinning), --warm-up 20, 30 s; tmpfs allowed; --jvm: JVMs too, 150 s",
        settings: || Settings {
            amount: Amount::TimeNs(30_000_000_000),
            rounds: 50,
            warm_up: 20,
            write_sleep_ns: 50_000,
            ..Settings::default()
        },
        rows: |_| 10,
        run: path::run,
        judge: path::judge,
        needs_bytes: |s, _, _| paced_bytes(s).saturating_add(8 << 20),
        durable: false,
        ..STUDY
    },
    Scenario {
        name: group::NAME,
        summary: "what group commit gains with 1 to 64 writers",
        defaults: "--size 4096 --writers 1,2,4,8,16,32,64, 20 s",
        settings: || Settings { rounds: 3, ..Settings::default() },
        rows: |_| 9,
        run: group::run,
        judge: group::judge,
        needs_bytes: group::needs_bytes,
        ..STUDY
    },
    Scenario {
        name: interfere::NAME,
        summary: "what other work on the same disk does to commits",
        defaults: "--size 16KiB, loads: none, buffered, random, reads; 20 s",
        settings: || Settings { bytes: 16 << 10, ..Settings::default() },
        rows: |_| 4,
        run: interfere::run,
        judge: interfere::judge,
        needs_bytes: |_, _, _| interfere::JOURNAL_BYTES + interfere::LOAD_BYTES,
        ..STUDY
    },
    Scenario {
        name: log::NAME,
        summary: "the log's own workloads against a plain loop of durable writes",
        defaults: "workloads W1 to W11, each with its floor, 2 min in 20 rounds; up to 8 GiB; --workloads W1,W3: some of them, W12 and open only so",
        settings: || Settings {
            amount: Amount::TimeNs(120_000_000_000),
            rounds: 20,
            warm_up: 1,
            ..Settings::default()
        },
        rows: |_| 3,
        run: log::run,
        judge: log::judge,
        needs_bytes: log::needs_bytes,
        alone: "it measures this project's log: run it by itself",
        ..STUDY
    },
    Scenario {
        name: peers::NAME,
        summary: "five other logs against the log, built by `cargo xtask peers`",
        defaults: "workloads W1 to W4, W4c, W9, W11, 2 min in 40 rounds",
        settings: || Settings {
            amount: Amount::TimeNs(120_000_000_000),
            rounds: 40,
            warm_up: 1,
            ..Settings::default()
        },
        rows: |_| 2,
        run: peers::run,
        judge: peers::judge,
        needs_bytes: peers::needs_bytes,
        alone: "it is a program of its own: run it by itself",
        ..STUDY
    },
    Scenario {
        name: replicated::NAME,
        summary: "commits replicated by Kafka and NATS against local methods",
        reproduces: "committed = \"replicated to multiple machines, not necessarily committed to disk\"",
        defaults: "--size 4096 --writers 1,64 (records in flight), 60 s; needs --kafka BOOTSTRAP or --nats URL",
        settings: || Settings {
            amount: Amount::TimeNs(60_000_000_000),
            writers: replicated::IN_FLIGHT.to_vec(),
            ..Settings::default()
        },
        rows: |_| 4,
        run: replicated::run,
        judge: replicated::judge,
        needs_bytes: group::needs_bytes,
        clusters: true,
        alone: "run it by itself and name a cluster (--kafka, --nats)",
        ..STUDY
    },
];

/// The scenario of that name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

/// Who watches a run.
pub trait Observer {
    /// The journal is being filled.
    fn filling(&mut self, done_bytes: u64, total_bytes: u64);

    /// What is being done before the rounds, in words.
    fn doing(&mut self, _what: &str) {}

    /// A method is about to run its block. `left_ns`: time to the end of the run, estimated.
    fn block(&mut self, block: &BlockStart<'_>);

    /// A round has ended; `so_far` is whole up to it.
    ///
    /// # Errors
    /// The result could not be kept; the run ends.
    fn round(&mut self, so_far: &RunResult) -> Result<(), Error>;

    /// Whether the run should end, cleanly, now.
    fn stop(&self) -> &std::sync::atomic::AtomicBool;
}

/// Where a run is.
#[derive(Debug, Clone, Copy)]
pub struct BlockStart<'a> {
    /// The round, from 0.
    pub round: u32,
    /// Rounds in all.
    pub rounds: u32,
    /// Share of the run that is done, 0 to 1.
    pub done: f64,
    /// Time left, nanoseconds, estimated.
    pub left_ns: u64,
    /// The method's id.
    pub method: &'a str,
    /// Its median so far, nanoseconds.
    pub p50_ns: Option<u64>,
}

/// Why a run ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Something cannot be had here; the reason says what and the remedy.
    #[error("{0}")]
    Unavailable(String),
    /// A call failed.
    #[error(transparent)]
    Failed(#[from] seawall_sys::Error),
    /// The observer could not keep a result.
    #[error(transparent)]
    NotKept(Error),
    /// The observer stopped it before anything was measured.
    #[error("stopped before anything was measured")]
    Stopped,
}

impl From<seawall_sys::OpenError> for RunError {
    fn from(error: seawall_sys::OpenError) -> Self {
        match error {
            seawall_sys::OpenError::Unavailable(reason) => Self::Unavailable(reason.to_string()),
            seawall_sys::OpenError::Failed(error) => Self::Failed(error),
        }
    }
}

impl From<crate::testbed::BlockError> for RunError {
    fn from(error: crate::testbed::BlockError) -> Self {
        match error {
            crate::testbed::BlockError::Row(error) | crate::testbed::BlockError::Run(error) => error.into(),
        }
    }
}

/// An [`Observer`] that neither looks, nor stops, nor keeps anything.
#[derive(Debug, Default)]
pub struct Unwatched(std::sync::atomic::AtomicBool);

impl Observer for Unwatched {
    fn filling(&mut self, _: u64, _: u64) {}
    fn block(&mut self, _: &BlockStart<'_>) {}
    fn round(&mut self, _: &RunResult) -> Result<(), Error> {
        Ok(())
    }
    fn stop(&self) -> &std::sync::atomic::AtomicBool {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_words_and_every_default_passes_its_own_check() {
        let mut names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase())));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SCENARIOS.len());
        for scenario in &SCENARIOS {
            assert!((scenario.settings)().check().is_ok(), "{}", scenario.name);
        }
    }
}
