//! Stores a long campaign's progress in one JSON file, so that the campaign can be resumed.
//!
//! The file is rewritten after every part of a seed.

use std::io;
use std::path::Path;

use crate::report::{Layer, Report};

/// The sum of all seeds so far.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Progress {
    /// The kernel of the last run.
    pub(crate) kernel: String,
    pub(crate) first_seed: u64,
    /// The one that is under way.
    pub(crate) next_seed: u64,
    /// Which of its parts are done.
    #[serde(default)]
    pub(crate) done: Vec<String>,
    /// By name.
    pub(crate) layers: Vec<Layer>,
    pub(crate) kill_cycles: u64,
    pub(crate) controls_caught: u64,
    pub(crate) failures: Vec<String>,
}

impl Progress {
    /// What `path` holds, or the start of a campaign.
    pub(crate) fn load(path: &Path, first_seed: u64) -> io::Result<Self> {
        let fresh = || Self { first_seed, next_seed: first_seed, ..Self::default() };
        Ok(load(path)?.unwrap_or_else(fresh))
    }

    /// Whether this part of the seed under way is still to be done.
    pub(crate) fn is_due(&self, part: &str) -> bool {
        self.done.iter().all(|done| done != part)
    }

    /// Every part of the seed under way is done.
    pub(crate) fn seed_done(&mut self) {
        self.done.clear();
        self.next_seed += 1;
    }

    /// Adds one part of the seed under way.
    pub(crate) fn add(&mut self, part: &str, report: &Report) {
        self.kernel.clone_from(&report.kernel);
        self.done.push(part.to_owned());
        for layer in &report.layers {
            let Some(sum) = self.layers.iter_mut().find(|sum| sum.name == layer.name) else {
                self.layers.push(layer.clone());
                continue;
            };
            sum.recordings += layer.recordings;
            sum.counts.states += layer.counts.states;
            sum.counts.nested += layer.counts.nested;
            sum.counts.torn += layer.counts.torn;
            sum.counts.unmountable += layer.counts.unmountable;
            sum.milliseconds += layer.milliseconds;
        }
        self.kill_cycles += report.kills.iter().map(|(_, kills)| kills.cycles).sum::<u64>();
        self.controls_caught +=
            report.controls.iter().filter(|control| control.caught_after.is_some()).count() as u64;
        self.failures.extend(report.failures());
    }

    /// Where it stands, in one line.
    pub(crate) fn line(&self) -> String {
        let states: u64 = self.layers.iter().map(|layer| layer.counts.states).sum();
        let Self { first_seed, next_seed, done, .. } = self;
        let reached = match (next_seed - first_seed, done.len()) {
            (0, parts) => format!("{parts} parts of seed {next_seed}"),
            (_, 0) => format!("seeds {first_seed} to {}", next_seed - 1),
            (_, parts) => format!("seeds {first_seed} to {} and {parts} parts of the next", next_seed - 1),
        };
        format!("{reached}: {states} states, {} failures", self.failures.len())
    }
}

/// The JSON in `path`; `None` if there is no such file, `InvalidData` if it holds something else.
pub(crate) fn load<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?)) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

/// Replaces `path` by the JSON of `value`, all or nothing; its folder is made if there is none.
pub(crate) fn save(path: &Path, value: &impl serde::Serialize) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let staging = path.with_extension("new");
    std::fs::write(&staging, serde_json::to_vec_pretty(value)?)?;
    std::fs::rename(&staging, path)
}

#[cfg(test)]
mod tests {
    use super::{Layer, Progress, Report, save};
    use crate::blocks::campaign::Counts;

    #[test]
    fn a_campaign_goes_on_where_it_stopped() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("deep").join("campaign.json");
        let mut progress = Progress::load(&path, 7).expect("a new campaign");
        let counts = Counts { states: 5, ..Counts::default() };
        let layer = Layer { name: "files".to_owned(), counts, ..Layer::default() };
        let report = Report { layers: vec![layer], ..Report::default() };
        progress.add("files", &report);
        save(&path, &progress).expect("it is saved");
        let mut again = Progress::load(&path, 99).expect("it is there");
        assert!(!again.is_due("files") && again.is_due("blocks on ext4"));
        assert_eq!(again.line(), "1 parts of seed 7: 5 states, 0 failures");
        again.seed_done();
        assert!(again.is_due("files"));
        again.add("files", &report);
        assert_eq!((again.first_seed, again.next_seed, again.layers[0].counts.states), (7, 8, 10));
        assert_eq!(again.line(), "seeds 7 to 7 and 1 parts of the next: 10 states, 0 failures");
    }
}
