//! A durable queue that any number of processes use at once, on the transaction log [`seawall`].
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir_in(".")?;
//! use seawall_queue::{Options, Queue};
//!
//! let queue = Queue::open(dir.path().join("jobs"), Options::default())?; // in each process
//! queue.put(b"resize picture 1")?;                                       // durable
//! let message = queue.get(None)?;                                        // waits for one
//! assert_eq!((message.body(), message.attempt()), (&b"resize picture 1"[..], 1));
//! message.ack()?;                                                        // never handed out again
//! # queue.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! | when | then |
//! | --- | --- |
//! | [`Queue::put`] returned | the message outlives what the log promises: a power cut, unless the log's options say less |
//! | a message was handed out | it comes again if it is given back, if its consumer's process ends, after `redeliver_after`, and when the queue is opened again: at least once |
//! | [`Message::ack`] returned | it is never handed out again |
//! | it was handed out | its attempt is counted, whatever the consumer does to its process; after a power cut, from the next commit on |
//! | it was handed out `max_attempts` times | it becomes a dead letter ([`Queue::dead_letters`]) |
//! | consumers wait | each gets its share, in the order in which they came; nobody polls |
//! | the process that owns the log ends | another one that has the queue open owns it. What was asked and not answered is asked again, so a message that was being put may be there twice; messages that are out stay with consumers that live, and the others wait for 2 s |
//!
//! One process, the first that opens the queue, owns the log and serves the others by a socket in its directory (`queue.socket`): whoever
//! may write to it, by default the same user, may use the queue. Windows has no such sockets: one process uses the queue there. A handle
//! belongs to the process that opened it; after fork(2) the child opens its own, and should do so by `exec`: a child that lives on without it
//! keeps the parent's lock when the parent is killed, and no other process can take over.
//!
//! If the owner's log fails, what it was asked fails with the log's error, and it lets the log go: another handle, in any process, opens the
//! log again. Messages that were out at that owner's handle come again.
//!
//! Messages that wait take no memory but a few bytes each for the log's stream, and 1 MiB for those that come next; one that is out or
//! delayed takes about 100 bytes. An answer with messages, of whichever call, ends with the one that reaches 4 MiB. The
//! disk gets back what is acknowledged, up to the oldest message that is out.
//!
//! | module | what it does |
//! | --- | --- |
//! | `queue` | opens a queue, puts and gets |
//! | `handle` | owns the log, or asks the process that does, and takes over |
//! | `message` | a message that was handed out |
//! | `call` | waits for answers |
//! | `server` | serves other processes |
//! | `wire` | what they ask, in frames |
//! | `broker` | the queue of an open log: locks, threads, answers |
//! | `core` | decides and appends |
//! | `bodies` | the messages that come next, in memory |
//! | `state` | which messages wait, are out, are delayed |
//! | `record` | draws the records |
//! | `error` | defines the errors |
//! | `refusal` | carries them to other processes |
#![forbid(unsafe_code)]

mod bodies;
mod broker;
mod call;
mod core;
mod error;
mod handle;
mod message;
mod queue;
mod record;
mod refusal;
mod server;
mod state;
mod wire;

pub use call::Call;
pub use error::{Error, Result};
pub use message::Message;
pub use queue::{Options, Queue};
pub use wire::{DeadLetter, Stats};
