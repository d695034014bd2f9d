//! Manifests state where the segments of an archive begin, so that no reader must list or read everything.
//!
//! `manifests/N` says what the chain of messages is at position N, before a message that begins a segment of the log. It is
//! created once, after that message, which holds all of it: a manifest can always be held against the message. Every number is
//! little-endian:
//!
//! ```text
//!  at  size
//!   0   4   magic "SWAM"
//!   4   2   version
//!   6   2   zero
//!   8  16   identity of the log
//!  24   8   position N: of the last message in front of the segment, 0 for none
//!  32   8  number: how many messages belong to the chain up to there
//!  40  32   SHA-256 of the last of them
//!  72   8   epoch
//!  80  16   owner
//!  96   8   LSN where the segment begins
//! 104   4   link: checksum of the header of the batch before it
//! 108   4   zero
//! 112   8   when the message after N was made at the latest, microseconds since 1970
//! 120   4   zero
//! 124   4   CRC-32C of bytes 0–123
//! ```
//!
//! A manifest is valid if and only if (1) it is as drawn, and its checksum is right, (2) it lies under the name of its position, and
//! (3) the message after its position is there, follows its chain, and begins a segment at its LSN.
//!
//! Invariants: nothing is removed by a manifest, and no reading begins at one, before the message after it was read and fits; the last
//! message is never taken from one, only listed from there; without manifests everything is found as well, by listing and reading more.

use crate::archive::{Archive, MESSAGES, Store, message_name};
use crate::error::{Error, Result};
use crate::message::{Chain, HEADER_BYTES, Hash, Header, Kind, Owner, Verdict, crc32c, is_compressed, take};
use seawall::{LogId, Lsn};
use seawall_sys::planted;

/// Length of a manifest in bytes.
pub const MANIFEST_BYTES: usize = 128;
const MAGIC: [u8; 4] = *b"SWAM";
const VERSION: u16 = 1;
const CHECKSUM_AT: usize = MANIFEST_BYTES - 4;
const _: () = assert!(HEADER_BYTES >= MANIFEST_BYTES, "one read of a part serves both");

/// What a segment of the log begins with.
const SEGMENT_MAGIC: &[u8] = b"SWLS";

/// What is wrong with one that does not lie under its position.
const NAMED_OTHERWISE: &str = "its name is not that of its position";

pub(crate) const MANIFESTS: &str = "manifests/";

pub(crate) fn manifest_name(position: u64) -> String {
    format!("{MANIFESTS}{position:020}")
}

/// Whether a message begins a segment of the log.
pub(crate) fn begins_segment(header: &Header, payload: &[u8]) -> bool {
    header.kind == Kind::Batches && header.part.0 == 0 && payload.starts_with(SEGMENT_MAGIC)
}

/// What the chain is before a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Which log.
    pub log_id: LogId,
    /// The last message before the segment.
    pub position: u64,
    /// How many messages belong to the chain up to there.
    pub number: u64,
    /// The last of them.
    pub last: Hash,
    /// The epoch.
    pub epoch: u64,
    /// Who took it.
    pub owner: Owner,
    /// Where the segment begins.
    pub lsn: Lsn,
    /// What it follows.
    pub link: u32,
    /// When the message that begins the segment was made at the latest, microseconds since 1970.
    pub time_us: u64,
}

impl Manifest {
    /// What the message with this header states of the chain before it; it lies at `position`, and begins a segment.
    #[must_use]
    pub fn in_front_of(position: u64, header: &Header) -> Self {
        Self {
            log_id: header.log_id,
            position: position - 1,
            number: header.number,
            last: header.previous,
            epoch: header.epoch,
            owner: header.owner,
            lsn: header.lsn,
            link: header.link_before,
            time_us: header.made_us(),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn seal(&self) -> [u8; MANIFEST_BYTES] {
        let mut bytes = [0; MANIFEST_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        put(4, &VERSION.to_le_bytes());
        put(8, &self.log_id.0);
        put(24, &self.position.to_le_bytes());
        put(32, &self.number.to_le_bytes());
        put(40, &self.last);
        put(72, &self.epoch.to_le_bytes());
        put(80, &self.owner);
        put(96, &self.lsn.get().to_le_bytes());
        put(104, &self.link.to_le_bytes());
        put(112, &self.time_us.to_le_bytes());
        let sum = crc32c([&bytes[..CHECKSUM_AT], &[]]);
        bytes[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What [`Manifest::seal`] wrote.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn open(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() != MANIFEST_BYTES || bytes[..4] != MAGIC {
            return Err("it is not a manifest");
        }
        if u32::from_le_bytes(take(bytes, CHECKSUM_AT)) != crc32c([&bytes[..CHECKSUM_AT], &[]]) {
            return Err("its checksum is wrong");
        }
        if u16::from_le_bytes(take(bytes, 4)) != VERSION {
            return Err("it is of a version that this program does not know");
        }
        let word = |at| u64::from_le_bytes(take(bytes, at));
        let opened = Self {
            log_id: LogId(take(bytes, 8)),
            position: word(24),
            number: word(32),
            last: take(bytes, 40),
            epoch: word(72),
            owner: take(bytes, 80),
            lsn: Lsn::new(word(96)),
            link: u32::from_le_bytes(take(bytes, 104)),
            time_us: word(112),
        };
        if opened.seal() == *bytes { Ok(opened) } else { Err("it contradicts itself") }
    }

    /// The chain before the segment.
    #[must_use]
    pub fn chain(&self) -> Chain {
        Chain {
            position: self.position,
            number: self.number,
            last: self.last,
            last_at: 0,
            epoch: self.epoch,
            owner: self.owner,
            log_id: Some(self.log_id),
            lsn: self.lsn,
            link: self.link,
            needed: self.lsn,
            open: None,
        }
    }
}

/// What the manifests of an archive say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Those that are sound by themselves, in order.
    pub manifests: Vec<Manifest>,
    /// The positions of those that are not, and why.
    pub damaged: Vec<(u64, String)>,
}

/// What a drill found of an archive's manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indexed {
    /// Those that are there, and state what is there.
    pub sound: u64,
    /// Segments without one, of those that began before the newest manifest.
    pub lacking: u64,
}

impl Index {
    /// Holds the manifests against the segments that were found from position `begin` on.
    ///
    /// # Errors
    /// [`Error::Manifest`] with the first one that is damaged, or states what is not there.
    pub(crate) fn hold_against(&self, found: &[Manifest], begin: u64) -> Result<Indexed> {
        if let Some((position, what)) = self.damaged.iter().find(|(position, _)| *position >= begin) {
            return Err(Error::Manifest { position: *position, what: what.clone() });
        }
        let mut sound = 0;
        for manifest in self.manifests.iter().filter(|manifest| manifest.position >= begin) {
            let at = found.binary_search_by_key(&manifest.position, |found| found.position);
            if at.map(|at| &found[at]) != Ok(manifest) {
                let what = "no segment begins there, or the chain of messages differs".to_owned();
                return Err(Error::Manifest { position: manifest.position, what });
            }
            sound += 1;
        }
        let newest = self.manifests.last().map_or(0, |newest| newest.position);
        let due = found.iter().filter(|found| found.position <= newest).count() as u64;
        Ok(Indexed { sound, lacking: due - sound })
    }
}

impl<S: Store> Archive<S> {
    /// After the message `bytes` at `position`: creates the manifest before it, if it begins a segment. Without it,
    /// readers only read more.
    pub(crate) fn put_manifest(&mut self, position: u64, bytes: &[u8]) {
        // Otherwise the checksum of each object would be computed once more.
        let begins = bytes.get(HEADER_BYTES..).is_some_and(|payload| payload.starts_with(SEGMENT_MAGIC));
        if !begins && !is_compressed(bytes) {
            return;
        }
        let Ok((header, payload)) = Header::open(bytes) else { return };
        if !header.unpack(payload).is_ok_and(|payload| begins_segment(&header, &payload)) {
            return;
        }
        let manifest = Manifest::in_front_of(position, &header);
        if let Err(error) = self.store().create(&manifest_name(manifest.position), &manifest.seal()) {
            tracing::warn!(%error, "a segment has no manifest");
        }
    }

    /// The positions of the manifests from `from` on, in order.
    pub(crate) fn manifest_positions(&mut self, from: u64) -> Result<Vec<u64>> {
        let after = from.checked_sub(1).map(manifest_name).unwrap_or_default();
        self.positions(MANIFESTS, &after)
    }

    /// The manifest at `position`, not yet held against the message after it, or what is wrong with it; `None` if there is none.
    pub(crate) fn manifest(&mut self, position: u64) -> Result<Option<Result<Manifest, String>>> {
        let Some(bytes) = self.store().get(&manifest_name(position), None)? else { return Ok(None) };
        Ok(Some(match Manifest::open(&bytes) {
            Ok(manifest) if manifest.position == position => Ok(manifest),
            Ok(_) => Err(NAMED_OTHERWISE.to_owned()),
            Err(what) => Err(what.to_owned()),
        }))
    }

    /// Whether the message after a manifest is there and is what the manifest says.
    pub(crate) fn is_true(&mut self, manifest: &Manifest) -> Result<bool> {
        let Some(bytes) = self.store().get(&message_name(manifest.position + 1), None)? else {
            return Ok(false);
        };
        let fits = match manifest.chain().take(&bytes) {
            Ok(Verdict::Next(header, payload)) => {
                begins_segment(&header, &payload)
                    && Manifest::in_front_of(manifest.position + 1, &header) == *manifest
            }
            _ => false,
        };
        Ok(planted!(ManifestTrusted, fits))
    }

    /// All manifests.
    pub(crate) fn read_index(&mut self) -> Result<Index> {
        let mut index = Index::default();
        let mut positions = self.manifest_positions(0)?.into_iter().peekable();
        let ahead = self.ahead();
        while positions.peek().is_some() {
            let mut names = positions.clone().map(manifest_name);
            self.store().get_each(&mut names, ahead, &mut |bytes| {
                let position = positions.next().unwrap_or_default();
                match Manifest::open(&bytes) {
                    Ok(manifest) if manifest.position == position => index.manifests.push(manifest),
                    Ok(_) => index.damaged.push((position, NAMED_OTHERWISE.to_owned())),
                    Err(what) => index.damaged.push((position, what.to_owned())),
                }
                Ok(true)
            })?;
            // A retention removed this one, or there are no more.
            positions.next();
        }
        Ok(index)
    }

    /// The last position that has a message, listed from the newest manifest on, or from `known`, which was there before.
    pub(crate) fn last_position(&mut self, known: u64) -> Result<u64> {
        let newest =
            if known > 0 { known - 1 } else { self.manifest_positions(0)?.pop().unwrap_or_default() };
        let behind = self.last_behind(newest)?;
        if !planted!(ManifestTrusted, behind > 0 || newest == 0) {
            tracing::warn!(position = newest, "there is no message after this one: listing all");
            return self.last_behind(0);
        }
        Ok(planted!(ManifestTrusted(behind.max(newest)), behind))
    }

    /// The last position after `position` that has a message, 0 for none.
    pub(crate) fn last_behind(&mut self, position: u64) -> Result<u64> {
        let after = if position == 0 { String::new() } else { message_name(position) };
        Ok(self.positions(MESSAGES, &after)?.pop().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::{Index, Indexed, MANIFEST_BYTES, Manifest, begins_segment};
    use crate::error::Error;
    use crate::message::{Chain, Kind};
    use seawall::LogId;

    fn manifest(position: u64) -> Manifest {
        let chain = Chain { number: position, last: [9; 32], epoch: 3, ..Chain::default() };
        let mut header = chain.next_header(Kind::Batches, LogId([7; 16]), (3, [5; 16]));
        header.time_us = 77;
        assert!(begins_segment(&header, b"SWLS and more") && !begins_segment(&header, b"SWLB"));
        Manifest::in_front_of(position + 1, &header)
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written_and_each_changed_byte_is_found() {
        let here = manifest(40);
        let bytes = here.seal();
        assert_eq!(Manifest::open(&bytes), Ok(here));
        for at in 0..MANIFEST_BYTES {
            let mut bad = bytes;
            bad[at] ^= 0x40;
            assert!(Manifest::open(&bad).is_err(), "byte {at}");
            assert!(Manifest::open(&bytes[..at]).is_err(), "{at} bytes");
        }
        assert!(Manifest::open(&[bytes.as_slice(), &[0]].concat()).is_err());
    }

    #[test]
    fn manifests_are_held_against_what_was_found() {
        let found: Vec<Manifest> = [4, 9, 12, 15].map(manifest).into();
        let mut index = Index { manifests: vec![found[0].clone(), found[2].clone()], damaged: Vec::new() };
        let indexed = index.hold_against(&found, 0).expect("sound");
        assert_eq!(indexed, Indexed { sound: 2, lacking: 1 }, "the newest segment may get one yet");
        index.manifests.insert(0, manifest(2));
        let refused = index.hold_against(&found, 0);
        assert!(matches!(refused, Err(Error::Manifest { position: 2, .. })), "{refused:?}");
        assert_eq!(index.hold_against(&found, 3).expect("older ones do not count"), indexed);
        index.manifests[2].link ^= 1;
        let refused = index.hold_against(&found, 3);
        assert!(matches!(refused, Err(Error::Manifest { position: 12, .. })), "{refused:?}");
        index.manifests.pop();
        index.damaged.push((9, "it is not a manifest".to_owned()));
        let refused = index.hold_against(&found, 3);
        assert!(matches!(refused, Err(Error::Manifest { position: 9, .. })), "{refused:?}");
    }
}
