//! Tests the metrics of shipping: what the recorder gets is what the statistics say.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{LIMIT, Memory, append, options, scratch};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use seawall::Log;
use seawall_ship::shipping::{Settings, Shipping};

/// A sum, or the bits of the last value.
#[derive(Default)]
struct Value(AtomicU64);

impl CounterFn for Value {
    fn increment(&self, by: u64) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Value {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}
    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::SeqCst);
    }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, Arc<Value>>>>);

impl Kept {
    fn value(&self, key: &Key) -> Arc<Value> {
        let failure = key.labels().find(|label| label.key() == "failure").map(metrics::Label::value);
        assert!(key.labels().any(|label| label.key() == "log"), "{key}");
        assert!(key.labels().any(|label| label.key() == "to" && label.value() == "memory:a"), "{key}");
        let name = format!("{} {}", key.name(), failure.unwrap_or_default());
        Arc::clone(self.0.lock().expect("sound").entry(name.trim().to_owned()).or_default())
    }

    fn get(&self, name: &str) -> u64 {
        self.0.lock().expect("sound")[name].0.load(Ordering::SeqCst)
    }

    fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.get(name))
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.value(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.value(key))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Until the gauge that is set once a second says so.
fn until(what: impl Fn() -> bool) {
    for _ in 0..3000 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("in vain");
}

#[test]
fn the_recorder_gets_what_was_shipped_and_what_is_at_risk_by_each_failure() {
    let (dir, kept, memory) = (scratch(), Kept::default(), Memory::new("a"));
    let log = Log::open(dir.path(), options()).expect("opens");
    let start = || Shipping::start(dir.path(), Box::new(memory.clone()), Settings::default());
    let shipping = metrics::with_local_recorder(&kept, start).expect("starts");
    let end = append(&log, 100);
    shipping.wait(end, LIMIT).expect("is acknowledged");
    let stats = shipping.stats().expect("looks");
    assert_eq!(kept.get("seawall_ship_records_total"), 100);
    assert_eq!(kept.get("seawall_ship_batches_total"), 100);
    assert_eq!(kept.get("seawall_ship_messages_total"), stats.messages);
    assert_eq!(kept.get("seawall_ship_bytes_total"), stats.bytes);
    assert!(stats.bytes > end.get(), "{stats:?}");
    assert_eq!(kept.get("seawall_ship_retries_total"), 0);
    // It outlives this machine, and nobody said that it lies elsewhere.
    assert!(!kept.0.lock().expect("sound").contains_key("seawall_ship_at_risk_records site"));
    memory.with(|weather| weather.away = true);
    append(&log, 7);
    until(|| kept.gauge("seawall_ship_at_risk_records machine") > 6.5);
    until(|| kept.gauge("seawall_ship_at_risk_seconds machine") > 0.0);
    until(|| kept.get("seawall_ship_retries_total") > 0);
    memory.with(|weather| weather.away = false);
    until(|| kept.gauge("seawall_ship_at_risk_records machine") < 0.5);
    assert!(kept.gauge("seawall_ship_at_risk_seconds machine").abs() < f64::EPSILON);
    shipping.finish(LIMIT).expect("ships");
    assert_eq!(kept.get("seawall_ship_records_total"), 107);
}
