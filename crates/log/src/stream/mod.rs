//! Streams: many ordered sequences of records that share one log, and what is cut off it.
//!
//! ```text
//!   log       a1  b1  a2  c1  [trim a: 2]  b2  [cut b: 2]  b2'         LSNs, one order for all
//!   stream a          a2                                              sequence numbers 2..3
//!   stream b      b1                                      b2'          1..3
//! ```
//!
//! * [`places`] is where the records of one stream are: LSN and length of each, compressed;
//! * [`table`] is the state of all streams, moved by tagged records alone, when they are appended and when a log is opened;
//! * [`state`] is both together, moved by one record;
//! * [`hash`] finds a stream by its number;
//! * [`cuts`] lists which parts of the log itself are cut off.
//!
//! Invariants: nothing here does I/O; the state that an opening computes from the tagged records of a log is the state
//! that the log had when the last of them was appended; a segment is released only when the record that made it superfluous
//! is durable.

pub(crate) mod cuts;
pub(crate) mod hash;
pub(crate) mod places;
pub(crate) mod state;
pub(crate) mod table;

/// The highest number of a stream.
const STREAM_MAX: u32 = (1 << 24) - 1;

/// Which stream of a log: a number below 2^24 that the user chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u32);

impl StreamId {
    /// The stream of this number, `None` if it is 2^24 or more.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number <= STREAM_MAX { Some(Self(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl std::fmt::Display for StreamId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of a record in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamPosition {
    /// The stream.
    pub stream: StreamId,
    /// How many records the stream had before this one, those that were trimmed included and those that were cut not.
    pub seq: u64,
}

impl StreamPosition {
    pub(crate) fn new(stream: StreamId, seq: u64) -> Self {
        Self { stream, seq }
    }
}
