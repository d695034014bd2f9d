//! Which commit method does this log use?
//!
//! The rows of the method table that reach the asked durability class in this directory, tried side by side with a few
//! hundred small writes on a scratch file; the fastest wins, and its id is kept in the file `METHOD`. Interleaved
//! rounds, so that a busy moment does not pick the winner; within a tenth the earlier row of the preference list wins.

use std::path::Path;

use seawall_sys::clock::monotonic_ns;
use seawall_sys::durability::{Class, FileState, classify};
use seawall_sys::method::{Cache, Method, OpenSync, Sync, Write, WriteFlag};
use seawall_sys::store::{Access, StoreFile};
use seawall_sys::{Commit, OpenError, Target, methods};

use crate::beside::Rows;
use crate::buffer::AlignedBuf;
use crate::error::{Error, Result};
use crate::options::MethodChoice;

/// Where the chosen method is kept.
pub(crate) const METHOD_FILE: &str = "METHOD";
/// What the probe writes to.
pub(crate) const SCRATCH_FILE: &str = "PROBE";
const SCRATCH_BYTES: u64 = 1 << 20;
const ROUNDS: usize = 8;
const WRITES_PER_ROUND: usize = 8;

/// The system's own error behind one of the system crate, as one of ours.
pub(crate) fn from_system(error: &seawall_sys::Error) -> Error {
    let source = error.raw_os_error().map_or_else(|| error.kind().into(), std::io::Error::from_raw_os_error);
    Error::io(error.operation(), error.path(), source)
}

pub(crate) fn from_open(error: OpenError, method: &Method, path: &Path) -> Error {
    match error {
        OpenError::Failed(error) => from_system(&error),
        OpenError::Unavailable(reason) => Error::InvalidOption {
            option: "method",
            reason: format!("{} is not available at {}: {reason}", method.id, path.display()),
        },
    }
}

/// Whether the log can drive this row: one call at a position, with a sync of the file at most.
pub(crate) fn drivable(method: &Method) -> bool {
    let write = matches!(method.write, Write::Positional | Write::Flagged(WriteFlag::Dsync));
    let sync = matches!(
        method.sync,
        Sync::None | Sync::Fsync | Sync::Fdatasync | Sync::FlushFileBuffers | Sync::FullFsync
    );
    write && sync && method.open_sync != OpenSync::Full
}

/// The rows that reach `class` in `dir`, the most promising first.
fn candidates(dir: &Path, class: Class) -> Result<Vec<&'static Method>> {
    let around = seawall_sys::inspect::environment(dir).map_err(|error| from_system(&error))?;
    let around = around.surroundings(FileState::ZeroFilled);
    let reaches = |method: &&Method| drivable(method) && classify(method, &around).class >= class;
    let mut rows: Vec<&'static Method> = methods::here().iter().filter(reaches).collect();
    rows.sort_by_key(|method| (method.cache != Cache::Direct, method.sync != Sync::None));
    if rows.is_empty() {
        let best =
            methods::here().iter().map(|method| classify(method, &around)).max_by_key(|found| found.class);
        let because = best.map_or_else(String::new, |best| best.because.join("; "));
        let reason = format!("no commit method outlives {} at {}: {because}", class.name(), dir.display());
        return Err(Error::InvalidOption { option: "durability", reason });
    }
    Ok(rows)
}

/// The method for the log in `dir`, and those beside it for commits that ask for less.
pub(crate) fn choose(dir: &Path, choice: &MethodChoice, class: Class, block: u16) -> Result<Rows> {
    let own = choose_own(dir, choice, class, block)?;
    let around = seawall_sys::inspect::environment(dir).map_err(|error| from_system(&error))?;
    Ok(Rows::beside(own, class, &around.surroundings(FileState::ZeroFilled), methods::here()))
}

fn choose_own(dir: &Path, choice: &MethodChoice, class: Class, block: u16) -> Result<&'static Method> {
    let rows = candidates(dir, class)?;
    if let MethodChoice::Named(id) = choice {
        let known = methods::find(id).filter(|method| drivable(method));
        let method = known.ok_or_else(|| Error::InvalidOption {
            option: "method",
            reason: format!("{id} is no method that a log can use on this system"),
        })?;
        if !rows.iter().any(|row| row.id == method.id) {
            let reason = format!("{id} does not outlive {} at {}", class.name(), dir.display());
            return Err(Error::InvalidOption { option: "method", reason });
        }
        return Ok(method);
    }
    let kept = dir.join(METHOD_FILE);
    if *choice == MethodChoice::Fastest {
        let text = std::fs::read_to_string(&kept).unwrap_or_default();
        if let Some(row) = rows.iter().find(|row| row.id == text.trim()) {
            return Ok(row);
        }
    }
    let fastest = probe(dir, &rows, block)?;
    std::fs::write(&kept, format!("{}\n", fastest.id)).map_err(|source| Error::io("write", &kept, source))?;
    Ok(fastest)
}

/// Times the rows side by side and returns the one with the lowest median.
fn probe(dir: &Path, rows: &[&'static Method], block: u16) -> Result<&'static Method> {
    let path = dir.join(SCRATCH_FILE);
    let scratch = Scratch::make(&path)?;
    let bytes = usize::from(block).max(4096);
    let target = Target { path: path.clone(), journal_bytes: SCRATCH_BYTES, write_bytes: bytes };
    let mut tried: Vec<(&'static Method, Box<dyn Commit>, Vec<u64>)> = Vec::new();
    for row in rows {
        if seawall_sys::prove(row, &target).is_ok()
            && let Ok(commit) = seawall_sys::open(row, &target)
        {
            tried.push((row, commit, Vec::new()));
        }
    }
    let buf = AlignedBuf::zeroed(bytes);
    let mut offset = 0;
    for _ in 0..ROUNDS {
        for (_, commit, times) in &mut tried {
            for _ in 0..WRITES_PER_ROUND {
                let began = monotonic_ns();
                let written = commit.write(offset, buf.bytes()).and_then(|()| commit.sync());
                written.map_err(|error| from_system(&error))?;
                times.push(monotonic_ns() - began);
                offset = (offset + bytes as u64) % SCRATCH_BYTES;
            }
        }
    }
    drop(scratch);
    let mut best: Option<(&'static Method, u64)> = None;
    for (row, _, mut times) in tried {
        times.sort_unstable();
        let median = times[times.len() / 2];
        if best.is_none_or(|(_, fastest)| median + median / 10 < fastest) {
            best = Some((row, median));
        }
    }
    let reason = || format!("no commit method of the asked class works at {}", dir.display());
    best.map(|(row, _)| row).ok_or_else(|| Error::InvalidOption { option: "method", reason: reason() })
}

/// The file that the probe writes to; removed afterwards.
struct Scratch<'a>(&'a Path);

impl<'a> Scratch<'a> {
    fn make(path: &'a Path) -> Result<Self> {
        // Left over from a probe that was cut short.
        let _ = std::fs::remove_file(path);
        let file = StoreFile::create(path, Access::Cached).map_err(|error| from_system(&error))?;
        let scratch = Self(path);
        let zeros = AlignedBuf::zeroed(usize::try_from(SCRATCH_BYTES).unwrap_or(0));
        let mut at = 0;
        while at < zeros.capacity() {
            let written = file.write_at(at as u64, &zeros.bytes()[at..]);
            at += written.map_err(|source| Error::io("write", path, source))?;
        }
        file.sync().map_err(|source| Error::io("sync", path, source))?;
        Ok(scratch)
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        // A scratch file that stays behind is removed by the next probe.
        let _ = std::fs::remove_file(self.0);
    }
}
