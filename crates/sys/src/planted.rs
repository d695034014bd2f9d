//! Plants deliberate bugs in this crate for tests, one at a time (feature `mutants`).
//!
//! The crash campaign of the log switches them on and must find each. The table of all planted mistakes, with those of
//! the log, is `crates/log/src/mutant.rs`.

/// One deliberate mistake of [`crate::completion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "mutants"),
    allow(dead_code, reason = "only a build with the feature names them all")
)]
pub enum Mistake {
    /// No sync behind the writes.
    NoSync,
    /// The sync is submitted beside the writes that it should follow.
    SyncBesideWrites,
    /// The writes that start a segment are submitted together with its first batch.
    StartWithTheBatch,
    /// A write that was cut short is taken for done.
    ShortWriteIgnored,
    /// A failed write is taken for done.
    WriteErrorIgnored,
    /// A failed sync is taken for done.
    SyncErrorIgnored,
    /// A failed sync is repeated.
    SyncRetried,
}

#[cfg(feature = "mutants")]
mod switch {
    use super::Mistake;
    use std::cell::Cell;

    thread_local! {
        static ACTIVE: Cell<Option<Mistake>> = const { Cell::new(None) };
    }

    /// Switches one mistake on for this thread, or all of them off.
    pub fn set(mistake: Option<Mistake>) {
        ACTIVE.with(|active| active.set(mistake));
    }

    pub(crate) fn planted(mistake: Mistake) -> bool {
        ACTIVE.with(Cell::get) == Some(mistake)
    }
}

#[cfg(feature = "mutants")]
pub(crate) use switch::planted;
#[cfg(feature = "mutants")]
pub use switch::set;

/// Whether this mistake is to be made.
#[cfg(not(feature = "mutants"))]
#[inline]
pub(crate) const fn planted(_: Mistake) -> bool {
    false
}
