//! Draws the progress bar of a run: round, method, its figure and the time left.
//!
//! Invariant: drawn on standard error and only on terminals; a result is kept after every round, whether or not a bar
//! is drawn.

use crate::signals::STOP;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use seawall_gauge::result::RunResult;
use seawall_gauge::scenario::{BlockStart, Observer};
use seawall_host::output::OutputFolder;
use std::sync::atomic::AtomicBool;

const STEPS: u64 = 1000;

pub(crate) const RESULT: &str = "result.json";

pub(crate) struct Progress<'a> {
    bar: ProgressBar,
    keep_in: Option<&'a OutputFolder>,
    label: Option<String>,
}

impl<'a> Progress<'a> {
    /// `shown`: draw on terminals at all. `keep_in`: the folder whose result is rewritten after each round, with the run's `label`.
    pub(crate) fn new(shown: bool, keep_in: Option<&'a OutputFolder>, label: Option<String>) -> Self {
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, keep_in, label }
    }

    pub(crate) fn done(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress<'_> {
    fn filling(&mut self, done_bytes: u64, total_bytes: u64) {
        if let Some(step) = (done_bytes * STEPS).checked_div(total_bytes) {
            self.bar.set_position(step);
            self.bar.set_message("filling the journal");
        }
    }

    fn doing(&mut self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share from 0 to 1 of 1000 steps"
    )]
    fn block(&mut self, block: &BlockStart<'_>) {
        self.bar.set_position((block.done * STEPS as f64) as u64);
        let p50 = block.p50_ns.map_or_else(String::new, |ns| format!(" p50 {:.1} µs", ns as f64 / 1e3));
        let (round, rounds, left_s) = (block.round + 1, block.rounds, block.left_ns / 1_000_000_000);
        self.bar.set_message(format!("{left_s:>3} s left, round {round}/{rounds}, {}{p50}", block.method));
    }

    fn round(&mut self, so_far: &RunResult) -> Result<(), seawall_gauge::Error> {
        let Some(folder) = self.keep_in else { return Ok(()) };
        let text = match &self.label {
            None => so_far.to_json(),
            Some(label) => RunResult { label: Some(label.clone()), ..so_far.clone() }.to_json(),
        };
        folder.replace(RESULT, text?.as_bytes()).map_err(|source| seawall_gauge::Error::Io {
            operation: "write",
            path: folder.path().join(RESULT),
            source,
        })
    }

    fn stop(&self) -> &AtomicBool {
        &STOP
    }
}
