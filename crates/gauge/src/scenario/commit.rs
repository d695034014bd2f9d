//! Scenario `commit`: the latency of one durable commit by every method.
//!
//! ```text
//!   make the journal ─ prove each method ─ idle baseline ─ round 1 ─ round 2 … ─ layout again
//!                                                             │
//!                     for each method, in an order drawn for this round:
//!                       open · warm · counters · commits · counters · close · settle
//! ```
//!
//! The published experiment ran its methods once, in fixed order, on one file, from unwritten extents, without a sync
//! between: the first paid for the extents, and each paid for the dirty pages of the one before.
//!
//! Invariants: between two blocks the journal is at rest; writes of bringing it to rest are in no method's counters;
//! a method that failed is not run again.

use super::budget::Budget;
use super::{Observer, RunError};
use crate::evidence;
use crate::latency::Latency;
use crate::measure::{self, Sample, Slice};
use crate::plan::{Amount, Plan};
use crate::result::{
    FORMAT, Idle, JournalRecord, Measured, MethodResult, Outcome, Round, RunResult, Tail, VERSION,
};
use crate::rig::{Lane, Rig};
use seawall_sys::buffer::Aligned;
use seawall_sys::counters::Counts;
use seawall_sys::durability::{Durability, classify};
use seawall_sys::method::{Depth, Method};
use seawall_sys::starting_line::{START_THREAD, run_together};
use seawall_sys::thread::Times;
use seawall_sys::{Error, OpenError};
use std::sync::atomic::{AtomicBool, Ordering};

/// The scenario's name in results and on the command line.
pub const NAME: &str = "commit";

/// How long the idle baseline is watched, nanoseconds.
const IDLE_NS: u64 = 500_000_000;

/// Methods that leave their bytes in memory write at most this much in a block, because all of it must be
/// written back before the next block: the budget would go into settling.
const KERNEL_BLOCK_BYTES: u64 = 64 << 20;

/// What a block warms at most, bytes.
const WARM_BYTES: u64 = 256 << 20;

/// Runs `plan` on `rig`.
///
/// # Errors
/// Nothing was measured: the file state cannot be had, the journal cannot be made, the observer stopped it or
/// could not keep a result. What fails for one method only is that method's outcome.
pub fn run<R: Rig>(plan: &Plan, rig: &mut R, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
    let started_ns = rig.now_ns();
    let started_unix_s = rig.unix_seconds();
    let mut rows = prove_all(plan, rig)?;
    let journal = make_journal(plan, rig, observer)?;
    let idle = watch_idle(rig);
    let mut result = RunResult {
        format: FORMAT.to_owned(),
        version: VERSION,
        seawall: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: NAME.to_owned(),
        label: None,
        started_unix_s,
        complete: false,
        plan: plan.record(),
        environment: rig.environment().clone(),
        journal,
        idle,
        methods: Vec::new(),
        order: Vec::new(),
        study: None,
    };
    let end_ns = match plan.amount {
        Amount::TimeNs(ns) => Some(started_ns + ns),
        Amount::Transactions(_) => None,
    };
    let running = rows.iter().filter(|row| row.runs()).count() as u64;
    let mut budget = Budget::new(started_ns, end_ns, running * u64::from(plan.rounds));
    let mut random = fastrand::Rng::with_seed(plan.seed);
    for round in 0..plan.rounds {
        let mut order: Vec<usize> = (0..rows.len()).filter(|index| rows[*index].runs()).collect();
        random.shuffle(&mut order);
        for index in &order {
            if observer.stop().load(Ordering::Relaxed) {
                break;
            }
            let row = &rows[*index];
            observer.block(&budget.announce([round, plan.rounds], rig.now_ns(), row.method.id, row.p50_ns()));
            run_block(
                plan,
                rig,
                &mut rows[*index],
                &mut result.journal,
                &mut budget,
                round,
                observer.stop(),
            )?;
        }
        let stopped = observer.stop().load(Ordering::Relaxed);
        result.order.push(order);
        result.complete = !stopped && round + 1 == plan.rounds;
        result.journal.layout_after = rig.layout()?;
        result.methods = rows.iter().map(|row| row.result(started_ns)).collect();
        evidence::convict(&mut result);
        observer.round(&result).map_err(RunError::NotKept)?;
        if stopped {
            break;
        }
    }
    if result.measured().next().is_none() && observer.stop().load(Ordering::Relaxed) {
        return Err(RunError::Stopped);
    }
    Ok(result)
}

/// A method on its way through the rounds.
struct Row {
    method: &'static Method,
    durability: Durability,
    ended: Option<Outcome>,
    next_transaction: u64,
    commits: u64,
    bytes: u64,
    elapsed_ns: u64,
    latency: Latency,
    write: Latency,
    sync: Latency,
    response: Latency,
    counts: Option<Counts>,
    cpu: Option<Times>,
    tail: Tail,
    rounds: Vec<Round>,
    paced: bool,
}

impl Row {
    fn runs(&self) -> bool {
        self.ended.is_none()
    }

    fn p50_ns(&self) -> Option<u64> {
        (self.latency.count() > 0).then(|| self.latency.p50_ns())
    }

    fn result(&self, started_ns: u64) -> MethodResult {
        let outcome =
            self.ended.clone().unwrap_or_else(|| Outcome::Measured(Box::new(self.measured(started_ns))));
        MethodResult { id: self.method.id.to_owned(), calls: self.method.calls.to_owned(), outcome }
    }

    fn measured(&self, started_ns: u64) -> Measured {
        let splits = self.method.splits();
        let relative =
            |round: &Round| Round { start_ns: round.start_ns.saturating_sub(started_ns), ..*round };
        Measured {
            durability: self.durability.clone(),
            letter: self.method.reach().letter(),
            commits: self.commits,
            bytes: self.bytes,
            elapsed_ns: self.elapsed_ns,
            latency: self.latency.clone(),
            write: splits.then(|| self.write.clone()),
            sync: splits.then(|| self.sync.clone()),
            response: self.paced.then(|| self.response.clone()),
            counts: self.counts,
            cpu: self.cpu.unwrap_or_default(),
            tail: self.tail,
            rounds: self.rounds.iter().map(relative).collect(),
        }
    }

    fn add(&mut self, plan: &Plan, block: Block, round: u32) {
        let Block { samples, start_ns, elapsed_ns, counts } = block;
        let mut latency = Latency::new();
        let mut commits = 0;
        for sample in &samples {
            latency.add(&sample.latency);
            commits += sample.commits;
            self.write.add(&sample.write);
            self.sync.add(&sample.sync);
            self.response.add(&sample.response);
            self.cpu = Some(self.cpu.map_or(sample.times, |times| times.plus(&sample.times)));
            self.tail = self.tail.plus(&sample.tail);
        }
        self.latency.add(&latency);
        self.next_transaction += samples.iter().map(|sample| sample.commits).max().unwrap_or(0);
        self.commits += commits;
        self.bytes += commits * plan.transaction_bytes as u64;
        self.elapsed_ns += elapsed_ns;
        self.counts = if self.rounds.is_empty() {
            counts
        } else {
            // A sum with a gap would be too small: rather none.
            self.counts.zip(counts).map(|(sum, counts)| sum.plus(&counts))
        };
        self.rounds.push(Round {
            round,
            start_ns,
            elapsed_ns,
            commits,
            p50_ns: latency.p50_ns(),
            p99_ns: latency.raw_percentile_ns(99.0),
            max_ns: latency.max_ns(),
            counts,
        });
    }
}

/// What one block measured.
struct Block {
    samples: Vec<Sample>,
    start_ns: u64,
    elapsed_ns: u64,
    counts: Option<Counts>,
}

fn prove_all<R: Rig>(plan: &Plan, rig: &mut R) -> Result<Vec<Row>, RunError> {
    let around = rig.environment().surroundings(plan.journal.state);
    let mut rows = Vec::new();
    for method in plan.methods.iter().copied() {
        let ended = match rig.prove(method) {
            Ok(()) => None,
            Err(OpenError::Unavailable(reason)) => Some(Outcome::NotAvailable { reason: reason.to_string() }),
            // A journal that cannot even be created is no matter of the method's.
            Err(OpenError::Failed(error)) if error.operation() == "create" => return Err(error.into()),
            Err(OpenError::Failed(error)) => Some(Outcome::Failed { error: error.to_string() }),
        };
        rows.push(Row {
            method,
            durability: classify(method, &around),
            ended,
            next_transaction: 0,
            commits: 0,
            bytes: 0,
            elapsed_ns: 0,
            latency: Latency::new(),
            write: Latency::new(),
            sync: Latency::new(),
            response: Latency::new(),
            counts: None,
            cpu: None,
            tail: Tail::default(),
            rounds: Vec::new(),
            paced: plan.rate_per_s.is_some(),
        });
    }
    Ok(rows)
}

fn make_journal<R: Rig>(
    plan: &Plan,
    rig: &mut R,
    observer: &mut dyn Observer,
) -> Result<JournalRecord, RunError> {
    let total_bytes = plan.fill_to_write();
    let made = rig.make_journal(&mut |done_bytes| {
        observer.filling(done_bytes, total_bytes);
        !observer.stop().load(Ordering::Relaxed)
    });
    match made {
        Ok(made) => Ok(JournalRecord {
            made_in_ns: made.elapsed_ns,
            times_made: 1,
            layout_before: made.layout,
            layout_after: None,
        }),
        Err(_) if observer.stop().load(Ordering::Relaxed) => Err(RunError::Stopped),
        Err(OpenError::Unavailable(reason)) => {
            Err(RunError::Unavailable(format!("--file-state {}: {reason}", plan.journal.state.name())))
        }
        Err(OpenError::Failed(error)) => Err(error.into()),
    }
}

fn watch_idle<R: Rig>(rig: &mut R) -> Option<Idle> {
    let (before, start_ns) = (rig.counts()?, rig.now_ns());
    rig.idle(IDLE_NS);
    let elapsed_ns = rig.now_ns() - start_ns;
    Some(Idle { elapsed_ns, counts: rig.counts()?.since(&before) })
}

/// One method's block, from open to rest. What fails for this method alone becomes its outcome.
fn run_block<R: Rig>(
    plan: &Plan,
    rig: &mut R,
    row: &mut Row,
    journal: &mut JournalRecord,
    budget: &mut Budget,
    round: u32,
    stop: &AtomicBool,
) -> Result<(), RunError> {
    let began_ns = rig.now_ns();
    if plan.fresh_journal_per_block() && budget.begun() {
        let made = rig.make_journal(&mut |_| true)?;
        let total_ns = journal.made_in_ns * journal.times_made + made.elapsed_ns;
        journal.times_made += 1;
        journal.made_in_ns = total_ns / journal.times_made;
    }
    let block = commit_block(plan, rig, row, budget, round, stop);
    let rested = rig.settle();
    match block {
        Ok(block) => {
            rested?;
            let committing_ns = block.elapsed_ns;
            row.add(plan, block, round);
            budget.block_done((rig.now_ns() - began_ns).saturating_sub(committing_ns));
        }
        // No method's fault, and the next one would meet it too.
        Err(OpenError::Failed(error)) if error.operation() == START_THREAD => return Err(error.into()),
        Err(error) => {
            row.ended = Some(match error {
                OpenError::Unavailable(reason) => Outcome::NotAvailable { reason: reason.to_string() },
                OpenError::Failed(error) => Outcome::Failed { error: error.to_string() },
            });
            budget.give_up(plan.rounds - round);
            // After a failed call nothing about that file is certain: the other methods get a new one.
            rig.make_journal(&mut |_| true)?;
        }
    }
    Ok(())
}

fn commit_block<R: Rig>(
    plan: &Plan,
    rig: &mut R,
    row: &Row,
    budget: &Budget,
    round: u32,
    stop: &AtomicBool,
) -> Result<Block, OpenError> {
    let mut writers = Vec::new();
    for index in 0..plan.threads {
        let lane = rig.lane(row.method)?;
        let slice = slice_for(plan, row, index, round, budget.block_ns(rig.now_ns()));
        writers.push((lane, slice));
    }
    let prepare = |index: usize, (mut lane, slice): (R::Lane, Slice)| {
        lane.load(Aligned::incompressible(plan.transaction_bytes, plan.seed ^ ((index as u64) << 32)));
        lane.enter(plan.pin_to.get(index % plan.pin_to.len().max(1)).copied())?;
        warm(plan, row, &mut lane, &slice)?;
        Ok((lane, slice))
    };
    let work = |(mut lane, slice): (R::Lane, Slice)| {
        measure::run(&mut lane, &slice, plan.transaction_bytes as u64, stop)
    };
    let ((before, start_ns), samples) =
        run_together(writers, prepare, || (rig.counts(), rig.now_ns()), work)?;
    let counts = before.zip(rig.counts()).map(|(before, after)| after.since(&before));
    let elapsed_ns = samples.iter().map(|sample| sample.elapsed_ns).max().unwrap_or(0);
    Ok(Block { samples, start_ns, elapsed_ns, counts })
}

/// Warms the stretch that the block is expected to write: known from the blocks before, else guessed.
fn warm<L: Lane>(plan: &Plan, row: &Row, lane: &mut L, slice: &Slice) -> Result<(), Error> {
    const FIRST_GUESS: u64 = 4096;
    let bytes = plan.transaction_bytes as u64;
    let per_block =
        row.rounds.iter().map(|round| round.commits).max().map_or(FIRST_GUESS, |most| most + most / 4);
    let ahead = per_block.min(slice.commits_max).min(WARM_BYTES / bytes).min(slice.capacity);
    let first = slice.first % slice.capacity;
    let end = (first + ahead).min(slice.capacity);
    lane.warm(slice.base + first * bytes..slice.base + end * bytes)?;
    let rest = ahead - (end - first);
    if rest > 0 { lane.warm(slice.base..slice.base + rest * bytes) } else { Ok(()) }
}

fn slice_for(plan: &Plan, row: &Row, writer: usize, round: u32, block_ns: u64) -> Slice {
    let bytes = plan.transaction_bytes as u64;
    let capacity = plan.capacity();
    let mut commits_max = match plan.amount {
        Amount::TimeNs(_) if row.method.reach().data == Depth::Kernel => (KERNEL_BLOCK_BYTES / bytes).max(16),
        Amount::TimeNs(_) => u64::MAX,
        Amount::Transactions(n) => {
            let rounds = u64::from(plan.rounds);
            let (writers, writer) = (plan.threads as u64, writer as u64);
            let block = share(n, rounds, u64::from(round));
            share(block, writers, writer)
        }
    };
    let fresh = plan.fresh_journal_per_block();
    if fresh {
        commits_max = commits_max.min(capacity);
    }
    Slice {
        base: writer as u64 * capacity * bytes,
        capacity,
        first: if fresh { 0 } else { row.next_transaction },
        commits_max,
        time_max_ns: block_ns,
        interval_ns: plan.rate_per_s.map(interval_ns),
        splits: row.method.splits(),
        slow_ns: (row.latency.count() >= 100).then(|| row.latency.raw_percentile_ns(99.0)),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a checked rate is from 0 to 10^7"
)]
fn interval_ns(rate_per_s: f64) -> u64 {
    (1e9 / rate_per_s) as u64
}

/// The `index`-th of `parts` shares of `total`, which differ by one at most and add up to it.
fn share(total: u64, parts: u64, index: u64) -> u64 {
    total * (index + 1) / parts - total * index / parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::choose_methods;
    use crate::rig::sim::{Plant, SimRig};
    use crate::watcher::Watcher;

    fn plan(transactions: u64) -> Plan {
        Plan {
            methods: choose_methods("all").expect("all"),
            amount: Amount::Transactions(transactions),
            rounds: 4,
            ..Plan::default()
        }
    }

    fn run_sim(plan: &Plan, plants: Vec<Plant>, watcher: &mut Watcher) -> Result<RunResult, RunError> {
        run(plan, &mut SimRig::new(plan.journal, plan.seed, plants), watcher)
    }

    fn row<'a>(result: &'a RunResult, id: &str) -> &'a Measured {
        result.measured().find(|(row, _)| row.id == id).map(|(_, measured)| measured).expect("measured")
    }

    #[test]
    fn every_method_commits_exactly_what_was_asked_in_a_new_order_each_round() {
        let plan = plan(101);
        let mut watcher = Watcher::default();
        let result = run_sim(&plan, Vec::new(), &mut watcher).expect("a result");
        assert!(result.complete);
        assert_eq!(watcher.kept, [false, false, false, true]);
        assert!(
            result.measured().all(|(_, measured)| measured.commits == 101 && measured.latency.count() == 101)
        );
        assert_eq!(result.measured().count(), plan.methods.len());
        let mut orders = result.order.clone();
        orders.dedup();
        assert_eq!(orders.len(), 4, "each round draws an order of its own");
    }

    #[test]
    fn the_same_seed_gives_the_same_result_to_the_byte() {
        let text = |seed| {
            let plan = Plan { seed, ..plan(64) };
            let result = run_sim(&plan, Vec::new(), &mut Watcher::default()).expect("a result");
            serde_json::to_string(&result).expect("JSON")
        };
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }

    #[test]
    fn the_devices_counters_are_charged_to_the_method_that_ran() {
        let result = run_sim(&plan(100), Vec::new(), &mut Watcher::default()).expect("a result");
        for (row, measured) in result.measured() {
            let counts = measured.counts.expect("the simulated disk counts");
            let flushes = if measured.letter == 'D' { 100 } else { 0 };
            let writes = if measured.letter == 'K' { 0 } else { 100 };
            assert_eq!((counts.flushes, counts.writes), (flushes, writes), "{}", row.id);
        }
    }

    #[test]
    fn a_wait_for_a_cpu_is_told_from_a_stall_of_the_device() {
        let id = plan(1).methods.iter().find(|method| method.splits()).expect("a method with a sync").id;
        let stall = Plant::Stall { method: id, every: 200, ns: 5_000_000 };
        let wait = Plant::CpuWait { method: id, every: 200, ns: 5_000_000 };
        let share = |plant| {
            let result = run_sim(&plan(4000), vec![plant], &mut Watcher::default()).expect("a result");
            row(&result, id).tail.wait_share().expect("slow commits")
        };
        assert!(share(stall) < 0.01, "a stall of the device is nobody's wait for a CPU");
        assert!(share(wait) > 0.8, "the planted wait is found");
    }

    #[test]
    fn a_method_that_fails_is_stopped_and_the_others_go_on() {
        let methods = plan(1).methods;
        let (bad, good) = (methods[1].id, methods[0].id);
        let plants = vec![Plant::Fails { method: bad, after: 30 }];
        let result = run_sim(&plan(100), plants, &mut Watcher::default()).expect("a result");
        let outcome = &result.methods.iter().find(|row| row.id == bad).expect("listed").outcome;
        assert!(
            matches!(outcome, Outcome::Failed { error } if error.contains("planted failure")),
            "{outcome:?}"
        );
        assert_eq!(row(&result, good).commits, 100);
    }

    #[test]
    fn a_writer_that_cannot_be_started_ends_the_run_with_an_error_that_names_it() {
        use seawall_sys::starting_line::plant_spawn_failure;
        let plan = Plan { threads: 8, ..plan(64) };
        plant_spawn_failure(Some(11));
        let outcome = run_sim(&plan, Vec::new(), &mut Watcher::default());
        plant_spawn_failure(None);
        let told = outcome.expect_err("no run of fewer writers than asked for").to_string();
        assert!(told.contains("writer 4 of 8") && told.contains("ulimit -u"), "{told}");
    }

    #[test]
    fn stopping_keeps_what_was_measured_and_says_that_it_is_not_whole() {
        let mut watcher = Watcher { stop_after: Some(40), ..Watcher::default() };
        let result = run_sim(&plan(100), Vec::new(), &mut watcher).expect("a part");
        assert!(!result.complete);
        assert_eq!(watcher.kept.last(), Some(&false));
        let mut watcher = Watcher { stop_after: Some(1), ..Watcher::default() };
        let nothing = run_sim(&plan(100), Vec::new(), &mut watcher);
        assert!(matches!(nothing, Err(RunError::Stopped)));
    }

    #[test]
    fn a_time_budget_is_kept() {
        let plan = Plan { amount: Amount::TimeNs(20_000_000_000), ..plan(1) };
        let mut rig = SimRig::new(plan.journal, plan.seed, Vec::new());
        run(&plan, &mut rig, &mut Watcher::default()).expect("a result");
        let spent_s = rig.now_ns() as f64 / 1e9;
        assert!((18.0..22.0).contains(&spent_s), "{spent_s}");
    }

    #[test]
    fn scheduled_arrivals_charge_a_stall_to_every_commit_it_delayed() {
        let id = plan(1).methods[1].id;
        let plan =
            Plan { rate_per_s: Some(10_000.0), methods: choose_methods(id).expect("one"), ..plan(4000) };
        let plants = vec![Plant::Stall { method: id, every: 500, ns: 10_000_000 }];
        let result = run_sim(&plan, plants, &mut Watcher::default()).expect("a result");
        let measured = row(&result, id);
        let response = measured.response.as_ref().expect("scheduled");
        assert!(measured.latency.raw_percentile_ns(99.0) < 1_000_000, "few commits are slow themselves");
        assert!(response.raw_percentile_ns(95.0) > 1_000_000, "but it delayed a hundred others");
    }

    #[test]
    fn shares_add_up() {
        for (total, parts) in [(10, 3), (65_536, 16), (1, 5)] {
            assert_eq!((0..parts).map(|index| share(total, parts, index)).sum::<u64>(), total);
        }
    }
}
