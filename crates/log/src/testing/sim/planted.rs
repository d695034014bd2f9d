//! Records where the campaign finds each planted bug, as a life and a state, so that no run has to search again.
//!
//! `planted.txt` has one line a mistake, in the order of the table:
//!
//! ```text
//!   NAME SEED STATE    state STATE of the life of SEED breaks a promise
//!   NAME sweep         only a failing operation shows it
//!   NAME taken         only a foreign file under a segment's name shows it
//!   NAME rest          only damage to a log at rest shows it
//! ```
//!
//! A change of the log or of the simulation moves lives and states. A place that shows its mistake no more is searched
//! for again, which costs seconds and decides the same; `mutants --record` writes the file again.

use super::campaign::{Campaign, Failure, run};
use super::rot::rot;
use super::{sweep, taken};
use crate::testing::mutant::{
    EQUIVALENT, FOUND_BY_MODEL, FOUND_BY_ORDERS, FOUND_BY_SHIP, FOUND_BY_TESTS, Mutant, set,
};

/// Distinct crash states that a search judges from each seed.
pub const STATES: u64 = 150_000;
/// Where searches begin: one that only a failed sync, a kill and a reopening together show is rare.
pub const SEEDS: [u64; 4] = [1, 1_000_001, 2_000_001, 3_000_001];
/// The life whose every operation the sweep fails.
const SWEPT: u64 = 3;

/// Logs at rest that are damaged.
const LOGS_AT_REST: u64 = 200;

/// The recorded places.
pub const RECORDED: &str = include_str!("planted.txt");

/// Where a mistake shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundAt {
    /// In a state of a life.
    State {
        /// The seed of the life.
        seed: u64,
        /// The number of the state in it.
        state: u64,
    },
    /// In the sweep of failing operations.
    Sweep,
    /// Where a foreign file has the name that a segment is to get.
    Taken,
    /// In a damaged log at rest.
    Rest,
}

/// The places besides states of lives, in the order in which a search looks there, and their names.
const ELSEWHERE: [(FoundAt, &str); 3] =
    [(FoundAt::Sweep, "sweep"), (FoundAt::Taken, "taken"), (FoundAt::Rest, "rest")];

impl FoundAt {
    /// The place that `failure` names.
    #[must_use]
    pub const fn of(failure: &Failure) -> Self {
        Self::State { seed: failure.seed, state: failure.state }
    }

    fn parse(words: &str) -> Option<Self> {
        if let Some((place, _)) = ELSEWHERE.into_iter().find(|(_, name)| *name == words) {
            return Some(place);
        }
        let (seed, state) = words.split_once(' ')?;
        Some(Self::State { seed: seed.parse().ok()?, state: state.parse().ok()? })
    }

    /// What is broken here while the core makes the mistake, if anything is.
    #[must_use]
    pub fn shows(self, mutant: Mutant) -> Option<Failure> {
        set(Some(mutant));
        let outcome = match self {
            Self::State { seed, state } => {
                run(&Campaign { seed, only: Some(state), ..Campaign::default() }).err()
            }
            Self::Sweep => sweep(SWEPT).err(),
            Self::Taken => taken().err().map(|violation| Failure { seed: 0, state: 0, judged: 1, violation }),
            Self::Rest => rot(1..1 + LOGS_AT_REST, 100).err(),
        };
        set(None);
        outcome
    }
}

impl std::fmt::Display for FoundAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::State { seed, state } => write!(f, "{seed} {state}"),
            elsewhere => ELSEWHERE
                .iter()
                .find(|(place, _)| place == elsewhere)
                .map_or(Ok(()), |(_, name)| f.write_str(name)),
        }
    }
}

/// The mistakes that the campaign can see.
#[must_use]
pub fn visible() -> Vec<Mutant> {
    let apart = EQUIVALENT.iter().chain(&FOUND_BY_ORDERS).chain(&FOUND_BY_TESTS).chain(&FOUND_BY_SHIP);
    let apart = apart.map(|(known, _)| *known).chain(FOUND_BY_MODEL);
    let apart: Vec<Mutant> = apart.chain(Mutant::OF_MACHINES.iter().copied()).collect();
    Mutant::ALL.iter().copied().filter(|mutant| !apart.contains(mutant)).collect()
}

/// The recorded lines: a mistake's name, and where it shows; nothing for a line that is none.
pub fn recorded() -> impl Iterator<Item = (&'static str, Option<FoundAt>)> {
    let lines = RECORDED.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let (name, place) = line.split_once(' ').unwrap_or((line, ""));
        (name, FoundAt::parse(place))
    })
}

/// What a campaign of [`STATES`] from each of [`SEEDS`] finds of the mistake.
pub fn by_campaigns(mutant: Mutant) -> impl Iterator<Item = Option<Failure>> {
    SEEDS.into_iter().map(move |seed| {
        set(Some(mutant));
        let outcome = run(&Campaign { seed, states: STATES, ..Campaign::default() }).err();
        set(None);
        outcome
    })
}

/// Where the mistake shows, of the sweep, foreign files and logs at rest.
#[must_use]
pub fn elsewhere(mutant: Mutant) -> Option<(FoundAt, Failure)> {
    ELSEWHERE.into_iter().find_map(|(place, _)| place.shows(mutant).map(|failure| (place, failure)))
}

/// Searches for the mistake in campaigns, then elsewhere.
fn search(mutant: Mutant) -> Option<(FoundAt, Failure)> {
    let by_campaign = by_campaigns(mutant).flatten().next();
    by_campaign.map(|failure| (FoundAt::of(&failure), failure)).or_else(|| elsewhere(mutant))
}

/// Whether the mistake shows where it was recorded; else where a search finds it, if it does.
#[must_use]
pub fn find(mutant: Mutant) -> Option<(FoundAt, Failure)> {
    let name = format!("{mutant:?}");
    let place = recorded().find(|(known, _)| *known == name).and_then(|(_, place)| place);
    let there = place.and_then(|place| Some((place, place.shows(mutant)?)));
    there.or_else(|| search(mutant))
}
