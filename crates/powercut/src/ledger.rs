//! The witness's ledger: durably records per run and stream what was acknowledged and trimmed.
//!
//! The ledger keeps of each run its streams, and of each stream two numbers: everything before the first was
//! acknowledged, everything before the second may have been trimmed. It lies in a Seawall log of the witness's own,
//! one [`Entry`] as JSON a record, so that confirmations to a runner outlive the witness too; from time to time the
//! whole ledger is rewritten and its older part trimmed.
//!
//! Invariants: numbers only grow; runs, streams and with them memory and disk are bounded; the oldest judged run is
//! dropped for a new one, an unjudged one never is; what a replay of the log gives is what was in memory, because both
//! apply the same entries.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use seawall::{Log, Lsn, Options};
use seawall_sys::clock::unix_seconds;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::message::{Ack, Begin, Run, RunId};
use crate::stream::StreamKind;

/// Runs that a ledger holds.
pub(crate) const RUNS_MAX: usize = 256;
/// Streams of a run.
pub(crate) const STREAMS_MAX: u16 = 64;
/// Entries after which everything is written anew.
const ENTRIES_BETWEEN_SNAPSHOTS: u64 = 65_536;
/// The window in records that a run may have.
pub(crate) const WINDOW_MAX: u32 = 4096;

/// What is known of all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Runs {
    by_id: BTreeMap<RunId, Run>,
}

/// A change of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    /// Everything that is known of it; it is new, or its earlier entries are about to be trimmed.
    Is(Run),
    /// How far a stream has come.
    Held(RunId, Ack),
    /// It ended by itself.
    Ended(RunId),
    /// A verdict was given.
    Judged(RunId),
    /// It was dropped for another one.
    Dropped(RunId),
}

fn refused(text: impl Into<String>) -> Error {
    Error::Refused { text: text.into() }
}

impl Runs {
    fn get(&mut self, run: RunId) -> Result<&mut Run> {
        self.by_id.get_mut(&run).ok_or_else(|| refused(format!("it knows nothing of run {run}")))
    }

    /// The entries of a run that begins: the run that is dropped for it, if it needs the room, and the run.
    fn begin(&self, begin: &Begin, unix_s: u64) -> Result<Vec<Entry>> {
        let (streams, window) = (begin.streams.len(), begin.window);
        if self.by_id.contains_key(&begin.run) {
            return Err(refused(format!("there is a run {} already", begin.run)));
        }
        if streams == 0 || streams > usize::from(STREAMS_MAX) {
            return Err(refused(format!("a run has 1 to {STREAMS_MAX} streams, not {streams}")));
        }
        if window == 0 || window > WINDOW_MAX {
            return Err(refused(format!("a window is 1 to {WINDOW_MAX} records, not {window}")));
        }
        for (number, stream) in (0..).zip(&begin.streams) {
            if stream.number != number {
                return Err(refused(format!("stream {} comes out of turn", stream.number)));
            }
            let room = stream.slots() >= u64::from(window);
            if stream.record_bytes == 0 || (stream.kind == StreamKind::Journal && !room) {
                return Err(refused("a journal must hold at least one window of records"));
            }
        }
        let mut entries = Vec::new();
        if self.by_id.len() >= RUNS_MAX {
            let judged = self.by_id.iter().filter(|(_, run)| run.judged);
            let oldest = judged.min_by_key(|(_, run)| run.begun_unix_s).map(|(id, _)| *id);
            let oldest = oldest.ok_or_else(|| {
                refused(format!(
                    "its ledger holds {RUNS_MAX} runs without a verdict; check some, or use another ledger"
                ))
            })?;
            entries.push(Entry::Dropped(oldest));
        }
        let ack = |stream: &crate::stream::Stream| Ack { stream: stream.number, ..Ack::default() };
        entries.push(Entry::Is(Run {
            held: begin.streams.iter().map(ack).collect(),
            begin: begin.clone(),
            begun_unix_s: unix_s,
            last_stream: 0,
            ended: false,
            judged: false,
        }));
        Ok(entries)
    }

    /// What is held of the stream after this acknowledgement.
    fn ack(&mut self, id: RunId, ack: &Ack) -> Result<Ack> {
        let run = self.get(id)?;
        let window = u64::from(run.begin.window);
        let Some(held) = run.held.get(usize::from(ack.stream)) else {
            return Err(refused(format!("there is no stream {}", ack.stream)));
        };
        // The judge relies on it: nothing further ahead was ever issued.
        if ack.acknowledged > held.acknowledged.saturating_add(window) || ack.trimmed > ack.acknowledged {
            return Err(refused(format!("stream {} runs ahead of its window", ack.stream)));
        }
        Ok(Ack {
            stream: ack.stream,
            acknowledged: held.acknowledged.max(ack.acknowledged),
            trimmed: held.trimmed.max(ack.trimmed),
        })
    }

    /// Takes in an entry.
    fn apply(&mut self, entry: &Entry) -> Result<()> {
        match entry {
            Entry::Is(run) => drop(self.by_id.insert(run.begin.run, run.clone())),
            Entry::Held(id, ack) => {
                let run = self.get(*id)?;
                *run.held.get_mut(usize::from(ack.stream)).ok_or_else(damaged)? = *ack;
                run.last_stream = ack.stream;
            }
            Entry::Ended(id) => self.get(*id)?.ended = true,
            Entry::Judged(id) => self.get(*id)?.judged = true,
            Entry::Dropped(id) => drop(self.by_id.remove(id)),
        }
        Ok(())
    }

    /// Takes in a record of the log.
    fn replay(&mut self, record: &[u8]) -> Result<()> {
        let entry = serde_json::from_slice(record).map_err(|_| damaged())?;
        self.apply(&entry)
    }
}

/// Gives messages to an empty ledger as a runner's, and `records` as those of its log; the refusals.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn take(messages: &[crate::message::Message], records: &[&[u8]]) -> Vec<Error> {
    use crate::message::Message;
    let (mut runs, mut replayed, mut refused) = (Runs::default(), Runs::default(), Vec::new());
    let mut latest = None;
    for message in messages {
        let entries = match message {
            Message::Begin(begin) => {
                latest = Some(begin.run);
                runs.begin(begin, 1)
            }
            Message::Ack(ack) => match latest {
                Some(run) => runs.ack(run, ack).map(|held| vec![Entry::Held(run, held)]),
                None => Ok(Vec::new()),
            },
            _ => Ok(Vec::new()),
        };
        let taken = entries.and_then(|entries| entries.iter().try_for_each(|entry| runs.apply(entry)));
        refused.extend(taken.err());
    }
    refused.extend(records.iter().filter_map(|record| replayed.replay(record).err()));
    refused
}

fn damaged() -> Error {
    Error::Request("the ledger holds an entry that this version does not know; use another ledger".to_owned())
}

fn record(entry: &Entry) -> Vec<u8> {
    // Writing to memory does not fail, and no key of a map is anything but text.
    serde_json::to_vec(entry).unwrap_or_default()
}

/// The ledger.
pub(crate) struct Ledger {
    runs: Runs,
    log: Arc<Log>,
    entries: u64,
    /// The run that was begun last.
    latest: Option<RunId>,
}

impl Ledger {
    /// Opens the ledger in `dir`, or makes one.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let options = Options::default().segment_bytes(4 << 20);
        let log = Log::open(dir, options)?;
        let mut runs = Runs::default();
        let mut entries = 0;
        for record in log.read(log.first_lsn())? {
            runs.replay(&record?.payload)?;
            entries += 1;
        }
        let latest = runs.by_id.iter().max_by_key(|(_, run)| run.begun_unix_s).map(|(id, _)| *id);
        Ok(Self { runs, log: Arc::new(log), entries, latest })
    }

    /// The log, for waiting until an entry is durable without holding the ledger.
    pub(crate) fn log(&self) -> Arc<Log> {
        Arc::clone(&self.log)
    }

    /// Applies the entries and appends them; returns the LSN that must be durable before the peer is answered.
    fn enter(&mut self, entries: &[Entry]) -> Result<Lsn> {
        entries.iter().try_for_each(|entry| self.runs.apply(entry))?;
        let end = self
            .log
            .transaction::<Error>(|tx| entries.iter().try_for_each(|entry| Ok(tx.append(&record(entry))?)))?;
        self.entries += entries.len() as u64;
        if self.entries > ENTRIES_BETWEEN_SNAPSHOTS {
            return self.snapshot();
        }
        Ok(end)
    }

    /// Writes everything anew and forgets what lies before. A run's entry replaces what was known of it, so that a
    /// part of them does no harm behind the older ones.
    fn snapshot(&mut self) -> Result<Lsn> {
        let start = self.log.appended_lsn();
        for run in self.runs.by_id.values() {
            self.log.append(&record(&Entry::Is(run.clone())))?;
        }
        let end = self.log.appended_lsn();
        self.log.commit(end)?;
        self.log.trim(start)?;
        self.entries = 0;
        Ok(end)
    }

    /// A run begins, with all of its streams. Returns the LSN that must be durable before the runner is answered.
    ///
    /// # Errors
    /// [`Error::Refused`], and those of the log.
    pub(crate) fn begin(&mut self, begin: &Begin) -> Result<Lsn> {
        let entries = self.runs.begin(begin, unix_seconds())?;
        self.latest = Some(begin.run);
        self.enter(&entries)
    }

    /// A stream was acknowledged.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub(crate) fn ack(&mut self, run: RunId, ack: &Ack) -> Result<(Ack, Lsn)> {
        let held = self.runs.ack(run, ack)?;
        Ok((held, self.enter(&[Entry::Held(run, held)])?))
    }

    /// A run ended by itself.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub(crate) fn end(&mut self, run: RunId) -> Result<Lsn> {
        self.enter(&[Entry::Ended(run)])
    }

    /// A verdict was given.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub(crate) fn judged(&mut self, run: RunId) -> Result<Lsn> {
        self.enter(&[Entry::Judged(run)])
    }

    /// The run, or the latest one.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub(crate) fn find(&mut self, run: Option<RunId>) -> Result<Run> {
        let run = run.or(self.latest).ok_or_else(|| refused("it has seen no run yet"))?;
        self.runs.get(run).map(|run| run.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRIES_BETWEEN_SNAPSHOTS, Ledger, RUNS_MAX, STREAMS_MAX};
    use crate::error::Error;
    use crate::message::{Ack, Begin, RunId};
    use crate::stream::{Stream, StreamKind};
    use crate::test_folder;
    use seawall_sys::durability::Class;

    fn run(number: usize) -> RunId {
        let mut id = [1; 16];
        id[..8].copy_from_slice(&(number as u64).to_le_bytes());
        RunId(id)
    }

    fn begin(number: usize) -> Begin {
        Begin { run: run(number), window: 4, place: "here".to_owned(), streams: vec![stream(0)] }
    }

    fn stream(number: u16) -> Stream {
        Stream {
            number,
            kind: StreamKind::Journal,
            class: Class::PowerLoss,
            record_bytes: 512,
            journal_bytes: 4096,
            method: "direct+dsync".to_owned(),
        }
    }

    fn ack(acknowledged: u64) -> Ack {
        Ack { stream: 0, acknowledged, trimmed: 0 }
    }

    fn is_refused<T>(result: Result<T, Error>) -> bool {
        result.is_err_and(|error| matches!(error, Error::Refused { .. }))
    }

    #[test]
    fn what_was_confirmed_is_there_after_the_witness_comes_back_and_stays_small() {
        let dir = test_folder();
        let mut ledger = Ledger::open(dir.path()).expect("opens");
        ledger.begin(&begin(1)).expect("begins");
        ledger.begin(&Begin { streams: vec![stream(0), stream(1)], ..begin(2) }).expect("begins");
        ledger.ack(run(2), &Ack { stream: 1, acknowledged: 3, trimmed: 0 }).expect("acknowledges");
        let many = ENTRIES_BETWEEN_SNAPSHOTS * 2 + 10;
        let mut last = None;
        for acknowledged in 1..=many {
            last = Some(ledger.ack(run(1), &ack(acknowledged)).expect("acknowledges").1);
        }
        let log = ledger.log();
        log.commit(last.expect("an entry")).expect("commits");
        assert!(log.first_lsn() > seawall::Lsn::ZERO, "what was written anew is trimmed");
        let known = ledger.runs.clone();
        drop((ledger, log));
        let mut again = Ledger::open(dir.path()).expect("opens again");
        assert_eq!(again.runs, known);
        assert_eq!(again.find(Some(run(1))).expect("is known").held[0].acknowledged, many);
        assert_eq!(again.find(Some(run(2))).expect("is known").last_stream, 1);
        assert!(again.entries < ENTRIES_BETWEEN_SNAPSHOTS, "{} entries were read", again.entries);
    }

    #[test]
    fn what_runs_ahead_of_its_window_or_has_no_stream_is_refused() {
        let dir = test_folder();
        let mut ledger = Ledger::open(dir.path()).expect("opens");
        assert!(is_refused(ledger.find(None)));
        ledger.begin(&begin(1)).expect("begins");
        ledger.ack(run(1), &ack(4)).expect("a whole window");
        assert!(is_refused(ledger.ack(run(1), &ack(9))), "a window of 4 and one more");
        assert!(is_refused(ledger.ack(run(1), &Ack { trimmed: 6, ..ack(5) })), "trimmed before acknowledged");
        assert!(is_refused(ledger.ack(run(1), &Ack { stream: 1, ..ack(5) })));
        assert!(is_refused(ledger.ack(run(2), &ack(1))));
        assert_eq!(ledger.ack(run(1), &ack(2)).expect("late").0.acknowledged, 4, "never goes back");
        assert!(is_refused(ledger.begin(&begin(1))), "twice");
        assert!(is_refused(ledger.begin(&Begin { streams: vec![stream(1)], ..begin(3) })), "out of turn");
        assert!(is_refused(ledger.begin(&Begin { window: 9, ..begin(4) })), "8 slots");
        for streams in [vec![], (0..=STREAMS_MAX).map(stream).collect()] {
            assert!(is_refused(ledger.begin(&Begin { streams, ..begin(5) })));
        }
    }

    #[test]
    fn a_full_ledger_forgets_judged_runs_only() {
        let dir = test_folder();
        let mut ledger = Ledger::open(dir.path()).expect("opens");
        for number in 0..RUNS_MAX {
            ledger.begin(&begin(number)).expect("begins");
        }
        assert!(is_refused(ledger.begin(&begin(RUNS_MAX))));
        ledger.judged(run(7)).expect("judged");
        let last = ledger.begin(&begin(RUNS_MAX)).expect("there is room now");
        assert_eq!(ledger.runs.by_id.len(), RUNS_MAX);
        assert!(is_refused(ledger.find(Some(run(7)))));
        let log = ledger.log();
        log.commit(last).expect("commits");
        let known = ledger.runs.clone();
        drop((ledger, log));
        assert_eq!(Ledger::open(dir.path()).expect("opens again").runs, known);
    }
}
