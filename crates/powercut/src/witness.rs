//! How does another host remember what was acknowledged?
//!
//! One thread a connection. What has arrived is entered in the ledger together, made durable by one commit, and only
//! then confirmed.
//!
//! Invariants: nobody without the token learns or changes anything, nor keeps out who has it: of those that have proven
//! nothing yet the oldest goes when one more comes; connections are bounded; a connection that breaks the rules is told
//! why and ended, and disturbs no other.

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall::Log;

use crate::error::{Error, Result};
use crate::ledger::{Ledger, STREAMS_MAX};
use crate::message::{Ack, Begin, Message, RunId};
use crate::token::Token;
use crate::wire::{Side, TcpWire};

/// Connections at the same time of those who know the token.
const CONNECTIONS_MAX: usize = 64;
/// Connections at the same time that have not proven it yet.
const STRANGERS_MAX: usize = 64;
/// How long a runner may be silent before its connection is given up.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// How often it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A witness.
pub struct Witness {
    listener: TcpListener,
    state: Arc<State>,
}

struct State {
    token: Token,
    ledger: Mutex<Ledger>,
    log: Arc<Log>,
    guests: Mutex<HashMap<u64, Guest>>,
    told: Box<dyn Fn(&str) + Send + Sync>,
}

/// One connection.
struct Guest {
    stream: TcpStream,
    /// Whether it has proven to know the token.
    known: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked left numbers that only grow.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Witness {
    /// Opens the ledger in `ledger` and listens on `address`; `told` gets a line for everything worth telling.
    ///
    /// # Errors
    /// [`Error::Io`] if the address cannot be listened on, and those of the ledger's log.
    pub fn bind(
        address: &str,
        token: Token,
        ledger: &Path,
        told: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self> {
        let ledger = Ledger::open(ledger)?;
        let failed = |source| Error::Io { operation: "listen on", place: address.to_owned(), source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let log = ledger.log();
        let (guests, told) = (Mutex::default(), Box::new(told));
        Ok(Self { listener, state: Arc::new(State { token, ledger: Mutex::new(ledger), log, guests, told }) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system answers.
    pub fn address(&self) -> Result<SocketAddr> {
        let failed = |source| Error::Io { operation: "ask for", place: "its own address".to_owned(), source };
        self.listener.local_addr().map_err(failed)
    }

    /// Serves until `stop` is set. What keeps it from accepting one connection is told and does not end it: a flood
    /// that uses up the system's descriptors must not silence the witness of a run.
    pub fn serve(&self, stop: &AtomicBool) {
        let mut number = 0;
        let mut trouble = None;
        while !stop.load(Ordering::Relaxed) {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    (number, trouble) = (number + 1, None);
                    self.state.welcome(number, stream, peer);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::sleep(LOOK_EVERY);
                }
                // A connection that broke before it was accepted.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    let kind = Some(error.kind());
                    if trouble != kind {
                        (self.state.told)(&format!("cannot accept a connection: {error}; tries again"));
                    }
                    trouble = kind;
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        }
        self.state.part();
    }
}

impl State {
    fn welcome(self: &Arc<Self>, number: u64, stream: TcpStream, peer: SocketAddr) {
        let state = Arc::clone(self);
        let kept = stream.set_nonblocking(false).and_then(|()| stream.try_clone());
        let wire = TcpWire::over(stream, peer.to_string());
        let (Ok(kept), Ok(mut wire)) = (kept, wire) else { return };
        {
            let mut guests = lock(&self.guests);
            let strangers = guests.iter().filter(|(_, guest)| !guest.known).map(|(number, _)| *number);
            if strangers.clone().count() >= STRANGERS_MAX
                && let Some(oldest) = strangers.min()
                && let Some(guest) = guests.remove(&oldest)
            {
                // Its thread ends by itself then.
                let _ = guest.stream.shutdown(Shutdown::Both);
            }
            guests.insert(number, Guest { stream: kept, known: false });
        }
        let spawned = std::thread::Builder::new().name("powercut-witness".to_owned()).spawn(move || {
            if let Err(error) = state.converse(number, &mut wire) {
                match &error {
                    // What a power cut looks like from here.
                    Error::Gone { .. } | Error::Silent { .. } => {}
                    Error::Refused { text } => wire.refuse(text.clone()),
                    Error::NotAuthentic { .. } => wire.refuse("the token is another one".to_owned()),
                    other => wire.refuse(other.to_string()),
                }
                (state.told)(&format!("{}: {error}", wire.peer()));
            }
            lock(&state.guests).remove(&number);
        });
        if let Err(error) = spawned {
            lock(&self.guests).remove(&number);
            (self.told)(&format!("{peer}: no thread for it: {error}"));
        }
    }

    /// Ends all connections.
    fn part(&self) {
        for _ in 0..200 {
            for guest in lock(&self.guests).values() {
                // It may have ended by itself.
                let _ = guest.stream.shutdown(Shutdown::Both);
            }
            if lock(&self.guests).is_empty() {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The connection with this number has proven to know the token.
    ///
    /// # Errors
    /// [`Error::Refused`] if too many have.
    fn recognise(&self, number: u64) -> Result<()> {
        let mut guests = lock(&self.guests);
        if guests.values().filter(|guest| guest.known).count() >= CONNECTIONS_MAX {
            let text = format!("{CONNECTIONS_MAX} others are connected; try again later");
            return Err(Error::Refused { text });
        }
        if let Some(guest) = guests.get_mut(&number) {
            guest.known = true;
        }
        Ok(())
    }

    fn converse(&self, number: u64, wire: &mut TcpWire) -> Result<()> {
        wire.greet(&self.token, Side::Witness)?;
        self.recognise(number)?;
        wire.patience(IDLE_TIMEOUT)?;
        loop {
            match wire.receive() {
                Ok(Message::Begin(begin)) => return self.follow(wire, &begin),
                Ok(Message::Ask(run)) => {
                    let run = lock(&self.ledger).tell(run)?;
                    wire.send(&Message::Told(run.told))?;
                    for (stream, ack) in run.streams {
                        wire.send(&Message::Stream(stream))?;
                        wire.send(&Message::Held(ack))?;
                    }
                    wire.send(&Message::Done)?;
                }
                Ok(Message::Judged { run, convicted }) => {
                    let lsn = lock(&self.ledger).judged(run, convicted)?;
                    self.log.commit(lsn)?;
                    let verdict = if convicted { "broke a promise" } else { "broke no promise" };
                    (self.told)(&format!("run {run} {verdict}"));
                    wire.send(&Message::Done)?;
                }
                // A checker has nothing more to ask.
                Err(Error::Gone { .. }) => return Ok(()),
                Err(error) => return Err(error),
                Ok(_) => return Err(wire.unexpected("who it is")),
            }
        }
    }

    /// Follows a run to its end.
    fn follow(&self, wire: &mut TcpWire, begin: &Begin) -> Result<()> {
        let mut streams = Vec::new();
        for _ in 0..begin.streams.min(STREAMS_MAX) {
            let Message::Stream(stream) = wire.receive()? else { return Err(wire.unexpected("its streams")) };
            streams.push(stream);
        }
        let lsn = lock(&self.ledger).begin(begin, &streams)?;
        self.log.commit(lsn)?;
        wire.send(&Message::Done)?;
        let run = begin.run;
        (self.told)(&format!("run {run} began: {}, {} streams", begin.place, begin.streams));
        let ended = self.acknowledgements(wire, run);
        let sum = lock(&self.ledger).tell(run)?;
        let sum: u64 = sum.streams.iter().map(|(_, ack)| ack.acknowledged).sum();
        let how = if ended.is_ok() { "ended by itself" } else { "was cut off" };
        (self.told)(&format!("run {run} {how} after {sum} acknowledgements"));
        ended
    }

    fn acknowledgements(&self, wire: &mut TcpWire, run: RunId) -> Result<()> {
        let mut held: Vec<Ack> = Vec::new();
        loop {
            // What has arrived together is entered together.
            let durable = loop {
                match wire.receive()? {
                    Message::Ack(ack) => {
                        let (now, lsn) = lock(&self.ledger).ack(run, &ack)?;
                        held.retain(|before| before.stream != now.stream);
                        held.push(now);
                        if !wire.has_more() {
                            break lsn;
                        }
                    }
                    Message::End => {
                        let lsn = lock(&self.ledger).end(run)?;
                        self.log.commit(lsn)?;
                        return wire.send(&Message::Done);
                    }
                    _ => return Err(wire.unexpected("acknowledgements")),
                }
            };
            self.log.commit(durable)?;
            for ack in held.drain(..) {
                wire.send(&Message::Held(ack))?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;
    use crate::message::HEADER_BYTES;

    const TOKEN: &[u8] = b"sixteen bytes ok";

    /// A witness at work, ended with the test.
    struct Stage {
        witness: Arc<Witness>,
        stop: Arc<AtomicBool>,
        serving: Option<std::thread::JoinHandle<()>>,
        told: Arc<Mutex<Vec<String>>>,
        _ledger: tempfile::TempDir,
    }

    impl Stage {
        fn new() -> Self {
            let ledger = tempfile::tempdir().expect("a folder");
            let (stop, told) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<String>>>::default());
            let lines = Arc::clone(&told);
            let tell = move |line: &str| lock(&lines).push(line.to_owned());
            let bound = Witness::bind("127.0.0.1:0", Token::of(TOKEN), ledger.path(), tell);
            let witness = Arc::new(bound.expect("listens"));
            let (serves, until) = (Arc::clone(&witness), Arc::clone(&stop));
            let serving = Some(std::thread::spawn(move || serves.serve(&until)));
            Self { witness, stop, serving, told, _ledger: ledger }
        }

        fn stranger(&self) -> TcpStream {
            TcpStream::connect(self.witness.address().expect("an address")).expect("connects")
        }

        fn knows(&self, token: &[u8]) -> Result<TcpWire> {
            let address = self.witness.address().expect("an address").to_string();
            TcpWire::connect(&address, &Token::of(token))
        }

        /// Whoever knows the token is answered.
        fn answers(&self) {
            let mut wire = self.knows(TOKEN).expect("whoever knows the token gets in");
            wire.send(&Message::Ask(RunId::LATEST)).expect("asks");
            let answer = wire.receive();
            assert!(matches!(&answer, Err(Error::Refused { text }) if text.contains("no run")), "{answer:?}");
        }
    }

    impl Drop for Stage {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            let ended = self.serving.take().map(std::thread::JoinHandle::join);
            assert!(matches!(ended, Some(Ok(()))), "the witness ends when told to");
            assert!(lock(&self.witness.state.guests).is_empty(), "and nobody is left");
        }
    }

    #[test]
    fn a_flood_of_strangers_is_bounded_and_keeps_nobody_out() {
        let stage = Stage::new();
        let mut known = stage.knows(TOKEN).expect("gets in before the flood");
        let mut flood: Vec<TcpStream> = (0..3 * STRANGERS_MAX).map(|_| stage.stranger()).collect();
        for stranger in flood.iter_mut().step_by(2) {
            // Half a frame, and then nothing. Some are cut off already.
            let _ = stranger.write_all(&Message::header(1, 32, 0));
        }
        stage.answers();
        assert!(lock(&stage.witness.state.guests).len() <= STRANGERS_MAX + 2);
        known.send(&Message::Ask(RunId::LATEST)).expect("was not cut off by the flood");
        assert!(matches!(known.receive(), Err(Error::Refused { .. })));
    }

    #[test]
    fn too_many_who_know_the_token_are_told_so() {
        let stage = Stage::new();
        let full: Vec<TcpWire> =
            (0..CONNECTIONS_MAX).map(|_| stage.knows(TOKEN).expect("there is room")).collect();
        let mut late = stage.knows(TOKEN).expect("proves itself");
        let refused = late.receive();
        assert!(
            matches!(&refused, Err(Error::Refused { text }) if text.contains("try again")),
            "{refused:?}"
        );
        drop(full);
    }

    #[test]
    fn garbage_and_lengths_out_of_bounds_are_refused_at_once_and_disturb_nobody() {
        let stage = Stage::new();
        let mut wrong_length = Message::header(1, 32, 0).to_vec();
        wrong_length[6..8].copy_from_slice(&u16::MAX.to_le_bytes());
        let not_a_hello = [&Message::header(9, 0, 0)[..], &[0; 16]].concat();
        let early_ack = [&Message::header(7, 24, 0)[..], &[0; 24 + 16]].concat();
        let text_as_number = [&Message::header(1, 512, 0)[..], &[0xFF; 512 + 16]].concat();
        for (sent, said) in [
            (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec(), "no power-cut protocol"),
            (vec![0xFF; HEADER_BYTES], "no power-cut protocol"),
            (wrong_length, "a payload of 65535 bytes"),
            (not_a_hello, "hello"),
            (early_ack, "hello"),
            (text_as_number, "token"),
        ] {
            let mut stranger = stage.stranger();
            stranger.write_all(&sent).expect("is sent");
            let mut answer = Vec::new();
            // A reset in place of an orderly end is no difference here.
            let _ = stranger.read_to_end(&mut answer);
            let told = lock(&stage.told).last().cloned().unwrap_or_default();
            assert!(told.contains(said), "{said:?} in {told:?}");
            assert!(answer.len() <= 544, "{} bytes for a stranger", answer.len());
        }
        assert!(matches!(stage.knows(b"another of 16 by"), Err(Error::Refused { .. })));
        stage.answers();
    }
}
