//! Test double: a [`Watcher`] that records a run's progress and may stop it.

use seawall_gauge::Error;
use seawall_gauge::result::RunResult;
use seawall_gauge::scenario::{BlockStart, Observer};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(crate) struct Watcher {
    pub(crate) stop: AtomicBool,
    pub(crate) blocks: u64,
    /// Stops the run before this block.
    pub(crate) stop_after: Option<u64>,
    /// After each round, whether the result was whole.
    pub(crate) kept: Vec<bool>,
}

impl Observer for Watcher {
    fn filling(&mut self, _: u64, _: u64) {}
    fn block(&mut self, block: &BlockStart<'_>) {
        assert!((0.0..=1.0).contains(&block.done));
        self.blocks += 1;
        if self.stop_after == Some(self.blocks) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
    fn round(&mut self, so_far: &RunResult) -> Result<(), Error> {
        self.kept.push(so_far.complete);
        Ok(())
    }
    fn stop(&self) -> &AtomicBool {
        &self.stop
    }
}
