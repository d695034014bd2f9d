//! Exports a result in the form of fio's `--output-format=json`, for tools that read the percentiles of its syncs.
//!
//! ```text
//!   jobs[0]   the subject of the run, then every measured row: jobname is the row's id
//!     write.clat_ns, lat_ns   the write alone, or the whole commit where the write is the sync
//!     sync.lat_ns             the sync alone; N is 0 where there is no separate one, as fio has it for sync=dsync
//!     seawall                 what fio has no field for: the commit as a whole, its class and evidence
//! ```
//!
//! Invariants: field names, units (nanoseconds) and the percentiles' names are fio's (seen of 3.33); what fio counts and the
//! gauge does not is left out, never zero; the verdict is that of every other output.

use crate::judgement::Judgement;
use crate::latency::Latency;
use crate::rank::{Ranked, Ranking};
use crate::result::RunResult;
use serde_json::{Map, Value, json};

const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// The whole document.
pub fn json(result: &RunResult) -> String {
    let ranking = Ranking::new(result);
    let judgement = Judgement::of(&ranking);
    let is_subject = |row: &&Ranked<'_>| judgement.subject.as_deref() == Some(row.id());
    let (first, rest): (Vec<&Ranked<'_>>, Vec<&Ranked<'_>>) = ranking.rows.iter().partition(is_subject);
    let jobs: Vec<Value> = first.into_iter().chain(rest).map(|row| job(result, row)).collect();
    let document = json!({
        "fio version": format!("seawall-{}", result.seawall),
        "timestamp": result.started_unix_s,
        "timestamp_ms": result.started_unix_s.saturating_mul(1000),
        "jobs": jobs,
        "seawall": { "answer": judgement.answer, "verdict": judgement.verdict, "wrong": judgement.wrong },
    });
    format!("{document:#}\n")
}

fn job(result: &RunResult, row: &Ranked<'_>) -> Value {
    let measured = row.measured;
    let plan = &result.plan;
    let writes = measured.commits.saturating_mul(u64::from(plan.writes));
    let runtime_ms = measured.elapsed_ns / 1_000_000;
    let bytes_per_s = measured.bytes_per_s();
    let write = measured.latency("write").unwrap_or(measured.main());
    let seconds = (measured.elapsed_ns as f64 / 1e9).max(f64::MIN_POSITIVE);
    json!({
        "jobname": row.id(),
        "groupid": 0,
        "error": 0,
        "elapsed": runtime_ms.div_ceil(1000),
        "job options": {
            "name": row.id(),
            "rw": "write",
            "bs": plan.transaction_bytes.to_string(),
            "size": plan.journal_bytes.to_string(),
            "numjobs": plan.threads.to_string(),
        },
        "write": {
            "io_bytes": measured.bytes,
            "io_kbytes": measured.bytes / 1024,
            "bw_bytes": bytes_per_s.round(),
            "bw": (bytes_per_s / 1024.0).round(),
            "iops": writes as f64 / seconds,
            "runtime": runtime_ms,
            "total_ios": writes,
            "clat_ns": latency(write, true),
            "lat_ns": latency(write, false),
        },
        "sync": {
            "total_ios": measured.latency("sync").map_or(0, Latency::count),
            "lat_ns": latency(measured.latency("sync").unwrap_or(&Latency::new()), true),
        },
        "job_runtime": runtime_ms,
        "seawall": {
            "commit_ns": latency(measured.main(), true),
            "outlives": row.class,
            "evidence": row.evidence.outcome.to_string(),
        },
    })
}

fn latency(latency: &Latency, percentiles: bool) -> Value {
    let (n, histogram) = (latency.count(), latency.histogram());
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    put("min", json!(if n == 0 { 0 } else { latency.min_ns() }));
    put("max", json!(latency.max_ns()));
    put("mean", json!(if n == 0 { 0.0 } else { latency.mean_ns() }));
    put("stddev", json!(if n == 0 { 0.0 } else { histogram.stdev() }));
    put("N", json!(n));
    if percentiles && n > 0 {
        let each =
            PERCENTILES.map(|percent| (format!("{percent:.6}"), json!(latency.raw_percentile_ns(percent))));
        put("percentile", Value::Object(each.into_iter().collect()));
    }
    Value::Object(fields)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::sample::volatile;

    /// What parsers of fio's syncs read: `jobs[].sync.lat_ns.percentile`, nanoseconds, and the write's completion latency.
    #[test]
    fn the_fields_that_tools_read_are_those_of_fio() {
        let result = volatile(Vec::new());
        let document: Value = serde_json::from_str(&json(&result)).expect("JSON");
        let job = &document["jobs"][0];
        assert_eq!(job["jobname"], "buffered+fdatasync", "the subject comes first");
        let (_, measured) =
            result.measured().find(|(row, _)| row.id == "buffered+fdatasync").expect("measured");
        let sync = measured.latency("sync").expect("apart");
        for percent in [50.0, 99.0, 99.9] {
            let shown = &job["sync"]["lat_ns"]["percentile"][format!("{percent:.6}")];
            assert_eq!(shown.as_u64(), Some(sync.raw_percentile_ns(percent)), "{percent}");
        }
        assert_eq!(job["sync"]["lat_ns"]["N"].as_u64(), Some(sync.count()));
        assert!(job["write"]["clat_ns"]["percentile"]["99.000000"].is_u64() && job["write"]["iops"].is_f64());
        assert_eq!(job["error"], 0);
        let jobs = document["jobs"].as_array().expect("jobs");
        assert_eq!(jobs.len(), result.measured().count());
        let dsync = jobs.iter().find(|job| job["jobname"] == "dsync").expect("a job");
        assert_eq!(dsync["sync"]["lat_ns"]["N"], 0, "as fio has it where a write is its own sync");
        assert!(dsync["sync"]["lat_ns"]["percentile"].is_null());
    }
}
