//! Runs a program on a directory served from memory, and records its calls and acknowledgements.

use crate::call::Record;
use crate::error::{Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Which call of a run fails, for programs that must survive errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The error number that the call is answered with; 0: a write is cut short.
    pub errno: i32,
    /// Which kind of call.
    pub on: FaultOn,
    /// The n-th call of that kind fails, from 0.
    pub nth: u64,
}

/// The kinds of calls that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOn {
    /// Writes of data.
    Write,
    /// Syncs of files and folders.
    Sync,
    /// New names, and renames.
    Name,
}

/// A program to record.
#[derive(Clone, Debug)]
pub struct Program {
    /// The directory; it is read, and never written.
    pub directory: PathBuf,
    /// The command, for `sh -c`.
    pub command: String,
    /// A command that ends the run once it succeeds, for servers.
    pub until: Option<String>,
    /// The run ends after this time, for servers.
    pub for_: Option<Duration>,
    /// A call that fails.
    pub fault: Option<Fault>,
    /// From this seed, some answers to writes and syncs are held back until another call comes.
    pub hold_back: Option<u64>,
    /// Data that a record may hold, in bytes.
    pub bytes_max: u64,
}

/// How a recorded program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Exit(i32),
    /// By a signal that was not the recorder's.
    Signal(i32),
    /// It was ended because `until` or `for_` said so.
    Asked,
}

/// Runs `program` and records it.
///
/// # Errors
/// The directory cannot be served or the program cannot be started; the error names the remedy.
pub fn record(program: &Program) -> Result<(Record, Ended)> {
    let _ = program;
    Err(Error::Untestable("not built".to_owned()))
}
