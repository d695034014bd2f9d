//! Compares Seawall's figures with fio, a C loop and `pg_test_fsync`, interleaved on the same disk.
//!
//! ```text
//!   round 1:  for each method:  seawall, fio, the C loop        then pg_test_fsync, seawall as it writes
//!   round 2:  for each method:  fio, the C loop, seawall        then pg_test_fsync, seawall as it writes
//!   …         the order turns by one each round; a ratio is taken within a round, and the median over rounds
//! ```
//!
//! All commit the same number of 16 KiB transactions, one after the other, to a zero-filled journal of the same size.
//! What can be compared: commits per second of all; the median of fio only where one call is the commit, because fio
//! reports write and sync separately and medians do not add; of `pg_test_fsync` only fdatasync and fsync behind two
//! writes of 8 KiB, as means: its `open_datasync` makes two commits of 8 KiB. It writes the same 16 KiB over and
//! over, from the cache, so Seawall runs once more on a journal of one transaction, kept cached.
//!
//! Invariant: a missing figure can only make an outcome worse, never better.

mod contenders;

use crate::error::{Error, Result};
use crate::files;
use crate::shell::{cargo, command, root, status, target};
use crate::studies::rest_and_print_load;
use crate::studies::rounds::{Options, median};
use crate::tools;
use contenders::{Bench, Figures};
use std::fmt;

/// What may lie between two instruments.
const TOLERANCE: f64 = 0.05;
/// What the instrument may cost a commit, nanoseconds.
const OVERHEAD_TARGET_NS: f64 = 150.0;

const METHODS: [&str; 6] =
    ["buffered+fdatasync", "buffered+fsync", "dsync", "sync", "direct+dsync", "uring-direct-fixed-dsync"];

/// One method's figures, one entry a round.
struct Row {
    method: &'static str,
    commits: u64,
    seawall: Vec<Figures>,
    fio: Vec<Figures>,
    plain: Vec<Figures>,
    postgres: Vec<Figures>,
    /// Seawall on a journal of the one transaction that `pg_test_fsync` rewrites.
    rewriting: Vec<Figures>,
}

/// Runs the comparison, prints it, and fails if a row is outside the tolerance.
pub(crate) fn run(arguments: &[String]) -> Result {
    let defaults = Options { folder: target().join("fidelity"), rounds: 15, seconds: 0.3 };
    let options = defaults.changed_by(arguments, 0.05)?;
    tools::provide(&tools::FIDELITY)?;
    let bench = build(&options)?;
    rest_and_print_load();
    let mut rows = Vec::new();
    for method in METHODS {
        let commits = bench.calibrate(method, options.seconds)?;
        rows.push(Row {
            method,
            commits,
            seawall: vec![],
            fio: vec![],
            plain: vec![],
            postgres: vec![],
            rewriting: vec![],
        });
    }
    for round in 0..options.rounds {
        for row in &mut rows {
            measure(&bench, row, round)?;
        }
        for (method, figures) in bench.postgres()? {
            if let Some(row) = rows.iter_mut().find(|row| row.method == method) {
                row.postgres.push(figures);
                row.rewriting.push(bench.rewriting(row.method, row.commits)?);
            }
        }
        eprintln!("round {} of {} done", round + 1, options.rounds);
    }
    let missed = print(&rows);
    let overhead_ns = bench.overhead_ns()?;
    let kept = overhead_ns < OVERHEAD_TARGET_NS;
    let outcome = if kept { "below" } else { "NOT below" };
    println!(
        "\nOverhead of the instrument: {overhead_ns:.0} ns a commit, {outcome} {OVERHEAD_TARGET_NS} ns (512-byte writes to memory: seawall's loop less the C loop without clock and histogram)"
    );
    match (missed, kept) {
        (0, true) => Ok(()),
        (0, false) => Err(Error::check("the instrument costs more than its target")),
        (missed, _) => Err(Error::check(format!("{missed} of {} methods are not within 5 %", rows.len()))),
    }
}

fn build(options: &Options) -> Result<Bench> {
    status(cargo(&["build", "--release", "--quiet", "--package", "seawall-cli"]))?;
    files::make_folder(&options.folder)?;
    let plain = target().join("fidelity-loop");
    let source = root().join("xtask/src/studies/fidelity/loop.c");
    let mut compiler = command("cc", &["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
    compiler.args([&plain, &source]);
    status(compiler)?;
    Bench::new(target().join("release/seawall"), plain, &options.folder)
}

fn measure(bench: &Bench, row: &mut Row, round: usize) -> Result {
    for turn in 0..3 {
        match (round + turn) % 3 {
            0 => row.seawall.push(bench.seawall(row.method, row.commits)?),
            1 => row.fio.push(bench.fio(row.method, row.commits)?),
            _ => row.plain.push(bench.plain(row.method, row.commits)?),
        }
    }
    Ok(())
}

/// Prints the table; gives the number of rows outside the tolerance.
fn print(rows: &[Row]) -> usize {
    println!("\n{:26} {:>7} {:>22} {:>22} {:>22} {:>9}", "", "", "seawall", "fio", "C loop", "pg_test");
    println!(
        "{:26} {:>7} {:>11} {:>10} {:>11} {:>10} {:>11} {:>10} {:>9}  ratios to the best tool and to C",
        "method", "commits", "commits/s", "p50 µs", "commits/s", "p50 µs", "commits/s", "p50 µs", "commits/s"
    );
    let mut missed = 0;
    for row in rows {
        let pair = |all: &[Figures]| {
            let rate = median(all.iter().map(|figures| figures.commits_per_s));
            let p50 = median(all.iter().filter_map(|figures| figures.p50_ns).map(|ns| ns / 1e3));
            format!("{} {}", figure(rate, 11, 0), figure(p50, 10, 1))
        };
        let ratios = Ratios::of(row);
        missed += usize::from(!ratios.holds());
        println!(
            "{:26} {:>7} {} {} {} {}  {}",
            row.method,
            row.commits,
            pair(&row.seawall),
            pair(&row.fio),
            pair(&row.plain),
            figure(median(row.postgres.iter().map(|figures| figures.commits_per_s)), 9, 0),
            ratios
        );
    }
    missed
}

fn figure(value: Option<f64>, width: usize, decimals: usize) -> String {
    value.map_or_else(|| format!("{:>width$}", "-"), |value| format!("{value:>width$.decimals$}"))
}

/// Seawall's figures in relation to the others'; 1 is equal, above 1 is more.
#[derive(Debug)]
struct Ratios {
    rate_to_tools: Option<f64>,
    rate_to_plain: Option<f64>,
    p50_to_fio: Option<f64>,
    p50_to_plain: Option<f64>,
    /// How far the C loop's own rates lie apart, as a share: what no instrument can be better than here.
    noise: f64,
}

impl Ratios {
    fn of(row: &Row) -> Self {
        let paired = |own: &[Figures], others: &[Figures], pick: fn(&Figures) -> Option<f64>| {
            let pairs = own.iter().zip(others);
            median(pairs.filter_map(|(own, other)| Some(pick(own)? / pick(other)?)))
        };
        let ratio = |others: &[Figures], pick| paired(&row.seawall, others, pick);
        let rate: fn(&Figures) -> Option<f64> = |figures| Some(figures.commits_per_s);
        let p50: fn(&Figures) -> Option<f64> = |figures| figures.p50_ns;
        let to_fio = ratio(&row.fio, rate);
        let to_postgres = paired(&row.rewriting, &row.postgres, rate);
        let rates = || row.plain.iter().map(|figures| figures.commits_per_s);
        let spread = rates().fold(0.0, f64::max) - rates().fold(f64::INFINITY, f64::min);
        Self {
            // The better tool is the one that Seawall is further behind.
            rate_to_tools: to_fio.map(|fio| to_postgres.map_or(fio, |postgres| fio.min(postgres))),
            rate_to_plain: ratio(&row.plain, rate),
            p50_to_fio: ratio(&row.fio, p50),
            p50_to_plain: ratio(&row.plain, p50),
            noise: median(rates()).map_or(f64::INFINITY, |middle| spread / middle),
        }
    }

    fn holds(&self) -> bool {
        let fast = |ratio: Option<f64>| ratio.is_some_and(|ratio| ratio >= 1.0 - TOLERANCE);
        let low = |ratio: Option<f64>| ratio.is_some_and(|ratio| ratio <= 1.0 + TOLERANCE);
        fast(self.rate_to_tools)
            && fast(self.rate_to_plain)
            && low(self.p50_to_plain)
            // fio has no median of a commit where the sync is a call of its own.
            && self.p50_to_fio.is_none_or(|ratio| ratio <= 1.0 + TOLERANCE)
    }
}

impl fmt::Display for Ratios {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = if self.holds() { "within 5 %" } else { "NOT within 5 %" };
        write!(
            out,
            "rate {} {}, p50 {} {}: {outcome} (C varies by {:.0} %)",
            figure(self.rate_to_tools, 0, 3),
            figure(self.rate_to_plain, 0, 3),
            figure(self.p50_to_fio, 0, 3),
            figure(self.p50_to_plain, 0, 3),
            self.noise * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seawall: f64, fio: f64, plain: f64, postgres: Option<f64>) -> Row {
        let figures = |rate: f64| Figures { commits_per_s: rate, p50_ns: Some(1e9 / rate) };
        let all = |rate: f64| vec![figures(rate), figures(rate * 1.01), figures(rate * 0.99)];
        Row {
            method: "dsync",
            commits: 1,
            seawall: all(seawall),
            fio: all(fio),
            plain: all(plain),
            postgres: postgres.map(all).unwrap_or_default(),
            rewriting: all(seawall),
        }
    }

    #[test]
    fn a_verdict_needs_every_ratio_within_the_tolerance() {
        let holds = |row: &Row| Ratios::of(row).holds();
        assert!(holds(&row(1000.0, 1000.0, 1000.0, None)));
        assert!(holds(&row(970.0, 1000.0, 1000.0, Some(990.0))));
        assert!(holds(&row(1200.0, 1000.0, 1000.0, None)), "faster than a tool is no fault");
        assert!(!holds(&row(940.0, 1000.0, 900.0, None)), "behind fio");
        assert!(!holds(&row(940.0, 900.0, 1000.0, None)), "behind the C loop");
        assert!(!holds(&row(940.0, 900.0, 900.0, Some(1000.0))), "behind pg_test_fsync");
        let mut blind = row(1000.0, 1000.0, 1000.0, None);
        blind.plain.clear();
        assert!(!holds(&blind), "a missing yardstick holds nothing");
    }
}
