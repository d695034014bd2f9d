//! Collects the counts, findings and skips of a run and formats them as Markdown.
//!
//! Invariant: every number was counted; parts that did not run are listed under "skipped".

use std::fmt::Write as _;

use crate::blocks::campaign::Counts;
use crate::faults::FsyncRow;
use crate::kill::Kills;

/// One recorder on one ground.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Layer {
    /// `files, strict`, `blocks on ext4` …
    pub(crate) name: String,
    pub(crate) recordings: u64,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    pub(crate) milliseconds: u64,
}

/// One negative control.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Control {
    pub(crate) mistake: &'static str,
    /// The layer that claims to catch it.
    pub(crate) layer: String,
    /// States judged until it was caught; nothing if it was not.
    pub(crate) caught_after: Option<u64>,
    /// The arguments that judge the state that showed it again, if a recording was made.
    pub(crate) replay: Option<String>,
}

/// One check with a failing disk.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Check {
    pub(crate) name: String,
    /// What was observed, or what did not hold.
    pub(crate) outcome: Result<String, String>,
}

#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct Report {
    pub(crate) kernel: String,
    pub(crate) command: String,
    /// When it ended, in seconds since 1970.
    pub(crate) unix_seconds: u64,
    pub(crate) layers: Vec<Layer>,
    pub(crate) fsync: Vec<FsyncRow>,
    pub(crate) checks: Vec<Check>,
    /// By victim.
    pub(crate) kills: Vec<(String, Kills)>,
    pub(crate) controls: Vec<Control>,
    /// Broken promises, each with the command that repeats it.
    pub(crate) findings: Vec<String>,
    /// What did not run, each with the reason.
    pub(crate) skipped: Vec<String>,
}

impl Report {
    /// Adds what a run at the same time came to; who, when and where stay.
    pub(crate) fn add(&mut self, other: Self) {
        let Self { layers, fsync, checks, kills, controls, findings, skipped, .. } = other;
        self.layers.extend(layers);
        self.fsync.extend(fsync);
        self.checks.extend(checks);
        self.kills.extend(kills);
        self.controls.extend(controls);
        self.findings.extend(findings);
        self.skipped.extend(skipped);
    }

    /// What makes the run fail.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut failures = self.findings.clone();
        let missed = self.controls.iter().filter(|control| control.caught_after.is_none());
        failures
            .extend(missed.map(|control| format!("not caught: {} by {}", control.mistake, control.layer)));
        let failed = |check: &Check| Some(format!("{}: {}", check.name, check.outcome.as_ref().err()?));
        failures.extend(self.checks.iter().filter_map(failed));
        let odd = self.fsync.iter().filter(|row| **row != FsyncRow::expected(row.file_system));
        failures.extend(odd.map(|row| format!("failing syncs behave otherwise than known: {row:?}")));
        let broken = self.kills.iter().filter_map(|(victim, kills)| Some((victim, kills.broken.as_ref()?)));
        failures.extend(broken.map(|(victim, what)| format!("kill -9 of {victim}: {what}")));
        failures
    }

    /// The report as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "# Crash test of the real programs\n\n`{}` on {}\n", self.command, self.kernel)?;
        writeln!(
            out,
            "| layer | recordings | states | after a second crash | torn | refused by mount | seconds |"
        )?;
        writeln!(out, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")?;
        for layer in &self.layers {
            let Layer { name, recordings, counts, .. } = layer;
            let Counts { states, nested, torn, unmountable } = counts;
            let seconds = layer.milliseconds as f64 / 1000.0;
            writeln!(
                out,
                "| {name} | {recordings} | {states} | {nested} | {torn} | {unmountable} | {seconds:.1} |"
            )?;
        }
        if !self.controls.is_empty() {
            writeln!(out, "\n| mistake made on purpose | caught by | after states |\n| --- | --- | ---: |")?;
        }
        for control in &self.controls {
            let after = control.caught_after.map_or("**not caught**".to_owned(), |states| states.to_string());
            writeln!(out, "| {} | {} | {after} |", control.mistake, control.layer)?;
        }
        if !self.fsync.is_empty() {
            writeln!(
                out,
                "\n| file system | fsync | again | buffered read | direct read |\n| --- | --- | --- | --- | --- |"
            )?;
        }
        for row in &self.fsync {
            let FsyncRow { file_system, first, second, buffered, direct } = row;
            writeln!(out, "| {file_system} | errno {first} | errno {second} | {buffered} | {direct} |")?;
        }
        writeln!(out)?;
        for check in &self.checks {
            match &check.outcome {
                Ok(seen) => writeln!(out, "- {}: {seen}", check.name)?,
                Err(what) => writeln!(out, "- {}: **failed**: {what}", check.name)?,
            }
        }
        for (victim, kills) in &self.kills {
            let Kills { cycles, acknowledged, too_late, .. } = kills;
            writeln!(
                out,
                "- kill -9 of {victim}: {cycles} cycles, {acknowledged} acknowledgements, {too_late} came too late"
            )?;
        }
        for skipped in &self.skipped {
            writeln!(out, "- SKIPPED: {skipped}")?;
        }
        let failures = self.failures();
        writeln!(out, "\n{} failures", failures.len())?;
        failures.iter().try_for_each(|failure| writeln!(out, "- {failure}"))
    }
}
