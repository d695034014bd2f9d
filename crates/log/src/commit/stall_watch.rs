//! Runs the thread that watches for stalls, and reports each to metrics, the log of the program and its callback.

use std::time::Duration;

use crate::commit::group::Group;
use crate::commit::metrics::Metric;
use crate::commit::stall::{Next, OnStall, Stall, Watch};
use crate::commit::sync::monotonic_ns;

pub(crate) fn watch(group: &Group, threshold: Duration, on_stall: Option<&OnStall>) {
    let stalls = &group.stalls;
    let mut watch = Watch::default();
    while !group.status.is_stopping() {
        match watch.look(stalls.oldest_ns(), threshold, monotonic_ns()) {
            Next::Sleep => {
                stalls.watcher_sleeps(true);
                if stalls.oldest_ns().is_none() && !group.status.is_stopping() {
                    std::thread::park();
                }
                stalls.watcher_sleeps(false);
            }
            Next::LookAgain(rest) => std::thread::park_timeout(rest),
            Next::Report(lasted) => report(group, lasted, on_stall),
        }
    }
}

fn report(group: &Group, lasted: Duration, on_stall: Option<&OnStall>) {
    let stall = Stall { lasted, durable: group.durable(), appended: group.core().appended() };
    group.stalls.note_seen();
    group.recorder.metrics.count(Metric::WriteStalls, 1);
    let dir = group.writers.dir().display();
    tracing::warn!(%dir, ?lasted, durable = %stall.durable, "the disk does not finish a batch");
    let Some(OnStall(callback)) = on_stall else { return };
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callback(stall))).is_err() {
        tracing::error!("the callback of Options::on_stall panicked");
    }
}
