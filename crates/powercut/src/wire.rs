//! Transports messages over TCP in authenticated frames, with a timeout for every wait.
//!
//! A frame is the same in both directions; the numbers of its header are little-endian:
//!
//! ```text
//!   0        4         5      6         8         16             16 + n        32 + n
//!   | "SWPW" | version | kind | n       | number  | payload      | tag          |
//!   |        | 2       |      | (bytes) | (frame) | (n bytes)    | (16 bytes)   |
//!
//!   kind 1  nonce     32 bytes   untagged                     runner or checker, then witness
//!   kind 2  proof     nothing                                 runner or checker, then witness
//!   kind 3  message   JSON                                    either
//!   kind 4  refused   text       untagged before the proofs   witness
//! ```
//!
//! A frame is valid if and only if (1) magic and version are known and n is within the bound; (2) it is of the kind
//! whose turn it is, a nonce or a proof of its exact length; (3) its number is one more than that of the last frame in
//! its direction; (4) its tag is the one of `token`, or zero where the table says untagged.
//!
//! Invariants: every wait has an end; at most one frame is buffered per peer; after any error the connection is
//! finished; before the proof a witness takes a nonce and a proof of their exact lengths, and nothing else.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::message::{MESSAGE_BYTES_MAX, Message, TEXT_BYTES_MAX, cut, shown};
use crate::token::{Key, NONCE_BYTES, Nonce, TAG_BYTES, Tag, Token, random};

/// The protocol's version.
const VERSION: u8 = 2;
/// Bytes of a frame in front of its payload.
pub(crate) const HEADER_BYTES: usize = 16;
const MAGIC: [u8; 4] = *b"SWPW";
const _: () = assert!(4 + 1 + 1 + 2 + 8 == HEADER_BYTES && MESSAGE_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(NONCE_BYTES == 32 && TAG_BYTES == 16 && TEXT_BYTES_MAX <= MESSAGE_BYTES_MAX);

/// The kinds of frames.
pub(crate) const NONCE: u8 = 1;
pub(crate) const PROOF: u8 = 2;
const MESSAGE: u8 = 3;
pub(crate) const REFUSED: u8 = 4;

/// How long a connection may take to be made, and its first frames to arrive.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an answer may take: the other side may be swapping, but not for ever.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);

/// How often a connection is tried that ends before the proof.
const CONNECTS_MAX: u32 = 6;
/// How long until the second try; each later one waits once more as long.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// The header of a frame.
pub(crate) fn header(kind: u8, payload_bytes: usize, number: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    (header[4], header[5]) = (VERSION, kind);
    header[6..8].copy_from_slice(&u16::try_from(payload_bytes).unwrap_or(u16::MAX).to_le_bytes());
    header[8..].copy_from_slice(&number.to_le_bytes());
    header
}

/// Kind, payload bytes and number of the frame that begins like this.
///
/// # Errors
/// [`Error::Protocol`].
pub(crate) fn read_header(header: &[u8; HEADER_BYTES]) -> Result<(u8, usize, u64)> {
    let [m0, m1, m2, m3, version, kind, n0, n1, number @ ..] = *header;
    let bytes = usize::from(u16::from_le_bytes([n0, n1]));
    let what = if [m0, m1, m2, m3] != MAGIC {
        "something that is no power-cut protocol".to_owned()
    } else if version != VERSION {
        format!("version {version} of the protocol, this is version {VERSION}")
    } else if bytes > MESSAGE_BYTES_MAX {
        format!("a payload of {bytes} bytes")
    } else {
        return Ok((kind, bytes, u64::from_le_bytes(number)));
    };
    Err(Error::Protocol { what: format!("the other side sent {what}") })
}

/// One direction of a connection: the other side's address, the key, the number of the next frame.
struct End<T> {
    io: T,
    peer: String,
    key: Option<Key>,
    next: u64,
    timeout: Duration,
}

impl<T> End<T> {
    fn new(io: T, peer: String) -> Self {
        Self { io, peer, key: None, next: 0, timeout: HELLO_TIMEOUT }
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
pub(crate) struct ReceiveHalf<R: Read> {
    end: End<BufReader<R>>,
    /// Whether a refusal is taken: only a witness refuses, so a witness takes none.
    takes_refusals: bool,
}

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
        self.send_frame(MESSAGE, &message.encode())
    }

    fn send_frame(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let end = &mut self.0;
        let mut frame = [&header(kind, payload.len(), end.next)[..], payload].concat();
        let tag = end.key.as_ref().map_or([0; TAG_BYTES], |key| key.tag(&frame));
        frame.extend(tag);
        end.next += 1;
        let written = end.io.write_all(&frame).and_then(|()| end.io.flush());
        written.map_err(|error| end.explain(error))
    }
}

impl<R: Read> ReceiveHalf<R> {
    /// The next message.
    ///
    /// # Errors
    /// [`Error::Silent`], [`Error::Gone`], [`Error::Io`], [`Error::NotAuthentic`], [`Error::Protocol`], and
    /// [`Error::Refused`] if the witness refuses.
    pub(crate) fn receive(&mut self) -> Result<Message> {
        Message::decode(&self.receive_frame(MESSAGE)?)
    }

    /// The payload of the next frame, which must be of this kind.
    fn receive_frame(&mut self, wanted: u8) -> Result<Vec<u8>> {
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header)?;
        let (kind, bytes, number) = read_header(&header)?;
        let refusal = self.takes_refusals && kind == REFUSED && bytes <= TEXT_BYTES_MAX;
        let exact = match wanted {
            NONCE => Some(NONCE_BYTES),
            PROOF => Some(0),
            _ => None,
        };
        if !refusal && (kind != wanted || exact.is_some_and(|exact| exact != bytes)) {
            let peer = &self.end.peer;
            let what = match (exact, kind) {
                (Some(_), _) => {
                    format!("{peer} sent a frame of kind {kind} before it proved to know the token")
                }
                (None, REFUSED) => format!("{peer} refused, which is the witness's to do"),
                (None, _) => format!("{peer} sent a frame of kind {kind} in place of a message"),
            };
            return Err(Error::Protocol { what });
        }
        let mut frame = header.to_vec();
        frame.resize(HEADER_BYTES + bytes, 0);
        self.fill(&mut frame[HEADER_BYTES..])?;
        let mut tag: Tag = [0; TAG_BYTES];
        self.fill(&mut tag)?;
        let end = &mut self.end;
        let proven = match &end.key {
            Some(key) => key.proves(&frame, &tag),
            None => tag == [0; TAG_BYTES],
        };
        // A refusal before both sides have proven who they are cannot be proven either, and ends it all the same.
        let early = refusal && end.next <= 1 && tag == [0; TAG_BYTES];
        if !early && (!proven || number != end.next) {
            return Err(Error::NotAuthentic { peer: end.peer.clone() });
        }
        end.next += 1;
        let payload = frame.split_off(HEADER_BYTES);
        if !refusal {
            return Ok(payload);
        }
        let text = shown(&String::from_utf8_lossy(&payload));
        let unproven = if early { " (said without a proof that it knows the token)" } else { "" };
        Err(Error::Refused { text: format!("{text}{unproven}") })
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.end.io.read_exact(bytes).map_err(|error| self.end.explain(error))
    }
}

impl<R: Read, W: Write> Wire<R, W> {
    pub(crate) fn new(reader: R, writer: W, peer: String) -> Self {
        let end = End::new(BufReader::with_capacity(4096, reader), peer.clone());
        let receiver = ReceiveHalf { end, takes_refusals: false };
        Self { receiver, sender: SendHalf(End::new(writer, peer)) }
    }

    /// The other side's address.
    pub(crate) fn peer(&self) -> &str {
        &self.sender.0.peer
    }

    /// Whether more has arrived than was read.
    pub(crate) fn has_more(&self) -> bool {
        !self.receiver.end.io.buffer().is_empty()
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

    /// For two threads, one that receives and one that sends.
    pub(crate) fn split(self) -> (ReceiveHalf<R>, SendHalf<W>) {
        (self.receiver, self.sender)
    }

    fn know(&mut self, ours: Key, theirs: Key) {
        (self.sender.0.key, self.receiver.end.key) = (Some(ours), Some(theirs));
    }

    /// Ends a connection with a reason.
    pub(crate) fn refuse(&mut self, text: &str) {
        // A peer that does not know the token gets no tag either.
        if self.receiver.end.next <= 1 {
            self.sender.0.key = None;
        }
        // The connection ends whether or not the reason arrives.
        let _ = self.sender.send_frame(REFUSED, cut(text).as_bytes());
    }

    /// Proves to a witness that this side knows the token, and the other way round.
    ///
    /// # Errors
    /// As [`Wire::receive`].
    pub(crate) fn greet(&mut self, token: &Token) -> Result<()> {
        let nonces = self.hello()?;
        self.prove(token, nonces)
    }

    /// The first half of [`Wire::greet`]: this side's nonce and the witness's.
    ///
    /// # Errors
    /// As [`Wire::receive`].
    pub(crate) fn hello(&mut self) -> Result<(Nonce, Nonce)> {
        self.receiver.takes_refusals = true;
        let ours = random()?;
        self.sender.send_frame(NONCE, &ours)?;
        Ok((ours, self.receive_nonce()?))
    }

    /// The second half of [`Wire::greet`].
    ///
    /// # Errors
    /// As [`Wire::receive`].
    pub(crate) fn prove(&mut self, token: &Token, (ours, theirs): (Nonce, Nonce)) -> Result<()> {
        let session = token.session(&ours, &theirs);
        self.know(session.to_witness, session.from_witness);
        self.sender.send_frame(PROOF, &[])?;
        self.receiver.receive_frame(PROOF).map(drop)
    }

    /// The witness's side of [`Wire::greet`]; calls `said_hello` when the first half is done.
    ///
    /// # Errors
    /// As [`Wire::receive`].
    pub(crate) fn welcome(&mut self, token: &Token, said_hello: impl FnOnce()) -> Result<()> {
        let ours = random()?;
        let theirs = self.receive_nonce()?;
        said_hello();
        self.sender.send_frame(NONCE, &ours)?;
        let session = token.session(&theirs, &ours);
        self.know(session.from_witness, session.to_witness);
        self.receiver.receive_frame(PROOF)?;
        self.sender.send_frame(PROOF, &[])
    }

    fn receive_nonce(&mut self) -> Result<Nonce> {
        let mut nonce = [0; NONCE_BYTES];
        // A nonce of another length was refused.
        nonce.copy_from_slice(&self.receiver.receive_frame(NONCE)?);
        Ok(nonce)
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
                    wire.greet(token)?;
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
        (self.receiver.end.timeout, self.sender.0.timeout) = (timeout, timeout);
        let socket = &self.sender.0.io;
        let set = socket.set_read_timeout(Some(timeout));
        set.and_then(|()| socket.set_write_timeout(Some(timeout)))
            .map_err(|error| self.sender.0.explain(error))
    }
}

#[cfg(test)]
mod tests {
    use super::{TcpWire, Wire, header, read_header};
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
            witness.welcome(&theirs, || {}).expect("greets");
            witness.receive().expect("receives")
        });
        let mut runner = wire(near);
        runner.greet(&token).expect("greets");
        runner.send(&ACK).expect("sends");
        assert_eq!(witness.join().expect("ends"), ACK);
    }

    #[test]
    fn another_token_is_refused_on_both_sides() {
        let (near, far) = pair();
        let witness = std::thread::spawn(move || {
            let mut witness = wire(far);
            let refused = witness.welcome(&Token::of(b"another token than"), || {});
            witness.refuse("the token is another one");
            refused
        });
        let refused = wire(near).greet(&Token::of(b"0123456789abcdef"));
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
        assert!(matches!(witness.join().expect("ends"), Err(Error::NotAuthentic { .. })));
    }

    #[test]
    fn what_a_false_witness_says_is_bounded_shown_and_marked_as_unproven() {
        let said = "\u{1b}]0;title\u{7}\nrun 00 broke no promise\u{202e}".repeat(8);
        let payload = super::cut(&said).as_bytes();
        let frame = [&header(super::REFUSED, payload.len(), 0)[..], payload, &[0; super::TAG_BYTES]].concat();
        let (near, mut far) = pair();
        far.write_all(&frame).expect("is sent");
        let refusal = wire(near).greet(&Token::of(b"0123456789abcdef")).expect_err("is refused");
        assert!(matches!(refusal, Error::Refused { .. }), "{refusal:?}");
        let refusal = refusal.to_string();
        assert!(refusal.contains("without a proof") && refusal.len() < 600, "{refusal}");
        assert!(
            refusal.chars().all(|character| !character.is_control() && character != '\u{202e}'),
            "{refusal}"
        );
    }

    #[test]
    fn headers_of_other_protocols_versions_and_lengths_are_refused() {
        let good = header(super::MESSAGE, 100, 3);
        assert_eq!(read_header(&good).expect("is valid"), (super::MESSAGE, 100, 3));
        for (at, byte, word) in [(0, b'X', "no power-cut"), (4, 1, "version 1"), (7, 0x81, "payload of")] {
            let mut bad = good;
            bad[at] = byte;
            let refused = read_header(&bad).expect_err("is refused").to_string();
            assert!(refused.contains(word), "{refused}");
        }
    }

    #[test]
    fn a_refusal_is_cut_between_characters() {
        let tap = Tap::default();
        Wire::new(io::empty(), tap.clone(), "tap".to_owned()).refuse(&"ä".repeat(300));
        let sent = tap.0.lock().expect("is not poisoned").clone();
        assert_eq!(sent.len(), super::HEADER_BYTES + super::TEXT_BYTES_MAX + super::TAG_BYTES);
        assert!(std::str::from_utf8(&sent[super::HEADER_BYTES..super::HEADER_BYTES + 400]).is_ok());
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
