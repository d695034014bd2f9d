//! Defines the arguments of `seawall bench`: those of all scenarios, and those of `commit`, the default.
//!
//! ```text
//!   bench [DIR] [OPTIONS]             commit, in DIR
//!   bench SCENARIO [DIR] [OPTIONS]    the scenario, in DIR; its options are those of its row in scenario_args
//!   bench all [DIR]                   every scenario
//! ```
//!
//! Invariants: the first word is a scenario if it is the name of one, and a folder otherwise (`./stall` is a folder);
//! defaults are those of the table of scenarios, so that the help and the library never disagree.

use crate::colour::Colour;
use crate::exit::Failure;
use crate::output::{self, Files, Pictures};
use crate::scenario_args::{Length, ScenarioArgs};
use crate::settle::Settle;
use crate::{amounts, hints, paths};
use bytesize::ByteSize;
use clap::Args;
use seawall_gauge::method_names::choose_methods;
use seawall_gauge::require::{self, Requirement};
use seawall_gauge::scenario::commit::PUBLISHED_TRANSACTIONS;
use seawall_gauge::scenario::settings::{Amount, Settings};
use seawall_gauge::scenario::{SCENARIOS, Scenario};
use seawall_gauge::workload::{self, Load};
use seawall_sys::durability::FileState;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    subcommand_help_heading = "Scenarios",
    override_usage = "seawall bench [DIR] [OPTIONS]\n       seawall bench SCENARIO [DIR] [OPTIONS]"
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) scenario: Option<ScenarioArgs>,

    /// Of the scenario that is run if none is named.
    #[command(flatten)]
    pub(crate) commit: CommitArgs,

    /// List the scenarios and their defaults, and measure nothing
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of every scenario, before or after its name.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Common {
    /// Pin the writers to these CPUs in turn, such as 0,1 or 0-3
    #[arg(long, global = true, value_name = "CPUS", value_parser = amounts::cpus, help_heading = "What")]
    pin: Option<amounts::Cpus>,

    #[command(flatten)]
    pub(crate) settle: Settle,

    /// Seed of the order of methods and of the data
    #[arg(long, global = true, value_name = "N", default_value_t = 1, help_heading = "What")]
    pub(crate) seed: u64,

    /// Folder for the results, rewritten after every round [default: seawall-results]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    /// Write no results folder
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) no_out: bool,

    /// Name of this run, kept in its result and shown in reports
    #[arg(long, global = true, value_name = "TEXT", value_parser = label, help_heading = "Output")]
    pub(crate) label: Option<String>,

    /// Print only the report and errors
    #[arg(short, long, global = true, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Print the whole report: every column, what did not run, findings with remedies, settings
    #[arg(short, long, global = true, help_heading = "Output")]
    pub(crate) verbose: bool,

    /// Draw no progress bar
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) no_progress: bool,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(crate) color: Colour,

    /// Print what would be done and what is under the folder; do nothing
    #[arg(long, global = true, help_heading = "Safety")]
    pub(crate) dry_run: bool,

    /// Measure on a file system that loses everything: in memory, or with syncs turned off
    #[arg(long, global = true, help_heading = "Safety")]
    pub(crate) allow_memory: bool,
}

impl Common {
    pub(crate) fn settings(&self, scenario: &Scenario) -> Settings {
        Settings { seed: self.seed, pin_to: self.pins().to_vec(), ..(scenario.settings)() }
    }

    pub(crate) fn pins(&self) -> &[usize] {
        self.pin.as_ref().map_or(&[], |cpus| &cpus.0)
    }
}

/// The files that a result is written to besides the terminal.
#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct Outputs {
    #[command(flatten)]
    files: Files,

    /// Write the report as one HTML page with charts to this file (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,

    #[command(flatten)]
    pictures: Pictures,

    /// Print another format: `fio-json`, that of fio's --output-format=json, for tools that read fio's sync percentiles
    #[arg(long, value_name = "FORMAT", value_parser = form, help_heading = "Output")]
    format: Option<PathBuf>,
}

/// The only form that has no file of its own goes to standard output.
fn form(text: &str) -> Result<PathBuf, Failure> {
    match text {
        "fio-json" => Ok(PathBuf::from("-")),
        _ => Err(Failure::Usage(
            "the forms are fio-json, and those of --json, --csv, --markdown, --html".to_owned(),
        )),
    }
}

impl Outputs {
    pub(crate) fn named(&self) -> [(&'static str, &Option<PathBuf>); 6] {
        let [json, csv, markdown] = self.files.named();
        [json, csv, markdown, ("--html", &self.html), self.pictures.named(), ("--format", &self.format)]
    }

    pub(crate) fn are_printed(&self) -> bool {
        self.named().into_iter().any(|(_, file)| output::is_standard(file.as_deref()))
    }
}

#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct CommitArgs {
    /// Folder whose disk is measured [default: .]; files are created there and removed again. Write ./NAME for a
    /// folder named like a scenario
    #[arg(value_name = "DIR")]
    pub(crate) dir: Vec<PathBuf>,

    /// Measure as much as the published experiment: 65,536 transactions of 16 KiB per method
    #[arg(long, conflicts_with_all = ["transactions", "time", "size", "writes", "journal"], help_heading = "How much")]
    full: bool,

    /// Size of a write, such as 16k or 2300; k, KiB, M and so on are powers of 1,024. A transaction has one write unless --writes is given [default: 16KiB]
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, help_heading = "How much")]
    size: Option<ByteSize>,

    /// Replay a file: a trace with a size, or seconds and a size, on each line, or a simple fio job
    /// (rw=write; bs, bssplit, fsync, fdatasync, sync, direct, `rate_iops`, numjobs, size, runtime). It is repeated until the
    /// time is over. Other options override the file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["full", "size"], help_heading = "How much")]
    workload: Option<PathBuf>,

    /// Writes per transaction, each of --size, at consecutive offsets: one sync after the last, or each durable by
    /// itself where the method writes through [default: 1]
    #[arg(long, value_name = "N", help_heading = "How much")]
    writes: Option<u32>,

    /// Size of the journal [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, help_heading = "How much")]
    journal: Option<ByteSize>,

    /// Transactions per method, instead of a time
    #[arg(long, value_name = "N", conflicts_with = "time", help_heading = "How much")]
    transactions: Option<u64>,

    #[command(flatten)]
    pub(crate) length: Length,

    /// Rounds, each over all methods in a new random order [default: 5, or 16 with a fixed number of transactions]
    #[arg(long, value_name = "N", help_heading = "How much")]
    rounds: Option<u32>,

    /// Measure and show every method of this system
    #[arg(long, conflicts_with = "methods", help_heading = "What")]
    all: bool,

    /// Methods by id (see `seawall methods`) and the groups published, durable and all, separated by commas
    /// [default: those of the published experiments, those that well-known products call, and the best of each class of the others after a short trial]
    #[arg(long, value_name = "IDS", value_parser = hints::methods(), hide_possible_values = true, help_heading = "What")]
    methods: Option<String>,

    /// State of the journal's blocks before they are written: appending, unwritten, zero-filled, write-zeroes
    /// or recycled [default: zero-filled]
    #[arg(long, value_name = "STATE", value_parser = hints::states(), hide_possible_values = true, help_heading = "What")]
    file_state: Option<FileState>,

    /// Size of the writes that fill the journal [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, help_heading = "What")]
    fill_size: Option<ByteSize>,

    /// Leave the journal's pages in the cache after filling and between blocks
    #[arg(long, help_heading = "What")]
    keep_cached: bool,

    /// Writers, each with its own descriptor and part of the journal [default: 1]
    #[arg(long, value_name = "N", help_heading = "What")]
    threads: Option<usize>,

    /// Scheduled commits per second and writer (open loop), instead of back to back
    #[arg(long, value_name = "PER_S", help_heading = "What")]
    rate: Option<f64>,

    /// Exit with code 3 unless this is true: 'p99<10ms', 'direct+dsync:commits/s>5000', or a preset (etcd,
    /// openshift, openshift-heavy, cockroachdb, zookeeper), which also sets --size, --methods and --file-state unless they are given. A method that it names is measured
    #[arg(long, value_name = "CONDITION", value_parser = hints::presets(), hide_possible_values = true,
          help_heading = "Requirement")]
    require: Vec<String>,

    /// Write the outcome of --require as JUnit XML to this file (- for standard output)
    #[arg(long, value_name = "FILE", requires = "require", help_heading = "Requirement")]
    pub(crate) junit: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) outputs: Outputs,

    /// DESTROYS DATA: measure this raw block device instead of a folder, overwriting its first --journal bytes
    #[arg(long, value_name = "DEVICE", conflicts_with = "dir", help_heading = "Safety")]
    pub(crate) raw_device_overwrite: Option<PathBuf>,
}

impl CommitArgs {
    pub(crate) fn requirement(&self) -> Result<Requirement, Failure> {
        if self.require.is_empty() {
            return Ok(Requirement::default());
        }
        require::parse(&self.require.join(",")).map_err(Failure::usage)
    }

    /// The settings that the options describe, unchecked. What is not given comes from the first preset demanded,
    /// then from the defaults.
    pub(crate) fn settings(&self, common: &Common, requirement: &Requirement) -> Result<Settings, Failure> {
        let mut settings = common.settings(&SCENARIOS[0]);
        let preset = requirement.presets.first();
        let bytes = self.size.map(|size| usize::try_from(size.as_u64()).unwrap_or(usize::MAX));
        set(&mut settings.bytes, bytes.or(preset.and_then(|preset| preset.transaction_bytes)));
        set(&mut settings.journal.state, self.file_state.or(preset.and_then(|preset| preset.file_state)));
        set(&mut settings.journal.bytes, self.journal.map(|size| size.as_u64()));
        set(&mut settings.journal.fill_bytes, self.fill_size.map(|size| size.as_u64()));
        settings.journal.keep_cached = self.keep_cached;
        let load = self.workload.as_deref().map(load).transpose()?;
        if let Some(load) = &load {
            settings.bytes = load.workload.bytes_max() as usize;
            settings.workload = Some(Arc::new(load.workload.clone()));
            set(&mut settings.journal.bytes, load.journal_bytes.filter(|_| self.journal.is_none()));
            set(&mut settings.amount, load.time_ns.map(Amount::TimeNs));
            set(&mut settings.writes, load.writes);
            set(&mut settings.threads, load.threads);
            settings.rate_per_s = load.rate_per_s;
        }
        set(&mut settings.amount, self.length.amount());
        if let Some(transactions) = self.transactions.or(self.full.then_some(PUBLISHED_TRANSACTIONS)) {
            settings.amount = Amount::Transactions(transactions);
            settings.rounds = u32::try_from(transactions.clamp(1, 16)).unwrap_or(16);
        }
        set(&mut settings.rounds, self.rounds);
        set(&mut settings.writes, self.writes);
        set(&mut settings.threads, self.threads);
        settings.rate_per_s = self.rate.or(settings.rate_per_s);
        settings.raw_device = self.raw_device_overwrite.is_some();
        let all = self.all.then_some("all");
        let of_load = load.as_ref().and_then(|load| load.method);
        let named = self.methods.as_deref().or(all).or(of_load).or(preset.and_then(|preset| preset.method));
        if let Some(methods) = named {
            settings.methods = choose_methods(methods).map_err(Failure::usage)?;
            settings.others = Vec::new();
        }
        for id in requirement.conditions.iter().filter_map(|condition| condition.method.as_deref()) {
            if settings.methods.iter().any(|method| method.id == id) {
                continue;
            }
            if self.methods.is_some() {
                return Err(Failure::Usage(format!("--require is about {id}, which --methods leaves out")));
            }
            settings.methods.extend(choose_methods(id).map_err(Failure::usage)?);
            settings.others.retain(|other| other.id != id);
        }
        Ok(settings)
    }
}

fn load(file: &Path) -> Result<Load, Failure> {
    const BYTES_MAX: u64 = 64 << 20;
    let text = paths::text(file, BYTES_MAX)?;
    workload::parse(&text)
        .map_err(|error| Failure::Message(format!("--workload {}: {error}", file.display())))
}

pub(crate) fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

/// A label is one line that a report can show.
fn label(text: &str) -> Result<String, Failure> {
    const CHARACTERS_MAX: usize = 200;
    if text.trim().is_empty() || text.chars().count() > CHARACTERS_MAX || text.chars().any(char::is_control) {
        return Err(Failure::Usage(format!("a label has 1 to {CHARACTERS_MAX} characters on one line")));
    }
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::{CommandFactory as _, Parser as _};
    use seawall_gauge::scenario::commit;

    #[test]
    fn the_command_line_is_consistent_and_its_defaults_are_the_library_s() {
        Cli::command().debug_assert();
        assert_eq!(settings(&["seawall", "bench"]), commit::settings());
        assert_eq!(settings(&["seawall", "bench", "commit"]), commit::settings());
    }

    fn settings(words: &[&str]) -> Settings {
        let Command::Bench(bench) = Cli::parse_from(words).command else { panic!("another command") };
        let commit = match &bench.scenario {
            Some(ScenarioArgs::Commit(commit)) => commit,
            _ => &bench.commit,
        };
        commit.settings(&bench.common, &commit.requirement().expect("a requirement")).expect("settings")
    }

    #[test]
    fn a_preset_is_measured_as_its_system_writes_by_default() {
        let etcd = settings(&["seawall", "bench", "--require", "etcd"]);
        assert_eq!((etcd.bytes, etcd.journal.state), (2300, FileState::Unwritten));
        assert_eq!(settings(&["seawall", "bench", "--require", "etcd", "--size", "4KiB"]).bytes, 4096);
        let named = settings(&["seawall", "bench", "--require", "etcd,direct:p99<1s"]);
        let ids: Vec<&str> = named.methods.iter().map(|method| method.id).collect();
        assert_eq!(ids, ["buffered+fdatasync", "direct"], "what is demanded is measured");
    }

    #[test]
    fn common_options_stand_before_a_scenario_or_behind_it() {
        for words in [
            ["seawall", "bench", "--seed", "7", "commit", "--pin", "0"],
            ["seawall", "bench", "commit", "--pin", "0", "--seed", "7"],
        ] {
            let settings = settings(&words);
            assert_eq!((settings.seed, settings.pin_to), (7, vec![0]), "{words:?}");
        }
    }
}
