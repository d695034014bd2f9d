//! Defines what a run measures, and checks it before anything is written: [`Plan`].
//!
//! Invariant: a plan that passed [`Plan::check`] can be carried out on any file system that has the space; a refusal
//! names the option and the remedy.

use crate::error::{Error, Result};
use crate::lookup::nearest;
use crate::result::PlanRecord;
use bytesize::ByteSize;
use seawall_sys::durability::FileState;
use seawall_sys::journal::Recipe;
use seawall_sys::method::{Method, Set};
use seawall_sys::methods;

/// The published experiment: transactions per method.
pub const PUBLISHED_TRANSACTIONS: u64 = 65_536;
/// The published experiment: bytes of a transaction.
pub const PUBLISHED_TRANSACTION_BYTES: usize = 16 << 10;
/// The published experiment: bytes of the journal.
pub const PUBLISHED_JOURNAL_BYTES: u64 = 1 << 30;

/// Writes of a transaction at most.
pub const WRITES_MAX: u32 = 64;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// The whole run, preparation included, takes about so many nanoseconds.
    TimeNs(u64),
    /// Each method commits exactly so many transactions.
    Transactions(u64),
}

/// What is to be measured, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The rows of the method table, in table order.
    pub methods: Vec<&'static Method>,
    /// Size of a write, bytes.
    pub transaction_bytes: usize,
    /// Writes of a transaction, at consecutive places.
    pub writes: u32,
    /// How the journal is made; its size is in it.
    pub journal: Recipe,
    /// How much.
    pub amount: Amount,
    /// In how many rounds; each runs every method once, in an order of its own.
    pub rounds: u32,
    /// Writers, each with a part of the journal.
    pub threads: usize,
    /// Scheduled arrivals per second and writer; `None`: each commit starts when the last is done.
    pub rate_per_s: Option<f64>,
    /// Seed of order and data.
    pub seed: u64,
    /// CPUs to pin the writers to, in turn.
    pub pin_to: Vec<usize>,
    /// Whether the target is a raw block device, which is overwritten.
    pub raw_device: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            methods: methods::here().iter().collect(),
            transaction_bytes: PUBLISHED_TRANSACTION_BYTES,
            writes: 1,
            journal: Recipe {
                state: FileState::ZeroFilled,
                bytes: PUBLISHED_JOURNAL_BYTES,
                fill_bytes: 1 << 20,
                keep_cached: false,
            },
            amount: Amount::TimeNs(30_000_000_000),
            rounds: 5,
            threads: 1,
            rate_per_s: None,
            seed: 1,
            pin_to: Vec::new(),
            raw_device: false,
        }
    }
}

/// The methods named by `--methods`: ids, [`ALIASES`], `published`, `durable` or `all`, separated by commas.
///
/// # Errors
/// An id that this system does not have; the message names the nearest that it has.
pub fn choose_methods(names: &str) -> Result<Vec<&'static Method>> {
    let mut wanted = Vec::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match name {
            "all" => {
                wanted.extend(methods::here());
            }
            "published" => {
                wanted.extend(methods::here().iter().filter(|method| method.set == Set::Published));
            }
            "durable" => {
                wanted.extend(methods::here().iter().filter(|method| method.reach().letter() == 'D'));
            }
            id => wanted.push(by_id(id).or_else(|| by_alias(id)).ok_or_else(|| unknown_method(id))?),
        }
    }
    if wanted.is_empty() {
        let reason = "no method is named: give ids, `published`, `durable` or `all`".to_owned();
        return Err(Error::Option { option: "--methods", reason });
    }
    Ok(methods::here().iter().filter(|method| wanted.contains(method)).collect())
}

/// What databases and `pg_test_fsync` call a method, and its ids: the first that this system has is meant.
pub const ALIASES: [(&str, &[&str]); 6] = [
    ("fdatasync", &["buffered+fdatasync", "nt-flush-data-sync"]),
    ("fsync", &["buffered+fsync", "buffered+flush"]),
    ("fsync_writethrough", &["buffered+fullfsync", "buffered+flush"]),
    ("open_datasync", &["dsync", "write-through"]),
    ("open_sync", &["sync"]),
    ("o_dsync", &["dsync"]),
];

fn by_alias(name: &str) -> Option<&'static Method> {
    let (_, ids) = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name))?;
    ids.iter().find_map(|id| methods::find(id))
}

fn by_id(name: &str) -> Option<&'static Method> {
    methods::here().iter().find(|method| method.id.eq_ignore_ascii_case(name))
}

fn unknown_method(id: &str) -> Error {
    let aliases = ALIASES.map(|(alias, _)| alias);
    let known = methods::here().iter().map(|method| method.id);
    let known = known.chain(aliases.into_iter().filter(|alias| by_alias(alias).is_some()));
    let meant = if aliases.iter().any(|alias| alias.eq_ignore_ascii_case(id)) {
        ": databases call a method so on other systems, and none here corresponds to it;".to_owned()
    } else {
        nearest(id, known).map_or(";".to_owned(), |name| format!("; did you mean `{name}`?"))
    };
    let reason = format!(
        "this system has no method `{id}`{meant} `seawall methods` lists them; the groups are published, durable and all"
    );
    Error::Option { option: "--methods", reason }
}

impl Plan {
    /// Transactions that fit into one writer's part of the journal.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.journal.bytes / self.threads as u64 / self.commit_bytes()
    }

    /// Size of a transaction, bytes: all its writes.
    #[must_use]
    pub fn commit_bytes(&self) -> u64 {
        self.transaction_bytes as u64 * u64::from(self.writes)
    }

    /// Whether every block needs a journal of its own, because writing changes the file state.
    #[must_use]
    pub fn fresh_journal_per_block(&self) -> bool {
        self.journal.state.needs_metadata()
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// The option, its bound and the remedy.
    pub fn check(&self) -> Result<()> {
        let seconds = 1_000_000_000;
        let (time, transactions) = match self.amount {
            Amount::TimeNs(ns) => ((seconds..=86_400 * seconds).contains(&ns), true),
            Amount::Transactions(count) => (true, (1..=1_000_000_000).contains(&count)),
        };
        let rate = self.rate_per_s.unwrap_or(1.0);
        Error::check_bounds(&[
            ("--methods", !self.methods.is_empty(), "at least one method"),
            (
                "--size",
                (1..=64 << 20).contains(&self.transaction_bytes),
                "from 1 B to 64 MiB, which one write of a commit has",
            ),
            (
                "--journal",
                self.journal.bytes <= 16 << 40,
                "at most 16 TiB, the largest file of common file systems",
            ),
            ("--writes", (1..=WRITES_MAX).contains(&self.writes), "from 1 to 64"),
            ("--threads", (1..=256).contains(&self.threads), "from 1 to 256"),
            ("--fill-size", (1..=64 << 20).contains(&self.journal.fill_bytes), "from 1 B to 64 MiB"),
            ("--rounds", (1..=10_000).contains(&self.rounds), "from 1 to 10,000"),
            ("--rate", rate > 0.0 && rate <= 10_000_000.0, "above 0 and at most 10,000,000 commits a second"),
            ("--time", time, "from 1 s to 24 h"),
            ("--transactions", transactions, "from 1 to 1,000,000,000 a method"),
        ])?;
        let threads = self.threads;
        if self.capacity() == 0 {
            let (journal, size) = (ByteSize(self.journal.bytes), ByteSize(self.commit_bytes()));
            let reason = format!(
                "{journal} do not hold one transaction of {size} for each of {threads} writers: give a larger one or a smaller --size"
            );
            return Err(Error::Option { option: "--journal", reason });
        }
        if threads > 1 && self.fresh_journal_per_block() {
            let state = self.journal.state.name();
            let reason = format!(
                "{threads} writers would each need a journal of their own with --file-state {state}: give one thread or another state"
            );
            return Err(Error::Option { option: "--threads", reason });
        }
        Ok(())
    }

    /// Upper bound of the bytes written in all, if that is fixed; `None` where time decides.
    #[must_use]
    pub fn bytes_to_write(&self) -> Option<u64> {
        match self.amount {
            Amount::TimeNs(_) => None,
            Amount::Transactions(n) => {
                let commits = n * self.threads as u64 * self.methods.len() as u64 * self.commit_bytes();
                Some(commits + self.fill_to_write())
            }
        }
    }

    /// Bytes that making the journal writes.
    #[must_use]
    pub fn fill_to_write(&self) -> u64 {
        match self.journal.state {
            FileState::ZeroFilled | FileState::Recycled if !self.raw_device => self.journal.bytes,
            _ => 0,
        }
    }

    /// What the result file keeps of the plan.
    #[must_use]
    pub fn record(&self) -> PlanRecord {
        let (transactions, time_ns) = match self.amount {
            Amount::Transactions(n) => (Some(n), None),
            Amount::TimeNs(ns) => (None, Some(ns)),
        };
        PlanRecord {
            transaction_bytes: self.transaction_bytes as u64,
            writes: self.writes,
            journal_bytes: self.journal.bytes,
            transactions,
            time_ns,
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
    fn absurd_plans_are_refused_with_the_option_named() {
        type Spoil = fn(&mut Plan);
        let cases: [(&str, Spoil); 12] = [
            ("--size", |p| p.transaction_bytes = 0),
            ("--size", |p| p.transaction_bytes = usize::MAX),
            ("--journal", |p| p.journal.bytes = u64::MAX),
            ("--journal", |p| p.journal.bytes = 4096),
            ("--writes", |p| p.writes = 0),
            ("--writes", |p| p.writes = WRITES_MAX + 1),
            ("--threads", |p| p.threads = 0),
            ("--threads", |p| p.threads = 100_000),
            ("--rounds", |p| p.rounds = 0),
            ("--rate", |p| p.rate_per_s = Some(f64::NAN)),
            ("--time", |p| p.amount = Amount::TimeNs(5)),
            ("--transactions", |p| p.amount = Amount::Transactions(0)),
        ];
        assert!(Plan::default().check().is_ok());
        for (option, spoil) in cases {
            let mut plan = Plan::default();
            spoil(&mut plan);
            let refusal = plan.check().expect_err(option).to_string();
            assert!(refusal.contains(option), "{refusal}");
        }
    }

    #[test]
    fn methods_are_chosen_by_id_and_group_in_table_order() {
        let all = choose_methods("all").expect("all");
        assert_eq!(all.len(), methods::here().len());
        let some = choose_methods("durable, buffered").expect("a mix");
        assert_eq!(some[0].id, "buffered");
        let refusal = choose_methods("fdatasnyc").expect_err("unknown").to_string();
        assert!(refusal.contains("fdatasnyc") && refusal.contains("did you mean `fdatasync`"), "{refusal}");
        assert!(refusal.len() < 200, "{refusal}");
        assert!(choose_methods(" , ").is_err());
        assert_eq!(choose_methods("DSYNC").ok(), choose_methods("dsync").ok());
        assert!(
            choose_methods("qqqqqqqqqqqqqq")
                .expect_err("unknown")
                .to_string()
                .contains("`; `seawall methods`")
        );
        if by_alias("fsync_writethrough").is_none() {
            let refusal = choose_methods("fsync_writethrough").expect_err("not here").to_string();
            assert!(refusal.contains("other systems") && !refusal.contains("did you mean"), "{refusal}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_names_that_databases_use_mean_methods() {
        let id = |name| choose_methods(name).expect("a known name")[0].id;
        assert_eq!(id("fdatasync"), "buffered+fdatasync");
        assert_eq!([id("fsync"), id("open_datasync"), id("O_DSYNC")], ["buffered+fsync", "dsync", "dsync"]);
        assert_eq!(id("open_sync"), "sync");
        for (_, ids) in ALIASES {
            assert!(ids.iter().all(|id| methods::ALL.into_iter().flatten().any(|method| method.id == *id)));
        }
    }
}
