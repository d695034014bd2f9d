//! Tests the `tracing` spans and the metrics that a log emits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fixture::scratch;
use seawall::{Log, Lsn, Options};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// One test at a time: while there is one subscriber, `tracing` lets the thread that meets a span first say whether it is
/// recorded, and a thread of another test would answer no for all later ones.
static ALONE: Mutex<()> = Mutex::new(());

/// Six rotations and some of everything else.
fn use_a_log(dir: &std::path::Path) -> seawall::Stats {
    let options =
        Options::default().segment_bytes(64 << 10).batch_bytes(8 << 10).idle_mark(Duration::from_mins(10));
    let log = Log::open(dir, options).expect("opens");
    for _ in 0..30 {
        log.append_commit(&[7; 8000]).expect("commits");
    }
    log.trim(Lsn::new(16_000)).expect("trims");
    log.append_commit(b"states the trim").expect("commits");
    let stats = log.stats();
    log.close().expect("closes");
    stats
}

/// What the log says on this thread: its spans by name, and the words of its events.
#[derive(Clone)]
pub(crate) struct Heard {
    spans: Arc<Mutex<BTreeMap<&'static str, u64>>>,
    pub(crate) words: Arc<Mutex<String>>,
    most: Level,
}

impl Heard {
    pub(crate) fn up_to(most: Level) -> Self {
        Self { spans: Arc::default(), words: Arc::default(), most }
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("seawall") && *metadata.level() <= self.most
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        *self.spans.lock().expect("sound").entry(span.metadata().name()).or_default() += 1;
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut words = self.words.lock().expect("sound");
        event.record(&mut |_: &Field, value: &dyn std::fmt::Debug| words.extend([format!("{value:?} ")]));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn every_stage_has_its_span_and_batches_only_at_trace_level() {
    let _alone = ALONE.lock();
    for (most, batches) in [(Level::TRACE, true), (Level::DEBUG, false)] {
        let dir = scratch();
        let heard = Heard::up_to(most);
        // What the committing thread itself does; segment tasks run on a thread of their own.
        let stats = tracing::subscriber::with_default(heard.clone(), || use_a_log(dir.path()));
        let seen = heard.spans.lock().expect("sound").clone();
        for name in ["open", "recover", "trim", "close"] {
            assert_eq!(seen.get(name), Some(&1), "{name} in {seen:?}");
        }
        assert_eq!(seen.get("rotate").copied(), Some(stats.segments_started), "{seen:?}");
        // One more: the close mark.
        assert_eq!(seen.get("batch").copied(), batches.then_some(stats.batches + 1), "{seen:?}");
    }
}

#[cfg(feature = "metrics")]
mod recorded {
    use super::{Arc, BTreeMap, Mutex, scratch, use_a_log};
    use metrics::{
        Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString,
        Unit,
    };
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Values {
        sum: AtomicU64,
        count: AtomicU64,
    }

    impl CounterFn for Values {
        fn increment(&self, by: u64) {
            self.sum.fetch_add(by, Ordering::SeqCst);
        }
        fn absolute(&self, _: u64) {}
    }

    impl HistogramFn for Values {
        fn record(&self, value: f64) {
            assert!(value >= 0.0 && value.is_finite());
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<BTreeMap<String, Arc<Values>>>>);

    impl Kept {
        fn values(&self, key: &Key) -> Arc<Values> {
            assert_eq!(key.labels().map(metrics::Label::key).collect::<Vec<_>>(), ["log"], "{key}");
            Arc::clone(self.0.lock().expect("sound").entry(key.name().to_owned()).or_default())
        }
    }

    impl Recorder for Kept {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.values(key))
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(self.values(key))
        }
    }

    #[test]
    fn the_recorder_gets_what_the_statistics_say() {
        let _alone = super::ALONE.lock();
        let (dir, kept) = (scratch(), Kept::default());
        let stats = metrics::with_local_recorder(&kept, || use_a_log(dir.path()));
        let kept = kept.0.lock().expect("sound");
        let sum = |name: &str| kept[name].sum.load(Ordering::SeqCst);
        assert_eq!(kept.len(), 15);
        assert_eq!(sum("seawall_batches_total"), stats.batches + 1, "and the close mark");
        assert_eq!(sum("seawall_records_total"), stats.records);
        assert_eq!(sum("seawall_segments_started_total"), stats.segments_started);
        assert_eq!(sum("seawall_stalls_total"), stats.stalls);
        assert_eq!(sum("seawall_rewrite_stalls_total"), stats.rewrite_stalls);
        assert_eq!(sum("seawall_write_stalls_total"), stats.stalls_seen);
        assert!(sum("seawall_written_bytes_total") > stats.bytes_written);
        assert!(sum("seawall_segments_prepared_total") >= stats.segments_started);
        let filled = sum("seawall_segments_filled_total");
        assert!(
            (stats.segments_filled..=sum("seawall_segments_prepared_total")).contains(&filled),
            "{filled} filled by the end, {stats:?}"
        );
        assert_eq!((sum("seawall_failures_total"), sum("seawall_debt_syncs_total")), (0, 0));
        let count = |name: &str| kept[name].count.load(Ordering::SeqCst);
        assert_eq!(count("seawall_write_seconds"), stats.batches + 1);
        assert_eq!(count("seawall_batch_records"), stats.batches + 1);
    }
}
