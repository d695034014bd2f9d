//! One run of `seawall bench`, a [`Job`]: a scenario in its folders, checked, then measured.
//!
//! Invariant: preparing inspects and refuses, and writes nothing; `all` prepares every job before the first is run.

use crate::bench_args::Common;
use crate::exit::{self, Failure};
use crate::progress::Progress;
use crate::scenario_args::Wanted;
use crate::signals::STOP;
use crate::{leftovers, paths};
use seawall_gauge::figures::bytes;
use seawall_gauge::preflight::{self, Share};
use seawall_gauge::rank::Ranking;
use seawall_gauge::report;
use seawall_gauge::require::{self, Checked, Requirement};
use seawall_gauge::result::RunResult;
use seawall_gauge::scenario::replicated::Engines;
use seawall_gauge::scenario::settings::Settings;
use seawall_gauge::scenario::{RunError, Scenario};
use seawall_gauge::testbed::real::RealTestbed;
use seawall_host::jdk::{Jdk, NO_JDK};
use seawall_host::output::OutputFolder;
use seawall_replicated::Named;
use seawall_sys::inspect::{self, Environment};
use seawall_sys::raw_device::RawDevice;
use seawall_sys::residency::available_memory_bytes;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

const REMEDY: &str = "name a folder on the disk to be measured, or a scenario (seawall bench --list)";

pub(crate) struct Job {
    pub(crate) scenario: &'static Scenario,
    settings: Settings,
    requirement: Requirement,
    places: Vec<(PathBuf, Environment)>,
    needs_bytes: u64,
    /// Held from here on, so that no other program uses it before the run.
    device: Option<RawDevice>,
    clusters: Named,
}

impl Job {
    /// Looks and refuses.
    pub(crate) fn prepare(common: &Common, wanted: Wanted) -> Result<Self, Failure> {
        let Wanted { scenario, folders, settings, requirement, raw_device, clusters } = wanted;
        settings.check().map_err(Failure::usage)?;
        clusters.check().map_err(Failure::usage)?;
        if scenario.clusters && clusters.is_empty() {
            return Err(Failure::Usage(format!(
                "`{}` needs a cluster: name one with --kafka BOOTSTRAP or --nats URL; docs/replicated.md has one to try",
                scenario.name
            )));
        }
        let mut places = Vec::new();
        for folder in raw_device.clone().map_or(folders, |device| vec![device]) {
            let environment = match &raw_device {
                Some(device) => inspect::environment(device).map_err(Failure::message)?,
                None => paths::folder(&folder, REMEDY)?,
            };
            places.push((folder, environment));
        }
        let device = raw_device.as_deref().map(RawDevice::open).transpose().map_err(Failure::message)?;
        let free_bytes = places.iter().map(|(_, environment)| environment.file_system.free_bytes).min();
        let needs_bytes =
            (scenario.needs_bytes)(&settings, available_memory_bytes(), free_bytes.unwrap_or(0));
        for (_, environment) in &places {
            preflight::check(scenario, &settings, needs_bytes, environment, common.allow_memory)
                .map_err(Failure::message)?;
        }
        Ok(Self { scenario, settings, requirement, places, needs_bytes, device, clusters })
    }

    pub(crate) fn announcement(&self) -> String {
        let mut words = preflight::announcement(self.scenario, &self.settings, self.needs_bytes);
        if let Some(device) = &self.device {
            words = format!("{}\n{words}", overwritten(device, self.settings.journal.bytes));
        }
        if let Some(jdks) = &self.settings.jvms {
            words = format!("{words} {}", writers(jdks));
        }
        if !self.clusters.is_empty() {
            let clusters = self.clusters.redacted();
            words = format!("{words}\nWill write to new streams (removed afterwards) in {clusters}.");
        }
        words
    }

    pub(crate) fn destroys(&self) -> bool {
        self.device.is_some()
    }

    pub(crate) fn share(&self) -> Share {
        Share::new(self.scenario, &self.settings, self.needs_bytes)
    }

    pub(crate) fn preview(&self, width: usize) -> String {
        let environments: Vec<&Environment> =
            self.places.iter().map(|(_, environment)| environment).collect();
        report::preview::preview(self.scenario, &self.settings, &environments, width)
    }

    /// Measures; the result is rewritten below `kept` after every round.
    pub(crate) fn measure(&self, common: &Common, kept: Option<&OutputFolder>) -> Result<Measured, Failure> {
        let shown = !common.no_progress && !common.quiet;
        let mut places = self.places.clone();
        if let Some(((_, first), others)) = places.split_first_mut() {
            common.settle.before(self.share().time_ns, first, common.quiet)?;
            for (_, other) in others {
                other.pressure = first.pressure;
            }
        }
        let mut progress = Progress::new(shown, kept, common.label.clone());
        let mut testbed = if let (Some(device), [(_, environment)]) = (&self.device, &places[..]) {
            let device = device.try_clone().map_err(Failure::message)?;
            RealTestbed::on_raw_device(device, environment.clone(), self.settings.journal.bytes)
                .map_err(Failure::message)?
        } else {
            // What runs that were killed left behind.
            for (folder, _) in &places {
                leftovers::sweep(folder);
            }
            RealTestbed::in_folders(places)
        };
        testbed.attach(self.connect()?);
        let result = (self.scenario.run)(&self.settings, &mut testbed, &mut progress);
        let left = testbed.attached::<Engines>().map_or_else(Vec::new, Engines::close);
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        progress.done();
        let named = |result| RunResult { label: common.label.clone(), ..result };
        measured(result.map(named), (!left.is_empty()).then(|| left.join("; ")))
    }

    /// Connects to the clusters that were named, if any: with their own clients, and with logs that are shipped there.
    fn connect(&self) -> Result<Engines, Failure> {
        let folder = self.places.first().map(|(folder, _)| folder.as_path());
        let connected = seawall_replicated::connect(&self.clusters, folder, &STOP);
        let interrupted = STOP.load(Ordering::Relaxed);
        connected.map_err(|error| if interrupted { Failure::Interrupted } else { Failure::message(error) })
    }

    pub(crate) fn check(&self, result: &RunResult) -> Vec<Checked> {
        require::check(&Ranking::new(result), &self.requirement)
    }
}

#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) result: RunResult,
    /// What could not be removed again, and how to; the result is reported all the same, and the command fails.
    pub(crate) left_behind: Option<String>,
}

/// The outcome of a run; what was left behind is named with every other error.
fn measured(result: Result<RunResult, RunError>, left_behind: Option<String>) -> Result<Measured, Failure> {
    match (result, left_behind) {
        (Ok(result), left_behind) => Ok(Measured { result, left_behind }),
        (Err(RunError::Stopped), None) => Err(Failure::Interrupted),
        (Err(RunError::Stopped), Some(left)) => {
            Err(Failure::Message(format!("interrupted before anything was measured; {left}")))
        }
        (Err(error), None) => Err(Failure::Message(error.to_string())),
        (Err(error), Some(left)) => Err(Failure::Message(format!("{error}; also: {left}"))),
    }
}

fn overwritten(device: &RawDevice, lost_bytes: u64) -> String {
    let description = device.description();
    let what = if description.is_empty() { String::new() } else { format!(" ({description})") };
    let contents = match device.contents() {
        [] => "its first 256 KiB are zeros".to_owned(),
        contents => format!("ON IT NOW: {}", contents.join(", ")),
    };
    format!(
        "DESTROYS the first {} of {}{what}, a device of {}; {contents}. No mount, swap, volume, loop device or visible program uses it.",
        bytes(lost_bytes),
        device.path().display(),
        bytes(device.bytes()),
    )
}

fn writers(jdks: &[Jdk]) -> String {
    if jdks.is_empty() {
        return format!("No JVM will write: {NO_JDK}.");
    }
    let each: Vec<String> =
        jdks.iter().map(|jdk| format!("JDK {} ({})", jdk.version, jdk.home.display())).collect();
    format!("Beside the native ways: {}.", each.join(", "))
}

pub(crate) fn exit_code(result: &RunResult, checked: &[Checked]) -> ExitCode {
    match exit::of_conditions(checked) {
        _ if !result.complete => ExitCode::from(exit::INTERRUPTED),
        Some(code) => ExitCode::from(code),
        None if result.measured().next().is_none() => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_behind_is_named_beside_every_other_error() {
        let left = || Some("the stream seawall-1 may be left behind".to_owned());
        let message = |error, left| match measured(Err(error), left) {
            Err(Failure::Message(message)) => message,
            other => format!("{other:?}"),
        };
        let full = seawall_gauge::Error::Io {
            operation: "write",
            path: "result.json".into(),
            source: std::io::ErrorKind::StorageFull.into(),
        };
        let both = message(RunError::NotKept(full), left());
        assert!(both.contains("result.json") && both.contains("seawall-1"), "{both}");
        assert!(message(RunError::Stopped, left()).contains("seawall-1"));
        assert!(matches!(measured(Err(RunError::Stopped), None), Err(Failure::Interrupted)));
    }
}
