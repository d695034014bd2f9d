//! Defines the result of a run, [`RunResult`], and its versioned JSON file.
//!
//! The file is versioned: [`FORMAT`] and [`VERSION`] stand first. Within a version fields are only added, each
//! with a default, so that an older file can be read by a newer program.
//!
//! Invariants: figures are the measured ones, unrounded; judgements (ranks, findings) are computed from them when
//! reported, never stored; no path of the machine is stored but the mount point's.

mod file;

pub use file::{Impossible, Refusal};

use crate::Error;
use crate::latency::Latency;
use crate::study::Study;
use seawall_sys::counters::Counts;
use seawall_sys::durability::{Durability, FileState};
use seawall_sys::inspect::Environment;
use seawall_sys::journal::Layout;
use seawall_sys::thread::Times;
use seawall_sys::whole_file::replace;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What every result file says it is.
pub const FORMAT: &str = "seawall-result";
/// The version of the format that this program writes, and the newest it reads.
pub const VERSION: u32 = 1;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Version of the program that measured.
    pub seawall: String,
    /// The scenario's name.
    pub scenario: String,
    /// What the user calls this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it began, seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// Whether all rounds were run; false in the file of a run that is under way or was interrupted.
    pub complete: bool,
    /// What was asked for.
    pub plan: PlanRecord,
    /// The machine, file system and devices.
    pub environment: Environment,
    /// The journal.
    pub journal: JournalRecord,
    /// What the devices did while this program did nothing; `None` without counters.
    pub idle: Option<Idle>,
    /// One entry a method, in table order.
    pub methods: Vec<MethodResult>,
    /// The order in which each round ran the methods, as indices into `methods`.
    pub order: Vec<Vec<usize>>,
    /// The table of a scenario other than `commit`, which then has no `methods`; `order` then indexes its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<Study>,
}

/// What was asked for, as far as it decides the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// Size of a transaction, bytes.
    pub transaction_bytes: u64,
    /// Size of the journal, bytes.
    pub journal_bytes: u64,
    /// Transactions per method, if that was fixed.
    pub transactions: Option<u64>,
    /// The budget of the whole run, nanoseconds, if that was fixed.
    pub time_ns: Option<u64>,
    /// Rounds.
    pub rounds: u32,
    /// The journal's file state.
    pub file_state: FileState,
    /// Size of the writes that filled the journal, bytes.
    pub fill_bytes: u64,
    /// Whether the journal's pages stayed in the cache between blocks.
    pub keep_cached: bool,
    /// Writers.
    pub threads: u32,
    /// Scheduled arrivals per second and writer; `None`: closed loop.
    pub rate_per_s: Option<f64>,
    /// Seed of the method order and the data.
    pub seed: u64,
    /// CPUs the writers were pinned to, in turn; empty: not pinned.
    pub pinned_to: Vec<usize>,
    /// Whether the target was a raw block device.
    pub raw_device: bool,
}

/// The journal and what making it cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JournalRecord {
    /// Time to make it, nanoseconds: once, or the mean where each block had a fresh one.
    pub made_in_ns: u64,
    /// How often it was made.
    pub times_made: u64,
    /// Its extents before the first commit; `None` where the system does not tell.
    pub layout_before: Option<Layout>,
    /// Its extents after the last.
    pub layout_after: Option<Layout>,
}

/// The devices' doings over an idle span.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// Its length, nanoseconds.
    pub elapsed_ns: u64,
    /// What was counted.
    pub counts: Counts,
}

/// One method's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MethodResult {
    /// Its id in the method table.
    pub id: String,
    /// Its calls in words.
    pub calls: String,
    /// Its figures, or why there are none.
    pub outcome: Outcome,
}

/// What became of a method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It ran.
    Measured(Box<Measured>),
    /// The system, file system or device lacks it.
    NotAvailable {
        /// Why.
        reason: String,
    },
    /// It ran into an error and was stopped at once; nothing after it can be trusted on that file.
    Failed {
        /// The call, the file and the system's words.
        error: String,
    },
}

/// A method's figures, summed over its blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What an acknowledged commit outlives here, by computation.
    pub durability: Durability,
    /// How deep the calls reach: K, O, B or D.
    pub letter: char,
    /// Commits.
    pub commits: u64,
    /// Bytes committed.
    pub bytes: u64,
    /// Time spent in blocks, nanoseconds.
    pub elapsed_ns: u64,
    /// Write and sync together, per commit.
    pub latency: Latency,
    /// The write alone, where there is a separate sync.
    pub write: Option<Latency>,
    /// The sync alone.
    pub sync: Option<Latency>,
    /// From scheduled arrival to durable, with `--rate`.
    pub response: Option<Latency>,
    /// What the devices counted during the blocks; `None` without counters.
    pub counts: Option<Counts>,
    /// The writers' accounts.
    pub cpu: Times,
    /// What slow commits waited for.
    pub tail: Tail,
    /// Block by block.
    pub rounds: Vec<Round>,
}

/// Commits slower than the method's own p99, and how much of that was waiting for a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tail {
    /// How many.
    pub commits: u64,
    /// Their latencies, summed, nanoseconds.
    pub latency_ns: u64,
    /// Of that, waiting on a run queue, nanoseconds.
    pub wait_ns: u64,
}

impl Tail {
    /// Share of slow commits' time that was waiting for a CPU, 0 to 1; `None` without slow commits.
    #[must_use]
    pub fn wait_share(&self) -> Option<f64> {
        (self.latency_ns > 0).then(|| self.wait_ns as f64 / self.latency_ns as f64)
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            commits: self.commits + other.commits,
            latency_ns: self.latency_ns + other.latency_ns,
            wait_ns: self.wait_ns + other.wait_ns,
        }
    }
}

/// One block: a method's share of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The round, from 0.
    pub round: u32,
    /// When the block began, nanoseconds since the run did.
    pub start_ns: u64,
    /// How long it took, nanoseconds.
    pub elapsed_ns: u64,
    /// Commits in it.
    pub commits: u64,
    /// Their median latency, nanoseconds.
    pub p50_ns: u64,
    /// Their 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// Their maximum, nanoseconds.
    pub max_ns: u64,
    /// What the devices counted.
    pub counts: Option<Counts>,
}

impl Measured {
    /// Commits per second of time spent committing.
    #[must_use]
    pub fn commits_per_s(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.commits as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Bytes per second of time spent committing.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.bytes as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Share of the writers' time spent waiting for a CPU, 0 to 1; `None` where the system does not count it.
    #[must_use]
    pub fn wait_share(&self) -> Option<f64> {
        let wait_ns = self.cpu.wait_ns?;
        (self.latency.count() > 0)
            .then(|| wait_ns as f64 / (self.latency.mean_ns() * self.latency.count() as f64))
            .filter(|share| share.is_finite())
    }
}

/// Slow commits that a share of their time is worth telling of.
const SLOW_COMMITS_MIN: u64 = 3;

impl Measured {
    /// Share of slow commits' time that was waiting for a CPU, 0 to 1; of all commits' time where too few were slow, as in
    /// short runs. `None` where the system does not count it.
    #[must_use]
    pub fn slow_wait_share(&self) -> Option<f64> {
        let slow = self.tail.wait_share().filter(|_| self.tail.commits >= SLOW_COMMITS_MIN);
        slow.or_else(|| self.wait_share()).map(|share| share.min(1.0))
    }

    /// The larger of what slow commits and what all commits waited: above a fifth, the disk is not to blame.
    #[must_use]
    pub fn blamed_wait_share(&self) -> Option<f64> {
        let (slow, all) = (self.slow_wait_share(), self.wait_share().map(|share| share.min(1.0)));
        slow.zip(all).map(|(slow, all)| slow.max(all)).or(slow)
    }
}

impl RunResult {
    /// The figures of the methods that ran, with their rows.
    pub fn measured(&self) -> impl Iterator<Item = (&MethodResult, &Measured)> {
        self.methods.iter().filter_map(|row| match &row.outcome {
            Outcome::Measured(measured) if measured.commits > 0 => Some((row, measured.as_ref())),
            _ => None,
        })
    }

    /// Reads a result file, untrusted: its memory grows with the file's real size only, and its
    /// strings are safe to print.
    ///
    /// # Errors
    /// The file is missing, no regular file or too large, is no result, is of a newer version, or claims more than a run
    /// can have.
    pub fn read(path: &Path) -> Result<Self, Error> {
        file::read(path)
    }

    /// Reads the text of a result file, as bounded and checked as [`RunResult::read`].
    ///
    /// # Errors
    /// Why the text is refused.
    pub fn from_json(text: &str) -> Result<Self, Refusal> {
        file::parse(text)
    }

    /// The result as the text of its file.
    ///
    /// # Errors
    /// A figure has no form in JSON.
    pub fn to_json(&self) -> Result<String, Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(Error::Json)
    }

    /// Writes the result to `path`, by way of a temporary file beside it, so that an interruption leaves the
    /// last whole state.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        replace(path, self.to_json()?.as_bytes()).map_err(|error| {
            let source = error.into_source();
            Error::Io { operation: "write", path: path.to_owned(), source }
        })
    }
}
