//! Defines the records of a queue: messages, marks of what became of them, dead letters.
//!
//! ```text
//! message, stream 0        dead letter, stream 2             mark, stream 1
//!  0      8                 0      8          12   16         0            8
//!  | id u64 | body …        | id u64 | attempts | 0 | body …  | next u64 | change | change | …
//!
//! change
//!  0       8          12       16      24      32
//!  | seq u64 | attempts | kind u32 | a u64 | b u64 |
//!  kind 0 gone   acknowledged: it has no place any more
//!  kind 1 out    handed out: a = the session, 0 for that of the process that owned the log
//!  kind 2 delayed a = for how long, b = since when, both in milliseconds, by the wall clock
//!  kind 3 moved  to the sequence number a, where it has a change of its own
//!
//! next: every message before it was handed out, or has a change. Its highest bit: this mark begins a snapshot, and no earlier one counts
//! ```
//!
//! All numbers are little-endian. A message that is moved to the end of its stream keeps its ID: the sequence number that it got first.

use seawall::StreamId;

use crate::error::Error;

/// Where the messages are, and what became of them.
pub(crate) const MESSAGES: StreamId = stream(0);
pub(crate) const MARKS: StreamId = stream(1);
pub(crate) const DEAD: StreamId = stream(2);

const fn stream(number: u32) -> StreamId {
    StreamId::new(number).expect("a number below 2^24")
}

const MESSAGE_HEAD: usize = 8;
const DEAD_HEAD: usize = 16;
const MARK_HEAD: usize = 8;
/// Bytes of one change.
pub(crate) const CHANGE: usize = 32;
const SNAPSHOT: u64 = 1 << 63;

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Gone,
    Out { attempts: u32, session: u64 },
    Delayed { attempts: u32, delay_ms: u64, since_ms: u64 },
    Moved { to: u64 },
}

/// A record of the stream of marks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) begins_snapshot: bool,
    pub(crate) next: u64,
    pub(crate) changes: Vec<(u64, Change)>,
}

impl Mark {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MARK_HEAD + CHANGE * self.changes.len());
        bytes.extend((self.next | if self.begins_snapshot { SNAPSHOT } else { 0 }).to_le_bytes());
        for (seq, change) in &self.changes {
            let (attempts, kind, a, b) = match *change {
                Change::Gone => (0, 0_u32, 0, 0),
                Change::Out { attempts, session } => (attempts, 1, session, 0),
                Change::Delayed { attempts, delay_ms, since_ms } => (attempts, 2, delay_ms, since_ms),
                Change::Moved { to } => (0, 3, to, 0),
            };
            bytes.extend(seq.to_le_bytes());
            bytes.extend(attempts.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend(a.to_le_bytes());
            bytes.extend(b.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<MARK_HEAD>()?;
        let head = u64::from_le_bytes(*head);
        let (changes, []) = rest.as_chunks::<CHANGE>() else { return None };
        let changes = changes.iter().map(|change| {
            let attempts = u32::from_le_bytes(*change[8..].first_chunk()?);
            let kind = u32::from_le_bytes(*change[12..].first_chunk()?);
            let (a, b) = (u64_at(change, 16)?, u64_at(change, 24)?);
            let change_is = match kind {
                0 => Change::Gone,
                1 => Change::Out { attempts, session: a },
                2 => Change::Delayed { attempts, delay_ms: a, since_ms: b },
                3 => Change::Moved { to: a },
                _ => return None,
            };
            Some((u64_at(change, 0)?, change_is))
        });
        Some(Self {
            begins_snapshot: head & SNAPSHOT != 0,
            next: head & !SNAPSHOT,
            changes: changes.collect::<Option<_>>()?,
        })
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The length of a message's record.
pub(crate) fn message_bytes(body: &[u8]) -> u64 {
    (MESSAGE_HEAD + body.len()) as u64
}

/// A message as its record.
pub(crate) fn message(id: u64, body: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes(), body].concat()
}

/// The ID and the body of a message.
pub(crate) fn read_message(bytes: &[u8]) -> Result<(u64, &[u8]), Error> {
    let (id, body) = bytes.split_first_chunk::<MESSAGE_HEAD>().ok_or(Error::Foreign)?;
    Ok((u64::from_le_bytes(*id), body))
}

/// A dead letter as its record.
pub(crate) fn dead_letter(id: u64, attempts: u32, body: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes()[..], &attempts.to_le_bytes(), &[0; 4], body].concat()
}

/// The ID, the attempts and the body of a dead letter.
pub(crate) fn read_dead_letter(bytes: &[u8]) -> Result<(u64, u32, &[u8]), Error> {
    let (head, body) = bytes.split_first_chunk::<DEAD_HEAD>().ok_or(Error::Foreign)?;
    let attempts = head[8..].first_chunk().ok_or(Error::Foreign)?;
    Ok((u64_at(head, 0).ok_or(Error::Foreign)?, u32::from_le_bytes(*attempts), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_else_is() {
        let changes = vec![
            (1, Change::Gone),
            (2, Change::Out { attempts: 3, session: 4 }),
            (5, Change::Delayed { attempts: 6, delay_ms: 7, since_ms: 8 }),
            (9, Change::Moved { to: 10 }),
        ];
        for begins_snapshot in [false, true] {
            let mark = Mark { begins_snapshot, next: 9, changes: changes.clone() };
            let bytes = mark.encode();
            assert_eq!(bytes.len(), MARK_HEAD + 4 * CHANGE);
            assert_eq!(Mark::decode(&bytes), Some(mark));
            assert_eq!(Mark::decode(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(Mark::decode(&[0; 7]), None);
        let mut unknown = vec![0; MARK_HEAD + CHANGE];
        unknown[MARK_HEAD + 12] = 4;
        assert_eq!(Mark::decode(&unknown), None);
        assert_eq!(read_message(&message(1, b"body")).expect("decodes"), (1, &b"body"[..]));
        assert!(matches!(read_message(b"1234567"), Err(Error::Foreign)));
        assert_eq!(read_dead_letter(&dead_letter(1, 2, b"body")).expect("decodes"), (1, 2, &b"body"[..]));
        assert!(matches!(read_dead_letter(&[0; 15]), Err(Error::Foreign)));
    }
}
