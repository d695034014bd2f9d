//! Which commit method does this log use?
//!
//! The rows of the method table that reach the asked durability class in this directory, tried side by side with a few
//! hundred small writes on a scratch file by [`crate::trial`]; the fastest wins, and its id is kept in the file `METHOD`.

use std::path::Path;

use seawall_sys::durability::{Class, FileState, classify};
use seawall_sys::inspect::Environment;
use seawall_sys::method::{Cache, Method, OpenSync, Sync, Write, WriteFlag};
use seawall_sys::{OpenError, methods};

use crate::error::{Error, Result};
use crate::options::MethodChoice;
use crate::trial::{self, Bounds};

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
fn drivable(method: &Method) -> bool {
    let write = matches!(method.write, Write::Positional | Write::Flagged(WriteFlag::Dsync));
    let sync = matches!(
        method.sync,
        Sync::None | Sync::Fsync | Sync::Fdatasync | Sync::FlushFileBuffers | Sync::FullFsync
    );
    write && sync && method.open_sync != OpenSync::Full
}

/// The rows that a log can drive and that reach `class` in `environment`, the most promising first.
pub(crate) fn reaching(environment: &Environment, class: Class) -> Vec<&'static Method> {
    let around = environment.surroundings(FileState::ZeroFilled);
    let reaches = |method: &&Method| drivable(method) && classify(method, &around).class >= class;
    let mut rows: Vec<&'static Method> = methods::here().iter().filter(reaches).collect();
    rows.sort_by_key(|method| (method.cache != Cache::Direct, method.sync != Sync::None));
    rows
}

/// The rows that reach `class` in `dir`, the most promising first.
fn candidates(dir: &Path, class: Class) -> Result<Vec<&'static Method>> {
    let environment = seawall_sys::inspect::environment(dir).map_err(|error| from_system(&error))?;
    let rows = reaching(&environment, class);
    if rows.is_empty() {
        let around = environment.surroundings(FileState::ZeroFilled);
        let best =
            methods::here().iter().map(|method| classify(method, &around)).max_by_key(|found| found.class);
        let because = best.map_or_else(String::new, |best| best.because.join("; "));
        let reason = format!("no commit method outlives {} at {}: {because}", class.name(), dir.display());
        return Err(Error::InvalidOption { option: "durability", reason });
    }
    Ok(rows)
}

/// The method for the log in `dir`.
pub(crate) fn choose(dir: &Path, choice: &MethodChoice, class: Class, block: u16) -> Result<&'static Method> {
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

/// Tries the rows side by side and returns the one with the lowest median.
fn probe(dir: &Path, rows: &[&'static Method], block: u16) -> Result<&'static Method> {
    let path = dir.join(SCRATCH_FILE);
    let bounds = Bounds { rounds: ROUNDS, writes_per_round: WRITES_PER_ROUND, until_ns: None };
    let bytes = usize::from(block).max(4096);
    let tried = trial::run(&path, rows, bytes, SCRATCH_BYTES, &bounds)?;
    let reason = || format!("no commit method of the asked class works at {}", dir.display());
    let best = trial::fastest(&tried).map(|best| best.method);
    best.ok_or_else(|| Error::InvalidOption { option: "method", reason: reason() })
}
