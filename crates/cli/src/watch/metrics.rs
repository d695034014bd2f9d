//! The metrics of `seawall watch`.
//!
//! Invariants: counts only grow; commits of two methods or classes are never added up; bounds are whole nanoseconds, so that
//! a bucket has the same edge in every program.

use crate::exposition::{Family, Form, Kind, device};
use seawall_gauge::latency::Latency;
use seawall_gauge::rank::EffectiveClass;
use seawall_gauge::watch::COMMIT_BYTES;
use seawall_sys::clock::nanoseconds;
use seawall_sys::inspect::Environment;
use std::collections::BTreeMap;
use std::time::Duration;

/// Upper bounds of the buckets: three a power of ten, from the fastest disk to a hanging one.
const BOUNDS_NS: [u64; 19] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Commits of one method and class.
#[derive(Debug, Default)]
struct Tally {
    buckets: [u64; BOUNDS_NS.len()],
    count: u64,
    sum_s: f64,
    stalls: u64,
}

#[derive(Debug)]
pub(super) struct Metrics {
    stall: Duration,
    every: Duration,
    method: &'static str,
    tallies: BTreeMap<(&'static str, EffectiveClass), Tally>,
    bursts: u64,
    pub(super) failed: u64,
    pub(super) put_off: u64,
    pub(super) unread: u64,
    last_burst_unix_s: Option<u64>,
    class: Option<EffectiveClass>,
    /// The rule by which the figures are not a disk's.
    wrong: Option<&'static str>,
    place: Environment,
}

impl Metrics {
    /// Nothing seen yet. A commit that takes longer than `stall` counts as a stall.
    pub(super) fn new(method: &'static str, every: Duration, stall: Duration, place: Environment) -> Self {
        Self {
            stall,
            every,
            method,
            tallies: BTreeMap::new(),
            bursts: 0,
            failed: 0,
            put_off: 0,
            unread: 0,
            last_burst_unix_s: None,
            class: None,
            wrong: None,
            place,
        }
    }

    /// What the method's commits outlive from here on, on this device.
    pub(super) fn stands_on(
        &mut self,
        class: EffectiveClass,
        wrong: Option<&'static str>,
        place: &Environment,
    ) {
        self.class = Some(class);
        self.wrong = wrong;
        self.place.clone_from(place);
        // There from the start, so that the first stall is an increase and not a new series.
        self.tallies.entry((self.method, class)).or_default();
    }

    pub(super) fn burst(&mut self, latency: &Latency, unix_s: u64) {
        self.bursts += 1;
        self.last_burst_unix_s = Some(unix_s);
        let Some(class) = self.class else { return };
        let stall_ns = nanoseconds(self.stall);
        let tally = self.tallies.entry((self.method, class)).or_default();
        for (bucket, bound_ns) in tally.buckets.iter_mut().zip(BOUNDS_NS) {
            *bucket += latency.count_at_most(bound_ns);
        }
        tally.count += latency.count();
        tally.sum_s += latency.mean_ns() * latency.count() as f64 / 1e9;
        tally.stalls += latency.count() - latency.count_at_most(stall_ns);
    }

    pub(super) fn text(&self, form: Form) -> String {
        form.text(&self.families())
    }

    fn families(&self) -> Vec<Family> {
        let counter = |name, help, value| Family::new(name, Kind::Counter, help).with(&[], &value);
        let gauge = |name, help| Family::new(name, Kind::Gauge, help);
        let of_all = |of: fn(&Tally) -> u64| {
            let all = self.tallies.iter();
            all.map(|((method, class), tally)| (labels(method, *class), of(tally))).collect::<Vec<_>>()
        };
        let classes = EffectiveClass::ALL.into_iter().filter(|_| self.class.is_some());
        let holds = classes.map(|class| (vec![("class", class.name())], u8::from(self.class == Some(class))));
        let commits = self.tallies.values().map(|tally| tally.count).sum::<u64>();
        vec![
            self.tallies.iter().fold(
                Family::new(
                    "seawall_watch_commit_seconds",
                    Kind::Histogram,
                    "Time of one commit of 4 KiB, from the write to the end of its sync.",
                ),
                |family, ((method, class), tally)| {
                    let bounds = BOUNDS_NS.map(|ns| ns as f64 / 1e9);
                    let buckets = bounds.into_iter().zip(tally.buckets);
                    family.with_buckets(&labels(method, *class), buckets, tally.count, tally.sum_s)
                },
            ),
            Family::new("seawall_watch_commits", Kind::Counter, "Commits that were timed.")
                .with_all(of_all(|tally| tally.count)),
            Family::new(
                "seawall_watch_stalls",
                Kind::Counter,
                "Commits that took longer than seawall_watch_stall_threshold_seconds.",
            )
            .with_all(of_all(|tally| tally.stalls)),
            counter(
                "seawall_watch_written_bytes",
                "Bytes of the commits, without what the file system adds.",
                commits * COMMIT_BYTES as u64,
            ),
            counter("seawall_watch_bursts", "Bursts of commits.", self.bursts),
            counter(
                "seawall_watch_put_off",
                "Bursts postponed because other programs kept the device busy.",
                self.put_off,
            ),
            counter(
                "seawall_watch_failed_bursts",
                "Bursts that ended with an error of the disk or of the file system.",
                self.failed,
            ),
            counter(
                "seawall_watch_unread_intervals",
                "Intervals in which the statistics of the device could not be read; their bursts ran.",
                self.unread,
            ),
            gauge("seawall_watch_last_burst_timestamp_seconds", "When the last burst ended, since 1970.")
                .with_all(self.last_burst_unix_s.map(|unix_s| (Vec::new(), unix_s))),
            gauge(
                "seawall_watch_outlives",
                "1 for the class that an acknowledged commit outlives here, 0 for the others.",
            )
            .with_all(holds),
            gauge(
                "seawall_watch_cannot_tell",
                "1 while a finding says that the figures are not a disk's: lies, memory, too-fast, contradicted.",
            )
            .with_all(
                ["lies", "memory", "too-fast", "contradicted"]
                    .map(|rule| (vec![("finding", rule)], u8::from(self.wrong == Some(rule)))),
            ),
            gauge(
                "seawall_watch_interval_seconds",
                "The time from one burst to the next, if nothing delays it.",
            )
            .with(&[], &self.every.as_secs_f64()),
            gauge("seawall_watch_stall_threshold_seconds", "A commit that takes longer is a stall.")
                .with(&[], &self.stall.as_secs_f64()),
            Family::new("seawall_watch_build", Kind::Info, "The version of the program.")
                .with(&[("version", env!("CARGO_PKG_VERSION"))], &1),
            device("seawall_watch_device", &self.place),
        ]
    }
}

fn labels(method: &'static str, class: EffectiveClass) -> Vec<(&'static str, &'static str)> {
    vec![("method", method), ("class", class.name())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Metrics {
        let place = seawall_sys::inspect::environment(std::path::Path::new(".")).expect("a folder");
        let seconds = Duration::from_secs;
        let mut metrics = Metrics::new("dsync", seconds(15), Duration::from_millis(100), place.clone());
        metrics.stands_on(EffectiveClass::PowerLoss, None, &place);
        metrics
    }

    fn line<'a>(text: &'a str, begin: &str) -> &'a str {
        text.lines().find(|line| line.starts_with(begin)).unwrap_or_default()
    }

    #[test]
    fn before_the_first_burst_every_series_that_an_alert_needs_is_there() {
        let text = metrics().text(Form::Text);
        for there in [
            "seawall_watch_stalls_total{method=\"dsync\",class=\"power loss\"} 0",
            "seawall_watch_put_off_total 0",
            "seawall_watch_outlives{class=\"power loss\"} 1",
            "seawall_watch_outlives{class=\"system crash\"} 0",
            "seawall_watch_outlives{class=\"power loss, not confirmed\"} 0",
            "seawall_watch_cannot_tell{finding=\"too-fast\"} 0",
            "seawall_watch_commit_seconds_count{method=\"dsync\",class=\"power loss\"} 0",
        ] {
            assert!(text.lines().any(|line| line == there), "{there}\n{text}");
        }
        assert_eq!(line(&text, "seawall_watch_last_burst_timestamp_seconds "), "", "there was none");
    }

    #[test]
    fn commits_are_counted_by_bucket_stall_method_and_class() {
        let mut metrics = metrics();
        let mut latency = Latency::new();
        for ns in [90_000, 150_000, 300_000_000] {
            latency.record(ns);
        }
        metrics.burst(&latency, 1_764_000_000);
        let place = metrics.place.clone();
        metrics.stands_on(EffectiveClass::SystemCrash, Some("memory"), &place);
        metrics.burst(&latency, 1_764_000_015);
        let text = metrics.text(Form::OpenMetrics);
        let of = |name: &str, class: &str, more: &str| {
            let value = line(&text, &format!("{name}{{method=\"dsync\",class=\"{class}\"{more}}} "));
            value.rsplit(' ').next().expect("a value").to_owned()
        };
        let bucket =
            |le: &str| of("seawall_watch_commit_seconds_bucket", "power loss", &format!(",le=\"{le}\""));
        assert_eq!(
            ["0.0001", "0.0002", "0.2", "0.5", "1.0", "+Inf"].map(bucket),
            ["1", "2", "2", "3", "3", "3"]
        );
        for class in ["power loss", "system crash"] {
            assert_eq!(of("seawall_watch_stalls_total", class, ""), "1");
            assert_eq!(of("seawall_watch_commits_total", class, ""), "3");
            let sum: f64 = of("seawall_watch_commit_seconds_sum", class, "").parse().expect("a number");
            assert!((sum - 0.300_24).abs() < 0.001, "{sum}");
        }
        assert_eq!(
            line(&text, "seawall_watch_written_bytes_total"),
            "seawall_watch_written_bytes_total 24576"
        );
        assert_eq!(line(&text, "seawall_watch_bursts_total"), "seawall_watch_bursts_total 2");
        assert_eq!(line(&text, "seawall_watch_outlives{class=\"power loss\"}").chars().last(), Some('0'));
        assert!(line(&text, "seawall_watch_last_burst").ends_with(" 1764000015"));
    }

    #[test]
    fn buckets_rise() {
        assert!(BOUNDS_NS.is_sorted());
    }
}
