//! Model-checks gates and group commit under `loom`, in every thread order within bounds.
//!
//! Small scenes run under `loom` in every order within bounds (two or three threads, three forced switches): a gate,
//! and committers that share writes through the real group and the real core, over segment writers without files. A
//! thread that sleeps for ever is a deadlock, which `loom` reports; so a lost wake-up cannot hide. `cargo xtask loom`
//! runs it.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::thread;
use seawall_sys::durability::{DeviceCache, Durability, Medium};
use seawall_sys::methods;

use crate::channel::publisher::Publisher;
use crate::channel::words;
use crate::commit::append_queue::Place as Turn;
use crate::commit::gate::Gate;
use crate::commit::group::Group;
use crate::commit::seal::Chain;
use crate::commit::segment_writers::SegmentWriters;
use crate::commit::state::{Core, ResumePoint};
use crate::commit::sync::{AtomicBool, Ordering};
use crate::error::Error;
use crate::format::{BatchKind, SegmentHeader, Tag, TagKind};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::method::relaxed::Rows;
use crate::read::index::durable_end;
use crate::read::reader::segment_of;
use crate::read::stream::durable_places;
use crate::segment::inventory::SegmentInventory;
use crate::segment::{Place, Spare};
use crate::stream::StreamId;
use crate::stream::places::RecordPlace;
use crate::stream::state::TaggedState;
use crate::stream::table::Needed;
use crate::testing::fixtures;
use crate::testing::loom_page::LoomPage;

fn explore(scene: impl Fn() + Sync + Send + 'static) {
    explore_in(9, scene);
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
    let around = fixtures::surroundings(DeviceCache::WriteBack, false, Medium::Block);
    let table = methods::of(seawall_sys::method::System::Linux);
    let own = table.iter().find(|method| method.id == "dsync").expect("a known row");
    Rows::select(own, Durability::PowerLoss, &around, table)
}

/// A log of one segment that is never full; the write of job `fails` fails.
fn group(fails: u64, depth: usize) -> Arc<Group> {
    group_at(Place { segment: 1, offset: 512, data_end: 1 << 30 }, fails, depth)
}

fn group_at(place: Place, fails: u64, depth: usize) -> Arc<Group> {
    let config = fixtures::config(512, 512, depth);
    let writers = SegmentWriters::nowhere(std::path::Path::new("nowhere"), rows()).fail(fails);
    let inventory = SegmentInventory::new(Vec::<SegmentHeader>::new(), 2, 1 << 30, 1..=2);
    Arc::new(Group::new(config, fixtures::core(config, place), Chain::new(0), writers, inventory))
}

/// Runs `work` on a thread of its own.
fn beside<T: 'static>(group: &Arc<Group>, work: impl FnOnce(&Group) -> T + 'static) -> thread::JoinHandle<T> {
    let group = Arc::clone(group);
    thread::spawn(move || work(&group))
}

/// Appends a record and commits it at the level.
fn commit(group: &Group, level: AckLevel) -> Result<Lsn, Error> {
    let (lsn, core) = group.accept(|core| core.append(b"record"))?;
    group.commit_and_wait(core, lsn, level)?;
    assert!(group.reached(level) >= lsn, "acknowledged too early");
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
        assert!(!gate.open_for_one(), "no sleeper is left");
    });
}

#[test]
fn a_lone_sleeper_is_woken() {
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

/// Two committers of these levels, of which the first waits for a second one if `waits`; job `fails` fails. One write at
/// a time, so that one of them may have to wait for the other, and two.
fn two(levels: [AckLevel; 2], waits: bool, fails: u64) {
    meet(levels, waits, fails, 1);
    meet(levels, waits, fails, 2);
}

fn meet(levels: [AckLevel; 2], waits: bool, fails: u64, depth: usize) {
    explore(move || {
        let group = group(fails, depth);
        if waits {
            group.expect_committers(2);
        }
        let other = beside(&group, move |group| commit(group, levels[1]));
        let mine = commit(&group, levels[0]);
        let others = other.join().expect("ends");
        let durable = group.durable();
        for (result, level) in [(&mine, levels[0]), (&others, levels[1])] {
            match result {
                Ok(lsn) => assert!(group.reached(level) >= *lsn),
                Err(error) => assert!(fails != u64::MAX && matches!(error, Error::Failed { .. }), "{error}"),
            }
        }
        if fails == u64::MAX {
            assert!(mine.is_ok() && others.is_ok());
            let full = levels.contains(&AckLevel::Full);
            assert!(!full || durable > Lsn::ZERO);
        } else {
            assert!(mine.is_err() || others.is_err(), "a failed write is never acknowledged");
            assert!(group.core().issue().is_none(), "nothing is issued after a failure");
        }
    });
}

const NEVER: u64 = u64::MAX;

#[test]
fn two_committers_both_return() {
    two([AckLevel::Full, AckLevel::Full], false, NEVER);
}

#[test]
fn committers_that_gather_both_return() {
    two([AckLevel::Full, AckLevel::Full], true, NEVER);
}

#[test]
fn a_failure_wakes_every_committer() {
    two([AckLevel::Full, AckLevel::Full], false, 0);
}

/// A gathering leader has released the lock: the failure may come in between, and its wake-up is over before the leader
/// sleeps.
#[test]
fn a_failure_reaches_a_gathering_leader() {
    two([AckLevel::Full, AckLevel::Full], true, 0);
}

#[test]
fn a_relaxed_and_a_full_committer_both_return() {
    two([AckLevel::Full, AckLevel::System], false, NEVER);
}

#[test]
fn a_failed_debt_sync_wakes_every_committer() {
    two([AckLevel::Full, AckLevel::System], false, 1);
}

/// A thread gathers and then leaves the batch to the committers that came: it must wake one of them.
#[test]
fn a_committer_is_woken_by_a_gatherer_that_does_not_lead() {
    explore(|| {
        let group = group(NEVER, 2);
        group.expect_committers(2);
        let onlooker = beside(&group, |group| {
            let (_, core) = group.gather(group.core());
            let waiting = core.waiting();
            drop(core);
            group.hand_over(waiting);
        });
        let mine = commit(&group, AckLevel::Full);
        onlooker.join().expect("ends");
        assert!(mine.is_ok_and(|lsn| group.durable() >= lsn));
    });
}

/// The writer thread leaves a batch to a committer that is about to block; whether that comes or not, the batch is written.
#[test]
fn a_batch_that_the_writer_thread_leaves_to_a_committer_is_written() {
    explore(|| {
        let group = group(NEVER, 2);
        group.expect_committer();
        let (lsn, core) = group.accept(|core| core.append(b"record")).expect("there is room");
        drop(core);
        let writer = beside(&group, move |group| {
            group.request(lsn, AckLevel::Full);
            if let Err(core) = group.lead_for_futures(group.core()) {
                let waiting = core.waiting();
                drop(core);
                group.hand_over(waiting);
            }
        });
        let committer = beside(&group, move |group| group.commit(lsn, AckLevel::Full));
        writer.join().expect("ends");
        assert!(committer.join().expect("ends").is_ok());
        assert!(group.durable() >= lsn);
    });
}

#[test]
fn without_a_committer_the_writer_thread_writes_the_batch() {
    explore(|| {
        let group = group(NEVER, 2);
        group.expect_committer();
        let append = |group: &Group| group.accept(|core| core.append(b"record")).expect("there is room").0;
        let lsn = append(&group);
        group.request(lsn, AckLevel::Full);
        let other = beside(&group, move |group| [append(group), append(group)]);
        let led = group.lead_for_futures(group.core()).is_ok();
        assert!(led && group.durable() >= lsn);
        other.join().expect("ends");
    });
}

/// One thread writes the mark of the idle log while the other closes it. When closing returns,
/// the close mark is the last thing that was written, and nothing is in flight.
fn close_during_the_idle_mark(depth: usize) {
    explore(move || {
        let group = group(NEVER, depth);
        commit(&group, AckLevel::Full).expect("commits");
        let idle = beside(&group, |group| drop(group.lead_idle(group.core())));
        group.close_log().expect("closes");
        assert!(group.writers.is_closed(), "the close mark is not the last one");
        assert_eq!(group.core().in_flight(), 0, "something is still in flight");
        idle.join().expect("ends");
        assert!(group.writers.is_closed());
    });
}

#[test]
fn a_close_during_the_idle_mark_comes_last() {
    close_during_the_idle_mark(1);
    close_during_the_idle_mark(2);
}

/// One thread closes the log while the other, which saw it open, appends and commits: either is refused, or its record lies
/// before the close mark.
#[test]
fn an_append_during_a_close_is_refused_or_comes_before_the_mark() {
    explore(|| {
        let group = group(NEVER, 2);
        commit(&group, AckLevel::Full).expect("commits");
        let other = beside(&group, |group| commit(group, AckLevel::Full));
        group.status.close();
        group.close_log().expect("closes");
        let appended = other.join().expect("ends");
        assert!(group.writers.is_closed(), "the close mark is not the last one");
        match appended {
            Ok(lsn) => assert!(lsn == group.core().appended()),
            Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
        }
    });
}

/// A log of three started segments, each of 100 bytes of the log, and what was appended in them.
fn three_segments() -> Arc<Group> {
    let header = |number: u64| fixtures::segment(number, 512, 1 << 30, Lsn::new(100 * (number - 1)));
    let config = fixtures::config(512, 512, 1);
    let place = Place { segment: 3, offset: 512, data_end: 1 << 30 };
    let (spares, tagged) = (Vec::new(), TaggedState::default());
    let resume = ResumePoint { end: Lsn::new(300), trim: Lsn::ZERO, place, spares, tagged };
    let writers = SegmentWriters::nowhere(std::path::Path::new("nowhere"), rows());
    let inventory = SegmentInventory::new((1..=3).map(header), 4, 1 << 30, 1..=1);
    Arc::new(Group::new(config, Core::new(config, resume), Chain::new(0), writers, inventory))
}

#[test]
fn a_reader_during_a_trim_starts_at_its_lsn_or_fails() {
    // Two locks are all that these threads meet at.
    explore_in(3, || {
        let group = three_segments();
        let trim = beside(&group, |group| {
            group.core().set_trim(Lsn::new(250), Lsn::MAX);
            // Its mark becomes durable, and what it frees goes.
            let mut core = group.core();
            assert!(core.mark(BatchKind::Mark));
            let issue = core.issue().expect("nothing is in flight");
            core.done(issue.id, issue.batch.expect("a mark").buf);
            drop(core);
            let (core, mut inventory) = (group.core(), group.housekeeping.inventory());
            assert!(inventory.next_task(core.spares(), core.durable_trim()).is_some(), "a segment goes");
        });
        match segment_of(&group, Lsn::new(50)) {
            Ok(found) => {
                let found = found.expect("there are segments").first_lsn;
                assert!(found <= Lsn::new(50), "read from {found} on without an error");
            }
            Err(error) => assert!(matches!(error, Error::Trimmed { .. }), "{error}"),
        }
        trim.join().expect("ends");
    });
}

/// While the next segment starts, the index of the one before ends where that one ends.
#[test]
fn an_index_stays_within_its_segment() {
    explore_in(3, || {
        let group = three_segments();
        let writer = beside(&group, |group| {
            let next = fixtures::segment(4, 512, 1 << 30, Lsn::new(300));
            group.housekeeping.inventory().started(next);
            group.waiters.publish_durable(Lsn::new(400));
        });
        assert_eq!(durable_end(&group, 3), Lsn::new(300));
        writer.join().expect("ends");
    });
}

/// A log with one durable record of one stream, and where that lies.
fn one_in_a_stream() -> (Arc<Group>, StreamId, RecordPlace) {
    let group = group(NEVER, 2);
    let stream = StreamId::new(7).expect("small");
    let accepted = group.accept(|core| core.append_to(stream, b"record").map(|(end, _)| end));
    let end = accepted.expect("there is room").0;
    group.commit(end, AckLevel::Full).expect("commits");
    let place = group.core().tagged.streams.get(stream).and_then(|state| state.places.get(0));
    (group, stream, place.expect("appended"))
}

/// Copies the record forward if it is still where it was, as a segment does that is rewritten.
fn rewrite(group: &Group, stream: StreamId, place: RecordPlace) {
    let tag = Tag { kind: TagKind::Copy, stream: stream.get(), number: 0 };
    let needed = Needed { tag, place: Some(place) };
    let copied = group.accept(|core| {
        let needs = core.tagged.streams.still_needs(&needed);
        if needs { core.append_tagged(&tag, b"record") } else { Ok(core.appended()) }
    });
    let end = copied.expect("there is room").0;
    group.commit(end, AckLevel::Full).expect("commits");
}

/// A record of a stream that is copied forward is there at every moment.
#[test]
fn a_durable_record_is_read_while_it_is_copied() {
    explore(|| {
        let (group, stream, place) = one_in_a_stream();
        let rewriter = beside(&group, move |group| rewrite(group, stream, place));
        let (_, places) = durable_places(&group, (stream, None), 0, 1).expect("it was not trimmed");
        assert_eq!(places.len(), 1, "a durable record is not there");
        assert!(places[0].lsn < group.durable());
        rewriter.join().expect("ends");
    });
}

/// A reader after a cut finds the record that was appended there, or none yet, but never the copy of the one that was cut off.
#[test]
fn what_was_cut_off_is_not_read_where_it_is_being_copied() {
    explore(|| {
        let (group, stream, place) = one_in_a_stream();
        let rewriter = beside(&group, move |group| rewrite(group, stream, place));
        let cut = Tag { kind: TagKind::StreamCut, stream: stream.get(), number: 0 };
        drop(group.accept(|core| core.append_tagged(&cut, &[])).expect("there is room"));
        let accepted = group.accept(|core| core.append_to(stream, b"another").map(|(end, _)| end));
        let end = accepted.expect("there is room").0;
        let (_, places) = durable_places(&group, (stream, None), 0, 1).expect("it was not trimmed");
        let is_new = |place: &RecordPlace| place.lsn.get() + u64::from(place.bytes) == end.get();
        assert!(places.iter().all(is_new), "a record that was cut off: {places:?}");
        rewriter.join().expect("ends");
    });
}

/// Lets the thread that polls sleep until it is woken.
#[derive(Default)]
struct Woken(Gate);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.open();
    }
}

/// A future that appends meets a full memory while a batch is written: it sees the room or is woken for it.
#[test]
fn an_append_future_sees_room_that_came_before_it_waited() {
    explore(|| {
        let group = group(NEVER, 1);
        // One batch each, until the memory is full.
        let append =
            |group: &Group| group.accept_or::<false>(|core| core.append(&[7; 400])).map(|(lsn, _)| lsn);
        let first = append(&group).expect("there is room");
        while append(&group).is_ok() {}
        let committer = beside(&group, move |group| group.commit(first, AckLevel::Full));
        let (woken, mut place) = (Arc::new(Woken::default()), Turn::default());
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            let ticket = woken.0.ticket();
            let mut context = Context::from_waker(&waker);
            let queue = &group.waiters.appends;
            if let Poll::Ready(appended) =
                queue.poll(&mut place, (400, false), &mut context, || append(&group))
            {
                woken.0.leave();
                assert!(appended.is_ok());
                break;
            }
            woken.0.wait(ticket);
        }
        assert!(committer.join().expect("ends").is_ok());
    });
}

/// A segment is offered while an append that needs one looks again and again: nothing that is there stays requested.
#[test]
fn an_offered_segment_is_not_requested_again() {
    explore(|| {
        let group = group_at(Place { segment: 1, offset: 512, data_end: 512 }, NEVER, 1);
        let append = |group: &Group| group.accept(|core| core.append(b"record")).map(|(lsn, _)| lsn);
        let appender = beside(&group, append);
        group.waiters.room_for_appends(0);
        group.housekeeping.offer(|| group.core(), Spare { number: 2, bytes: 1 << 20 });
        group.waiters.room_for_appends(512);
        assert!(appender.join().expect("ends").is_ok());
        assert!(!group.housekeeping.awaits_room(), "another segment would be prepared");
    });
}

/// A writer publishes this many LSNs and ends, while followers that share its page sleep until they have seen that.
fn follow_a_page(followers: u32, lsns: u64) {
    explore(move || {
        let page = Arc::new(LoomPage::default());
        let publisher = Publisher::new(Arc::clone(&page), false, (Lsn::ZERO, 1));
        let follow = move |page: Arc<LoomPage>, first_tag: u32| {
            let mut durable = 0;
            for tag in first_tag.. {
                let seen = words::look(&page).expect("memory");
                assert!(seen.durable >= durable && seen.segment >= seen.durable, "{seen:?} after {durable}");
                assert!(seen.cuts >= seen.durable, "{seen:?}: a cut before it is not counted");
                durable = seen.durable;
                if seen.ended {
                    return assert_eq!(words::look(&page).expect("memory").durable, lsns);
                }
                words::sleep_past(&page, seen, tag, std::time::Duration::MAX).expect("memory");
            }
        };
        let followers: Vec<_> = (0..followers)
            .map(|number| {
                let page = Arc::clone(&page);
                thread::spawn(move || follow(page, number * 1000))
            })
            .collect();
        for lsn in 1..=lsns {
            publisher.segment(lsn);
            publisher.publish(Lsn::new(lsn), lsn);
            publisher.wake(Lsn::new(lsn));
        }
        publisher.end();
        followers.into_iter().for_each(|follower| follower.join().expect("ends"));
        assert!(publisher.wakes() <= lsns + 1, "a change costs one wake");
    });
}

#[test]
fn a_follower_of_another_process_misses_nothing() {
    follow_a_page(1, 2);
}

#[test]
fn two_followers_of_other_processes_miss_nothing() {
    follow_a_page(2, 0);
}

/// The scenes see the mistakes that they are there for.
#[cfg(feature = "mutants")]
#[test]
fn planted_mistakes_are_found() {
    use crate::testing::mutant::{Mutant, set};
    let scenes: [(Mutant, fn()); 10] = [
        (Mutant::AppendWaitsUnseen, an_append_future_sees_room_that_came_before_it_waited),
        (Mutant::RequestBehindOffer, an_offered_segment_is_not_requested_again),
        (Mutant::SleepAfterOneLook, || follow_a_page(1, 2)),
        (Mutant::SleepersShareTag, || follow_a_page(2, 0)),
        (Mutant::TrimDuringRead, a_reader_during_a_trim_starts_at_its_lsn_or_fails),
        (Mutant::CloseDuringMark, || close_during_the_idle_mark(2)),
        (Mutant::AppendBehindClose, an_append_during_a_close_is_refused_or_comes_before_the_mark),
        (Mutant::DurableSeenBefore, a_durable_record_is_read_while_it_is_copied),
        (Mutant::IndexRunsOver, an_index_stays_within_its_segment),
        (Mutant::MovingByNumber, what_was_cut_off_is_not_read_where_it_is_being_copied),
    ];
    for (mutant, scene) in scenes {
        set(Some(mutant));
        let found = std::panic::catch_unwind(scene).is_err();
        set(None);
        assert!(found, "{mutant:?}");
    }
}
