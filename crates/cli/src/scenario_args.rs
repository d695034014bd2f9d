//! Defines the scenarios of `seawall bench` as subcommands: one row and one set of options each.
//!
//! Invariant: an option that is not given keeps the scenario's own default; a scenario takes no option of another one.

use crate::bench_args::{Bench, CommitArgs, Common, Outputs, set};
use crate::exit::Failure;
use crate::log_command::{LogMethodArgs, Network};
use crate::{amounts, hints};
use bytesize::ByteSize;
use clap::{Args, Subcommand};
use seawall_gauge::method_names::choose_methods;
use seawall_gauge::require::Requirement;
use seawall_gauge::scenario::path::jvm;
use seawall_gauge::scenario::settings::{Amount, Settings};
use seawall_gauge::scenario::{
    self, SCENARIOS, Scenario, cached, commit, group, interfere, path, peers, replicated, stall,
};
use seawall_host::jdk;
use seawall_replicated::Named;
use seawall_sys::clock::nanoseconds;
use std::path::PathBuf;
use std::time::Duration;

const ACK_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioArgs {
    /// Measure one durable commit by every method; the default
    #[command(override_usage = "seawall bench commit [DIR] [OPTIONS]")]
    Commit(Box<CommitArgs>),
    /// Measure what a sync in one thread does to the appends of another
    Stall(StallArgs),
    /// Measure whether a sync costs more when more of the file is cached; compares several folders
    Cached(CachedArgs),
    /// Measure the cost of write calls (seek+write, pwrite, …) without the disk, also from JVMs
    Path(PathArgs),
    /// Measure what group commit gains with 1 to 64 writers
    Group(GroupArgs),
    /// Measure how other work on the same disk slows commits
    Interfere(InterfereArgs),
    /// Measure the log's own workloads against a plain loop of durable writes
    Log(LogArgs),
    /// Measure other write-ahead logs against the log, with the program that `cargo xtask peers` builds
    Peers(LogArgs),
    /// Measure Kafka and NATS, compared with local methods
    Replicated(Box<ReplicatedArgs>),
    /// Run every scenario that needs only a folder
    All(AllArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FolderArg {
    /// Folder whose disk is measured; files are created there and removed again
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// How long a run takes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Args)]
pub(crate) struct Length {
    /// Time of the whole run, such as 30 (seconds) or 5m [default: see `seawall bench --list`]
    #[arg(long, value_name = "TIME", value_parser = amounts::time, help_heading = "How much")]
    time: Option<Duration>,
}

impl Length {
    pub(crate) fn amount(self) -> Option<Amount> {
        self.time.map(|time| Amount::TimeNs(nanoseconds(time)))
    }
}

/// What is written in each block, and how many there are.
#[derive(Debug, Args)]
pub(crate) struct Blocks {
    /// Size of a write, such as 4k or 2300 [default: see `seawall bench --list`]
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, help_heading = "How much")]
    size: Option<ByteSize>,

    /// Rounds, each over all rows in an order of its own [default: see `seawall bench --list`]
    #[arg(long, value_name = "N", help_heading = "How much")]
    rounds: Option<u32>,
}

impl Blocks {
    fn apply(&self, settings: &mut Settings) {
        let bytes = self.size.map(|size| usize::try_from(size.as_u64()).unwrap_or(usize::MAX));
        set(&mut settings.bytes, bytes);
        set(&mut settings.rounds, self.rounds);
    }
}

/// Where and how much a scenario of one folder writes, and where its result goes.
#[derive(Debug, Args)]
pub(crate) struct Base {
    #[command(flatten)]
    place: FolderArg,
    #[command(flatten)]
    length: Length,
    #[command(flatten)]
    blocks: Blocks,
    #[command(flatten)]
    outputs: Outputs,
}

impl Base {
    fn apply(&self, settings: &mut Settings) -> Vec<PathBuf> {
        self.blocks.apply(settings);
        set(&mut settings.amount, self.length.amount());
        vec![self.place.dir.clone()]
    }
}

/// Which methods commit.
#[derive(Debug, Args)]
pub(crate) struct Chosen {
    /// Methods by id (see `seawall methods`) and the groups published, durable and all, separated by commas
    /// [default: a plain data sync, and a write-through write]
    #[arg(long, value_name = "IDS", value_parser = hints::methods(), hide_possible_values = true, help_heading = "What")]
    methods: Option<String>,
}

impl Chosen {
    fn apply(&self, settings: &mut Settings) -> Result<(), Failure> {
        if let Some(ids) = &self.methods {
            settings.methods = choose_methods(ids).map_err(Failure::usage)?;
        }
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(crate) struct StallArgs {
    #[command(flatten)]
    base: Base,

    /// Microseconds from one append to the next [default: 100]
    #[arg(long, value_name = "µs", help_heading = "What")]
    write_sleep: Option<u64>,

    /// Microseconds that the syncing thread sleeps between syncs [default: 500]
    #[arg(long, value_name = "µs", help_heading = "What")]
    sync_sleep: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct CachedArgs {
    /// Folders whose disks are measured and compared; files are created there and removed again
    #[arg(value_name = "DIR", default_value = ".")]
    dir: Vec<PathBuf>,
    #[command(flatten)]
    blocks: Blocks,

    /// Size of the file, up to 16GiB [default: what memory and space allow, at most 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, help_heading = "How much")]
    file: Option<ByteSize>,

    /// Rewrites of each row in a round [default: 100]
    #[arg(long, value_name = "N", help_heading = "How much")]
    rewrites: Option<u64>,

    #[command(flatten)]
    outputs: Outputs,
}

#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    #[command(flatten)]
    base: Base,

    /// Iterations before the counted ones [default: 20]
    #[arg(long, value_name = "N", help_heading = "How much")]
    warm_up: Option<u32>,

    /// Microseconds before each write, spent spinning [default: 50]
    #[arg(long, value_name = "µs", help_heading = "What")]
    write_sleep: Option<u64>,

    /// Size of the writes that fill the files [default: 4KiB]
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, help_heading = "What")]
    fill_size: Option<ByteSize>,

    /// Let JVMs write too; takes about 150 s and needs a JDK's compiler
    #[arg(long, help_heading = "What")]
    jvm: bool,

    /// A JDK for --jvm; repeatable [default: one of each version found]
    #[arg(long, value_name = "DIR", requires = "jvm", help_heading = "What")]
    jdk: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct GroupArgs {
    #[command(flatten)]
    base: Base,
    #[command(flatten)]
    chosen: Chosen,

    /// Numbers of writers, such as 1,8,64 [default: 1,2,4,8,16,32,64]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', help_heading = "What")]
    writers: Option<Vec<usize>>,
}

#[derive(Debug, Args)]
pub(crate) struct InterfereArgs {
    #[command(flatten)]
    base: Base,
    #[command(flatten)]
    chosen: Chosen,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(flatten)]
    place: FolderArg,
    #[command(flatten)]
    length: Length,

    /// Rounds, each over all rows in an order of its own [default: see `seawall bench --list`]
    #[arg(long, value_name = "N", help_heading = "How much")]
    rounds: Option<u32>,

    /// Part of the usual time: the older form of --time
    #[arg(long, hide = true, conflicts_with = "time", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    percent: Option<u64>,

    /// Only these workloads: W1 … W12, W1g, W4a, W4p, W4b, W4c, W5g, W7c, W10s, W10c, W11s, W12c, W13, W13d, W13p, W13w, open [default: all that
    /// the scenario has, without the long ones, W12, W12c and open]
    #[arg(long, alias = "only", value_name = "NAMES", value_delimiter = ',', help_heading = "What")]
    workloads: Vec<String>,

    /// Size of the log that W7, W10, W12 and open read [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, help_heading = "What")]
    log_size: Option<ByteSize>,

    #[command(flatten)]
    commit: LogMethodArgs,
    #[command(flatten)]
    network: Network,
    #[command(flatten)]
    outputs: Outputs,
}

impl LogArgs {
    fn apply(&self, settings: &mut Settings) -> Vec<PathBuf> {
        set(&mut settings.rounds, self.rounds);
        set(&mut settings.amount, self.length.amount());
        let usual_ns = settings.time_ns().unwrap_or(0);
        let percent = self.percent.map(|part| (usual_ns / 100 * part).max(1_000_000_000));
        set(&mut settings.amount, percent.map(Amount::TimeNs));
        settings.workloads.clone_from(&self.workloads);
        set(&mut settings.log_bytes, self.log_size.map(|size| size.as_u64()));
        (settings.log_method, settings.log_engine) = (self.commit.method(), self.commit.engine);
        settings.network_file_system = self.network.network_file_system;
        vec![self.place.dir.clone()]
    }
}

#[derive(Debug, Args)]
pub(crate) struct ReplicatedArgs {
    #[command(flatten)]
    base: Base,
    #[command(flatten)]
    chosen: Chosen,

    /// Numbers of records in flight [default: 1,64]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', help_heading = "What")]
    writers: Option<Vec<usize>>,

    /// A Kafka cluster, HOST:PORT[,HOST:PORT…]; repeatable
    #[arg(long, value_name = "BOOTSTRAP", help_heading = "Clusters")]
    kafka: Vec<String>,

    /// File of librdkafka properties: TLS and credentials for Kafka
    #[arg(long, value_name = "FILE", help_heading = "Clusters")]
    kafka_config: Option<PathBuf>,

    /// A NATS cluster, nats://HOST:PORT[,…]; repeatable. Credentials come from `NATS_CREDS`,
    /// `NATS_USER`, `NATS_CA`, `NATS_CONTEXT` and the other variables of its command line
    #[arg(long, value_name = "URL", help_heading = "Clusters")]
    nats: Vec<String>,

    /// Monitoring ports of NATS servers, HOST:PORT[,…]; the only source of their `sync_interval`
    #[arg(long, value_name = "PORTS", help_heading = "Clusters")]
    nats_monitor: Vec<String>,

    /// Allow a NATS password or token to be sent unencrypted to another host
    #[arg(long, help_heading = "Clusters")]
    nats_plain_password: bool,

    /// How long an acknowledgement may take [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = amounts::time, help_heading = "Clusters")]
    ack_timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct AllArgs {
    #[command(flatten)]
    place: FolderArg,

    /// Time of each scenario that runs by time, such as 30 (seconds) or 5m; at least what its rounds need
    /// [default: its own]
    #[arg(long, value_name = "TIME", value_parser = amounts::time, help_heading = "How much")]
    time: Option<Duration>,
}

/// A scenario with all that the command line says of it, unchecked.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) scenario: &'static Scenario,
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) settings: Settings,
    pub(crate) requirement: Requirement,
    /// The device that is overwritten instead of a folder.
    pub(crate) raw_device: Option<PathBuf>,
    pub(crate) clusters: Named,
}

impl Wanted {
    fn new(common: &Common, scenario: &'static Scenario, folders: Vec<PathBuf>) -> Self {
        let settings = common.settings(scenario);
        let clusters = Named { ack_timeout: ACK_TIMEOUT, ..Named::default() };
        let requirement = Requirement::default();
        Self { scenario, folders, settings, requirement, raw_device: None, clusters }
    }
}

#[derive(Debug)]
pub(crate) enum Choice<'a> {
    One(Box<Wanted>),
    All(&'a AllArgs),
}

impl Bench {
    pub(crate) fn choice(&self) -> Result<Choice<'_>, Failure> {
        let Some(named) = &self.scenario else {
            let several = self.commit.dir.first().filter(|_| self.commit.dir.len() > 1);
            if let Some(first) = several {
                let names: Vec<&str> =
                    SCENARIOS.iter().map(|scenario| scenario.name).chain(["all"]).collect();
                return Err(Failure::Usage(format!(
                    "`{}` is not a scenario: they are {}; `commit`, the default, takes one folder",
                    first.display(),
                    names.join(", ")
                )));
            }
            return self.commit_in(&self.commit);
        };
        let (name, _) = named.parts();
        if self.commit != CommitArgs::default() {
            return Err(Failure::Usage(format!(
                "arguments before `{name}` belong to `commit`: put the folder and the options of `{name}` after its name"
            )));
        }
        if let ScenarioArgs::Commit(own) = named {
            return self.commit_in(own);
        }
        if let ScenarioArgs::All(own) = named {
            return Ok(Choice::All(own));
        }
        let scenario = scenario::find(name)
            .ok_or_else(|| Failure::Message(format!("`{name}` is not in the table of scenarios")))?;
        let mut wanted = Wanted::new(&self.common, scenario, Vec::new());
        let settings = &mut wanted.settings;
        wanted.folders = match named {
            ScenarioArgs::Commit(_) | ScenarioArgs::All(_) => Vec::new(),
            ScenarioArgs::Stall(own) => {
                set(&mut settings.write_sleep_ns, micros(own.write_sleep));
                set(&mut settings.sync_sleep_ns, micros(own.sync_sleep));
                own.base.apply(settings)
            }
            ScenarioArgs::Cached(own) => {
                own.blocks.apply(settings);
                settings.file_bytes = own.file.map(|size| size.as_u64()).or(settings.file_bytes);
                set(&mut settings.rewrites, own.rewrites);
                own.dir.clone()
            }
            ScenarioArgs::Path(own) => {
                if own.jvm {
                    // More rows: more time, shared among fewer rounds.
                    settings.amount = Amount::TimeNs(jvm::TIME_NS);
                    (settings.rounds, settings.warm_up) = (jvm::ROUNDS, jvm::WARM_UP);
                    settings.jvms = Some(jdk::find(&own.jdk).map_err(Failure::message)?);
                }
                set(&mut settings.warm_up, own.warm_up);
                set(&mut settings.write_sleep_ns, micros(own.write_sleep));
                set(&mut settings.journal.fill_bytes, own.fill_size.map(|size| size.as_u64()));
                own.base.apply(settings)
            }
            ScenarioArgs::Group(own) => {
                own.chosen.apply(settings)?;
                set(&mut settings.writers, own.writers.clone());
                own.base.apply(settings)
            }
            ScenarioArgs::Interfere(own) => {
                own.chosen.apply(settings)?;
                own.base.apply(settings)
            }
            ScenarioArgs::Log(own) => own.apply(settings),
            ScenarioArgs::Peers(own) => {
                settings.peers = crate::peers();
                own.apply(settings)
            }
            ScenarioArgs::Replicated(own) => {
                own.chosen.apply(settings)?;
                set(&mut settings.writers, own.writers.clone());
                wanted.clusters = Named {
                    kafka: own.kafka.clone(),
                    kafka_config: own.kafka_config.clone(),
                    nats: own.nats.clone(),
                    nats_monitors: own.nats_monitor.clone(),
                    nats_plain_password: own.nats_plain_password,
                    ack_timeout: own.ack_timeout.unwrap_or(ACK_TIMEOUT),
                };
                own.base.apply(settings)
            }
        };
        Ok(Choice::One(Box::new(wanted)))
    }

    /// `commit` in its folder.
    fn commit_in(&self, options: &CommitArgs) -> Result<Choice<'_>, Failure> {
        if options.dir.len() > 1 {
            return Err(Failure::Usage(format!(
                "`commit` takes one folder, not {}: only `cached` compares several",
                options.dir.len()
            )));
        }
        let folder = options.dir.first().map_or_else(|| PathBuf::from("."), PathBuf::clone);
        let mut wanted = Wanted::new(&self.common, &SCENARIOS[0], vec![folder]);
        wanted.requirement = options.requirement()?;
        wanted.settings = options.settings(&self.common, &wanted.requirement)?;
        wanted.raw_device.clone_from(&options.raw_device_overwrite);
        Ok(Choice::One(Box::new(wanted)))
    }

    /// Where the outcome of `--require` goes, if anywhere but the terminal.
    pub(crate) fn junit(&self) -> Option<&PathBuf> {
        match &self.scenario {
            None => self.commit.junit.as_ref(),
            Some(ScenarioArgs::Commit(own)) => own.junit.as_ref(),
            Some(_) => None,
        }
    }

    pub(crate) fn outputs(&self) -> Option<&Outputs> {
        self.scenario.as_ref().map_or(Some(&self.commit.outputs), |named| named.parts().1)
    }
}

fn micros(us: Option<u64>) -> Option<u64> {
    us.map(|us| us.saturating_mul(1000))
}

impl ScenarioArgs {
    /// Its name, and where its result goes besides the terminal.
    fn parts(&self) -> (&'static str, Option<&Outputs>) {
        match self {
            Self::Commit(own) => (commit::NAME, Some(&own.outputs)),
            Self::Stall(own) => (stall::NAME, Some(&own.base.outputs)),
            Self::Cached(own) => (cached::NAME, Some(&own.outputs)),
            Self::Path(own) => (path::NAME, Some(&own.base.outputs)),
            Self::Group(own) => (group::NAME, Some(&own.base.outputs)),
            Self::Interfere(own) => (interfere::NAME, Some(&own.base.outputs)),
            Self::Log(own) => (scenario::log::NAME, Some(&own.outputs)),
            Self::Peers(own) => (peers::NAME, Some(&own.outputs)),
            Self::Replicated(own) => (replicated::NAME, Some(&own.base.outputs)),
            Self::All(_) => ("all", None),
        }
    }
}

impl AllArgs {
    /// Every scenario that needs nothing but a folder, with its own parameters, and those that need more.
    pub(crate) fn wanted(&self, common: &Common) -> (Vec<Wanted>, Vec<&'static Scenario>) {
        let (here, left_out): (Vec<_>, Vec<_>) =
            SCENARIOS.iter().partition(|scenario| scenario.alone.is_empty());
        let wanted = |scenario| {
            let mut wanted = Wanted::new(common, scenario, vec![self.place.dir.clone()]);
            let settings = &mut wanted.settings;
            let time = settings.time_ns().and(self.time);
            set(&mut settings.amount, time.map(|time| Amount::TimeNs(nanoseconds(time))));
            wanted
        };
        (here.into_iter().map(wanted).collect(), left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    fn bench(words: &[&str]) -> Result<Bench, Failure> {
        let line = ["seawall", "bench"].iter().chain(words);
        match Cli::try_parse_from(line).map_err(Failure::usage)?.command {
            Command::Bench(bench) => Ok(*bench),
            _ => Err(Failure::usage("another command")),
        }
    }

    /// The name of what is run, and its folders.
    fn selected(words: &[&str]) -> Result<(String, Vec<String>), Failure> {
        let bench = bench(words)?;
        let is = |name: &str, folders: &[PathBuf]| {
            (name.to_owned(), folders.iter().map(|folder| folder.display().to_string()).collect())
        };
        Ok(match bench.choice()? {
            Choice::One(wanted) => is(wanted.scenario.name, &wanted.folders),
            Choice::All(_) => is("all", &[]),
        })
    }

    #[test]
    fn the_first_word_is_a_scenario_if_it_is_the_name_of_one_and_a_folder_otherwise() {
        let cases: [(&[&str], &str, &[&str]); 14] = [
            (&[], "commit", &["."]),
            (&["data"], "commit", &["data"]),
            (&["data", "--journal", "1M"], "commit", &["data"]),
            (&["--journal", "1M", "data"], "commit", &["data"]),
            (&["help"], "commit", &["help"]),
            (&["./stall"], "commit", &["./stall"]),
            (&["commit", "stall"], "commit", &["stall"]),
            (&["stall"], "stall", &["."]),
            (&["-q", "stall"], "stall", &["."]),
            (&["stall", "stall"], "stall", &["stall"]),
            (&["group", "data", "--time", "5"], "group", &["data"]),
            (&["cached"], "cached", &["."]),
            (&["cached", "data", "stall"], "cached", &["data", "stall"]),
            (&["all", "data"], "all", &[]),
        ];
        for (words, name, folders) in cases {
            let folders = folders.iter().map(|folder| (*folder).to_owned()).collect();
            assert_eq!(selected(words), Ok((name.to_owned(), folders)), "{words:?}");
        }
    }

    #[test]
    fn the_old_options_of_the_log_s_benchmark_mean_what_they_meant() {
        let bench = bench(&["log", "data", "--only", "W1,W3", "--percent", "10"]).expect("known");
        let Choice::One(wanted) = bench.choice().expect("right") else { panic!("one") };
        let settings = wanted.settings;
        assert_eq!((settings.workloads.len(), settings.time_ns()), (2, Some(12_000_000_000)));
    }

    #[test]
    fn what_a_scenario_does_not_take_is_refused() {
        let cases: [(&[&str], &str); 14] = [
            (&["stall", "--journal", "1MiB"], "--journal"),
            (&["--sync-sleep", "5"], "--sync-sleep"),
            (&["group", "--require", "etcd"], "--require"),
            (&["group", "--file", "1GiB"], "--file"),
            (&["all", "--size", "1KiB"], "--size"),
            (&["all", "--json", "-"], "--json"),
            (&["all", "--html", "x.html"], "--html"),
            (&["cached", "--time", "60s"], "--time"),
            (&["stall", "--jvm"], "--jvm"),
            (&["group", "data", "stall"], "stall"),
            (&["stal", "data"], "`stal` is not a scenario"),
            (&["--journal", "1M", "stall"], "after its name"),
            (&["data", "stall"], "`data` is not a scenario"),
            (&["commit", "data", "stall"], "takes one folder, not 2"),
        ];
        for (words, said) in cases {
            let refusal = selected(words).expect_err(said).to_string();
            assert!(refusal.contains(said), "{words:?}: {refusal}");
        }
    }

    #[test]
    fn every_scenario_has_a_subcommand_and_the_library_s_defaults() {
        for scenario in &SCENARIOS {
            let bench = bench(&[scenario.name]).expect(scenario.name);
            let Ok(Choice::One(wanted)) = bench.choice() else { panic!("{}", scenario.name) };
            assert_eq!(wanted.scenario.name, scenario.name);
            assert_eq!(wanted.settings, (scenario.settings)(), "{}", scenario.name);
        }
        let bench = bench(&["all"]).expect("all");
        let Some(ScenarioArgs::All(all)) = &bench.scenario else { panic!("all") };
        let (wanted, left_out) = all.wanted(&bench.common);
        assert_eq!(wanted.len() + left_out.len(), SCENARIOS.len());
    }
}
