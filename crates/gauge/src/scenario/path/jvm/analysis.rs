//! Computes the columns, notes and findings of the `path` table with JVM rows.
//!
//! Invariant: a derived figure is computed from unrounded ones, and a row is compared only with the native row of the
//! same calls, pace and file.

use super::super::super::settings::Settings;
use super::super::{Trace, columns as native_columns, tally as native_tally};
use super::DURABLE_INTERVALS;
use crate::figures::{duration_ns, significant};
use crate::findings::{Finding, Severity};
use crate::latency::Latency;
use crate::row::{Measured, NamedLatency, Outcome, Row};
use crate::study::{Better, Column, Point, Study, Unit};

/// What the kernel counts in.
const SECTOR_BYTES: f64 = 512.0;

/// The figure that sums up what was allocated.
const ALLOCATED: &str = "allocated_bytes";

pub(super) fn tally(mut trace: Trace) -> Measured {
    let (counts, roll) = (trace.counts, trace.roll.take());
    let allocated = trace.allocated_bytes;
    let mut measured = Measured { counts, ..native_tally(trace) };
    if let Some(roll) = roll {
        measured.latencies.push(NamedLatency::new(
            "roll",
            "from one file to the next, apart from writes",
            roll,
        ));
    }
    if let Some(bytes) = allocated {
        measured.set(ALLOCATED, bytes as f64);
    }
    measured
}

pub(super) fn columns() -> Vec<Column> {
    let figure = |key, unit, better, group, title| Column::figure(key, unit, better, group, title, true);
    let mut columns = native_columns();
    for column in &mut columns {
        // Two pieces at 80 columns: first the latencies, then what follows from them.
        column.essential =
            ["write_min_ns", "write_p50_ns", "write_p99_ns", "write_p99_99_ns", "write_max_ns"]
                .contains(&column.key.as_str());
    }
    columns.push(figure("against_native", Unit::Ratio, Better::Smaller, "p50 to", "native"));
    columns.push(figure("allocated_per_write", Unit::Bytes, Better::Smaller, "heap a", "write"));
    columns.push(figure("flushes_per_write", Unit::Ratio, Better::Neither, "flushes", "a write"));
    columns.push(figure("sent_per_write", Unit::Bytes, Better::Smaller, "sent a", "write"));
    columns.push(Column::latency("roll", Point::P50, "roll", "p50", true));
    columns.push(Column::latency("roll", Point::Max, "roll", "max", false));
    columns
}

pub(super) fn notes(settings: &Settings) -> Vec<String> {
    vec![
        "One process a JVM does all its rows; rows of all take turns, on files made alike; each figure has one reading of its own clock in it.".to_owned(),
        format!(
            "On a schedule, writes that reach the device come every {}, others every {}.",
            duration_ns(settings.write_sleep_ns * DURABLE_INTERVALS),
            duration_ns(settings.write_sleep_ns)
        ),
        "Roll: closing a file and opening the next, timed apart from the writes; only in the closed loop of a JVM. Heap: what the writes allocated, until compiled more than afterwards.".to_owned(),
        "Flushes and bytes sent are counted by the device, with whatever its neighbours do.".to_owned(),
        "A critical downcall that blocks holds up every collection of its JVM: those rows are there to be measured, not to be used.".to_owned(),
    ]
}

/// Works out what follows from sums and, where `native_of` has a row's native one, from that.
pub(super) fn finish(study: &mut Study, native_of: &[Option<usize>]) {
    let median = |row: &Row| {
        let write = row.measured()?.latency("write")?;
        (write.count() > 0).then(|| write.p50_ns() as f64)
    };
    let medians: Vec<Option<f64>> = study.rows.iter().map(median).collect();
    for (index, row) in study.rows.iter_mut().enumerate() {
        let Outcome::Measured(measured) = &mut row.outcome else { continue };
        let Some(p50) = medians[index] else { continue };
        let writes = measured.latency("write").map_or(0, Latency::count) as f64;
        if let Some(bytes) = measured.figure(ALLOCATED) {
            measured.set("allocated_per_write", bytes / writes);
        }
        if let Some(counts) = measured.counts {
            measured.set("flushes_per_write", counts.flushes as f64 / writes);
            measured.set("sent_per_write", counts.sectors as f64 * SECTOR_BYTES / writes);
        }
        if let Some(native) = native_of[index].and_then(|native| medians[native]) {
            measured.set("against_native", p50 / native);
        }
    }
}

/// What the table says: the published comparison on each JVM, and what is left of it once the record must be durable.
pub fn judge(study: &Study) -> Vec<Finding> {
    let label = |id: &str| Some(id.strip_prefix("jdk")?.strip_suffix("/raf-seek+write/closed")?.to_owned());
    study.rows.iter().filter_map(|row| compared(study, &label(&row.id)?)).collect()
}

fn compared(study: &Study, label: &str) -> Option<Finding> {
    let closed = |way: &str| {
        let latency = study.row(&format!("jdk{label}/{way}/closed"))?.measured()?.latency("write")?;
        (latency.count() > 0).then_some(latency)
    };
    let (seek, pwrite) = (closed("raf-seek+write")?, closed("channel-direct-at")?);
    let times = |a: u64, b: u64| significant(a as f64 / b.max(1) as f64);
    let memory = format!(
        "JDK {label}: RandomAccessFile's seek and write take {} times as long as FileChannel's write at a position at the minimum ({} and {}), {} times at the median",
        times(seek.min_ns(), pwrite.min_ns()),
        duration_ns(seek.min_ns()),
        duration_ns(pwrite.min_ns()),
        times(seek.p50_ns(), pwrite.p50_ns())
    );
    let durable = match (closed("raf-rwd"), closed("channel-dsync")) {
        (Some(rwd), Some(dsync)) => format!(
            "; once the record must be durable (rwd, DSYNC) {} times ({} and {}).",
            times(rwd.p50_ns(), dsync.p50_ns()),
            duration_ns(rwd.p50_ns()),
            duration_ns(dsync.p50_ns())
        ),
        _ => "; nothing durable was measured beside.".to_owned(),
    };
    let sentence = memory + &durable;
    let remedy = "Choose the way by what must be durable, not by the price of a call into memory.";
    Some(Finding {
        rule: "seek-and-write-jvm",
        severity: Severity::Note,
        sentence,
        remedy: remedy.to_owned(),
    })
}
