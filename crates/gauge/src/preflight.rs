//! Decides from the inspected environment whether a plan may run, before anything is written.
//!
//! Invariant: a refusal names the thing and the remedy; a fact that does not forbid the run is a finding, not a
//! refusal.

use crate::figures::plural;
use crate::plan::{Amount, Plan};
use crate::scenario::Scenario;
use crate::scenario::settings::Settings;
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

/// What a scenario is about to do, in words.
#[must_use]
pub fn scenario_announcement(scenario: &Scenario, settings: &Settings, needs_bytes: u64) -> String {
    let length = if settings.timed {
        let least_ns = scenario.study.map_or(0, |study| study.least_ns(settings));
        let about = format!("for about {} s", settings.time_ns.max(least_ns).div_ceil(1_000_000_000));
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
            let seconds = ns / 1_000_000_000;
            format!("Will {fill}commit transactions of {size} by {methods}: about {seconds} s in all.")
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
