//! Defines the columns of the result table, one row each, for the terminal and for Markdown.
//!
//! Invariants: a cell shows `-` for an unknown value and never 0; a percentile with fewer than ten samples beyond it
//! is marked `~`, one with none is `-`.

use crate::evidence::PerCommit;
use crate::figures::{bytes, count, percent, rate_tight, significant, tight, tight_sum};
use crate::latency::{Latency, Percentile};
use crate::rank::{Ranked, ToBest};
use crate::stats::Ratio;
use crate::study::{Unit, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    Essential,
    /// On wide terminals, as far as they fit, and in Markdown.
    Wide,
    Full,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub head: [&'static str; 2],
    pub title: &'static str,
    pub need: Need,
    /// Whether its cells are words, not figures.
    pub is_words: bool,
    pub cell: fn(&Ranked<'_>) -> String,
}

/// What a cell shows that knows nothing.
pub(crate) const UNKNOWN: &str = "-";

/// The columns, left to right, after the method's name.
#[rustfmt::skip]
pub(crate) const COLUMNS: [Column; 23] = [
    Column { head: ["flush", "each"],   title: "Flushes per commit",   need: Need::Essential, is_words: false, cell: |row| row.evidence.flushes() },
    Column { head: ["write", "each"],   title: "Device writes per commit", need: Need::Wide,  is_words: false, cell: |row| each(row, |each| each.writes) },
    Column { head: ["KiB", "each"],     title: "KiB per commit",       need: Need::Full,      is_words: false, cell: |row| each(row, PerCommit::kib) },
    Column { head: ["write", "amp"],    title: "Write amplification",  need: Need::Full,      is_words: false, cell: |row| each(row, |each| each.write_amplification) },
    Column { head: ["", "p50"],         title: "p50",                  need: Need::Essential, is_words: false, cell: |row| tight(row.p50_ns() as f64) },
    Column { head: ["write+", "sync"],  title: "Write + sync p50",     need: Need::Essential, is_words: false, cell: split },
    Column { head: ["write", "p50"],    title: "Write p50",            need: Need::Full,      is_words: false, cell: |row| part(row.measured.latency("write"), 50.0) },
    Column { head: ["sync", "p50"],     title: "Sync p50",             need: Need::Full,      is_words: false, cell: |row| part(row.measured.latency("sync"), 50.0) },
    Column { head: ["", "p90"],         title: "p90",                  need: Need::Full,      is_words: false, cell: |row| percentile(row.measured.main(), 90.0) },
    Column { head: ["", "p99"],         title: "p99",                  need: Need::Essential, is_words: false, cell: |row| percentile(row.measured.main(), 99.0) },
    Column { head: ["", "p99.9"],       title: "p99.9",                need: Need::Essential, is_words: false, cell: |row| percentile(row.measured.main(), 99.9) },
    Column { head: ["", "p99.99"],      title: "p99.99",               need: Need::Full,      is_words: false, cell: |row| percentile(row.measured.main(), 99.99) },
    Column { head: ["", "max"],         title: "Max",                  need: Need::Essential, is_words: false, cell: |row| tight(row.measured.main().max_ns() as f64) },
    Column { head: ["resp.", "p99"],    title: "Response p99",         need: Need::Full,      is_words: false, cell: |row| part(row.measured.latency("response"), 99.0) },
    Column { head: ["rate", "/s"],      title: "Commits/s",            need: Need::Essential, is_words: false, cell: |row| rate_tight(row.measured.commits_per_s()) },
    Column { head: ["", "MB/s"],        title: "MB/s",                 need: Need::Wide,      is_words: false, cell: |row| significant(row.measured.bytes_per_s() / 1e6) },
    Column { head: ["against", "best"], title: "Against best, 95 % range", need: Need::Essential, is_words: false, cell: |row| to_best(&row.to_best) },
    Column { head: ["CPU", "wait"],     title: "CPU wait of slow commits", need: Need::Essential, is_words: false, cell: |row| share(row.measured.slow_wait_share()) },
    Column { head: ["CPU", "wait"],     title: "CPU wait of all commits", need: Need::Full,   is_words: false, cell: |row| share(row.measured.wait_share()) },
    Column { head: ["CPU", "each"],     title: "CPU time per commit",  need: Need::Wide,      is_words: false, cell: |row| tight(cpu_ns(row)) },
    Column { head: ["switch", "each"],  title: "Context switches per commit", need: Need::Full, is_words: false, cell: |row| switches(row).map_or(UNKNOWN.to_owned(), significant) },
    Column { head: ["", "commits"],     title: "Commits",              need: Need::Full,      is_words: false, cell: |row| count(row.measured.commits) },
    Column { head: ["", "evidence"],    title: "Evidence",             need: Need::Full,      is_words: true,  cell: |row| row.evidence.outcome.to_string() },
];

#[rustfmt::skip]
pub(crate) const JUDGED: [Column; 2] = [
    Column { head: ["an acknowledged", "commit outlives"], title: "outlives", need: Need::Full, is_words: true,  cell: |row| row.class.name().to_owned() },
    Column { head: ["", "evidence"],    title: "evidence",             need: Need::Full,      is_words: true,  cell: |row| row.evidence.outcome.to_string() },
];

fn each(row: &Ranked<'_>, figure: fn(&PerCommit) -> f64) -> String {
    row.evidence.per_commit.map_or(UNKNOWN.to_owned(), |each| format!("{:.2}", figure(&each)))
}

pub(crate) fn percentile(latency: &Latency, percent: f64) -> String {
    match latency.percentile(percent) {
        Percentile::Sound(ns) => tight(ns as f64),
        Percentile::Uncertain(ns) => format!("~{}", tight(ns as f64)),
        Percentile::Refused => UNKNOWN.to_owned(),
    }
}

fn part(latency: Option<&Latency>, percent: f64) -> String {
    latency.map_or(UNKNOWN.to_owned(), |latency| percentile(latency, percent))
}

/// The medians of a commit's two parts, where write and sync are separate calls: `12+54µs`.
fn split(row: &Ranked<'_>) -> String {
    let part = |name| row.measured.latency(name).map(|latency| latency.percentile(50.0));
    let Some((write, sync)) = part("write").zip(part("sync")) else { return UNKNOWN.to_owned() };
    let Some((write_ns, sync_ns)) = write.ns().zip(sync.ns()) else { return UNKNOWN.to_owned() };
    let is_sound = matches!((write, sync), (Percentile::Sound(_), Percentile::Sound(_)));
    format!("{}{}", if is_sound { "" } else { "~" }, tight_sum(write_ns as f64, sync_ns as f64))
}

fn share(share: Option<f64>) -> String {
    share.map_or(UNKNOWN.to_owned(), |share| format!("{:.0}%", share * 100.0))
}

pub(crate) fn cpu_ns(row: &Ranked<'_>) -> f64 {
    let cpu = row.measured.cpu;
    (cpu.user_ns + cpu.system_ns) as f64 / row.measured.commits.max(1) as f64
}

fn switches(row: &Ranked<'_>) -> Option<f64> {
    let cpu = row.measured.cpu;
    let switches = cpu.voluntary_switches? + cpu.involuntary_switches?;
    Some(switches as f64 / row.measured.commits.max(1) as f64)
}

/// `best`, the range `1.41–1.45×`, `≈0.98–1.04×` where it does not differ from the best, or `noisy` where it says nothing.
pub(crate) fn to_best(to_best: &ToBest) -> String {
    match to_best {
        ToBest::Best => "best".to_owned(),
        ToBest::Single(times) => format!("{}×", digits(*times, *times)),
        // As well half as twice the best.
        ToBest::Ratio(ratio) if ratio.low < 0.5 && ratio.high > 2.0 => "noisy".to_owned(),
        ToBest::Ratio(ratio) => {
            let mark = if to_best.within_noise() { "≈" } else { "" };
            format!("{mark}{}", range(ratio))
        }
    }
}

/// Both ends with the decimals that the range leaves any meaning.
fn range(ratio: &Ratio) -> String {
    let spread = ratio.high - ratio.low;
    let (low, high) = (digits(ratio.low, spread), digits(ratio.high, spread));
    if low == high { format!("{low}×") } else { format!("{low}–{high}×") }
}

fn digits(times: f64, spread: f64) -> String {
    match times {
        _ if times > 99.95 || spread > 9.5 => format!("{times:.0}"),
        _ if times > 9.995 || spread > 0.195 => format!("{times:.1}"),
        _ => format!("{times:.2}"),
    }
}

/// A value in its unit, as every report shows it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count or a size, never negative"
)]
pub(crate) fn shown(value: Value, unit: Unit) -> String {
    let Value { value, uncertain } = value;
    let text = match unit {
        Unit::Nanoseconds => tight(value),
        // A mean of counts.
        Unit::Count if value.fract() != 0.0 => significant(value),
        Unit::Count => count(value.max(0.0).round() as u64),
        Unit::PerSecond => rate_tight(value),
        Unit::Bytes => bytes(value.max(0.0).round() as u64),
        Unit::Share => percent(value),
        Unit::Ratio => significant(value),
        Unit::Outlived => outlived(value).to_owned(),
    };
    if uncertain { format!("~{text}") } else { text }
}

fn outlived(value: f64) -> &'static str {
    match value {
        0.0 => "no",
        1.0 => "yes",
        _ => "if apart",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_shown_as_the_range_it_may_be_in() {
        let cell = |estimate, low, high| to_best(&ToBest::Ratio(Ratio { estimate, low, high }));
        assert_eq!(cell(1.43, 1.414, 1.446), "1.41–1.45×");
        assert_eq!(cell(1.5, 1.1, 1.9), "1.1–1.9×");
        assert_eq!(cell(1.01, 0.98, 1.04), "≈0.98–1.04×");
        assert_eq!(cell(2.0, 2.0001, 2.0002), "2.00×");
        assert_eq!(cell(2.0, 0.2, 11.0), "noisy");
        assert_eq!(cell(30.0, 20.0, 42.0), "20–42×");
        assert_eq!(to_best(&ToBest::Single(1.5)), "1.5×");
    }
}
