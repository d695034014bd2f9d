//! Segments as files: which exist, and how they are prepared, recycled and removed.
//!
//! * [`inventory`] lists started and spare segments and decides what is done next;
//! * [`lifecycle`] does it, one crash-safe step at a time;
//! * [`cap`] counts what the log takes on the disk, and bounds it;
//! * [`retention`] decides how far the log is trimmed by its own rules.
//!
//! Invariants: a name that ends in `.seg` stands for a file whose blocks are all written and synced; segments go oldest
//! first, and only when a first LSN after them is durable.

pub(crate) mod cap;
pub(crate) mod inventory;
pub(crate) mod lifecycle;
pub(crate) mod retention;

/// A segment that is prepared, named and waiting to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spare {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
}

/// Where the next batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: u64,
    /// Where in it, in bytes.
    pub(crate) offset: u64,
    /// Where batches must end, in bytes: the second copy of the header starts here.
    pub(crate) data_end: u64,
}
