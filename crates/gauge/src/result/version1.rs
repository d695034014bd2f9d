//! Reads a result file of format version 1, in which scenario `commit` had a table of its own.
//!
//! Invariant: what version 1 did not keep is left unknown; every figure that it kept is the same in version 2.

use super::{FORMAT, Idle, JournalRecord, PlanRecord, RunResult, VERSION};
use crate::latency::Latency;
use crate::row::{self, Measured, MethodName, NamedLatency, Round, Row, Tail};
use crate::scenario::{commit, group, replicated};
use crate::study::Study;
use seawall_sys::counters::Counts;
use seawall_sys::durability::Durability;
use seawall_sys::inspect::Environment;
use seawall_sys::thread::Times;
use serde::Deserialize;

/// A whole run.
#[derive(Deserialize)]
pub(super) struct Run {
    seawall: String,
    scenario: String,
    #[serde(default)]
    label: Option<String>,
    started_unix_s: u64,
    complete: bool,
    plan: PlanRecord,
    environment: Environment,
    journal: JournalRecord,
    idle: Option<Idle>,
    methods: Vec<Method>,
    order: Vec<Vec<usize>>,
    #[serde(default)]
    study: Option<Study>,
}

/// A row of scenario `commit`.
#[derive(Deserialize)]
struct Method {
    id: String,
    calls: String,
    outcome: OldOutcome,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OldOutcome {
    Measured(Box<Figures>),
    NotAvailable { reason: String },
    Failed { error: String },
}

#[derive(Deserialize)]
struct Figures {
    durability: Durability,
    letter: char,
    commits: u64,
    bytes: u64,
    elapsed_ns: u64,
    latency: Latency,
    write: Option<Latency>,
    sync: Option<Latency>,
    response: Option<Latency>,
    counts: Option<Counts>,
    cpu: Times,
    tail: Tail,
    rounds: Vec<Round>,
}

impl From<Run> for RunResult {
    fn from(run: Run) -> Self {
        let study = match run.study {
            Some(study) => completed(study, &run.scenario, run.plan.transaction_bytes),
            None => commit::table(&run.plan, run.methods.into_iter().map(Row::from).collect()),
        };
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            seawall: run.seawall,
            scenario: run.scenario,
            label: run.label,
            started_unix_s: run.started_unix_s,
            complete: run.complete,
            plan: run.plan,
            environment: run.environment,
            journal: run.journal,
            idle: run.idle,
            order: run.order,
            study,
        }
    }
}

/// Version 1 counted the commits of a row in a figure of that name, or in the latencies alone; the writers of `group` and
/// `replicated` stood on the rows' axis alone.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts, never negative")]
fn completed(mut study: Study, scenario: &str, transaction_bytes: u64) -> Study {
    let counts_writers = [group::NAME, replicated::NAME].contains(&scenario);
    for row in &mut study.rows {
        if counts_writers {
            row.writers = row.x.filter(|writers| (1.0..1e6).contains(writers)).map(|writers| writers as u32);
        }
        let Some(measured) = row.measured_mut() else { continue };
        let counted = measured.figure("commits").filter(|commits| (0.0..1e18).contains(commits));
        let timed = || measured.durability.as_ref().map_or(0, |_| measured.main().count());
        measured.commits = counted.map_or_else(timed, |commits| commits as u64);
        measured.bytes = measured.commits.saturating_mul(transaction_bytes);
    }
    study
}

impl From<Method> for Row {
    fn from(Method { id, calls, outcome }: Method) -> Self {
        let outcome = match outcome {
            OldOutcome::Measured(figures) => row::Outcome::Measured(Box::new((*figures).into())),
            OldOutcome::NotAvailable { reason } => row::Outcome::NotAvailable { reason },
            OldOutcome::Failed { error } => row::Outcome::Failed { error, of_device: false },
        };
        let method = Some(MethodName { id: id.clone(), calls: calls.clone() });
        Self { what: calls, method, outcome, ..Self::waiting(id.clone(), id) }
    }
}

impl From<Figures> for Measured {
    fn from(figures: Figures) -> Self {
        let named = |(name, title): (&str, &str), latency: Option<Latency>| {
            latency.map(|latency| NamedLatency::new(name, title, latency))
        };
        let [whole, write, sync, response] = commit::LATENCIES;
        let latencies = [
            named(whole, Some(figures.latency)),
            named(write, figures.write),
            named(sync, figures.sync),
            named(response, figures.response),
        ];
        Self {
            durability: Some(figures.durability),
            letter: Some(figures.letter),
            commits: figures.commits,
            bytes: figures.bytes,
            elapsed_ns: figures.elapsed_ns,
            latencies: latencies.into_iter().flatten().collect(),
            counts: figures.counts,
            cpu: figures.cpu,
            tail: figures.tail,
            rounds: figures.rounds,
            ..Self::default()
        }
    }
}
