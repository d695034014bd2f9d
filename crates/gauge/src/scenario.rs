//! Which workloads are there? One file each, below; [`commit`] is the default.
//!
//! Invariant: a scenario tells an [`Observer`] where it is and asks it whether to stop; it prints nothing.

pub mod commit;

use crate::result::RunResult;

/// Who watches a run.
pub trait Observer {
    /// The journal is being filled.
    fn filling(&mut self, done_bytes: u64, total_bytes: u64);

    /// A method is about to run its block. `left_ns`: time to the end of the run, estimated.
    fn block(&mut self, block: &BlockStart<'_>);

    /// A round has ended; `so_far` is whole up to it.
    ///
    /// # Errors
    /// In words: the result could not be kept; the run ends.
    fn round(&mut self, so_far: &RunResult) -> Result<(), String>;

    /// Whether the run should end, cleanly, now.
    fn stop(&self) -> &std::sync::atomic::AtomicBool;
}

/// Where a run is.
#[derive(Debug, Clone, Copy)]
pub struct BlockStart<'a> {
    /// The round, from 0.
    pub round: u32,
    /// Rounds in all.
    pub rounds: u32,
    /// Share of the run that is done, 0 to 1.
    pub done: f64,
    /// Time left, nanoseconds, estimated.
    pub left_ns: u64,
    /// The method's id.
    pub method: &'a str,
    /// Its median so far, nanoseconds.
    pub p50_ns: Option<u64>,
}

/// Why a run ended without a result.
#[derive(Debug)]
pub enum RunError {
    /// Something cannot be had here; the reason says what and the remedy.
    Unavailable(String),
    /// A call failed.
    Failed(seawall_sys::Error),
    /// The observer could not keep a result.
    NotKept(String),
    /// The observer asked to stop before anything was measured.
    Stopped,
}

impl From<seawall_sys::Error> for RunError {
    fn from(error: seawall_sys::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<seawall_sys::OpenError> for RunError {
    fn from(error: seawall_sys::OpenError) -> Self {
        match error {
            seawall_sys::OpenError::Unavailable(reason) => Self::Unavailable(reason.to_string()),
            seawall_sys::OpenError::Failed(error) => Self::Failed(error),
        }
    }
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unavailable(reason) | Self::NotKept(reason) => f.write_str(reason),
            Self::Failed(error) => error.fmt(f),
            Self::Stopped => f.write_str("stopped before anything was measured"),
        }
    }
}

impl std::error::Error for RunError {}
