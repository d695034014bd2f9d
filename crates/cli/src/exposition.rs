//! Renders families of metrics in either of Prometheus' text forms.
//!
//! ```text
//!                    text 0.0.4                              OpenMetrics 1.0
//!   counter x        # TYPE x_total counter   x_total 1      # TYPE x counter   x_total 1
//!   info x           # TYPE x_info gauge      x_info{…} 1    # TYPE x info      x_info{…} 1
//!   end                                                      # EOF
//! ```
//!
//! Invariants: every family has its type and help once, before its samples; a label's value is escaped; what was not
//! measured has no sample.

use seawall_sys::inspect::{Device, Environment};
use std::borrow::Cow;
use std::fmt::Write as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The older one, which the textfile collector of `node_exporter` reads.
    Text,
    OpenMetrics,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    /// Counts by upper bound.
    Histogram,
    /// Facts as labels, of value 1.
    Info,
}

impl Kind {
    /// What the name of a single sample ends in.
    fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        }
    }

    fn name(self, form: Form) -> &'static str {
        match (self, form) {
            (Self::Counter, _) => "counter",
            (Self::Histogram, _) => "histogram",
            (Self::Info, Form::OpenMetrics) => "info",
            (Self::Gauge | Self::Info, _) => "gauge",
        }
    }
}

impl Form {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    pub(crate) fn text(self, families: &[Family]) -> String {
        let mut out = String::new();
        for family in families {
            let typed = match self {
                Self::Text => format!("{}{}", family.name, family.kind.suffix()),
                Self::OpenMetrics => family.name.to_string(),
            };
            let (kind, help) = (family.kind.name(self), &family.help);
            // Writing to a string does not fail.
            let _ = writeln!(out, "# HELP {typed} {help}\n# TYPE {typed} {kind}");
            for sample in &family.samples {
                let _ = writeln!(out, "{}{}{} {}", family.name, sample.suffix, sample.labels, sample.value);
            }
        }
        if self == Self::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

#[derive(Debug)]
pub(crate) struct Family {
    name: Cow<'static, str>,
    kind: Kind,
    help: Cow<'static, str>,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    suffix: &'static str,
    labels: String,
    value: String,
}

impl Family {
    /// `name` without the suffix of its kind.
    pub(crate) fn new(
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
        help: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { name: name.into(), kind, help: help.into(), samples: Vec::new() }
    }

    pub(crate) fn with(mut self, labels: &[(&str, &str)], value: &impl ToString) -> Self {
        self.push(self.kind.suffix(), labels, &value.to_string());
        self
    }

    pub(crate) fn with_all<'a, V: ToString>(
        self,
        all: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, V)>,
    ) -> Self {
        all.into_iter().fold(self, |family, (labels, value)| family.with(&labels, &value))
    }

    /// The same with a histogram: how many samples do not exceed each bound, how many there are, and their sum.
    pub(crate) fn with_buckets(
        mut self,
        labels: &[(&str, &str)],
        buckets: impl IntoIterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) -> Self {
        for (bound, below) in buckets {
            self.push("_bucket", &[labels, &[("le", &float(bound))]].concat(), &below.to_string());
        }
        self.push("_bucket", &[labels, &[("le", "+Inf")]].concat(), &count.to_string());
        self.push("_sum", labels, &sum.to_string());
        self.push("_count", labels, &count.to_string());
        self
    }

    fn push(&mut self, suffix: &'static str, labels: &[(&str, &str)], value: &str) {
        let labels = if labels.is_empty() { String::new() } else { braced(labels) };
        self.samples.push(Sample { suffix, labels, value: value.to_owned() });
    }
}

/// The facts of the device and file system of a folder.
pub(crate) fn device(name: &'static str, place: &Environment) -> Family {
    let leaves: Vec<_> = place.leaves().collect();
    let joined = |of: fn(&Device) -> Option<&str>| {
        let mut all: Vec<&str> = leaves.iter().filter_map(|leaf| of(leaf)).collect();
        all.dedup();
        all.join(",")
    };
    let facts = [
        ("device", joined(|leaf| Some(&leaf.name))),
        ("model", joined(|leaf| leaf.model.as_deref())),
        ("transport", joined(|leaf| leaf.transport.as_deref())),
        ("file_system", place.file_system.kind.clone()),
        ("write_cache", format!("{:?}", place.device_cache()).to_lowercase()),
        ("hypervisor", place.hypervisor.clone().unwrap_or_default()),
    ];
    let labels = facts.each_ref().map(|(name, value)| (*name, value.as_str()));
    Family::new(name, Kind::Info, "The device and file system under the folder.").with(&labels, &1)
}

/// A bound as both forms have it: with a point.
fn float(bound: f64) -> String {
    if bound.fract() == 0.0 { format!("{bound:.1}") } else { bound.to_string() }
}

fn braced(labels: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    format!("{{{}}}", labels.iter().map(pair).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(braced(&[("a", "x\"y\\z\n")]), "{a=\"x\\\"y\\\\z\\n\"}");
    }

    #[test]
    fn both_forms_name_each_kind_as_they_should() {
        let families = [
            Family::new("a_commits", Kind::Counter, "Commits.").with(&[("m", "x")], &3),
            Family::new("a_device", Kind::Info, "The device.").with(&[("d", "vda")], &1),
            Family::new("a_seconds", Kind::Histogram, "Time.").with_buckets(
                &[],
                [(0.1, 1), (1.0, 2)],
                4,
                9.5,
            ),
            Family::new("a_time", Kind::Gauge, "Unknown yet."),
        ];
        let samples = "a_commits_total{m=\"x\"} 3|a_device_info{d=\"vda\"} 1|a_seconds_bucket{le=\"0.1\"} 1|a_seconds_bucket{le=\"1.0\"} 2|a_seconds_bucket{le=\"+Inf\"} 4|\
                       a_seconds_sum 9.5|a_seconds_count 4";
        for (form, types, last) in [
            (
                Form::Text,
                "a_commits_total counter|a_device_info gauge|a_seconds histogram|a_time gauge",
                "# TYPE a_time gauge",
            ),
            (Form::OpenMetrics, "a_commits counter|a_device info|a_seconds histogram|a_time gauge", "# EOF"),
        ] {
            let text = form.text(&families);
            let of = |begin: &str| {
                let lines = text.lines().filter_map(|line| line.strip_prefix(begin));
                lines.collect::<Vec<_>>().join("|")
            };
            assert_eq!(of("# TYPE "), types);
            assert_eq!(of("# HELP ").split('|').count(), 4);
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert_eq!(lines.join("|"), samples);
            assert_eq!(text.lines().last(), Some(last));
        }
    }
}
