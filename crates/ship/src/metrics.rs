//! Exports what shipping does to the `metrics` facade (feature `metrics`).
//!
//! | name | kind | unit | says |
//! | --- | --- | --- | --- |
//! | `seawall_ship_messages_total` | counter | messages | acknowledged |
//! | `seawall_ship_batches_total` | counter | batches | in them, marks left out |
//! | `seawall_ship_records_total` | counter | records | in them |
//! | `seawall_ship_bytes_total` | counter | bytes | in them, headers of messages left out |
//! | `seawall_ship_retries_total` | counter | requests | that failed, or had no answer, and are retried |
//! | `seawall_ship_refused_total` | counter | messages | that were refused because their position was taken |
//! | `seawall_ship_lag_records` | gauge | records | durable here, and not acknowledged there |
//! | `seawall_ship_lag_bytes` | gauge | bytes | of the log that they lie in |
//! | `seawall_ship_lag_seconds` | gauge | seconds | how long the oldest of them has been |
//! | `seawall_ship_failing` | gauge | 0 or 1 | 1 while the last request to the destination failed |
//! | `seawall_ship_acknowledged_timestamp_seconds` | gauge | seconds since 1970 | when something was acknowledged last; since the start, if nothing was |
//! | `seawall_ship_at_risk_records` | gauge | records | durable here, and lost by this failure |
//! | `seawall_ship_at_risk_seconds` | gauge | seconds | how long the oldest of them has been |
//!
//! Every one has the labels `log`, the directory, and `to`, the destination. The last two have a label `failure` beside them, `machine` or `site`: each
//! failure that the destination outlives and that no commit of the log itself does; the lag is the same whatever it outlives. They are set once a second. Handles are taken when shipping starts, so
//! the recorder must be installed before that.
//!
//! Invariants: the names are those of [`COUNTERS`] and [`GAUGES`], and nothing else is recorded; without the feature all of this is empty.

use crate::failure::Facts;
use crate::shipping::AtRisk;
use std::path::Path;

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

/// Every counter, in the order of [`Metric`].
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "only a recorder reads it"))]
const COUNTERS: [(&str, &str); 6] = [
    ("seawall_ship_messages_total", "messages that a destination acknowledged"),
    ("seawall_ship_batches_total", "batches in them, marks left out"),
    ("seawall_ship_records_total", "records in them"),
    ("seawall_ship_bytes_total", "bytes in them, headers of messages left out"),
    ("seawall_ship_retries_total", "requests that failed, or had no answer, and are tried again"),
    ("seawall_ship_refused_total", "messages refused because their position was taken"),
];

#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "only a recorder reads it"))]
const GAUGES: [(&str, &str); 7] = [
    ("seawall_ship_lag_records", "records that are durable here and not acknowledged there"),
    ("seawall_ship_lag_bytes", "bytes of the log that they lie in"),
    ("seawall_ship_lag_seconds", "seconds since the oldest of them became durable"),
    ("seawall_ship_failing", "1 while the last request to the destination failed"),
    (
        "seawall_ship_acknowledged_timestamp_seconds",
        "when something was acknowledged last, seconds since 1970",
    ),
    ("seawall_ship_at_risk_records", "records that are durable here and lost by this failure"),
    ("seawall_ship_at_risk_seconds", "seconds that the oldest of them has been at risk"),
];

/// The handles of one log at one destination.
#[cfg(feature = "metrics")]
pub(crate) struct MetricHandles {
    counters: [metrics::Counter; 6],
    /// Records, bytes and seconds of lag, failing, and when something was acknowledged last.
    lag: [metrics::Gauge; 5],
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
        for (name, meaning) in COUNTERS {
            metrics::describe_counter!(name, meaning);
        }
        for (name, meaning) in GAUGES {
            metrics::describe_gauge!(name, meaning);
        }
        let counters = COUNTERS.map(|(name, _)| metrics::counter!(name, &labels()));
        let beyond = |failure: &Failure| failure.local_class().is_none() && facts.outlives(*failure).is_ok();
        let gauge = |failure: Failure, name: &'static str| {
            let [log, to] = labels();
            metrics::gauge!(name, &[log, to, ("failure", failure.name().to_owned())])
        };
        let [lag @ .., (records, _), (seconds, _)] = GAUGES;
        let lag: [_; 5] = lag.map(|(name, _)| metrics::gauge!(name, &labels()));
        lag[4].set(seawall_sys::clock::unix_seconds() as f64);
        let gauges = Failure::ALL.into_iter().filter(beyond);
        let gauges = gauges.map(|failure| [gauge(failure, records), gauge(failure, seconds)]).collect();
        Self { counters, lag, gauges }
    }

    /// Counts `by` more.
    pub(crate) fn count(&self, metric: Metric, by: u64) {
        self.counters[metric as usize].increment(by);
    }

    /// Whether requests fail.
    pub(crate) fn failing(&self, is_failing: bool) {
        self.lag[3].set(f64::from(u8::from(is_failing)));
    }

    /// Something was acknowledged now.
    pub(crate) fn acknowledged(&self) {
        self.lag[4].set(seawall_sys::clock::unix_seconds() as f64);
    }

    /// What is at risk now.
    pub(crate) fn at_risk(&self, risk: &AtRisk) {
        self.lag[0].set(risk.records as f64);
        self.lag[1].set(risk.bytes as f64);
        self.lag[2].set(risk.time.as_secs_f64());
        for [records, seconds] in &self.gauges {
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
    pub(crate) fn failing(&self, _: bool) {}

    #[inline]
    pub(crate) fn acknowledged(&self) {}

    #[inline]
    pub(crate) fn at_risk(&self, _: &AtRisk) {}
}

#[cfg(test)]
mod tests {
    use super::{COUNTERS, GAUGES, Metric};

    #[test]
    fn the_counters_stand_in_the_order_of_their_names() {
        assert_eq!(COUNTERS[Metric::Messages as usize].0, "seawall_ship_messages_total");
        assert_eq!(COUNTERS[Metric::Refused as usize].0, "seawall_ship_refused_total");
        assert!(COUNTERS.iter().all(|(name, _)| name.ends_with("_total")));
        assert!(GAUGES.iter().all(|(name, _)| !name.ends_with("_total")));
    }

    #[test]
    fn the_table_in_the_header_is_the_table() {
        let header: Vec<&str> =
            include_str!("metrics.rs").lines().filter_map(|line| line.strip_prefix("//! | `")).collect();
        let drawn: Vec<&str> = header.iter().filter_map(|line| line.split('`').next()).collect();
        let all: Vec<&str> = COUNTERS.iter().chain(&GAUGES).map(|(name, _)| *name).collect();
        assert_eq!(drawn, all);
    }
}
