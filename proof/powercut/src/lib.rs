//! Power-cut test: proves on a real machine that acknowledged records outlive a power cut.
//!
//! Three parts: [`run`] writes on the machine whose power will be cut, [`witness`] keeps the ledger of
//! acknowledgements on another one, and [`check`] judges the surviving files when the power is back.
//! `docs/powercut.md` is the protocol's document. The witness speaks over its standard input and output, which ssh carries
//! from one machine to the other.
//!
//! ```text
//!   run ── commit ──► disk
//!    │                 │ returned
//!    └── ack ──► witness ◄── ask ── check ◄── what is left on the disk
//! ```
//!
//! | module | what it does |
//! | --- | --- |
//! | `message`, `wire` | define the messages, start the witness and speak with it, with timeouts |
//! | `stream`, `record` | generate the records and recognise them |
//! | `ledger`, `witness` | record the acknowledgements on another machine |
//! | `run`, `writer`, `line` | write on the machine under test and report acknowledgements |
//! | `check`, `journal`, `log`, `verdict` | judge the surviving files |
//!
//! Invariant: the witness may lag behind the disk, but never lead. A record is reported to it only after its commit
//! has returned, and no more than a window of records is issued ahead of the witness's state.
#![forbid(unsafe_code)]

pub mod check;
mod error;
mod journal;
mod ledger;
mod line;
mod log;
mod message;
mod record;
pub mod run;
mod stream;
pub mod verdict;
mod wire;
pub mod witness;
mod writer;

pub use error::{Error, Result};
pub use message::RunId;
pub use wire::WitnessCommand;

/// A folder beside the test's binary: the sources may be read-only, and the system's folder for such may lie in memory.
#[cfg(test)]
fn test_folder() -> tempfile::TempDir {
    let binary = std::env::current_exe().expect("a test has a binary");
    tempfile::tempdir_in(binary.parent().expect("it lies in a folder")).expect("a folder beside the binary")
}
