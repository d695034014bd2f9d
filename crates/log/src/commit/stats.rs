//! Counts the log's work and records its latency and batch-size distributions.

use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::commit::metrics::{Metric, MetricHandles};
use crate::commit::process_crash::ProcessCrashCommits;
use crate::commit::seal::Job;
use crate::commit::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::method::evidence::Evidence;

/// Quantiles of a latency or size distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Stats {
    /// Records accepted.
    pub records: u64,
    /// Batches that were written and acknowledged, marks included.
    pub batches: u64,
    /// Of these, those that were acknowledged at a lower class than the log promises: see `Log::commit_as`.
    pub relaxed_batches: u64,
    /// Times that such batches were made durable, by a sync alone or with a later batch.
    pub debt_syncs: u64,
    /// Bytes written for them, headers and padding included.
    pub bytes_written: u64,
    /// Segments started.
    pub segments_started: u64,
    /// Segments that were created and filled with zeros, which competes with commits for the disk: a segment that was
    /// trimmed in time is recycled instead.
    pub segments_filled: u64,
    /// Times that an append had to wait for memory or for a segment.
    pub stalls: u64,
    /// For how long the oldest batch has been in flight, if the disk has not finished it within
    /// [`Options::stall_threshold`](crate::Options::stall_threshold): the stall lasts now. `None` without a threshold.
    pub stalled_for: Option<Duration>,
    /// Such stalls, each counted when it was seen, which is while it lasted.
    pub stalls_seen: u64,
    /// Times that followers in other processes were woken, a system call each: see [`crate::View::follow`].
    pub follower_wakes: u64,
    /// The end of what was accepted.
    pub appended: Lsn,
    /// The end of what is durable.
    pub durable: Lsn,
    /// The first LSN that must be present.
    pub first: Lsn,
    /// The lowest LSN that a pin or a hold keeps: see [`crate::Log::pin`] and [`crate::Hold`].
    pub pinned: Option<Lsn>,
    /// Segments in the log.
    pub segments: u64,
    /// Streams that the log has.
    pub streams: u64,
    /// Bytes of the log that hold records of streams which are still needed.
    pub stream_bytes: u64,
    /// Memory that their positions take, bytes.
    pub stream_memory_bytes: u64,
    /// Records of streams that were rewritten because the segment that held them was to go: the price of streams that lag.
    pub rewritten_records: u64,
    /// What these take, bytes.
    pub rewritten_bytes: u64,
    /// Times that an append had to wait until more of that was rewritten, because the log held three times what its streams need.
    pub rewrite_stalls: u64,
    /// What the log takes on the disk, in bytes: its segments, those that are prepared or kept for reuse, and the one that is
    /// being prepared. This is what [`crate::Options::disk_bytes_max`] bounds.
    pub disk_bytes: u64,
    /// The row of the method table in use.
    pub method: &'static str,
    /// The engine that runs it.
    pub engine: &'static str,
    /// Why another engine was refused, if one was and the portable one took over.
    pub engine_refused: Option<String>,
    /// What the devices' counters say to the class of the log.
    pub evidence: Evidence,
    /// How commits that are to outlive the process only are served: see `Log::commit_as`.
    pub process_crash: ProcessCrashCommits,
    /// How long one batch took to become durable, in nanoseconds.
    pub write_ns: Summary,
    /// Records in one batch.
    pub batch_records: Summary,
}

/// The distributions that are kept while the log runs.
#[derive(Debug)]
pub(crate) struct Recorder {
    kept: Mutex<Kept>,
    /// Counted while the core is locked, so not among what is kept: waits for memory or a segment, and for what is rewritten.
    stalls: [AtomicU64; 2],
    pub(crate) metrics: MetricHandles,
    /// The level that the log promises.
    own: AckLevel,
}

#[derive(Debug)]
struct Kept {
    write_ns: Histogram<u64>,
    batch_records: Histogram<u64>,
    /// What is counted here; all else in it stays as it is by default.
    counts: Stats,
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

impl Recorder {
    pub(crate) fn new(dir: &Path, own: AckLevel) -> Self {
        let kept = Kept { write_ns: histogram(), batch_records: histogram(), counts: Stats::default() };
        let stalls = std::array::from_fn(|_| AtomicU64::new(0));
        Self { kept: Mutex::new(kept), stalls, metrics: MetricHandles::new(dir), own }
    }

    /// What the devices' counters say to the class.
    pub(crate) fn evidence(&self, evidence: &Evidence) {
        let confirmed = !matches!(evidence, Evidence::NotConfirmed(_));
        self.metrics.set(Metric::Confirmed, f64::from(u8::from(confirmed)));
    }

    /// A batch was written and has reached its level.
    pub(crate) fn batch(&self, took_ns: u64, job: &Job) {
        self.export(took_ns, job);
        let mut kept = lock(&self.kept);
        kept.counts.debt_syncs += u64::from(job.sync_first.is_some());
        if job.is_sync_only() {
            return;
        }
        kept.write_ns.saturating_record(took_ns);
        kept.batch_records.saturating_record(job.records.into());
        let counts = &mut kept.counts;
        counts.bytes_written += job.disk_bytes() as u64;
        counts.batches += 1;
        counts.relaxed_batches += u64::from(job.level < self.own);
        counts.segments_started += u64::from(job.starts.is_some());
    }

    /// An append has to wait for memory or for a segment, or, if a stream `lags`, until more of it is rewritten.
    pub(crate) fn stalled(&self, lags: bool) {
        self.metrics.count(if lags { Metric::RewriteStalls } else { Metric::Stalls }, 1);
        self.stalls[usize::from(lags)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn rewritten(&self, records: u64, bytes: u64) {
        self.metrics.count(Metric::RewrittenBytes, bytes);
        let mut kept = lock(&self.kept);
        kept.counts.rewritten_records += records;
        kept.counts.rewritten_bytes += bytes;
    }

    /// A segment was created.
    pub(crate) fn filled(&self) {
        self.metrics.count(Metric::SegmentsFilled, 1);
        lock(&self.kept).counts.segments_filled += 1;
    }

    fn export(&self, took_ns: u64, job: &Job) {
        let metrics = &self.metrics;
        metrics.count(Metric::DebtSyncs, u64::from(job.sync_first.is_some()));
        if job.is_sync_only() {
            return;
        }
        metrics.count(Metric::Batches, 1);
        metrics.count(Metric::RelaxedBatches, u64::from(job.level < self.own));
        metrics.count(Metric::Records, job.records.into());
        metrics.count(Metric::WrittenBytes, job.disk_bytes() as u64);
        metrics.count(Metric::SegmentsStarted, u64::from(job.starts.is_some()));
        metrics.record(Metric::WriteSeconds, took_ns as f64 / 1e9);
        metrics.record(Metric::BatchRecords, job.records.into());
    }

    pub(crate) fn stats(&self) -> Stats {
        let kept = lock(&self.kept);
        Stats {
            write_ns: summary(&kept.write_ns),
            batch_records: summary(&kept.batch_records),
            stalls: self.stalls[0].load(Ordering::Relaxed),
            rewrite_stalls: self.stalls[1].load(Ordering::Relaxed),
            ..kept.counts.clone()
        }
    }
}
