//! Decides from the inspected environment whether a scenario may run, before anything is written.
//!
//! Invariant: a refusal names the thing and the remedy; a fact that does not forbid the run is a finding, not a
//! refusal.

use crate::figures::{duration_ns, plural};
use crate::scenario::Scenario;
use crate::scenario::commit::look;
use crate::scenario::rounds::IDLE_NS;
use crate::scenario::settings::{Amount, Settings};
use crate::{Error, Result};
use bytesize::ByteSize;
use seawall_sys::durability::{Lie, Medium};
use seawall_sys::inspect::Environment;

/// Space that stays free besides the journal, bytes: result files, and the file system's own needs.
const MARGIN_BYTES: u64 = 64 << 20;

/// Refuses a scenario that cannot be measured honestly in a folder, or does not fit: its files take `needs_bytes`.
///
/// `allow_memory`: the caller knows that nothing here outlives a crash and wants the figures all the same.
///
/// # Errors
/// The first fact that forbids it, with the remedy.
pub fn check(
    scenario: &Scenario,
    settings: &Settings,
    needs_bytes: u64,
    environment: &Environment,
    allow_memory: bool,
) -> Result<()> {
    if settings.raw_device {
        return Ok(());
    }
    check_place(environment, allow_memory || !scenario.durable)?;
    let found = &environment.file_system;
    let file_system = found.kind.clone();
    let (needed, free) = (needs_bytes.saturating_add(MARGIN_BYTES), found.free_bytes);
    if free < needed {
        let subject = format!("`{}` needs up to", scenario.name);
        let remedy = "ask for less, as by a smaller --journal (`seawall bench --list` names the options)";
        return Err(Error::NoSpace { subject, needed, file_system, free, remedy });
    }
    Ok(())
}

/// Refuses a place that cannot be written, or that keeps nothing unless `allow_memory`.
///
/// # Errors
/// The first fact that forbids it, with the remedy.
pub fn check_place(environment: &Environment, allow_memory: bool) -> Result<()> {
    let found = &environment.file_system;
    let file_system = found.kind.clone();
    if found.read_only {
        return Err(Error::ReadOnly { file_system });
    }
    if !allow_memory && found.medium == Medium::Memory {
        return Err(Error::InMemory { file_system });
    }
    let lie = environment.lies.iter().find(|found| found.lie == Lie::SyncDisabled);
    match lie.filter(|_| !allow_memory) {
        Some(lie) => Err(Error::SyncDisabled { evidence: lie.evidence.clone() }),
        None => Ok(()),
    }
}

/// What one of several runs takes.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// The scenario's name.
    pub name: &'static str,
    /// About how long, nanoseconds; `None` if it ends by its count.
    pub time_ns: Option<u64>,
    /// How much space at most, bytes.
    pub bytes: u64,
}

impl Share {
    /// Of a scenario whose files take `bytes`.
    pub fn new(scenario: &Scenario, settings: &Settings, bytes: u64) -> Self {
        let time_ns = settings.time_ns().map(|ns| ns.max(scenario.least_ns(settings)));
        Self { name: scenario.name, time_ns, bytes }
    }
}

/// What a timed run does before its time begins.
fn before() -> String {
    format!("after watching the idle disk for {}", duration_ns(IDLE_NS))
}

fn seconds(ns: u64) -> String {
    format!("{} s", ns.div_ceil(1_000_000_000))
}

/// What several scenarios are about to do, one after the other, in words: the time of all, and of each.
pub fn joint_announcement(shares: &[Share]) -> String {
    let sum_ns = shares.iter().filter_map(|share| share.time_ns).fold(0, u64::saturating_add);
    let each = shares.iter().map(|share| match share.time_ns {
        Some(ns) => format!("`{}` {}", share.name, seconds(ns)),
        None => format!("`{}` however long its rounds take", share.name),
    });
    let uncounted = shares.iter().any(|share| share.time_ns.is_none());
    format!(
        "Will run {} one after the other, about {}{}: {}. Their files take up to {} at a time (removed afterwards).",
        plural(shares.len() as u64, "scenario", "scenarios"),
        seconds(sum_ns),
        if uncounted { " and what ends by its count" } else { " in all" },
        each.collect::<Vec<_>>().join(", "),
        ByteSize(shares.iter().map(|share| share.bytes).max().unwrap_or(0))
    )
}

/// What a scenario is about to do, in words: how much is written and how long it takes.
pub fn announcement(scenario: &Scenario, settings: &Settings, needs_bytes: u64) -> String {
    if scenario.ranked {
        return of_methods(scenario, settings);
    }
    let least_ns = scenario.least_ns(settings);
    let length = if let Some(ns) = settings.time_ns() {
        let about = format!("for about {}, {}", seconds(ns.max(least_ns)), before());
        let rounds = plural(u64::from(settings.rounds) + u64::from(settings.warm_up), "round", "rounds");
        if least_ns > ns {
            format!("{about}, because each of {rounds} takes its time (--rounds)")
        } else {
            about
        }
    } else {
        format!("in {}, however long they take", plural(u64::from(settings.rounds), "round", "rounds"))
    };
    format!(
        "Will run `{}` {length}, in files of its own of up to {} (removed afterwards).",
        scenario.name,
        ByteSize(needs_bytes)
    )
}

/// The same of a scenario whose rows are methods that commit into a journal.
fn of_methods(scenario: &Scenario, settings: &Settings) -> String {
    let mut methods = plural(settings.methods.len() as u64, "method", "methods");
    let others = settings.others.iter().filter(|other| !settings.methods.contains(other)).count() as u64;
    if look::looks(settings) {
        methods = format!("{methods} and, after a short look at {others} more, the best of those");
    }
    let fill_bytes = settings.fill_to_write();
    let fill = match fill_bytes {
        0 => String::new(),
        bytes => format!("fill a journal of {}, then ", ByteSize(bytes)),
    };
    let size = settings.record(settings.journal.bytes).transaction();
    if let Amount::Transactions(n) = settings.amount {
        let writers = settings.threads as u64 * settings.methods.len() as u64;
        let bytes = ByteSize(n * writers * settings.commit_bytes() + fill_bytes);
        return format!(
            "Will {fill}commit {n} transactions of {size} by each of {methods}: {bytes} in all; the first round shows how long that takes."
        );
    }
    let length = seconds(settings.time_ns().unwrap_or(0).max(scenario.least_ns(settings)));
    let before = before();
    format!("Will {fill}commit transactions of {size} by {methods}: about {length} in all, {before}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::Testbed as _;
    use crate::testbed::sim::SimTestbed;
    use seawall_sys::inspect::FoundLie;

    /// How an environment is spoiled, and words that the refusal must hold.
    type Case = (fn(&mut Environment), &'static [&'static str]);

    fn check_by_default(name: &str, needs: u64, environment: &Environment, allow: bool) -> Result<()> {
        let scenario = crate::scenario::find(name).expect(name);
        check(scenario, &(scenario.settings)(), needs, environment, allow)
    }

    #[test]
    fn what_cannot_be_measured_honestly_is_refused_with_a_remedy() {
        let cases: [Case; 4] = [
            (|e| e.file_system.medium = Medium::Memory, &["memory", "--allow-memory"]),
            (
                |e| e.lies.push(FoundLie { lie: Lie::SyncDisabled, evidence: "volatile".to_owned() }),
                &["ignores syncs (volatile)", "--allow-memory"],
            ),
            (|e| e.file_system.read_only = true, &["read-only"]),
            (|e| e.file_system.free_bytes = 1 << 20, &["1.0 MiB free", "--journal"]),
        ];
        let commit =
            |environment: &Environment, allow| check_by_default("commit", 1 << 30, environment, allow);
        let mut testbed = SimTestbed::new(1, Vec::new());
        assert!(commit(testbed.environment(0), false).is_ok());
        for (spoil, words) in cases {
            let mut environment = testbed.environments_mut()[0].clone();
            spoil(&mut environment);
            let refusal = commit(&environment, false).expect_err(words[0]).to_string();
            assert!(words.iter().all(|word| refusal.contains(word)), "{refusal}");
        }
        testbed.environments_mut()[0].file_system.medium = Medium::Memory;
        assert!(commit(testbed.environment(0), true).is_ok(), "with --allow-memory the calls are measured");
    }

    #[test]
    fn several_scenarios_are_announced_with_the_sum_of_their_times_none_shorter_than_it_can_be() {
        let share = |name: &str, time_s: u64| {
            let scenario = crate::scenario::find(name).expect(name);
            let mut settings = (scenario.settings)();
            settings.amount =
                settings.time_ns().map_or(settings.amount, |_| Amount::TimeNs(time_s * 1_000_000_000));
            Share::new(scenario, &settings, 1 << 30)
        };
        let stall = share("stall", 20);
        let path = share("path", 3);
        assert_eq!((stall.time_ns, share("cached", 20).time_ns), (Some(20_000_000_000), None));
        assert!(path.time_ns > Some(10_000_000_000), "70 rounds of ten rows: {path:?}");
        let words = joint_announcement(&[stall, path]);
        let sum_s = 20 + path.time_ns.expect("timed").div_ceil(1_000_000_000);
        assert!(
            words.contains(&format!("2 scenarios one after the other, about {sum_s} s in all")),
            "{words}"
        );
        let words = joint_announcement(&[share("commit", 1), share("cached", 1)]);
        assert!(words.contains("`cached` however long") && words.contains("1.0 GiB"), "{words}");
    }

    #[test]
    fn a_scenario_is_refused_where_it_would_lie_or_not_fit() {
        let mut testbed = SimTestbed::new(1, Vec::new());
        let check = check_by_default;
        assert!(check("stall", 1 << 30, testbed.environment(0), false).is_ok());
        let refusal =
            check("stall", 1 << 40, testbed.environment(0), false).expect_err("no space").to_string();
        assert!(refusal.contains("`stall`") && refusal.contains("free"), "{refusal}");
        testbed.environments_mut()[0].file_system.medium = Medium::Memory;
        assert!(matches!(check("stall", 1, testbed.environment(0), false), Err(Error::InMemory { .. })));
        assert!(check("stall", 1, testbed.environment(0), true).is_ok());
        assert!(check("path", 1, testbed.environment(0), false).is_ok(), "the published test ran on tmpfs");
        testbed.environments_mut()[0].file_system.read_only = true;
        assert!(matches!(check("path", 1, testbed.environment(0), false), Err(Error::ReadOnly { .. })));
    }
}
