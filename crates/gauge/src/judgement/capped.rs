//! Recognises a disk that is held at a rate: a cloud volume's limit, or a cgroup's.
//!
//! ```text
//!   an ordinary disk     rate = 1 / its latency: each method has its own, and the fastest commits are near the mean
//!   a disk that is held  every method makes the same requests (or bytes) a second, round by round, while the fastest
//!                        commits take a fraction of the mean: the device could do more, and is not let
//! ```
//!
//! A control group's limit is known: there a row that stands at it suffices, if none is beyond it. A commit that is flushed is
//! two requests, any other one.
//!
//! Invariants: pure; without a known limit at least two rows that reach the device, and two rounds of each, say it; a limit
//! is named only where the rate stands at it.

use super::per_s;
use crate::figures::{bytes, percent};
use crate::rank::{Ranked, Ranking};
use crate::row::Measured;
use seawall_sys::counters::Counts;
use seawall_sys::inspect::{Limit, LimitKind};
use serde::Serialize;

/// How far rates of rows may lie from their median.
const SPREAD_MAX: f64 = 0.1;
/// And those of single rounds, in which a step more or less counts for much.
const ROUND_SPREAD_MAX: f64 = 0.3;
/// The fastest commits take less than this share of the mean where more could be done.
const FAST_SHARE_MAX: f64 = 0.4;
/// How near a rate is to a limit that holds it.
const NEAR: f64 = 0.2;
/// Fewer commits of a row say nothing of its rate.
const COMMITS_MIN: u64 = 50;

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// Commits.
    Commits,
    /// Write requests at the device, flushes among them.
    Requests,
    /// Bytes at the device.
    Bytes,
}

/// A rate at which the disk is held.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cap {
    /// Of what.
    pub held: Held,
    /// How many a second.
    pub per_s: f64,
    /// The rows that show it.
    pub rows: usize,
    /// The cgroup's limit that explains it, in words.
    pub limit: Option<String>,
}

impl Cap {
    /// `The disk is held at 300 requests/s by every method (cgroup io.max …).`
    pub fn sentence(&self) -> String {
        let rate = match self.held {
            Held::Commits => format!("{} commits/s", per_s(self.per_s).trim_end_matches("/s")),
            Held::Requests => format!("{} requests/s", per_s(self.per_s).trim_end_matches("/s")),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of bytes")]
            Held::Bytes => format!("{}/s", bytes(self.per_s as u64)),
        };
        let limit = self.limit.as_ref().map_or_else(
            || ", as a volume's limit does".to_owned(),
            |limit| format!(", by a limit of its cgroup ({limit})"),
        );
        format!("The disk is held at {rate} whatever the method{limit}.")
    }
}

pub(crate) fn of(ranking: &Ranking<'_>) -> Option<Cap> {
    // A schedule has the rate that it has.
    if ranking.result.plan.rate_per_s.is_some() {
        return None;
    }
    let reaches = |row: &&Ranked<'_>| {
        matches!(row.measured.letter, Some('O' | 'D')) && row.measured.commits >= COMMITS_MIN
    };
    let rows: Vec<&Ranked<'_>> = ranking.rows.iter().filter(reaches).collect();
    let limits = &ranking.result.environment.limits;
    if let Some(cap) = limits.iter().find_map(|limit| at_limit(ranking, &rows, limit)) {
        return Some(cap);
    }
    if rows.len() < 2 || !rows.iter().all(|row| could_do_more(row.measured)) {
        return None;
    }
    [Held::Commits, Held::Requests, Held::Bytes].into_iter().find_map(|held| {
        let per_s = steady(&rows, held)?;
        Some(Cap { held, per_s, rows: rows.len(), limit: None })
    })
}

/// What a known limit holds: a row stands at it though its fastest commits show that the device could do more, and no row
/// is beyond it.
fn at_limit(ranking: &Ranking<'_>, rows: &[&Ranked<'_>], limit: &Limit) -> Option<Cap> {
    let per_s = |row: &Ranked<'_>| match limit.kind {
        LimitKind::Cpu => None,
        LimitKind::Bytes => Some(row.measured.bytes_per_s()),
        LimitKind::Requests => {
            let each = if row.measured.letter == Some('D') { 2.0 } else { 1.0 };
            Some(row.measured.commits_per_s() * each * f64::from(ranking.result.plan.writes))
        }
    };
    let shares: Vec<(f64, bool)> =
        rows.iter().filter_map(|row| Some((per_s(row)? / limit.most, could_do_more(row.measured)))).collect();
    let stands = shares.iter().filter(|(share, more)| *more && (share - 1.0).abs() <= NEAR).count();
    // A flush may be free: a row that seems beyond the limit by less than twice is not.
    let beyond = shares.iter().any(|(share, _)| *share > 2.0 * (1.0 + NEAR));
    let held = if limit.kind == LimitKind::Bytes { Held::Bytes } else { Held::Requests };
    (stands > 0 && !beyond).then(|| Cap {
        held,
        per_s: limit.most,
        rows: stands,
        limit: Some(limit.to_string()),
    })
}

fn could_do_more(measured: &Measured) -> bool {
    let latency = measured.main();
    let fast_ns = latency.raw_percentile_ns(1.0).min(latency.p50_ns());
    (fast_ns as f64) < latency.mean_ns() * FAST_SHARE_MAX
}

/// The rate that all rows have, and all their rounds roughly, if they have one.
fn steady(rows: &[&Ranked<'_>], held: Held) -> Option<f64> {
    let per_s = |commits: u64, counts: Option<Counts>, elapsed_ns: u64| {
        let done = match held {
            Held::Commits => commits,
            Held::Requests => counts?.writes,
            Held::Bytes => counts?.sectors.saturating_mul(512),
        };
        (elapsed_ns > 0 && done > 0).then(|| done as f64 * 1e9 / elapsed_ns as f64)
    };
    let of_row =
        |row: &&Ranked<'_>| per_s(row.measured.commits, row.measured.counts, row.measured.elapsed_ns);
    let mut rates = rows.iter().map(of_row).collect::<Option<Vec<f64>>>()?;
    rates.sort_by(f64::total_cmp);
    let median = rates[rates.len() / 2];
    let within = |rate: f64, spread: f64| (rate / median - 1.0).abs() <= spread;
    let rounds_agree = |row: &&Ranked<'_>| {
        let rounds = row.measured.rounds.iter().filter(|round| round.commits > 1);
        let mut rates = rounds.map(|round| per_s(round.commits, round.counts, round.elapsed_ns));
        row.measured.rounds.len() > 1
            && rates.all(|rate| rate.is_some_and(|rate| within(rate, ROUND_SPREAD_MAX)))
    };
    let steady = rates.iter().all(|rate| within(*rate, SPREAD_MAX)) && rows.iter().all(rounds_agree);
    steady.then_some(median)
}

/// What a cgroup's limit on the CPU means for a wait for one: the quota, not other work.
pub(crate) fn cpu_limit(ranking: &Ranking<'_>) -> Option<String> {
    let limits = &ranking.result.environment.limits;
    let cpu = limits.iter().filter(|limit| limit.kind == LimitKind::Cpu);
    let least = cpu.min_by(|a, b| a.most.total_cmp(&b.most))?;
    (least.most < ranking.result.environment.cpus as f64 + 0.5)
        .then(|| format!("{least}, {} of one CPU", percent(least.most)))
}
