//! The commit path: from an appended record to the acknowledgement that it is durable.
//!
//! In the order in which a record meets them:
//!
//! | module | job |
//! | --- | --- |
//! | [`transaction`] | puts the records of a transaction together |
//! | [`state`] | the state machine: batches, watermarks, what may be issued |
//! | [`batch`] | the memory that a batch gathers in |
//! | [`large`] | accepts records that fill a batch of their own |
//! | [`idle_memory`] | gives the memory of no batch back when the log is idle |
//! | [`sync_debt`] | the ack level of the next batch, and what relaxed batches leave to be synced |
//! | [`group`] | group commit: which thread leads, waits, and is woken |
//! | [`process_crash`] | commits that are to outlive the process only |
//! | [`group_wait`] | how long a leader waits for others |
//! | [`waiters`], [`gate`] | block and wake threads and futures |
//! | [`append_future`], [`append_queue`] | appends that wait without a thread, in line |
//! | [`commit_future`] | commits that wait without a thread, or not for ever |
//! | [`pin_floor`] | what pins hold, for the core |
//! | [`stream_cuts`] | tells readers of a stream where it was cut |
//! | [`seal`] | encodes a batch into the bytes of its writes |
//! | [`segment_writers`] | the open files of each segment, through which the writes go |
//! | [`writer_thread`] | writes batches that have no leader, and idle marks |
//! | [`maintenance_thread`] | prepares and recycles segments, as [`housekeeping`] requests |
//! | [`threads`] | wakes these two |
//! | [`status`], [`ending`] | whether the log is open, and how it ends |
//! | [`close_future`] | closes the log on its own threads |
//! | [`stall`], [`stall_watch`] | reports a batch that the disk does not finish, while it lasts |
//! | [`stats`], [`metrics`] | counters and distributions |
//! | [`sync`] | locks and atomics, of the standard library or of `loom` |
//!
//! Invariants: `durable <= acknowledged <= syncing <= appended`; the core lock is never held across a system call;
//! after the first failed write or sync nothing is acknowledged any more.

pub(crate) mod append_future;
pub(crate) mod append_queue;
pub(crate) mod batch;
pub(crate) mod close_future;
pub(crate) mod commit_future;
pub(crate) mod ending;
pub(crate) mod gate;
pub(crate) mod group;
pub(crate) mod group_wait;
pub(crate) mod housekeeping;
pub(crate) mod idle_memory;
pub(crate) mod large;
pub(crate) mod maintenance_thread;
pub(crate) mod metrics;
pub(crate) mod pin_floor;
pub(crate) mod process_crash;
pub(crate) mod seal;
#[cfg(not(loom))]
pub(crate) mod segment_writers;
#[cfg(loom)]
#[path = "../testing/loom_writers.rs"]
pub(crate) mod segment_writers;
pub(crate) mod stall;
pub(crate) mod stall_watch;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod stream_cuts;
pub(crate) mod sync;
pub(crate) mod sync_debt;
pub(crate) mod threads;
pub(crate) mod transaction;
pub(crate) mod waiters;
pub(crate) mod writer_thread;
