//! Judges a state: by a command on a directory, or in this process.

use crate::error::Result;
use crate::tree::Tree;
use std::sync::Arc;

/// What a check said of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Everything acknowledged is there.
    Kept,
    /// Something is not: what the check printed, or how it ended.
    Broken(String),
}

/// Judges states; several threads ask it at once.
pub trait Check: Sync {
    /// Whether `state` holds what `acknowledged` says.
    ///
    /// # Errors
    /// The check could not be run at all.
    fn judge(&self, state: &Tree, acknowledged: &[Arc<[u8]>]) -> Result<Answer>;
}
