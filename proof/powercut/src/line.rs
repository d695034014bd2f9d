//! Sends acknowledgements to the witness, and bounds how far a writer may run ahead of it.
//!
//! Each acknowledgement is sent at once, by the thread whose commit has returned. No writer writes a record that lies a
//! window or more ahead of what the witness has confirmed: it takes in the confirmations when it has no room left.
//!
//! Invariants: only records that the disk acknowledged are sent; after any error of the connection nothing more is
//! written; a thread that waits waits for the witness only, so that any number of them may.

use std::sync::Mutex;

use crate::error::{Error, Result};
use crate::message::{Ack, Begin, Message};
use crate::wire::{ANSWER_TIMEOUT, Witness, lock};

/// Acknowledgements that are on their way at a time, whatever the window: their lines of at most 80 bytes fit into a pipe, so
/// that no write waits for a witness that takes nothing.
const UNCONFIRMED_MAX: u64 = 512;

/// The line to the witness, shared by all writers.
pub(crate) struct Line {
    window: u64,
    witness: Witness,
    /// Sent under the lock, so that no stream's numbers go back on the way.
    sent: Mutex<Vec<Ack>>,
    confirmed: Mutex<Confirmed>,
}

#[derive(Default)]
struct Confirmed {
    held: Vec<Ack>,
    done: bool,
    /// Why nothing more will be confirmed, for every writer.
    failed: Option<String>,
}

impl Confirmed {
    fn held(&self, stream: u16) -> Ack {
        self.held.get(usize::from(stream)).copied().unwrap_or_default()
    }
}

/// All records that these acknowledge.
fn records(acks: &[Ack]) -> u64 {
    acks.iter().map(|ack| ack.acknowledged).sum()
}

impl Line {
    /// Announces a run to the witness.
    pub(crate) fn begin(witness: Witness, begin: &Begin) -> Result<Self> {
        let Message::Done = witness.ask(&Message::Begin(begin.clone()))? else {
            return Err(witness.unexpected("that it entered the run"));
        };
        let nothing: Vec<Ack> =
            begin.streams.iter().map(|stream| Ack { stream: stream.number, ..Ack::default() }).collect();
        let confirmed = Mutex::new(Confirmed { held: nothing.clone(), ..Confirmed::default() });
        Ok(Self { window: u64::from(begin.window), witness, sent: Mutex::new(nothing), confirmed })
    }

    /// Waits until `enough` is confirmed.
    fn wait(&self, enough: impl Fn(&Confirmed) -> bool) -> Result<()> {
        let mut now = lock(&self.confirmed);
        while now.failed.is_none() && !enough(&now) {
            match self.witness.receive(ANSWER_TIMEOUT) {
                Ok(Message::Ack(ack)) if usize::from(ack.stream) < now.held.len() => {
                    now.held[usize::from(ack.stream)] = ack;
                }
                Ok(Message::Done) => now.done = true,
                Ok(_) => now.failed = Some(self.witness.unexpected("a confirmation").to_string()),
                Err(error) => now.failed = Some(error.to_string()),
            }
        }
        now.failed.clone().map_or(Ok(()), |why| Err(Error::Request(why)))
    }

    /// Waits until the record `sequence` of `stream` may be written.
    pub(crate) fn room(&self, stream: u16, sequence: u64) -> Result<()> {
        let sent = records(&lock(&self.sent));
        self.wait(|now| {
            sequence < now.held(stream).acknowledged.saturating_add(self.window)
                && sent < records(&now.held).saturating_add(UNCONFIRMED_MAX)
        })
    }

    /// Reports that everything of `stream` before `acknowledged` is acknowledged. The commit has returned.
    pub(crate) fn ack(&self, stream: u16, acknowledged: u64) -> Result<()> {
        let mut all = lock(&self.sent);
        let sent = &mut all[usize::from(stream)];
        if acknowledged <= sent.acknowledged {
            // Another committer whose commit returned later in the log has reported it.
            return Ok(());
        }
        sent.acknowledged = acknowledged;
        self.send(&Message::Ack(*sent))
    }

    /// Reports that everything of `stream` before `trimmed` is about to be trimmed; returns when the witness holds that.
    pub(crate) fn trim(&self, stream: u16, trimmed: u64) -> Result<()> {
        {
            let mut all = lock(&self.sent);
            let sent = &mut all[usize::from(stream)];
            sent.trimmed = trimmed.min(sent.acknowledged);
            self.send(&Message::Ack(*sent))?;
        }
        self.wait(|now| now.held(stream).trimmed >= trimmed)
    }

    pub(crate) fn acknowledged(&self, stream: u16) -> u64 {
        lock(&self.sent).get(usize::from(stream)).map_or(0, |sent| sent.acknowledged)
    }

    /// Ends the run; everything that was acknowledged is held by the witness then.
    pub(crate) fn end(self) -> Result<()> {
        self.send(&Message::End)?;
        self.wait(|now| now.done)
    }

    fn send(&self, message: &Message) -> Result<()> {
        // A witness that takes nothing more may have said why.
        self.witness.send(message).or_else(|_| self.wait(|_| false))
    }
}
