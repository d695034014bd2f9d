//! Defines the messages of runner, witness and checker: a line of JSON each, at most [`MESSAGE_BYTES_MAX`] bytes.
//!
//! `docs/powercut.md` shows each of them as it is sent; a test compares.
//!
//! A message is valid if and only if it is one JSON document of [`Message`] without unknown fields, and a method's id
//! in it has at most 64 ASCII letters, digits, `+`, `-`, `_` and `:`. What is out of bounds otherwise is refused by
//! the ledger or by the checker.

use std::fmt;
use std::str::FromStr;

use seawall_host::text::{printable, printable_cut};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::stream::Stream;

/// The version of the protocol.
pub(crate) const PROTOCOL: u32 = 3;
/// The longest message in bytes: a run of 64 streams, with room.
pub(crate) const MESSAGE_BYTES_MAX: usize = 32 << 10;
/// The longest text in bytes; what is longer is cut.
pub(crate) const TEXT_BYTES_MAX: usize = 400;
/// The longest id of a commit method in bytes.
const METHOD_BYTES_MAX: usize = 64;
/// Characters of an error about a message that could not be read: it may quote the message.
const QUOTED_CHARS_MAX: usize = 80;

/// Which run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub(crate) [u8; 16]);

impl RunId {
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

impl FromStr for RunId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::Request(format!(
                "{text:?} is no run: a run is 32 hexadecimal digits, as `run` prints them"
            ))
        };
        if text.len() != 32 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut id = [0; 16];
        for (i, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(id))
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A run announces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Begin {
    pub(crate) run: RunId,
    /// Records that may be issued ahead of what the witness holds, per stream.
    pub(crate) window: u32,
    /// Where it writes, in words.
    #[serde(deserialize_with = "text")]
    pub(crate) place: String,
    /// What it writes, in the order of their numbers.
    pub(crate) streams: Vec<Stream>,
}

/// How far one stream has come: everything before `acknowledged` was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ack {
    pub(crate) stream: u16,
    pub(crate) acknowledged: u64,
    /// The log may have been trimmed up to this record.
    pub(crate) trimmed: u64,
}

/// What the witness knows of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub(crate) begin: Begin,
    /// By the witness's clock, microseconds since 1970.
    pub(crate) begun_unix_us: u64,
    /// Of each stream, in the order of their numbers.
    pub(crate) held: Vec<Ack>,
    pub(crate) last_stream: u16,
    /// Whether it ended by itself.
    pub(crate) ended: bool,
}

/// Any message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message {
    /// From the witness, first of all: the version of the protocol that it speaks.
    Witness(u32),
    /// From the runner: what it will write.
    Begin(Begin),
    /// From the runner: what was acknowledged. From the witness: what it holds durably.
    Ack(Ack),
    /// From the runner: it ended by itself.
    End,
    /// From the checker: which run, the latest if none is named.
    Ask(Option<RunId>),
    /// From the witness: what it knows.
    Run(Run),
    /// From the witness: what was requested is durable.
    Done,
    /// From the witness, last of all: why it ends.
    Refused(#[serde(deserialize_with = "text")] String),
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Writing to memory does not fail, and no key of a map is anything but text.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn decode(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| Error::Protocol {
            what: format!(
                "the other side sent {:?}, which cannot be read: {}",
                printable_cut(&String::from_utf8_lossy(json), QUOTED_CHARS_MAX),
                printable_cut(&error.to_string(), QUOTED_CHARS_MAX)
            ),
        })
    }
}

/// Text that a peer chose: shown, never obeyed, wherever it goes from here.
pub(crate) fn shown(text: &str) -> String {
    let shown = printable(text);
    shown[..shown.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| shown(&text))
}

/// A method's id. It becomes part of a file's name, so it cannot lead anywhere else.
pub(crate) fn method<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<String, D::Error> {
    let id = String::deserialize(deserializer)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'_' | b':');
    if id.len() > METHOD_BYTES_MAX || !id.bytes().all(plain) {
        return Err(D::Error::custom("the id of no commit method"));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::StreamKind;
    use seawall_sys::durability::Durability;

    fn every_message() -> Vec<Message> {
        let run = RunId([7; 16]);
        let ack = Ack { stream: 0, acknowledged: 1 << 40, trimmed: 9 };
        let stream = Stream { journal_bytes: 1 << 22, ..Stream::sample(0, StreamKind::Log) };
        let begin = Begin { run, window: 16, place: "/söme/place".to_owned(), streams: vec![stream] };
        vec![
            Message::Witness(PROTOCOL),
            Message::Begin(begin.clone()),
            Message::Ack(ack),
            Message::End,
            Message::Ask(None),
            Message::Ask(Some(run)),
            Message::Run(Run {
                begin,
                begun_unix_us: 1_790_000_000_000_000,
                held: vec![ack],
                last_stream: 0,
                ended: true,
            }),
            Message::Done,
            Message::Refused("it has seen no run yet".to_owned()),
        ]
    }

    #[test]
    fn every_message_comes_back_and_no_part_of_one_is_taken_for_a_message() {
        for message in every_message() {
            let json = message.encode();
            assert_eq!(Message::decode(&json).expect("decodes"), message);
            for end in 0..json.len() {
                assert!(Message::decode(&json[..end]).is_err(), "{end} of {} bytes", json.len());
            }
            assert!(Message::decode(&[&json[..], b"0"].concat()).is_err(), "{message:?}");
        }
    }

    #[test]
    fn the_longest_run_fits_into_a_message() {
        let Some(Message::Run(mut run)) = every_message().into_iter().nth(6) else { panic!("a run") };
        let stream = Stream {
            number: u16::MAX,
            kind: StreamKind::Journal,
            class: Durability::ProcessCrash,
            record_bytes: u32::MAX,
            journal_bytes: u64::MAX,
            method: "m".repeat(METHOD_BYTES_MAX),
        };
        let ack = Ack { stream: u16::MAX, acknowledged: u64::MAX, trimmed: u64::MAX };
        let streams = usize::from(crate::ledger::STREAMS_MAX);
        (run.begin.streams, run.held) = (vec![stream; streams], vec![ack; streams]);
        run.begin.place = "\\".repeat(TEXT_BYTES_MAX);
        let bytes = Message::Run(run).encode().len();
        assert!(bytes <= MESSAGE_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn the_document_shows_every_message_and_every_bound() {
        let document = include_str!("../../../docs/powercut.md");
        for message in every_message() {
            let json = String::from_utf8(message.encode()).expect("is text");
            assert!(document.contains(&format!("  {json}\n")), "{json}");
        }
        let one_line = document.split_whitespace().collect::<Vec<_>>().join(" ");
        for said in [
            format!("at most {MESSAGE_BYTES_MAX} bytes"),
            format!("at most {TEXT_BYTES_MAX} bytes"),
            format!("at most {METHOD_BYTES_MAX} ASCII letters"),
            format!(
                "at most {} streams and a window of {}",
                crate::ledger::STREAMS_MAX,
                crate::ledger::WINDOW_MAX
            ),
        ] {
            assert!(one_line.contains(&said), "{said}");
        }
    }

    #[test]
    fn what_a_peer_chose_is_refused_or_harmless() {
        let long = "\u{1b}[2J".repeat(9000);
        for (json, said) in [
            (r#"{"ask":"../../etc"}"#, "is no run"),
            (r#"{"ack":{"stream":70000,"acknowledged":1,"trimmed":0}}"#, "70000"),
            (r#"{"ack":{"stream":1,"acknowledged":1,"trimmed":0,"more":0}}"#, "more"),
            (&format!("{{{long:?}:1}}"), "cannot be read"),
            ("Last login: Mon Nov  1 from nowhere", "Last login"),
            (&"[".repeat(30_000), "cannot be read"),
            ("\u{1b}]0;title", "cannot be read"),
        ] {
            let refused = Message::decode(json.as_bytes()).expect_err(said).to_string();
            assert!(refused.contains(said) && refused.len() < 1024, "{refused}");
            assert_eq!(printable(&refused), refused);
        }
        let mut begin = String::from_utf8(every_message()[1].encode()).expect("is text");
        let hostile = begin.replace("/söme/place", &format!("\\u001b{}", "ä".repeat(300)));
        let Ok(Message::Begin(taken)) = Message::decode(hostile.as_bytes()) else { panic!("{hostile}") };
        assert!(taken.place.starts_with("\\u{1b}ä") && taken.place.len() <= TEXT_BYTES_MAX);
        for id in ["../x", "a b", &"m".repeat(METHOD_BYTES_MAX + 1)] {
            begin = String::from_utf8(every_message()[1].encode()).expect("is text");
            begin = begin.replace("\"method\":\"log\"", &format!("\"method\":{id:?}"));
            assert!(Message::decode(begin.as_bytes()).is_err(), "{id}");
        }
    }

    #[test]
    fn random_bytes_are_refused_or_decoded_but_never_panic() {
        let mut state = 1_u64;
        let valid: Vec<Vec<u8>> = every_message().iter().map(Message::encode).collect();
        for round in 0..20_000_usize {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut json = valid[round % valid.len()].clone();
            let at = usize::try_from(state >> 32).unwrap_or_default() % json.len();
            json[at] = state.to_le_bytes()[3];
            if let Ok(message) = Message::decode(&json) {
                assert_eq!(Message::decode(&message.encode()).expect("was one"), message);
            }
        }
    }

    #[test]
    fn run_ids_are_read_back() {
        let id = RunId([0xAB; 16]);
        assert_eq!(id.to_string().parse::<RunId>().expect("its own form"), id);
        for bad in ["", "ab", &"z".repeat(32), &"ä".repeat(16)] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }
}
