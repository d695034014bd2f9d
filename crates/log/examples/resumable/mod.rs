//! Runs a campaign on the simulated disk from the command line, with progress that is kept in a file.
//!
//! With `--progress` the standing is rewritten as a whole every few seconds, so the campaign may be killed at any moment
//! and goes on with the same command; no seed is counted twice. `--minutes` ends a run early and in order;
//! `--cap-seconds` fails the run if it has not ended by then.

use std::io;
use std::path::{Path, PathBuf};

use seawall::sim::crew::{BySeed, CampaignProgress, go_on};
use seawall_sys::clock::monotonic_ns;

pub(crate) type Anything = Box<dyn std::error::Error>;

/// How often the standing is written down, in milliseconds.
const SAVE_EVERY_MS: u64 = 5_000;

/// The options that every campaign has.
pub(crate) struct CampaignOptions {
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    progress: Option<PathBuf>,
    minutes: u64,
    cap_seconds: u64,
}

impl CampaignOptions {
    /// Reads the command line; `other` takes an option that only one campaign has, and returns whether it knows it.
    pub(crate) fn read(mut other: impl FnMut(&str, u64) -> bool) -> Result<Self, Anything> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let mut orders = Self { seed: 1, workers, progress: None, minutes: u64::MAX, cap_seconds: u64::MAX };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            if name == "--progress" {
                orders.progress = Some(PathBuf::from(value));
                continue;
            }
            let number = value.parse().map_err(|error| format!("{name} {value}: {error}"))?;
            match name.as_str() {
                "--seed" => orders.seed = number,
                "--workers" => orders.workers = usize::try_from(number)?,
                "--minutes" => orders.minutes = number,
                "--cap-seconds" => orders.cap_seconds = number,
                name if other(name, number) => {}
                name => return Err(format!("unknown option {name}").into()),
            }
        }
        Ok(orders)
    }

    /// Runs the campaign from where it stands and shows how far it came.
    pub(crate) fn run<C: BySeed>(
        &self,
        campaign: &C,
        show: impl FnOnce(&CampaignProgress<C::Sum>),
    ) -> Result<(), Anything> {
        let fresh = || Ok(CampaignProgress::new(self.seed));
        let standing = self.progress.as_ref().map_or_else(fresh, |path| load(path, self.seed, campaign))?;
        let (before_ms, start_ns) = (standing.milliseconds, monotonic_ns());
        let run_ms = || (monotonic_ns() - start_ns) / 1_000_000;
        let end_ms = self.minutes.saturating_mul(60_000).min(self.cap_seconds.saturating_mul(1_000));
        let (mut saved_ms, mut unsaved) = (0, None);
        let mut standing = go_on(campaign, standing, self.workers, |standing| {
            let now_ms = run_ms();
            if let Some(path) = self.progress.as_ref().filter(|_| now_ms > saved_ms + SAVE_EVERY_MS) {
                saved_ms = now_ms;
                let standing = CampaignProgress { milliseconds: before_ms + now_ms, ..standing.clone() };
                unsaved = save(path, &standing.to_text(campaign)).err();
            }
            unsaved.is_none() && now_ms < end_ms
        })?;
        standing.milliseconds = before_ms + run_ms();
        if let Some(path) = &self.progress {
            unsaved = save(path, &standing.to_text(campaign)).err();
        }
        show(&standing);
        if let Some(error) = unsaved {
            return Err(format!("the standing could not be written: {error}").into());
        }
        if !campaign.is_done(&standing) && self.cap_seconds < u64::MAX {
            return Err(format!("not done after {} s, the cap of this run", self.cap_seconds).into());
        }
        Ok(())
    }
}

/// The standing in `path`, if there is a file.
fn load<C: BySeed>(path: &Path, seed: u64, campaign: &C) -> Result<CampaignProgress<C::Sum>, Anything> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let standing = CampaignProgress::from_text(&text, campaign);
            Ok(standing.map_err(|why| format!("{}: {why}; name another file", path.display()))?)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(CampaignProgress::new(seed)),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

/// Writes the standing down, all or nothing.
fn save(path: &Path, standing: &str) -> io::Result<()> {
    let staging = path.with_extension("new");
    std::fs::write(&staging, standing)?;
    std::fs::rename(&staging, path)
}
