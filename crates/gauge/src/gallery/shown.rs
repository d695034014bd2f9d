//! Projects a result onto an allow-list of fields: what a gallery shows of it.
//!
//! ```text
//!   field of a result           shown
//!   a figure, a yes or no       as it is, within bounds
//!   a name                      if it is in words.rs; else left out
//!   a row                       if this program knows its method: its id, calls and class are those of the table
//!   a text                      never: it is written anew from the figures
//! ```
//!
//! Invariants: every field is named below (no `..` copies one that is added later), so that what is new is left out until
//! it is allowed; no class is better than the one that this program computes; figures are finite and not negative.

use super::words;
use crate::lookup;
use crate::result::{PlanRecord, RunResult};
use crate::row::{Measured, NamedLatency, Outcome, Row, Series};
use crate::scenario::commit::{LATENCIES, table};
use seawall_sys::clock::Resolution;
use seawall_sys::counters::Watched;
use seawall_sys::durability::{Durability, Lie, classify};
use seawall_sys::inspect::{Device, Environment, FileSystem, FoundLie, Limit, LimitKind};
use std::fmt;

/// What is shown of a result, and what is not.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The result, without what is left out.
    pub result: RunResult,
    /// What was left out, in words; never its value.
    pub left_out: Vec<String>,
    /// Methods whose class the file states better than this program computes it.
    pub lowered: Vec<String>,
}

/// Why a result is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// Its rows are no commit methods.
    Scenario(String),
    /// No row measured anything by a method that this program knows.
    Empty,
    /// A figure is not finite, negative, or larger than a machine has.
    Figure(&'static str),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario(name) => write!(f, "is of the scenario `{name}`: a gallery shows `commit`"),
            Self::Empty => f.write_str("has no commit by a method that this program knows"),
            Self::Figure(what) => write!(f, "is damaged: {what} is no figure of a machine"),
        }
    }
}

impl std::error::Error for Unfit {}

/// What was left out, each thing once.
#[derive(Default)]
struct LeftOut(Vec<String>);

impl LeftOut {
    fn note(&mut self, what: &str) {
        if self.0.iter().all(|known| known != what) {
            self.0.push(what.to_owned());
        }
    }

    /// What `allowed` makes of a name; if it makes nothing of it, that is noted.
    fn name(&mut self, what: &str, text: &str, allowed: fn(&str) -> Option<String>) -> Option<String> {
        let shown = allowed(text);
        if shown.as_deref() != Some(text) {
            self.note(what);
        }
        shown
    }

    /// The same of a name that may be unknown.
    fn maybe(
        &mut self,
        what: &str,
        text: Option<&String>,
        allowed: fn(&str) -> Option<String>,
    ) -> Option<String> {
        text.and_then(|text| self.name(what, text, allowed))
    }
}

/// What a gallery shows of `result`.
///
/// # Errors
/// It has nothing for a gallery, or figures that no machine has.
pub fn shown(result: &RunResult) -> Result<Shown, Unfit> {
    if !result.study.ranked {
        return Err(Unfit::Scenario(result.scenario.chars().take(40).collect()));
    }
    check(result)?;
    let mut left_out = LeftOut::default();
    let mut lowered = Vec::new();
    let environment = environment(&result.environment, &mut left_out);
    let plan = plan(&result.plan, &mut left_out);
    let rows = rows(result, &environment, &mut left_out, &mut lowered);
    if rows.iter().filter_map(Row::measured).all(|measured| measured.main().count() == 0) {
        return Err(Unfit::Empty);
    }
    if result.label.is_some() {
        left_out.note("the label of the run");
    }
    if !(result.study.notes.is_empty() && result.study.facts.is_empty() && result.study.settings.is_empty()) {
        left_out.note("notes of the run");
    }
    let shown = RunResult {
        format: crate::result::FORMAT.to_owned(),
        version: crate::result::VERSION,
        seawall: left_out
            .name("parts of the program's version", &result.seawall, words::version)
            .unwrap_or_default(),
        scenario: "commit".to_owned(),
        label: None,
        started_unix_s: result.started_unix_s,
        complete: result.complete,
        study: table(&plan, rows),
        plan,
        environment,
        journal: result.journal.clone(),
        idle: result.idle,
        // How many rounds were run is shown, their order is not.
        order: vec![Vec::new(); result.order.len()],
    };
    Ok(Shown { result: shown, left_out: left_out.0, lowered })
}

/// Figures that the reader of results leaves as they are, because no report of one's own run is harmed by them.
fn check(result: &RunResult) -> Result<(), Unfit> {
    const CPUS_MAX: usize = 1 << 16;
    const MANY: f64 = 1e12;
    let environment = &result.environment;
    let pressure = &environment.pressure;
    let sane = |value: f64| (0.0..=MANY).contains(&value);
    let listed = |value: Option<f64>| value.is_none_or(sane);
    let counts = result.study.measured().filter_map(|(_, measured)| measured.counts);
    let counted = |n: u64| n < 1 << 60;
    let checks = [
        ("the number of CPUs", (1..=CPUS_MAX).contains(&environment.cpus)),
        (
            "the list of CPUs",
            result.plan.pinned_to.len() <= 1024 && result.plan.pinned_to.iter().all(|cpu| *cpu < CPUS_MAX),
        ),
        ("the memory", environment.memory_bytes.is_none_or(counted)),
        (
            "the load",
            listed(pressure.load_1m)
                && listed(pressure.waiting_percent_10s)
                && listed(pressure.stolen_percent),
        ),
        ("the cost of the clock", sane(environment.clock.read_ns)),
        ("the rate of arrivals", listed(result.plan.rate_per_s)),
        ("the number of rounds", result.plan.rounds <= 10_000),
        ("the number of writers", (1..=1 << 16).contains(&result.plan.threads)),
        (
            "a device's count",
            counts.into_iter().all(|of| [of.writes, of.sectors, of.flushes].into_iter().all(counted)),
        ),
        (
            "a count of commits",
            result.study.measured().all(|(_, measured)| measured.commits == measured.main().count()),
        ),
    ];
    checks.into_iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(Unfit::Figure(what)))
}

fn plan(plan: &PlanRecord, left_out: &mut LeftOut) -> PlanRecord {
    PlanRecord {
        transaction_bytes: plan.transaction_bytes,
        writes: plan.writes,
        workload: left_out.maybe("the words of the load", plan.workload.as_ref(), words::sizes),
        journal_bytes: plan.journal_bytes,
        transactions: plan.transactions,
        time_ns: plan.time_ns,
        rounds: plan.rounds,
        file_state: plan.file_state,
        fill_bytes: plan.fill_bytes,
        keep_cached: plan.keep_cached,
        threads: plan.threads,
        rate_per_s: plan.rate_per_s,
        seed: 0,
        pinned_to: plan.pinned_to.clone(),
        raw_device: plan.raw_device,
    }
}

fn environment(of: &Environment, left_out: &mut LeftOut) -> Environment {
    const UNNAMED: &str = "one that is not named here";
    let hypervisor = left_out.maybe("the hypervisor's name", of.hypervisor.as_ref(), words::hypervisor);
    let container = left_out.maybe("the container's name", of.container.as_ref(), words::container);
    let wine = left_out.maybe("parts of Wine's version", of.wine.as_ref(), words::version);
    let named = |name: Option<String>, is: bool| is.then(|| name.unwrap_or_else(|| UNNAMED.to_owned()));
    let writeback = |(name, value): &(String, String)| {
        let number = value.parse::<u64>().ok()?;
        Some((words::writeback(name)?, number.to_string()))
    };
    Environment {
        system: left_out
            .name("parts of the system's version", &of.system, words::system)
            .unwrap_or_else(|| "a system that is not named here".to_owned()),
        cpus: of.cpus,
        cpu_model: left_out.maybe("parts of the CPU's name", of.cpu_model.as_ref(), words::cpu),
        memory_bytes: of.memory_bytes,
        hypervisor: named(hypervisor, of.hypervisor.is_some()),
        container: named(container, of.container.is_some()),
        wine: named(wine, of.wine.is_some()),
        pressure: of.pressure,
        clock: Resolution { read_ns: of.clock.read_ns, tick_ns: of.clock.tick_ns },
        file_system: file_system(of, left_out),
        devices: devices(&of.devices, left_out),
        lies: of
            .lies
            .iter()
            .map(|found| FoundLie { lie: found.lie, evidence: lie(found.lie).to_owned() })
            .collect(),
        writeback: of.writeback.iter().filter_map(writeback).collect(),
        limits: of.limits.iter().map(limit).collect(),
    }
}

/// A limit, without the file and the group that set it.
fn limit(limit: &Limit) -> Limit {
    let source = match limit.kind {
        LimitKind::Cpu => "a limit of CPU time",
        LimitKind::Requests => "a limit of requests",
        LimitKind::Bytes => "a limit of bytes",
    };
    Limit { source: source.to_owned(), ..limit.clone() }
}

/// What stands for the evidence of a lie, which may name a library or a device.
fn lie(lie: Lie) -> &'static str {
    match lie {
        Lie::Preload => "a preloaded library",
        Lie::BarriersOff => "barriers off, or a hidden cache",
        Lie::HiddenCache => "a hidden cache",
        Lie::SyncDisabled => "a setting of the file system",
        Lie::WineFlags => "Wine",
    }
}

fn file_system(of: &Environment, left_out: &mut LeftOut) -> FileSystem {
    let file_system = &of.file_system;
    left_out.note("what is mounted, and where");
    let options: Vec<String> =
        file_system.options.iter().filter_map(|option| words::option(option)).collect();
    if options.len() < file_system.options.len() {
        left_out.note("mount options that are not on the list");
    }
    FileSystem {
        kind: left_out
            .name("the file system's name", &file_system.kind, words::file_system)
            .unwrap_or_else(|| "another file system".to_owned()),
        source: super::device_kind(of).in_words().to_owned(),
        options,
        medium: file_system.medium,
        copy_on_write: file_system.copy_on_write,
        shares_extents: file_system.shares_extents,
        weak_calls: file_system.weak_calls,
        synchronous: file_system.synchronous,
        read_only: file_system.read_only,
        block_bytes: file_system.block_bytes,
        free_bytes: 0,
        total_bytes: 0,
    }
}

/// The devices under names that say nothing: `device 1` and so on.
fn devices(of: &[Device], left_out: &mut LeftOut) -> Vec<Device> {
    let renamed = |name: &String| {
        let at = of.iter().position(|device| device.name == *name);
        at.map_or_else(|| "another device".to_owned(), |at| format!("device {}", at + 1))
    };
    if !of.is_empty() {
        left_out.note("names and sizes of devices");
    }
    let mut devices = Vec::new();
    for device in of {
        let model = device.model.as_ref().and_then(|model| words::model(model.trim(), &device.kind));
        if model.as_deref() != device.model.as_deref().map(str::trim) {
            left_out.note("a device's model, or parts of it");
        }
        devices.push(Device {
            name: renamed(&device.name),
            kind: left_out
                .name("a device's kind", &device.kind, words::device)
                .unwrap_or_else(|| "device".to_owned()),
            stands_on: device.stands_on.iter().map(renamed).collect(),
            model,
            transport: left_out.maybe(
                "how a device is attached",
                device.transport.as_ref(),
                words::transport,
            ),
            bytes: None,
            write_cache: device.write_cache,
            fua: device.fua,
            rotational: device.rotational,
            logical_block_bytes: device.logical_block_bytes,
            physical_block_bytes: device.physical_block_bytes,
            atomic_write_bytes: device.atomic_write_bytes,
            polls: device.polls,
            scheduler: left_out.maybe("a device's scheduler", device.scheduler.as_ref(), words::scheduler),
            direct_io: device.direct_io,
            counting: device.counting,
        });
    }
    devices
}

fn rows(
    result: &RunResult,
    environment: &Environment,
    left_out: &mut LeftOut,
    lowered: &mut Vec<String>,
) -> Vec<Row> {
    let around = environment.surroundings(result.plan.file_state);
    let mut rows: Vec<Row> = Vec::new();
    for row in &result.study.rows {
        let method = lookup::method(result, row).filter(|method| rows.iter().all(|row| row.id != method.id));
        let Some(method) = method else {
            left_out.note("rows of methods that this program does not know");
            continue;
        };
        let computed = classify(method, &around);
        let outcome = match &row.outcome {
            Outcome::Measured(measured) => {
                let claimed = measured.durability.as_ref().map(|durability| durability.class);
                let durability = match claimed {
                    Some(claimed) if claimed < computed.class => {
                        Durability { class: claimed, promised_by: computed.promised_by, because: Vec::new() }
                    }
                    _ => computed.clone(),
                };
                if claimed.is_some_and(|claimed| claimed > computed.class) {
                    lowered.push(method.id.to_owned());
                }
                Outcome::Measured(Box::new(measured_of(
                    measured,
                    durability,
                    method.reach().letter(),
                    left_out,
                )))
            }
            Outcome::NotAvailable { .. } => {
                left_out.note("why methods were not measured");
                Outcome::NotAvailable { reason: "the reason is left out".to_owned() }
            }
            Outcome::Failed { of_device, .. } => {
                left_out.note("why methods were not measured");
                Outcome::Failed { error: "the error is left out".to_owned(), of_device: *of_device }
            }
        };
        rows.push(Row {
            id: method.id.to_owned(),
            label: method.id.to_owned(),
            what: method.calls.to_owned(),
            group: String::new(),
            x: None,
            place: None,
            method: Some(method.into()),
            writers: None,
            outcome,
        });
    }
    rows
}

/// What was counted, without the names of devices.
fn nameless(mut watched: Watched) -> Watched {
    for (number, level) in (1..).zip(&mut watched.levels) {
        level.devices = format!("level {number}");
    }
    watched
}

fn measured_of(of: &Measured, durability: Durability, letter: char, left_out: &mut LeftOut) -> Measured {
    let latency = |named: &NamedLatency| {
        let (name, title) = LATENCIES.into_iter().find(|(name, _)| *name == named.name)?;
        Some(NamedLatency { name: name.to_owned(), title: title.to_owned(), latency: named.latency.clone() })
    };
    let series = |series: &Series| Series {
        name: LATENCIES[0].0.to_owned(),
        title: "longest commit in each span".to_owned(),
        points: series.points.clone(),
    };
    if !(of.notes.is_empty() && of.figures.is_empty() && of.calls.is_empty() && of.iterations.is_empty()) {
        left_out.note("notes of rows");
    }
    Measured {
        claims: None,
        watched: of.watched.clone().map(nameless),
        durability: Some(durability),
        letter: Some(letter),
        commits: of.commits,
        bytes: of.bytes,
        elapsed_ns: of.elapsed_ns,
        latencies: of.latencies.iter().filter_map(latency).collect(),
        figures: Vec::new(),
        calls: Vec::new(),
        series: of.series.iter().filter(|one| one.name == LATENCIES[0].0).take(1).map(series).collect(),
        rounds: of.rounds.clone(),
        counts: of.counts,
        cpu: of.cpu,
        tail: of.tail,
        iterations: Vec::new(),
        notes: Vec::new(),
    }
}
