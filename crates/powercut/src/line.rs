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
use crate::stream::Stream;
use crate::wire::{ANSWER_TIMEOUT, Ear, Mouth, TcpWire};

/// The line to the witness, shared by all writers.
pub(crate) struct Line {
    window: u64,
    peer: String,
    mouth: Mutex<Speaking>,
    heard: Arc<Heard>,
    listener: Option<JoinHandle<()>>,
}

struct Speaking {
    mouth: Mouth<TcpStream>,
    said: Vec<Ack>,
}

#[derive(Default)]
struct Heard {
    now: Mutex<Now>,
    news: Condvar,
}

#[derive(Default)]
struct Now {
    held: Vec<Ack>,
    done: bool,
    failed: Option<Error>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Heard {
    fn listen(&self, mut ear: Ear<TcpStream>) {
        loop {
            let heard = ear.receive();
            let mut now = lock(&self.now);
            let done = matches!(heard, Ok(Message::Done));
            match heard {
                Ok(Message::Held(ack)) => {
                    if let Some(held) = now.held.get_mut(usize::from(ack.stream)) {
                        *held = ack;
                    }
                }
                Ok(Message::Done) => now.done = true,
                Ok(_) => {
                    let what = "the witness said something that is no confirmation".to_owned();
                    now.failed = Some(Error::Protocol { what });
                }
                Err(error) => now.failed = Some(error),
            }
            let over = done || now.failed.is_some();
            drop(now);
            self.news.notify_all();
            if over {
                return;
            }
        }
    }

    /// Waits until `enough` of what was heard.
    fn wait(&self, peer: &str, mut enough: impl FnMut(&Now) -> bool) -> Result<()> {
        let mut now = lock(&self.now);
        loop {
            if let Some(error) = now.failed.take() {
                // Whoever asks next is told as well.
                now.failed = Some(Error::Gone { peer: peer.to_owned() });
                return Err(error);
            }
            if enough(&now) {
                return Ok(());
            }
            let (next, waited) =
                self.news.wait_timeout(now, ANSWER_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
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
    pub(crate) fn begin(mut wire: TcpWire, begin: &Begin, streams: &[Stream]) -> Result<Self> {
        wire.send(&Message::Begin(begin.clone()))?;
        for stream in streams {
            wire.send(&Message::Stream(stream.clone()))?;
        }
        let Message::Done = wire.receive()? else { return Err(wire.unexpected("that it took the run in")) };
        let peer = wire.peer().to_owned();
        let (ear, mouth) = wire.split();
        let nothing: Vec<Ack> =
            streams.iter().map(|stream| Ack { stream: stream.number, ..Ack::default() }).collect();
        let now = Mutex::new(Now { held: nothing.clone(), ..Now::default() });
        let heard = Arc::new(Heard { now, news: Condvar::new() });
        let shared = Arc::clone(&heard);
        let listener = std::thread::Builder::new().name("powercut-line".to_owned());
        let listener = listener.spawn(move || shared.listen(ear)).map_err(|source| Error::Io {
            operation: "start",
            place: "a thread".to_owned(),
            source,
        })?;
        let mouth = Mutex::new(Speaking { mouth, said: nothing });
        Ok(Self { window: u64::from(begin.window), peer, mouth, heard, listener: Some(listener) })
    }

    /// Waits until the record `sequence` of `stream` may be written.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn room(&self, stream: u16, sequence: u64) -> Result<()> {
        self.heard.wait(&self.peer, |now| {
            now.held
                .get(usize::from(stream))
                .is_some_and(|held| sequence < held.acknowledged.saturating_add(self.window))
        })
    }

    /// Says that everything of `stream` before `acknowledged` is acknowledged. The commit has returned.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn ack(&self, stream: u16, acknowledged: u64) -> Result<()> {
        let mut speaking = lock(&self.mouth);
        let said = &mut speaking.said[usize::from(stream)];
        if acknowledged <= said.acknowledged {
            // Another committer whose commit returned later in the log has said so.
            return Ok(());
        }
        said.acknowledged = acknowledged;
        let ack = Message::Ack(*said);
        speaking.mouth.send(&ack)
    }

    /// Says that everything of `stream` before `trimmed` will be asked to be forgotten; returns when the witness
    /// holds that.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn trim(&self, stream: u16, trimmed: u64) -> Result<()> {
        {
            let mut speaking = lock(&self.mouth);
            let said = &mut speaking.said[usize::from(stream)];
            said.trimmed = trimmed.min(said.acknowledged);
            let ack = Message::Ack(*said);
            speaking.mouth.send(&ack)?;
        }
        self.heard.wait(&self.peer, |now| {
            now.held.get(usize::from(stream)).is_some_and(|held| held.trimmed >= trimmed)
        })
    }

    /// What was said to be acknowledged of `stream`.
    pub(crate) fn acknowledged(&self, stream: u16) -> u64 {
        lock(&self.mouth).said.get(usize::from(stream)).map_or(0, |said| said.acknowledged)
    }

    /// Ends the run; everything that was acknowledged is held by the witness then.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn end(mut self) -> Result<()> {
        lock(&self.mouth).mouth.send(&Message::End)?;
        let ended = self.heard.wait(&self.peer, |now| now.done);
        if let (Some(listener), true) = (self.listener.take(), ended.is_ok()) {
            // It has nothing left to hear.
            let _ = listener.join();
        }
        ended
    }
}
