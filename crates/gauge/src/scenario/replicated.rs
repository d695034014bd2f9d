//! Scenario `replicated`: commit latency of replicated engines, compared with local durable commits.
//!
//! The published text behind it redefines committed: "replicated to multiple machines, not necessarily committed to
//! disk". That is another promise, not a better or a worse one, so every row states what an acknowledged record
//! outlives ([`promise`]), and every engine's heading states when it syncs:
//!
//! ```text
//!   local    one writer, or many: the durable methods and the Seawall log, as in the scenario `group`
//!   engine   one client with 1 or 64 records in flight, each timed from its sending to its acknowledgement
//! ```
//!
//! Invariants: only clusters that the caller named are contacted; sync behaviour that an engine does not report is
//! called unknown; a record counts when it was acknowledged, and a missing acknowledgement ends the row.

pub mod promise;
mod real;

use super::commit::tally;
use super::group::{self, Sharing, commit_columns, derive};
use super::rounds::{self, Course};
use super::settings::Settings;
use super::{Observer, RunError};
use crate::block::Sample;
use crate::figures::{bytes, count, duration, listing, rate, significant};
use crate::findings::{Finding, Severity};
use crate::result::RunResult;
use crate::row::{Measured, Outcome, Row};
use crate::study::{Better, Column, Fact, Study, Unit};
use crate::testbed::real::RealTestbed;
use crate::testbed::{Testbed, Until};
use promise::{EngineFacts, Outlives, SyncPolicy, outlives, outlives_here};
use seawall_sys::durability::{Claim, FileState, classify};
use seawall_sys::method::Method;

/// The scenario's name.
pub const NAME: &str = "replicated";

/// Records in flight, row by row.
pub const IN_FLIGHT: [usize; 2] = [1, 64];

/// What a block is to do with an engine.
#[derive(Debug, Clone, Copy)]
pub struct BlockRequest<'a> {
    /// Index into the testbed's [`Engines`].
    pub engine: usize,
    /// Records sent and not yet acknowledged, at most.
    pub in_flight: usize,
    /// The row's id.
    pub id: &'a str,
    /// The parameters.
    pub settings: &'a Settings,
}

/// A replicated engine, connected, with a stream of its own.
pub trait EngineClient {
    /// What it reports of itself.
    fn facts(&self) -> &EngineFacts;

    /// Sends records until the block ends, never more than `order.in_flight` at a time without their acknowledgement,
    /// and waits for the last.
    ///
    /// # Errors
    /// A record was refused, or its acknowledgement did not come in time.
    fn run(&mut self, request: &BlockRequest<'_>, until: Until<'_>) -> Result<Sample, EngineError>;

    /// Removes what it created in the cluster.
    ///
    /// # Errors
    /// What was left behind there, and how to remove it.
    fn close(&mut self) -> Result<(), EngineError>;
}

/// The error of an engine's client; the gauge only reports it.
pub type EngineError = Box<dyn std::error::Error + Send + Sync>;

/// The engines of a run, attached to its testbed.
pub struct Engines(pub Vec<Box<dyn EngineClient>>);

impl Engines {
    /// Removes what the engines created in their clusters; to be called however the run ended. Returns what was left
    /// behind in any of them, and how to remove it.
    pub fn close(&mut self) -> Vec<EngineError> {
        self.0.drain(..).filter_map(|mut engine| engine.close().err()).collect()
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        // Who wants to know what was left behind has called it before.
        let _ = self.close();
    }
}

/// What the replicated engines say of themselves; none unless clusters were named.
fn engines(testbed: &mut dyn Testbed) -> Vec<EngineFacts> {
    let engines = testbed.real().ok().and_then(RealTestbed::attached::<Engines>);
    engines.map_or_else(Vec::new, |engines| engines.0.iter().map(|engine| engine.facts().clone()).collect())
}

#[derive(Debug, Clone, Copy)]
enum Committer {
    Method(&'static Method),
    Log,
    Engine(usize),
}

struct Case {
    committer: Committer,
    in_flight: usize,
    id: String,
}

/// The rows to come that have one committer.
struct CommitterRows {
    committer: Committer,
    id: String,
    group: String,
    what: String,
    outlives: Outlives,
    durability: Option<Claim>,
}

/// Runs the scenario.
///
/// # Errors
/// Nothing was measured.
pub fn run(
    settings: &Settings,
    testbed: &mut dyn Testbed,
    observer: &mut dyn Observer,
) -> Result<RunResult, RunError> {
    let engines = engines(testbed);
    if engines.is_empty() {
        return Err(RunError::Unavailable(
            "no cluster was named: `replicated` speaks to none of itself".to_owned(),
        ));
    }
    let (study, cases) = table(settings, testbed, &engines);
    let course = Course::new(NAME, settings, group::file_bytes(settings), study);
    rounds::run(course, testbed, observer, &finish, &mut |testbed, turn| {
        let (case, until) = (&cases[turn.index], turn.until);
        let request =
            |sharing, method| group::BlockRequest { sharing, writers: case.in_flight, method, settings };
        let block = match case.committer {
            Committer::Method(method) => group::block(testbed, &request(Sharing::File, method), until)?,
            // The log chooses its own method; this one only fills the field.
            Committer::Log => group::block(testbed, &request(Sharing::Log, settings.methods[0]), until)?,
            Committer::Engine(engine) => {
                let request = BlockRequest { engine, in_flight: case.in_flight, id: &case.id, settings };
                // A cluster that fails leaves the files here as they were.
                real::run(testbed.real()?, &request, until)?
            }
        };
        Ok(tally(&block, settings.bytes as u64))
    })
}

/// The figures that say what is outlived.
const OUTLIVED: [&str; 3] = ["outlives_process", "outlives_machine", "outlives_power_cut"];

/// The rows and what stands behind each.
fn table(settings: &Settings, testbed: &dyn Testbed, engines: &[EngineFacts]) -> (Study, Vec<Case>) {
    let mut rows = Vec::new();
    let mut cases = Vec::new();
    for kind in kinds(settings, testbed, engines) {
        for &in_flight in &settings.writers {
            let id = format!("{}/{in_flight}", kind.id);
            let method = match kind.committer {
                Committer::Method(method) => Some(method.into()),
                Committer::Log | Committer::Engine(_) => None,
            };
            rows.push(Row {
                what: kind.what.clone(),
                group: kind.group.clone(),
                x: Some(in_flight as f64),
                method,
                writers: u32::try_from(in_flight).ok(),
                outcome: promised(&kind),
                ..Row::waiting(id.clone(), count(in_flight as u64))
            });
            cases.push(Case { committer: kind.committer, in_flight, id });
        }
    }
    let study = Study {
        title: format!("commits of {}, replicated and local", bytes(settings.bytes as u64)),
        reproduces: "committed = \"replicated to multiple machines, not necessarily committed to disk\""
            .to_owned(),
        row_title: "in flight".to_owned(),
        settings: vec![Fact::new("size_bytes", "size", bytes(settings.bytes as u64))],
        facts: engines.iter().map(fact).collect(),
        columns: columns(),
        rows,
        notes: notes(engines),
        ..Study::default()
    };
    (study, cases)
}

/// Local methods first, then the log, then the engines.
fn kinds(settings: &Settings, testbed: &dyn Testbed, engines: &[EngineFacts]) -> Vec<CommitterRows> {
    let around = testbed.environment(0).surroundings(FileState::ZeroFilled);
    let mut kinds = Vec::new();
    for method in &settings.methods {
        let durability = classify(method, &around);
        kinds.push(CommitterRows {
            committer: Committer::Method(method),
            id: method.id.to_owned(),
            group: format!("{}, here · synced: before", method.id),
            what: "Each writer waits for its own sync; they share one file.".to_owned(),
            outlives: outlives_here(&durability),
            durability: Some(durability),
        });
    }
    // The log opens only with a method that is as durable as those.
    let durable = settings.methods.iter().map(|method| classify(method, &around)).max_by_key(|one| one.class);
    kinds.extend(durable.map(|durability| CommitterRows {
        committer: Committer::Log,
        id: "seawall-log".to_owned(),
        group: "Seawall log, here · synced: before".to_owned(),
        what: "Transactions of many writers share one write and one sync.".to_owned(),
        outlives: outlives_here(&durability),
        durability: None,
    }));
    kinds.extend(engines.iter().enumerate().map(|(engine, facts)| CommitterRows {
        committer: Committer::Engine(engine),
        id: facts.id.clone(),
        group: heading(facts),
        what: sentence(facts),
        outlives: outlives(facts),
        durability: None,
    }));
    kinds
}

/// A row that has not run yet, with its promise.
fn promised(kind: &CommitterRows) -> Outcome {
    let mut measured = Measured { durability: kind.durability.clone(), ..Measured::default() };
    let all = [kind.outlives.process, kind.outlives.machine, kind.outlives.power_cut];
    for (name, outlived) in OUTLIVED.iter().zip(all) {
        if let Some(figure) = outlived.figure() {
            measured.set(name, figure);
        }
    }
    Outcome::Measured(Box::new(measured))
}

fn heading(facts: &EngineFacts) -> String {
    let policy = match facts.policy {
        SyncPolicy::Before => "before",
        SyncPolicy::After => "later",
        SyncPolicy::Unknown => "unknown",
    };
    format!("{} · synced: {policy} ({})", facts.name, facts.setting)
}

fn sentence(facts: &EngineFacts) -> String {
    let version = facts.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
    format!(
        "{}{version}: acknowledged by at least {} of {} copies; {}, read from {}",
        facts.name, facts.acknowledged_by, facts.copies, facts.setting, facts.read_from
    )
}

fn fact(facts: &EngineFacts) -> Fact {
    Fact { key: facts.id.clone(), title: String::new(), value: sentence(facts) }
}

#[rustfmt::skip]
fn columns() -> Vec<Column> {
    let mut columns = commit_columns();
    for (name, title) in OUTLIVED.iter().zip(["process", "machine", "power cut"]) {
        columns.push(Column::figure(name, Unit::Outlived, Better::Larger, "what it outlives", title, true));
    }
    for (name, title) in [("flushes_per_commit", "flushes"), ("writes_per_commit", "writes")] {
        columns.push(Column::figure(name, Unit::Ratio, Better::Neither, "this machine's device", title, false));
    }
    columns
}

fn notes(engines: &[EngineFacts]) -> Vec<String> {
    let mut notes = vec![
        "A record outlives a process (the writer's, or one node's), the loss of one machine with its disk, or a power cut of all: three promises, of which none includes the next.".to_owned(),
        "What the disks of an engine's nodes do with a sync is not looked into.".to_owned(),
    ];
    if engines.iter().any(|facts| facts.on_this_machine) {
        notes.push("if apart: all nodes of that cluster share this machine, and so do their copies; it holds for nodes on machines of their own, where a network is added to each latency.".to_owned());
        notes.push("Flushes and writes of a cluster on this machine are those of all its nodes together, and of the device's other users.".to_owned());
    }
    notes
}

fn finish(study: &mut Study) {
    for row in &mut study.rows {
        let Some(measured) = row.measured_mut() else { continue };
        derive(measured);
        let commits = measured.commits as f64;
        if let Some(counts) = measured.counts.filter(|_| commits > 0.0) {
            measured.set("flushes_per_commit", counts.flushes as f64 / commits);
        }
    }
}

/// What the table says: what each engine's promise is, what it costs against a local commit, and what a sync would add.
pub fn judge(study: &Study) -> Vec<Finding> {
    let mut found = Vec::new();
    let engines = engines_of(study);
    found.extend(engines.iter().filter_map(|rows| beside_local(study, rows)));
    found.extend(not_synced(study, &engines));
    found.extend(unknown_policy(&engines));
    found.extend(one_machine(&engines));
    found
}

/// The rows of each engine; its fact is called like it.
fn engines_of(study: &Study) -> Vec<Vec<&Row>> {
    let keys: Vec<&str> = study.facts.iter().map(|fact| fact.key.as_str()).collect();
    keys.iter().map(|key| study.rows.iter().filter(|row| engine_of(row) == *key).collect()).collect()
}

/// A row's id without the number in flight.
fn engine_of(row: &Row) -> &str {
    row.id.rsplit_once('/').map_or(row.id.as_str(), |(engine, _)| engine)
}

fn figure(row: &Row, name: &str) -> Option<f64> {
    row.measured()?.figure(name)
}

fn p50_ns(row: &Row) -> Option<f64> {
    let latency = row.measured()?.latency("commit").filter(|latency| latency.count() > 0)?;
    Some(latency.p50_ns() as f64)
}

/// The row of `rows` with one commit in flight.
fn lone<'a>(rows: &[&'a Row]) -> Option<&'a Row> {
    rows.iter().find(|row| row.x == Some(1.0)).copied()
}

fn beside_local(study: &Study, rows: &[&Row]) -> Option<Finding> {
    let engine = lone(rows)?;
    let keys: Vec<&str> = study.facts.iter().map(|fact| fact.key.as_str()).collect();
    let outlives_cut = |row: &&Row| figure(row, "outlives_power_cut") == Some(1.0);
    let local = study
        .rows
        .iter()
        .filter(|row| row.x == Some(1.0) && !keys.contains(&engine_of(row)))
        .filter(outlives_cut)
        .min_by(|a, b| p50_ns(a).unwrap_or(f64::MAX).total_cmp(&p50_ns(b).unwrap_or(f64::MAX)))?;
    let (there_ns, here_ns) = (p50_ns(engine)?, p50_ns(local)?);
    let most = rows.iter().max_by(|a, b| a.x.unwrap_or(0.0).total_cmp(&b.x.unwrap_or(0.0)))?;
    let many = figure(most, "commits_per_s").filter(|_| most.id != engine.id);
    let many =
        many.map_or(String::new(), |per_s| format!("; {} in flight: {} records/s", most.label, rate(per_s)));
    Some(Finding {
        rule: "beside-local",
        severity: Severity::Note,
        sentence: format!(
            "{}: {} for an acknowledgement, {} times a local commit that outlives a power cut ({}){many}.",
            engine.group,
            duration(there_ns),
            significant(there_ns / here_ns),
            engine_of(local),
        ),
        remedy: "The promises differ: compare rows that outlive the same.".to_owned(),
    })
}

/// Engines that acknowledge before they sync; the remedy's price is given if it was measured.
fn not_synced(study: &Study, engines: &[Vec<&Row>]) -> Option<Finding> {
    let later: Vec<&Row> = engines
        .iter()
        .filter_map(|rows| lone(rows))
        .filter(|row| figure(row, "outlives_power_cut") == Some(0.0))
        .collect();
    let names: Vec<&str> = later.iter().map(|row| row.group.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    let kind = |row: &Row| engine_of(row).split('/').next().unwrap_or_default().to_owned();
    let priced: Vec<String> = later
        .iter()
        .filter_map(|row| {
            let synced = study.rows.iter().find(|other| {
                other.x == Some(1.0)
                    && kind(other) == kind(row)
                    && study.facts.iter().any(|fact| fact.key == engine_of(other))
                    && figure(other, "outlives_power_cut") == Some(1.0)
            })?;
            let times = p50_ns(synced)? / p50_ns(row)?;
            Some(format!("{}: {} times the latency here", engine_of(synced), significant(times)))
        })
        .collect();
    let price = if priced.is_empty() {
        String::new()
    } else {
        format!(" ({})", listing(&priced.iter().map(String::as_str).collect::<Vec<_>>(), 4))
    };
    Some(Finding {
        rule: "replicated-not-synced",
        severity: Severity::Caution,
        sentence: format!(
            "Acknowledged before it is synced anywhere: {}. A power cut of all nodes takes records that were acknowledged.",
            listing(&names, 4)
        ),
        remedy: format!(
            "Keep the nodes on supplies of their own, or let the engine sync first: `flush.messages=1` for a topic, `sync_interval: always` for JetStream{price}."
        ),
    })
}

fn unknown_policy(engines: &[Vec<&Row>]) -> Option<Finding> {
    let unknown: Vec<&str> = engines
        .iter()
        .filter_map(|rows| rows.first())
        .filter(|row| row.measured().is_some_and(|m| !m.rounds.is_empty()))
        .filter(|row| figure(row, "outlives_power_cut").is_none())
        .map(|row| row.group.as_str())
        .collect();
    if unknown.is_empty() {
        return None;
    }
    Some(Finding {
        rule: "replicated-sync-unknown",
        severity: Severity::Caution,
        sentence: format!("Whether this syncs before it acknowledges is unknown: {}.", listing(&unknown, 4)),
        remedy: "For JetStream, name the servers' monitoring ports with --nats-monitor; for Kafka, allow the client to describe the topic's configuration.".to_owned(),
    })
}

fn one_machine(engines: &[Vec<&Row>]) -> Option<Finding> {
    let here: Vec<&str> = engines
        .iter()
        .filter_map(|rows| rows.first())
        .filter(|row| figure(row, "outlives_machine") == Some(0.5))
        .map(|row| engine_of(row))
        .collect();
    if here.is_empty() {
        return None;
    }
    Some(Finding {
        rule: "replicated-one-machine",
        severity: Severity::Note,
        sentence: format!(
            "All nodes of {} run on this machine: it is lost with every copy, and no network is in the latencies.",
            listing(&here, 4)
        ),
        remedy: "Good for a trial; name a cluster of several machines for figures to decide by.".to_owned(),
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::sample::samples;
    use crate::scenario::settings::Amount;
    use crate::testbed::sim::SimTestbed;

    /// Acknowledges each record after this many nanoseconds.
    struct Prompt(EngineFacts, u64);

    impl EngineClient for Prompt {
        fn facts(&self) -> &EngineFacts {
            &self.0
        }

        fn run(&mut self, _: &BlockRequest<'_>, _: Until<'_>) -> Result<Sample, EngineError> {
            let latency = samples(100, self.1);
            Ok(Sample { commits: 100, bytes: 100, elapsed_ns: 100 * self.1, latency, ..Sample::default() })
        }

        fn close(&mut self) -> Result<(), EngineError> {
            Ok(())
        }
    }

    #[test]
    fn each_engine_has_its_promise_and_its_price_beside_the_local_rows() {
        let engine = |(id, policy, ns): (&str, SyncPolicy, u64)| {
            let facts = EngineFacts {
                id: id.to_owned(),
                name: "An engine".to_owned(),
                version: Some("9.9.9".to_owned()),
                copies: 3,
                acknowledged_by: 2,
                laggard_may_lead: false,
                policy,
                setting: format!("setting of {id}"),
                read_from: "itself".to_owned(),
                on_this_machine: true,
            };
            Box::new(Prompt(facts, ns)) as Box<dyn EngineClient>
        };
        let engines = [
            ("kafka/default", SyncPolicy::After, 300_000),
            ("kafka/flush-1", SyncPolicy::Before, 900_000),
            ("nats/unknown", SyncPolicy::Unknown, 400_000),
        ];
        let folder = tempfile::tempdir().expect("a folder");
        let environment = SimTestbed::new(1, Vec::new()).environment(0).clone();
        let mut testbed = RealTestbed::in_folder(folder.path(), environment);
        testbed.attach(Engines(engines.map(engine).into()));
        let amount = Amount::TimeNs(1_000_000_000);
        let settings = Settings { amount, rounds: 1, writers: vec![1, 4], ..Settings::default() };
        let result = run(&settings, &mut testbed, &mut crate::watcher::Watcher::default()).expect("a result");
        let outlived = |id: &str| OUTLIVED.map(|name| figure(result.study.row(id).expect(id), name));
        assert_eq!(outlived("kafka/default/1"), [Some(1.0), Some(0.5), Some(0.0)]);
        assert_eq!(outlived("kafka/flush-1/4"), [Some(1.0), Some(0.5), Some(1.0)]);
        assert_eq!(outlived("nats/unknown/1"), [Some(1.0), Some(0.5), None]);
        assert_eq!(outlived(&format!("{}/1", settings.methods[0].id)), [Some(1.0), Some(0.0), Some(1.0)]);
        assert_eq!(
            figure(result.study.row("kafka/default/1").expect("a row"), "commits_per_s"),
            Some(1e9 / 3e5)
        );
        let said = |rule: &str| -> Vec<String> {
            let of = judge(&result.study).into_iter().filter(|one| one.rule == rule);
            of.map(|one| one.sentence + " " + &one.remedy).collect()
        };
        assert_eq!(said("beside-local").len(), 3);
        let [unsynced] = &said("replicated-not-synced")[..] else { panic!("one") };
        assert!(
            unsynced.contains("setting of kafka/default") && !unsynced.contains("setting of kafka/flush-1"),
            "{unsynced}"
        );
        assert!(unsynced.contains("kafka/flush-1: 3.0"), "the price of a sync: {unsynced}");
        let [unknown] = &said("replicated-sync-unknown")[..] else { panic!("one") };
        assert!(unknown.contains("setting of nats/unknown"), "{unknown}");
        assert!(said("replicated-one-machine")[0].contains("kafka/default, kafka/flush-1 and nats/unknown"));
        let alone =
            run(&settings, &mut SimTestbed::new(1, Vec::new()), &mut crate::watcher::Watcher::default());
        assert!(matches!(alone, Err(RunError::Unavailable(why)) if why.contains("no cluster")));
    }
}
