//! Exports a result as CSV: one line per row, unrounded figures, units in the column heads.
//!
//! RFC 4180: lines end in CRLF, a field with a comma, a quote or a line end is quoted, a quote is doubled.
//!
//! Invariants: figures are unrounded; an unknown or refused value is an empty field; rows are in table order, and
//! rows without figures have a line too.

use crate::latency::Latency;
use crate::rank::{Ranked, Ranking, ToBest};
use crate::result::RunResult;
use crate::row::Measured;
use crate::study::Study;
use seawall_sys::durability::Promiser;

/// A column of a measured method; empty for what is not known.
type Field = (&'static str, fn(&Ranked<'_>) -> Option<String>);

#[rustfmt::skip]
const FIELDS: [Field; 46] = [
    ("outlives",                 |r| Some(r.class.name().to_owned())),
    ("claims",                   |r| Some(r.durability.class.name().to_owned())),
    ("promised_by",              |r| Some(promiser(r.durability.promised_by).to_owned())),
    ("reach",                    |r| r.measured.letter.map(|letter| letter.to_string())),
    ("evidence",                 |r| Some(r.evidence.outcome.to_string())),
    ("commits",                  |r| Some(r.measured.commits.to_string())),
    ("committed_bytes",          |r| Some(r.measured.bytes.to_string())),
    ("elapsed_ns",               |r| Some(r.measured.elapsed_ns.to_string())),
    ("latency_ns_min",           |r| Some(r.measured.main().min_ns().to_string())),
    ("latency_ns_mean",          |r| Some(r.measured.main().mean_ns().to_string())),
    ("latency_ns_p50",           |r| at(r.measured.main(), 50.0)),
    ("latency_ns_p90",           |r| at(r.measured.main(), 90.0)),
    ("latency_ns_p99",           |r| at(r.measured.main(), 99.0)),
    ("latency_ns_p99_9",         |r| at(r.measured.main(), 99.9)),
    ("latency_ns_p99_99",        |r| at(r.measured.main(), 99.99)),
    ("latency_ns_max",           |r| Some(r.measured.main().max_ns().to_string())),
    ("write_ns_p50",             |r| at(r.measured.latency("write")?, 50.0)),
    ("write_ns_p99",             |r| at(r.measured.latency("write")?, 99.0)),
    ("sync_ns_p50",              |r| at(r.measured.latency("sync")?, 50.0)),
    ("sync_ns_p99",              |r| at(r.measured.latency("sync")?, 99.0)),
    ("response_ns_p50",          |r| at(r.measured.latency("response")?, 50.0)),
    ("response_ns_p99",          |r| at(r.measured.latency("response")?, 99.0)),
    ("response_ns_max",          |r| Some(r.measured.latency("response")?.max_ns().to_string())),
    ("commits_per_s",            |r| Some(r.measured.commits_per_s().to_string())),
    ("bytes_per_s",              |r| Some(r.measured.bytes_per_s().to_string())),
    ("against_best",             |r| Some(against(&r.to_best).0.to_string())),
    ("against_best_low",         |r| against(&r.to_best).1.map(|(low, _)| low.to_string())),
    ("against_best_high",        |r| against(&r.to_best).1.map(|(_, high)| high.to_string())),
    ("device_writes",            |r| r.measured.counts.map(|counts| counts.writes.to_string())),
    ("device_sectors",           |r| r.measured.counts.map(|counts| counts.sectors.to_string())),
    ("device_flushes",           |r| r.measured.counts.map(|counts| counts.flushes.to_string())),
    ("device_writes_per_commit", |r| r.evidence.per_commit.map(|each| each.writes.to_string())),
    ("device_sectors_per_commit", |r| r.evidence.per_commit.map(|each| each.sectors.to_string())),
    ("device_flushes_per_commit", |r| r.evidence.per_commit.and_then(|each| each.flushes).map(|each| each.to_string())),
    ("write_amplification",      |r| r.evidence.per_commit.map(|each| each.write_amplification.to_string())),
    ("cpu_user_ns",              |r| Some(r.measured.cpu.user_ns.to_string())),
    ("cpu_system_ns",            |r| Some(r.measured.cpu.system_ns.to_string())),
    ("cpu_wait_ns",              |r| r.measured.cpu.wait_ns.map(|ns| ns.to_string())),
    ("slow_commits",             |r| Some(r.measured.tail.commits.to_string())),
    ("slow_latency_ns",          |r| Some(r.measured.tail.latency_ns.to_string())),
    ("slow_cpu_wait_ns",         |r| Some(r.measured.tail.wait_ns.to_string())),
    ("voluntary_switches",       |r| Some(r.measured.cpu.voluntary_switches?.to_string())),
    ("involuntary_switches",     |r| Some(r.measured.cpu.involuntary_switches?.to_string())),
    ("rounds",                   |r| Some(r.measured.rounds.len().to_string())),
    ("fastest_round_p50_ns",     |r| r.measured.rounds.iter().map(|round| round.p50_ns).min().map(|ns| ns.to_string())),
    ("slowest_round_p50_ns",     |r| r.measured.rounds.iter().map(|round| round.p50_ns).max().map(|ns| ns.to_string())),
];

fn at(latency: &Latency, percent: f64) -> Option<String> {
    latency.percentile(percent).ns().map(|ns| ns.to_string())
}

/// The estimate and, if there is one, the interval.
fn against(to_best: &ToBest) -> (f64, Option<(f64, f64)>) {
    match to_best {
        ToBest::Best => (1.0, None),
        ToBest::Single(times) => (*times, None),
        ToBest::Ratio(ratio) => (ratio.estimate, Some((ratio.low, ratio.high))),
    }
}

fn promiser(promiser: Promiser) -> &'static str {
    match promiser {
        Promiser::Device => "device",
        Promiser::Hypervisor => "hypervisor",
        Promiser::Server => "server",
        Promiser::Wine => "wine",
        Promiser::Unknown => "unknown",
    }
}

/// The whole file.
pub fn csv(result: &RunResult) -> String {
    if !result.study.ranked {
        return of_table(&result.study);
    }
    let ranking = Ranking::new(result);
    let heads =
        ["method", "calls", "outcome", "reason"].into_iter().chain(FIELDS.iter().map(|(name, _)| *name));
    let mut out = line(heads.map(str::to_owned));
    for row in &result.study.rows {
        let (outcome, reason) = row.outcome.missing().unwrap_or(("measured", ""));
        let ranked = ranking.find(&row.id);
        let fields =
            FIELDS.iter().map(|(_, field)| ranked.and_then(|ranked| field(ranked)).unwrap_or_default());
        let lead = [row.id.clone(), row.what.clone(), outcome.to_owned(), reason.to_owned()];
        out += &line(lead.into_iter().chain(fields));
    }
    out
}

fn of_table(study: &Study) -> String {
    let lead = ["row", "group", "label", "outcome", "reason", "x"].map(str::to_owned);
    let heads = study.columns.iter().map(|column| column.key.clone());
    let mut out = line(lead.into_iter().chain(heads).chain(ACCOUNTS.map(|(name, _)| name.to_owned())));
    for row in &study.rows {
        let (outcome, reason) = row.outcome.missing().unwrap_or(("measured", ""));
        let x = row.x.map_or(String::new(), |x| x.to_string());
        let lead =
            [row.id.clone(), row.group.clone(), row.label.clone(), outcome.to_owned(), reason.to_owned(), x];
        let values = study
            .columns
            .iter()
            .map(|column| Study::value(row, column).map_or(String::new(), |value| value.value.to_string()));
        let accounts = ACCOUNTS.map(|(_, account)| row.measured().and_then(account).unwrap_or_default());
        out += &line(lead.into_iter().chain(values).chain(accounts));
    }
    out
}

/// A column of accounts behind a table's own; empty for what is not known.
type Account = (&'static str, fn(&Measured) -> Option<String>);

const ACCOUNTS: [Account; 8] = [
    ("elapsed_ns", |m| Some(m.elapsed_ns.to_string())),
    ("device_writes", |m| Some(m.counts?.writes.to_string())),
    ("device_sectors", |m| Some(m.counts?.sectors.to_string())),
    ("device_flushes", |m| Some(m.counts?.flushes.to_string())),
    ("cpu_user_ns", |m| Some(m.cpu.user_ns.to_string())),
    ("cpu_system_ns", |m| Some(m.cpu.system_ns.to_string())),
    ("cpu_wait_ns", |m| Some(m.cpu.wait_ns?.to_string())),
    ("rounds", |m| Some(m.rounds.len().to_string())),
];

fn line(fields: impl Iterator<Item = String>) -> String {
    fields.map(|field| quoted(&field)).collect::<Vec<_>>().join(",") + "\r\n"
}

/// `field` as it stands between commas. One that a spreadsheet would take for a formula begins with an apostrophe; numbers stay.
pub(crate) fn quoted(field: &str) -> String {
    let acts = field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err();
    let plain;
    let field = if acts && field != "-" {
        plain = format!("'{field}");
        &plain
    } else {
        field
    };
    if field.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("=cmd|' /C calc'!A0.json"), "'=cmd|' /C calc'!A0.json");
        assert_eq!([quoted("-1.5"), quoted("-"), quoted("+2")], ["-1.5", "-", "+2"]);
        assert_eq!(quoted("@SUM(1,2)"), "\"'@SUM(1,2)\"");
    }
}
