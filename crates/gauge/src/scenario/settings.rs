//! Defines and checks a scenario's parameters, [`Settings`], before anything is written; the defaults are the original's.
//!
//! Invariant: settings that passed [`Settings::check`] can be carried out wherever there is the space; a refusal
//! names the option and the remedy.

use super::log::contest::Contestant;
use super::log::workloads;
use crate::error::{Error, Result};
use crate::result::PlanRecord;
use crate::testbed::FILL_BYTES;
use crate::workload::Workload;
use bytesize::ByteSize;
use seawall::{EngineChoice, MethodChoice};
use seawall_host::jdk::Jdk;
use seawall_host::journal::Recipe;
use seawall_sys::durability::FileState;
use seawall_sys::method::{Method, OpenSync, Set, Sync};
use seawall_sys::methods;
use std::sync::Arc;

pub(crate) const WRITES_MAX: u32 = 64;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// The whole run, preparation included, takes about this long, nanoseconds.
    TimeNs(u64),
    /// Each row commits exactly N transactions.
    Transactions(u64),
    /// Each block does its own count of operations, however long that takes.
    Rounds,
}

/// The parameters of all scenarios; each uses some.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How much.
    pub amount: Amount,
    /// Rounds, each over all rows in an order of its own.
    pub rounds: u32,
    /// Rounds before those that are run and not counted.
    pub warm_up: u32,
    /// Seed of the order and the data.
    pub seed: u64,
    /// CPUs to pin the measuring threads to, in turn.
    pub pin_to: Vec<usize>,
    /// Size of one write, bytes.
    pub bytes: usize,
    /// The largest `bytes` that the scenario takes.
    pub bytes_max: usize,
    /// `commit`, `group`, `interfere`, `replicated`: the methods that commit, in table order.
    pub methods: Vec<&'static Method>,
    /// `commit`: methods that have a short look before the rounds; the best of each class joins `methods` if it is better.
    pub others: Vec<&'static Method>,
    /// `commit`: writes of a transaction, at consecutive places.
    pub writes: u32,
    /// How the journal or the file is made; `commit`: its size.
    pub journal: Recipe,
    /// `commit`: what is committed, if not always the same; its largest commit is `bytes`.
    pub workload: Option<Arc<Workload>>,
    /// `commit`: writers, each with a part of the journal.
    pub threads: usize,
    /// `commit`: scheduled arrivals per second and writer; `None`: each commit starts when the last is done.
    pub rate_per_s: Option<f64>,
    /// `commit`: whether the target is a raw block device, which is overwritten.
    pub raw_device: bool,
    /// `stall`: from one append to the next, nanoseconds. `path`: pause before each write.
    pub write_sleep_ns: u64,
    /// `stall`: pause of the syncing thread, nanoseconds.
    pub sync_sleep_ns: u64,
    /// `group`: how many writers, row by row.
    pub writers: Vec<usize>,
    /// `cached`: size of the file, bytes; `None`: what memory and space allow, at most 1 GiB.
    pub file_bytes: Option<u64>,
    /// `cached`: rewrites a block.
    pub rewrites: u64,
    /// `path`: the JDKs whose JVMs write too; `None`: the native ways alone.
    pub jvms: Option<Vec<Jdk>>,
    /// `log`, `peers`: the workloads, without those that they are compared with; empty: all.
    pub workloads: Vec<String>,
    /// `log`: size of the records of a log that is read, bytes.
    pub log_bytes: u64,
    /// `log`, `peers`: how the log commits.
    pub log_method: MethodChoice,
    /// `log`, `peers`: what runs the log's commits.
    pub log_engine: EngineChoice,
    /// `log`, `peers`: whether the folder may lie on a network file system.
    pub network_file_system: bool,
    /// `peers`: the other logs.
    pub peers: &'static [Contestant],
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            amount: Amount::TimeNs(20_000_000_000),
            rounds: 5,
            warm_up: 0,
            seed: 1,
            pin_to: Vec::new(),
            bytes: 4096,
            bytes_max: 16 << 20,
            methods: durable_methods(),
            others: Vec::new(),
            writes: 1,
            journal: Recipe {
                state: FileState::ZeroFilled,
                bytes: 1 << 30,
                fill_bytes: FILL_BYTES,
                keep_cached: false,
            },
            workload: None,
            threads: 1,
            rate_per_s: None,
            raw_device: false,
            write_sleep_ns: 100_000,
            sync_sleep_ns: 500_000,
            writers: vec![1, 2, 4, 8, 16, 32, 64],
            file_bytes: None,
            rewrites: 100,
            jvms: None,
            workloads: Vec::new(),
            log_bytes: 1 << 30,
            log_method: MethodChoice::Fastest,
            log_engine: EngineChoice::Automatic,
            network_file_system: false,
            peers: &[],
        }
    }
}

/// The method with a plain data sync after a buffered write, and the one that writes through: the two ways in which
/// journals commit.
pub(crate) fn durable_methods() -> Vec<&'static Method> {
    let durable = |method: &&Method| {
        method.set == Set::Published && method.reach().letter() == 'D' && method.sync != Sync::Fsync
    };
    let first =
        |of: &dyn Fn(&Method) -> bool| methods::here().iter().filter(durable).find(|method| of(method));
    let synced = first(&|method| method.splits());
    let through = first(&|method| {
        method.needs_alignment() && matches!(method.open_sync, OpenSync::Data | OpenSync::WriteThrough)
    });
    let fallback = || methods::here().iter().find(|method| method.reach().letter() == 'D');
    let found: Vec<&'static Method> = synced.into_iter().chain(through).collect();
    if found.is_empty() { fallback().into_iter().collect() } else { found }
}

impl Settings {
    /// Time of the whole run, nanoseconds, if that decides how long a block lasts.
    pub fn time_ns(&self) -> Option<u64> {
        if let Amount::TimeNs(ns) = self.amount { Some(ns) } else { None }
    }

    /// Transactions that fit into one writer's part of the journal.
    pub fn capacity(&self) -> u64 {
        self.journal.bytes / self.threads as u64 / self.commit_bytes()
    }

    /// Size of a transaction, bytes: all its writes.
    pub fn commit_bytes(&self) -> u64 {
        self.bytes as u64 * u64::from(self.writes)
    }

    /// Whether every block needs a journal of its own, because writing changes the file state.
    pub(crate) fn fresh_journal_per_block(&self) -> bool {
        self.journal.state.needs_metadata()
    }

    pub(crate) fn fill_to_write(&self) -> u64 {
        match self.journal.state {
            FileState::ZeroFilled | FileState::Recycled if !self.raw_device => self.journal.bytes,
            _ => 0,
        }
    }

    /// Refuses what makes no sense: settings that pass can be carried out on any file system that has the space.
    ///
    /// # Errors
    /// The option, its bound and the remedy.
    pub fn check(&self) -> Result<()> {
        let seconds = 1_000_000_000;
        let (time, transactions) = match self.amount {
            Amount::TimeNs(ns) => ((seconds..=86_400 * seconds).contains(&ns), true),
            Amount::Transactions(count) => (true, (1..=1_000_000_000).contains(&count)),
            Amount::Rounds => (true, true),
        };
        let rate = self.rate_per_s.unwrap_or(1.0);
        let size = if self.bytes_max > 16 << 20 {
            "from 1 B to 64 MiB"
        } else {
            "from 1 B to 16 MiB in this scenario"
        };
        let writers = !self.writers.is_empty() && self.writers.iter().all(|count| (1..=256).contains(count));
        let file = self.file_bytes.unwrap_or(1 << 30);
        Error::check_bounds(&[
            ("--methods", !self.methods.is_empty(), "at least one method"),
            ("--size", (1..=self.bytes_max).contains(&self.bytes), size),
            (
                "--journal",
                self.journal.bytes <= 16 << 40,
                "at most 16 TiB, the largest file of common file systems",
            ),
            ("--writes", (1..=WRITES_MAX).contains(&self.writes), "from 1 to 64"),
            ("--threads", (1..=256).contains(&self.threads), "from 1 to 256"),
            ("--fill-size", (1..=64 << 20).contains(&self.journal.fill_bytes), "from 1 B to 64 MiB"),
            ("--rounds", (1..=10_000).contains(&self.rounds), "from 1 to 10,000"),
            ("--warm-up", self.warm_up <= 10_000, "at most 10,000"),
            ("--rate", rate > 0.0 && rate <= 10_000_000.0, "above 0 and at most 10,000,000 commits a second"),
            ("--time", time, "from 1 s to 24 h"),
            ("--transactions", transactions, "from 1 to 1,000,000,000 a method"),
            (
                "--write-sleep",
                (1_000..=10 * seconds).contains(&self.write_sleep_ns),
                "from 1 to 10,000,000 µs",
            ),
            ("--sync-sleep", self.sync_sleep_ns <= 3_600 * seconds, "at most an hour"),
            ("--writers", writers, "numbers from 1 to 256, separated by commas"),
            ("--file", (1 << 20..=16 << 30).contains(&file), "from 1 MiB to 16 GiB"),
            ("--file", file >= (self.bytes as u64).saturating_mul(4), "at least four times --size"),
            ("--log-size", (16 << 20..=1 << 40).contains(&self.log_bytes), "from 16 MiB to 1 TiB"),
            ("--rewrites", (1..=10_000_000).contains(&self.rewrites), "from 1 to 10,000,000"),
        ])?;
        let known = workloads::names();
        let unknown = self.workloads.iter().find(|name| !known.contains(&name.as_str()));
        let threads = self.threads;
        let (option, reason) = if let Some(unknown) = unknown {
            ("--workloads", format!("there is no workload {unknown}, there are {}", known.join(", ")))
        } else if self.jvms.is_some() && !self.pin_to.is_empty() {
            let reason =
                "a JVM (--jvm) does not pin its threads; pin the whole program from outside (taskset)";
            ("--pin", reason.to_owned())
        } else if self.capacity() == 0 {
            let (journal, size) = (ByteSize(self.journal.bytes), ByteSize(self.commit_bytes()));
            (
                "--journal",
                format!(
                    "{journal} do not hold one transaction of {size} for each of {threads} writers: give a larger one or a smaller --size"
                ),
            )
        } else if self.rate_per_s.is_some() && self.workload.as_ref().is_some_and(|load| load.is_scheduled())
        {
            ("--rate", "the load (--workload) has times of its own: give one of both".to_owned())
        } else if threads > 1 && self.fresh_journal_per_block() {
            let state = self.journal.state.name();
            (
                "--threads",
                format!(
                    "{threads} writers would each need a journal of their own with --file-state {state}: give one thread or another state"
                ),
            )
        } else {
            return Ok(());
        };
        Err(Error::Option { option, reason })
    }

    /// What the result file keeps of them in the fields that all scenarios share; the journal or the files take
    /// `file_bytes`.
    pub fn record(&self, file_bytes: u64) -> PlanRecord {
        PlanRecord {
            transaction_bytes: self.workload.as_ref().map_or(self.bytes as u64, |load| load.bytes_mean()),
            workload: self.workload.as_ref().map(|load| load.words()),
            writes: self.writes,
            journal_bytes: file_bytes,
            transactions: if let Amount::Transactions(n) = self.amount { Some(n) } else { None },
            time_ns: self.time_ns(),
            rounds: self.rounds,
            file_state: self.journal.state,
            fill_bytes: self.journal.fill_bytes,
            keep_cached: self.journal.keep_cached,
            threads: u32::try_from(self.threads).unwrap_or(u32::MAX),
            rate_per_s: self.rate_per_s,
            seed: self.seed,
            pinned_to: self.pin_to.clone(),
            raw_device: self.raw_device,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_settings_are_refused_with_the_option_named() {
        type Spoil = fn(&mut Settings);
        let cases: [(&str, Spoil); 20] = [
            ("--size", |s| s.bytes = 0),
            ("--size", |s| s.bytes = usize::MAX),
            ("--journal", |s| s.journal.bytes = u64::MAX),
            ("--journal", |s| s.journal.bytes = 2048),
            ("--writes", |s| s.writes = 0),
            ("--writes", |s| s.writes = WRITES_MAX + 1),
            ("--threads", |s| s.threads = 0),
            ("--threads", |s| s.threads = 100_000),
            ("--rounds", |s| s.rounds = 0),
            ("--rate", |s| s.rate_per_s = Some(f64::NAN)),
            ("--time", |s| s.amount = Amount::TimeNs(5)),
            ("--transactions", |s| s.amount = Amount::Transactions(0)),
            ("--write-sleep", |s| s.write_sleep_ns = 0),
            ("--sync-sleep", |s| s.sync_sleep_ns = u64::MAX),
            ("--writers", |s| s.writers = vec![0]),
            ("--writers", |s| s.writers = Vec::new()),
            ("--file", |s| s.file_bytes = Some(17 << 30)),
            ("--rewrites", |s| s.rewrites = 0),
            ("--log-size", |s| s.log_bytes = 1 << 20),
            ("--workloads", |s| s.workloads = vec!["W99".to_owned()]),
        ];
        Settings::default().check().expect("the defaults");
        for (option, spoil) in cases {
            let mut settings = Settings::default();
            spoil(&mut settings);
            let refusal = settings.check().expect_err(option).to_string();
            assert!(refusal.contains(option), "{refusal}");
        }
    }

    #[test]
    fn the_methods_of_commits_are_durable_ones() {
        let methods = durable_methods();
        assert!(!methods.is_empty() && methods.iter().all(|method| method.reach().letter() == 'D'));
        if cfg!(target_os = "linux") {
            let ids: Vec<&str> = methods.iter().map(|method| method.id).collect();
            assert_eq!(ids, ["buffered+fdatasync", "direct+dsync"]);
        }
    }
}
