//! Tests several sources of one log: damage in one is made up for by another, the longest decides, other logs are refused.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{LIMIT, Memory, append, options, records, scratch};
use seawall::{Log, Lsn, RebuildTo, View};
use seawall_ship::destination::Destination;
use seawall_ship::shipping::{Settings, Shipping};
use seawall_ship::sources::{Sources, Wrong, copy, drill, rebuild};
use seawall_ship::{Error, Result};

fn start(dir: &Path, to: &Memory) -> Result<Shipping> {
    Shipping::start(dir, Box::new(to.clone()), Settings::default())
}

fn silent() -> impl FnMut(Lsn, u64) {
    |_, _| ()
}

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

fn sources(from: &[&Memory]) -> Sources {
    let boxed = |memory: &&Memory| Box::new((*memory).clone()) as Box<dyn Destination>;
    Sources::new(from.iter().map(boxed).collect()).expect("are two")
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
    let dir = scratch();
    let (from, to) = (dir.path().join("log"), dir.path().join("again"));
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
    let dir = scratch();
    let from = dir.path().join("log");
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
    // The writer is refused at the one that is sound.
    assert!(matches!(start(&from, &b).map(drop), Err(Error::NotOwner)));
    // What no source has is named by the damage.
    flip(&b, 5);
    let refused = drill(sources(&[&a, &b]), None, &mut silent());
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    let to = dir.path().join("never");
    assert!(rebuild(sources(&[&a, &b]), &to, &mut silent()).is_err() && !to.exists());
}

/// What a source that is damaged early lacks is made up for as far as the other one goes, which is not to the end.
#[test]
fn a_source_that_is_away_or_empty_is_told() {
    let dir = scratch();
    let (from, to) = (dir.path().join("log"), dir.path().join("again"));
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
    let twice = Sources::new(vec![Box::new(a.clone()), Box::new(a)]);
    assert!(matches!(twice, Err(Error::Option { option: "from", .. })));
}

/// A log that was rebuilt from a source that lacked the end, and went on: the other source went another way.
#[test]
fn sources_that_hold_different_batches_are_refused() {
    let dir = scratch();
    let (from, to) = (dir.path().join("log"), dir.path().join("again"));
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

#[cfg(feature = "mutants")]
#[test]
fn the_planted_bug_is_found() {
    use seawall::mutant::{Mutant, finds};
    let rows = [(Mutant::SourcesNotCompared, sources_that_hold_different_batches_are_refused)];
    for (mutant, test) in rows {
        assert!(finds(mutant, test), "{mutant:?}");
    }
}
