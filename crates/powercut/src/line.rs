//! Sends acknowledgements to the witness, and bounds how far a writer may run ahead of it.
//!
//! Each acknowledgement is sent at once, by the thread whose commit has returned; a separate thread receives the
//! witness's confirmations. No writer writes a record that lies a window or more ahead of them.
//!
//! Invariants: only records that the disk acknowledged are sent; after any error of the connection nothing more is
//! written.

use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::message::{Ack, Begin, Message};
use crate::wire::{ANSWER_TIMEOUT, ReceiveHalf, SendHalf, TcpWire};

/// The line to the witness, shared by all writers.
pub(crate) struct Line {
    window: u64,
    peer: String,
    sender: Mutex<Sender>,
    received: Arc<Received>,
    listener: Option<JoinHandle<()>>,
}

struct Sender {
    half: SendHalf<TcpStream>,
    sent: Vec<Ack>,
}

#[derive(Default)]
struct Received {
    now: Mutex<Confirmed>,
    changed: Condvar,
}

#[derive(Default)]
struct Confirmed {
    held: Vec<Ack>,
    done: bool,
    failed: Option<Error>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Received {
    fn receive_all(&self, mut half: ReceiveHalf<TcpStream>) {
        loop {
            let received = half.receive();
            let mut now = lock(&self.now);
            let done = matches!(received, Ok(Message::Done));
            match received {
                Ok(Message::Ack(ack)) => {
                    if let Some(held) = now.held.get_mut(usize::from(ack.stream)) {
                        *held = ack;
                    }
                }
                Ok(Message::Done) => now.done = true,
                Ok(_) => {
                    let what = "the witness sent a message that is no confirmation".to_owned();
                    now.failed = Some(Error::Protocol { what });
                }
                Err(error) => now.failed = Some(error),
            }
            let over = done || now.failed.is_some();
            drop(now);
            self.changed.notify_all();
            if over {
                return;
            }
        }
    }

    /// Waits until `enough` is confirmed.
    fn wait(&self, peer: &str, mut enough: impl FnMut(&Confirmed) -> bool) -> Result<()> {
        let mut now = lock(&self.now);
        loop {
            if let Some(error) = now.failed.take() {
                // The next caller gets an error as well.
                now.failed = Some(Error::Gone { peer: peer.to_owned() });
                return Err(error);
            }
            if enough(&now) {
                return Ok(());
            }
            let (next, waited) =
                self.changed.wait_timeout(now, ANSWER_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
            now = next;
            if waited.timed_out() && !enough(&now) {
                return Err(Error::Silent { peer: peer.to_owned(), seconds: ANSWER_TIMEOUT.as_secs() });
            }
        }
    }
}

impl Line {
    /// Announces a run to the witness.
    ///
    /// # Errors
    /// Those of the connection, and [`Error::Refused`].
    pub(crate) fn begin(mut wire: TcpWire, begin: &Begin) -> Result<Self> {
        wire.send(&Message::Begin(begin.clone()))?;
        let Message::Done = wire.receive()? else { return Err(wire.unexpected("that it entered the run")) };
        let peer = wire.peer().to_owned();
        let (receive_half, half) = wire.split();
        let nothing: Vec<Ack> =
            begin.streams.iter().map(|stream| Ack { stream: stream.number, ..Ack::default() }).collect();
        let now = Mutex::new(Confirmed { held: nothing.clone(), ..Confirmed::default() });
        let received = Arc::new(Received { now, changed: Condvar::new() });
        let shared = Arc::clone(&received);
        let listener = std::thread::Builder::new().name("powercut-line".to_owned());
        let listener = listener
            .spawn(move || shared.receive_all(receive_half))
            .map_err(|source| Error::Io { operation: "start", place: "a thread".to_owned(), source })?;
        let sender = Mutex::new(Sender { half, sent: nothing });
        Ok(Self { window: u64::from(begin.window), peer, sender, received, listener: Some(listener) })
    }

    /// Waits until the record `sequence` of `stream` may be written.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn room(&self, stream: u16, sequence: u64) -> Result<()> {
        self.received.wait(&self.peer, |now| {
            now.held
                .get(usize::from(stream))
                .is_some_and(|held| sequence < held.acknowledged.saturating_add(self.window))
        })
    }

    /// Reports that everything of `stream` before `acknowledged` is acknowledged. The commit has returned.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn ack(&self, stream: u16, acknowledged: u64) -> Result<()> {
        let mut sender = lock(&self.sender);
        let sent = &mut sender.sent[usize::from(stream)];
        if acknowledged <= sent.acknowledged {
            // Another committer whose commit returned later in the log has reported it.
            return Ok(());
        }
        sent.acknowledged = acknowledged;
        let ack = Message::Ack(*sent);
        sender.half.send(&ack)
    }

    /// Reports that everything of `stream` before `trimmed` is about to be trimmed; returns when the witness holds that.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn trim(&self, stream: u16, trimmed: u64) -> Result<()> {
        {
            let mut sender = lock(&self.sender);
            let sent = &mut sender.sent[usize::from(stream)];
            sent.trimmed = trimmed.min(sent.acknowledged);
            let ack = Message::Ack(*sent);
            sender.half.send(&ack)?;
        }
        self.received.wait(&self.peer, |now| {
            now.held.get(usize::from(stream)).is_some_and(|held| held.trimmed >= trimmed)
        })
    }

    /// The acknowledgements of `stream` that were sent.
    pub(crate) fn acknowledged(&self, stream: u16) -> u64 {
        lock(&self.sender).sent.get(usize::from(stream)).map_or(0, |sent| sent.acknowledged)
    }

    /// Ends the run; everything that was acknowledged is held by the witness then.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn end(mut self) -> Result<()> {
        lock(&self.sender).half.send(&Message::End)?;
        let ended = self.received.wait(&self.peer, |now| now.done);
        if let (Some(listener), true) = (self.listener.take(), ended.is_ok()) {
            // It has nothing left to hear.
            let _ = listener.join();
        }
        ended
    }
}
