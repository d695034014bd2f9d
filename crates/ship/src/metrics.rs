//! Exports what shipping does to the `metrics` facade (feature `metrics`).
//!
//! | name | kind | unit | says |
//! | --- | --- | --- | --- |
//! | `seawall_ship_messages_total` | counter | messages | acknowledged |
//! | `seawall_ship_batches_total` | counter | batches | in them, marks left out |
//! | `seawall_ship_records_total` | counter | records | in them |
//! | `seawall_ship_bytes_total` | counter | bytes | in them, headers of messages left out |
//! | `seawall_ship_retries_total` | counter | requests | that failed, or had no answer, and are tried again |
//! | `seawall_ship_refused_total` | counter | messages | that were refused because their position was taken |
//! | `seawall_ship_at_risk_records` | gauge | records | durable here, and lost by this failure |
//! | `seawall_ship_at_risk_seconds` | gauge | seconds | how long the oldest of them has been |
//!
//! Every one has the labels `log`, the directory, and `to`, the destination. The gauges have a label `failure` beside them, `machine` or `site`: each
//! failure that the destination outlives and that no commit of the log itself does. They are set once a second. Handles are taken when shipping starts, so
//! the recorder must be installed before that.
//!
//! Invariants: the names are those of [`METRICS`] and nothing else is recorded; without the feature all of this is empty.

use crate::failure::Facts;
use crate::shipping::AtRisk;
use std::path::Path;

/// What a metric does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "only a recorder reads it"))]
enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Metric {
    Messages,
    Batches,
    Records,
    Bytes,
    Retries,
    Refused,
}

/// Every metric: the counters in the order of [`Metric`], then the gauges.
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "only a recorder reads it"))]
const METRICS: [(&str, Kind, &str); 8] = [
    ("seawall_ship_messages_total", Kind::Counter, "messages that a destination acknowledged"),
    ("seawall_ship_batches_total", Kind::Counter, "batches in them, marks left out"),
    ("seawall_ship_records_total", Kind::Counter, "records in them"),
    ("seawall_ship_bytes_total", Kind::Counter, "bytes in them, headers of messages left out"),
    (
        "seawall_ship_retries_total",
        Kind::Counter,
        "requests that failed, or had no answer, and are tried again",
    ),
    ("seawall_ship_refused_total", Kind::Counter, "messages refused because their position was taken"),
    ("seawall_ship_at_risk_records", Kind::Gauge, "records that are durable here and lost by this failure"),
    ("seawall_ship_at_risk_seconds", Kind::Gauge, "seconds that the oldest of them has been at risk"),
];

/// The handles of one log at one destination.
#[cfg(feature = "metrics")]
pub(crate) struct MetricHandles {
    counters: Vec<metrics::Counter>,
    /// Records and seconds, for each failure.
    gauges: Vec<[metrics::Gauge; 2]>,
}

#[cfg(feature = "metrics")]
impl MetricHandles {
    pub(crate) const IS_ON: bool = true;

    /// Describes every metric and takes its handles.
    pub(crate) fn new(dir: &Path, to: &str, facts: &Facts) -> Self {
        use crate::failure::Failure;
        let labels = || [("log", dir.display().to_string()), ("to", to.to_owned())];
        let mut counters = Vec::new();
        for (name, kind, meaning) in METRICS {
            match kind {
                Kind::Counter => {
                    metrics::describe_counter!(name, meaning);
                    counters.push(metrics::counter!(name, &labels()));
                }
                Kind::Gauge => metrics::describe_gauge!(name, meaning),
            }
        }
        let beyond = |failure: &Failure| failure.local_class().is_none() && facts.outlives(*failure).is_ok();
        let gauge = |failure: Failure, name: &'static str| {
            let [log, to] = labels();
            metrics::gauge!(name, &[log, to, ("failure", failure.name().to_owned())])
        };
        let [.., (records, ..), (seconds, ..)] = METRICS;
        let gauges = Failure::ALL.into_iter().filter(beyond);
        let gauges = gauges.map(|failure| [gauge(failure, records), gauge(failure, seconds)]).collect();
        Self { counters, gauges }
    }

    /// Counts `by` more.
    pub(crate) fn count(&self, metric: Metric, by: u64) {
        if let Some(counter) = self.counters.get(metric as usize) {
            counter.increment(by);
        }
    }

    /// What is at risk now.
    pub(crate) fn at_risk(&self, risk: &AtRisk) {
        for [records, seconds] in &self.gauges {
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
            records.set(risk.records as f64);
            seconds.set(risk.time.as_secs_f64());
        }
    }
}

/// Records nothing.
#[cfg(not(feature = "metrics"))]
pub(crate) struct MetricHandles;

#[cfg(not(feature = "metrics"))]
#[expect(clippy::unused_self, reason = "the same calls as with the feature")]
impl MetricHandles {
    pub(crate) const IS_ON: bool = false;

    pub(crate) fn new(_: &Path, _: &str, _: &Facts) -> Self {
        Self
    }

    #[inline]
    pub(crate) fn count(&self, _: Metric, _: u64) {}

    #[inline]
    pub(crate) fn at_risk(&self, _: &AtRisk) {}
}

#[cfg(test)]
mod tests {
    use super::{Kind, METRICS, Metric};

    #[test]
    fn the_rows_stand_in_the_order_of_their_names_counters_first() {
        assert_eq!(METRICS[Metric::Messages as usize].0, "seawall_ship_messages_total");
        assert_eq!(METRICS[Metric::Refused as usize].0, "seawall_ship_refused_total");
        for (name, kind, _) in METRICS {
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
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
