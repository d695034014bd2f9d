//! Tests several sources of one log: another one covers damage in one, the longest decides, other logs are refused.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::common::{Deed, LIMIT, Memory, append, folders, options, records, scratch, silent, start};
use seawall::{Log, Lsn, RebuildTo, View};
use seawall_ship::destination::{Answer, Destination};
use seawall_ship::restore::{Sources, Wrong, copy, drill, rebuild};
use seawall_ship::{Error, Facts, Result};

/// Appends records, which each of these acknowledges.
fn shipped(dir: &Path, to: &[&Memory], count: usize) -> Lsn {
    let log = Log::open(dir, options()).expect("opens");
    let ships: Vec<_> = to.iter().map(|memory| start(dir, memory).expect("starts")).collect();
    let end = append(&log, count);
    for ship in ships {
        ship.finish(LIMIT).expect("ships");
    }
    log.close().expect("closes");
    end
}

/// Sources that live as long as the tests.
fn leaked<const N: usize>(from: [impl Destination + 'static; N]) -> Result<Sources<'static>> {
    Sources::new(from.map(|one| Box::leak(Box::new(one)) as &mut dyn Destination))
}

fn sources<const N: usize>(from: &[&Memory; N]) -> Sources<'static> {
    leaked(from.map(Clone::clone)).expect("each is named once")
}

fn flip(memory: &Memory, at: usize) {
    memory.with(|weather| {
        let mut bytes = weather.stored[at].to_vec();
        bytes[100] ^= 1;
        weather.stored[at] = Arc::from(bytes);
    });
}

fn damaged(wrong: &[Wrong]) -> Vec<(&str, u64)> {
    let position = |wrong: &Wrong| match wrong.error {
        Error::Damaged { position, .. } => position,
        ref other => panic!("{other:?}"),
    };
    wrong.iter().map(|one| (one.address.as_str(), position(one))).collect()
}

#[test]
fn the_longest_of_several_sources_decides_and_the_right_is_taken_at_each() {
    let (_dir, [from, to]) = folders(["log", "again"]);
    let (a, b, c) = (Memory::new("a"), Memory::new("b"), Memory::new("c"));
    shipped(&from, &[&a, &b, &c], 60);
    shipped(&from, &[&b, &c], 60);
    let end = shipped(&from, &[&b], 60);
    let drilled = drill(sources(&[&c, &a, &b]), Some(&from), &mut silent()).expect("drills");
    assert_eq!((drilled.outcome.end, drilled.outcome.records), (end, 180));
    assert!(drilled.wrong.is_empty(), "a source that ends earlier is sound: {:?}", drilled.wrong);
    let ships: Vec<_> = [&a, &b, &c].map(|memory| start(&from, memory).expect("starts")).into();
    let rebuilt = rebuild(sources(&[&a, &b, &c]), &to, &mut silent()).expect("rebuilds");
    assert!(rebuilt.wrong.is_empty() && rebuilt.outcome.report.end == end);
    assert_eq!(records(&from), records(&to));
    // Everywhere.
    let late = append(&Log::open(&from, options()).expect("opens"), 1);
    for ship in &ships {
        let refused = ship.wait(late, LIMIT);
        assert!(matches!(refused, Err(Error::Replaced { .. })), "{}: {refused:?}", ship.address());
    }
    let end = shipped(&to, &[&a, &b, &c], 10);
    for memory in [&a, &b, &c] {
        let drilled = drill(sources(&[memory]), Some(&to), &mut silent()).expect("drills");
        assert_eq!(drilled.outcome.end, end);
    }
}

#[test]
fn another_source_makes_up_for_damage_which_is_told() {
    let (dir, [from]) = folders(["log"]);
    let (a, b) = (Memory::new("a"), Memory::new("b"));
    let end = shipped(&from, &[&a, &b], 120);
    let sound = a.stored();
    for at in [0, 1, sound.len() / 2, sound.len() - 1] {
        flip(&a, at);
        let drilled = drill(sources(&[&a, &b]), Some(&from), &mut silent()).expect("one is sound");
        assert_eq!((drilled.outcome.end, drilled.outcome.records), (end, 120));
        assert_eq!(damaged(&drilled.wrong), [("memory:a", at as u64 + 1)]);
        let to = dir.path().join(format!("copy-{at}"));
        let copied = copy(sources(&[&b, &a]), &to, RebuildTo::default(), &mut silent()).expect("copies");
        assert_eq!(damaged(&copied.wrong), [("memory:a", at as u64 + 1)]);
        assert_eq!(records(&from), records(&to));
        a.with(|weather| weather.stored.clone_from(&sound));
    }
    flip(&a, 9);
    let to = dir.path().join("again");
    let rebuilt = rebuild(sources(&[&a, &b]), &to, &mut silent()).expect("rebuilds");
    assert_eq!(rebuilt.wrong.len(), 1, "{:?}", rebuilt.wrong);
    assert_eq!(records(&from), records(&to));
    // The writer is refused at the one that is sound, and at the other, whose last messages are.
    assert!(matches!(start(&from, &b).map(drop), Err(Error::NotOwner)));
    let refused = start(&from, &a).map(drop);
    assert!(rebuilt.wrong[0].is_taken && matches!(refused, Err(Error::NotOwner)), "{refused:?}");
    // What no source has is named by the damage.
    flip(&b, 5);
    let refused = drill(sources(&[&a, &b]), None, &mut silent());
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    let to = dir.path().join("never");
    assert!(rebuild(sources(&[&a, &b]), &to, &mut silent()).is_err() && !to.exists());
}

/// Each place is held against what the log knows of it, also where the first one is damaged.
#[test]
fn a_drill_of_several_tells_another_writer_at_one_of_them_and_no_other() {
    let (_dir, [from, to]) = folders(["log", "again"]);
    let (a, b) = (Memory::new("a"), Memory::new("b"));
    shipped(&from, &[&a, &b], 60);
    append(&Log::open(&from, options()).expect("opens"), 7);
    let sound = a.stored();
    flip(&a, 9);
    let drilled = drill(sources(&[&a, &b]), Some(&from), &mut silent()).expect("one is sound");
    let between = drilled.outcome.between.expect("was named");
    assert_eq!((between.behind, between.is_replaced), (7, false));
    a.with(|weather| weather.stored = sound);
    rebuild(sources(&[&b]), &to, &mut silent()).expect("rebuilds");
    let forked = drill(sources(&[&a, &b]), Some(&from), &mut silent());
    assert!(matches!(forked, Err(Error::Forked { records: 7, epoch: 2, .. })), "{forked:?}");
}

/// What a source that is damaged early lacks is made up for as far as the other one goes, which is not to the end.
#[test]
fn a_source_that_is_away_or_empty_is_told() {
    let (_dir, [from, to]) = folders(["log", "again"]);
    let (a, b) = (Memory::new("a"), Memory::new("b"));
    let end = shipped(&from, &[&a], 30);
    let drilled = drill(sources(&[&a, &b]), None, &mut silent()).expect("one is sound");
    assert!(drilled.outcome.end == end && matches!(drilled.wrong[0].error, Error::Unfit { .. }));
    b.with(|weather| weather.away = true);
    let drilled = drill(sources(&[&a, &b]), None, &mut silent()).expect("one is sound");
    assert!(drilled.wrong[0].address == "memory:b" && drilled.wrong[0].error.is_passing());
    // Its writer could not be refused.
    let refused = rebuild(sources(&[&a, &b]), &to, &mut silent());
    assert!(refused.as_ref().is_err_and(Error::is_passing), "{refused:?}");
    assert!(!to.exists());
}

#[test]
fn another_log_among_the_sources_is_refused() {
    let dir = scratch();
    let (a, b) = (Memory::new("a"), Memory::new("b"));
    shipped(&dir.path().join("one"), &[&a], 30);
    shipped(&dir.path().join("other"), &[&b], 30);
    let refused = drill(sources(&[&a, &b]), None, &mut silent());
    let named = matches!(&refused, Err(Error::Unfit { what }) if what.contains("memory:b holds another log"));
    assert!(named, "{refused:?}");
    let before = [a.stored(), b.stored()];
    let to = dir.path().join("again");
    let refused = rebuild(sources(&[&a, &b]), &to, &mut silent());
    assert!(matches!(refused, Err(Error::Unfit { .. })) && !to.exists(), "{refused:?}");
    assert_eq!([a.stored(), b.stored()], before, "nothing was taken");
    let twice = leaked([a.clone(), a]);
    assert!(matches!(twice, Err(Error::Option { option: "from", .. })));
}

/// A log that was rebuilt from a source that lacked the end, and went on: the other source went another way.
#[test]
fn sources_that_hold_different_batches_are_refused() {
    let (_dir, [from, to]) = folders(["log", "again"]);
    let (a, b) = (Memory::new("a"), Memory::new("b"));
    shipped(&from, &[&a, &b], 30);
    shipped(&from, &[&b], 30);
    rebuild(sources(&[&a]), &to, &mut silent()).expect("rebuilds");
    shipped(&to, &[&a], 30);
    assert_ne!(View::open(&from).expect("opens").end_lsn(), Lsn::ZERO);
    for pair in [[&a, &b], [&b, &a]] {
        let refused = drill(sources(&pair), None, &mut silent());
        assert!(matches!(refused, Err(Error::Diverged { .. })), "{refused:?}");
    }
}

/// Something happens once at this destination: before its first message is read, or about an append.
struct Eventful {
    memory: Memory,
    before_reading: Deed<()>,
    before_append: Deed<()>,
    after_append: Deed<()>,
}

impl Eventful {
    fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone(), before_reading: None, before_append: None, after_append: None }
    }
}

fn happen(deed: &mut Deed<()>) {
    if let Some(deed) = deed.take() {
        deed();
    }
}

impl Destination for Eventful {
    fn facts(&self) -> &Facts {
        self.memory.facts()
    }

    fn address(&self) -> String {
        self.memory.address()
    }

    fn append(&mut self, position: u64, bytes: Arc<[u8]>, answer: Answer) {
        happen(&mut self.before_append);
        self.memory.append(position, bytes, answer);
        happen(&mut self.after_append);
    }

    fn read(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        if position == 1 {
            happen(&mut self.before_reading);
        }
        self.memory.read(position)
    }

    fn last(&mut self) -> Result<u64> {
        self.memory.last()
    }
}

fn both(a: Eventful, b: Eventful) -> Sources<'static> {
    leaked([a, b]).expect("are two")
}

/// Without a batch there is nothing to rebuild, and what was damaged is not made up for.
#[test]
fn no_writer_is_refused_for_a_rebuild_that_fails() {
    let (_dir, [from, to]) = folders(["log", "again"]);
    let (a, b) = (Memory::new("a"), Memory::new("b"));
    let log = Log::open(&from, options()).expect("opens");
    let ships = [&a, &b].map(|memory| start(&from, memory).expect("starts"));
    let refused = rebuild(sources(&[&a, &b]), &to, &mut silent());
    assert!(refused.is_err(), "{refused:?}");
    // One record a message at both places, so that the same one is missing, and not the last.
    for _ in 0..20 {
        let end = append(&log, 1);
        for ship in &ships {
            ship.wait(end, LIMIT).expect("ships on");
        }
    }
    for memory in [&a, &b] {
        memory.with(|weather| drop(weather.stored.remove(10)));
    }
    let refused = rebuild(sources(&[&a, &b]), &to, &mut silent());
    assert!(matches!(refused, Err(Error::Damaged { .. })) && !to.exists(), "{refused:?}");
    let last = [&a, &b].map(|memory| memory.stored().last().cloned().expect("a message"));
    assert!(last.iter().all(|bytes| bytes[6] == 1), "no epoch was taken");
}

/// The second rebuild comes while the first one has the right at one of two places.
#[test]
fn of_two_rebuilds_at_once_one_has_the_right_everywhere() {
    let (_dir, [from, first, second]) = folders(["log", "first", "second"]);
    let (a, b) = (Memory::new("a"), Memory::new("b"));
    shipped(&from, &[&a, &b], 60);
    let (mut at_a, other, to) = (Eventful::new(&a), [a.clone(), b.clone()], second.clone());
    at_a.after_append = Some(Box::new(move || {
        rebuild(sources(&[&other[0], &other[1]]), &to, &mut silent()).expect("takes over from both");
    }));
    let lost = rebuild(both(at_a, Eventful::new(&b)), &first, &mut silent());
    assert!(matches!(lost, Err(Error::Replaced { .. })) && !first.exists(), "{lost:?}");
    shipped(&second, &[&a, &b], 5);
}

/// The first rebuild goes on while the second one, which has replaced it at one place, is about to do so at the other.
#[test]
fn a_rebuild_that_saw_another_one_replaces_it_everywhere() {
    let (_dir, [from, first, second]) = folders(["log", "first", "second"]);
    let (a, b) = (Memory::new("a"), Memory::new("b"));
    shipped(&from, &[&a, &b], 60);
    let (taken, has_taken) = channel();
    let (go, gone) = channel::<()>();
    let (mut at_a, mut at_b) = (Eventful::new(&a), Eventful::new(&b));
    let (early, late, to) = (Eventful::new(&b), Eventful::new(&a), first.clone());
    at_a.after_append = Some(Box::new(move || {
        taken.send(()).expect("waits");
        gone.recv().expect("goes on");
    }));
    let thread = std::thread::spawn(move || rebuild(both(at_a, early), &to, &mut silent()).map(drop));
    has_taken.recv().expect("has it at one place");
    at_b.before_append = Some(Box::new(move || {
        go.send(()).expect("waits");
        thread.join().expect("no panic").expect("had the right for a moment");
    }));
    rebuild(both(late, at_b), &second, &mut silent()).expect("rebuilds");
    for memory in [&a, &b] {
        let refused = start(&first, memory).map(drop);
        assert!(matches!(refused, Err(Error::NotOwner | Error::Replaced { .. })), "{refused:?}");
    }
    shipped(&second, &[&a, &b], 5);
}

#[cfg(feature = "mutants")]
#[test]
fn each_planted_bug_is_found() {
    // Which of the two comes first decides whether the bug shows.
    fn many_rebuilds_at_once() {
        (0..20).for_each(|_| of_two_rebuilds_at_once_one_has_the_right_everywhere());
    }
    use seawall::mutant::{Mutant, finds};
    let rows: [(Mutant, fn()); 3] = [
        (Mutant::SourcesNotCompared, sources_that_hold_different_batches_are_refused),
        (Mutant::RebuildTakesUnproven, no_writer_is_refused_for_a_rebuild_that_fails),
        (Mutant::SourcesTakeFromAnyone, many_rebuilds_at_once),
    ];
    for (mutant, test) in rows {
        assert!(finds(mutant, test), "{mutant:?}");
    }
}
