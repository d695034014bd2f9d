//! Defines the messages that carry a log, and the rule by which any reader finds the log in them.
//!
//! A destination is a sequence of messages. A message is a header and a payload; every number is little-endian:
//!
//! ```text
//!  at  size
//!   0   4   magic "SWSM"
//!   4   2   version: 1, or 2 if the payload is compressed
//!   6   2   kind: 1 batches, 2 epoch
//!   8  16   identity of the log
//!  24   8   epoch: how often the right to write here was taken; `term` in the JSON of commands
//!  32  16   owner: chosen at random by the directory of the log that took it
//!  48   8   number: how many messages of the chain come before this one
//!  56   8   LSN where its batches begin
//!  64   8   LSN where they end
//!  72   4   link before: checksum of the header of the batch before them
//!  76   4   link: checksum of the header of the last of them
//!  80   4   length of the payload in bytes
//!  84   4   records in the batches
//!  88   2   part, from 0
//!  90   2   parts
//!  92   4   length of the payload in bytes before it was compressed by zstd; 0 if it was not
//!  96   8   time of the latest batch, microseconds since 1970
//! 104  32   SHA-256 of the message before in the chain, zeros for the first
//! 136   8   stored: how many messages of the chain its writer knew to be stored when it made it; 0 if it does not say
//! 144   8   sent: when its writer made it, microseconds since 1970; 0 if it does not say
//! 152   4   zero
//! 156   4   CRC-32C of bytes 0–155 and the payload
//! ```
//!
//! The payload of batches is pieces of the log, as `seawall::SealedFollower` hands them out; marks travel before the next
//! batch with records. One that is longer than the destination takes is cut into parts. The payload of an epoch is 16 bytes
//! that no other epoch has.
//!
//! The **chain** is read from the first message on. A message belongs to it if and only if (1) it states the SHA-256 of the
//! last message that belongs to it, and its number, and (2) it is an epoch, higher than the last one, or batches of the epoch and the owner
//! of the last epoch. Everything else is left over from a race and ignored: a late message of a writer that was replaced, a
//! second copy. So is what does not begin with the magic: it is no message, and no chain runs through it. What belongs to the chain
//! and is invalid, of another log, or does not continue it, is damage.
//!
//! The time of the latest batch is that of the log, which never goes back: after a jump of the clock it is ahead for as long as the
//! jump was long. When a message was sent is by the clock at that moment. A message is no younger than either says ([`Header::made_us`]).
//!
//! Invariants: the bytes of a message do not depend on its position in the destination, so that it can be sent again as it is;
//! of two writers that both extend the chain the one that comes first makes the other's messages ignored. A message in the
//! middle that is missing, or replaced by another sound one, has all after it ignored; [`Chain::has_lost`] tells that from a race.

use crate::compression;
use crate::error::{Error, Result};
use seawall::{LogId, Lsn};
use seawall_sys::planted;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;

/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 160;
const MAGIC: [u8; 4] = *b"SWSM";
const VERSION: u16 = 1;
/// Of a message whose payload is compressed, so that a reader that knows none of it refuses it.
const VERSION_COMPRESSED: u16 = 2;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// What names a message.
pub type Hash = [u8; 32];
/// The directory of a log that took the right to write.
pub type Owner = [u8; 16];

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It holds batches.
    Batches,
    /// A writer takes the right to write.
    Epoch,
}

/// The header of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// What it is for.
    pub kind: Kind,
    /// Which log.
    pub log_id: LogId,
    /// How often the right to write was taken.
    pub epoch: u64,
    /// By whom.
    pub owner: Owner,
    /// How many messages of the chain come before this one.
    pub number: u64,
    /// Where its batches begin.
    pub lsn: Lsn,
    /// Where they end.
    pub end: Lsn,
    /// What the first batch follows.
    pub link_before: u32,
    /// What the next batch follows.
    pub link: u32,
    /// Records in the batches.
    pub records: u32,
    /// This part, from 0, and how many there are.
    pub part: (u16, u16),
    /// When the latest batch was gathered, microseconds since 1970.
    pub time_us: u64,
    /// The length of the payload before it was compressed, if it was.
    pub raw_bytes: Option<u32>,
    /// The message before in the chain.
    pub previous: Hash,
    /// How many messages of the chain its writer knew to be stored when it made it; 0 if it does not say.
    pub stored: u64,
    /// When its writer made it, microseconds since 1970; 0 if it does not say.
    pub sent_us: u64,
}

/// Whether it begins as a message does. What does not is none, whatever it is.
#[must_use]
pub fn is_message(bytes: &[u8]) -> bool {
    planted!(ShipNoMessageIsDamage, bytes.starts_with(&MAGIC))
}

/// Whether a message says by its version that its payload is compressed.
pub(crate) fn is_compressed(bytes: &[u8]) -> bool {
    bytes.get(4..6) == Some(&VERSION_COMPRESSED.to_le_bytes())
}

pub(crate) fn crc32c(parts: [&[u8]; 2]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    u32::try_from(digest.finalize() & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// What names the message `bytes`.
#[must_use]
pub fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

pub(crate) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

impl Header {
    /// The message with this header and payload.
    ///
    /// # Panics
    /// If the payload is longer than 4 GiB.
    #[must_use]
    pub fn seal(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.reserve_exact(payload.len());
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let length = u32::try_from(payload.len()).expect("batches are no longer than 2 GiB");
        put(0, &MAGIC);
        let version = self.raw_bytes.map_or(VERSION, |_| VERSION_COMPRESSED);
        put(4, &version.to_le_bytes());
        put(6, &(if self.kind == Kind::Batches { 1_u16 } else { 2 }).to_le_bytes());
        put(8, &self.log_id.0);
        put(24, &self.epoch.to_le_bytes());
        put(32, &self.owner);
        put(48, &self.number.to_le_bytes());
        put(56, &self.lsn.get().to_le_bytes());
        put(64, &self.end.get().to_le_bytes());
        put(72, &self.link_before.to_le_bytes());
        put(76, &self.link.to_le_bytes());
        put(80, &length.to_le_bytes());
        put(84, &self.records.to_le_bytes());
        put(88, &self.part.0.to_le_bytes());
        put(90, &self.part.1.to_le_bytes());
        put(92, &self.raw_bytes.unwrap_or(0).to_le_bytes());
        put(96, &self.time_us.to_le_bytes());
        put(104, &self.previous);
        put(136, &self.stored.to_le_bytes());
        put(144, &self.sent_us.to_le_bytes());
        let sum = crc32c([&bytes[..CHECKSUM_AT], payload]);
        bytes[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    /// The header and the payload of a message.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn open(bytes: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        if bytes.len() < HEADER_BYTES {
            return Err("it is shorter than a header");
        }
        let (header, payload) = bytes.split_at(HEADER_BYTES);
        if header[..4] != MAGIC {
            return Err("it does not begin like a message of a log");
        }
        if u32::from_le_bytes(take(header, CHECKSUM_AT)) != crc32c([&header[..CHECKSUM_AT], payload]) {
            return Err("its checksum is wrong");
        }
        let compressed = match u16::from_le_bytes(take(header, 4)) {
            VERSION => false,
            VERSION_COMPRESSED => true,
            _ => return Err("it is of a version that this program does not know"),
        };
        let word = |at| u64::from_le_bytes(take(header, at));
        let half = |at| u32::from_le_bytes(take(header, at));
        let kind = match u16::from_le_bytes(take(header, 6)) {
            1 => Kind::Batches,
            2 => Kind::Epoch,
            _ => return Err("it is of an unknown kind"),
        };
        let opened = Self {
            kind,
            log_id: LogId(take(header, 8)),
            epoch: word(24),
            owner: take(header, 32),
            number: word(48),
            lsn: Lsn::new(word(56)),
            end: Lsn::new(word(64)),
            link_before: half(72),
            link: half(76),
            records: half(84),
            part: (u16::from_le_bytes(take(header, 88)), u16::from_le_bytes(take(header, 90))),
            time_us: word(96),
            raw_bytes: compressed.then(|| half(92)),
            previous: take(header, 104),
            stored: word(136),
            sent_us: word(144),
        };
        let unused = header[152..CHECKSUM_AT].iter().all(|byte| *byte == 0);
        let sound = unused
            && compressed == (half(92) > 0)
            && usize::try_from(half(80)).is_ok_and(|length| length == payload.len());
        let ordered = opened.lsn <= opened.end && opened.part.0 < opened.part.1;
        if sound && ordered { Ok((opened, payload)) } else { Err("its header contradicts itself") }
    }
}

impl Header {
    /// When its batches were made at the latest: one jump of the clock makes it later for the messages of that moment alone.
    #[must_use]
    pub fn made_us(&self) -> u64 {
        if self.sent_us == 0 { self.time_us } else { self.time_us.min(self.sent_us) }
    }

    /// The payload as it was before it was compressed.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn unpack<'a>(&self, payload: &'a [u8]) -> Result<Cow<'a, [u8]>, &'static str> {
        compression::unpack(payload, self.raw_bytes)
    }

    /// The message with this header and payload, which is compressed if that makes it shorter.
    #[must_use]
    pub fn seal_compressed(mut self, payload: &[u8]) -> (Self, Vec<u8>) {
        let raw_bytes = u32::try_from(payload.len()).ok().filter(|length| *length > 0);
        let packed = compression::pack(payload).filter(|_| raw_bytes.is_some());
        self.raw_bytes = packed.as_ref().and(raw_bytes);
        let bytes = self.seal(packed.as_deref().unwrap_or(payload));
        (self, bytes)
    }
}

/// How far the chain was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chain {
    /// Where in the destination it was read to: the position of the last message that was looked at, 0 for none.
    pub position: u64,
    /// How many messages belong to it.
    pub number: u64,
    /// The last of them.
    pub last: Hash,
    /// Where that lies, 0 if it is not known.
    pub last_at: u64,
    /// The last epoch, 0 for none.
    pub epoch: u64,
    /// Who took it.
    pub owner: Owner,
    /// Which log it is, once a message came.
    pub log_id: Option<LogId>,
    /// Where the next batch is due.
    pub lsn: Lsn,
    /// What it follows.
    pub link: u32,
    /// Where the batches of the last whole message begin: the log is needed from there to continue.
    pub needed: Lsn,
    /// A message of which parts are missing: how many came, and its header.
    pub(crate) open: Option<(u16, Header)>,
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            position: 0,
            number: 0,
            last: [0; 32],
            last_at: 0,
            epoch: 0,
            owner: [0; 16],
            log_id: None,
            lsn: Lsn::ZERO,
            link: 0,
            needed: Lsn::ZERO,
            open: None,
        }
    }
}

/// What a message is to the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It is its next one.
    Next(Header, Cow<'a, [u8]>),
    /// It is left over from a race, or no message.
    Ignored,
}

impl Chain {
    /// A chain of which nothing is known but its last message, at `position`.
    pub(crate) fn ending_with(position: u64, header: Header, bytes: &[u8]) -> Self {
        let (part, parts) = header.part;
        let is_whole = header.kind == Kind::Epoch || part + 1 == parts;
        let (lsn, link) = if is_whole { (header.end, header.link) } else { (header.lsn, header.link_before) };
        Self {
            position,
            number: header.number.saturating_add(1),
            last: hash(bytes),
            last_at: position,
            epoch: header.epoch,
            owner: header.owner,
            log_id: Some(header.log_id),
            lsn,
            link,
            needed: header.lsn,
            open: (!is_whole).then_some((part + 1, header)),
        }
    }

    /// Whether a message that was ignored proves that one of the chain is missing, or that another one lies in its place: its
    /// writer knew more of them to be stored, or had at most `in_flight` messages in flight, and all before those in the chain.
    #[must_use]
    pub fn has_lost(&self, ignored: &Header, in_flight: u64) -> bool {
        let ahead = ignored.number.saturating_sub(self.number);
        match ignored.kind {
            // A writer sends batches only after its epoch.
            Kind::Batches if ignored.epoch > self.epoch => true,
            Kind::Batches => ignored.stored > self.number || ahead >= in_flight,
            // Its place may have been guessed by such a batch.
            Kind::Epoch => ahead >= 2 * in_flight,
        }
    }

    /// Looks at the message after the last one, at the next position.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it belongs to the chain and is invalid; the chain then stays where it was.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<Verdict<'a>> {
        let position = self.position + 1;
        let damaged = |what: String| Error::Damaged { position, what };
        if !is_message(bytes) {
            self.position = position;
            return Ok(Verdict::Ignored);
        }
        let (header, payload) = Header::open(bytes).map_err(|what| damaged(what.to_owned()))?;
        if !self.is_next(&header) {
            self.position = position;
            return Ok(Verdict::Ignored);
        }
        if self.log_id.is_some_and(|log_id| log_id != header.log_id) {
            return Err(damaged(format!("it belongs to another log, {}", header.log_id)));
        }
        // After a part of a message comes the next part, or an epoch that drops it.
        let due = match &self.open {
            Some((came, open)) if header.kind == Kind::Batches => {
                let same = (open.lsn, open.end, open.link, open.part.1)
                    == (header.lsn, header.end, header.link, header.part.1);
                same && header.part.0 == *came
            }
            _ => header.part.0 == 0,
        };
        if !due || (header.lsn, header.link_before) != (self.lsn, self.link) {
            let what = format!("it continues at LSN {}, but LSN {} is due", header.lsn, self.lsn);
            return Err(damaged(what));
        }
        let payload = header.unpack(payload).map_err(|what| damaged(what.to_owned()))?;
        self.position = position;
        self.follow(&header, bytes);
        Ok(Verdict::Next(header, payload))
    }

    /// Adds the message `bytes` with this header, which is the next one.
    pub(crate) fn follow(&mut self, header: &Header, bytes: &[u8]) {
        self.number += 1;
        self.last = hash(bytes);
        self.last_at = self.position;
        self.log_id = Some(header.log_id);
        (self.epoch, self.owner) = (header.epoch, header.owner);
        let (part, parts) = header.part;
        if header.kind == Kind::Batches && part + 1 < parts {
            self.open = Some((part + 1, header.clone()));
        } else {
            self.open = None;
            if header.end > self.lsn {
                self.needed = header.lsn;
            }
            (self.lsn, self.link) = (header.end, header.link);
        }
    }

    fn is_next(&self, header: &Header) -> bool {
        let follows =
            planted!(ShipChainIgnored, (header.previous, header.number) == (self.last, self.number));
        let in_turn = match header.kind {
            Kind::Epoch => header.epoch > self.epoch,
            Kind::Batches => (header.epoch, header.owner) == (self.epoch, self.owner),
        };
        follows && in_turn
    }

    /// Whether the last message is one of which parts are missing.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The header of a message that follows.
    #[must_use]
    pub fn next_header(&self, kind: Kind, log_id: LogId, (epoch, owner): (u64, Owner)) -> Header {
        Header {
            kind,
            log_id,
            epoch,
            owner,
            number: self.number,
            lsn: self.lsn,
            end: self.lsn,
            link_before: self.link,
            link: self.link,
            records: 0,
            part: (0, 1),
            time_us: 0,
            raw_bytes: None,
            previous: self.last,
            stored: 0,
            sent_us: 0,
        }
    }
}
