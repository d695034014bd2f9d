//! What does the file recorder write down?
//!
//! One [`Event`] for each thing that happens to the directory, in the order in which the kernel asked for it. What
//! takes time has a number: it began with its own event and ended with [`Event::Done`]. What the victim said over the
//! control file stands in between as [`Event::Mark`].
//!
//! Invariant: a reply follows its `Done`, so nothing the victim did because of it stands before it.

use std::sync::Arc;

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A file came to be, empty and without a name.
    Created,
    /// A name stands for a file.
    Named { name: String, inode: usize },
    /// A name became another one and replaced what had that.
    Renamed { from: String, to: String },
    /// A name went.
    Removed { name: String },
    /// A write arrived; with `dsync` its end means durable.
    Write { number: u64, inode: usize, offset: usize, data: Arc<[u8]>, dsync: bool },
    /// The size was set, or only extended to.
    Size { inode: usize, bytes: usize, extend: bool },
    /// A sync of a file arrived.
    Sync { number: u64, inode: usize },
    /// A sync of the directory arrived.
    SyncDir { number: u64 },
    /// What had this number has ended.
    Done { number: u64 },
    /// The victim said something.
    Mark(String),
}
