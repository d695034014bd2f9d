//! Defines what commits in the rows of `log` and `peers`: a [`Contestant`], such as the log or a plain loop.
//!
//! Invariant: every contestant runs on space that was written before: it is warmed with more than all its files hold.

use super::streams::writers_of_streams;
use crate::testbed::real::{Fault, Writer, open_log, rest};
use seawall::{EngineChoice, Log, MethodChoice, Options};
use seawall_host::journal::{Recipe, create, fill};
use seawall_sys::buffer::Aligned;
use seawall_sys::durability::FileState;
use seawall_sys::method::Method;
use seawall_sys::{CommitHandle, OpenError, Target, open};
use std::path::Path;
use std::sync::Arc;

/// Size of a segment of every log that has segments, bytes: Seawall's default.
pub const SEGMENT_BYTES: u32 = 32 << 20;

/// One that commits.
#[derive(Debug)]
pub struct Contestant {
    /// Unique among those that run together.
    pub name: &'static str,
    /// Its version, where it is of another project.
    pub version: &'static str,
    /// How it is set up.
    pub set_up: &'static str,
    /// The row of the method table whose calls a commit makes; `None`: the method of the run.
    pub calls: Option<&'static str>,
    /// Whether several threads may commit at once.
    pub shares: bool,
    /// Whether it is never trimmed, so that every segment must be filled again.
    pub grows: bool,
    /// Whether it has streams: many sequences of records, each with an order and a trim of its own.
    pub has_streams: bool,
    /// Opens it in an empty folder; gives a writer for each thread.
    pub open: fn(&Opening<'_>) -> Result<Writers, Fault>,
}

pub(crate) type Writers = Vec<Box<dyn Writer>>;

/// How a contestant is opened.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// Where its files belong.
    pub folder: &'a Path,
    /// For how many threads.
    pub threads: usize,
    /// Of how many streams each thread commits to its own, in turn; 0: the records belong to no stream.
    pub streams: u32,
    /// Bytes of a commit.
    pub bytes: usize,
    /// The method of the run: the log's, which floors commit by as well.
    pub method: &'static Method,
    /// The engine of the run.
    pub engine: EngineChoice,
}

/// The plain loop, with new bytes each time.
pub(crate) static FLOOR: Contestant = Contestant {
    name: "floor",
    version: "",
    set_up: "one thread, writes of 4 KiB or a multiple by the log's method into a zero-filled file of 64 MiB",
    calls: None,
    shares: false,
    grows: false,
    has_streams: false,
    open: |opening| Floor::open(opening, true),
};

/// The plain loop with one buffer that never changes.
pub(crate) static BARE: Contestant =
    Contestant { name: "bare", open: |opening| Floor::open(opening, false), ..like(&FLOOR) };

/// This project's log.
pub(crate) static SEAWALL: Contestant = Contestant {
    name: "seawall",
    version: env!("CARGO_PKG_VERSION"),
    set_up: "as it comes; trimmed after each 8 MiB, untimed",
    calls: None,
    shares: true,
    grows: false,
    has_streams: true,
    open: |opening| {
        let log = seawall(opening, Options::default().segment_bytes(SEGMENT_BYTES.into()))?;
        if opening.streams > 0 {
            return writers_of_streams(&log, opening);
        }
        Ok((0..opening.threads).map(|_| -> Box<dyn Writer> { Box::new(Arc::clone(&log)) }).collect())
    },
};

/// The log, never trimmed.
pub(crate) static GROWING: Contestant = Contestant {
    grows: true,
    open: |opening| Ok(vec![Box::new(Growing(seawall(opening, Options::default())?))]),
    ..like(&SEAWALL)
};

/// The log with segments so large that none is filled during a block.
pub(crate) static PACED: Contestant = Contestant {
    open: |opening| Ok(vec![Box::new(seawall(opening, Options::default().segment_bytes(IN_MEMORY_BYTES))?)]),
    ..like(&SEAWALL)
};

/// A log for each thread. Their segments take together as much as that of one log would.
pub(crate) static APART: Contestant = Contestant {
    name: "apart",
    set_up: "a log for each thread, in a folder of its own, each trimmed after each 8 MiB of all, untimed",
    open: super::streams::logs_apart,
    ..like(&SEAWALL)
};

/// Segments and memory of a log that is to hold all that a block appends, bytes.
pub(crate) const IN_MEMORY_BYTES: u64 = 160 << 20;

impl PartialEq for Contestant {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.version == other.version
    }
}

const fn like(other: &Contestant) -> Contestant {
    Contestant { ..*other }
}

/// With the method and the engine of the run; where it lies was checked for the first log.
pub(crate) fn configured(opening: &Opening<'_>, options: Options) -> Options {
    let named = MethodChoice::Named(opening.method.id.to_owned());
    options.method(named).engine(opening.engine).network_file_system(true)
}

pub(crate) fn seawall(opening: &Opening<'_>, options: Options) -> Result<Arc<Log>, OpenError> {
    let log = open_log(opening.folder, configured(opening, options))?;
    rest(&log, false)?;
    Ok(log)
}

/// Opens one that is to outlive the process only, with the method that it chooses for that.
pub(crate) fn seawall_for_process(folder: &Path, options: Options) -> Result<Arc<Log>, OpenError> {
    let options = options.durability(seawall::Durability::ProcessCrash).network_file_system(true);
    let log = open_log(folder, options)?;
    rest(&log, false)?;
    Ok(log)
}

struct Growing(Arc<Log>);

impl Writer for Growing {
    fn put(&mut self, record: &[u8]) -> Result<(), Fault> {
        self.0.put(record)
    }

    fn tidy(&mut self) -> Result<(), Fault> {
        Ok(rest(&self.0, false)?)
    }

    fn log(&self) -> Option<&Arc<Log>> {
        Some(&self.0)
    }
}

/// A plain loop of durable writes, round and round in its file.
struct Floor {
    commit: Box<dyn CommitHandle>,
    buf: Aligned,
    renews: bool,
    slots: u64,
    next: u64,
}

impl Floor {
    const FILE_BYTES: u64 = 64 << 20;
    /// What direct writes are a multiple of everywhere.
    const BLOCK_BYTES: usize = 4096;

    fn open(opening: &Opening<'_>, renews: bool) -> Result<Vec<Box<dyn Writer>>, Fault> {
        let path = opening.folder.join("journal");
        let bytes = opening.bytes.next_multiple_of(Self::BLOCK_BYTES);
        let recipe = Recipe {
            state: FileState::ZeroFilled,
            bytes: Self::FILE_BYTES,
            fill_bytes: 1 << 20,
            keep_cached: false,
        };
        fill(create(&path)?, &path, &recipe, &mut |_| true)?;
        let target = Target { path, journal_bytes: Self::FILE_BYTES, write_bytes: bytes };
        let commit = open(opening.method, &target, None)?;
        let slots = Self::FILE_BYTES / bytes as u64;
        Ok(vec![Box::new(Self { commit, buf: Aligned::zeroed(bytes), renews, slots, next: 0 })])
    }
}

impl Writer for Floor {
    #[inline]
    fn put(&mut self, record: &[u8]) -> Result<(), Fault> {
        let buf = self.buf.as_mut_slice();
        if self.renews {
            // Larger ones come while warming only; the file is filled already.
            let fits = record.len().min(buf.len());
            buf[..fits].copy_from_slice(&record[..fits]);
        }
        let offset = self.next % self.slots * buf.len() as u64;
        self.next += 1;
        self.commit.write(offset, self.buf.as_slice())?;
        Ok(self.commit.sync()?)
    }
}
