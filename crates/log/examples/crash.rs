//! Runs the simulated crash campaign on every processor and reports the first record lost.
//!
//! Usage:
//!
//! ```text
//! crash [--seed N] [--states N] [--workers N] [--progress FILE] [--minutes N] [--cap-seconds N] [--state N]
//! ```
//!
//! With `--progress` the progress is kept in a file, rewritten as a whole every few seconds, so the campaign may be
//! killed at any moment and goes on with the same command; no state is counted twice. `--minutes` ends a run early
//! and in order; `--cap-seconds` fails the run if it has not ended by then. `--state` repeats one state of the life
//! of `--seed` alone.

use std::path::{Path, PathBuf};

use seawall::sim::campaign::{Campaign, DIMENSIONS, run};
use seawall::sim::crew::{Standing, go_on};
use seawall_sys::clock::monotonic_ns;

type Anything = Box<dyn std::error::Error>;

/// How often the standing is written down, in milliseconds.
const SAVE_EVERY_MS: u64 = 5_000;

struct Orders {
    campaign: Campaign,
    workers: usize,
    progress: Option<PathBuf>,
    minutes: u64,
    cap_seconds: u64,
}

fn orders() -> Result<Orders, Anything> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let campaign = Campaign { states: 1_000_000, ..Campaign::default() };
    let mut orders = Orders { campaign, workers, progress: None, minutes: u64::MAX, cap_seconds: u64::MAX };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
        match name.as_str() {
            "--seed" => orders.campaign.seed = number()?,
            "--states" => orders.campaign.states = number()?,
            "--state" => orders.campaign.only = Some(number()?),
            "--workers" => orders.workers = usize::try_from(number()?)?,
            "--minutes" => orders.minutes = number()?,
            "--cap-seconds" => orders.cap_seconds = number()?,
            "--progress" => orders.progress = Some(PathBuf::from(value)),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Ok(orders)
}

/// The standing in `path`, if there is a file.
fn load(path: &Path, campaign: &Campaign) -> Result<Standing, Anything> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let standing = Standing::from_text(&text, campaign);
            Ok(standing.map_err(|why| format!("{}: {why}; name another file", path.display()))?)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Standing::new(campaign.seed)),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

/// Writes the standing down, all or nothing.
fn save(path: &Path, standing: &Standing, campaign: &Campaign) -> std::io::Result<()> {
    let draft = path.with_extension("new");
    std::fs::write(&draft, standing.to_text(campaign))?;
    std::fs::rename(&draft, path)
}

fn show(standing: &Standing, workers: usize, wanted: u64) {
    let Standing { first_seed, next_seed, milliseconds, tally } = standing;
    let rate = tally.states as f64 * 1000.0 / (*milliseconds).max(1) as f64;
    println!("seeds {first_seed} to {}, {workers} workers, {milliseconds} ms", next_seed - 1);
    println!("{:>12} states judged, each once in its life: {rate:.0} a second", tally.states);
    println!("{:>12} different contents and dues over all lives (estimate, 0.8 %)", tally.sketch.estimate());
    println!("{:>12} images seen before and skipped", tally.repeated);
    println!("{:>12} lives, nested ones included; {} failed operations", tally.lives, tally.faults);
    for (name, lives) in DIMENSIONS.iter().zip(tally.dimensions) {
        println!("{lives:>12} of them: {name}");
    }
    let intact = tally.damaged - tally.refused - tally.undecidable;
    println!(
        "{:>12} damaged: {} refused with the place named, {} behind the last witness, {intact} whole or seen before",
        tally.damaged, tally.refused, tally.undecidable
    );
    println!("{:>12} promises broken", 0);
    let percent = tally.states as f64 * 100.0 / wanted as f64;
    println!("{percent:>10.1} % of the {wanted} states that are wanted");
}

fn main() -> Result<(), Anything> {
    let Orders { campaign, workers, progress, minutes, cap_seconds } = orders()?;
    if campaign.only.is_some() {
        println!("{} state judged, every promise kept", run(&campaign)?.states);
        return Ok(());
    }
    let standing =
        progress.as_ref().map_or_else(|| Ok(Standing::new(campaign.seed)), |path| load(path, &campaign))?;
    let (before_ms, start_ns) = (standing.milliseconds, monotonic_ns());
    let run_ms = || (monotonic_ns() - start_ns) / 1_000_000;
    let end_ms = minutes.saturating_mul(60_000).min(cap_seconds.saturating_mul(1_000));
    let (mut saved_ms, mut unsaved) = (0, None);
    let mut standing = go_on(&campaign, standing, workers, |standing| {
        let now_ms = run_ms();
        if let Some(path) = progress.as_ref().filter(|_| now_ms > saved_ms + SAVE_EVERY_MS) {
            saved_ms = now_ms;
            let standing = Standing { milliseconds: before_ms + now_ms, ..standing.clone() };
            unsaved = save(path, &standing, &campaign).err();
        }
        unsaved.is_none() && now_ms < end_ms
    })?;
    standing.milliseconds = before_ms + run_ms();
    if let Some(path) = &progress {
        save(path, &standing, &campaign)?;
    }
    show(&standing, workers, campaign.states);
    if let Some(error) = unsaved {
        return Err(format!("the standing could not be written: {error}").into());
    }
    if standing.tally.states < campaign.states && cap_seconds < u64::MAX {
        return Err(format!("not done after {cap_seconds} s, the cap of this run").into());
    }
    Ok(())
}
