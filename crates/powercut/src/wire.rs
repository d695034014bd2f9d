//! Transports frames over TCP, with a timeout for every wait.
//!
//! Invariants: every wait has an end; at most one frame is buffered per peer; after any error the connection is
//! finished; before the proof a witness takes a hello and a proof of their exact lengths, and nothing else.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::message::{HEADER_BYTES, Message, read_header};
use crate::token::{Key, NONCE_BYTES, Nonce, TAG_BYTES, Tag, Token, random};

/// How long a connection may take to be made, and its first messages to arrive.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an answer may take: the other side may be swapping, but not for ever.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);

/// How often a connection is tried that ends before the proof.
const CONNECTS_MAX: u32 = 6;
/// How long until the second try; each later one waits once more as long.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Which side of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It connected.
    Runner,
    /// It listens.
    Witness,
}

/// One direction of a connection: the other side's address, the key, the number of the next frame, one frame's bytes.
struct End<T> {
    io: T,
    peer: String,
    key: Option<Key>,
    next: u64,
    timeout: Duration,
    frame: Vec<u8>,
    /// Whether a refusal is taken: only a witness refuses, so a witness takes none.
    takes_refusals: bool,
    /// The only kind and payload bytes that are taken next, as long as nothing is proven.
    only: Option<(u8, usize)>,
}

impl<T> End<T> {
    fn new(io: T, peer: String) -> Self {
        Self {
            io,
            peer,
            key: None,
            next: 0,
            timeout: HELLO_TIMEOUT,
            frame: Vec::new(),
            takes_refusals: false,
            only: None,
        }
    }

    fn explain(&self, error: io::Error) -> Error {
        let peer = self.peer.clone();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Error::Silent { peer, seconds: self.timeout.as_secs() }
            }
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Error::Gone { peer },
            _ => Error::Io { operation: "talk to", place: peer, source: error },
        }
    }
}

/// The half of a connection that receives.
pub(crate) struct ReceiveHalf<R: Read>(End<BufReader<R>>);

/// The half of a connection that sends.
pub(crate) struct SendHalf<W: Write>(End<W>);

/// One connection.
pub(crate) struct Wire<R: Read, W: Write> {
    receiver: ReceiveHalf<R>,
    sender: SendHalf<W>,
}

/// A connection by TCP.
pub(crate) type TcpWire = Wire<TcpStream, TcpStream>;

impl<W: Write> SendHalf<W> {
    /// Sends it.
    ///
    /// # Errors
    /// [`Error::Silent`], [`Error::Gone`], [`Error::Io`].
    pub(crate) fn send(&mut self, message: &Message) -> Result<()> {
        let end = &mut self.0;
        end.frame.clear();
        end.frame.extend([0; HEADER_BYTES]);
        message.payload(&mut end.frame);
        let header = Message::header(message.kind(), end.frame.len() - HEADER_BYTES, end.next);
        end.frame[..HEADER_BYTES].copy_from_slice(&header);
        let tag = end.key.as_ref().map_or([0; TAG_BYTES], |key| key.tag(&end.frame));
        end.frame.extend(tag);
        end.next += 1;
        let written = end.io.write_all(&end.frame).and_then(|()| end.io.flush());
        written.map_err(|error| self.0.explain(error))
    }
}

impl<R: Read> ReceiveHalf<R> {
    /// The next message.
    ///
    /// # Errors
    /// [`Error::Silent`], [`Error::Gone`], [`Error::Io`], [`Error::NotAuthentic`], [`Error::Protocol`], and
    /// [`Error::Refused`] if that is the message.
    pub(crate) fn receive(&mut self) -> Result<Message> {
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header)?;
        let (kind, bytes, number) = read_header(&header)?;
        if self.0.only.is_some_and(|only| only != (kind, bytes)) {
            let what =
                format!("{} sent a frame of kind {kind} before it proved to know the token", self.0.peer);
            return Err(Error::Protocol { what });
        }
        let mut frame = std::mem::take(&mut self.0.frame);
        frame.clear();
        frame.extend(header);
        frame.resize(HEADER_BYTES + bytes, 0);
        self.fill(&mut frame[HEADER_BYTES..])?;
        let mut tag: Tag = [0; TAG_BYTES];
        self.fill(&mut tag)?;
        let proven = match &self.0.key {
            Some(key) => key.proves(&frame, &tag),
            None => tag == [0; TAG_BYTES],
        };
        let message = Message::decode(kind, &frame[HEADER_BYTES..]);
        self.0.frame = frame;
        // A refusal before both sides have proven who they are cannot be proven either, and ends it all the same.
        let refused = self.0.takes_refusals && matches!(message, Ok(Message::Refused(_)));
        let early = refused && self.0.next <= 1 && tag == [0; TAG_BYTES];
        if !early && (!proven || number != self.0.next) {
            return Err(Error::NotAuthentic { peer: self.0.peer.clone() });
        }
        self.0.next += 1;
        match message? {
            Message::Refused(text) if early => {
                Err(Error::Refused { text: format!("{text} (said without a proof that it knows the token)") })
            }
            Message::Refused(text) if refused => Err(Error::Refused { text }),
            Message::Refused(_) => Err(Error::Protocol {
                what: format!("{} refused, which is the witness's to do", self.0.peer),
            }),
            message => Ok(message),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.0.io.read_exact(bytes).map_err(|error| self.0.explain(error))
    }

    /// Whether more has arrived than was read.
    pub(crate) fn has_more(&self) -> bool {
        !self.0.io.buffer().is_empty()
    }
}

impl<R: Read, W: Write> Wire<R, W> {
    pub(crate) fn new(reader: R, writer: W, peer: String) -> Self {
        let receiver = ReceiveHalf(End::new(BufReader::with_capacity(4096, reader), peer.clone()));
        Self { receiver, sender: SendHalf(End::new(writer, peer)) }
    }

    /// The other side's address.
    pub(crate) fn peer(&self) -> &str {
        &self.sender.0.peer
    }

    /// As [`ReceiveHalf::has_more`].
    pub(crate) fn has_more(&self) -> bool {
        self.receiver.has_more()
    }

    /// As [`SendHalf::send`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn send(&mut self, message: &Message) -> Result<()> {
        self.sender.send(message)
    }

    /// As [`ReceiveHalf::receive`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn receive(&mut self) -> Result<Message> {
        self.receiver.receive()
    }

    /// For two threads, one that hears and one that speaks.
    pub(crate) fn split(self) -> (ReceiveHalf<R>, SendHalf<W>) {
        (self.receiver, self.sender)
    }

    fn know(&mut self, ours: Key, theirs: Key) {
        (self.sender.0.key, self.receiver.0.key) = (Some(ours), Some(theirs));
    }

    /// Ends a connection with a reason.
    pub(crate) fn refuse(&mut self, text: String) {
        // A peer that does not know the token gets no tag either.
        if self.receiver.0.next <= 1 {
            self.sender.0.key = None;
        }
        // The connection ends whether or not the reason arrives.
        let _ = self.send(&Message::Refused(text));
    }

    /// Proves to each other that both know the token.
    ///
    /// # Errors
    /// As [`Wire::receive`].
    pub(crate) fn greet(&mut self, token: &Token, side: Side) -> Result<()> {
        self.greet_with(token, side, || {})
    }

    /// As [`Wire::greet`]; a witness calls `said_hello` when the first half is done.
    ///
    /// # Errors
    /// As [`Wire::receive`].
    pub(crate) fn greet_with(&mut self, token: &Token, side: Side, said_hello: impl FnOnce()) -> Result<()> {
        let ours = random::<NONCE_BYTES>()?;
        match side {
            Side::Runner => {
                self.receiver.0.takes_refusals = true;
                self.send(&Message::Hello(ours))?;
                let Message::Challenge(theirs) = self.receive()? else {
                    return Err(self.unexpected("challenge"));
                };
                self.prove(token, &ours, &theirs)
            }
            Side::Witness => {
                self.receiver.0.only = Some((Message::Hello([0; NONCE_BYTES]).kind(), NONCE_BYTES));
                let Message::Hello(theirs) = self.receive()? else { return Err(self.unexpected("hello")) };
                said_hello();
                self.receiver.0.only = Some((Message::Proof.kind(), 0));
                self.send(&Message::Challenge(ours))?;
                let session = token.session(&theirs, &ours);
                self.know(session.from_witness, session.to_witness);
                let Message::Proof = self.receive()? else { return Err(self.unexpected("proof")) };
                self.receiver.0.only = None;
                self.send(&Message::Welcome)
            }
        }
    }

    /// The runner's second half of a greeting.
    ///
    /// # Errors
    /// As [`Wire::receive`].
    pub(crate) fn prove(&mut self, token: &Token, ours: &Nonce, theirs: &Nonce) -> Result<()> {
        let session = token.session(ours, theirs);
        self.know(session.to_witness, session.from_witness);
        self.send(&Message::Proof)?;
        let Message::Welcome = self.receive()? else { return Err(self.unexpected("welcome")) };
        Ok(())
    }

    /// The error for a message that does not belong here.
    pub(crate) fn unexpected(&self, wanted: &str) -> Error {
        Error::Protocol { what: format!("{} did not say {wanted} where it should", self.peer()) }
    }
}

impl TcpWire {
    /// Connects to a witness and proves who is speaking. A connection that the witness ended before the proof, to make
    /// room in a flood of connections without a proof, is made again a few times.
    ///
    /// # Errors
    /// As [`Wire::greet`], and [`Error::Io`] if there is no way there.
    pub(crate) fn connect(address: &str, token: &Token) -> Result<Self> {
        for again in 1..CONNECTS_MAX {
            match Self::connect_once(address, token) {
                Err(Error::Gone { .. }) => std::thread::sleep(RETRY_AFTER * again),
                made => return made,
            }
        }
        Self::connect_once(address, token)
    }

    fn connect_once(address: &str, token: &Token) -> Result<Self> {
        let failed =
            |source| Error::Io { operation: "reach the witness at", place: address.to_owned(), source };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for target in address.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&target, HELLO_TIMEOUT) {
                Ok(stream) => {
                    let mut wire = Self::over(stream, address.to_owned()).map_err(failed)?;
                    wire.greet(token, Side::Runner)?;
                    wire.set_timeout(ANSWER_TIMEOUT)?;
                    return Ok(wire);
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// A connection that is made, with the short timeout of its beginning.
    ///
    /// # Errors
    /// What the system answers.
    pub(crate) fn over(stream: TcpStream, peer: String) -> io::Result<Self> {
        // An acknowledgement must be on its way before the next commit begins.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
        stream.set_write_timeout(Some(HELLO_TIMEOUT))?;
        Ok(Self::new(stream.try_clone()?, stream, peer))
    }

    /// How long the other side may be silent from here on.
    ///
    /// # Errors
    /// What the system answers.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) -> Result<()> {
        (self.receiver.0.timeout, self.sender.0.timeout) = (timeout, timeout);
        let socket = &self.sender.0.io;
        let set = socket.set_read_timeout(Some(timeout));
        set.and_then(|()| socket.set_write_timeout(Some(timeout)))
            .map_err(|error| self.sender.0.explain(error))
    }
}

#[cfg(test)]
mod tests {
    use super::{Side, TcpWire, Wire};
    use crate::error::Error;
    use crate::message::{Ack, Message};
    use crate::token::Token;
    use std::io::{self, Read, Write};
    use std::net::{TcpListener, TcpStream};

    const ACK: Message = Message::Ack(Ack { stream: 1, acknowledged: 2, trimmed: 0 });

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
        (near, listener.accept().expect("accepts").0)
    }

    fn wire(stream: TcpStream) -> TcpWire {
        TcpWire::over(stream, "the other side".to_owned()).expect("a wire")
    }

    #[test]
    fn both_sides_with_one_token_understand_each_other() {
        let token = Token::of(b"0123456789abcdef");
        let (near, far) = pair();
        let theirs = token.clone();
        let witness = std::thread::spawn(move || {
            let mut witness = wire(far);
            witness.greet(&theirs, Side::Witness).expect("greets");
            witness.receive().expect("receives")
        });
        let mut runner = wire(near);
        runner.greet(&token, Side::Runner).expect("greets");
        runner.send(&ACK).expect("sends");
        assert_eq!(witness.join().expect("ends"), ACK);
    }

    #[test]
    fn another_token_is_refused_on_both_sides() {
        let (near, far) = pair();
        let witness = std::thread::spawn(move || {
            let mut witness = wire(far);
            let refused = witness.greet(&Token::of(b"another token than"), Side::Witness);
            witness.refuse("the token is another one".to_owned());
            refused
        });
        let refused = wire(near).greet(&Token::of(b"0123456789abcdef"), Side::Runner);
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
        assert!(matches!(witness.join().expect("ends"), Err(Error::NotAuthentic { .. })));
    }

    #[test]
    fn what_a_false_witness_says_is_bounded_shown_and_marked_as_unproven() {
        let said = "\u{1b}]0;title\u{7}\nrun 00 broke no promise\u{202e}".repeat(8);
        let refused = Message::Refused(said);
        let mut payload = Vec::new();
        refused.payload(&mut payload);
        let frame = [&Message::header(14, payload.len(), 0)[..], &payload, &[0; super::TAG_BYTES]].concat();
        let (near, mut far) = pair();
        far.write_all(&frame).expect("is sent");
        let refusal =
            wire(near).greet(&Token::of(b"0123456789abcdef"), Side::Runner).expect_err("is refused");
        assert!(matches!(refusal, Error::Refused { .. }), "{refusal:?}");
        let refusal = refusal.to_string();
        assert!(refusal.contains("without a proof") && refusal.len() < 600, "{refusal}");
        assert!(
            refusal.chars().all(|character| !character.is_control() && character != '\u{202e}'),
            "{refusal}"
        );
    }

    /// Keeps what is written, for a look at the bytes.
    #[derive(Clone, Default)]
    struct Tap(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for Tap {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("is not poisoned").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Two frames as they go over the wire of one session.
    fn two_frames() -> (super::Key, Vec<u8>) {
        let key = Token::of(b"0123456789abcdef").session(&[1; 32], &[2; 32]).to_witness;
        let tap = Tap::default();
        let mut sender = Wire::new(io::empty(), tap.clone(), "tap".to_owned());
        sender.know(key.clone(), key.clone());
        sender.send(&ACK).expect("sends");
        sender.send(&ACK).expect("sends");
        let bytes = tap.0.lock().expect("is not poisoned").clone();
        (key, bytes)
    }

    fn hear(key: &super::Key, bytes: impl Read) -> Vec<Result<Message, Error>> {
        let mut receiver = Wire::new(bytes, io::sink(), "tap".to_owned());
        receiver.know(key.clone(), key.clone());
        (0..2).map(|_| receiver.receive()).collect()
    }

    #[test]
    fn frames_that_were_changed_repeated_or_left_out_are_not_authentic() {
        let (key, bytes) = two_frames();
        assert!(hear(&key, &bytes[..]).iter().all(Result::is_ok));
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let repeated = hear(&key, &[first, first].concat()[..]);
        assert!(matches!(repeated[..], [Ok(_), Err(Error::NotAuthentic { .. })]), "{repeated:?}");
        assert!(matches!(hear(&key, second)[0], Err(Error::NotAuthentic { .. })), "the first was left out");
        for at in 0..first.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(hear(&key, &changed[..])[0].is_err(), "byte {at}");
        }
        assert!(matches!(hear(&key, &first[..20])[0], Err(Error::Gone { .. })), "cut off");
    }
}
