//! Defines the frames between runner, witness and checker, and their encoding.
//!
//! The frame is the same in both directions; all numbers are little-endian:
//!
//! ```text
//!   0        4         5      6         8         16             16 + n        32 + n
//!   | "SWPW" | version | kind | n       | number  | payload      | tag          |
//!   |        | 1       |      | (bytes) | (frame) | (n bytes)    | (16 bytes)   |
//! ```
//!
//! Payloads, by kind:
//!
//! ```text
//!    1 hello      | nonce (32) |                                      untagged      runner, checker
//!    2 challenge  | nonce (32) |                                      untagged      witness
//!    3 proof      |                                                                 runner, checker
//!    4 welcome    |                                                                 witness
//!    5 begin      | run (16) | streams (2) | 0 (2) | window (4) | place (text) |    runner
//!    6 stream     | stream (2) | kind (1) | class (1) | record bytes (4) | journal bytes (8) | method (text) |
//!    7 ack        | stream (2) | 0 (6) | acknowledged (8) | trimmed (8) |           runner
//!    8 held       as ack: what the witness holds durably                            witness
//!    9 end        |                                                                 runner
//!   10 ask        | run (16), zeros for the latest |                                checker
//!   11 summary    | run (16) | streams (2) | last stream (2) | window (4) | begun (8) | ended (1) | judged (1) |
//!                 | 0 (6) | place (text) |                                          witness
//!   12 judged     | run (16) | verdict (1) |                                        checker
//!   13 done       |                                                                 witness
//!   14 refused    | text |                                    untagged before welcome   witness
//! ```
//!
//! A frame is valid if and only if (1) magic, version and kind are known; (2) n is within the bound and what the kind
//! needs, texts being valid UTF-8 and a method's id of ASCII letters, digits, `+`, `-`, `_` and `:`; (3) its number is one more than that of the last frame in its direction; (4) its tag
//! is the one of `token`, or zero where the table says untagged.

use std::fmt;
use std::str::FromStr;

use seawall_sys::durability::Class;
use seawall_sys::text::printable;

use crate::error::{Error, Result};
use crate::stream::{Kind, Stream};
use crate::token::{NONCE_BYTES, Nonce, TAG_BYTES};

/// The protocol's version.
pub(crate) const VERSION: u8 = 1;
/// The longest payload in bytes.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 512;
/// The longest text in bytes; what is longer is cut.
pub(crate) const TEXT_BYTES_MAX: usize = 400;
/// The longest id of a commit method in bytes.
const METHOD_BYTES_MAX: usize = 64;
/// Bytes of a frame in front of its payload.
pub(crate) const HEADER_BYTES: usize = 16;

const MAGIC: [u8; 4] = *b"SWPW";
const RUN_BYTES: usize = 16;
const BEGIN_BYTES: usize = RUN_BYTES + 2 + 2 + 4;
const STREAM_BYTES: usize = 2 + 1 + 1 + 4 + 8;
const ACK_BYTES: usize = 2 + 6 + 8 + 8;
const SUMMARY_BYTES: usize = RUN_BYTES + 2 + 2 + 4 + 8 + 1 + 1 + 6;
const JUDGED_BYTES: usize = RUN_BYTES + 1;

const _: () = assert!(4 + 1 + 1 + 2 + 8 == HEADER_BYTES);
const _: () = assert!(BEGIN_BYTES == 24 && STREAM_BYTES == 16 && ACK_BYTES == 24 && SUMMARY_BYTES == 40);
const _: () = assert!(JUDGED_BYTES == 17);
const _: () =
    assert!(SUMMARY_BYTES + TEXT_BYTES_MAX <= PAYLOAD_BYTES_MAX && NONCE_BYTES == 32 && TAG_BYTES == 16);

/// Which run it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub(crate) [u8; RUN_BYTES]);

impl RunId {
    /// Stands for the latest run in a question.
    pub(crate) const LATEST: Self = Self([0; RUN_BYTES]);

    /// The part that its records hold: its first eight bytes.
    pub(crate) fn short(self) -> u64 {
        self.0.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for RunId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::Asked(format!("{text:?} is no run: a run is 32 hexadecimal digits, as `run` prints them"))
        };
        if text.len() != 2 * RUN_BYTES || !text.is_ascii() {
            return Err(wrong());
        }
        let mut id = [0; RUN_BYTES];
        for (i, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(id))
    }
}

impl serde::Serialize for RunId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A run announces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    pub(crate) run: RunId,
    /// Streams that follow.
    pub(crate) streams: u16,
    /// Records that may be issued ahead of what the witness holds, per stream.
    pub(crate) window: u32,
    /// Where it writes, in words.
    pub(crate) place: String,
}

/// How far one stream has come: everything before `acknowledged` was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) stream: u16,
    pub(crate) acknowledged: u64,
    /// The log may have been asked to forget everything before this record.
    pub(crate) trimmed: u64,
}

/// The witness's knowledge of a run beside its streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) run: RunId,
    pub(crate) streams: u16,
    /// The stream that was acknowledged last.
    pub(crate) last_stream: u16,
    pub(crate) window: u32,
    /// By the witness's clock, seconds since 1970.
    pub(crate) begun_unix_s: u64,
    /// Whether it ended by itself.
    pub(crate) ended: bool,
    /// Whether a verdict was given.
    pub(crate) judged: bool,
    pub(crate) place: String,
}

/// Any message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Hello(Nonce),
    Challenge(Nonce),
    Proof,
    Welcome,
    Begin(Begin),
    Stream(Stream),
    Ack(Ack),
    Held(Ack),
    End,
    Ask(RunId),
    Summary(Summary),
    Judged { run: RunId, convicted: bool },
    Done,
    Refused(String),
}

fn cut(text: &str) -> &[u8] {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text.as_bytes()[..end]
}

fn class_number(class: Class) -> u8 {
    match class {
        Class::ProcessCrash => 1,
        Class::SystemCrash => 2,
        Class::PowerLoss => 3,
    }
}

impl Message {
    /// Its kind, as the table numbers them.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => 1,
            Self::Challenge(_) => 2,
            Self::Proof => 3,
            Self::Welcome => 4,
            Self::Begin(_) => 5,
            Self::Stream(_) => 6,
            Self::Ack(_) => 7,
            Self::Held(_) => 8,
            Self::End => 9,
            Self::Ask(_) => 10,
            Self::Summary(_) => 11,
            Self::Judged { .. } => 12,
            Self::Done => 13,
            Self::Refused(_) => 14,
        }
    }

    /// Appends the payload to `out`.
    pub(crate) fn payload(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(nonce) | Self::Challenge(nonce) => out.extend(nonce),
            Self::Proof | Self::Welcome | Self::End | Self::Done => {}
            Self::Begin(begin) => {
                out.extend(begin.run.0);
                out.extend(begin.streams.to_le_bytes());
                out.extend([0; 2]);
                out.extend(begin.window.to_le_bytes());
                out.extend(cut(&begin.place));
            }
            Self::Stream(stream) => {
                out.extend(stream.number.to_le_bytes());
                out.push(if stream.kind == Kind::Log { 2 } else { 1 });
                out.push(class_number(stream.class));
                out.extend(stream.record_bytes.to_le_bytes());
                out.extend(stream.journal_bytes.to_le_bytes());
                out.extend(cut(&stream.method));
            }
            Self::Ack(ack) | Self::Held(ack) => {
                out.extend(ack.stream.to_le_bytes());
                out.extend([0; 6]);
                out.extend(ack.acknowledged.to_le_bytes());
                out.extend(ack.trimmed.to_le_bytes());
            }
            Self::Ask(run) => out.extend(run.0),
            Self::Summary(run) => {
                out.extend(run.run.0);
                out.extend(run.streams.to_le_bytes());
                out.extend(run.last_stream.to_le_bytes());
                out.extend(run.window.to_le_bytes());
                out.extend(run.begun_unix_s.to_le_bytes());
                out.extend([u8::from(run.ended), u8::from(run.judged), 0, 0, 0, 0, 0, 0]);
                out.extend(cut(&run.place));
            }
            Self::Judged { run, convicted } => {
                out.extend(run.0);
                out.push(u8::from(*convicted));
            }
            Self::Refused(text) => out.extend(cut(text)),
        }
    }

    /// The message of this kind with this payload.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub(crate) fn decode(kind: u8, payload: &[u8]) -> Result<Self> {
        let mut rest = Rest(payload);
        let message = match kind {
            1 => Self::Hello(rest.take()?),
            2 => Self::Challenge(rest.take()?),
            3 => Self::Proof,
            4 => Self::Welcome,
            5 => {
                let (run, streams, _) = (RunId(rest.take()?), rest.u16()?, rest.u16()?);
                Self::Begin(Begin { run, streams, window: rest.u32()?, place: rest.text()? })
            }
            6 => {
                let number = rest.u16()?;
                let kind = match rest.u8()? {
                    1 => Kind::Journal,
                    2 => Kind::Log,
                    other => return Err(odd(format!("a stream of kind {other}"))),
                };
                let class = rest.class()?;
                let (record_bytes, journal_bytes) = (rest.u32()?, rest.u64()?);
                let method = rest.method()?;
                Self::Stream(Stream { number, kind, class, record_bytes, journal_bytes, method })
            }
            7 => Self::Ack(rest.ack()?),
            8 => Self::Held(rest.ack()?),
            9 => Self::End,
            10 => Self::Ask(RunId(rest.take()?)),
            11 => rest.summary()?,
            12 => Self::Judged { run: RunId(rest.take()?), convicted: rest.u8()? != 0 },
            13 => Self::Done,
            14 => Self::Refused(rest.text()?),
            other => return Err(odd(format!("a message of kind {other}"))),
        };
        if !rest.0.is_empty() {
            return Err(odd(format!("a message of kind {kind} with {} bytes too many", rest.0.len())));
        }
        Ok(message)
    }

    /// Its header in a frame with this number.
    pub(crate) fn header(kind: u8, payload_bytes: usize, number: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&MAGIC);
        header[4] = VERSION;
        header[5] = kind;
        header[6..8].copy_from_slice(&u16::try_from(payload_bytes).unwrap_or(u16::MAX).to_le_bytes());
        header[8..].copy_from_slice(&number.to_le_bytes());
        header
    }
}

/// Kind, payload bytes and number of the frame that begins like this.
///
/// # Errors
/// [`Error::Protocol`].
pub(crate) fn read_header(header: &[u8; HEADER_BYTES]) -> Result<(u8, usize, u64)> {
    let mut rest = Rest(header);
    let magic: [u8; 4] = rest.take()?;
    if magic != MAGIC {
        return Err(odd("something that is no power-cut protocol".to_owned()));
    }
    let (version, kind, bytes, number) = (rest.u8()?, rest.u8()?, rest.u16()?, rest.u64()?);
    if version != VERSION {
        return Err(odd(format!("version {version} of the protocol, this is version {VERSION}")));
    }
    if usize::from(bytes) > PAYLOAD_BYTES_MAX {
        return Err(odd(format!("a payload of {bytes} bytes")));
    }
    Ok((kind, usize::from(bytes), number))
}

fn odd(mut what: String) -> Error {
    what.insert_str(0, "the other side sent ");
    Error::Protocol { what }
}

/// What is left to be decoded.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) =
            self.0.split_first_chunk().ok_or_else(|| odd("a message that is too short".to_owned()))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// Text that a peer chose: shown, never obeyed, wherever it goes from here.
    fn text(&mut self) -> Result<String> {
        let text = std::mem::take(&mut self.0);
        if text.len() > TEXT_BYTES_MAX {
            return Err(odd(format!("a text of {} bytes", text.len())));
        }
        let text = std::str::from_utf8(text).map_err(|_| odd("a text that is not UTF-8".to_owned()))?;
        Ok(String::from_utf8_lossy(cut(&printable(text))).into_owned())
    }

    /// A method's id. It becomes part of a file's name, so it cannot lead anywhere else.
    fn method(&mut self) -> Result<String> {
        let method = self.text()?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'_' | b':');
        if method.len() > METHOD_BYTES_MAX || !method.bytes().all(plain) {
            return Err(odd(format!("{method:?}, which is the id of no commit method")));
        }
        Ok(method)
    }

    fn class(&mut self) -> Result<Class> {
        let number = self.u8()?;
        let class = Class::ALL.into_iter().find(|class| class_number(*class) == number);
        class.ok_or_else(|| odd(format!("a durability class {number}")))
    }

    fn ack(&mut self) -> Result<Ack> {
        let stream = self.u16()?;
        self.take::<6>()?;
        Ok(Ack { stream, acknowledged: self.u64()?, trimmed: self.u64()? })
    }

    fn summary(&mut self) -> Result<Message> {
        let (run, streams, last_stream) = (RunId(self.take()?), self.u16()?, self.u16()?);
        let (window, begun_unix_s) = (self.u32()?, self.u64()?);
        let (ended, judged) = (self.u8()? != 0, self.u8()? != 0);
        self.take::<6>()?;
        let place = self.text()?;
        Ok(Message::Summary(Summary {
            run,
            streams,
            last_stream,
            window,
            begun_unix_s,
            ended,
            judged,
            place,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_message() -> Vec<Message> {
        let run = RunId([7; 16]);
        let ack = Ack { stream: 5, acknowledged: 1 << 40, trimmed: 9 };
        let stream = Stream {
            number: 2,
            kind: Kind::Log,
            class: Class::PowerLoss,
            record_bytes: 4096,
            journal_bytes: 1 << 24,
            method: "log".to_owned(),
        };
        let place = "host:/söme/place".to_owned();
        vec![
            Message::Hello([1; 32]),
            Message::Challenge([2; 32]),
            Message::Proof,
            Message::Welcome,
            Message::Begin(Begin { run, streams: 3, window: 16, place: place.clone() }),
            Message::Stream(stream.clone()),
            Message::Stream(Stream { kind: Kind::Journal, class: Class::SystemCrash, ..stream }),
            Message::Ack(ack),
            Message::Held(ack),
            Message::End,
            Message::Ask(RunId::LATEST),
            Message::Summary(Summary {
                run,
                streams: 3,
                last_stream: 1,
                window: 16,
                begun_unix_s: 77,
                ended: true,
                judged: false,
                place,
            }),
            Message::Judged { run, convicted: true },
            Message::Done,
            Message::Refused("no".to_owned()),
        ]
    }

    #[test]
    fn every_message_comes_back_and_no_truncation_of_one_is_taken_for_another_or_panics() {
        for message in every_message() {
            let mut payload = Vec::new();
            message.payload(&mut payload);
            assert!(payload.len() <= PAYLOAD_BYTES_MAX);
            assert_eq!(Message::decode(message.kind(), &payload).expect("decodes"), message);
            for end in 0..payload.len() {
                if let Ok(shorter) = Message::decode(message.kind(), &payload[..end]) {
                    assert_ne!(shorter, message, "{end} of {} bytes", payload.len());
                }
            }
            if !matches!(
                message,
                Message::Begin(_) | Message::Stream(_) | Message::Summary(_) | Message::Refused(_)
            ) {
                payload.push(0);
                assert!(Message::decode(message.kind(), &payload).is_err(), "{message:?}");
            }
        }
    }

    #[test]
    fn payloads_are_as_long_as_they_are_drawn() {
        for message in every_message() {
            let mut payload = Vec::new();
            message.payload(&mut payload);
            let drawn = match &message {
                Message::Hello(_) | Message::Challenge(_) => NONCE_BYTES,
                Message::Begin(begin) => BEGIN_BYTES + begin.place.len(),
                Message::Stream(stream) => STREAM_BYTES + stream.method.len(),
                Message::Ack(_) | Message::Held(_) => ACK_BYTES,
                Message::Ask(_) => RUN_BYTES,
                Message::Summary(run) => SUMMARY_BYTES + run.place.len(),
                Message::Judged { .. } => JUDGED_BYTES,
                Message::Refused(text) => text.len(),
                Message::Proof | Message::Welcome | Message::End | Message::Done => 0,
            };
            assert_eq!(payload.len(), drawn, "{message:?}");
        }
    }

    #[test]
    fn the_document_says_what_the_code_does() {
        let document = include_str!("../../../docs/powercut.md");
        let mut rows = 0;
        for message in every_message() {
            let name = format!("{message:?}").to_lowercase();
            let name = name.split(|c: char| !c.is_alphabetic()).next().expect("a name");
            let row =
                document.lines().find(|line| line.starts_with(&format!("| {} | {name} |", message.kind())));
            let row = row.unwrap_or_else(|| panic!("no row for {} {name}", message.kind()));
            let fields = row.split('|').nth(3).expect("its payload");
            // A number alone in parentheses is a length in bytes, a text is last.
            let bytes =
                fields.split('(').skip(1).filter_map(|rest| rest.split(')').next()?.parse::<usize>().ok());
            let mut payload = Vec::new();
            message.payload(&mut payload);
            let text = match &message {
                Message::Begin(Begin { place: text, .. })
                | Message::Summary(Summary { place: text, .. })
                | Message::Stream(Stream { method: text, .. })
                | Message::Refused(text) => text.len(),
                _ => 0,
            };
            assert_eq!(bytes.sum::<usize>() + text, payload_or_as_ack(&message, payload.len()), "{row}");
            assert_eq!(text > 0, row.contains("text"), "{row}");
            rows += 1;
        }
        assert_eq!(rows, every_message().len());
        let one_line = document.split_whitespace().collect::<Vec<_>>().join(" ");
        let frame_max = HEADER_BYTES + PAYLOAD_BYTES_MAX + TAG_BYTES;
        for said in [
            format!("(n ≤ {PAYLOAD_BYTES_MAX})"),
            format!("at most {frame_max} bytes"),
            format!("at most {TEXT_BYTES_MAX} bytes"),
            format!(
                "at most {} streams and a window of {}",
                crate::ledger::STREAMS_MAX,
                crate::ledger::WINDOW_MAX
            ),
            format!("and {} runs in its ledger", crate::ledger::RUNS_MAX),
            format!("port {}", crate::PORT),
        ] {
            assert!(one_line.contains(&said), "{said}");
        }
    }

    /// The document says of "held" that it is as "ack".
    fn payload_or_as_ack(message: &Message, bytes: usize) -> usize {
        if matches!(message, Message::Held(_)) { bytes - ACK_BYTES } else { bytes }
    }

    #[test]
    fn random_bytes_are_refused_or_decoded_but_never_panic() {
        let mut state = 1_u64;
        for round in 0..20_000_usize {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let kind = u8::try_from((state >> 56) % 20).expect("is small");
            let bytes: Vec<u8> = state.to_le_bytes().repeat(round % 80);
            if let Ok(message) = Message::decode(kind, &bytes) {
                assert_eq!(message.kind(), kind);
            }
        }
    }

    #[test]
    fn headers_of_other_protocols_versions_and_lengths_are_refused() {
        let good = Message::header(7, ACK_BYTES, 3);
        assert_eq!(read_header(&good).expect("is valid"), (7, ACK_BYTES, 3));
        for (at, byte, word) in [(0, b'X', "no power-cut"), (4, 2, "version 2"), (7, 3, "payload of")] {
            let mut bad = good;
            bad[at] = byte;
            let refused = read_header(&bad).expect_err("is refused").to_string();
            assert!(refused.contains(word), "{refused}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_run_ids_are_read_back() {
        let mut payload = Vec::new();
        Message::Refused("ä".repeat(300)).payload(&mut payload);
        assert_eq!(payload.len(), TEXT_BYTES_MAX);
        assert!(Message::decode(14, &payload).is_ok());
        let id = RunId([0xAB; 16]);
        assert_eq!(id.to_string().parse::<RunId>().expect("its own form"), id);
        for bad in ["", "ab", &"z".repeat(32), &"ä".repeat(16)] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }
}
