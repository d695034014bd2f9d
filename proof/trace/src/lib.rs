//! Follows a program and its children: where its syncs go, which were redundant, and what nobody made durable.
//!
//! * `calls` is the table of the calls that are stopped for.
//! * `follow` serves the stops and measures them.
//! * `files` knows what was synced, and which names were not.
//! * `site` finds the source line of a call.
//! * [`price`] replays the syncs with other durations.
//! * [`Report`] is what was seen; `screen` prints it.
//!
//! Invariant: what cannot be seen is said in [`Report::not_seen`], never passed over.

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod follow;
pub mod price;
pub mod screen;
#[cfg(target_os = "linux")]
mod site;

use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::process::Command;

/// How to follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Answer `io_uring_setup` as a kernel without it does, so that programs fall back to calls that are seen.
    pub no_uring: bool,
    /// Stop for every write, to count those of files opened with `O_DSYNC`.
    pub writes: bool,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// The syncs of one role of files by one call from one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Syncs {
    /// The path, relative to the current folder if it is below it, with digits as `#`.
    pub role: String,
    /// The call.
    pub call: &'static str,
    /// Function and source line of the caller, if the program tells.
    pub site: Option<String>,
    /// How many.
    pub count: u64,
    /// How many failed.
    pub failed: u64,
    /// Nanoseconds in all, without the cost of following.
    pub time_ns: u64,
    /// Bytes that were not on the disk before, in all; of how many calls that is known.
    pub dirty_bytes: (u64, u64),
    /// How many had nothing to make durable.
    pub redundant: u64,
    /// Its number, by which [`Report::runs`] names it.
    #[serde(skip)]
    pub number: usize,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How the program ended.
    pub end: End,
    /// From start to end without the cost of following, nanoseconds.
    pub wall_ns: u64,
    /// What following cost, nanoseconds; of how many stops.
    pub own_ns: u64,
    /// How often a thread was stopped.
    pub stops: u64,
    /// The syncs, the most expensive first.
    pub syncs: Vec<Syncs>,
    /// Each sync.
    #[serde(skip)]
    pub runs: Vec<price::Run>,
    /// Threads that synced.
    pub threads: usize,
    /// Time during which at least one sync ran, nanoseconds.
    pub union_ns: u64,
    /// What nobody made durable, a sentence each.
    pub missing: Vec<String>,
    /// What happened that is not seen here, a sentence each.
    pub not_seen: Vec<String>,
}

impl Report {
    /// How many syncs.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.syncs.iter().map(|row| row.count).sum()
    }

    /// Their times, added up.
    #[must_use]
    pub fn summed_ns(&self) -> u64 {
        self.syncs.iter().map(|row| row.time_ns).sum()
    }

    /// The time that the run would take if each sync took what `price` gives for its row, nanoseconds; failed ones take what they
    /// took. Threads whose syncs overlapped here do not wait for each other. `None` if a row has no price.
    #[must_use]
    pub fn priced_ns(&self, price: impl Fn(&Syncs) -> Option<u64>) -> Option<u64> {
        let prices = self.syncs.iter().map(|row| Some((row.number, price(row)?)));
        let prices: BTreeMap<usize, u64> = prices.collect::<Option<_>>()?;
        let longer = price::longer_ns(&self.runs, |run| {
            i128::from(if run.failed { run.time_ns } else { prices[&run.row] })
        });
        u64::try_from((i128::from(self.wall_ns) + longer).max(0)).ok()
    }
}

/// Runs `command` and follows it to its end. Children that outlive it by two seconds are ended, and this is said.
///
/// # Errors
/// The program cannot be started or followed; on systems other than Linux always.
#[cfg(target_os = "linux")]
pub fn run(command: Command, options: Options) -> io::Result<Report> {
    follow::run(command, options)
}

/// Runs `command` and follows it to its end.
///
/// # Errors
/// Always: only Linux can do it.
#[cfg(not(target_os = "linux"))]
pub fn run(_: Command, _: Options) -> io::Result<Report> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "programs can be followed on Linux only"))
}
