//! The witness: a server that records acknowledgements durably on another host.
//!
//! Each connection has a thread. Frames that have arrived are entered in the ledger together, made durable by one
//! commit, and only then confirmed.
//!
//! Invariants: a peer without the token learns and changes nothing, and writes no line of the operator's output;
//! connections are bounded; a connection that breaks the rules is closed with the reason, and disturbs no other.
//!
//! At most `UNPROVEN_MAX` connections are unauthenticated. When one more comes, one of them is closed: of the
//! address that has most of them, the oldest that has not even sent hello. So idle connections keep no client out,
//! and a flood keeps out no client of another address. The limit of this: a flood from a client's own address that
//! sends hello each time, `UNPROVEN_MAX` times within the client's round trip, ends that client's connection; the
//! client tries again six times.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall::Log;

use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::lines::Lines;
use crate::message::{Ack, Begin, Message, RunId};
use crate::token::Token;
use crate::wire::TcpWire;

/// Connections at the same time that have proven the token.
const CONNECTIONS_MAX: usize = 64;
/// Connections at the same time that have not.
const UNPROVEN_MAX: usize = 128;
/// How long a runner may be silent before its connection is given up.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// How often a wait checks whether to stop.
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
    connections: Mutex<HashMap<u64, Connection>>,
    lines: Lines,
}

/// One connection.
struct Connection {
    stream: TcpStream,
    /// The network it comes from.
    from: IpAddr,
    handshake: Handshake,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Handshake {
    /// It was accepted.
    Silent,
    /// It sent hello.
    Hello,
    /// It has proven to know the token.
    Known,
}

/// The network of an address: of IPv6 the first 64 bits, which one host has to itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The connection to close when too many have proven nothing, by number, network and handshake of each.
fn to_close(unproven: &[(u64, IpAddr, Handshake)]) -> Option<u64> {
    let of = |network: &IpAddr| unproven.iter().filter(|(_, from, _)| from == network).count();
    let most = unproven.iter().map(|(_, from, _)| of(from)).max()?;
    let of_largest = unproven.iter().filter(|(_, from, _)| of(from) == most);
    of_largest.min_by_key(|(number, _, handshake)| (*handshake, *number)).map(|(number, _, _)| *number)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked left numbers that only grow.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Witness {
    /// Opens the ledger in `ledger` and listens on `address`; `print` gets a line for each event.
    ///
    /// # Errors
    /// [`Error::Io`] if the address cannot be listened on, and those of the ledger's log.
    pub fn bind(
        address: &str,
        token: Token,
        ledger: &Path,
        print: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self> {
        let ledger = Ledger::open(ledger)?;
        let failed = |source| Error::Io { operation: "listen on", place: address.to_owned(), source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let log = ledger.log();
        let state = State {
            token,
            ledger: Mutex::new(ledger),
            log,
            connections: Mutex::default(),
            lines: Lines::new(print),
        };
        Ok(Self { listener, state: Arc::new(state) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system answers.
    pub fn address(&self) -> Result<SocketAddr> {
        let failed = |source| Error::Io { operation: "ask for", place: "its own address".to_owned(), source };
        self.listener.local_addr().map_err(failed)
    }

    /// Serves until `stop` is set. An error of accepting one connection is printed and does not end it: a flood
    /// that uses up the system's descriptors must not silence the witness of a run.
    pub fn serve(&self, stop: &AtomicBool) {
        let mut number = 0;
        let mut trouble = None;
        while !stop.load(Ordering::Relaxed) {
            self.state.lines.tick();
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
                        self.state.lines.print(&format!("cannot accept a connection: {error}; tries again"));
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
            let mut connections = lock(&self.connections);
            let unproven: Vec<_> = connections
                .iter()
                .filter(|(_, one)| one.handshake != Handshake::Known)
                .map(|(number, one)| (*number, one.from, one.handshake))
                .collect();
            if unproven.len() >= UNPROVEN_MAX
                && let Some(closed) = to_close(&unproven)
                && let Some(connection) = connections.remove(&closed)
            {
                // Its thread ends by itself then.
                let _ = connection.stream.shutdown(Shutdown::Both);
            }
            let from = network(peer.ip());
            connections.insert(number, Connection { stream: kept, from, handshake: Handshake::Silent });
        }
        let spawned = std::thread::Builder::new().name("powercut-witness".to_owned()).spawn(move || {
            if let Err(error) = state.converse(number, &mut wire) {
                match &error {
                    // What a power cut looks like from here.
                    Error::Gone { .. } | Error::Silent { .. } => {}
                    Error::Refused { text } => wire.refuse(text),
                    Error::NotAuthentic { .. } => wire.refuse("the token is another one"),
                    other => wire.refuse(&other.to_string()),
                }
                let line = format!("{}: {error}", wire.peer());
                let known = lock(&state.connections).get(&number).map(|one| one.handshake);
                if known == Some(Handshake::Known) {
                    state.lines.print(&line);
                } else {
                    state.lines.print_unproven(&line);
                }
            }
            lock(&state.connections).remove(&number);
        });
        if let Err(error) = spawned {
            lock(&self.connections).remove(&number);
            self.lines.print_unproven(&format!("{peer}: no thread for it: {error}"));
        }
    }

    /// Ends all connections.
    fn part(&self) {
        for _ in 0..200 {
            for connection in lock(&self.connections).values() {
                // It may have ended by itself.
                let _ = connection.stream.shutdown(Shutdown::Both);
            }
            if lock(&self.connections).is_empty() {
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
        let mut connections = lock(&self.connections);
        if connections.values().filter(|one| one.handshake == Handshake::Known).count() >= CONNECTIONS_MAX {
            let text = format!("{CONNECTIONS_MAX} others are connected; try again later");
            return Err(Error::Refused { text });
        }
        if let Some(connection) = connections.get_mut(&number) {
            connection.handshake = Handshake::Known;
        }
        Ok(())
    }

    fn converse(&self, number: u64, wire: &mut TcpWire) -> Result<()> {
        wire.welcome(&self.token, || {
            if let Some(connection) = lock(&self.connections).get_mut(&number) {
                connection.handshake = Handshake::Hello;
            }
        })?;
        self.recognise(number)?;
        wire.set_timeout(IDLE_TIMEOUT)?;
        loop {
            match wire.receive() {
                Ok(Message::Begin(begin)) => return self.follow(wire, &begin),
                Ok(Message::Ask(run)) => {
                    let run = lock(&self.ledger).find(run)?;
                    wire.send(&Message::Run(run))?;
                }
                Ok(Message::Judged { run, broken }) => {
                    let lsn = lock(&self.ledger).judged(run)?;
                    self.log.commit(lsn)?;
                    let verdict = if broken { "broke a promise" } else { "broke no promise" };
                    self.lines.print(&format!("run {run} {verdict}"));
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
        let lsn = lock(&self.ledger).begin(begin)?;
        self.log.commit(lsn)?;
        wire.send(&Message::Done)?;
        let run = begin.run;
        self.lines.print(&format!("run {run} began: {}, {} streams", begin.place, begin.streams.len()));
        let ended = self.acknowledgements(wire, run);
        let held = lock(&self.ledger).find(Some(run))?.held;
        let sum: u64 = held.iter().map(|ack| ack.acknowledged).sum();
        let how = if ended.is_ok() { "ended by itself" } else { "was cut off" };
        self.lines.print(&format!("run {run} {how} after {sum} acknowledgements"));
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
                wire.send(&Message::Ack(ack))?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;
    use crate::wire::{HEADER_BYTES, NONCE, REFUSED, header};

    const TOKEN: &[u8] = b"sixteen bytes ok";

    /// A witness at work, ended with the test.
    struct Stage {
        witness: Arc<Witness>,
        stop: Arc<AtomicBool>,
        serving: Option<std::thread::JoinHandle<()>>,
        printed: Arc<Mutex<Vec<String>>>,
        _ledger: tempfile::TempDir,
    }

    impl Stage {
        fn new() -> Self {
            let ledger = tempfile::tempdir().expect("a folder");
            let (stop, printed) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<String>>>::default());
            let lines = Arc::clone(&printed);
            let print = move |line: &str| lock(&lines).push(line.to_owned());
            let bound = Witness::bind("127.0.0.1:0", Token::of(TOKEN), ledger.path(), print);
            let witness = Arc::new(bound.expect("listens"));
            let (serves, until) = (Arc::clone(&witness), Arc::clone(&stop));
            let serving = Some(std::thread::spawn(move || serves.serve(&until)));
            Self { witness, stop, serving, printed, _ledger: ledger }
        }

        fn unproven(&self) -> TcpStream {
            TcpStream::connect(self.witness.address().expect("an address")).expect("connects")
        }

        fn knows(&self, token: &[u8]) -> Result<TcpWire> {
            let address = self.witness.address().expect("an address").to_string();
            TcpWire::connect(&address, &Token::of(token))
        }

        /// A client that knows the token is answered.
        fn answers(&self) {
            let mut wire = self.knows(TOKEN).expect("a client that knows the token is served");
            wire.send(&Message::Ask(None)).expect("asks");
            let answer = wire.receive();
            assert!(matches!(&answer, Err(Error::Refused { text }) if text.contains("no run")), "{answer:?}");
        }
    }

    impl Drop for Stage {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            let ended = self.serving.take().map(std::thread::JoinHandle::join);
            assert!(matches!(ended, Some(Ok(()))), "the witness ends when asked to");
            assert!(lock(&self.witness.state.connections).is_empty(), "and no connection is left");
        }
    }

    #[test]
    fn a_flood_of_unproven_connections_is_bounded_and_keeps_no_client_out() {
        let stage = Stage::new();
        let mut known = stage.knows(TOKEN).expect("gets in before the flood");
        let mut flood: Vec<TcpStream> = (0..3 * UNPROVEN_MAX).map(|_| stage.unproven()).collect();
        for peer in flood.iter_mut().step_by(2) {
            // Half a frame, and then nothing. Some are cut off already.
            let _ = peer.write_all(&header(NONCE, 32, 0));
        }
        stage.answers();
        assert!(lock(&stage.witness.state.connections).len() <= UNPROVEN_MAX + 2);
        known.send(&Message::Ask(None)).expect("was not cut off by the flood");
        assert!(matches!(known.receive(), Err(Error::Refused { .. })));
    }

    #[test]
    fn too_many_clients_that_know_the_token_are_refused_with_the_reason() {
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
    fn garbage_and_lengths_out_of_bounds_are_refused_at_once_and_disturb_no_client() {
        let stage = Stage::new();
        let mut wrong_length = header(NONCE, 32, 0).to_vec();
        wrong_length[6..8].copy_from_slice(&u16::MAX.to_le_bytes());
        let not_a_nonce = [&header(9, 0, 0)[..], &[0; 16]].concat();
        let early_message = [&header(3, 24, 0)[..], &[0; 24 + 16]].concat();
        let text_as_number = [&header(NONCE, 512, 0)[..], &[0xFF; 512 + 16]].concat();
        for (sent, said) in [
            (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec(), "no power-cut protocol"),
            (vec![0xFF; HEADER_BYTES], "no power-cut protocol"),
            (wrong_length, "a payload of 65535 bytes"),
            (not_a_nonce, "kind 9 before it proved"),
            (early_message, "kind 3 before it proved"),
            (text_as_number, "kind 1 before it proved"),
        ] {
            let mut peer = stage.unproven();
            peer.write_all(&sent).expect("is sent");
            let mut answer = Vec::new();
            // A reset in place of an orderly end is no difference here.
            let _ = peer.read_to_end(&mut answer);
            let printed = lock(&stage.printed).last().cloned().unwrap_or_default();
            assert!(printed.contains(said), "{said:?} in {printed:?}");
            assert!(answer.len() <= 544, "{} bytes for an unproven peer", answer.len());
        }
        assert!(matches!(stage.knows(b"another of 16 by"), Err(Error::Refused { .. })));
        stage.answers();
    }

    /// One frame without a tag.
    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&header(kind, payload.len(), 0)[..], payload, &[0; 16]].concat()
    }

    const OBEYED: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}]52;c;eA==\u{7}\nrun 00 broke no promise\u{202e}";

    #[test]
    fn no_kind_of_frame_but_a_hello_is_taken_before_the_proof_and_nothing_of_it_is_printed() {
        let stage = Stage::new();
        for kind in (0..=16).filter(|kind| *kind != NONCE) {
            let mut peer = stage.unproven();
            peer.write_all(&frame(kind, OBEYED.as_bytes())).expect("is sent");
            // A reset in place of an orderly end is no difference here.
            let _ = peer.read_to_end(&mut Vec::new());
            let printed = lock(&stage.printed).last().cloned().unwrap_or_default();
            assert!(printed.contains(&format!("kind {kind} before it proved")), "{printed}");
            assert!(
                !printed.contains("title") && printed.chars().all(|character| !character.is_control()),
                "{printed}"
            );
        }
        // The same behind a hello, where a proof belongs.
        let mut peer = stage.unproven();
        peer.write_all(&[frame(NONCE, &[7; 32]), frame(REFUSED, OBEYED.as_bytes())].concat())
            .expect("is sent");
        let _ = peer.read_to_end(&mut Vec::new());
        let printed = lock(&stage.printed).last().cloned().unwrap_or_default();
        assert!(printed.contains("kind 4 before it proved"), "{printed}");
        stage.answers();
    }

    #[test]
    fn what_one_with_the_token_says_is_shown_and_not_obeyed_and_its_refusal_is_not_taken() {
        let stage = Stage::new();
        let mut wire = stage.knows(TOKEN).expect("gets in");
        let stream = crate::stream::Stream {
            number: 0,
            kind: crate::stream::StreamKind::Log,
            class: seawall_sys::durability::Class::PowerLoss,
            record_bytes: 4096,
            journal_bytes: 1 << 20,
            method: "log".to_owned(),
        };
        let streams = vec![stream];
        let begin = Begin { run: RunId([3; 16]), window: 1, place: OBEYED.to_owned(), streams };
        wire.send(&Message::Begin(begin)).expect("begins");
        assert_eq!(wire.receive().expect("is taken"), Message::Done);
        wire.refuse(OBEYED);
        assert!(wire.receive().is_err(), "a witness is never refused");
        let all = loop {
            let all = lock(&stage.printed).join("|");
            if all.contains("witness's to do") {
                break all;
            }
            std::thread::yield_now();
        };
        assert!(all.contains("began: \\u{1b}[2J") && all.contains("was cut off"), "{all}");
        assert!(all.chars().all(|character| !character.is_control() && character != '\u{202e}'), "{all}");
        let mut wire = stage.knows(TOKEN).expect("gets in");
        wire.send(&Message::Ask(Some(RunId([3; 16])))).expect("asks");
        let Message::Run(run) = wire.receive().expect("answers") else { panic!("no run") };
        assert!(run.begin.place.starts_with("\\u{1b}"), "{}", run.begin.place);
    }

    #[test]
    fn lines_about_unproven_connections_are_bounded_however_many_there_are() {
        let stage = Stage::new();
        for _ in 0..5 * crate::lines::UNPROVEN_LINES_MAX {
            let mut peer = stage.unproven();
            peer.write_all(&[0xFF; HEADER_BYTES]).expect("is sent");
            let _ = peer.read_to_end(&mut Vec::new());
        }
        stage.answers();
        let printed =
            lock(&stage.printed).iter().filter(|line| line.contains("no power-cut protocol")).count();
        // A slow machine may have come into the next minute or two.
        assert!(printed as u64 <= 3 * crate::lines::UNPROVEN_LINES_MAX, "{printed} lines");
    }

    #[test]
    fn a_slow_client_gets_in_through_a_flood_of_open_connections() {
        let stage = Stage::new();
        for _ in 0..5 {
            let mut slow = TcpWire::over(stage.unproven(), "the witness".to_owned()).expect("a wire");
            let nonces = slow.hello().expect("says hello");
            // Within its round trip three times as many come as are kept.
            let flood: Vec<TcpStream> = (0..3 * UNPROVEN_MAX).map(|_| stage.unproven()).collect();
            let mut last = stage.unproven();
            last.write_all(&[0xFF; HEADER_BYTES]).expect("is sent");
            let _ = last.read_to_end(&mut Vec::new());
            slow.prove(&Token::of(TOKEN), nonces).expect("was not cut off");
            drop(flood);
        }
    }

    #[test]
    fn of_the_address_with_most_unproven_connections_the_oldest_that_sent_least_is_closed() {
        use Handshake::{Hello, Silent};
        let [near, far] = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])];
        for (unproven, closed) in [
            (&[][..], None),
            (&[(7, near, Hello)], Some(7)),
            (&[(1, near, Hello), (2, near, Silent), (3, near, Silent)], Some(2)),
            (&[(1, far, Silent), (2, near, Hello), (3, near, Hello)], Some(2)),
            (&[(1, far, Hello), (5, near, Hello), (4, near, Silent), (9, near, Hello)], Some(4)),
        ] {
            assert_eq!(to_close(unproven), closed, "{unproven:?}");
        }
        let v6 = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::ffff:1"));
        assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
        assert_eq!(v6("::ffff:10.0.0.1"), near);
    }
}
