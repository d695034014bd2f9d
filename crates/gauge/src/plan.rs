//! Defines what a run measures, and checks it before anything is written: [`Plan`].
//!
//! Invariant: a plan that passed [`Plan::check`] can be carried out on any file system that has the space; a refusal
//! names the option and the remedy.

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
    /// Size of a transaction, bytes.
    pub transaction_bytes: usize,
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
pub fn choose_methods(names: &str) -> Result<Vec<&'static Method>, String> {
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
            id => wanted.push(methods::find(id).or_else(|| by_alias(id)).ok_or_else(|| unknown_method(id))?),
        }
    }
    if wanted.is_empty() {
        return Err("--methods names no method: give ids, `published`, `durable` or `all`".to_owned());
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

fn unknown_method(id: &str) -> String {
    let known = methods::here().iter().map(|method| method.id).chain(ALIASES.map(|(alias, _)| alias));
    let meant = nearest(id, known).map_or(String::new(), |name| format!("; did you mean `{name}`?"));
    format!(
        "--methods: this system has no method `{id}`{meant} `seawall methods` lists them; the groups are published, durable and all"
    )
}

impl Plan {
    /// Transactions that fit into one writer's part of the journal.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.journal.bytes / self.threads as u64 / self.transaction_bytes as u64
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
    pub fn check(&self) -> Result<(), String> {
        let journal = ByteSize(self.journal.bytes);
        if self.methods.is_empty() {
            return Err("no method to measure: name one with --methods".to_owned());
        }
        if self.transaction_bytes == 0 || self.transaction_bytes > 64 << 20 {
            return Err("--size must be from 1 B to 64 MiB: that is what one commit writes".to_owned());
        }
        if self.journal.bytes > 16 << 40 {
            return Err(format!(
                "--journal {journal} is more than 16 TiB, the largest file of common file systems"
            ));
        }
        if !(1..=256).contains(&self.threads) {
            return Err("--threads must be from 1 to 256".to_owned());
        }
        if self.capacity() == 0 {
            return Err(format!(
                "a --journal of {journal} does not hold one transaction of {} for each of {} writers: give a larger one or a smaller --size",
                ByteSize(self.transaction_bytes as u64),
                self.threads
            ));
        }
        if self.journal.fill_bytes == 0 || self.journal.fill_bytes > 64 << 20 {
            return Err("--fill-size must be from 1 B to 64 MiB".to_owned());
        }
        if self.threads > 1 && self.fresh_journal_per_block() {
            return Err(format!(
                "--threads {} does not go with --file-state {}: several writers would each need a journal of their own",
                self.threads,
                self.journal.state.name()
            ));
        }
        if self.rounds == 0 || self.rounds > 10_000 {
            return Err("--rounds must be from 1 to 10,000".to_owned());
        }
        if self.rate_per_s.is_some_and(|rate| !(rate.is_finite() && rate > 0.0 && rate <= 10_000_000.0)) {
            return Err("--rate must be above 0 and at most 10,000,000 commits a second".to_owned());
        }
        match self.amount {
            Amount::TimeNs(ns) if !(1_000_000_000..=86_400_000_000_000).contains(&ns) => {
                Err("--time must be from 1 s to 24 h".to_owned())
            }
            Amount::Transactions(n) if n == 0 || n > 1_000_000_000 => {
                Err("--transactions must be from 1 to 1,000,000,000 a method".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Upper bound of the bytes written in all, if that is fixed; `None` where time decides.
    #[must_use]
    pub fn bytes_to_write(&self) -> Option<u64> {
        match self.amount {
            Amount::TimeNs(_) => None,
            Amount::Transactions(n) => {
                let commits =
                    n * self.threads as u64 * self.methods.len() as u64 * self.transaction_bytes as u64;
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
        let cases: [(&str, Spoil); 10] = [
            ("--size", |p| p.transaction_bytes = 0),
            ("--size", |p| p.transaction_bytes = usize::MAX),
            ("--journal", |p| p.journal.bytes = u64::MAX),
            ("--journal", |p| p.journal.bytes = 4096),
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
            let refusal = plan.check().expect_err(option);
            assert!(refusal.contains(option), "{refusal}");
        }
    }

    #[test]
    fn methods_are_chosen_by_id_and_group_in_table_order() {
        let all = choose_methods("all").expect("all");
        assert_eq!(all.len(), methods::here().len());
        let some = choose_methods("durable, buffered").expect("a mix");
        assert_eq!(some[0].id, "buffered");
        let refusal = choose_methods("fdatasnyc").expect_err("unknown");
        assert!(refusal.contains("fdatasnyc") && refusal.contains("did you mean `fdatasync`"), "{refusal}");
        assert!(refusal.len() < 200, "{refusal}");
        assert!(choose_methods(" , ").is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_names_that_databases_use_mean_methods() {
        let id = |name| choose_methods(name).map(|methods| methods[0].id);
        assert_eq!(id("fdatasync"), Ok("buffered+fdatasync"));
        assert_eq!(
            [id("fsync"), id("open_datasync"), id("O_DSYNC")],
            [Ok("buffered+fsync"), Ok("dsync"), Ok("dsync")]
        );
        assert_eq!(id("open_sync"), Ok("sync"));
        for (_, ids) in ALIASES {
            assert!(ids.iter().all(|id| methods::ALL.into_iter().flatten().any(|method| method.id == *id)));
        }
    }
}
