//! Draws states from a record, the likeliest faults first, and has each different one judged.

use crate::call::Record;
use crate::check::Check;
use crate::error::Result;
use crate::rule::Rule;
use crate::tree::Tree;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// How much is searched.
#[derive(Clone, Debug)]
pub struct Search {
    /// By whose rules.
    pub rules: Vec<Rule>,
    /// How long at most, explanations included.
    pub budget: Duration,
    /// Checks at once.
    pub workers: usize,
    /// Where chance begins.
    pub seed: u64,
}

/// How far a search has come; read by another thread while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// States judged.
    pub judged: AtomicU64,
    /// Different states known so far.
    pub different: AtomicU64,
    /// Set to end the search early.
    pub stop: AtomicBool,
}

/// A call that would have kept everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The call: `fsync of key#`, `fsync of the directory sub`.
    pub call: String,
    /// After what: `after its last write`, `after rename to key#`.
    pub place: String,
    /// States that were judged with it, none of which broke; fewer than all if `whole` is false.
    pub states: u64,
    /// Whether every state that broke without it, and every one drawn with it, was judged.
    pub whole: bool,
}

/// A state that breaks what was acknowledged.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What the check said.
    pub message: String,
    /// The rules that allow a state that breaks so, the weakest first.
    pub rules: Vec<Rule>,
    /// The power went after this many events of the record.
    pub cut: usize,
    /// The events that did not arrive, by their place in the record.
    pub lost: Vec<usize>,
    /// The events that tell the story, by their place in the record: those on the files that `lost` is about.
    pub story: Vec<usize>,
    /// The call that is missing, if one call is enough.
    pub missing: Option<Missing>,
    /// The directory after the power cut.
    pub state: Tree,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// One finding for each missing call; empty: no state broke.
    pub findings: Vec<Finding>,
    /// States drawn.
    pub drawn: u64,
    /// Different ones among them.
    pub different: u64,
    /// Those that were judged.
    pub judged: u64,
    /// Whether the check gave two answers for one state: what it said.
    pub unsteady: Option<String>,
}

/// Searches `record` by `search`.
///
/// # Errors
/// The check cannot be run.
pub fn search(record: &Record, search: &Search, check: &dyn Check, progress: &Progress) -> Result<Outcome> {
    let _ = (record, search, check, progress);
    Ok(Outcome::default())
}

/// The roles whose syncs `record` has: what [`without`] can leave out, in words (`fsync of key#`).
#[must_use]
pub fn synced_roles(record: &Record) -> Vec<String> {
    let _ = record;
    Vec::new()
}

/// `record` without the syncs of `role`.
#[must_use]
pub fn without(record: &Record, role: &str) -> Record {
    let _ = role;
    record.clone()
}
