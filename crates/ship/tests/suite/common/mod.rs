//! Test fixture: logs of many batches, a folder that is watched, and a destination in memory that can be away, slow, refuse, or lose answers.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seawall::{Log, Lsn, Options, RebuildTo, View};
use seawall_ship::archive::Store;
use seawall_ship::destination::{Answer, Destination, Identity};
use seawall_ship::folder::Folder;
use seawall_ship::restore::{self, Drill, Rebuilt, Sources};
use seawall_ship::shipping::{Settings, Shipping};
use seawall_ship::writer::Outcome;
use seawall_ship::{Error, Facts, Result, Synced};

pub(crate) const LIMIT: Option<Duration> = Some(Duration::from_mins(1));

pub(crate) fn options() -> Options {
    Options::default()
        .segment_bytes(64 << 10)
        .block_bytes(512)
        .batch_bytes(8 << 10)
        .idle_mark(Duration::from_millis(1))
}

/// A folder on the file system of the build.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the file system of the build")
}

/// The paths of what lies in a folder, in order.
pub(crate) fn files(dir: impl AsRef<Path>) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("lists");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// Paths of these names in a folder of their own.
pub(crate) fn folders<const N: usize>(names: [&str; N]) -> (tempfile::TempDir, [PathBuf; N]) {
    let dir = scratch();
    let paths = names.map(|name| dir.path().join(name));
    (dir, paths)
}

pub(crate) fn start(dir: &Path, to: &Memory) -> Result<Shipping> {
    Shipping::start(dir, Box::new(to.clone()), Settings::default())
}

/// A log that is being shipped to a memory.
pub(crate) fn shipping(dir: &Path) -> (Log, Memory, Shipping) {
    let (log, memory) = (Log::open(dir, options()).expect("opens"), Memory::new("a"));
    let shipping = start(dir, &memory).expect("starts");
    (log, memory, shipping)
}

/// A log of `count` records, and the memory that all of them were shipped to.
pub(crate) fn shipped(dir: &Path, count: usize) -> (Log, Memory) {
    let (log, memory) = (Log::open(dir, options()).expect("opens"), Memory::new("a"));
    append(&log, count);
    start(dir, &memory).expect("starts").finish(LIMIT).expect("ships");
    (log, memory)
}

pub(crate) fn rebuild(from: &mut dyn Destination, to: impl AsRef<Path>) -> Result<Rebuilt> {
    restore::rebuild(Sources::new([from])?, to, &mut silent()).map(|joined| joined.outcome)
}

pub(crate) fn copy(from: &mut dyn Destination, to: impl AsRef<Path>, until: RebuildTo) -> Result<Rebuilt> {
    restore::copy(Sources::new([from])?, to, until, &mut silent()).map(|joined| joined.outcome)
}

pub(crate) fn drill(from: &mut dyn Destination, dir: Option<&Path>) -> Result<Drill> {
    restore::drill(Sources::new([from])?, dir, &mut silent()).map(|joined| joined.outcome)
}

/// Hears of no progress.
pub(crate) fn silent() -> impl FnMut(Lsn, u64) {
    |_, _| ()
}

/// Appends `count` records of different lengths, each committed.
pub(crate) fn append(log: &Log, count: usize) -> Lsn {
    let mut end = Lsn::ZERO;
    for i in 0..count {
        let record = vec![u8::try_from(i % 251).expect("small"); i * 37 % 3000];
        end = log.append_commit(&record).expect("commits").end;
    }
    end
}

/// Every record of a log, with its LSN.
pub(crate) fn records(dir: &Path) -> Vec<(Lsn, Vec<u8>)> {
    let view = View::open(dir).expect("opens");
    let records = view.read(view.first_lsn()).expect("reads").map(|record| record.expect("sound"));
    records.map(|record| (record.lsn, record.payload.to_vec())).collect()
}

/// Something that happens once.
pub(crate) type Deed<T> = Option<Box<dyn FnOnce() -> T + Send>>;

/// A folder that counts what is read of it and listed, and takes only this many changes.
pub(crate) struct Watched {
    folder: Folder,
    /// Before starts are listed, and before one is read.
    pub(crate) before_starts: Deed<Result<()>>,
    pub(crate) before_start: Deed<()>,
    pub(crate) read: usize,
    pub(crate) messages_read: u64,
    pub(crate) listed: usize,
    changes_left: usize,
    end: ErrorKind,
}

impl Watched {
    pub(crate) fn new(folder: Folder) -> Self {
        let (changes_left, end) = (usize::MAX, ErrorKind::NotConnected);
        let (before_starts, before_start) = (None, None);
        Self { folder, before_starts, before_start, read: 0, messages_read: 0, listed: 0, changes_left, end }
    }

    /// After this many changes each one fails so.
    pub(crate) fn ends_after(self, changes_left: usize, end: ErrorKind) -> Self {
        Self { changes_left, end, ..self }
    }

    fn change(&mut self) -> Result<()> {
        let ended = unavailable("it takes no more changes", self.end);
        self.changes_left = self.changes_left.checked_sub(1).ok_or(ended)?;
        Ok(())
    }
}

pub(crate) fn unavailable(what: &str, kind: ErrorKind) -> Error {
    Error::Unavailable { what: what.to_owned(), source: Arc::new(std::io::Error::from(kind)) }
}

impl Store for Watched {
    fn name(&self) -> (String, bool) {
        self.folder.name()
    }

    fn address(&self) -> String {
        self.folder.address()
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.change()?;
        self.folder.create(name, bytes)
    }

    fn get(&mut self, name: &str, limit: Option<usize>) -> Result<Option<Vec<u8>>> {
        self.read += 1;
        self.messages_read += u64::from(name.starts_with("messages/"));
        if let Some(deed) = self.before_start.take_if(|_| name.starts_with("starts/")) {
            deed();
        }
        self.folder.get(name, limit)
    }

    fn list(&mut self, prefix: &str, after: &str) -> Result<Vec<String>> {
        self.before_starts.take_if(|_| prefix == "starts/").map_or(Ok(()), |deed| deed())?;
        let names = self.folder.list(prefix, after)?;
        self.listed += names.len();
        Ok(names)
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        self.change()?;
        self.folder.remove(name)
    }
}

/// What a destination says that stores nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Unknown,
    Refused,
    /// The next one has no room, and those that are sent after it are refused because of that.
    First,
}

/// What may happen to requests.
#[derive(Default)]
pub(crate) struct Weather {
    /// No request is answered.
    pub(crate) away: bool,
    /// Of this many appends one is stored without an answer, and one is lost; 0 for none.
    pub(crate) one_in: u64,
    pub(crate) stored: Vec<Arc<[u8]>>,
    pub(crate) appends: u64,
    pub(crate) refused: u64,
    /// Looks: reads, and questions for the last position.
    pub(crate) looks: u64,
    /// What becomes of every append instead of being stored.
    pub(crate) refusal: Option<Refusal>,
    /// The answer to the next one, until another comes after it.
    held: Option<Answer>,
    /// What tells it from others of its address.
    pub(crate) identity: Option<String>,
    random: u64,
}

/// A destination in memory.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) weather: Arc<Mutex<Weather>>,
    facts: Facts,
}

impl Memory {
    pub(crate) fn new(name: &str) -> Self {
        let facts = Facts {
            name: name.to_owned(),
            acknowledged_by: 2,
            laggard_may_lead: false,
            synced: Synced::After,
            setting: "of a test".to_owned(),
            on_this_machine: false,
            elsewhere: false,
            keeps_copies: false,
            message_bytes_max: 4000,
            in_flight_max: 16,
            gather_bytes: 0,
            reports: Vec::new(),
        };
        Self { weather: Arc::default(), facts }
    }

    pub(crate) fn with(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut self.weather.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn stored(&self) -> Vec<Arc<[u8]>> {
        self.weather.lock().unwrap_or_else(PoisonError::into_inner).stored.clone()
    }
}

impl Destination for Memory {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn address(&self) -> String {
        format!("memory:{}", self.facts.name)
    }

    fn identity(&mut self) -> Result<Identity> {
        let identity = self.weather.lock().unwrap_or_else(PoisonError::into_inner).identity.clone();
        Ok(identity.map_or(Identity::Unreported, Identity::Is))
    }

    fn append(&mut self, position: u64, bytes: Arc<[u8]>, answer: Answer) {
        let mut weather = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        weather.appends += 1;
        weather.random = weather.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let fate = if weather.one_in == 0 { u64::MAX } else { (weather.random >> 33) % weather.one_in };
        if weather.away || fate == 0 {
            return;
        }
        if let Some(refusal) = weather.refusal {
            let waits = matches!(refusal, Refusal::First) && position == weather.stored.len() as u64 + 1;
            let (held, answer) = if waits {
                (weather.held.replace(answer), None)
            } else {
                (weather.held.take(), Some(answer))
            };
            drop(weather);
            if let Some(held) = held {
                held(Outcome::unknown("over quota"));
            }
            if let Some(answer) = answer {
                answer(match refusal {
                    Refusal::Unknown => Outcome::unknown("over quota"),
                    Refusal::Refused => Outcome::refused("over quota"),
                    Refusal::First => Outcome::refused("it is not the next one"),
                });
            }
            return;
        }
        let is_next = position == weather.stored.len() as u64 + 1;
        if is_next {
            weather.stored.push(bytes);
        }
        weather.refused += u64::from(!is_next);
        drop(weather);
        if fate != 1 {
            answer(if is_next { Outcome::Stored } else { Outcome::refused("it is not the next one") });
        }
    }

    fn read(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        let mut weather = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        weather.looks += 1;
        if weather.away {
            return Err(unavailable("it is away", ErrorKind::NotConnected));
        }
        let index = usize::try_from(position - 1).expect("small");
        Ok(weather.stored.get(index).map(|bytes| bytes.to_vec()))
    }

    fn last(&mut self) -> Result<u64> {
        let mut weather = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        weather.looks += 1;
        Ok(weather.stored.len() as u64)
    }
}
