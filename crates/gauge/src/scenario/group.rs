//! Scenario `group`: commits per second and latency against the number of writers.
//!
//! No published experiment is behind it. It measures the gain of group commit in three ways:
//!
//! ```text
//!   one shared file, each its own sync    the file system may merge the syncs, or serialise them
//!   one journal each                      the device may merge the flushes, or serialise them
//!   one Seawall log                       the log puts the transactions of many into one write
//! ```
//!
//! Commits per flush, from the device's own counters, shows how many commits shared one.
//!
//! Invariant: every commit is acknowledged durable by the same rules as in the scenario `commit`, and timed by the same
//! loop.

mod real;

use super::commit::tally;
use super::rounds::{self, Course};
use super::settings::Settings;
use super::{Observer, RunError};
use crate::figures::{bytes, capital, count, rate, significant};
use crate::findings::{Finding, Severity};
use crate::result::RunResult;
use crate::row::{Measured, Row};
use crate::study::{Better, Column, Fact, Study, Unit};
use crate::testbed::{Block, BlockError, Testbed, Until};
use seawall_sys::durability::{FileState, classify};
use seawall_sys::method::Method;

/// The scenario's name.
pub const NAME: &str = "group";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// One file, each writer with its own part, descriptor and sync.
    File,
    /// Nothing: one journal each.
    Nothing,
    Log,
}

/// The three ways: their names in ids and for people.
pub(crate) const SHARINGS: [(Sharing, &str, &str); 3] = [
    (Sharing::File, "shared", "one file, each its own sync"),
    (Sharing::Nothing, "own", "one journal each"),
    (Sharing::Log, "log", "one Seawall log"),
];

#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRequest<'a> {
    pub sharing: Sharing,
    pub writers: usize,
    /// How they commit; the log chooses its own method.
    pub method: &'static Method,
    pub settings: &'a Settings,
}

pub(crate) const WRITER_BYTES: u64 = 1 << 20;

/// Size of the file that all writers share, bytes.
pub fn file_bytes(settings: &Settings) -> u64 {
    let most = settings.writers.iter().max().copied().unwrap_or(1) as u64;
    most * WRITER_BYTES.max(settings.bytes as u64)
}

/// Space that the files take at most, bytes, those of the log and a journal for each writer among them.
pub fn needs_bytes(settings: &Settings, _: Option<u64>, _: u64) -> u64 {
    file_bytes(settings) * 2 + (160 << 20)
}

/// Runs the scenario.
///
/// # Errors
/// Nothing was measured.
pub fn run(
    settings: &Settings,
    testbed: &mut dyn Testbed,
    observer: &mut dyn Observer,
) -> Result<RunResult, RunError> {
    let Some(method) = settings.methods.first().copied() else {
        return Err(RunError::Unavailable("no method to commit by: name one with --methods".to_owned()));
    };
    let cases: Vec<(Sharing, usize)> = SHARINGS
        .iter()
        .flat_map(|(sharing, ..)| settings.writers.iter().map(|writers| (*sharing, *writers)))
        .collect();
    let durability = classify(method, &testbed.environment(0).surroundings(FileState::ZeroFilled));
    let study = study(settings, method);
    let course = Course::new(NAME, settings, file_bytes(settings), study);
    rounds::run(course, testbed, observer, &finish, &mut |testbed, turn| {
        let (sharing, writers) = cases[turn.index];
        let block = block(testbed, &BlockRequest { sharing, writers, method, settings }, turn.until)?;
        // The log opens only with a method of the requested class.
        let durability = (sharing != Sharing::Log).then(|| durability.clone());
        Ok(Measured { durability, ..tally(&block, settings.bytes as u64) })
    })
}

/// A block of the scenario; `replicated` has such rows too.
pub(crate) fn block(
    testbed: &mut dyn Testbed,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Block, BlockError> {
    testbed.real()?.block(|real| real::run(real, request, until))
}

/// The figures that follow from a block's sums.
pub(crate) fn derive(measured: &mut Measured) {
    let commits = measured.commits as f64;
    if commits == 0.0 || measured.elapsed_ns == 0 {
        return;
    }
    measured.set("commits_per_s", commits * 1e9 / measured.elapsed_ns as f64);
    if let Some(counts) = measured.counts {
        measured.set("writes_per_commit", counts.writes as f64 / commits);
        if counts.flushes > 0 {
            measured.set("commits_per_flush", commits / counts.flushes as f64);
        }
    }
    if let Some(share) = measured.wait_share() {
        measured.set("cpu_wait", share);
    }
}

fn study(settings: &Settings, method: &Method) -> Study {
    let row = |(sharing, id, words): &(Sharing, &str, &str), writers: usize| {
        let of_method = *sharing != Sharing::Log;
        Row {
            what: words.to_string(),
            group: if of_method { format!("{words}, {}", method.id) } else { (*words).to_owned() },
            x: Some(writers as f64),
            method: of_method.then(|| method.into()),
            writers: u32::try_from(writers).ok(),
            ..Row::waiting(format!("{id}-{writers}"), count(writers as u64))
        }
    };
    Study {
        title: format!("durable commits of {} by many writers", bytes(settings.bytes as u64)),
        row_title: "writers".to_owned(),
        settings: vec![
            Fact::new("size_bytes", "size", bytes(settings.bytes as u64)),
            Fact::new("method", "method", method.id),
        ],
        columns: columns(),
        rows: SHARINGS
            .iter()
            .flat_map(|sharing| settings.writers.iter().map(move |writers| row(sharing, *writers)))
            .collect(),
        notes: vec![
            "Commits per flush are counted by the device, with whatever its neighbours do: above 1, commits shared a flush.".to_owned(),
            CPU_WAIT_NOTE.to_owned(),
        ],
        ..Study::default()
    }
}

/// How the column of CPU waiting is to be read; what a finding says of it is of the slow commits alone.
pub(crate) const CPU_WAIT_NOTE: &str =
    "CPU wait of all: the share of the time of all commits, not of the slow ones alone.";

/// The columns of every scenario with commits: their rate, median and tail.
pub(crate) fn commit_columns() -> Vec<Column> {
    let rate = Column::figure("commits_per_s", Unit::PerSecond, Better::Larger, "", "commits/s", true);
    [rate].into_iter().chain(Column::tail("commit", "latency of a commit")).collect()
}

#[rustfmt::skip]
fn columns() -> Vec<Column> {
    let mut columns = commit_columns();
    columns.extend([
        Column::figure("commits_per_flush", Unit::Ratio, Better::Larger, "commits", "per flush", true),
        Column::figure("writes_per_commit", Unit::Ratio, Better::Smaller, "writes", "per commit", true),
        Column::figure("cpu_wait", Unit::Share, Better::Smaller, "CPU wait", "of all", false),
    ]);
    columns
}

fn finish(study: &mut Study) {
    study.rows.iter_mut().filter_map(Row::measured_mut).for_each(derive);
}

/// What the table says: for each way, what the writers gained.
pub fn judge(study: &Study) -> Vec<Finding> {
    SHARINGS.iter().filter_map(|(_, id, words)| gain(study, id, words)).collect()
}

/// A gain below this, from one writer to the most, is none.
const NO_GAIN: f64 = 1.5;

fn gain(study: &Study, id: &str, words: &str) -> Option<Finding> {
    let of = |row: &&Row| row.id.rsplit_once('-').is_some_and(|(kind, _)| kind == id);
    let mut rows: Vec<&Row> = study.rows.iter().filter(of).filter(|row| row.measured().is_some()).collect();
    rows.sort_by(|a, b| a.x.partial_cmp(&b.x).unwrap_or(std::cmp::Ordering::Equal));
    let (first, last) = (*rows.first()?, *rows.last()?);
    if first.id == last.id {
        return None;
    }
    let per_s = |row: &Row| row.measured()?.figure("commits_per_s");
    let (one, many) = (per_s(first)?, per_s(last)?);
    let per_flush = last.measured().and_then(|measured| measured.figure("commits_per_flush"));
    let shared = per_flush.map_or(String::new(), |n| format!(", {} commits a flush", significant(n)));
    let times = many / one;
    let sentence = format!(
        "{}: {} writers commit {}/s, {} times what {} did{shared}.",
        capital(words),
        last.label,
        rate(many),
        significant(times),
        if first.label == "1" { "one".to_owned() } else { first.label.clone() },
    );
    let (severity, remedy) = if times < NO_GAIN {
        (
            Severity::Caution,
            "More writers gain nothing this way: their syncs wait for each other. Share one write instead (group commit).",
        )
    } else {
        (Severity::Note, "Compare p99 too: what is gained in rate is often paid in waiting.")
    };
    Some(Finding { rule: "group-gain", severity, sentence, remedy: remedy.to_owned() })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use seawall_sys::counters::Counts;

    #[test]
    fn writers_that_share_a_write_share_its_flush_and_what_gains_nothing_is_a_caution() {
        let settings = Settings { writers: vec![1, 64], ..Settings::default() };
        let mut study = study(&settings, settings.methods[0]);
        for row in &mut study.rows {
            let commits = if row.id == "log-64" { 6_400 } else { 100 };
            let Some(measured) = row.measured_mut() else { continue };
            (measured.commits, measured.elapsed_ns) = (commits, 1_000_000_000);
            measured.counts = Some(Counts { writes: 100, sectors: 800, flushes: 100 });
        }
        finish(&mut study);
        let figure = |id: &str, name: &str| study.row(id)?.measured()?.figure(name);
        assert_eq!(figure("log-64", "commits_per_flush"), Some(64.0));
        assert_eq!(figure("shared-64", "commits_per_flush"), Some(1.0));
        assert_eq!(figure("log-64", "commits_per_s"), Some(6_400.0));
        let judged: Vec<(Severity, String)> =
            judge(&study).into_iter().map(|one| (one.severity, one.sentence)).collect();
        assert_eq!(
            judged.iter().map(|one| one.0).collect::<Vec<_>>(),
            [Severity::Caution, Severity::Caution, Severity::Note]
        );
        assert!(judged[2].1.contains("64.0 times what one did, 64.0 commits a flush"), "{}", judged[2].1);
    }
}
