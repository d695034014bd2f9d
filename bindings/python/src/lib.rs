//! The Python package `seawall`: the transaction log, its repair tools and the gauge as Python objects.
//!
//! ```text
//!   log ─┬─ stream, transaction, pin          what is written
//!        ├─ reader, follower, view            what is read
//!        └─ event_loop                        futures of asyncio
//!   queue ─── message                          what several processes share
//!   repair (verify, backup, salvage), probe, bench
//!   errors: a row for each variant of the log's error    results: dataclasses that Python defines
//! ```
//!
//! Python defines the exceptions and the dataclasses of results (`python/seawall`); this library fills them.
//!
//! Invariants: nothing waits for the disk or for another thread while it holds the interpreter's lock, but for the log's own short
//! lock; no thread of the log ever takes that of the interpreter, so the two cannot wait for each other; a lock that is held while the
//! disk is read is taken without the interpreter's lock, or only if it is free; no lock is held while Python runs.

#![allow(clippy::needless_pass_by_value, reason = "arguments out of Python are owned")]

mod bench;
mod data;
mod errors;
mod event_loop;
mod follower;
mod log;
mod message;
mod options;
mod pin;
mod probe;
mod queue;
mod reader;
mod record;
mod repair;
mod results;
mod stream;
mod transaction;
mod view;
mod wait;

/// The native half of the package `seawall`.
#[pyo3::pymodule]
mod _seawall {
    #[pymodule_export]
    use crate::{
        bench::{Measurement, measure, read_result, scenario_names},
        event_loop::EventLoop,
        follower::Follower,
        log::Log,
        message::Message,
        pin::Pin,
        probe::probe,
        queue::Queue,
        reader::Reader,
        record::{Append, Record, StreamAppend},
        repair::{backup, salvage, verify},
        stream::Stream,
        transaction::Transaction,
        view::{View, ViewStream},
    };
}
