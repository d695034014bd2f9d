//! Tests standbys: copies that grow, go on after any end, are no logs, and take over.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{LIMIT, Memory, append, folders, options, records, shipping, silent, start, unavailable};
use seawall::{Error as LogError, Log, Lsn, View, backup, salvage, verify};
use seawall_ship::destination::{Answer, Destination};
use seawall_ship::restore::Rebuilt;
use seawall_ship::standby::{Standby, take_over};
use seawall_ship::{Error, Facts, Result};

/// Appends records, which are acknowledged by `memory`.
fn shipped(dir: &Path, memory: &Memory, count: usize) -> Lsn {
    let log = Log::open(dir, options()).expect("opens");
    let shipping = start(dir, memory).expect("starts");
    let end = append(&log, count);
    shipping.finish(LIMIT).expect("ships");
    log.close().expect("closes");
    end
}

/// A standby that has read everything, and was ended without a word; what it had not saved is lost.
fn read(dir: &Path, memory: &Memory, save: bool) -> Lsn {
    let mut standby = Standby::open(dir, &mut memory.clone()).expect("opens");
    standby.read(&mut memory.clone(), &mut silent()).expect("reads");
    if save {
        standby.save(true).expect("saves");
    }
    standby.lsn()
}

fn promote(dir: &Path, memory: &Memory) -> Result<Rebuilt> {
    take_over(dir, &mut memory.clone(), &mut [], &mut silent())
}

fn is_no_log(dir: &Path, beside: &Path) {
    let refused = [
        Log::open(dir, options()).map(drop),
        View::open(dir).map(drop),
        verify(dir).map(drop),
        salvage(dir, beside.join("saved"), options()).map(drop),
        backup(dir, beside.join("backup")).map(drop),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        assert!(matches!(refused, Err(LogError::Rebuilding { .. })), "{at}: {refused:?}");
        assert!(refused.expect_err("refused").to_string().contains("seawall log takeover"));
    }
}

/// The segments of a log that are closed: all but the last one.
fn closed_segments(dir: &Path) -> Vec<(Option<PathBuf>, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).expect("lists").map(|entry| entry.expect("an entry"));
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "seg");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_segment).collect();
    paths.sort();
    paths.pop();
    let read = |path: PathBuf| (path.file_name().map(PathBuf::from), std::fs::read(path).expect("reads"));
    paths.into_iter().map(read).collect()
}

#[test]
fn a_standby_is_no_log_until_it_takes_over_and_then_it_is_the_same_log() {
    let (dir, [from, to]) = folders(["log", "copy"]);
    let (log, memory, shipping) = shipping(&from);
    let mut standby = Standby::open(&to, &mut memory.clone()).expect("opens");
    for _ in 0..5 {
        let end = append(&log, 60);
        shipping.wait(end, LIMIT).expect("is acknowledged");
        assert!(standby.read(&mut memory.clone(), &mut silent()).expect("reads"));
        assert_eq!(standby.lsn(), end);
        standby.save(true).expect("saves");
        assert!(!standby.read(&mut memory.clone(), &mut silent()).expect("reads"), "there is no more");
        is_no_log(&to, dir.path());
    }
    assert!(matches!(Standby::open(&to, &mut memory.clone()), Err(Error::Log(_))), "one follows");
    // It has not read these yet.
    let end = append(&log, 60);
    shipping.wait(end, LIMIT).expect("is acknowledged");
    let taken = standby.take_over(&mut memory.clone(), &mut [], &mut silent()).expect("takes over");
    assert_eq!((taken.report.end, taken.epoch), (end, Some(2)));
    assert_eq!(records(&from), records(&to));
    assert_eq!(View::open(&from).expect("opens").log_id(), View::open(&to).expect("opens").log_id());
    let copied = closed_segments(&to);
    let same = closed_segments(&from).into_iter().filter(|segment| copied.contains(segment)).count();
    assert!(copied.len() > 5 && same == copied.len(), "{same} of {} segments", copied.len());
    // The old writer is refused, the new one goes on.
    let refused = shipping.wait(append(&log, 1), LIMIT);
    assert!(matches!(refused, Err(Error::Replaced { epoch: 2 })), "{refused:?}");
    shipped(&to, &memory, 20);
}

#[test]
fn a_standby_goes_on_where_it_was_saved() {
    let (_dir, [from, to]) = folders(["log", "copy"]);
    let memory = Memory::new("a");
    let mut end = Lsn::ZERO;
    for round in 0..6 {
        end = shipped(&from, &memory, 40);
        assert_eq!(read(&to, &memory, round % 2 == 0), end);
    }
    // Half of a read was saved, and the rest is read again.
    let read_before = memory.stored().len();
    let mut standby = Standby::open(&to, &mut memory.clone()).expect("opens");
    assert!(standby.lsn() > Lsn::ZERO && standby.lsn() < end, "{} of {end}", standby.lsn());
    standby.read(&mut memory.clone(), &mut silent()).expect("reads");
    drop(standby);
    promote(&to, &memory).expect("takes over");
    assert_eq!(records(&from), records(&to));
    assert_eq!(memory.stored().len(), read_before + 1, "an epoch");
    let again = promote(&to, &memory);
    assert!(matches!(again, Err(Error::Log(_))), "it is a log now: {again:?}");
    assert!(matches!(Standby::open(&to, &mut memory.clone()), Err(Error::Log(_))), "it is a log now");
}

/// The log is trimmed while it is followed: what a save needs stays until the next one.
#[test]
fn a_standby_keeps_what_its_last_save_needs() {
    let (_dir, [from, to]) = folders(["log", "copy"]);
    let memory = Memory::new("a");
    let mut before = shipped(&from, &memory, 150);
    read(&to, &memory, true);
    for _ in 0..3 {
        let log = Log::open(&from, options()).expect("opens");
        log.trim(before).expect("trims");
        log.close().expect("closes");
        before = shipped(&from, &memory, 150);
        read(&to, &memory, false);
    }
    let kept = closed_segments(&to).len();
    read(&to, &memory, true);
    assert!(closed_segments(&to).len() < kept, "what was trimmed goes");
    let taken = promote(&to, &memory).expect("takes over");
    let view = View::open(&from).expect("opens");
    assert_eq!((taken.report.first, taken.report.end), (view.first_lsn(), before));
    assert_eq!(records(&from), records(&to));
}

#[test]
fn a_take_over_that_fails_leaves_a_standby() {
    let (dir, [from, to]) = folders(["log", "copy"]);
    let memory = Memory::new("a");
    shipped(&from, &memory, 150);
    read(&to, &memory, true);
    let mut paths: Vec<_> =
        std::fs::read_dir(&to).expect("lists").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
    paths.sort();
    let good = std::fs::read(&paths[0]).expect("reads");
    let mut bad = good.clone();
    bad[3000] ^= 1;
    std::fs::write(&paths[0], bad).expect("writes");
    let failed = promote(&to, &memory);
    let is_damage =
        |error: &Error| matches!(error, Error::Log(error) if matches!(**error, LogError::Corrupt(_)));
    assert!(failed.as_ref().is_err_and(is_damage), "{failed:?}");
    is_no_log(&to, dir.path());
    // Nothing was lost by that.
    std::fs::write(&paths[0], good).expect("writes");
    promote(&to, &memory).expect("takes over");
    assert_eq!(records(&from), records(&to));
}

/// A segment cannot be made, as on a full disk: what was saved stands, and it goes on once there is room.
#[test]
fn a_standby_whose_disk_refused_once_goes_on_and_takes_over() {
    let (_dir, [from, to]) = folders(["log", "copy"]);
    let memory = Memory::new("a");
    shipped(&from, &memory, 20);
    read(&to, &memory, true);
    shipped(&from, &memory, 200);
    let last = closed_segments(&from).pop().expect("is closed").0.expect("has a name");
    let mut standby = Standby::open(&to, &mut memory.clone()).expect("opens");
    std::fs::create_dir(to.join(&last)).expect("is in the way");
    let failed = standby.read(&mut memory.clone(), &mut silent());
    let Err(Error::Log(cause)) = &failed else { panic!("{failed:?}") };
    assert!(cause.to_string().contains(&*to.join(&last).to_string_lossy()), "without its folder: {cause}");
    let saved = standby.save(true);
    assert!(cfg!(feature = "mutants") || saved.is_err(), "nothing is saved behind it: {saved:?}");
    assert!(standby.read(&mut memory.clone(), &mut silent()).is_err(), "nor read");
    drop(standby);
    std::fs::remove_dir(to.join(&last)).expect("is gone");
    promote(&to, &memory).expect("takes over");
    assert_eq!(records(&from), records(&to));
}

/// At once, and one a little later: exactly one gets the log, and the others are told that they were replaced.
#[test]
fn of_two_standbys_that_take_over_at_once_one_wins() {
    let (dir, [from]) = folders(["log"]);
    let memory = Memory::new("a");
    shipped(&from, &memory, 30);
    let one = dir.path().join("one");
    let other = dir.path().join("other");
    for standby in [&one, &other] {
        read(standby, &memory, true);
    }
    promote(&one, &memory).expect("takes over");
    // However often it tries.
    for _ in 0..3 {
        let late = promote(&other, &memory);
        assert!(matches!(late, Err(Error::Replaced { epoch: 2 })), "{late:?}");
    }
    // Whoever follows the new writer may take over from it.
    read(&other, &memory, true);
    promote(&other, &memory).expect("takes over");
    for round in 0..6 {
        let names = ["a", "b", "c"].map(|name| dir.path().join(format!("{name}-{round}")));
        for name in &names {
            read(name, &memory, true);
        }
        let outcomes: Vec<Result<_>> = std::thread::scope(|scope| {
            let take = |name| promote(name, &memory);
            let all: Vec<_> = names.iter().map(|name| scope.spawn(move || take(name))).collect();
            all.into_iter().map(|one| one.join().expect("ends")).collect()
        });
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let replaced = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::Replaced { .. })));
        assert_eq!((won, replaced.count()), (1, 2), "{outcomes:?}");
        let winner = outcomes.iter().position(Result::is_ok).expect("one");
        shipped(&names[winner], &memory, 3);
    }
}

#[test]
fn a_standby_goes_on_from_another_destination_of_the_same_log() {
    let (dir, [from, to, other]) = folders(["log", "copy", "other"]);
    let (first, second) = (Memory::new("a"), Memory::new("b"));
    shipped(&from, &first, 60);
    read(&to, &first, true);
    let end = shipped(&from, &second, 60);
    assert_eq!(read(&to, &second, true), end);
    let others: &mut [Box<dyn Destination>] = &mut [Box::new(first.clone())];
    take_over(&to, &mut second.clone(), others, &mut silent()).expect("takes over");
    assert_eq!(records(&from), records(&to));
    for memory in [&first, &second] {
        let refused = start(&from, memory).map(drop);
        assert!(matches!(refused, Err(Error::NotOwner)), "{refused:?}");
        shipped(&to, memory, 3);
    }
    // A destination with another log is none of them.
    let third = Memory::new("c");
    shipped(&other, &third, 5);
    let copy = dir.path().join("copy-2");
    read(&copy, &second, true);
    let mut standby = Standby::open(&copy, &mut third.clone()).expect("opens");
    let refused = standby.read(&mut third.clone(), &mut silent());
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn a_standby_is_made_in_a_new_folder_only() {
    let (dir, [from, to]) = folders(["log", "copy"]);
    let memory = Memory::new("a");
    shipped(&from, &memory, 5);
    for taken in [&from, &to] {
        let refused = promote(taken, &memory);
        assert!(matches!(refused, Err(Error::Log(_))), "{refused:?}");
    }
    assert!(matches!(Standby::open(&from, &mut memory.clone()), Err(Error::Log(_))));
    std::fs::create_dir(&to).expect("makes");
    std::fs::write(to.join("notes"), "mine").expect("writes");
    assert!(matches!(Standby::open(&to, &mut memory.clone()), Err(Error::Log(_))));
    assert!(promote(&to, &memory).is_err());
    assert_eq!(std::fs::read_dir(&to).expect("lists").count(), 1, "a refusal leaves nothing behind");
    let empty = promote(&dir.path().join("new"), &Memory::new("b"));
    assert!(empty.is_err(), "{empty:?}");
}

#[cfg(feature = "mutants")]
#[test]
fn each_planted_bug_is_found() {
    use seawall::mutant::{Mutant, finds};
    let tests: [(Mutant, fn()); 6] = [
        (Mutant::StandbySavesFailed, a_standby_whose_disk_refused_once_goes_on_and_takes_over),
        (Mutant::StandbyTakesFromAnyone, of_two_standbys_that_take_over_at_once_one_wins),
        (Mutant::StandbyFollowsWinner, of_two_standbys_that_take_over_at_once_one_wins),
        (Mutant::StandbySavesUnwritten, a_standby_goes_on_where_it_was_saved),
        (Mutant::StandbyForgetsEarly, a_standby_keeps_what_its_last_save_needs),
        (Mutant::StandbyIsLogEarly, a_take_over_that_fails_leaves_a_standby),
    ];
    for (mutant, test) in tests {
        assert!(finds(mutant, test), "{mutant:?}");
    }
}

#[test]
fn a_standby_looks_less_often_while_nothing_comes_and_at_once_when_something_did() {
    let (_dir, [from, to]) = folders(["log", "copy"]);
    let memory = Memory::new("a");
    shipped(&from, &memory, 5);
    let mut standby = Standby::open(&to, &mut memory.clone()).expect("opens");
    assert!(standby.read(&mut memory.clone(), &mut silent()).expect("reads"));
    assert_eq!(standby.idle(), Duration::ZERO, "there may be more");
    // As its caller waits, without waiting.
    let idle_for = |standby: &mut Standby, time: Duration| {
        memory.with(|weather| weather.looks = 0);
        let (mut reads, mut passed) = (0, Duration::ZERO);
        while passed < time {
            let came = standby.read(&mut memory.clone(), &mut silent());
            assert!(!came.unwrap_or(false), "nothing comes");
            reads += 1;
            passed += standby.idle();
        }
        let mut looks = 0;
        memory.with(|weather| looks = weather.looks);
        (reads, looks)
    };
    let (reads, looks) = idle_for(&mut standby, Duration::from_mins(1));
    assert_eq!(reads, 63, "100, 200, 400 and 800 ms, then a second each");
    assert!((reads..=2 * reads).contains(&looks), "{looks} requests");
    shipped(&from, &memory, 5);
    assert!(standby.read(&mut memory.clone(), &mut silent()).expect("reads"));
    assert_eq!(standby.idle(), Duration::ZERO, "the next look is at once");
    memory.with(|weather| weather.away = true);
    assert_eq!(idle_for(&mut standby, Duration::from_mins(1)).0, 63, "also while it is away");
}

/// A destination to which a message is added between two looks, at a message and at where it ends; answers before that are lost.
struct Growing {
    memory: Memory,
    shown: u64,
    asked: u32,
}

impl Destination for Growing {
    fn facts(&self) -> &Facts {
        self.memory.facts()
    }

    fn address(&self) -> String {
        self.memory.address()
    }

    fn append(&mut self, position: u64, bytes: Arc<[u8]>, answer: Answer) {
        self.memory.append(position, bytes, answer);
    }

    fn read(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        if position > self.shown { Ok(None) } else { self.memory.read(position) }
    }

    fn last(&mut self) -> Result<u64> {
        self.asked += 1;
        if self.asked <= 2 {
            return Err(unavailable("the answer is lost", std::io::ErrorKind::ConnectionReset));
        }
        self.shown = self.memory.last()?;
        Ok(self.shown)
    }
}

/// What an answer that was lost began is not the second look at what has just come.
#[test]
fn a_message_that_comes_behind_a_lost_answer_is_not_missing() {
    let (_dir, [from, to]) = folders(["log", "copy"]);
    let memory = Memory::new("a");
    let end = shipped(&from, &memory, 10);
    let shown = memory.stored().len() as u64 - 1;
    let mut growing = Growing { memory, shown, asked: 0 };
    let mut standby = Standby::open(&to, &mut growing).expect("opens");
    assert!(standby.read(&mut growing, &mut silent()).expect("reads"));
    assert_eq!((standby.lsn(), growing.asked), (end, 3));
}
