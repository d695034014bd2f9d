//! Defines the events of the file recorder, in the order of the kernel's requests.
//!
//! Each operation on the directory is one [`Event`]. An operation that takes time has a number: it begins with its
//! own event and ends with [`Event::Done`]. The victim's lines in the control file appear in between as
//! [`Event::Mark`].
//!
//! Invariant: a reply follows its `Done`, so no event that the reply caused precedes it.

use std::sync::Arc;

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
