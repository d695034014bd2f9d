//! Decides from the inspected environment whether a plan may run, before anything is written.
//!
//! Invariant: a refusal names the thing and the remedy; a fact that does not forbid the run is a finding, not a
//! refusal.

use crate::figures::plural;
use crate::plan::{Amount, Plan};
use crate::scenario::settings::Settings;
use crate::scenario::{Scenario, blocks_ns};
use bytesize::ByteSize;
use seawall_sys::durability::{Lie, Medium};
use seawall_sys::inspect::Environment;

/// Space that stays free beside the journal, bytes: result files, and the file system's own needs.
const MARGIN_BYTES: u64 = 64 << 20;

/// Refuses what cannot be measured honestly, or not at all.
///
/// `allow_memory`: the caller knows that nothing here outlives a crash and wants the figures all the same.
///
/// # Errors
/// In words, with the remedy.
pub fn check(plan: &Plan, environment: &Environment, allow_memory: bool) -> Result<(), String> {
    let file_system = &environment.file_system;
    if file_system.read_only && !plan.raw_device {
        return Err(format!(
            "the {} at this place is mounted read-only: name a folder that can be written",
            file_system.kind
        ));
    }
    if !allow_memory && !plan.raw_device {
        refuse_memory(environment)?;
    }
    let needed = plan.journal.bytes + MARGIN_BYTES;
    if !plan.raw_device && file_system.free_bytes < needed {
        return Err(format!(
            "the journal needs {} and the {} here has {} free: free some space, or give a smaller --journal",
            ByteSize(needed),
            file_system.kind,
            ByteSize(file_system.free_bytes)
        ));
    }
    Ok(())
}

/// Refuses a scenario that cannot be measured honestly in a folder, or does not fit: its files take `needs_bytes`.
///
/// # Errors
/// In words, with the remedy.
pub fn check_scenario(
    scenario: &Scenario,
    needs_bytes: u64,
    environment: &Environment,
    allow_memory: bool,
) -> Result<(), String> {
    let file_system = &environment.file_system;
    if file_system.read_only {
        return Err(format!(
            "the {} at this place is mounted read-only: name a folder that can be written",
            file_system.kind
        ));
    }
    if !allow_memory && scenario.study.is_some_and(|study| study.durable) {
        refuse_memory(environment)?;
    }
    let needed = needs_bytes.saturating_add(MARGIN_BYTES);
    if file_system.free_bytes < needed {
        return Err(format!(
            "`{}` needs up to {} and the {} here has {} free: free some space, or ask for less (`seawall bench --list` names the options)",
            scenario.name,
            ByteSize(needed),
            file_system.kind,
            ByteSize(file_system.free_bytes)
        ));
    }
    Ok(())
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
    /// Of the scenario `commit`.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Self {
        let time_ns = match plan.amount {
            Amount::TimeNs(ns) => Some(ns.max(least_ns(plan))),
            Amount::Transactions(_) => None,
        };
        Self { name: crate::scenario::commit::NAME, time_ns, bytes: plan.journal.bytes }
    }

    /// Of any other scenario, whose files take `bytes`.
    #[must_use]
    pub fn of_scenario(scenario: &Scenario, settings: &Settings, bytes: u64) -> Self {
        let least_ns = scenario.study.map_or(0, |study| study.least_ns(settings));
        let time_ns = settings.timed.then(|| settings.time_ns.max(least_ns));
        Self { name: scenario.name, time_ns, bytes }
    }
}

fn least_ns(plan: &Plan) -> u64 {
    blocks_ns(plan.methods.len() as u64 * u64::from(plan.rounds))
}

fn seconds(ns: u64) -> String {
    format!("{} s", ns.div_ceil(1_000_000_000))
}

/// What several scenarios are about to do, one after the other, in words: the time of all, and of each.
#[must_use]
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

/// What a scenario is about to do, in words.
#[must_use]
pub fn scenario_announcement(scenario: &Scenario, settings: &Settings, needs_bytes: u64) -> String {
    let length = if settings.timed {
        let least_ns = scenario.study.map_or(0, |study| study.least_ns(settings));
        let about = format!("for about {}", seconds(settings.time_ns.max(least_ns)));
        if least_ns > settings.time_ns {
            let blocks = u64::from(settings.rounds) + u64::from(settings.warm_up);
            format!(
                "{about}, because each of {} takes its time (--rounds)",
                plural(blocks, "round", "rounds")
            )
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

fn refuse_memory(environment: &Environment) -> Result<(), String> {
    const REMEDY: &str = "name a folder on the disk in question, or add --allow-memory to measure the calls without any durability";
    if environment.file_system.medium == Medium::Memory {
        return Err(format!(
            "{} keeps its files in memory, where nothing outlives a crash: {REMEDY}",
            environment.file_system.kind
        ));
    }
    if let Some(found) = environment.lies.iter().find(|found| found.lie == Lie::SyncDisabled) {
        return Err(format!("the file system here ignores syncs ({}): {REMEDY}", found.evidence));
    }
    Ok(())
}

/// What is about to happen, in words: how much is written and how long it takes.
#[must_use]
pub fn announcement(plan: &Plan) -> String {
    let methods = plural(plan.methods.len() as u64, "method", "methods");
    let fill = match plan.fill_to_write() {
        0 => String::new(),
        bytes => format!("fill a journal of {}, then ", ByteSize(bytes)),
    };
    let size = ByteSize(plan.transaction_bytes as u64);
    match plan.amount {
        Amount::TimeNs(ns) => {
            let length = seconds(ns.max(least_ns(plan)));
            format!("Will {fill}commit transactions of {size} by {methods}: about {length} in all.")
        }
        Amount::Transactions(n) => {
            let bytes = plan.bytes_to_write().unwrap_or(0);
            format!(
                "Will {fill}commit {n} transactions of {size} by each of {methods}: {} in all; how long that takes, the first round tells.",
                ByteSize(bytes)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig as _;
    use crate::rig::sim::SimRig;
    use seawall_sys::inspect::FoundLie;

    /// How an environment is spoiled, and words that the refusal must hold.
    type Case = (fn(&mut Environment), &'static [&'static str]);

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
        let plan = Plan::default();
        let mut rig = SimRig::new(plan.journal, 1, Vec::new());
        assert_eq!(check(&plan, rig.environment(), false), Ok(()));
        for (spoil, words) in cases {
            let mut environment = rig.environment_mut().clone();
            spoil(&mut environment);
            let refusal = check(&plan, &environment, false).expect_err(words[0]);
            assert!(words.iter().all(|word| refusal.contains(word)), "{refusal}");
        }
        rig.environment_mut().file_system.medium = Medium::Memory;
        assert_eq!(check(&plan, rig.environment(), true), Ok(()), "if asked, the calls are measured");
    }

    #[test]
    fn several_scenarios_are_announced_with_the_sum_of_their_times_none_shorter_than_it_can_be() {
        let share = |name: &str, time_s: u64| {
            let scenario = crate::scenario::find(name).expect(name);
            let settings = (scenario.study.expect("a study").settings)();
            Share::of_scenario(scenario, &Settings { time_ns: time_s * 1_000_000_000, ..settings }, 1 << 30)
        };
        let stall = share("stall", 20);
        let path = share("path", 3);
        assert_eq!((stall.time_ns, share("cached", 20).time_ns), (Some(20_000_000_000), None));
        assert!(path.time_ns > Some(10_000_000_000), "70 rounds of ten rows: {path:?}");
        let told = joint_announcement(&[stall, path]);
        let sum_s = 20 + path.time_ns.expect("timed").div_ceil(1_000_000_000);
        assert!(told.contains(&format!("2 scenarios one after the other, about {sum_s} s in all")), "{told}");
        let plan = Plan { amount: Amount::TimeNs(1_000_000_000), ..Plan::default() };
        let told = joint_announcement(&[Share::of_plan(&plan), share("cached", 1)]);
        assert!(told.contains("`cached` however long") && told.contains("1.0 GiB"), "{told}");
    }

    #[test]
    fn a_scenario_is_refused_where_it_would_lie_or_not_fit() {
        let mut rig = SimRig::new(Plan::default().journal, 1, Vec::new());
        let check = |name: &str, needs: u64, environment: &Environment, allow| {
            check_scenario(crate::scenario::find(name).expect(name), needs, environment, allow)
        };
        assert_eq!(check("stall", 1 << 30, rig.environment(), false), Ok(()));
        let refusal = check("stall", 1 << 40, rig.environment(), false).expect_err("no space");
        assert!(refusal.contains("`stall`") && refusal.contains("free"), "{refusal}");
        rig.environment_mut().file_system.medium = Medium::Memory;
        let refusal = check("stall", 1, rig.environment(), false).expect_err("memory");
        assert!(refusal.contains("--allow-memory"), "{refusal}");
        assert_eq!(check("stall", 1, rig.environment(), true), Ok(()));
        assert_eq!(check("path", 1, rig.environment(), false), Ok(()), "the published test ran on tmpfs");
        rig.environment_mut().file_system.read_only = true;
        assert!(
            check("path", 1, rig.environment(), false).is_err_and(|refusal| refusal.contains("read-only"))
        );
    }
}
