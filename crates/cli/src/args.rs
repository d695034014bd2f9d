//! Defines the command line of `seawall`.
//!
//! Invariant: defaults are those of [`Plan::default`], so that the help and the library never disagree.

use crate::exit::Failure;
use crate::output::Files;
use crate::{amounts, exit, hints, output};
use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand, ValueEnum};
use seawall_gauge::plan::{Amount, PUBLISHED_TRANSACTIONS, Plan, choose_methods};
use seawall_gauge::require::{self, Requirement};
use seawall_replicated::Named;
use seawall_sys::durability::FileState;
use seawall_sys::journal::Recipe;
use std::path::PathBuf;
use std::time::Duration;

/// What a durable commit costs here, by every method, and whether it is true.
#[derive(Debug, Parser)]
#[command(name = "seawall", version, after_help = exit::CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tells what to set in databases, why, and which commit rates to expect
    Advise(crate::advise::Advise),
    /// Measures every commit method on the disk under a folder
    Bench(Box<Bench>),
    /// Starts a local cluster of a replicated engine, to try `bench replicated`
    Cluster(crate::cluster::ClusterArgs),
    /// Sets results, machines and published tables side by side, method by method
    Compare(crate::compare_args::Compare),
    /// Writes, reads, checks and measures transaction logs
    Log(crate::log_command::LogArgs),
    /// Lists the commit methods of this system, their calls, and what each outlives in a folder
    Methods(Methods),
    /// Shows by real power cuts, with a witness on another host, whether what was acknowledged is kept
    Powercut(crate::powercut::PowercutArgs),
    /// Asks a disk in a second what a durable commit costs, for services; never fails
    Probe(crate::probe::ProbeArgs),
    /// Prints the completions of a shell
    Completions(crate::pages::Completions),
    /// Prints the manual page
    Man(crate::pages::ManArgs),
    /// Makes an HTML page with pictures of one or several results
    Report(crate::report_args::Report),
}

const BENCH_EXAMPLES: &str = "Examples:
  seawall bench                            the disk under this folder, about 30 s
  seawall bench /var/lib/db --full         the published experiment: 65,536 transactions a method
  seawall bench --methods published        only the methods of the published experiment
  seawall bench --size 2300 --file-state appending --methods buffered+fdatasync
  seawall bench --require 'p99<10ms'       for scripts: exit code 3 if missed
  seawall bench --require etcd             is this disk fit for etcd?
  seawall bench --list                     the other scenarios
  seawall bench stall                      what a sync in one thread does to the appends of another
  seawall bench cached /mnt/ext4 /mnt/xfs  a scenario that compares folders
  seawall bench path --jvm                 JVMs write too, in every way they have
  seawall bench replicated --nats nats://127.0.0.1:4222   Kafka and NATS beside local methods
  seawall bench all                        every scenario, one after the other
";

/// Options of `seawall bench`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[command(after_help = BENCH_EXAMPLES, after_long_help = format!("{BENCH_EXAMPLES}\n{}", exit::CODES))]
pub(crate) struct Bench {
    /// A scenario (see --list; `commit` if none is named) and the folder whose disk is measured [default: .]; files
    /// are made there and removed again. A folder that is called like a scenario is written ./NAME
    #[arg(value_name = "SCENARIO|DIR", value_parser = hints::ScenarioOrFolder, hide_possible_values = true)]
    pub(crate) words: Vec<PathBuf>,

    /// List the scenarios and their defaults, and measure nothing
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,

    /// Exactly the published experiment's amount: 65,536 transactions of 16 KiB per method
    #[arg(long, conflicts_with_all = ["transactions", "time", "size", "journal"], help_heading = "How much")]
    pub(crate) full: bool,

    /// Size of a transaction, such as 16k or 2300; k, KiB, M and so on are powers of 1,024 [default: 16KiB, or the scenario's]
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, help_heading = "How much")]
    pub(crate) size: Option<ByteSize>,

    /// Size of the journal [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, help_heading = "How much")]
    pub(crate) journal: Option<ByteSize>,

    /// Transactions per method, instead of a time
    #[arg(long, value_name = "N", conflicts_with = "time", help_heading = "How much")]
    pub(crate) transactions: Option<u64>,

    /// Time of the whole run, such as 30 (seconds) or 5m; of each scenario with `all` [default: 30s, or the scenario's]
    #[arg(long, value_name = "TIME", value_parser = amounts::time, help_heading = "How much")]
    pub(crate) time: Option<Duration>,

    /// Rounds, each over all rows in an order of its own [default: 5, 16 with a fixed number of transactions, or the
    /// scenario's]
    #[arg(long, value_name = "N", help_heading = "How much")]
    pub(crate) rounds: Option<u32>,

    /// Methods by id (see `seawall methods`) and the groups published, durable and all, separated by commas
    /// [default: all]
    #[arg(long, value_name = "IDS", value_parser = hints::methods(), hide_possible_values = true, help_heading = "What")]
    pub(crate) methods: Option<String>,

    /// State of the journal's blocks before they are written: appending, unwritten, zero-filled, write-zeroes
    /// or recycled [default: zero-filled]
    #[arg(long, value_name = "STATE", value_parser = hints::States(|text| text.parse::<State>()), hide_possible_values = true,
          help_heading = "What")]
    pub(crate) file_state: Option<State>,

    /// Size of the writes that fill the journal, or the files of `path` [default: 1MiB; path: 4KiB]
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, help_heading = "What")]
    pub(crate) fill_size: Option<ByteSize>,

    /// Leave the journal's pages in the cache after filling and between blocks
    #[arg(long, help_heading = "What")]
    pub(crate) keep_cached: bool,

    /// Writers, each with its own descriptor and part of the journal [default: 1]
    #[arg(long, value_name = "N", help_heading = "What")]
    pub(crate) threads: Option<usize>,

    /// Scheduled commits per second and writer (open loop), instead of one after the other
    #[arg(long, value_name = "PER_S", help_heading = "What")]
    pub(crate) rate: Option<f64>,

    /// Pin the writers to these CPUs, in turn, such as 0,1
    #[arg(long, value_name = "CPUS", value_delimiter = ',', help_heading = "What")]
    pub(crate) pin: Vec<usize>,

    /// Seed of the method order and the data
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "What")]
    pub(crate) seed: u64,

    /// Options of single scenarios; see --list for which
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,

    /// End with exit code 3 unless this holds: 'p99<10ms', 'direct+dsync:commits/s>5000', or a preset (etcd,
    /// openshift, openshift-heavy, cockroachdb), which also sets --size, --methods and --file-state unless they are given
    #[arg(long, value_name = "CONDITION", value_parser = hints::presets(), hide_possible_values = true,
          help_heading = "Verdict")]
    pub(crate) require: Vec<String>,

    #[command(flatten)]
    pub(crate) files: Files,

    /// Write the report as one HTML page with pictures to this file (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,

    /// Folder for the results, rewritten after every round [default: seawall-results]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    /// Keep no results in a folder
    #[arg(long, help_heading = "Output")]
    pub(crate) no_out: bool,

    /// What to call this run, kept in its result and shown in reports
    #[arg(long, value_name = "TEXT", value_parser = label, help_heading = "Output")]
    pub(crate) label: Option<String>,

    /// Nothing but the report and what went wrong
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) no_progress: bool,

    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(crate) color: Colour,

    /// Say what would be done and what is under the folder, and do nothing
    #[arg(long, help_heading = "Safety")]
    pub(crate) dry_run: bool,

    /// Measure on a file system that keeps nothing: memory, or syncs turned off
    #[arg(long, help_heading = "Safety")]
    pub(crate) allow_memory: bool,

    /// DESTROYS DATA: measure this raw block device instead of a folder, overwriting its first --journal bytes
    #[arg(long, value_name = "DEVICE", conflicts_with = "words", help_heading = "Safety")]
    pub(crate) raw_device_overwrite: Option<PathBuf>,
}

/// Options that only some scenarios have.
#[derive(Debug, Args)]
pub(crate) struct ScenarioArgs {
    /// stall, path: µs from one write to the next [default: 100, 50]
    #[arg(long, value_name = "µs", help_heading = "Of single scenarios")]
    pub(crate) write_sleep: Option<u64>,

    /// stall: µs that the syncing thread sleeps between syncs [default: 500]
    #[arg(long, value_name = "µs", help_heading = "Of single scenarios")]
    pub(crate) sync_sleep: Option<u64>,

    /// group: numbers of writers, such as 1,8,64 [default: 1,2,4,8,16,32,64]; replicated: records in flight [default: 1,64]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', help_heading = "Of single scenarios")]
    pub(crate) writers: Option<Vec<usize>>,

    /// cached: size of the file, up to 16GiB [default: what memory and space allow, at most 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, help_heading = "Of single scenarios")]
    pub(crate) file: Option<ByteSize>,

    /// cached: rewrites of each row in a round [default: 100]
    #[arg(long, value_name = "N", help_heading = "Of single scenarios")]
    pub(crate) rewrites: Option<u64>,

    /// path: iterations before the counted ones [default: 20]
    #[arg(long, value_name = "N", help_heading = "Of single scenarios")]
    pub(crate) warm_up: Option<u32>,

    /// path: let JVMs write too, in every way that they have; takes about 150 s and Maven the first time
    #[arg(long, help_heading = "Of single scenarios")]
    pub(crate) jvm: bool,

    /// path: a JDK for --jvm; may be given several times [default: one of each version found]
    #[arg(long, value_name = "DIR", requires = "jvm", help_heading = "Of single scenarios")]
    pub(crate) jdk: Vec<PathBuf>,

    /// path: the program that JVMs run; built there by Maven if it is not there [default: below the build folder]
    #[arg(long, value_name = "FILE", requires = "jvm", help_heading = "Of single scenarios")]
    pub(crate) jar: Option<PathBuf>,
    /// replicated: a Kafka cluster, as HOST:PORT[,HOST:PORT…]; once for each cluster
    #[arg(long, value_name = "BOOTSTRAP", help_heading = "Of single scenarios")]
    pub(crate) kafka: Vec<String>,

    /// replicated: properties for Kafka's client as librdkafka knows them, for TLS and credentials
    #[arg(long, value_name = "FILE", help_heading = "Of single scenarios")]
    pub(crate) kafka_config: Option<PathBuf>,

    /// replicated: a NATS cluster, as nats://HOST:PORT[,…]; once for each cluster. Credentials come from `NATS_CREDS`,
    /// `NATS_USER`, `NATS_CA`, `NATS_CONTEXT` and the others that its tool knows
    #[arg(long, value_name = "URL", help_heading = "Of single scenarios")]
    pub(crate) nats: Vec<String>,

    /// replicated: monitoring ports of NATS servers, as HOST:PORT[,…], which alone tell their `sync_interval`
    #[arg(long, value_name = "PORTS", help_heading = "Of single scenarios")]
    pub(crate) nats_monitor: Vec<String>,

    /// replicated: send a NATS password or token unencrypted to another host
    #[arg(long, help_heading = "Of single scenarios")]
    pub(crate) nats_plain_password: bool,

    /// replicated: how long an acknowledgement may take [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = amounts::time, help_heading = "Of single scenarios")]
    pub(crate) ack_timeout: Option<Duration>,
}

impl ScenarioArgs {
    /// The clusters that were named, unchecked.
    pub(crate) fn clusters(&self) -> Named {
        Named {
            kafka: self.kafka.clone(),
            kafka_config: self.kafka_config.clone(),
            nats: self.nats.clone(),
            nats_monitors: self.nats_monitor.clone(),
            nats_plain_password: self.nats_plain_password,
            ack_timeout: self.ack_timeout.unwrap_or(ACK_TIMEOUT),
        }
    }
}

/// How long an acknowledgement may take, unless told otherwise.
const ACK_TIMEOUT: Duration = Duration::from_secs(30);

/// Options of `seawall methods`.
#[derive(Debug, Args)]
pub(crate) struct Methods {
    /// The folder for which durability is computed
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Lists them as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On terminals
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Colour {
    /// Makes it the choice for everything printed from here on.
    pub(crate) fn choose(self) {
        let choice = match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// The file states as words of the command line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct State(FileState);

impl std::str::FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        FileState::ALL.into_iter().find(|state| state.name() == text).map(Self).ok_or_else(|| {
            let known: Vec<&str> = FileState::ALL.into_iter().map(FileState::name).collect();
            format!("the file states are {}", known.join(", "))
        })
    }
}

impl Bench {
    /// Whether JSON, CSV, Markdown or HTML goes to standard output.
    pub(crate) fn prints_a_format(&self) -> bool {
        self.outputs().into_iter().any(|(_, file)| output::is_standard(file.as_deref()))
    }

    /// The files that the result goes into, with their options.
    fn outputs(&self) -> [(&'static str, &Option<PathBuf>); 4] {
        let [json, csv, markdown] = self.files.named();
        [json, csv, markdown, ("--html", &self.html)]
    }

    /// Refuses two formats on standard output, and files that cannot be written: now, not after the run.
    pub(crate) fn check_outputs(&self) -> Result<(), Failure> {
        output::check_all(&self.outputs())
    }

    /// All that `--require` demands.
    pub(crate) fn requirement(&self) -> Result<Requirement, seawall_gauge::Error> {
        if self.require.is_empty() {
            return Ok(Requirement::default());
        }
        require::parse(&self.require.join(","))
    }

    /// The plan that the options describe, unchecked. What is not given comes from the first preset demanded,
    /// then from the defaults.
    pub(crate) fn plan(&self, requirement: &Requirement) -> Result<Plan, String> {
        let defaults = Plan::default();
        let preset = requirement.presets.first();
        let transaction_bytes = match self.size {
            Some(size) => usize::try_from(size.as_u64()).unwrap_or(usize::MAX),
            None => preset.and_then(|preset| preset.transaction_bytes).unwrap_or(defaults.transaction_bytes),
        };
        let methods = self.methods.as_deref().or(preset.and_then(|preset| preset.method)).unwrap_or("all");
        let state = self.file_state.map(|state| state.0).or(preset.and_then(|preset| preset.file_state));
        let amount = match self.transactions.or(self.full.then_some(PUBLISHED_TRANSACTIONS)) {
            Some(transactions) => Amount::Transactions(transactions),
            None => self.time.map_or(defaults.amount, |time| Amount::TimeNs(nanoseconds(time))),
        };
        let rounds = self.rounds.unwrap_or(match amount {
            Amount::TimeNs(_) => defaults.rounds,
            Amount::Transactions(n) => u32::try_from(n.clamp(1, 16)).unwrap_or(16),
        });
        Ok(Plan {
            methods: choose_methods(methods)?,
            transaction_bytes,
            journal: Recipe {
                state: state.unwrap_or(defaults.journal.state),
                bytes: self.journal.map_or(defaults.journal.bytes, |size| size.as_u64()),
                fill_bytes: self.fill_size.map_or(defaults.journal.fill_bytes, |size| size.as_u64()),
                keep_cached: self.keep_cached,
            },
            amount,
            rounds,
            threads: self.threads.unwrap_or(defaults.threads),
            rate_per_s: self.rate,
            seed: self.seed,
            pin_to: self.pin.clone(),
            raw_device: self.raw_device_overwrite.is_some(),
        })
    }
}

/// A label is one line that a report can show.
fn label(text: &str) -> Result<String, String> {
    const CHARACTERS_MAX: usize = 200;
    if text.trim().is_empty() || text.chars().count() > CHARACTERS_MAX || text.chars().any(char::is_control) {
        return Err(format!("a label has 1 to {CHARACTERS_MAX} characters on one line"));
    }
    Ok(text.trim().to_owned())
}

/// Nanoseconds of a time, as far as they can be counted.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent_and_its_defaults_are_the_library_s() {
        Cli::command().debug_assert();
        assert_eq!(plan(&["seawall", "bench"]), Plan::default());
    }

    fn plan(words: &[&str]) -> Plan {
        let Command::Bench(bench) = Cli::parse_from(words).command else { panic!("bench was asked for") };
        bench.plan(&bench.requirement().expect("a requirement")).expect("a plan")
    }

    #[test]
    fn a_preset_is_measured_as_its_system_writes_unless_told_otherwise() {
        let etcd = plan(&["seawall", "bench", "--require", "etcd"]);
        assert_eq!((etcd.transaction_bytes, etcd.journal.state), (2300, FileState::Unwritten));
        assert_eq!(
            plan(&["seawall", "bench", "--require", "etcd", "--size", "4KiB"]).transaction_bytes,
            4096
        );
    }
}
