//! The witness's ledger: durably records per run and stream what was acknowledged and trimmed.
//!
//! The ledger keeps of each run its streams, and of each stream two numbers: everything before the first was
//! acknowledged, everything before the second may have been trimmed. It lies in a Seawall log of the witness's own,
//! so that confirmations to a runner outlive the witness too; from time to time the whole ledger is rewritten and its
//! older part trimmed.
//!
//! Invariants: numbers only grow; runs, streams and with them memory and disk are bounded; the oldest judged run is
//! dropped for a new one, an unjudged one never is.

use std::collections::BTreeMap;
use std::path::Path;

use seawall::{Log, Lsn, Options};
use seawall_sys::clock::unix_seconds;

use crate::error::{Error, Result};
use crate::message::{Ack, Begin, Message, RunId, Summary};
use crate::stream::{Kind, Stream};

/// Runs that a ledger holds.
pub(crate) const RUNS_MAX: usize = 256;
/// Streams of a run.
pub(crate) const STREAMS_MAX: u16 = 64;
/// Entries after which everything is written anew.
const ENTRIES_BETWEEN_SNAPSHOTS: u64 = 65_536;
/// The window in records that a run may ask for.
pub(crate) const WINDOW_MAX: u32 = 4096;

/// What is known of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) summary: Summary,
    pub(crate) streams: Vec<(Stream, Ack)>,
}

impl Run {
    fn is_whole(&self) -> bool {
        self.streams.len() == usize::from(self.summary.streams)
    }
}

/// What is known of all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Runs {
    by_id: BTreeMap<RunId, Run>,
}

fn refused(text: impl Into<String>) -> Error {
    Error::Refused { text: text.into() }
}

impl Runs {
    fn get(&mut self, run: RunId) -> Result<&mut Run> {
        self.by_id.get_mut(&run).ok_or_else(|| refused(format!("it knows nothing of run {run}")))
    }

    fn begin(&mut self, begin: &Begin, unix_s: u64) -> Result<()> {
        if self.by_id.contains_key(&begin.run) || begin.run == RunId::LATEST {
            return Err(refused(format!("there is a run {} already", begin.run)));
        }
        if begin.streams == 0 || begin.streams > STREAMS_MAX {
            return Err(refused(format!("a run has 1 to {STREAMS_MAX} streams, not {}", begin.streams)));
        }
        if begin.window == 0 || begin.window > WINDOW_MAX {
            return Err(refused(format!("a window is 1 to {WINDOW_MAX} records, not {}", begin.window)));
        }
        if self.by_id.len() >= RUNS_MAX {
            let judged = self.by_id.values().filter(|run| run.summary.judged || run.streams.is_empty());
            let oldest = judged.min_by_key(|run| run.summary.begun_unix_s).map(|run| run.summary.run);
            let oldest = oldest.ok_or_else(|| {
                refused(format!(
                    "its ledger holds {RUNS_MAX} runs without a verdict; check some, or use another ledger"
                ))
            })?;
            self.by_id.remove(&oldest);
        }
        let summary = Summary {
            run: begin.run,
            streams: begin.streams,
            last_stream: 0,
            window: begin.window,
            begun_unix_s: unix_s,
            ended: false,
            judged: false,
            place: begin.place.clone(),
        };
        self.by_id.insert(begin.run, Run { summary, streams: Vec::new() });
        Ok(())
    }

    fn stream(&mut self, run: RunId, stream: &Stream) -> Result<()> {
        let run = self.get(run)?;
        if run.is_whole() || usize::from(stream.number) != run.streams.len() {
            return Err(refused(format!("stream {} comes out of turn", stream.number)));
        }
        let room = stream.slots() >= u64::from(run.summary.window);
        if stream.record_bytes == 0 || (stream.kind == Kind::Journal && !room) {
            return Err(refused("a journal must hold at least one window of records"));
        }
        run.streams.push((stream.clone(), Ack { stream: stream.number, ..Ack::default() }));
        Ok(())
    }

    fn ack(&mut self, run: RunId, ack: &Ack) -> Result<Ack> {
        let run = self.get(run)?;
        let window = u64::from(run.summary.window);
        let whole = run.is_whole();
        let known = run.streams.get_mut(usize::from(ack.stream)).filter(|_| whole);
        let Some((_, held)) = known else {
            return Err(refused(format!("there is no stream {}", ack.stream)));
        };
        // The judge relies on it: nothing further ahead was ever issued.
        if ack.acknowledged > held.acknowledged.saturating_add(window) || ack.trimmed > ack.acknowledged {
            return Err(refused(format!("stream {} runs ahead of its window", ack.stream)));
        }
        held.acknowledged = held.acknowledged.max(ack.acknowledged);
        held.trimmed = held.trimmed.max(ack.trimmed);
        run.summary.last_stream = ack.stream;
        Ok(*held)
    }

    /// Takes in an entry of the log.
    fn replay(&mut self, entry: &[u8]) -> Result<()> {
        let Some((id, rest)) = entry.split_first_chunk::<16>() else { return Err(damaged()) };
        let (run, [kind, payload @ ..]) = (RunId(*id), rest) else { return Err(damaged()) };
        match Message::decode(*kind, payload)? {
            Message::Summary(summary) => {
                // Everything of this run follows anew.
                self.by_id.insert(run, Run { summary, streams: Vec::new() });
            }
            Message::Stream(stream) => {
                self.get(run)?
                    .streams
                    .push((stream.clone(), Ack { stream: stream.number, ..Ack::default() }));
            }
            Message::Held(ack) => {
                let run = self.get(run)?;
                let known = run.streams.get_mut(usize::from(ack.stream)).ok_or_else(damaged)?;
                known.1 = ack;
                run.summary.last_stream = ack.stream;
            }
            Message::End => self.get(run)?.summary.ended = true,
            Message::Judged { .. } => self.get(run)?.summary.judged = true,
            // The run was forgotten.
            Message::Done => {
                self.by_id.remove(&run);
            }
            _ => return Err(damaged()),
        }
        Ok(())
    }
}

/// Gives messages to an empty ledger, as a runner's and as entries of its log; the refusals.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn take(messages: &[Message]) -> Vec<Error> {
    let (mut runs, mut replayed) = (Runs::default(), Runs::default());
    let mut latest = RunId::LATEST;
    let mut refused = Vec::new();
    for message in messages {
        let taken = match message {
            Message::Begin(begin) => {
                latest = begin.run;
                runs.begin(begin, 1)
            }
            Message::Stream(stream) => runs.stream(latest, stream),
            Message::Ack(ack) => runs.ack(latest, ack).map(drop),
            _ => Ok(()),
        };
        refused.extend(taken.err());
        refused.extend(replayed.replay(&entry(latest, message)).err());
    }
    refused
}

fn damaged() -> Error {
    Error::Asked("the ledger holds an entry that this version does not know; use another ledger".to_owned())
}

fn entry(run: RunId, message: &Message) -> Vec<u8> {
    let mut bytes = run.0.to_vec();
    bytes.push(message.kind());
    message.payload(&mut bytes);
    bytes
}

/// The ledger.
pub(crate) struct Ledger {
    runs: Runs,
    log: std::sync::Arc<Log>,
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
        let latest =
            runs.by_id.values().max_by_key(|run| run.summary.begun_unix_s).map(|run| run.summary.run);
        Ok(Self { runs, log: std::sync::Arc::new(log), entries, latest })
    }

    /// The log, for waiting until an entry is durable without holding the ledger.
    pub(crate) fn log(&self) -> std::sync::Arc<Log> {
        std::sync::Arc::clone(&self.log)
    }

    fn append(&mut self, run: RunId, messages: &[Message]) -> Result<Lsn> {
        let end = self.log.transaction::<Error>(|tx| {
            messages.iter().try_for_each(|message| Ok(tx.append(&entry(run, message))?))
        })?;
        self.entries += messages.len() as u64;
        if self.entries > ENTRIES_BETWEEN_SNAPSHOTS {
            return self.snapshot();
        }
        Ok(end)
    }

    /// Writes everything anew and forgets what lies before.
    fn snapshot(&mut self) -> Result<Lsn> {
        let start = self.log.appended_lsn();
        let runs = &self.runs;
        let end = self.log.transaction::<Error>(|tx| {
            for (id, run) in &runs.by_id {
                tx.append(&entry(*id, &Message::Summary(run.summary.clone())))?;
                for (stream, _) in &run.streams {
                    tx.append(&entry(*id, &Message::Stream(stream.clone())))?;
                }
                // The one that was acknowledged last comes last, so that reading restores which it was.
                let last = |ack: &Ack| ack.stream == run.summary.last_stream;
                let acks = run.streams.iter().map(|(_, ack)| ack);
                for ack in acks.clone().filter(|ack| !last(ack)).chain(acks.filter(|ack| last(ack))) {
                    tx.append(&entry(*id, &Message::Held(*ack)))?;
                }
            }
            Ok(())
        })?;
        self.log.commit(end)?;
        self.log.trim(start)?;
        self.entries = 0;
        Ok(end)
    }

    /// A run begins, with all of its streams. Returns the LSN that must be durable before the runner is answered.
    ///
    /// # Errors
    /// [`Error::Refused`], and those of the log.
    pub(crate) fn begin(&mut self, begin: &Begin, streams: &[Stream]) -> Result<Lsn> {
        // Nothing stays of a run whose streams are refused.
        let mut after = self.runs.clone();
        after.begin(begin, unix_seconds())?;
        streams.iter().try_for_each(|stream| after.stream(begin.run, stream))?;
        let before = std::mem::replace(&mut self.runs, after);
        for forgotten in before.by_id.into_keys() {
            if !self.runs.by_id.contains_key(&forgotten) {
                self.append(forgotten, &[Message::Done])?;
            }
        }
        let summary = Message::Summary(self.runs.get(begin.run)?.summary.clone());
        let streams = streams.iter().map(|stream| Message::Stream(stream.clone()));
        let messages: Vec<Message> = std::iter::once(summary).chain(streams).collect();
        self.latest = Some(begin.run);
        self.append(begin.run, &messages)
    }

    /// A stream was acknowledged.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub(crate) fn ack(&mut self, run: RunId, ack: &Ack) -> Result<(Ack, Lsn)> {
        let held = self.runs.ack(run, ack)?;
        let lsn = self.append(run, &[Message::Held(held)])?;
        Ok((held, lsn))
    }

    /// A run ended by itself.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub(crate) fn end(&mut self, run: RunId) -> Result<Lsn> {
        self.runs.get(run)?.summary.ended = true;
        self.append(run, &[Message::End])
    }

    /// A verdict was given.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub(crate) fn judged(&mut self, run: RunId, convicted: bool) -> Result<Lsn> {
        self.runs.get(run)?.summary.judged = true;
        self.append(run, &[Message::Judged { run, convicted }])
    }

    /// The run, or the latest one.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub(crate) fn find(&mut self, run: RunId) -> Result<Run> {
        let run = match (run, self.latest) {
            (RunId::LATEST, None) => return Err(refused("it has seen no run yet")),
            (RunId::LATEST, Some(latest)) => latest,
            (run, _) => run,
        };
        self.runs.get(run).map(|run| run.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRIES_BETWEEN_SNAPSHOTS, Ledger, RUNS_MAX, STREAMS_MAX};
    use crate::error::Error;
    use crate::message::{Ack, Begin, RunId};
    use crate::stream::{Kind, Stream};
    use crate::test_folder;
    use seawall_sys::durability::Class;

    fn run(number: usize) -> RunId {
        let mut id = [1; 16];
        id[..8].copy_from_slice(&(number as u64).to_le_bytes());
        RunId(id)
    }

    fn begin(number: usize) -> Begin {
        Begin { run: run(number), streams: 1, window: 4, place: "here".to_owned() }
    }

    fn stream(number: u16) -> Stream {
        Stream {
            number,
            kind: Kind::Journal,
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
        ledger.begin(&begin(1), &[stream(0)]).expect("begins");
        ledger.begin(&Begin { streams: 2, ..begin(2) }, &[stream(0), stream(1)]).expect("begins");
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
        assert_eq!(again.find(run(1)).expect("is known").streams[0].1.acknowledged, many);
        assert_eq!(again.find(run(2)).expect("is known").summary.last_stream, 1);
        assert!(again.entries < ENTRIES_BETWEEN_SNAPSHOTS, "{} entries were read", again.entries);
    }

    #[test]
    fn what_runs_ahead_of_its_window_or_has_no_stream_is_refused() {
        let dir = test_folder();
        let mut ledger = Ledger::open(dir.path()).expect("opens");
        assert!(is_refused(ledger.find(RunId::LATEST)));
        ledger.begin(&begin(1), &[stream(0)]).expect("begins");
        ledger.ack(run(1), &ack(4)).expect("a whole window");
        assert!(is_refused(ledger.ack(run(1), &ack(9))), "a window of 4 and one more");
        assert!(is_refused(ledger.ack(run(1), &Ack { trimmed: 6, ..ack(5) })), "trimmed before acknowledged");
        assert!(is_refused(ledger.ack(run(1), &Ack { stream: 1, ..ack(5) })));
        assert!(is_refused(ledger.ack(run(2), &ack(1))));
        assert_eq!(ledger.ack(run(1), &ack(2)).expect("late").0.acknowledged, 4, "never goes back");
        assert!(is_refused(ledger.begin(&begin(1), &[stream(0)])), "twice");
        assert!(is_refused(ledger.begin(&begin(3), &[stream(1)])), "out of turn");
        assert!(is_refused(ledger.begin(&Begin { window: 9, ..begin(4) }, &[stream(0)])), "8 slots");
        let too_many = Begin { streams: STREAMS_MAX + 1, ..begin(5) };
        assert!(is_refused(ledger.begin(&too_many, &[])));
    }

    #[test]
    fn a_full_ledger_forgets_judged_runs_only() {
        let dir = test_folder();
        let mut ledger = Ledger::open(dir.path()).expect("opens");
        for number in 0..RUNS_MAX {
            ledger.begin(&begin(number), &[stream(0)]).expect("begins");
        }
        assert!(is_refused(ledger.begin(&begin(RUNS_MAX), &[stream(0)])));
        ledger.judged(run(7), false).expect("judged");
        let last = ledger.begin(&begin(RUNS_MAX), &[stream(0)]).expect("there is room now");
        assert_eq!(ledger.runs.by_id.len(), RUNS_MAX);
        assert!(is_refused(ledger.find(run(7))));
        let log = ledger.log();
        log.commit(last).expect("commits");
        let known = ledger.runs.clone();
        drop((ledger, log));
        assert_eq!(Ledger::open(dir.path()).expect("opens again").runs, known);
    }
}
