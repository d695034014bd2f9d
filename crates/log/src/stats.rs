//! What has the log done so far?

use std::sync::Mutex;

use hdrhistogram::Histogram;

use crate::lanes::lock;
use crate::lsn::Lsn;

/// A latency or size distribution, reduced to what is usually asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many values.
    pub count: u64,
    /// Half of the values are at most this.
    pub p50: u64,
    /// 99 of 100 values are at most this.
    pub p99: u64,
    /// 999 of 1000 values are at most this.
    pub p999: u64,
    /// The largest value.
    pub max: u64,
}

/// Counters and distributions since the log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records accepted.
    pub records: u64,
    /// Batches that became durable, marks included.
    pub batches: u64,
    /// Bytes written for them, headers and padding included.
    pub bytes_written: u64,
    /// Segments started.
    pub segments_started: u64,
    /// Times that an append had to wait for memory or for a segment.
    pub stalls: u64,
    /// The end of what was accepted.
    pub appended: Lsn,
    /// The end of what is durable.
    pub durable: Lsn,
    /// The first LSN that must be present.
    pub first: Lsn,
    /// Segments in the log.
    pub segments: u64,
    /// The row of the method table in use.
    pub method: &'static str,
    /// The engine that runs it.
    pub engine: &'static str,
    /// Why another engine was refused, if one was and the portable one took over.
    pub engine_refused: Option<String>,
    /// How long one batch took to become durable, in nanoseconds.
    pub write_ns: Summary,
    /// Records in one batch.
    pub batch_records: Summary,
}

/// The distributions that are kept while the log runs.
#[derive(Debug)]
pub(crate) struct Meters {
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    write_ns: Histogram<u64>,
    batch_records: Histogram<u64>,
    bytes: u64,
    batches: u64,
    starts: u64,
}

fn histogram() -> Histogram<u64> {
    // One to an hour in nanoseconds: larger values count as that.
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3)
        .unwrap_or_else(|_| unreachable!("these bounds are sound"))
}

fn summary(histogram: &Histogram<u64>) -> Summary {
    Summary {
        count: histogram.len(),
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        p999: histogram.value_at_quantile(0.999),
        max: histogram.max(),
    }
}

impl Meters {
    /// Nothing measured yet.
    pub(crate) fn new() -> Self {
        let kept =
            Kept { write_ns: histogram(), batch_records: histogram(), bytes: 0, batches: 0, starts: 0 };
        Self { kept: Mutex::new(kept) }
    }

    /// A batch became durable.
    pub(crate) fn batch(&self, took_ns: u64, records: u32, bytes: usize, starts: bool) {
        let mut kept = lock(&self.kept);
        kept.write_ns.saturating_record(took_ns);
        kept.batch_records.saturating_record(records.into());
        kept.bytes += bytes as u64;
        kept.batches += 1;
        kept.starts += u64::from(starts);
    }

    /// Fills in what is kept here.
    pub(crate) fn fill(&self, stats: &mut Stats) {
        let kept = lock(&self.kept);
        stats.write_ns = summary(&kept.write_ns);
        stats.batch_records = summary(&kept.batch_records);
        stats.bytes_written = kept.bytes;
        stats.batches = kept.batches;
        stats.segments_started = kept.starts;
    }
}
