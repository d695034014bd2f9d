//! Exports the log's counters and histograms to the `metrics` facade (feature `metrics`).
//!
//! The table lists what is recorded; without the feature nothing is.
//!
//! | name | kind | unit | counts |
//! | --- | --- | --- | --- |
//! | `seawall_batches_total` | counter | batches | written and acknowledged, marks included |
//! | `seawall_relaxed_batches_total` | counter | batches | those of them that were committed at a lower durability class than the log's |
//! | `seawall_records_total` | counter | records | written and acknowledged |
//! | `seawall_written_bytes_total` | counter | bytes | written, headers and padding included |
//! | `seawall_debt_syncs_total` | counter | syncs | that made relaxed batches durable |
//! | `seawall_segments_started_total` | counter | segments | started |
//! | `seawall_segments_prepared_total` | counter | segments | prepared or recycled |
//! | `seawall_segments_filled_total` | counter | segments | created and filled with zeros, not recycled |
//! | `seawall_rewritten_bytes_total` | counter | bytes | of records that streams needed of segments that had to go |
//! | `seawall_rewrite_stalls_total` | counter | waits | of an append until more of that was rewritten |
//! | `seawall_stalls_total` | counter | waits | of an append for memory or for a segment |
//! | `seawall_write_stalls_total` | counter | stalls | of the disk, longer than `Options::stall_threshold`, counted while they last |
//! | `seawall_failures_total` | counter | failures | that ended a log |
//! | `seawall_write_seconds` | histogram | seconds | from the issue of a batch until it had reached its durability class |
//! | `seawall_batch_records` | histogram | records | in one batch |
//! | `seawall_confirmed` | gauge | 0 or 1 | whether the devices' counters confirm the class of the log, or it needs no flush |
//!
//! Every one has the label `log`: the directory. Handles are taken when a log is opened, so the recorder must be
//! installed before that.
//!
//! Invariants: the names are those of [`METRICS`] and nothing else is recorded; without the feature all of this is
//! empty.

use std::path::Path;

/// Whether a metric only grows, spreads over values or stands at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "only a recorder reads it"))]
pub(crate) enum MetricKind {
    Counter,
    Histogram,
    Gauge,
}

/// One row: name, kind, meaning.
pub(crate) type Row = (&'static str, MetricKind, &'static str);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Metric {
    Batches,
    RelaxedBatches,
    Records,
    WrittenBytes,
    DebtSyncs,
    SegmentsStarted,
    SegmentsPrepared,
    SegmentsFilled,
    RewrittenBytes,
    RewriteStalls,
    Stalls,
    WriteStalls,
    Failures,
    WriteSeconds,
    BatchRecords,
    Confirmed,
}

/// Every metric, in the order of [`Metric`].
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "only a recorder reads it"))]
pub(crate) const METRICS: [Row; 16] = [
    ("seawall_batches_total", MetricKind::Counter, "batches written and acknowledged, marks included"),
    (
        "seawall_relaxed_batches_total",
        MetricKind::Counter,
        "batches committed at a lower class than the log promises",
    ),
    ("seawall_records_total", MetricKind::Counter, "records written and acknowledged"),
    ("seawall_written_bytes_total", MetricKind::Counter, "bytes written, headers and padding included"),
    ("seawall_debt_syncs_total", MetricKind::Counter, "syncs that made relaxed batches durable"),
    ("seawall_segments_started_total", MetricKind::Counter, "segments started"),
    ("seawall_segments_prepared_total", MetricKind::Counter, "segments prepared or recycled"),
    (
        "seawall_segments_filled_total",
        MetricKind::Counter,
        "segments created and filled with zeros, not recycled",
    ),
    (
        "seawall_rewritten_bytes_total",
        MetricKind::Counter,
        "bytes of records rewritten for streams so that old segments could be removed",
    ),
    (
        "seawall_rewrite_stalls_total",
        MetricKind::Counter,
        "waits of an append for the rewriting of records of lagging streams",
    ),
    ("seawall_stalls_total", MetricKind::Counter, "waits of an append for memory or for a segment"),
    (
        "seawall_write_stalls_total",
        MetricKind::Counter,
        "batches that the disk did not finish within the threshold, counted while they hang",
    ),
    ("seawall_failures_total", MetricKind::Counter, "failures that ended a log"),
    (
        "seawall_write_seconds",
        MetricKind::Histogram,
        "seconds from the issue of a batch until it reached its class",
    ),
    ("seawall_batch_records", MetricKind::Histogram, "records in one batch"),
    (
        "seawall_confirmed",
        MetricKind::Gauge,
        "1 if the devices' counters confirm the log's class or it needs no flush, else 0",
    ),
];

/// The handles of one log.
#[cfg(feature = "metrics")]
#[derive(Debug)]
pub(crate) struct MetricHandles {
    counters: Vec<metrics::Counter>,
    histograms: Vec<metrics::Histogram>,
    gauges: Vec<metrics::Gauge>,
}

#[cfg(feature = "metrics")]
impl MetricHandles {
    /// Describes every metric and takes its handle, labelled with the directory of the log.
    pub(crate) fn new(dir: &Path) -> Self {
        let (mut counters, mut histograms, mut gauges) = (Vec::new(), Vec::new(), Vec::new());
        let dir = dir.display().to_string();
        for (name, kind, meaning) in METRICS {
            match kind {
                MetricKind::Counter => {
                    metrics::describe_counter!(name, meaning);
                    counters.push(metrics::counter!(name, "log" => dir.clone()));
                }
                MetricKind::Gauge => {
                    metrics::describe_gauge!(name, meaning);
                    gauges.push(metrics::gauge!(name, "log" => dir.clone()));
                }
                MetricKind::Histogram => {
                    metrics::describe_histogram!(name, meaning);
                    histograms.push(metrics::histogram!(name, "log" => dir.clone()));
                }
            }
        }
        Self { counters, histograms, gauges }
    }

    pub(crate) fn count(&self, metric: Metric, by: u64) {
        if by > 0
            && let Some(counter) = self.counters.get(metric as usize)
        {
            counter.increment(by);
        }
    }

    pub(crate) fn record(&self, metric: Metric, value: f64) {
        if let Some(histogram) = self.histograms.get((metric as usize).wrapping_sub(self.counters.len())) {
            histogram.record(value);
        }
    }

    pub(crate) fn set(&self, metric: Metric, value: f64) {
        let before = self.counters.len() + self.histograms.len();
        if let Some(gauge) = self.gauges.get((metric as usize).wrapping_sub(before)) {
            gauge.set(value);
        }
    }
}

/// Records nothing.
#[cfg(not(feature = "metrics"))]
#[derive(Debug)]
pub(crate) struct MetricHandles;

#[cfg(not(feature = "metrics"))]
#[expect(clippy::unused_self, reason = "the same calls as with the feature")]
impl MetricHandles {
    pub(crate) fn new(_: &Path) -> Self {
        Self
    }

    #[inline]
    pub(crate) fn count(&self, _: Metric, _: u64) {}

    #[inline]
    pub(crate) fn record(&self, _: Metric, _: f64) {}

    pub(crate) fn set(&self, _: Metric, _: f64) {}
}

#[cfg(test)]
mod tests {
    use super::{METRICS, Metric, MetricKind};

    #[test]
    fn the_rows_stand_in_the_order_of_their_names_counters_first() {
        let named = |metric: Metric| METRICS[metric as usize].0;
        assert_eq!(named(Metric::Batches), "seawall_batches_total");
        assert_eq!(named(Metric::Failures), "seawall_failures_total");
        assert_eq!(named(Metric::WriteSeconds), "seawall_write_seconds");
        assert_eq!(named(Metric::BatchRecords), "seawall_batch_records");
        assert_eq!(named(Metric::Confirmed), "seawall_confirmed");
        assert!(METRICS.is_sorted_by_key(|(_, kind, _)| *kind as usize));
        for (name, kind, _) in METRICS {
            assert_eq!(name.ends_with("_total"), kind == MetricKind::Counter, "{name}");
        }
    }

    #[test]
    fn the_table_in_the_header_is_the_table() {
        let header: Vec<&str> =
            include_str!("metrics.rs").lines().filter_map(|line| line.strip_prefix("//! | `")).collect();
        let drawn: Vec<&str> = header.iter().filter_map(|line| line.split('`').next()).collect();
        assert_eq!(drawn, METRICS.map(|(name, _, _)| name));
    }
}
