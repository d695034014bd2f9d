//! Tests that every reported change survives a killed process.
//!
//! The test starts itself as a child that appends, truncates, votes and purges, and that prints each change to its
//! standard output as soon as it is durable. The parent kills the child at some moment, opens the store and compares
//! it with that output. Many rounds on one directory, so that every opening but the first follows a kill.

#[path = "../../slatedb/tests/kills/mod.rs"]
mod kills;
#[path = "suite/old.rs"]
#[allow(dead_code, reason = "each test uses the part it needs")]
mod old;
#[path = "suite/scratch.rs"]
mod scratch;

use std::io::Write;
use std::path::{Path, PathBuf};

use openraft09::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft09::{RaftLogReader, Vote};
use seawall_openraft::v09::LogStore;

use old::{Types, entry};

fn open(dir: &Path) -> LogStore<Types> {
    scratch::open(dir, 0).store(3).expect("is understood")
}

fn say(what: &str, term: u64, index: u64) {
    println!("{what} {term} {index}");
    std::io::stdout().flush().expect("the parent listens");
}

/// Goes on with the store for ever: each life is a term of its own.
async fn live(dir: &Path) {
    let mut store = open(dir);
    let term = store.read_vote().await.expect("reads").map_or(1, |vote| vote.leader_id.term + 1);
    store.save_vote(&Vote::new(term, 1)).await.expect("is durable");
    say("vote", term, 0);
    let mut next = store.get_log_state().await.expect("reads").last_log_id.map_or(1, |last| last.index + 1);
    // A new leader's log differs from the old one's in its last entries.
    let cut = next.saturating_sub(3).max(1);
    let purged =
        store.get_log_state().await.expect("reads").last_purged_log_id.map_or(0, |purged| purged.index);
    if cut < next && cut > purged {
        let old = store.try_get_log_entries(cut..=cut).await.expect("reads")[0].log_id;
        // Said before, because it may be durable before it can be said.
        say("cutting", term, cut);
        store.truncate(old).await.expect("is durable");
        say("cut", term, cut);
        next = cut;
    }
    loop {
        let batch: Vec<_> = (next..next + 1 + next % 7).map(|index| entry(term, index)).collect();
        next += batch.len() as u64;
        store.blocking_append(batch).await.expect("becomes durable");
        say("entry", term, next - 1);
        if next % 100 == 0 {
            let found = store.try_get_log_entries(next - 50..=next - 50).await.expect("reads");
            // An earlier life may have purged as far.
            if let Some(upto) = found.first().map(|entry| entry.log_id) {
                say("purging", upto.leader_id.term, upto.index);
                store.purge(upto).await.expect("is durable");
            }
        }
    }
}

/// What the child said, taken together.
#[derive(Default, Debug)]
struct Said {
    vote: u64,
    /// The term of each entry by index; entry 0 does not exist.
    terms: Vec<u64>,
    purging: u64,
    /// Entries from here on may have been cut off without a word.
    cutting: Option<usize>,
}

impl Said {
    fn hear(&mut self, line: &str) {
        let mut words = line.split(' ');
        let what = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
        let (term, index) = (number(), number());
        let at = usize::try_from(index).expect("few entries");
        match what {
            "vote" => self.vote = term,
            "cutting" => self.cutting = Some(at),
            "cut" => {
                self.terms.truncate(at);
                self.cutting = None;
            }
            // Entries without a word of their own came before this one in the same life.
            "entry" => self.terms.resize(at + 1, term),
            "purging" => self.purging = index,
            other => panic!("{other}"),
        }
    }

    async fn check(&mut self, store: &mut LogStore<Types>) {
        let vote = store.read_vote().await.expect("reads").map_or(0, |vote| vote.leader_id.term);
        assert!(vote == self.vote || vote == self.vote + 1, "voted {vote} after {self:?}");
        let state = store.get_log_state().await.expect("reads");
        let purged = state.last_purged_log_id.map_or(0, |purged| purged.index);
        assert!(purged <= self.purging, "{purged} purged: {self:?}");
        let entries = store.try_get_log_entries(..).await.expect("reads");
        for (due, found) in (purged + 1..).zip(&entries) {
            assert_eq!(
                *found,
                entry(found.log_id.leader_id.term, due),
                "every entry is whole and in its place"
            );
        }
        let found: Vec<u64> = entries.iter().map(|entry| entry.log_id.leader_id.term).collect();
        let from = usize::try_from(purged).expect("few entries") + 1;
        let mut must = self.terms.clone();
        if let Some(cut) = self.cutting.take().filter(|cut| from + found.len() <= *cut) {
            must.truncate(cut);
        }
        let must = must.get(from..).unwrap_or_default();
        assert!(found.starts_with(must), "of {must:?} this is there: {found:?}");
        // What was written and not said counts from now on.
        self.terms.resize(from, 0);
        self.terms.extend(&found);
        self.terms.truncate(from + found.len());
        self.vote = vote;
        self.purging = purged;
    }
}

fn main() {
    let dir = || PathBuf::from(std::env::args_os().nth(1).expect("a folder"));
    kills::run(
        "everything_said_is_there_after_a_kill",
        || scratch::run(live(&dir())),
        |kills| {
            let dir = scratch::scratch();
            let (mut said, mut lines_heard) = (Said::default(), 0);
            kills::kill(&mut kills::program(dir.path()), kills, |_, lines| {
                for line in &lines {
                    said.hear(line);
                }
                lines_heard += lines.len() as u64;
                scratch::run(said.check(&mut open(dir.path())));
            });
            assert!(lines_heard > kills * 10, "{lines_heard} lines prove little");
            assert!(said.terms.len() > 500, "{} entries prove little", said.terms.len());
            format!("{lines_heard} statements")
        },
    );
}
