//! Defines what processes ask of the owner of the log, and frames it on a stream of bytes.
//!
//! ```text
//!  0          4
//!  | len u32  | number u64, then a request or an answer, by postcard |
//! ```
//!
//! Every answer has the number of its request. The first request is [`Request::Hello`].

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::refusal::Refusal;

/// Of the protocol: both sides must have the same.
pub(crate) const VERSION: u32 = 2;
/// The longest frame: the longest record of a log and its head.
const FRAME_MAX: usize = (1 << 30) + (1 << 16);

/// What is asked of the owner.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Request {
    /// The first: which handle this is, which messages are out there, with their attempts, and when they are handed out again.
    Hello {
        version: u32,
        session: u64,
        out: Vec<(u64, u32)>,
        redeliver_ms: Option<u64>,
    },
    /// Answered when they are durable.
    Put {
        bodies: Vec<Vec<u8>>,
        delay_ms: u64,
    },
    /// Answered when there are messages, or the time is over: then with none.
    Get {
        messages_max: u32,
        wait_ms: Option<u64>,
        redeliver_ms: Option<u64>,
        attempts_max: u32,
    },
    /// Ends that request of this session for messages, if it waits: it is answered with none.
    Cancel {
        number: u64,
    },
    /// Answered when it is durable.
    Ack {
        seqs: Vec<u64>,
    },
    /// Gives a message back, if that attempt is out at this session.
    Nack {
        seq: u64,
        attempts: u32,
        delay_ms: u64,
    },
    Peek {
        messages_max: u32,
    },
    DeadLetters {
        letters_max: u32,
    },
    /// Puts all dead letters into the queue again.
    RetryDead,
    DropDead,
    /// Removes what waits and what is delayed.
    Purge,
    Stats,
}

/// What the owner answers.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Answer {
    Hello { version: u32 },
    Put { first: u64 },
    Messages(Vec<Delivered>),
    Done,
    Count(u64),
    DeadLetters(Vec<DeadLetter>),
    Stats(Stats),
    Refused(Refusal),
}

/// A message as it is handed out.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Delivered {
    pub(crate) seq: u64,
    pub(crate) id: u64,
    pub(crate) attempts: u32,
    pub(crate) body: Vec<u8>,
}

/// A message that was tried too often.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeadLetter {
    /// The ID that it had in the queue.
    pub id: u64,
    /// How often it was handed out.
    pub attempts: u32,
    /// What was put.
    pub body: Vec<u8>,
}

/// What a queue holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stats {
    /// Messages that could be handed out.
    pub waiting: u64,
    /// Messages that are out at consumers.
    pub out: u64,
    /// Messages that are delayed.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Handles that use the queue, that of the owner included.
    pub handles: u64,
}

/// A frame.
pub(crate) fn frame(number: u64, what: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(&(number, what), vec![0; 4]).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - 4).ok().filter(|length| *length as usize <= FRAME_MAX);
    let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "it is longer than 1 GiB");
    bytes[..4].copy_from_slice(&length.ok_or_else(too_long)?.to_le_bytes());
    Ok(bytes)
}

/// Writes a frame.
pub(crate) fn write(to: &mut impl Write, number: u64, what: &impl Serialize) -> io::Result<()> {
    to.write_all(&frame(number, what)?)
}

/// Reads a frame; `None` at the end.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(u64, T)>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_le_bytes(length) as usize;
    let bad = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    if length > FRAME_MAX {
        return Err(bad("a frame is too long"));
    }
    let mut bytes = Vec::new();
    // Memory is taken as the bytes come, whatever length a frame claims.
    if from.take(length as u64).read_to_end(&mut bytes)? < length {
        return Ok(None);
    }
    postcard::from_bytes(&bytes).map(Some).map_err(|_| bad("a frame is not of this protocol"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_and_damage_is_an_error() {
        let mut bytes = Vec::new();
        write(&mut bytes, 7, &Request::Put { bodies: vec![b"body".to_vec()], delay_ms: 1 }).expect("writes");
        let whole: Option<(u64, Request)> = read(&mut &bytes[..]).expect("reads");
        assert!(
            matches!(whole, Some((7, Request::Put { bodies, delay_ms: 1 })) if bodies == [b"body".to_vec()])
        );
        for length in 0..bytes.len() {
            assert!(read::<Request>(&mut &bytes[..length]).expect("ends").is_none());
        }
        let last = bytes.len() - 1;
        bytes[4 + 1] = 0xff;
        assert!(read::<Request>(&mut &bytes[..=last]).is_err());
        assert!(read::<Request>(&mut &[0xff; 8][..]).is_err());
    }
}
