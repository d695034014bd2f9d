//! Describes what is under a folder without measuring, for `seawall bench --dry-run`.
//!
//! Invariant: a fact that the system did not report is omitted, never invented.

use super::facts::{Fact, place};
use super::text::wrapped;
use crate::figures::bytes;
use crate::scenario::settings::Settings;
use crate::scenario::{SCENARIOS, Scenario};
use seawall_sys::durability::{Durability, classify};
use seawall_sys::inspect::{Device, Environment};

const LABEL: usize = 9;

/// The preview of a scenario in its folders, for a terminal of `width` columns.
pub fn preview(
    scenario: &Scenario,
    settings: &Settings,
    environments: &[&Environment],
    width: usize,
) -> String {
    let mut out = described(scenario, width);
    for environment in environments {
        let mut facts = place(environment, &settings.pin_to);
        facts.push(("space", space(environment)));
        facts.extend(environment.leaves().filter_map(limits));
        facts.push(("cpu", cpu(environment)));
        facts.extend(environment.lies.iter().map(|found| ("LIE", found.evidence.clone())));
        if scenario.ranked {
            facts.extend(classes(settings, environment));
            facts.extend(flushes(settings));
        }
        for (label, text) in facts {
            out += &lines(&format!("{label:LABEL$}"), &text, width);
        }
    }
    out
}

/// The table of scenarios.
pub fn scenarios(width: usize) -> String {
    let all: String = SCENARIOS.iter().map(|scenario| described(scenario, width)).collect();
    all + &lines(
        &format!("{:<LABEL$} ", "all"),
        "every scenario that needs nothing but a folder, one after the other; takes --time, --seed and --pin",
        width,
    )
}

fn described(scenario: &Scenario, width: usize) -> String {
    let indent = " ".repeat(LABEL);
    let mut out = lines(&format!("{:<LABEL$} ", scenario.name), scenario.summary, width);
    if !scenario.reproduces.is_empty() {
        out += &lines(&format!("{indent} original: "), scenario.reproduces, width);
    }
    let rounds = (scenario.settings)().rounds;
    out +=
        &lines(&format!("{indent} defaults: "), &format!("{}; --rounds {rounds}", scenario.defaults), width);
    out
}

fn lines(label: &str, text: &str, width: usize) -> String {
    wrapped(label, &" ".repeat(label.chars().count()), text, width)
        .iter()
        .map(|line| line.clone() + "\n")
        .collect()
}

fn space(environment: &Environment) -> String {
    let file_system = &environment.file_system;
    let (free, total) = (bytes(file_system.free_bytes), bytes(file_system.total_bytes));
    format!("{free} free of {total}, blocks of {}", bytes(file_system.block_bytes))
}

fn limits(leaf: &Device) -> Option<Fact> {
    let mut parts = Vec::new();
    parts.extend(leaf.logical_block_bytes.map(|size| format!("logical blocks of {}", bytes(size))));
    parts.extend(leaf.physical_block_bytes.map(|size| format!("physical blocks of {}", bytes(size))));
    parts.extend(leaf.atomic_write_bytes.map(|size| match size {
        0 => "no atomic writes".to_owned(),
        size => format!("atomic writes up to {}", bytes(size)),
    }));
    parts.extend(leaf.polls.map(|polls| if polls { "can be polled" } else { "no polling" }.to_owned()));
    parts.extend(leaf.scheduler.as_ref().map(|scheduler| format!("scheduler {scheduler}")));
    (!parts.is_empty()).then(|| ("limits", format!("{}: {}", leaf.name, parts.join(", "))))
}

fn cpu(environment: &Environment) -> String {
    let pressure = environment.pressure;
    let clock = environment.clock;
    let mut parts = Vec::new();
    parts.extend(pressure.load_1m.map(|load| format!("load {load:.2}")));
    parts.extend(pressure.waiting_percent_10s.map(|share| format!("tasks waited {share:.0} % of 10 s")));
    parts.extend(pressure.stolen_percent.map(|share| format!("{share:.1} % stolen since boot")));
    parts.push(format!(
        "reading the clock costs {:.0} ns, it ticks every {} ns",
        clock.read_ns, clock.tick_ns
    ));
    parts.join(", ")
}

fn classes(settings: &Settings, environment: &Environment) -> Vec<Fact> {
    let around = environment.surroundings(settings.journal.state);
    let of = |class: Durability| {
        let ids = settings.methods.iter().filter(|method| classify(method, &around).class == class);
        ids.map(|method| method.id).collect::<Vec<_>>()
    };
    let classes = Durability::ALL.into_iter().rev().map(|class| (class, of(class)));
    classes
        .filter(|(_, ids)| !ids.is_empty())
        .map(|(class, ids)| ("outlive", format!("{}: {}", class.name(), ids.join(", "))))
        .collect()
}

/// Of commits of several writes: which methods flush how often.
fn flushes(settings: &Settings) -> Option<Fact> {
    let each = settings.methods.iter().filter(|method| method.flushes_each_write());
    let each: Vec<&str> = each.map(|method| method.id).collect();
    let writes = settings.writes;
    (writes > 1).then(|| {
        let words = match each.as_slice() {
            [] => "once a commit, after its last write".to_owned(),
            each => format!(
                "{writes} a commit, one for each write: {}; the others sync once, after the last write",
                each.join(", ")
            ),
        };
        ("flushes", words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::Testbed as _;
    use crate::testbed::sim::SimTestbed;

    #[test]
    fn every_method_is_in_one_class_and_no_line_is_too_wide() {
        let scenario = &SCENARIOS[0];
        let testbed = SimTestbed::new(1, Vec::new());
        let text = preview(scenario, &(scenario.settings)(), &[testbed.environment(0)], 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for words in ["simfs on /dev/sim0", "logical blocks of 512 B", "64 GiB free", "power loss: "] {
            assert!(text.contains(words), "{words} is missing in\n{text}");
        }
    }
}
