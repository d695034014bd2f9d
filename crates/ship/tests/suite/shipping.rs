//! Tests shipping of real logs to a destination in memory: outages, lost answers, restarts, stale writers, trims, other logs.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::common::{
    LIMIT, Memory, Refusal, append, copy, drill, folders, options, rebuild, records, scratch, shipped,
    shipping, start,
};
use seawall::{Hold, Log, Lsn, RebuildTo, View};
use seawall_ship::note::hold_name;
use seawall_ship::restore::{self, Sources};
use seawall_ship::shipping::{Settings, Shipping};
use seawall_ship::status::{Folder, Said, of_folder};
use seawall_ship::{Error, Result};

#[test]
fn a_shipped_log_is_rebuilt_and_the_old_writer_is_refused() {
    let (_dir, [from, to]) = folders(["log", "again"]);
    let (log, memory, shipping) = shipping(&from);
    let end = append(&log, 200);
    shipping.wait(end, LIMIT).expect("is acknowledged");
    assert_eq!((shipping.acknowledged(), shipping.at_risk().expect("looks").records), (end, 0));
    let drilled = drill(&mut memory.clone(), Some(&from)).expect("drills");
    assert_eq!((drilled.end, drilled.records, drilled.epoch, drilled.read.ignored), (end, 200, 1, 0));
    let rebuilt = rebuild(&mut memory.clone(), &to).expect("rebuilds");
    assert_eq!((rebuilt.report.end, rebuilt.epoch), (end, Some(2)));
    assert_eq!(records(&from), records(&to));
    // The old writer goes on here, and its destination refuses it.
    let late = append(&log, 1);
    let refused = shipping.wait(late, LIMIT);
    assert!(matches!(refused, Err(Error::Replaced { epoch: 2 })), "{refused:?}");
    drop(shipping);
    let again = start(&from, &memory).map(drop);
    assert!(matches!(again, Err(Error::NotOwner)), "{again:?}");
    // The new one goes on.
    let new = Log::open(&to, options()).expect("opens");
    let shipping = start(&to, &memory).expect("starts");
    let end = append(&new, 50);
    shipping.wait(end, LIMIT).expect("is acknowledged");
    let drilled = drill(&mut memory.clone(), Some(&to)).expect("drills");
    assert_eq!((drilled.end, drilled.records, drilled.epoch), (end, 250, 3));
}

#[test]
fn restarts_and_lost_answers_leave_every_batch_there_once() {
    let (_dir, [from, to]) = folders(["log", "again"]);
    let memory = Memory::new("a");
    memory.with(|weather| weather.one_in = 7);
    let mut end = Lsn::ZERO;
    let mut appended = 0;
    for round in 0..6 {
        let log = Log::open(&from, options()).expect("opens");
        let shipping = start(&from, &memory).expect("starts");
        end = append(&log, 60);
        appended += 60;
        if round % 2 == 0 {
            shipping.wait(end, LIMIT).expect("is acknowledged");
        }
        // Otherwise in the middle of it; the next one goes on.
        drop(shipping);
        if round % 3 != 0 {
            log.close().expect("closes");
        }
    }
    let log = Log::open(&from, options()).expect("opens");
    let shipping = start(&from, &memory).expect("starts");
    assert_eq!(shipping.finish(LIMIT).expect("is acknowledged"), end);
    let appends = memory.weather.lock().expect("sound").appends;
    assert!(appends > memory.stored().len() as u64 + 20, "requests were lost: {appends}");
    let drilled = drill(&mut memory.clone(), Some(&from)).expect("drills");
    assert_eq!((drilled.end, drilled.records), (end, appended));
    rebuild(&mut memory.clone(), &to).expect("rebuilds");
    log.close().expect("closes");
    assert_eq!(records(&from), records(&to));
}

#[test]
fn an_outage_of_any_length_ends_with_everything_shipped_in_bounded_memory() {
    let dir = scratch();
    let log = Log::open(dir.path(), options()).expect("opens");
    let memory = Memory::new("a");
    let settings = Settings { memory_bytes: 64 << 10, ..Settings::default() };
    let shipping = Shipping::start(dir.path(), Box::new(memory.clone()), settings).expect("starts");
    let first = append(&log, 20);
    shipping.wait(first, LIMIT).expect("is acknowledged");
    memory.with(|weather| weather.away = true);
    let end = append(&log, 400);
    let refused = shipping.wait(end, Some(Duration::from_millis(200)));
    assert!(matches!(refused, Err(Error::TimedOut { lsn }) if lsn == end), "{refused:?}");
    let risk = shipping.at_risk().expect("looks");
    assert_eq!((risk.records, risk.bytes), (400, end.since(first)), "every record is counted, read or not");
    assert!(risk.time >= Duration::from_millis(200), "{risk:?}");
    let stats = shipping.stats().expect("looks");
    assert!(stats.failures > 0 && stats.failing.is_some_and(|why| why.contains("it is away")));
    memory.with(|weather| weather.away = false);
    shipping.wait(end, LIMIT).expect("is acknowledged");
    let risk = shipping.at_risk().expect("looks");
    assert_eq!((risk.records, risk.bytes, risk.time), (0, 0, Duration::ZERO));
    assert_eq!(drill(&mut memory.clone(), None).expect("drills").records, 420);
}

#[test]
fn a_trim_never_passes_what_is_not_there_yet() {
    let dir = scratch();
    let (log, memory, shipping) = shipping(dir.path());
    let first = append(&log, 20);
    shipping.wait(first, LIMIT).expect("is acknowledged");
    memory.with(|weather| weather.away = true);
    let end = append(&log, 200);
    let trimmed = log.trim(end).expect("trims");
    assert!(trimmed <= first, "{trimmed} of {first}");
    drop(shipping);
    assert!(log.trim(end).expect("trims") <= first, "also while nothing ships");
    memory.with(|weather| weather.away = false);
    let shipping = start(dir.path(), &memory).expect("starts");
    shipping.finish(LIMIT).expect("is acknowledged");
    let trimmed = log.trim(end).expect("trims");
    assert!(trimmed > first && trimmed < end, "up to the last message: {trimmed} of {end}");
    Hold::remove(dir.path(), &hold_name("memory:a")).expect("removes");
    assert_eq!(log.trim(end).expect("trims"), end);
}

#[test]
fn a_log_that_went_another_way_is_refused() {
    let (dir, [from, old]) = folders(["log", "old"]);
    let (log, memory) = shipped(&from, 30);
    log.backup(&old).expect("backs up");
    append(&log, 30);
    let end = start(&from, &memory).expect("starts").finish(LIMIT).expect("ships");
    log.close().expect("closes");
    // The old backup with the owner's hold: the log is shorter than what the destination has.
    let name = hold_name("memory:a");
    let hold = Hold::read(&from, &name).expect("reads").expect("is there");
    Hold { lsn: Lsn::ZERO, ..hold }.write(&old, &name).expect("writes");
    let refused = start(&old, &memory).map(drop);
    assert!(matches!(refused, Err(Error::Diverged { lsn, .. }) if lsn == end), "{refused:?}");
    // Longer than that, with other records.
    let log = Log::open(&old, options()).expect("opens");
    while log.append_commit(b"another record").expect("commits").end <= end {}
    let refused = start(&old, &memory).map(drop);
    assert!(matches!(refused, Err(Error::Diverged { .. })), "{refused:?}");
    // Another log, and one without a hold.
    let other = dir.path().join("other");
    append(&Log::open(&other, options()).expect("opens"), 3);
    let refused = start(&other, &memory).map(drop);
    assert!(matches!(refused, Err(Error::NotOwner)), "{refused:?}");
    assert_eq!(Hold::read(&other, &name).expect("reads"), None, "a refusal leaves nothing behind");
}

#[test]
fn another_destination_of_the_same_address_is_refused_by_what_tells_them_apart() {
    let (_dir, [from, to]) = folders(["log", "copy"]);
    let is = |memory: &Memory, identity: &str| {
        memory.with(|weather| weather.identity = Some(identity.to_owned()));
    };
    let (memory, other) = (Memory::new("a"), Memory::new("a"));
    let log = Log::open(&from, options()).expect("opens");
    append(&log, 20);
    // A hold of a version that did not note it, and any answer is the first.
    start(&from, &memory).expect("starts").finish(LIMIT).expect("ships");
    let name = hold_name("memory:a");
    let hold = Hold::read(&from, &name).expect("reads").expect("is there");
    assert!(!hold.note.contains("cluster"), "{}", hold.note);
    is(&memory, "cluster one");
    append(&log, 20);
    start(&from, &memory).expect("starts").finish(LIMIT).expect("ships");
    let hold = Hold::read(&from, &name).expect("reads").expect("is there");
    assert!(hold.note.contains("\nat cluster one\n"), "{}", hold.note);
    is(&other, "cluster two");
    let refused = [start(&from, &other).map(drop), drill(&mut other.clone(), Some(&from)).map(drop)];
    for refused in refused {
        let told = matches!(&refused, Err(Error::Other { address, known, found })
            if address == "memory:a" && known == "cluster one" && found == "cluster two");
        assert!(told, "{refused:?}");
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains("cluster one") && text.contains("cluster two"), "{text}");
    }
    assert!(other.stored().is_empty(), "nothing was sent");
    // One that does not say it now is no other.
    memory.with(|weather| weather.identity = None);
    start(&from, &memory).expect("starts").finish(LIMIT).expect("ships");
    is(&memory, "cluster one");
    rebuild(&mut memory.clone(), &to).expect("rebuilds");
    let refused = start(&to, &other).map(drop);
    assert!(matches!(refused, Err(Error::Other { .. })), "the hold of a rebuilt log: {refused:?}");
}

#[test]
fn what_the_destination_lost_is_noticed() {
    let (_dir, [from]) = folders(["log"]);
    let (log, memory) = shipped(&from, 40);
    let shipping = start(&from, &memory).expect("starts");
    let end = append(&log, 40);
    shipping.wait(end, LIMIT).expect("is acknowledged");
    memory.with(|weather| weather.stored.truncate(20));
    let refused = shipping.wait(append(&log, 1), LIMIT);
    assert!(matches!(refused, Err(Error::Lost { .. })), "{refused:?}");
    drop(shipping);
    // It had noted how far the first one came.
    let refused = start(&from, &memory).map(drop);
    assert!(matches!(refused, Err(Error::Lost { .. })), "{refused:?}");
    let drilled = drill(&mut memory.clone(), Some(&from));
    assert!(matches!(drilled, Err(Error::Lost { .. })), "{drilled:?}");
    let drilled = drill(&mut memory.clone(), None).expect("what is left is sound");
    assert!(drilled.end < end);
}

#[test]
fn any_message_that_is_missing_or_changed_is_found_by_a_drill_and_a_rebuild() {
    let (_dir, [from]) = folders(["log"]);
    let (_log, memory) = shipped(&from, 40);
    let sound = memory.stored();
    assert!(sound.len() > 20);
    for at in 0..sound.len() {
        let mut missing = sound.clone();
        missing.remove(at);
        let mut changed = sound.clone();
        let mut bytes = changed[at].to_vec();
        let place = at * 7919 % bytes.len();
        bytes[place] ^= 1 << (at % 8);
        changed[at] = Arc::from(bytes);
        for (what, stored) in [("missing", missing), ("changed", changed)] {
            memory.with(|weather| weather.stored.clone_from(&stored));
            let drilled = drill(&mut memory.clone(), Some(&from));
            assert!(drilled.is_err(), "{what} message {at}: {drilled:?}");
        }
    }
    memory.with(|weather| weather.stored.clone_from(&sound));
    drill(&mut memory.clone(), Some(&from)).expect("is sound again");
}

/// A message that is replaced by another sound one has all after it ignored: that is no shorter log.
#[test]
fn a_message_that_is_replaced_by_another_sound_one_is_found() {
    let (_dir, [from]) = folders(["log"]);
    let (_log, memory) = shipped(&from, 60);
    let sound = memory.stored();
    for at in 1..sound.len() {
        let mut replaced = sound.clone();
        replaced[at] = Arc::clone(&sound[at - 1]);
        memory.with(|weather| weather.stored.clone_from(&replaced));
        let drilled = drill(&mut memory.clone(), Some(&from));
        assert!(matches!(drilled, Err(Error::Damaged { .. } | Error::Lost { .. })), "{at}: {drilled:?}");
        // Without the log's folder the last ones could be those of a writer that was cut off.
        let alone = drill(&mut memory.clone(), None);
        let follow = sound.len() - at;
        assert!(follow <= 2 * 16 || matches!(alone, Err(Error::Damaged { .. })), "{at}: {alone:?}");
    }
}

/// A message that was sent after the one before it was acknowledged says so.
#[test]
fn a_message_that_is_replaced_is_found_by_the_next_one_that_knew_it_to_be_stored() {
    let dir = scratch();
    let (log, memory, shipping) = shipping(dir.path());
    for _ in 0..20 {
        let end = log.append_commit(b"a record").expect("commits").end;
        shipping.wait(end, LIMIT).expect("is acknowledged");
    }
    let sound = memory.stored();
    assert_eq!(sound.len(), 21, "an epoch, and a message for each");
    for at in 1..sound.len() {
        let mut replaced = sound.clone();
        replaced[at] = Arc::clone(&sound[at - 1]);
        memory.with(|weather| weather.stored.clone_from(&replaced));
        let drilled = drill(&mut memory.clone(), None);
        let found = matches!(drilled, Err(Error::Damaged { .. }));
        assert_eq!(found, at + 1 < sound.len(), "{at}: {drilled:?}");
    }
}

#[test]
fn a_drill_beside_a_writer_reports_no_loss() {
    let (_dir, [from]) = folders(["log"]);
    let memory = Memory::new("a");
    let log = Log::open(&from, options()).expect("opens");
    append(&log, 5);
    let shipping = start(&from, &memory).expect("starts");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| append(&log, 1500));
        while !writer.is_finished() {
            drill(&mut memory.clone(), Some(&from)).expect("is sound");
        }
    });
    shipping.finish(LIMIT).expect("ships");
}

/// The old writer goes on while the rebuild reads, and for good where that fails.
#[test]
fn a_rebuild_takes_the_right_to_write_when_nothing_else_can_fail() {
    let (dir, [from, to]) = folders(["log", "again"]);
    let (log, memory, shipping) = shipping(&from);
    let refused = rebuild(&mut memory.clone(), &to);
    assert!(matches!(refused, Err(Error::Unfit { .. })), "there is an epoch, and no batch: {refused:?}");
    shipping.wait(append(&log, 100), LIMIT).expect("the writer is not refused");
    let sound = memory.stored();
    memory.with(|weather| drop(weather.stored.remove(40)));
    let refused = rebuild(&mut memory.clone(), &to);
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    memory.with(|weather| weather.stored = sound);
    let missing = dir.path().join("mistyped/again");
    assert!(matches!(rebuild(&mut memory.clone(), &missing), Err(Error::Log(_))), "no parent is made");
    assert!(!dir.path().join("mistyped").exists());
    let mut during = None;
    let mut look = |_: Lsn, _: u64| {
        during.get_or_insert_with(|| shipping.wait(append(&log, 1), LIMIT));
    };
    let mut source = memory.clone();
    let sources = Sources::new([&mut source as _]).expect("opens");
    let rebuilt = restore::rebuild(sources, &to, &mut look).expect("rebuilds").outcome;
    assert!(matches!(during, Some(Ok(()))), "{during:?}");
    assert_eq!((rebuilt.report.records, rebuilt.epoch), (101, Some(2)), "what came while it read too");
    let refused = shipping.wait(append(&log, 1), LIMIT);
    assert!(matches!(refused, Err(Error::Replaced { epoch: 2 })), "{refused:?}");
}

#[test]
fn a_copy_to_a_position_leaves_the_writer_be() {
    let (_dir, [from, to]) = folders(["log", "copy"]);
    let (log, memory, shipping) = shipping(&from);
    let middle = append(&log, 30);
    let end = append(&log, 30);
    shipping.wait(end, LIMIT).expect("is acknowledged");
    let until = RebuildTo { lsn: middle, ..RebuildTo::default() };
    let copied = copy(&mut memory.clone(), &to, until).expect("copies");
    assert_eq!((copied.report.end, copied.epoch), (middle, None));
    assert_eq!(records(&to).len(), 30);
    shipping.wait(append(&log, 5), LIMIT).expect("the writer is not refused");
    let refused = start(&to, &memory).map(drop);
    assert!(matches!(refused, Err(Error::NotOwner)), "{refused:?}");
}

#[test]
fn of_two_that_take_over_at_once_one_wins() {
    let (dir, [from]) = folders(["log"]);
    let (_log, memory) = shipped(&from, 50);
    let mut winners = 0;
    for round in 0..8 {
        let take = |name: &str| {
            let to = dir.path().join(format!("{name}-{round}"));
            rebuild(&mut memory.clone(), &to).map(|_| to)
        };
        let both = std::thread::scope(|scope| {
            let one = scope.spawn(|| take("one"));
            let other = scope.spawn(|| take("other"));
            [one.join().expect("ends"), other.join().expect("ends")]
        });
        // One may have come after the other altogether: then the first finds itself replaced.
        let write = |to: &std::path::PathBuf| start(to, &memory).map(drop);
        let allowed: Vec<_> = both.iter().flatten().map(write).collect();
        winners += allowed.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(allowed.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{both:?} {allowed:?}");
    }
    assert_eq!(winners, 8);
    assert_eq!(
        View::open(&from).expect("opens").log_id(),
        drill(&mut memory.clone(), None).expect("drills").log_id
    );
}

#[test]
fn a_future_is_ready_when_the_destination_has_acknowledged() {
    let dir = scratch();
    let (log, memory, shipping) = shipping(dir.path());
    memory.with(|weather| weather.away = true);
    let end = append(&log, 3);
    let mut waiting = std::pin::pin!(shipping.wait_async(end));
    let (waker, woken) = waker();
    let mut context = Context::from_waker(&waker);
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    memory.with(|weather| weather.away = false);
    woken.recv_timeout(Duration::from_mins(1)).expect("is woken");
    assert!(matches!(waiting.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
    memory.with(|weather| weather.away = true);
    let mut waiting = std::pin::pin!(shipping.wait_async(append(&log, 3)));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    drop(shipping);
    woken.recv_timeout(Duration::from_mins(1)).expect("is woken when shipping ends");
    assert!(matches!(waiting.poll(&mut context), Poll::Ready(Err(Error::Closed))));
}

/// As an archive whose disk is not mounted, a bucket that was emptied, or one that was restored to an earlier moment.
#[test]
fn a_destination_that_was_set_back_is_refused_before_anything_is_stored() {
    let (_dir, [from]) = folders(["log"]);
    let (log, memory) = shipped(&from, 30);
    let sound = memory.stored();
    append(&log, 30);
    for left in [0, 1, sound.len() - 1] {
        memory.with(|weather| weather.stored = sound[..left].to_vec());
        let refused = start(&from, &memory).map(drop);
        assert!(matches!(refused, Err(Error::Lost { .. })), "{left}: {refused:?}");
        assert_eq!(memory.stored().len(), left, "nothing was sent");
    }
    // Another message in its place.
    memory.with(|weather| {
        weather.stored.clone_from(&sound);
        weather.stored[sound.len() - 1] = Arc::clone(&sound[3]);
    });
    let refused = start(&from, &memory).map(drop);
    assert!(matches!(refused, Err(Error::Altered { .. })), "{refused:?}");
    memory.with(|weather| weather.stored.clone_from(&sound));
    start(&from, &memory).expect("starts").finish(LIMIT).expect("ships");
    drill(&mut memory.clone(), Some(&from)).expect("is sound");
}

/// What is lost, or taken over, while a log is shipped is said though nothing is sent.
#[test]
fn an_idle_writer_looks_at_what_it_had_stored_and_for_another_one() {
    let dir = scratch();
    let settings = Settings { look_time: Duration::from_millis(20), ..Settings::default() };
    let ended = |shipping: &Shipping| {
        for _ in 0..3000 {
            if let Some(error) = shipping.failed() {
                return error;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing was said in 30 s");
    };
    for taken_over in [false, true] {
        let name = if taken_over { "taken" } else { "lost" };
        let (from, to) = (dir.path().join(name), dir.path().join("again"));
        let memory = Memory::new(name);
        let log = Log::open(&from, options()).expect("opens");
        let shipping = Shipping::start(&from, Box::new(memory.clone()), settings).expect("starts");
        shipping.wait(append(&log, 10), LIMIT).expect("is acknowledged");
        std::thread::sleep(Duration::from_millis(100));
        assert!(shipping.failed().is_none(), "{:?}", shipping.failed());
        if taken_over {
            rebuild(&mut memory.clone(), &to).expect("rebuilds");
            assert!(matches!(ended(&shipping), Error::Replaced { .. }));
        } else {
            memory.with(|weather| weather.stored.truncate(3));
            assert!(matches!(ended(&shipping), Error::Lost { .. }));
        }
    }
}

#[test]
fn a_log_is_shipped_to_a_place_once_at_a_time_and_a_copy_of_it_takes_nothing_before_it_joins() {
    let (dir, [from, old]) = folders(["log", "old"]);
    let memory = Memory::new("a");
    let log = Log::open(&from, options()).expect("opens");
    let copied = |to: &std::path::Path| {
        log.backup(to).expect("backs up");
        let name = hold_name("memory:a");
        let hold = Hold::read(&from, &name).expect("reads").expect("is there");
        Hold { lsn: Lsn::ZERO, ..hold }.write(to, &name).expect("writes");
    };
    let shipping = start(&from, &memory).expect("starts");
    shipping.wait(append(&log, 20), LIMIT).expect("is acknowledged");
    let second = start(&from, &memory).map(drop);
    assert!(matches!(second, Err(Error::InUse { .. })), "{second:?}");
    // One that goes another way is refused, and the service does not notice.
    copied(&old);
    shipping.wait(append(&log, 20), LIMIT).expect("is acknowledged");
    append(&Log::open(&old, options()).expect("opens"), 35);
    let stored = memory.stored().len();
    let refused = start(&old, &memory).map(drop);
    assert!(matches!(refused, Err(Error::Diverged { .. })), "{refused:?}");
    assert_eq!(memory.stored().len(), stored, "it took no epoch");
    shipping.wait(append(&log, 1), LIMIT).expect("the service goes on");
    // One that is the same takes the right, and nobody is told to rebuild.
    let clone = dir.path().join("clone");
    copied(&clone);
    let cloned = start(&clone, &memory).expect("it is the same log");
    let refused = shipping.wait(append(&log, 1), LIMIT);
    assert!(matches!(refused, Err(Error::Second { epoch: 2 })), "{refused:?}");
    assert!(!refused.expect_err("refused").to_string().contains("log rebuild"));
    drop((cloned, shipping));
    // Now the service is the one that went another way.
    append(&Log::open(&clone, options()).expect("opens"), 3);
    start(&clone, &memory).expect("starts").finish(LIMIT).expect("ships");
    let forked = drill(&mut memory.clone(), Some(&from));
    assert!(matches!(forked, Err(Error::Forked { records: 1, .. })), "{forked:?}");
}

#[test]
fn a_drill_tells_a_fork_and_what_is_only_here() {
    let (dir, [from, to]) = folders(["log", "again"]);
    let memory = Memory::new("a");
    let log = Log::open(&from, options()).expect("opens");
    let shared = append(&log, 30);
    start(&from, &memory).expect("starts").finish(LIMIT).expect("ships");
    let drilled = |dir: &std::path::Path| drill(&mut memory.clone(), Some(dir));
    let behind = |dir: &std::path::Path| drilled(dir).expect("is sound").between.expect("was named");
    assert_eq!((behind(&from).end, behind(&from).behind, behind(&from).is_replaced), (shared, 0, false));
    let end = append(&log, 7);
    assert_eq!((behind(&from).end, behind(&from).behind), (end, 7), "behind is not forked");
    rebuild(&mut memory.clone(), &to).expect("rebuilds");
    let here = |forked: Result<seawall_ship::restore::Drill>| match forked {
        Err(Error::Forked { lsn, end, records, epoch: 2.. }) => (lsn, end, records),
        other => panic!("{other:?}"),
    };
    assert_eq!(here(drilled(&from)), (shared, end, 7), "the other one has not gone on yet");
    append(&Log::open(&to, options()).expect("opens"), 50);
    start(&to, &memory).expect("starts").finish(LIMIT).expect("ships");
    assert_eq!(here(drilled(&from)), (shared, end, 7));
    assert_eq!(behind(&to).behind, 0);
    // A folder that knows nothing of the destination checks nothing.
    let other = dir.path().join("other");
    append(&Log::open(&other, options()).expect("opens"), 3);
    let refused = drilled(&other).expect_err("has no hold").to_string();
    assert!(refused.contains("no hold"), "{refused}");
}

#[test]
fn what_is_no_message_is_passed_over_and_counted() {
    let (_dir, [from, to]) = folders(["log", "again"]);
    let (log, memory, shipping) = shipping(&from);
    shipping.wait(append(&log, 10), LIMIT).expect("is acknowledged");
    memory.with(|weather| weather.stored.push(Arc::from(&b"hello"[..])));
    let end = append(&log, 10);
    shipping.wait(end, LIMIT).expect("goes on behind it");
    memory.with(|weather| weather.stored.push(Arc::from(&[0; 500][..])));
    let drilled = drill(&mut memory.clone(), Some(&from)).expect("is sound");
    assert_eq!((drilled.end, drilled.read.strays), (end, 2));
    let rebuilt = rebuild(&mut memory.clone(), &to).expect("rebuilds");
    assert_eq!((rebuilt.report.records, rebuilt.read.strays), (20, 2));
}

/// Reads are answered, and nothing is stored: that is said, with the reason, and not tried without a pause.
#[test]
fn whatever_is_not_stored_is_said_with_its_reason_until_something_is() {
    let dir = scratch();
    let (log, memory, shipping) = shipping(dir.path());
    for refuse in [Refusal::Unknown, Refusal::Refused] {
        shipping.wait(append(&log, 3), LIMIT).expect("is acknowledged");
        assert_eq!(shipping.failing(), None);
        memory.with(|weather| (weather.refusal, weather.appends) = (Some(refuse), 0));
        let end = append(&log, 1);
        let waited = shipping.wait(end, Some(Duration::from_secs(2)));
        assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
        let why = shipping.failing().expect("is said");
        assert!(why.contains("quota"), "{why}");
        let stats = shipping.stats().expect("looks");
        assert!(stats.last_failure.is_some_and(|(last, _)| last == why) && stats.stored_ago.is_some());
        memory.with(|weather| {
            assert!(weather.appends < 20, "{refuse:?}: {} tries in 2 s", weather.appends);
            weather.refusal = None;
        });
        shipping.wait(end, LIMIT).expect("is acknowledged");
        let stall = shipping.wait_while_it_moves(append(&log, 1), Duration::from_secs(30));
        assert!(stall.is_ok(), "{stall:?}");
    }
}

/// At a limit of the destination the first message has no room, and those after it are refused only because of that.
#[test]
fn what_the_first_message_lacks_is_said_and_not_what_follows_from_it() {
    let dir = scratch();
    let (log, memory, shipping) = shipping(dir.path());
    shipping.wait(append(&log, 3), LIMIT).expect("is acknowledged");
    memory.with(|weather| (weather.refusal, weather.appends) = (Some(Refusal::First), 0));
    let end = append(&log, 30);
    let mut tries = 0;
    while tries < 30 {
        std::thread::sleep(Duration::from_millis(2));
        memory.with(|weather| tries = weather.appends);
        // What is refused first may come before what the first one lacks is known.
        let said = shipping.failing().filter(|_| tries > 10);
        assert!(said.is_none_or(|why| why.contains("quota")), "behind {tries} tries");
    }
    assert!(shipping.failing().is_some_and(|why| why.contains("quota")));
    memory.with(|weather| weather.refusal = None);
    shipping.wait(end, LIMIT).expect("is acknowledged");
}

/// The hold cannot be moved, as on a full disk: everything is shipped all the same, and that is said.
#[cfg(unix)]
#[test]
fn a_hold_that_cannot_be_written_is_said_and_stops_nothing() {
    let dir = scratch();
    let (log, _, shipping) = shipping(dir.path());
    let blocked = dir.path().join(format!("HOLD.new-{}", hold_name("memory:a")));
    std::fs::create_dir(&blocked).expect("is in the way");
    shipping.wait(append(&log, 3), LIMIT).expect("is acknowledged");
    let mut said = None;
    for _ in 0..500 {
        std::thread::sleep(Duration::from_millis(10));
        shipping.wait(append(&log, 1), LIMIT).expect("is acknowledged");
        said = said.or(shipping.failing());
        if said.is_some() {
            break;
        }
    }
    assert!(said.is_some_and(|said| said.contains("HOLD")));
    std::fs::remove_dir(&blocked).expect("is gone");
    shipping.finish(LIMIT).expect("ships");
}

/// What a service says beside the log changes on a full disk too, where no new file has room.
#[test]
fn what_a_service_says_is_replaced_where_no_file_can_be_made() {
    let dir = scratch();
    let log = Log::open(dir.path(), options()).expect("opens");
    append(&log, 1);
    let said =
        |state: &str, unix_s| Said { to: "x".to_owned(), state: state.to_owned(), unix_s, ..Said::default() };
    let read = || match of_folder(dir.path()) {
        Ok(Folder::Log { waiting, .. }) => waiting,
        other => panic!("{other:?}"),
    };
    said("works, and long", 1).write(dir.path()).expect("writes");
    let names = std::fs::read_dir(dir.path()).expect("lists").map(|entry| entry.expect("an entry").path());
    let note =
        names.into_iter().find(|path| path.display().to_string().contains("NOTE-ship-")).expect("a note");
    std::fs::create_dir(note.with_extension("new")).expect("is in the way");
    said("fails", 2).write(dir.path()).expect("writes");
    assert_eq!(read(), [said("fails", 2)]);
}

#[cfg(feature = "mutants")]
#[test]
fn each_planted_bug_is_found() {
    use seawall::mutant::{Mutant, finds};
    let tests: [(Mutant, fn()); 2] = [
        (Mutant::RebuildTakesUnproven, a_rebuild_takes_the_right_to_write_when_nothing_else_can_fail),
        (Mutant::DrillForkUnseen, a_drill_tells_a_fork_and_what_is_only_here),
    ];
    for (mutant, test) in tests {
        assert!(finds(mutant, test), "{mutant:?}");
    }
}

fn waker() -> (std::task::Waker, std::sync::mpsc::Receiver<()>) {
    struct Say(std::sync::Mutex<std::sync::mpsc::Sender<()>>);
    impl std::task::Wake for Say {
        fn wake(self: Arc<Self>) {
            let _ = self.0.lock().expect("sound").send(());
        }
    }
    let (say, woken) = std::sync::mpsc::channel();
    (Arc::new(Say(std::sync::Mutex::new(say))).into(), woken)
}
