//! Model-checks gates and group commit under `loom`, in every thread order within bounds.
//!
//! Small scenes run under `loom` in every order within bounds (two or three threads, three forced switches): a gate,
//! and committers who share writes through the real group and the real core, over segment writers without files. A
//! thread that sleeps for ever is a deadlock, which `loom` reports; so a lost wake-up cannot hide. `cargo xtask loom`
//! runs it.

use std::sync::Arc;

use loom::thread;
use seawall_sys::durability::{Class, DeviceCache, FileState, Medium, Promiser, Surroundings};
use seawall_sys::methods;

use crate::commit::gate::Gate;
use crate::commit::group::Group;
use crate::commit::seal::Chain;
use crate::commit::segment_writers::Lanes;
use crate::commit::state::{Beginning, Core, Place, Shape};
use crate::commit::sync::{AtomicBool, Ordering, lock};
use crate::commit::sync_debt::Grade;
use crate::error::Error;
use crate::format::{Kind, LogId, SegmentHeader};
use crate::lsn::Lsn;
use crate::method::relaxed::Rows;
use crate::read::reader::segment_of;
use crate::segment::inventory::Shelf;

fn explore(scene: impl Fn() + Sync + Send + 'static) {
    explore_in(11, scene);
}

/// Runs the scene in every order, of which there must be at least `orders_min`.
fn explore_in(orders_min: u64, scene: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 20_000;
    let runs = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        scene();
    });
    let runs = runs.load(Ordering::Relaxed);
    println!("{runs} orders");
    assert!(runs >= orders_min, "only {runs} orders were tried");
}

fn rows() -> Rows {
    let around = Surroundings {
        medium: Medium::Block,
        copy_on_write: false,
        shares_extents: false,
        file_state: FileState::ZeroFilled,
        device_cache: DeviceCache::WriteBack,
        cached_image: false,
        forced_writes_honoured: None,
        syncfs_flushes: true,
        promiser: Promiser::Device,
        lies: Vec::new(),
    };
    let table = methods::of(seawall_sys::method::System::Linux);
    let own = table.iter().find(|method| method.id == "dsync").expect("a known row");
    Rows::beside(own, Class::PowerLoss, &around, table)
}

/// A log of one segment that is never full; the write of job `fails` fails.
fn group(fails: u64, depth: usize) -> Arc<Group> {
    let shape = Shape {
        log_id: LogId([7; 16]),
        epoch: 1,
        block_bytes: 512,
        batch_bytes: 512,
        depth,
        memory_bytes: 2048,
        class: Class::PowerLoss,
    };
    let place = Place { segment: 1, offset: 512, data_end: 1 << 30 };
    let beginning = Beginning { end: Lsn::ZERO, trim: Lsn::ZERO, place, spares: Vec::new() };
    let lanes = Lanes::nowhere(std::path::Path::new("nowhere"), rows()).fail(fails);
    let shelf = Shelf::new(Vec::<SegmentHeader>::new(), 2, 1 << 30, 1..=2);
    Arc::new(Group::new(shape, Core::new(shape, beginning), Chain { link: 0 }, lanes, shelf))
}

/// Appends a record and commits it in the grade.
fn commit(group: &Group, grade: Grade) -> Result<Lsn, Error> {
    let (lsn, core) = group.accept(|core| core.append(b"record"))?;
    group.settle(core, lsn, grade)?;
    assert!(group.reached(grade) >= lsn, "told before it was so");
    Ok(lsn)
}

#[test]
fn a_gate_loses_no_wake_up() {
    explore(|| {
        let gate = Arc::new(Gate::default());
        let done = Arc::new(AtomicBool::new(false));
        let sleepers: Vec<_> = (0..2)
            .map(|_| {
                let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
                thread::spawn(move || {
                    loop {
                        let ticket = gate.ticket();
                        if done.load(Ordering::Relaxed) {
                            gate.leave();
                            break;
                        }
                        gate.wait(ticket);
                    }
                })
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        gate.open();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("ends"));
        assert!(!gate.open_for_one(), "nobody is left");
    });
}

#[test]
fn one_who_sleeps_is_told_alone() {
    explore(|| {
        let gate = Arc::new(Gate::default());
        let done = Arc::new(AtomicBool::new(false));
        let sleeper = {
            let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
            thread::spawn(move || {
                let ticket = gate.ticket();
                if done.load(Ordering::Relaxed) {
                    return gate.leave();
                }
                gate.wait(ticket);
            })
        };
        done.store(true, Ordering::Relaxed);
        gate.open_for_one();
        sleeper.join().expect("ends");
    });
}

/// Two committers of these grades, of whom the first expects a crowd of two if `crowd`; job `fails` fails. One write at
/// a time, so that one of them may have to wait for the other, and two.
fn two(grades: [Grade; 2], crowd: bool, fails: u64) {
    meet(grades, crowd, fails, 1);
    meet(grades, crowd, fails, 2);
}

fn meet(grades: [Grade; 2], crowd: bool, fails: u64, depth: usize) {
    explore(move || {
        let group = group(fails, depth);
        if crowd {
            group.expect_crowd(2);
        }
        let other = {
            let group = Arc::clone(&group);
            thread::spawn(move || commit(&group, grades[1]))
        };
        let mine = commit(&group, grades[0]);
        let others = other.join().expect("ends");
        let durable = group.durable();
        for (told, grade) in [(&mine, grades[0]), (&others, grades[1])] {
            match told {
                Ok(lsn) => assert!(group.reached(grade) >= *lsn),
                Err(error) => assert!(fails != u64::MAX && matches!(error, Error::Failed { .. }), "{error}"),
            }
        }
        if fails == u64::MAX {
            assert!(mine.is_ok() && others.is_ok());
            let full = grades.contains(&Grade::Full);
            assert!(!full || durable > Lsn::ZERO);
        } else {
            assert!(mine.is_err() || others.is_err(), "a failed write is never acknowledged");
            assert!(lock(&group.core).issue().is_none(), "nothing is issued after a failure");
        }
    });
}

const NEVER: u64 = u64::MAX;

#[test]
fn two_committers_are_both_told() {
    two([Grade::Full, Grade::Full], false, NEVER);
}

#[test]
fn a_crowd_that_gathers_is_told() {
    two([Grade::Full, Grade::Full], true, NEVER);
}

#[test]
fn a_failure_reaches_everyone() {
    two([Grade::Full, Grade::Full], false, 0);
}

/// Whoever gathers has let go of the lock: the failure may come in between, and its wake-up is over before they sleep.
#[test]
fn a_failure_reaches_those_who_gather() {
    two([Grade::Full, Grade::Full], true, 0);
}

#[test]
fn a_weaker_committer_beside_a_strict_one_is_told() {
    two([Grade::Full, Grade::System], false, NEVER);
}

#[test]
fn a_failed_settlement_reaches_everyone() {
    two([Grade::Full, Grade::System], false, 1);
}

/// The writer looks whether more is coming, and then leaves it to whoever came: it must wake them.
#[test]
fn a_committer_beside_one_who_gathers_and_does_not_lead_is_told() {
    explore(|| {
        let group = group(NEVER, 2);
        group.expect_crowd(2);
        let onlooker = {
            let group = Arc::clone(&group);
            thread::spawn(move || {
                let (_, core) = group.gather(lock(&group.core));
                let waiting = core.waiting();
                drop(core);
                group.hand_over(waiting);
            })
        };
        let mine = commit(&group, Grade::Full);
        onlooker.join().expect("ends");
        assert!(mine.is_ok_and(|lsn| group.durable() >= lsn));
    });
}

/// The writer leaves a batch to somebody who is about to block; whether he comes or not, what was wanted is written.
#[test]
fn what_the_writer_leaves_to_others_is_written() {
    explore(|| {
        let group = group(NEVER, 2);
        group.expect_prompt();
        let (lsn, core) = group.accept(|core| core.append(b"record")).expect("there is room");
        drop(core);
        let writer = {
            let group = Arc::clone(&group);
            thread::spawn(move || {
                group.want(lsn);
                if let Err(core) = group.lead_for_others(lock(&group.core)) {
                    let waiting = core.waiting();
                    drop(core);
                    group.hand_over(waiting);
                }
            })
        };
        let committer = {
            let group = Arc::clone(&group);
            thread::spawn(move || group.commit(lsn, Grade::Full))
        };
        writer.join().expect("ends");
        assert!(committer.join().expect("ends").is_ok());
        assert!(group.durable() >= lsn);
    });
}

#[test]
fn what_the_writer_leaves_to_nobody_it_writes_itself() {
    explore(|| {
        let group = group(NEVER, 2);
        group.expect_prompt();
        let append = |group: &Group| group.accept(|core| core.append(b"record")).expect("there is room").0;
        let lsn = append(&group);
        group.want(lsn);
        let other = {
            let group = Arc::clone(&group);
            thread::spawn(move || [append(&group), append(&group)])
        };
        let led = group.lead_for_others(lock(&group.core)).is_ok();
        assert!(led && group.durable() >= lsn);
        other.join().expect("ends");
    });
}

/// One thread writes the mark of the idle log while the other closes it. Who is told that the log is closed may rely on it:
/// the close mark is the last thing that was written, and nothing is under way.
fn close_beside_the_idle_mark(depth: usize) {
    explore(move || {
        let group = group(NEVER, depth);
        commit(&group, Grade::Full).expect("commits");
        let idle = {
            let group = Arc::clone(&group);
            thread::spawn(move || {
                let mut core = lock(&group.core);
                if core.wants_mark()
                    && core.mark(Kind::Mark)
                    && let Some(issue) = core.issue()
                {
                    group.drive(core, issue);
                }
            })
        };
        group.seal_log().expect("closes");
        assert!(group.lanes.is_closed(), "the close mark is not the last one");
        assert_eq!(lock(&group.core).in_flight(), 0, "something is still under way");
        idle.join().expect("ends");
        assert!(group.lanes.is_closed());
    });
}

#[test]
fn a_close_beside_the_idle_mark_comes_last() {
    close_beside_the_idle_mark(1);
    close_beside_the_idle_mark(2);
}

/// A log of three started segments, each of 100 bytes of the log, and what was appended in them.
fn three_segments() -> Arc<Group> {
    let header = |number: u64| SegmentHeader {
        block_bytes: 512,
        log_id: LogId([7; 16]),
        epoch: 1,
        number,
        segment_bytes: 1 << 30,
        first_lsn: Lsn::new(100 * (number - 1)),
        trim_lsn: Lsn::ZERO,
        previous: number - 1,
        link: 0,
        class: Class::PowerLoss,
    };
    let shape = Shape {
        log_id: LogId([7; 16]),
        epoch: 1,
        block_bytes: 512,
        batch_bytes: 512,
        depth: 1,
        memory_bytes: 2048,
        class: Class::PowerLoss,
    };
    let place = Place { segment: 3, offset: 512, data_end: 1 << 30 };
    let beginning = Beginning { end: Lsn::new(300), trim: Lsn::ZERO, place, spares: Vec::new() };
    let lanes = Lanes::nowhere(std::path::Path::new("nowhere"), rows());
    let shelf = Shelf::new((1..=3).map(header), 4, 1 << 30, 1..=1);
    Arc::new(Group::new(shape, Core::new(shape, beginning), Chain { link: 0 }, lanes, shelf))
}

fn read_beside_a_trim() {
    // Two locks are all that these threads meet at.
    explore_in(3, || {
        let group = three_segments();
        let trim = {
            let group = Arc::clone(&group);
            thread::spawn(move || {
                lock(&group.core).set_trim(Lsn::new(250));
                // Its mark becomes durable, and what it frees goes.
                let mut core = lock(&group.core);
                assert!(core.mark(Kind::Mark));
                let issue = core.issue().expect("nothing is under way");
                core.done(issue.id, issue.batch.expect("a mark").buf);
                drop(core);
                let (core, mut shelf) = (lock(&group.core), lock(&group.shelf));
                assert!(shelf.next_task(core.spares(), core.durable_trim()).is_some(), "a segment goes");
            })
        };
        match segment_of(&group, Lsn::new(50)) {
            Ok(found) => {
                let found = found.expect("there are segments").first_lsn;
                assert!(found <= Lsn::new(50), "read from {found} on, and nobody is told");
            }
            Err(error) => assert!(matches!(error, Error::Trimmed { .. }), "{error}"),
        }
        trim.join().expect("ends");
    });
}

#[test]
fn a_reader_beside_a_trim_starts_where_it_was_asked_to_or_is_told() {
    read_beside_a_trim();
}

/// The scenes see the mistakes that they are there for.
#[cfg(feature = "mutants")]
#[test]
fn planted_mistakes_are_found() {
    use crate::testing::mutant::{Mutant, set};
    let scenes: [(Mutant, fn()); 2] = [
        (Mutant::TrimBesideReader, read_beside_a_trim),
        (Mutant::CloseBesideMark, || close_beside_the_idle_mark(2)),
    ];
    for (mutant, scene) in scenes {
        set(Some(mutant));
        let found = std::panic::catch_unwind(scene).is_err();
        set(None);
        assert!(found, "{mutant:?}");
    }
}
