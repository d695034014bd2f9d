//! Defines the result of a run, [`RunResult`], and its versioned JSON file.
//!
//! The file is versioned: [`FORMAT`] and [`VERSION`] stand first. Within a version fields are only added, each
//! with a default; a file of an older version is brought into this one when it is read.
//!
//! Invariants: figures are the measured ones, unrounded; what is judged (class after the evidence, findings, verdict) is
//! computed from them when reported, and stands in the file for other programs: this one computes it again from what it
//! reads; no path of the machine is stored but the mount point's. `docs/result.md` describes the file.

mod file;
mod refusal;

pub use refusal::Refusal;

use crate::Error;
use crate::figures::bytes;
use crate::row::{Measured, Row};
use crate::study::Study;
use seawall_sys::counters::Counts;
use seawall_sys::durability::FileState;
use seawall_sys::inspect::Environment;
use seawall_sys::layout::Layout;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What every result file says it is.
pub const FORMAT: &str = "seawall-result";
/// The version of the format that this program writes, and the newest it reads.
pub const VERSION: u32 = 3;
/// The oldest version that this program reads.
pub(crate) const VERSION_OLDEST: u32 = 2;

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
    /// The settings.
    pub plan: PlanRecord,
    /// The machine, file system and devices.
    pub environment: Environment,
    /// The journal.
    pub journal: JournalRecord,
    /// What the devices did while this program did nothing; `None` without counters.
    pub idle: Option<Idle>,
    /// The order in which each round ran the rows, as indices into the table's.
    pub order: Vec<Vec<usize>>,
    /// The table: what was measured, row by row.
    pub study: Study,
}

/// The settings, as far as they decide the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// Size of a write, bytes.
    pub transaction_bytes: u64,
    /// Writes of a transaction, at consecutive places.
    #[serde(default = "one_write")]
    pub writes: u32,
    /// What was committed, in words, if not always the same; `transaction_bytes` is its mean then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
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

fn one_write() -> u32 {
    1
}

impl PlanRecord {
    /// Size of a transaction, in words: `16 KiB`, `2 writes of 8 KiB`, or `512 B to 64 KiB, 9 KiB in the mean`.
    pub fn transaction(&self) -> String {
        let size = self.workload.clone().unwrap_or_else(|| bytes(self.transaction_bytes));
        if self.writes == 1 { size } else { format!("{} writes of {size}", self.writes) }
    }
}

/// The journal and what making it cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JournalRecord {
    /// Time to make it, nanoseconds: once, or the mean where each block had a fresh one.
    pub made_in_ns: u64,
    /// How often it was made.
    pub times_made: u64,
    /// Its extents before the first commit; `None` where the system does not report it.
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

impl RunResult {
    /// The figures of the rows that measured anything, with their rows.
    pub fn measured(&self) -> impl Iterator<Item = (&Row, &Measured)> {
        self.study.measured().filter(|(_, measured)| measured.main().count() > 0)
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
    /// Why the text is invalid.
    pub fn from_json(text: &str) -> Result<Self, Refusal> {
        file::parse(text)
    }
}
