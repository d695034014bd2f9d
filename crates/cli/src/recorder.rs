//! Records the metrics of the `metrics` facade and renders them as families of an exposition.
//!
//! What a library gives to a recorder of its program is what this command serves: one table of names for both.
//!
//! Invariants: a counter only grows; a family whose help nobody described is shown all the same; samples are in the order of their labels.

use crate::exposition::{Family, Kind};
use metrics::atomics::AtomicU64;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Labels = Vec<(String, String)>;

#[derive(Default)]
struct Kept {
    help: BTreeMap<String, String>,
    counts: BTreeMap<String, BTreeMap<Labels, Arc<AtomicU64>>>,
    /// The bits of each value.
    levels: BTreeMap<String, BTreeMap<Labels, Arc<AtomicU64>>>,
}

#[derive(Clone, Default)]
pub(crate) struct Recorded(Arc<Mutex<Kept>>);

fn labels(key: &Key) -> Labels {
    key.labels().map(|label| (label.key().to_owned(), label.value().to_owned())).collect()
}

impl Recorded {
    /// Has everything that is recorded from now on kept here.
    pub(crate) fn install() -> Self {
        let recorded = Self::default();
        // Of two the first one is asked; a command makes one.
        let _ = metrics::set_global_recorder(recorded.clone());
        recorded
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was recorded, by name.
    pub(crate) fn families(&self) -> Vec<Family> {
        let kept = self.lock();
        let help = |name: &str| kept.help.get(name).cloned().unwrap_or_default();
        let with = |family: Family, labels: &Labels, value: &dyn std::fmt::Display| {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            family.with(&labels, &value.to_string())
        };
        let counters = kept.counts.iter().map(|(name, samples)| {
            // The exposition adds it.
            let short = name.strip_suffix("_total").unwrap_or(name).to_owned();
            samples.iter().fold(Family::new(short, Kind::Counter, help(name)), |family, (labels, count)| {
                with(family, labels, &count.load(Ordering::Relaxed))
            })
        });
        let gauges = kept.levels.iter().map(|(name, samples)| {
            samples.iter().fold(
                Family::new(name.clone(), Kind::Gauge, help(name)),
                |family, (labels, level)| {
                    with(family, labels, &f64::from_bits(level.load(Ordering::Relaxed)))
                },
            )
        });
        counters.chain(gauges).collect()
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.lock().help.insert(name.as_str().to_owned(), help.into_owned());
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe_counter(name, unit, help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe_counter(name, unit, help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut kept = self.lock();
        let count = kept.counts.entry(key.name().to_owned()).or_default().entry(labels(key)).or_default();
        Counter::from_arc(Arc::clone(count))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let mut kept = self.lock();
        let level = kept.levels.entry(key.name().to_owned()).or_default().entry(labels(key)).or_default();
        Gauge::from_arc(Arc::clone(level))
    }

    /// Nothing that is served has one.
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[cfg(test)]
mod tests {
    use super::Recorded;
    use crate::exposition::Form;

    #[test]
    fn what_is_recorded_is_shown_with_its_help_and_labels() {
        let recorded = Recorded::default();
        metrics::with_local_recorder(&recorded, || {
            metrics::describe_counter!("a_total", "all of them");
            metrics::counter!("a_total", "to" => "x").increment(2);
            metrics::counter!("a_total", "to" => "x").increment(1);
            metrics::gauge!("b_seconds", "to" => "y").set(1.5);
        });
        let text = Form::Text.text(&recorded.families());
        assert_eq!(
            text,
            "# HELP a_total all of them\n# TYPE a_total counter\na_total{to=\"x\"} 3\n# HELP b_seconds \n\
             # TYPE b_seconds gauge\nb_seconds{to=\"y\"} 1.5\n"
        );
    }
}
