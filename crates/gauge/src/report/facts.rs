//! Renders the lines above the table: the conditions under which the figures were measured.
//!
//! Invariant: a fact that the system did not report is printed as unknown, or omitted where nothing depends on it.

use crate::figures::{bytes, duration_ns, plural, rate, round_duration};
use crate::rank::Ranking;
use crate::result::RunResult;
use seawall_sys::durability::{DeviceCache, FileState, Medium, Promiser};
use seawall_sys::inspect::{Device, Environment};

/// A label and what it says.
pub(crate) type Fact = (&'static str, String);

/// What was done, in one line.
pub fn title(result: &RunResult) -> String {
    let (plan, study) = (&result.plan, &result.study);
    let amount = match plan.transactions {
        Some(n) => format!("{} commits a method", crate::figures::count(n)),
        None => plan.time_ns.map_or(String::new(), |ns| format!("{} in all", round_duration(ns))),
    };
    let rounds = if result.complete {
        plural(u64::from(plan.rounds), "round", "rounds")
    } else {
        format!("{} of {} rounds", result.order.len(), plan.rounds)
    };
    let (what, writers) = if study.ranked {
        let arrivals = plan.rate_per_s.map(|per_s| format!("{} arrivals/s each", rate(per_s)));
        let arrivals = arrivals.unwrap_or_else(|| "closed loop".to_owned());
        let writers = plural(u64::from(plan.threads), "writer", "writers");
        (format!("{} a commit", plan.transaction()), format!("{writers}, {arrivals}"))
    } else {
        (study.title.clone(), String::new())
    };
    let seawall = format!("seawall {} {}", result.seawall, result.scenario);
    let parts = [result.label.clone().unwrap_or_default(), seawall, what, amount, rounds, writers];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// The day and time at which a result was begun; `None` if its clock names no day of four-digit years.
pub fn day(result: &RunResult) -> Option<String> {
    Some(result.started_unix_s).filter(|seconds| *seconds > 0).and_then(day_of)
}

/// A Unix time in seconds as a date and time, UTC; `None` from the year 10,000 on.
pub(crate) fn day_of(unix_s: u64) -> Option<String> {
    /// The last second that has a date of four digits for its year.
    const LAST_S: u64 = 253_402_300_799;
    let at = || std::time::UNIX_EPOCH + std::time::Duration::from_secs(unix_s);
    (unix_s <= LAST_S).then(|| humantime::format_rfc3339_seconds(at()).to_string())
}

/// The same, or the seconds themselves where they have no such day: a clock without a battery may say anything.
pub fn stamp_of(unix_s: u64) -> String {
    day_of(unix_s).unwrap_or_else(|| format!("{unix_s}s"))
}

/// The lines above the table.
pub fn facts(ranking: &Ranking<'_>) -> Vec<(String, String)> {
    let result = ranking.result;
    let study = &result.study;
    let mut facts = Vec::new();
    if !study.reproduces.is_empty() {
        facts.push(("original".to_owned(), study.reproduces.clone()));
    }
    if study.places.is_empty() {
        let place = place(&result.environment, &result.plan.pinned_to);
        facts.extend(place.into_iter().map(|(label, text)| (label.to_owned(), text)));
    }
    for one in &study.places {
        let parts = place(&one.environment, &result.plan.pinned_to).into_iter();
        let parts = parts.filter(|(label, _)| ["files", "device"].contains(label)).map(|(_, text)| text);
        facts.push((one.label.clone(), parts.collect::<Vec<_>>().join("; ")));
    }
    if !study.facts.is_empty() {
        let words = study.facts.iter().map(|fact| format!("{} {}", fact.title, fact.value));
        facts.push(("settings".to_owned(), words.collect::<Vec<_>>().join(", ")));
    }
    if result.journal.times_made > 0 {
        facts.push(("journal".to_owned(), journal(result)));
    }
    if ranking.best_durable().is_some() {
        facts.push(("promise".to_owned(), promise(result)));
    }
    facts
}

/// Machine, file system and leaf devices.
pub fn place(environment: &Environment, pinned_to: &[usize]) -> Vec<Fact> {
    let mut facts = vec![("machine", machine(environment, pinned_to)), ("files", file_system(environment))];
    let leaves: Vec<&Device> = environment.leaves().collect();
    if leaves.is_empty() {
        facts.push(("device", "none that this system shows".to_owned()));
    }
    facts.extend(leaves.into_iter().map(|leaf| ("device", device(leaf))));
    facts
}

fn machine(environment: &Environment, pinned_to: &[usize]) -> String {
    let mut parts = vec![environment.system.clone(), plural(environment.cpus as u64, "CPU", "CPUs")];
    parts.extend(environment.cpu_model.clone());
    parts.extend(environment.memory_bytes.map(|n| format!("{} memory", bytes(n))));
    parts.extend(environment.hypervisor.as_ref().map(|name| format!("virtual machine: {name}")));
    parts.extend(environment.container.as_ref().map(|name| format!("container ({name})")));
    parts.extend(environment.wine.as_ref().map(|version| format!("Wine {version}")));
    parts.push(match pinned_to {
        [] => "writers not pinned".to_owned(),
        cpus => format!(
            "writers pinned to CPU {}",
            cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
        ),
    });
    parts.join(", ")
}

fn file_system(environment: &Environment) -> String {
    let file_system = &environment.file_system;
    let mut text = format!("{} on {}", file_system.kind, file_system.source);
    if !file_system.options.is_empty() {
        text = format!("{text} ({})", file_system.options.join(","));
    }
    if file_system.copy_on_write {
        text += ", copy-on-write";
    }
    match file_system.medium {
        Medium::Memory => text += ", in memory",
        Medium::Server => text += ", with a server",
        Medium::Block | Medium::Unknown | Medium::NotMemory => {}
    }
    text
}

pub(crate) fn device(leaf: &Device) -> String {
    let mut parts = vec![leaf.name.clone()];
    parts.extend(leaf.model.as_ref().map(|model| model.trim().to_owned()));
    parts.extend(leaf.transport.clone());
    // What a virtual disk says of turning is a default, not a fact.
    if leaf.transport.as_deref() != Some("virtio") {
        let turns = |turns| if turns { "says it turns" } else { "does not turn" };
        parts.extend(leaf.rotational.map(|rotational| turns(rotational).to_owned()));
    }
    parts.push(
        match leaf.write_cache {
            DeviceCache::WriteBack => "volatile write cache",
            DeviceCache::WriteThrough => "no volatile write cache",
            DeviceCache::Unknown => "write cache unknown",
        }
        .to_owned(),
    );
    parts.extend(leaf.fua.map(|fua| if fua { "FUA" } else { "no FUA" }.to_owned()));
    parts.join(", ")
}

fn journal(result: &RunResult) -> String {
    let (plan, journal) = (&result.plan, &result.journal);
    if plan.raw_device {
        return format!("the raw device, {} of it", bytes(plan.journal_bytes));
    }
    let verified = match journal.layout_before {
        Some(layout) if layout.agrees_with(plan.file_state, plan.journal_bytes) => "verified by its extents",
        Some(_) => "NOT what its extents show",
        None => "not verified: this system shows no extents",
    };
    let filled = match plan.file_state {
        FileState::ZeroFilled | FileState::Recycled => format!(" by writes of {}", bytes(plan.fill_bytes)),
        FileState::Appending | FileState::Unwritten | FileState::WriteZeroes => String::new(),
    };
    format!(
        "{}, {}{filled} in {}, {verified}",
        bytes(plan.journal_bytes),
        plan.file_state.name(),
        duration_ns(journal.made_in_ns)
    )
}

/// Who promises that a power cut is outlived.
pub fn promise(result: &RunResult) -> String {
    match result.environment.promiser() {
        Promiser::Device => "durability is promised by the device".to_owned(),
        Promiser::Hypervisor => format!(
            "durability is promised by the hypervisor, {}, which is less than a device's word",
            result.environment.hypervisor.as_deref().unwrap_or("unnamed")
        ),
        Promiser::Server => {
            "durability is promised by a server, which is less than a device's word".to_owned()
        }
        Promiser::Wine => "durability is promised by Wine, which is no promise".to_owned(),
        Promiser::Unknown => "who promises durability is unknown".to_owned(),
    }
}

/// On whose word it hangs, for the heading over the methods that outlive a power cut.
pub fn condition(environment: &Environment) -> String {
    match environment.promiser() {
        Promiser::Device => "if the device keeps its word".to_owned(),
        Promiser::Hypervisor => format!(
            "if the hypervisor, {}, keeps its word",
            environment.hypervisor.as_deref().unwrap_or("unnamed")
        ),
        Promiser::Server => "if the server keeps its word".to_owned(),
        Promiser::Wine => "on paper: under Wine nobody promises it".to_owned(),
        Promiser::Unknown => "though who promises it is unknown".to_owned(),
    }
}
