//! Scenario `commit`: the latency of one durable commit by every method.
//!
//! ```text
//!   prove each method ─ make the journal ─ short look ─ idle baseline ─ round 1 ─ round 2 … ─ layout again
//!                                              │                           │
//!                          the others, once    │        for each method, in an order drawn for this round:
//!                          each (look.rs)      ┘          open · warm · counters · commits · counters · close · quiesce
//! ```
//!
//! The published experiment ran its methods once, in fixed order, on one file, from unwritten extents, without a sync
//! between: the first paid for the extents, and each paid for the dirty pages of the one before.
//!
//! Invariants: between two blocks the journal is at rest; writes of bringing it to rest are in no method's counters;
//! a method that failed is not run again.

pub(crate) mod look;

use super::rounds::{self, Course, Turn};
use super::settings::{Amount, Settings};
use super::{Observer, RunError};
use crate::advise::products::{PRODUCTS, Product, methods_of};
use crate::block::{Sample, Slice};
use crate::figures::{count, duration_ns, round_duration};
use crate::latency::Latency;
use crate::result::{JournalRecord, PlanRecord, RunResult};
use crate::row::{Measured, NamedLatency, Outcome, Row, Series, SeriesPoint};
use crate::study::Study;
use crate::testbed::writers::Crew;
use crate::testbed::{Block, BlockError, Testbed};
use seawall_host::journal::Recipe;
use seawall_sys::OpenError;
use seawall_sys::durability::classify;
use seawall_sys::method::{Depth, Method, Set};
use seawall_sys::methods;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// The scenario's name in results and on the command line.
pub const NAME: &str = "commit";

/// The published experiment: transactions per method.
pub const PUBLISHED_TRANSACTIONS: u64 = 65_536;
/// The published experiment: bytes of a transaction.
pub(crate) const PUBLISHED_TRANSACTION_BYTES: usize = 16 << 10;

/// Its parameters by default: the published experiment's journal, transactions and methods, and a short look at the others.
pub fn settings() -> Settings {
    let defaults = Settings::default();
    Settings {
        amount: Amount::TimeNs(30_000_000_000),
        bytes: PUBLISHED_TRANSACTION_BYTES,
        bytes_max: 64 << 20,
        methods: usual(true),
        others: usual(false),
        journal: Recipe { fill_bytes: 1 << 20, ..defaults.journal },
        ..defaults
    }
}

/// The methods of this system that the published experiments measured and those that products call, or all but those.
fn usual(usual: bool) -> Vec<&'static Method> {
    let products: Vec<&Product> = PRODUCTS.iter().collect();
    let called = methods_of(&products, methods::system());
    let is = |method: &&Method| method.set == Set::Published || called.contains(&method.id);
    methods::here().iter().filter(|method| is(method) == usual).collect()
}

/// The latencies of a row that commits, each with its title: the whole, its parts where there is a separate sync, and from
/// scheduled arrival to durable where there is a rate.
pub(crate) const LATENCIES: [(&str, &str); 4] = [
    ("commit", "commit"),
    ("write", "the write alone"),
    ("sync", "the sync alone"),
    ("response", "from scheduled arrival to durable"),
];

/// The name of the series of a row that commits.
pub(crate) const COMMITS_OVER_TIME: &str = "commit";

/// Methods that leave their bytes in memory write at most this much in a block, because all of it must be
/// written back before the next block: the budget would go into writing back.
const KERNEL_BLOCK_BYTES: u64 = 64 << 20;

const WARM_BYTES: u64 = 256 << 20;

/// Runs the scenario.
///
/// # Errors
/// Nothing was measured: the file state cannot be had, the journal cannot be made, the observer stopped it or
/// could not keep a result. What fails for one method only is that method's outcome.
pub fn run(
    settings: &Settings,
    testbed: &mut dyn Testbed,
    observer: &mut dyn Observer,
) -> Result<RunResult, RunError> {
    let began_ns = testbed.now_ns();
    let tried = look::tried(settings);
    observer.doing("trying each method once");
    let rows = prove_all(&tried, testbed)?;
    let journal = make_journal(settings, testbed, observer)?;
    let look::Chosen { settings, rows, note } = look::choose(settings, &tried, rows, testbed, observer)?;
    let settings = &settings;
    let mut study = table(&settings.record(settings.journal.bytes), rows);
    study.notes.extend(note);
    study.notes.extend(slow_fill(settings, &journal));
    let spent_ns = testbed.now_ns() - began_ns;
    let course = Course::new(NAME, settings, settings.journal.bytes, study);
    let course = Course { journal, spent_ns, ..course };
    // Each method's next transaction, and whether the journal that was just made has been used.
    let mut next = vec![0; settings.methods.len()];
    let mut used = false;
    rounds::run(course, testbed, observer, &|_| {}, &mut |testbed, turn| {
        if settings.fresh_journal_per_block() && used {
            remake(settings, testbed, turn.journal)?;
        }
        used = true;
        let next = &mut next[turn.index];
        let block = commit_block(settings, testbed, &turn, *next);
        let rested = testbed.quiesce();
        match block {
            Ok(block) => {
                rested.map_err(BlockError::run)?;
                *next += block.samples.iter().map(|sample| sample.commits).max().unwrap_or(0);
                let bytes = block.samples.iter().map(|sample| sample.bytes).sum();
                Ok(Measured { bytes, series: over_time(&block), ..tally(&block, settings.commit_bytes()) })
            }
            Err(BlockError::Row(error)) => {
                // After a failed call nothing about that file is certain: the other methods get a new one.
                testbed.make_journal(&settings.journal, &mut |_| true).map_err(BlockError::of_all)?;
                Err(error.into())
            }
            Err(error) => Err(error),
        }
    })
}

/// That making the journal left little of the run's time for commits, if it did.
fn slow_fill(settings: &Settings, journal: &JournalRecord) -> Option<String> {
    let time_ns = settings.time_ns()?;
    (journal.made_in_ns > time_ns / 2).then(|| {
        format!(
            "Making the journal took {} of a run of {}: the blocks are as short as they may be; give a longer --time, or a smaller --journal.",
            duration_ns(journal.made_in_ns),
            round_duration(time_ns)
        )
    })
}

/// The longest commit of any writer in each short span of a block, and how many commits all writers made in it.
fn over_time(block: &Block) -> Vec<Series> {
    let mut points: BTreeMap<u64, SeriesPoint> = BTreeMap::new();
    let spans = || block.samples.iter().map(|sample| &sample.spans);
    // A writer that was slower may have longer spans than another.
    let span_ns = spans().map(|spans| spans.span_ns).max().unwrap_or(1);
    for spans in spans() {
        for (index, (longest_ns, commits)) in spans.longest_ns.iter().zip(&spans.commits).enumerate() {
            let at_ns = index as u64 * spans.span_ns / span_ns * span_ns;
            let point = points.entry(at_ns).or_insert(SeriesPoint { at_ns, max_ns: 0, commits: 0 });
            point.max_ns = point.max_ns.max(*longest_ns);
            point.commits += commits;
        }
    }
    vec![Series {
        name: COMMITS_OVER_TIME.to_owned(),
        title: format!("longest commit in each {}", round_duration(span_ns)),
        points: points.into_values().filter(|point| point.max_ns > 0).collect(),
    }]
}

pub(crate) fn table(plan: &PlanRecord, rows: Vec<Row>) -> Study {
    Study {
        title: format!("durable commits of {}", plan.transaction()),
        row_title: "method".to_owned(),
        ranked: true,
        rows,
        ..Study::default()
    }
}

pub(crate) fn tally(block: &Block, transaction_bytes: u64) -> Measured {
    let mut measured = Measured { elapsed_ns: block.elapsed_ns, counts: block.counts, ..Measured::default() };
    for (index, sample) in block.samples.iter().enumerate() {
        measured.commits += sample.commits;
        measured.cpu = if index == 0 { sample.times } else { measured.cpu.plus(&sample.times) };
        measured.tail = measured.tail.plus(&sample.tail);
    }
    measured.bytes = measured.commits * transaction_bytes;
    let parts: [fn(&Sample) -> &Latency; 4] =
        [|sample| &sample.latency, |sample| &sample.write, |sample| &sample.sync, |sample| &sample.response];
    for (index, ((name, title), part)) in LATENCIES.into_iter().zip(parts).enumerate() {
        let mut latency = Latency::new();
        block.samples.iter().for_each(|sample| latency.add(part(sample)));
        if index == 0 || latency.count() > 0 {
            measured.latencies.push(NamedLatency::new(name, title, latency));
        }
    }
    measured
}

fn prove_all(settings: &Settings, testbed: &mut dyn Testbed) -> Result<Vec<Row>, RunError> {
    let around = testbed.environment(0).surroundings(settings.journal.state);
    let block_bytes = testbed.environment(0).logical_block_bytes();
    let mut rows = Vec::new();
    for method in settings.methods.iter().copied() {
        // A load may have sizes that a method cannot write; what all of them are multiples of tells.
        let sizes = settings.workload.as_ref().map(|load| load.bytes_of_all() as usize);
        let sizes: Vec<usize> = sizes.into_iter().chain([settings.bytes]).collect();
        // The kernel says no more than "invalid argument".
        if let Some(reason) = sizes.iter().find_map(|bytes| misfit(method, *bytes, block_bytes)) {
            rows.push(row(method, Outcome::NotAvailable { reason }));
            continue;
        }
        let mut proven = Ok(None);
        for size in sizes {
            proven = proven.and_then(|_| testbed.prove(method, &settings.journal, size));
        }
        let outcome = match proven {
            Ok(watched) => Outcome::Measured(Box::new(Measured {
                watched,
                durability: Some(classify(method, &around)),
                letter: Some(method.reach().letter()),
                ..Measured::default()
            })),
            Err(BlockError::Row(error)) => error.into(),
            Err(BlockError::Run(error)) => return Err(error.into()),
        };
        rows.push(row(method, outcome));
    }
    Ok(rows)
}

fn misfit(method: &Method, bytes: usize, block_bytes: u64) -> Option<String> {
    (method.needs_alignment() && !(bytes as u64).is_multiple_of(block_bytes)).then(|| {
        format!(
            "writes around the cache must be multiples of this disk's logical block, {} bytes, and {bytes} is not",
            count(block_bytes)
        )
    })
}

fn row(method: &Method, outcome: Outcome) -> Row {
    let what = method.calls.to_owned();
    Row { what, method: Some(method.into()), outcome, ..Row::waiting(method.id, method.id) }
}

fn make_journal(
    settings: &Settings,
    testbed: &mut dyn Testbed,
    observer: &mut dyn Observer,
) -> Result<JournalRecord, RunError> {
    let total_bytes = settings.fill_to_write();
    let made = testbed.make_journal(&settings.journal, &mut |done_bytes| {
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
        Err(BlockError::Row(OpenError::Unavailable(reason))) => {
            Err(RunError::Unavailable(format!("--file-state {}: {reason}", settings.journal.state.name())))
        }
        Err(error) => Err(error.into()),
    }
}

/// A journal of its own for a block of a state that writing changes.
fn remake(
    settings: &Settings,
    testbed: &mut dyn Testbed,
    journal: &mut JournalRecord,
) -> Result<(), BlockError> {
    let made = testbed.make_journal(&settings.journal, &mut |_| true).map_err(BlockError::of_all)?;
    let total_ns = journal.made_in_ns * journal.times_made + made.elapsed_ns;
    journal.times_made += 1;
    journal.made_in_ns = total_ns / journal.times_made;
    Ok(())
}

fn commit_block(
    settings: &Settings,
    testbed: &mut dyn Testbed,
    turn: &Turn<'_>,
    next_transaction: u64,
) -> Result<Block, BlockError> {
    let method = settings.methods[turn.index];
    let crew = Crew {
        bytes: settings.bytes,
        pin_to: &settings.pin_to,
        seed: settings.seed,
        workload: settings.workload.as_deref(),
        until: turn.until,
    };
    let slices: Vec<Slice> = (0..settings.threads)
        .map(|writer| slice_for(settings, method, turn, writer, next_transaction))
        .collect();
    testbed.commit(method, &crew, &slices)
}

fn slice_for(
    settings: &Settings,
    method: &Method,
    turn: &Turn<'_>,
    writer: usize,
    next_transaction: u64,
) -> Slice {
    const FIRST_GUESS: u64 = 4096;
    let bytes = settings.commit_bytes();
    let capacity = settings.capacity();
    let mut commits_max = match settings.amount {
        Amount::TimeNs(_) if method.reach().data == Depth::Kernel => (KERNEL_BLOCK_BYTES / bytes).max(16),
        Amount::TimeNs(_) | Amount::Rounds => u64::MAX,
        Amount::Transactions(n) => {
            let (rounds, round) = (u64::from(settings.rounds), u64::from(turn.round));
            share(share(n, rounds, round), settings.threads as u64, writer as u64)
        }
    };
    let fresh = settings.fresh_journal_per_block();
    if fresh {
        commits_max = commits_max.min(capacity);
    }
    // What the block is expected to write is known from the blocks before, else guessed.
    let most = turn.so_far.rounds.iter().map(|round| round.commits).max();
    let per_block = most.map_or(FIRST_GUESS, |most| most + most / 4);
    let latency = turn.so_far.main();
    Slice {
        base: writer as u64 * capacity * bytes,
        capacity,
        writes: settings.writes.into(),
        first: if fresh { 0 } else { next_transaction },
        commits_max,
        time_max_ns: turn.until.block_ns,
        interval_ns: settings.rate_per_s.map(interval_ns),
        splits: method.splits(),
        slow_ns: (latency.count() >= 100).then(|| latency.raw_percentile_ns(99.0)),
        warm: per_block.min(commits_max).min(WARM_BYTES / bytes),
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
    use crate::method_names::choose_methods;
    use crate::testbed::sim::{Plant, SimTestbed};
    use crate::watcher::Watcher;

    fn plan(transactions: u64) -> Settings {
        Settings {
            methods: choose_methods("all").expect("all"),
            others: Vec::new(),
            amount: Amount::Transactions(transactions),
            rounds: 4,
            ..settings()
        }
    }

    fn run_sim(plan: &Settings, plants: Vec<Plant>, watcher: &mut Watcher) -> Result<RunResult, RunError> {
        run(plan, &mut SimTestbed::new(plan.seed, plants), watcher)
    }

    fn row<'a>(result: &'a RunResult, id: &str) -> &'a Measured {
        result.measured().find(|(row, _)| row.id == id).map(|(_, measured)| measured).expect("measured")
    }

    #[test]
    fn a_size_that_is_no_multiple_of_the_disk_s_block_is_refused_by_that_name() {
        let mut testbed = SimTestbed::new(1, Vec::new());
        testbed.environments_mut()[0].devices[0].logical_block_bytes = Some(4096);
        for (bytes, whole) in [(4096, true), (512, false)] {
            let plan = Settings { methods: choose_methods("direct,dsync").expect("two"), bytes, ..plan(8) };
            let result = run(&plan, &mut testbed, &mut Watcher::default()).expect("a result");
            let missing = result.study.row("direct").expect("a row").outcome.missing();
            let reason = missing.map_or("", |(_, reason)| reason);
            assert_eq!(reason.is_empty(), whole, "{reason}");
            assert!(whole || reason.contains("4,096 bytes, and 512 is not"), "{reason}");
            assert_eq!(row(&result, "dsync").commits, 8);
        }
    }

    #[test]
    fn every_method_commits_exactly_what_was_planned_in_a_new_order_each_round() {
        let plan = plan(101);
        let mut watcher = Watcher::default();
        let result = run_sim(&plan, Vec::new(), &mut watcher).expect("a result");
        assert!(result.complete);
        assert_eq!(watcher.kept, [false, false, false, true]);
        assert!(
            result.measured().all(|(_, measured)| measured.commits == 101 && measured.main().count() == 101)
        );
        assert_eq!(result.measured().count(), plan.methods.len());
        let mut orders = result.order.clone();
        orders.dedup();
        assert_eq!(orders.len(), 4, "each round draws an order of its own");
    }

    #[test]
    fn the_same_seed_gives_the_same_result_to_the_byte() {
        let text = |seed| {
            let plan = Settings { seed, ..plan(64) };
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
            let flushes = if measured.letter == Some('D') { 100 } else { 0 };
            let writes = if measured.letter == Some('K') { 0 } else { 100 };
            assert_eq!((counts.flushes, counts.writes), (flushes, writes), "{}", row.id);
        }
    }

    #[test]
    fn of_two_writes_a_commit_each_is_flushed_where_it_is_stable_by_itself_and_both_together_elsewhere() {
        let plan = Settings { writes: 2, ..plan(100) };
        let result = run_sim(&plan, Vec::new(), &mut Watcher::default()).expect("a result");
        assert_eq!((result.plan.writes, result.plan.transaction()), (2, "2 writes of 16 KiB".to_owned()));
        for (row, measured) in result.measured() {
            let method = plan.methods.iter().find(|method| method.id == row.id).expect("planned");
            let counts = measured.counts.expect("the simulated disk counts");
            let flushes = match measured.letter {
                Some('D') if method.splits() => 100,
                Some('D') => 200,
                _ => 0,
            };
            let writes = if measured.letter == Some('K') { 0 } else { 200 };
            assert_eq!((counts.flushes, counts.writes), (flushes, writes), "{}", row.id);
            assert_eq!((measured.commits, measured.bytes), (100, 100 * 2 * (16 << 10)), "{}", row.id);
        }
    }

    #[test]
    fn two_writes_a_commit_fill_a_real_journal_without_a_gap() {
        use crate::testbed::real::RealTestbed;
        let folder = tempfile::tempdir().expect("a folder");
        let environment = seawall_sys::inspect::environment(folder.path()).expect("inspected");
        let mut plan = Settings { writes: 2, bytes: 4096, rounds: 1, ..plan(16) };
        plan.methods = plan.methods.into_iter().filter(|method| method.splits()).take(2).collect();
        plan.journal.bytes = 16 * 2 * 4096;
        let mut testbed = RealTestbed::in_folder(folder.path(), environment);
        let result = run(&plan, &mut testbed, &mut Watcher::default()).expect("a result");
        assert!(result.measured().count() > 0);
        for (row, measured) in result.measured() {
            assert_eq!((measured.commits, measured.bytes), (16, plan.journal.bytes), "{}", row.id);
            assert_eq!(measured.latency("write").map(Latency::count), Some(16), "{}", row.id);
        }
        let scratch =
            std::fs::read_dir(folder.path()).expect("listed").next().expect("a folder").expect("named");
        let journal = std::fs::read(scratch.path().join("seawall-journal")).expect("read");
        let stamps: Vec<u64> = journal
            .chunks(4096)
            .map(|write| u64::from_le_bytes(write[..8].try_into().expect("eight bytes")))
            .collect();
        assert_eq!(
            stamps,
            (0..32).collect::<Vec<u64>>(),
            "each write is at its place, behind the one before"
        );
    }

    #[test]
    fn a_wait_for_a_cpu_is_distinguished_from_a_stall_of_the_device() {
        let id = plan(1).methods.iter().find(|method| method.splits()).expect("a method with a sync").id;
        let stall = Plant::Stall { method: id, every: 200, ns: 5_000_000 };
        let wait = Plant::CpuWait { method: id, every: 200, ns: 5_000_000 };
        let share = |plant| {
            let result = run_sim(&plan(4000), vec![plant], &mut Watcher::default()).expect("a result");
            row(&result, id).tail.wait_share().expect("slow commits")
        };
        assert!(share(stall) < 0.01, "a stall of the device is no wait for a CPU");
        assert!(share(wait) > 0.8, "the planted wait is found");
    }

    #[test]
    fn a_method_that_fails_is_stopped_and_the_others_go_on() {
        let methods = plan(1).methods;
        let (bad, good) = (methods[1].id, methods[0].id);
        let plants = vec![Plant::Fails { method: bad, after: 30 }];
        let result = run_sim(&plan(100), plants, &mut Watcher::default()).expect("a result");
        let outcome = &result.study.row(bad).expect("listed").outcome;
        assert!(
            matches!(outcome, Outcome::Failed { error, .. } if error.contains("planted failure")),
            "{outcome:?}"
        );
        assert_eq!(row(&result, good).commits, 100);
    }

    #[test]
    fn a_writer_that_cannot_be_started_ends_the_run_with_an_error_that_names_it() {
        use seawall_host::starting_line::plant_spawn_failure;
        let plan = Settings { threads: 8, ..plan(64) };
        plant_spawn_failure(Some(11));
        let outcome = run_sim(&plan, Vec::new(), &mut Watcher::default());
        plant_spawn_failure(None);
        let refusal = outcome.expect_err("no run of fewer writers than requested").to_string();
        assert!(refusal.contains("writer 4 of 8") && refusal.contains("ulimit -u"), "{refusal}");
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
        let plan = Settings { amount: Amount::TimeNs(20_000_000_000), ..plan(1) };
        let mut testbed = SimTestbed::new(plan.seed, Vec::new());
        run(&plan, &mut testbed, &mut Watcher::default()).expect("a result");
        let spent_s = testbed.now_ns() as f64 / 1e9;
        assert!((18.0..22.0).contains(&spent_s), "{spent_s}");
    }

    #[test]
    fn scheduled_arrivals_charge_a_stall_to_every_commit_it_delayed() {
        let id = plan(1).methods[1].id;
        let plan =
            Settings { rate_per_s: Some(10_000.0), methods: choose_methods(id).expect("one"), ..plan(4000) };
        let plants = vec![Plant::Stall { method: id, every: 500, ns: 10_000_000 }];
        let result = run_sim(&plan, plants, &mut Watcher::default()).expect("a result");
        let measured = row(&result, id);
        let response = measured.latency("response").expect("scheduled");
        assert!(measured.main().raw_percentile_ns(99.0) < 1_000_000, "few commits are slow themselves");
        assert!(response.raw_percentile_ns(95.0) > 1_000_000, "but it delayed a hundred others");
    }

    #[test]
    fn shares_add_up() {
        for (total, parts) in [(10, 3), (65_536, 16), (1, 5)] {
            assert_eq!((0..parts).map(|index| share(total, parts, index)).sum::<u64>(), total);
        }
    }
}
