//! The witness's ledger: durably records per run and stream what was acknowledged and trimmed.
//!
//! Each run has a Seawall log of its own, in a folder of its name: its streams, and of each stream two numbers. Everything
//! before the first was acknowledged, everything before the second may have been trimmed. A record of the log is one
//! [`Entry`] as JSON; from time to time everything is written again and what lies before is trimmed.
//!
//! Invariants: numbers only grow; streams, and with them memory and disk, are bounded; a reader takes no lock, because the
//! witness of a run may outlive the cut by hours; it sees everything that was ever confirmed; what it reads is what was in
//! the writer's memory, because both apply the same entries.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use seawall::{Log, Options, View};
use seawall_sys::clock::unix_us;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::message::{Ack, Begin, Run, RunId};
use crate::stream::{Stream, StreamKind};

/// Streams of a run.
pub(crate) const STREAMS_MAX: u16 = 64;
/// Entries after which everything is written again.
const ENTRIES_BETWEEN_SNAPSHOTS: u64 = 65_536;
/// The window in records that a run may have.
pub(crate) const WINDOW_MAX: u32 = 4096;
/// How long a reader waits for a log that has a writer: on a system where they share no memory, the last batch is seen to
/// be durable after a few idle milliseconds.
const SETTLES: Duration = Duration::from_millis(200);

/// A change of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    /// Everything that is known of it; it is new, or its earlier entries are about to be trimmed.
    Is(Run),
    /// How far a stream has come.
    Held(Ack),
    /// It ended by itself.
    Ended,
}

fn refused(text: impl Into<String>) -> Error {
    Error::Refused { text: text.into() }
}

fn damaged() -> Error {
    Error::Request("the ledger holds an entry that this version does not know; use another ledger".to_owned())
}

/// Refuses a run that is out of bounds.
fn check(begin: &Begin) -> Result<()> {
    let (streams, window) = (begin.streams.len(), begin.window);
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
    Ok(())
}

/// Takes in an entry: the writer of a ledger and its readers.
fn apply(run: &mut Run, entry: Entry) -> Result<()> {
    match entry {
        Entry::Is(is) => *run = is,
        Entry::Held(ack) => {
            *run.held.get_mut(usize::from(ack.stream)).ok_or_else(damaged)? = ack;
            run.last_stream = ack.stream;
        }
        Entry::Ended => run.ended = true,
    }
    Ok(())
}

/// The ledger of a run that is being written.
pub(crate) struct Ledger {
    run: Run,
    log: Log,
    entries: u64,
}

impl Ledger {
    /// A run begins, with all of its streams; that is durable then. Its ledger is a new folder in `dir`.
    pub(crate) fn begin(dir: &Path, begin: &Begin) -> Result<Self> {
        check(begin)?;
        let folder = dir.join(begin.run.to_string());
        if folder.exists() {
            return Err(refused(format!("there is a run {} already", begin.run)));
        }
        let ack = |stream: &Stream| Ack { stream: stream.number, ..Ack::default() };
        let run = Run {
            held: begin.streams.iter().map(ack).collect(),
            begin: begin.clone(),
            begun_unix_us: unix_us(),
            last_stream: 0,
            ended: false,
        };
        let log = Log::open(folder, Options::default().segment_bytes(4 << 20))?;
        let ledger = Self { run, log, entries: 0 };
        ledger.append(&Entry::Is(ledger.run.clone()))?;
        ledger.commit()?;
        Ok(ledger)
    }

    /// What is held of the stream after this acknowledgement, and durable after [`Ledger::commit`].
    pub(crate) fn ack(&mut self, ack: &Ack) -> Result<Ack> {
        let window = u64::from(self.run.begin.window);
        let Some(held) = self.run.held.get(usize::from(ack.stream)) else {
            return Err(refused(format!("there is no stream {}", ack.stream)));
        };
        // The judge relies on it: nothing further ahead was ever issued.
        if ack.acknowledged > held.acknowledged.saturating_add(window) || ack.trimmed > ack.acknowledged {
            return Err(refused(format!("stream {} runs ahead of its window", ack.stream)));
        }
        let now = Ack {
            stream: ack.stream,
            acknowledged: held.acknowledged.max(ack.acknowledged),
            trimmed: held.trimmed.max(ack.trimmed),
        };
        self.enter(Entry::Held(now))?;
        Ok(now)
    }

    /// The run ended by itself, durably after [`Ledger::commit`].
    pub(crate) fn end(&mut self) -> Result<()> {
        self.enter(Entry::Ended)
    }

    fn append(&self, entry: &Entry) -> Result<()> {
        // Writing to memory does not fail, and no key of a map is anything but text.
        self.log.append(&serde_json::to_vec(entry).unwrap_or_default())?;
        Ok(())
    }

    fn enter(&mut self, entry: Entry) -> Result<()> {
        self.append(&entry)?;
        apply(&mut self.run, entry)?;
        self.entries += 1;
        if self.entries > ENTRIES_BETWEEN_SNAPSHOTS {
            self.write_anew()?;
        }
        Ok(())
    }

    /// Makes durable what was entered.
    pub(crate) fn commit(&self) -> Result<()> {
        Ok(self.log.commit(self.log.appended_lsn())?)
    }

    /// Writes everything again and forgets what lies before.
    fn write_anew(&mut self) -> Result<()> {
        let start = self.log.appended_lsn();
        self.append(&Entry::Is(self.run.clone()))?;
        self.commit()?;
        self.log.trim(start)?;
        self.entries = 0;
        Ok(())
    }
}

/// What a reader sees of the run in this folder: nothing if it was cut off before it began.
fn read(folder: &Path) -> Result<Option<Run>> {
    let mut view = match View::open(folder) {
        Err(seawall::Error::NotALog { .. }) => return Ok(None),
        view => view?,
    };
    if view.has_writer() != Some(false) {
        std::thread::sleep(SETTLES);
        view.renew()?;
    }
    let mut run = None;
    for record in view.read(view.first_lsn())? {
        match (&mut run, serde_json::from_slice(&record?.payload).map_err(|_| damaged())?) {
            (Some(run), entry) => apply(run, entry)?,
            (None, Entry::Is(is)) => run = Some(is),
            (None, _) => return Err(damaged()),
        }
    }
    Ok(run)
}

/// The run of this id in the ledger in `dir`, or the one that began last; [`Error::Refused`] if there is none.
pub(crate) fn find(dir: &Path, wanted: Option<RunId>) -> Result<Run> {
    let listed = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        listed => listed.and_then(Iterator::collect).map_err(|error| Error::io("list", dir, error))?,
    };
    let mut found: Option<Run> = None;
    for entry in listed {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<RunId>().ok());
        if id.is_some() && (wanted.is_none() || wanted == id) {
            found = found.into_iter().chain(read(&entry.path())?).max_by_key(|run| run.begun_unix_us);
        }
    }
    found.ok_or_else(|| match wanted {
        Some(run) => refused(format!("its ledger {} has no run {run}", dir.display())),
        None => refused(format!("there is no run yet in its ledger {}", dir.display())),
    })
}

#[cfg(test)]
mod tests {
    use super::{ENTRIES_BETWEEN_SNAPSHOTS, Ledger, STREAMS_MAX, find};
    use crate::error::Error;
    use crate::message::{Ack, Begin, RunId};
    use crate::stream::{Stream, StreamKind};
    use crate::test_folder;

    fn begin(number: u8) -> Begin {
        Begin { run: RunId([number; 16]), window: 4, place: "here".to_owned(), streams: vec![stream(0)] }
    }

    fn stream(number: u16) -> Stream {
        Stream { record_bytes: 512, journal_bytes: 4096, ..Stream::sample(number, StreamKind::Journal) }
    }

    fn ack(acknowledged: u64) -> Ack {
        Ack { stream: 0, acknowledged, trimmed: 0 }
    }

    fn is_refused<T>(result: Result<T, Error>) -> bool {
        result.is_err_and(|error| matches!(error, Error::Refused { .. }))
    }

    #[test]
    fn what_was_committed_is_read_beside_the_writer_and_behind_it_and_stays_small() {
        let dir = test_folder();
        let two = Begin { streams: vec![stream(0), stream(1)], ..begin(2) };
        let mut ledger = Ledger::begin(dir.path(), &two).expect("begins");
        ledger.ack(&Ack { stream: 1, acknowledged: 3, trimmed: 1 }).expect("acknowledges");
        let many = ENTRIES_BETWEEN_SNAPSHOTS * 2 + 10;
        for acknowledged in 1..=many {
            ledger.ack(&ack(acknowledged)).expect("acknowledges");
        }
        ledger.ack(&Ack { stream: 1, acknowledged: 4, trimmed: 1 }).expect("acknowledges");
        assert!(ledger.log.first_lsn() > seawall::Lsn::ZERO, "what was written anew is trimmed");
        for read in 0..2 {
            ledger.commit().expect("commits");
            let beside = find(dir.path(), Some(two.run)).expect("no lock is in its way");
            assert_eq!((&beside, beside.ended), (&ledger.run, read == 1));
            ledger.end().expect("ends");
        }
        ledger.commit().expect("commits");
        let known = ledger.run.clone();
        drop(ledger);
        let behind = find(dir.path(), None).expect("is read");
        assert_eq!(behind, known);
        assert_eq!((behind.held[0].acknowledged, behind.held[1].acknowledged), (many, 4));
        assert_eq!((behind.last_stream, behind.held[1].trimmed), (1, 1));
    }

    #[test]
    fn the_run_that_began_last_is_found_whatever_else_lies_there() {
        let dir = test_folder();
        assert!(is_refused(find(&dir.path().join("nothing"), None)));
        assert!(is_refused(find(dir.path(), None)));
        for number in [7, 9, 8] {
            // The ledgers of dead runs stay open.
            std::mem::forget(Ledger::begin(dir.path(), &begin(number)).expect("begins"));
            let found = find(dir.path(), None).expect("is found");
            assert_eq!(found.begin, begin(number));
        }
        // A run that was cut off before it began, and what is no run.
        std::fs::create_dir(dir.path().join(RunId([10; 16]).to_string())).expect("made");
        std::fs::write(dir.path().join("notes"), "mine").expect("written");
        assert_eq!(find(dir.path(), None).expect("is found").begin.run, RunId([8; 16]));
        assert_eq!(find(dir.path(), Some(RunId([7; 16]))).expect("is found").begin, begin(7));
        for unknown in [10, 11] {
            assert!(is_refused(find(dir.path(), Some(RunId([unknown; 16])))), "{unknown}");
        }
        // What cannot be read might be the last one.
        std::fs::write(dir.path().join(RunId([12; 16]).to_string()), "no folder").expect("written");
        let error = find(dir.path(), None).expect_err("is no verdict").to_string();
        assert!(error.contains("0c0c0c"), "{error}");
    }

    #[test]
    fn what_runs_ahead_of_its_window_or_has_no_stream_is_refused() {
        let dir = test_folder();
        let mut ledger = Ledger::begin(dir.path(), &begin(1)).expect("begins");
        ledger.ack(&ack(4)).expect("a whole window");
        assert!(is_refused(ledger.ack(&ack(9))), "a window of 4 and one more");
        assert!(is_refused(ledger.ack(&Ack { trimmed: 6, ..ack(5) })), "trimmed before acknowledged");
        assert!(is_refused(ledger.ack(&Ack { stream: 1, ..ack(5) })));
        assert_eq!(ledger.ack(&ack(2)).expect("late").acknowledged, 4, "never goes back");
        let begun = |begin: Begin| Ledger::begin(dir.path(), &begin);
        assert!(is_refused(begun(begin(1))), "twice");
        assert!(is_refused(begun(Begin { streams: vec![stream(1)], ..begin(3) })), "out of turn");
        assert!(is_refused(begun(Begin { window: 9, ..begin(4) })), "8 slots");
        for window in [0, super::WINDOW_MAX + 1] {
            assert!(is_refused(begun(Begin { window, ..begin(4) })));
        }
        for streams in [vec![], (0..=STREAMS_MAX).map(stream).collect()] {
            assert!(is_refused(begun(Begin { streams, ..begin(5) })));
        }
        assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 1, "nothing is left of them");
    }
}
