//! Crash tests of the log's files: its victims are programs for `seawall_crash_test`, its oracle the check in this process.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall::oracle::Ledger;
use seawall::sim::outside::judge;
use seawall_crash_test::call::Record;
use seawall_crash_test::check::{Answer, Check};
use seawall_crash_test::progress::Progress;
use seawall_crash_test::recorder::{Ended, Program};
use seawall_crash_test::rule::Rule;
use seawall_crash_test::search::Search;
use seawall_crash_test::tree::{ROOT, Tree};

use crate::memory_disk::MemoryDisk;
use crate::scene::Scene;
use crate::victim::LAYOUT;
use crate::workload::Timeline;

/// The rules of a layer, and its name.
pub(crate) const RULES: [(&[Rule], &str); 2] =
    [(&[Rule::Posix], "strict"), (&[Rule::Ext4, Rule::Xfs, Rule::Btrfs], "journal")];

/// A search takes seconds; one that takes longer says so by not being whole.
const BUDGET: Duration = Duration::from_mins(2);

/// Runs the victim of `scene` in a recorded directory.
pub(crate) fn record(scene: &Scene, binary: &Path) -> io::Result<Record> {
    let dir = crate::apart::scratch()?;
    let command = scene.victim(dir.path(), None).command_line(binary)?;
    let hold_back = (scene.held_in_1000 > 0).then_some(scene.seed);
    let program = Program { hold_back, ..Program::new(dir.path(), &command) };
    let (record, ended) = seawall_crash_test::recorder::record(&program).map_err(io::Error::other)?;
    if ended != Ended::Exit(0) {
        return Err(io::Error::other(format!("the victim ended with {ended:?}: {scene}")));
    }
    Ok(record)
}

/// Judges the states of `record`; what broke first, if anything, and how many states were judged.
pub(crate) fn search(
    record: &Record,
    timeline: Timeline,
    rules: &[Rule],
) -> io::Result<(Option<String>, u64)> {
    let how = Search { rules: rules.to_vec(), budget: BUDGET, workers: 1, seed: 1, first_cut: 0 };
    let oracle = Oracle { timeline, ledgers: Mutex::default() };
    let outcome = seawall_crash_test::search::search(record, &how, &oracle, &Progress::default());
    let outcome = outcome.map_err(io::Error::other)?;
    let found = outcome.findings.first().map(|found| {
        let missing =
            found.missing.as_ref().map(|missing| format!(" (missing: {} {})", missing.call, missing.place));
        format!("behind event {}: {}{}", found.cut, found.message, missing.unwrap_or_default())
    });
    Ok((found, outcome.judged))
}

/// The log's oracle as a check: recovers the log of a state and compares it with what was acknowledged.
struct Oracle {
    timeline: Timeline,
    /// By the number of lines acknowledged.
    ledgers: Mutex<HashMap<usize, Arc<Ledger>>>,
}

impl Oracle {
    fn ledger(&self, acknowledged: &[Arc<[u8]>]) -> Result<Arc<Ledger>, String> {
        let mut known = crate::lock(&self.ledgers);
        if let Some(ledger) = known.get(&acknowledged.len()) {
            return Ok(Arc::clone(ledger));
        }
        let mut timeline = self.timeline.clone();
        for line in acknowledged {
            timeline.mark(&String::from_utf8_lossy(line)).map_err(|error| error.to_string())?;
        }
        let ledger = Arc::new(timeline.ledger);
        known.insert(acknowledged.len(), Arc::clone(&ledger));
        Ok(ledger)
    }
}

impl Check for Oracle {
    fn judge(&self, state: &Tree, acknowledged: &[Arc<[u8]>]) -> seawall_crash_test::Result<Answer> {
        let ledger = self.ledger(acknowledged).map_err(seawall_crash_test::Error::Untestable)?;
        let files = state.nodes[&ROOT].names.iter();
        let files = files.map(|(name, inode)| {
            let content = state.nodes.get(inode).map(|node| Arc::clone(&node.content)).unwrap_or_default();
            (String::from_utf8_lossy(name).into_owned(), content)
        });
        // Every other recovery is cut off and made again.
        let twice = state.fingerprint() & 1 == 0;
        let judged = judge(&mut MemoryDisk::new(&files.collect()), &LAYOUT, &ledger, twice);
        Ok(judged.map_or_else(|violation| Answer::Broken(violation.to_string()), |_| Answer::Kept))
    }
}
