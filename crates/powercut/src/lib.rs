//! Did what was acknowledged outlive a real power cut?
//!
//! Three parts: [`run`] writes on the machine whose power will be cut, [`witness`] keeps the ledger of acknowledgements on
//! another one, and [`check`] judges what is left when the power is back. `docs/powercut.md` is the protocol's document.
//!
//! ```text
//!   run ── commit ──► disk
//!    │                 │ returned
//!    └── ack ──► witness ◄── ask ── check ◄── what is left on the disk
//! ```
//!
//! | file | question |
//! | --- | --- |
//! | `token` | who may speak, and was it changed on the way? |
//! | `message`, `wire` | what is said, in which bytes, and how long may that take? |
//! | `stream`, `record` | what is written, and how is it known again? |
//! | `ledger`, `witness`, `lines` | who was told what, and what does the operator read of it? |
//! | `run`, `writer`, `line` | who writes, and when is it said? |
//! | `check`, `journal`, `log`, `verdict` | what is left, and does it break a promise? |
//!
//! Invariant: the witness may lag behind the disk, but never lead. A record is told to it only after its commit has
//! returned, and no more than a window of records is issued ahead of what it holds.
#![forbid(unsafe_code)]

pub mod check;
mod error;
mod journal;
mod ledger;
mod line;
mod lines;
mod log;
mod message;
mod record;
pub mod run;
mod stream;
mod token;
pub mod verdict;
mod wire;
pub mod witness;
mod writer;

pub use error::{Error, Result};
pub use message::RunId;
pub use token::Token;

/// The port that a witness listens on unless told otherwise.
pub const PORT: u16 = 7643;
