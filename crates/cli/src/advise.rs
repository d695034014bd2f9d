//! `seawall advise`: derives product settings from a result, or from a short measurement.
//!
//! Invariant: nothing is written before the announcement was printed, and nothing at all when a result is given.

use crate::colour::Colour;
use crate::exit::{self, Failure};
use crate::progress::Progress;
use crate::settle::Settle;
use crate::{amounts, hints, leftovers, output, paths, signals};
use clap::Args;
use seawall_gauge::advise::products::{self, Product};
use seawall_gauge::judgement::Judgement;
use seawall_gauge::method_names::choose_methods;
use seawall_gauge::preflight;
use seawall_gauge::report::Style;
use seawall_gauge::report::advice::{self, Scope};
use seawall_gauge::result::RunResult;
use seawall_gauge::scenario::settings::{Amount, Settings};
use seawall_gauge::scenario::{RunError, SCENARIOS, commit};
use seawall_gauge::testbed::real::RealTestbed;
use seawall_host::journal::Recipe;
use seawall_sys::clock::nanoseconds;
use seawall_sys::durability::FileState;
use seawall_sys::methods;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The short run writes as the databases do: pages of 8 KiB into blocks that were written before.
const TRANSACTION_BYTES: usize = 8 << 10;
const JOURNAL_BYTES: u64 = 64 << 20;
/// Sentences are hard to read on wider lines.
const WIDTH_MAX: usize = 120;

#[derive(Debug, Args)]
pub(crate) struct Advise {
    /// A result of `seawall bench --json`; without one, the disk under --dir is measured briefly
    #[arg(value_name = "RESULT.json")]
    result: Option<PathBuf>,
    /// The folder whose disk is measured; 64 MiB are written there and removed again
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "result")]
    dir: PathBuf,
    /// How long to measure, such as 10 (seconds) or 1m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = amounts::time,
          conflicts_with = "result")]
    time: Duration,
    #[command(flatten)]
    settle: Settle,
    /// Measure on a file system that loses everything; nothing can be recommended then
    #[arg(long, conflicts_with = "result")]
    allow_memory: bool,
    /// Only these products, separated by commas, with notes and sources: postgresql, mysql, mariadb, sqlserver, sqlite,
    /// etcd, kafka, rocksdb, lmdb, bbolt, redis, mongodb, elasticsearch, nats, rabbitmq, artemis, bookkeeper, pulsar,
    /// redpanda, cockroachdb, tikv, cassandra, scylladb, clickhouse, zookeeper, consul
    #[arg(long, value_name = "PRODUCTS", value_parser = hints::products(), hide_possible_values = true)]
    only: Option<String>,
    /// Print every product with the lines to set, the reasons and the basis of the rates
    #[arg(short, long, conflicts_with_all = ["only", "json"])]
    verbose: bool,
    /// Print the advice as JSON
    #[arg(long)]
    json: bool,
    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Colour,
}

pub(crate) fn run(options: &Advise) -> Result<ExitCode, Failure> {
    options.color.choose();
    let only = options.only.as_deref().map(products::select).transpose();
    let only = only.map_err(Failure::usage)?;
    let result = match &options.result {
        Some(_) if options.settle.is_asked() => {
            return Err(Failure::Usage("--settle waits before a measurement; a result was given".to_owned()));
        }
        Some(file) => RunResult::read(file).map_err(Failure::message)?,
        None => measure(options, only.as_deref())?,
    };
    if options.json {
        output::print(&advice::json(&result, only.as_deref()).map_err(Failure::message)?)?;
    } else {
        let scope = match &only {
            Some(only) => Scope::Only(only),
            None if options.verbose => Scope::All,
            None => Scope::Overview,
        };
        output::print(&advice::text(&result, scope, output::width().min(WIDTH_MAX), Style::COLOURED))?;
    }
    Ok(ended(options.result.is_none() && !result.complete, Judgement::of_result(&result).cannot_tell()))
}

/// The exit code: a measurement that was cut short is no success, nor is one whose figures mean something else.
fn ended(interrupted: bool, cannot_tell: bool) -> ExitCode {
    match (interrupted, cannot_tell) {
        (true, _) => ExitCode::from(exit::INTERRUPTED),
        (_, true) => ExitCode::from(exit::CANNOT_TELL),
        _ => ExitCode::SUCCESS,
    }
}

/// Of the methods that these products call, so that each has its share of the time.
fn settings(time: Duration, only: Option<&[&'static Product]>) -> Result<Settings, Failure> {
    let all: Vec<&'static Product> = products::PRODUCTS.iter().collect();
    let ids = products::methods_of(only.unwrap_or(&all), methods::system());
    if ids.is_empty() {
        return Err(Failure::Usage("--only: none of these products runs on this system".to_owned()));
    }
    Ok(Settings {
        methods: choose_methods(&ids.join(",")).map_err(Failure::usage)?,
        others: Vec::new(),
        bytes: TRANSACTION_BYTES,
        journal: Recipe {
            state: FileState::Recycled,
            bytes: JOURNAL_BYTES,
            fill_bytes: TRANSACTION_BYTES as u64,
            keep_cached: true,
        },
        amount: Amount::TimeNs(nanoseconds(time)),
        ..commit::settings()
    })
}

fn measure(options: &Advise, only: Option<&[&'static Product]>) -> Result<RunResult, Failure> {
    let dir = options.dir.as_path();
    let settings = settings(options.time, only)?;
    settings.check().map_err(Failure::usage)?;
    let mut environment = paths::folder(dir, "name one on the disk that the database will use, with --dir")?;
    let (scenario, needs_bytes) = (&SCENARIOS[0], settings.journal.bytes);
    preflight::check(scenario, &settings, needs_bytes, &environment, options.allow_memory)
        .map_err(Failure::message)?;
    tell!("{}", preflight::announcement(scenario, &settings, needs_bytes));
    signals::listen()?;
    options.settle.before(settings.time_ns(), &mut environment, false)?;
    leftovers::sweep(dir);
    let mut testbed = RealTestbed::in_folder(dir, environment);
    let mut progress = Progress::new(true, None, None);
    let result = commit::run(&settings, &mut testbed, &mut progress);
    progress.done();
    result.map_err(|error| match error {
        RunError::Stopped => Failure::Interrupted,
        other => Failure::Message(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::{ended, exit, settings};
    use seawall_gauge::advise::products::select;
    use std::process::ExitCode;
    use std::time::Duration;

    #[test]
    fn the_short_run_can_be_carried_out_and_measures_what_the_products_call() {
        let time = Duration::from_secs(10);
        let all = settings(time, None).expect("settings");
        all.check().expect("the plan of all");
        assert!(all.methods.iter().all(|method| method.reach().letter() != 'K'));
        let one = settings(time, Some(&select("sqlite").expect("known"))).expect("settings");
        one.check().expect("the plan of one");
        assert!(one.methods.len() < all.methods.len() && !one.methods.is_empty());
    }

    #[test]
    fn a_measurement_cut_short_is_no_success() {
        assert_eq!(ended(true, true), ExitCode::from(exit::INTERRUPTED));
        assert_eq!(ended(false, true), ExitCode::from(exit::CANNOT_TELL));
        assert_eq!(ended(false, false), ExitCode::SUCCESS);
    }
}
