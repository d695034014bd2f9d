//! The commit path: from an appended record to the acknowledgement that it is durable.
//!
//! In the order in which a record meets them:
//!
//! | module | job |
//! | --- | --- |
//! | [`transaction`] | puts the records of a transaction together |
//! | [`state`] | the state machine: batches, watermarks, what may be issued |
//! | [`batch`] | the memory that a batch gathers in |
//! | [`sync_debt`] | the ack level of the next batch, and what relaxed batches leave to be synced |
//! | [`group`] | group commit: who leads, who waits, who is woken |
//! | [`weaker`] | the same for relaxed commits |
//! | [`group_wait`] | how long a leader waits for others |
//! | [`gate`] | blocks and wakes threads |
//! | [`seal`] | encodes a batch into the bytes of its writes |
//! | [`segment_writers`] | the open files of each segment, through which the writes go |
//! | [`background`] | the writer thread and the segment maintenance thread |
//! | [`ending`] | ends a log |
//! | [`stats`], [`metrics`] | counters and distributions |
//! | [`sync`] | locks and atomics, of the standard library or of `loom` |
//!
//! Invariants: `durable <= acknowledged <= syncing <= appended`; the core lock is never held across a system call;
//! after the first failed write or sync nothing is acknowledged any more.

pub(crate) mod background;
pub(crate) mod batch;
pub(crate) mod ending;
pub(crate) mod gate;
pub(crate) mod group;
pub(crate) mod group_wait;
pub(crate) mod metrics;
pub(crate) mod seal;
#[cfg(not(loom))]
pub(crate) mod segment_writers;
#[cfg(loom)]
#[path = "../testing/loom_writers.rs"]
pub(crate) mod segment_writers;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod sync;
pub(crate) mod sync_debt;
pub(crate) mod transaction;
pub(crate) mod weaker;
