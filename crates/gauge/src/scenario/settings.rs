//! Defines and checks a scenario's parameters, [`Settings`]; the defaults are the original's.
//!
//! Invariant: settings that passed [`Settings::check`] can be carried out wherever there is the space; a refusal
//! names the option and the remedy.

use super::log::contest::Contestant;
use super::log::workloads;
use super::path::jvm::Jvm;
use crate::error::{Error, Result};
use crate::result::PlanRecord;
use crate::testbed::FILL_BYTES;
use seawall::{EngineChoice, MethodChoice};
use seawall_sys::durability::FileState;
use seawall_sys::method::{Method, OpenSync, Set, Sync};
use seawall_sys::methods;

/// The parameters of all scenarios; each uses some.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Time of the whole run, nanoseconds.
    pub time_ns: u64,
    /// Whether the time decides how long a block lasts; otherwise its count of operations does.
    pub timed: bool,
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
    /// `group`, `interfere`: the methods that commit.
    pub methods: Vec<&'static Method>,
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
    /// Size of the writes that fill the files, bytes.
    pub fill_bytes: u64,
    /// `path`: the JVMs that write too; `None`: the native ways alone.
    pub jvms: Option<Vec<Jvm>>,
    /// `log`, `peers`: the workloads, without those that they are compared with; empty: all.
    pub workloads: Vec<String>,
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
            time_ns: 20_000_000_000,
            timed: true,
            rounds: 5,
            warm_up: 0,
            seed: 1,
            pin_to: Vec::new(),
            bytes: 4096,
            methods: durable_methods(),
            write_sleep_ns: 100_000,
            sync_sleep_ns: 500_000,
            writers: vec![1, 2, 4, 8, 16, 32, 64],
            file_bytes: None,
            rewrites: 100,
            fill_bytes: FILL_BYTES,
            jvms: None,
            workloads: Vec::new(),
            log_method: MethodChoice::Fastest,
            log_engine: EngineChoice::Probe,
            network_file_system: false,
            peers: &[],
        }
    }
}

/// The method with a plain data sync behind a buffered write, and the one that writes through: the two ways in which
/// journals commit.
#[must_use]
pub fn durable_methods() -> Vec<&'static Method> {
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
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// The option, its bound and the remedy.
    pub fn check(&self) -> Result<()> {
        let seconds = 1_000_000_000;
        let writers = !self.writers.is_empty() && self.writers.iter().all(|count| (1..=256).contains(count));
        let file = self.file_bytes.unwrap_or(1 << 30);
        Error::check_bounds(&[
            ("--size", (1..=16 << 20).contains(&self.bytes), "from 1 B to 16 MiB in this scenario"),
            ("--methods", !self.methods.is_empty(), "at least one method"),
            ("--rounds", (1..=10_000).contains(&self.rounds), "from 1 to 10,000"),
            ("--warm-up", self.warm_up <= 10_000, "at most 10,000"),
            ("--time", (seconds..=86_400 * seconds).contains(&self.time_ns), "from 1 s to 24 h"),
            (
                "--write-sleep",
                (1_000..=10 * seconds).contains(&self.write_sleep_ns),
                "from 1 to 10,000,000 µs",
            ),
            ("--sync-sleep", self.sync_sleep_ns <= 3_600 * seconds, "at most an hour"),
            ("--writers", writers, "numbers from 1 to 256, separated by commas"),
            ("--file", (1 << 20..=16 << 30).contains(&file), "from 1 MiB to 16 GiB"),
            ("--file", file >= self.bytes as u64 * 4, "at least four times --size"),
            ("--fill-size", (1..=64 << 20).contains(&self.fill_bytes), "from 1 B to 64 MiB in this scenario"),
            ("--rewrites", (1..=10_000_000).contains(&self.rewrites), "from 1 to 10,000,000"),
        ])?;
        let known = workloads::names();
        if let Some(unknown) = self.workloads.iter().find(|name| !known.contains(&name.as_str())) {
            let reason = format!("there is no workload {unknown}, there are {}", known.join(", "));
            return Err(Error::Option { option: "--workloads", reason });
        }
        if self.jvms.is_some() && !self.pin_to.is_empty() {
            let reason =
                "a JVM (--jvm) does not pin its threads; pin the whole program from outside (taskset)";
            return Err(Error::Option { option: "--pin", reason: reason.to_owned() });
        }
        Ok(())
    }

    /// What the result file keeps of them in the fields that all scenarios share.
    #[must_use]
    pub fn record(&self, file_bytes: u64) -> PlanRecord {
        PlanRecord {
            transaction_bytes: self.bytes as u64,
            writes: 1,
            journal_bytes: file_bytes,
            transactions: None,
            time_ns: self.timed.then_some(self.time_ns),
            rounds: self.rounds,
            file_state: FileState::ZeroFilled,
            fill_bytes: self.fill_bytes,
            keep_cached: false,
            threads: 1,
            rate_per_s: None,
            seed: self.seed,
            pinned_to: self.pin_to.clone(),
            raw_device: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_settings_are_refused_with_the_option_named() {
        type Spoil = fn(&mut Settings);
        let cases: [(&str, Spoil); 10] = [
            ("--size", |s| s.bytes = 0),
            ("--rounds", |s| s.rounds = 0),
            ("--time", |s| s.time_ns = 5),
            ("--write-sleep", |s| s.write_sleep_ns = 0),
            ("--sync-sleep", |s| s.sync_sleep_ns = u64::MAX),
            ("--writers", |s| s.writers = vec![0]),
            ("--writers", |s| s.writers = Vec::new()),
            ("--file", |s| s.file_bytes = Some(17 << 30)),
            ("--rewrites", |s| s.rewrites = 0),
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
