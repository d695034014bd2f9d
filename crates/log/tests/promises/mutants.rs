//! Tests that the crash campaign finds every planted bug.
//!
//! Each where it was recorded, else by a search of 150,000 states from each of four seeds and the sweep. Those that no
//! campaign can see are listed with the reason next to the mistakes themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use seawall::mutant::{FOUND_BY_MODEL, FOUND_BY_ORDERS, FOUND_BY_SHIP, FOUND_BY_TESTS, Mutant, set};
use seawall::sim::campaign::{Campaign, run};
use seawall::sim::planted::{STATES, find, recorded, visible};

const AGAIN: &str = "cargo run --release -p seawall --features mutants --example mutants -- --record";

#[test]
fn every_mistake_is_found() {
    let visible = visible();
    assert!(visible.len() >= 100, "{}", visible.len());
    let (next, survivors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // A mistake is switched on for one thread.
    let look = || {
        while let Some(mutant) = visible.get(next.fetch_add(1, Ordering::SeqCst)) {
            let Some((place, failure)) = find(*mutant) else {
                survivors.lock().expect("sound").push(*mutant);
                continue;
            };
            println!("{mutant:?} {place}: {failure}");
            let name = format!("{mutant:?}");
            if !recorded().any(|(known, at)| known == name && at == Some(place)) {
                println!("it was not recorded there, and had to be searched for: `{AGAIN}`");
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(look);
        }
    });
    let survivors = survivors.into_inner().expect("sound");
    assert!(survivors.is_empty(), "{survivors:?}");
}

#[test]
fn what_is_recorded_names_mistakes_that_there_are_and_each_once() {
    let known: Vec<String> = visible().into_iter().map(|mutant| format!("{mutant:?}")).collect();
    let names: Vec<&str> = recorded().map(|(name, _)| name).collect();
    for (index, (name, place)) in recorded().enumerate() {
        assert!(place.is_some(), "{name} is recorded without a place: `{AGAIN}`");
        assert!(known.iter().any(|known| known == name), "{name} is no visible mistake: `{AGAIN}`");
        assert!(!names[..index].contains(&name), "{name} is recorded twice: `{AGAIN}`");
    }
}

#[test]
fn a_recorded_place_shows_its_own_mistake_and_nothing_without_it() {
    let (name, place) = recorded().next().expect("something is recorded");
    let place = place.expect("a place");
    let mutant = visible().into_iter().find(|mutant| format!("{mutant:?}") == name).expect("a mistake");
    assert!(place.shows(mutant).is_some(), "{name}: `{AGAIN}`");
    let sound = Mutant::AcceptOtherOffset;
    assert!(place.shows(sound).is_none(), "an equivalent one breaks nothing");
}

/// The names of the bugs that stand in this text, comments left out.
fn planted_in(text: &str) -> BTreeSet<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let names = |rest: &str| -> Vec<String> {
        let end = rest.find(['(', ',']).unwrap_or(rest.len());
        rest[..end].split('|').map(|name| name.trim().to_owned()).collect()
    };
    code.split("planted!(").skip(1).flat_map(names).collect()
}

/// The bugs of each source file below `folder`.
fn planted_below(folder: &Path, found: &mut BTreeMap<PathBuf, BTreeSet<String>>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            planted_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let planted = planted_in(&std::fs::read_to_string(&path).expect("a source"));
            if !planted.is_empty() {
                found.insert(path, planted);
            }
        }
    }
}

#[test]
fn every_bug_is_planted_in_code_that_ships() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeMap::new();
    for sources in ["src", "../sys/src", "../ship/src", "../../adapters/openraft/src"] {
        planted_below(&home.join(sources), &mut files);
    }
    // The definition calls itself.
    files.retain(|file, _| !file.ends_with("sys/src/planted.rs"));
    for (file, planted) in &files {
        let file = file.strip_prefix(home).expect("below the crate");
        println!("{}: {planted:?}", file.display());
        assert!(!file.starts_with("src/testing"), "{} does not ship: {planted:?}", file.display());
    }
    let planted: BTreeSet<&String> = files.values().flatten().collect();
    let known: Vec<String> = Mutant::ALL.iter().map(|mutant| format!("{mutant:?}")).collect();
    assert_eq!(planted, known.iter().collect(), "the table and the sites name the same bugs");
}

#[test]
fn without_a_mistake_nothing_is_found() {
    set(None);
    assert!(run(&Campaign { seed: 1, states: STATES, ..Campaign::default() }).is_ok());
}

/// What the campaign does not look for is looked for by a scene or test that there is, which names the bug.
#[test]
fn what_the_campaign_cannot_find_has_a_scene_or_a_test() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [
        "src/testing",
        "src/commit",
        "src/segment",
        "src/stream",
        "tests/suite",
        "tests/promises",
        "../ship/tests/suite",
        "../../adapters/openraft/tests",
        "../../adapters/openraft/tests/suite",
    ];
    let paths = folders.iter().flat_map(|folder| std::fs::read_dir(home.join(folder)).expect("is there"));
    let paths = paths.map(|entry| entry.expect("an entry").path());
    // Without the two lists themselves.
    let sources = paths.filter(|path| {
        path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("mutant.rs")
    });
    let text: String = sources.map(|path| std::fs::read_to_string(path).expect("a source")).collect();
    let squeezed: String = text.split_whitespace().collect();
    for (mutant, test) in FOUND_BY_ORDERS.iter().chain(&FOUND_BY_TESTS).chain(&FOUND_BY_SHIP) {
        assert!(text.contains(&format!("fn {test}()")), "{mutant:?}: no test is called {test}");
        let tried = format!("(Mutant::{mutant:?},");
        assert!(squeezed.contains(&tried), "{mutant:?} is never switched on");
    }
    let machines = home.join("../sys/src/os/linux/inspect/tests/planted.rs");
    let machines = std::fs::read_to_string(machines).expect("a source");
    for mutant in Mutant::OF_MACHINES {
        assert!(machines.contains(&format!("Mutant::{mutant:?},")), "{mutant:?} is never switched on");
    }
}

#[test]
fn the_readme_says_how_many_planted_bugs_are_found() {
    let apart = FOUND_BY_ORDERS.len() + FOUND_BY_TESTS.len() + FOUND_BY_MODEL.len() + FOUND_BY_SHIP.len();
    let found = visible().len() + apart + Mutant::OF_MACHINES.len();
    for page in ["README.md", "docs/verified.md"] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../").to_owned() + page;
        let text = std::fs::read_to_string(&path).expect("is there");
        assert!(text.contains(&format!("{found} planted bugs, all found")), "{page}: {found} are found");
    }
}
