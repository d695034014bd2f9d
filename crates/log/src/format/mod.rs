//! Defines the on-disk format: segment headers, batch headers and records, and their validity rules.
//!
//! A log is a directory of segments. Every number is little-endian. A segment is a file of fixed size, cut into
//! blocks (4096 bytes unless the options set smaller ones), and is named after its number:
//!
//! ```text
//! 00000000000000000007.seg   started, or prepared and waiting to be started (no valid header yet)
//! 00000000000000000008.new   being prepared: zero-filled, not yet synced; worthless after a crash
//! LOCK                       held exclusively by the one writer
//! MEMORY                     while the log is open: records that outlive the process; see `crash_memory/mod.rs`
//!
//! block 0        block 1 …                                           last block
//! +---------+----------------+----------+---------------+--- - - ---+---------+
//! | segment | batch          | batch    | batch (mark)  |  unused   | segment |
//! | header  | 1..n blocks    |          | 1 block       |           | header  |
//! | copy 0  |                |          |               |           | copy 1  |
//! +---------+----------------+----------+---------------+--- - - ---+---------+
//!
//! batch:   +--------------+----------+----------+----- - -+---------+
//!          | batch header | record   | record   |         | zeros   |   padded to the next block
//!          | 128 bytes    |          |          |         |         |
//!          +--------------+----------+----------+----- - -+---------+
//!
//! record:  +----------------------+-----------------------+-----------------+
//!          | bits 0–29: length    | tag, if bit 30 is set | payload         |
//!          | bit 30: has a tag    | 12 bytes              |                 |
//!          | bit 31: more follows |                       |                 |
//!          +----------------------+-----------------------+-----------------+
//!
//! tag:     +------------------+---------------+-----------------+
//!          | stream, 3 bytes  | kind, 1 byte  | number, 8 bytes |
//!          +------------------+---------------+-----------------+
//! ```
//!
//! A record without a tag belongs to the log itself. What a tag means is decided by its kind:
//!
//! | kind | record | stream | number | payload |
//! | ---: | --- | --- | --- | --- |
//! | 1 | of a stream | its stream | its sequence number there | the record |
//! | 2 | the same, rewritten because its segment is to be trimmed | its stream | as before | the record |
//! | 3 | trim of a stream | the stream | the first sequence number that is left; 2^64 - 1 removes the stream | none |
//! | 4 | cut of a stream | the stream | the sequence number of the next record: what was at and after it is gone | none |
//! | 5 | state of a stream without records | the stream | the sequence number of the next record | none |
//! | 6 | cut of the log | 0 | the LSN from which on all records without a tag before this one are gone | none |
//! | 7 | all cuts of the log that are still needed | 0 | 0 | pairs of LSNs: from, to |
//!
//! A segment whose log was cut starts with a record of kind 7, so that the newest segment alone names every cut. Its header
//! names the segment before it that does, because a crash may leave the header without the record.
//!
//! Segment header                                Batch header
//!
//! ```text
//!  at  size                                      at  size
//!   0   4   magic "SWLS"                          0   4   magic "SWLB"
//!   4   2   format version                        4   2   format version
//!   6   2   block size in bytes                   6   2   kind: 1 records, 2 mark, 3 close, 4 open
//!   8  16   log identity                          8  16   log identity
//!  24   8   epoch                                24   8   epoch
//!  32   8   segment number                       32   8   segment number
//!  40   8   segment size in bytes                40   8   offset of this batch in its segment
//!  48   8   LSN of the first record              48   8   LSN of the first record
//!  56   8   first LSN that must be present       56   8   durable LSN when this batch was issued
//!  64   8   number of the segment before         64   8   first LSN that must be present
//!  72   4   link: checksum of the last batch     72   4   length of the records in bytes
//!  76   4   copy: 0 or 1                         76   4   number of records
//!  80   2   durability class: 1, 2 or 3          80   4   link: header checksum of the batch before
//!  82   2   zero                                 84   4   CRC-32C of the records and the padding
//!  84   4   features that a reader must know     88   4   bytes between the acknowledged LSN and this one
//!  88   8   number of the first segment that     92   2   flags: 1 some record has a tag, 2 cuts the log
//!           may hold records of streams, or 0     94   2   zero
//!  96   8   number of the segment from which on  96   8   time of the batch, microseconds since 1970, 0 unknown
//!           cuts of the log are stated, or 0     104  20   zero
//! 104  20   zero
//! 124   4   CRC-32C of bytes 0–123              124   4   CRC-32C of bytes 0–123
//! ```
//!
//! The **durability class** is the one that the log was opened with: 1 process crash, 2 system crash, 3 power loss. What
//! is *acknowledged* outlives that class. What is *durable* outlives a power cut: in a log of class power loss the two are
//! one; a log of a lower class is synced when a segment is full, when it is closed, and before what was trimmed is
//! removed, so that only its last segment can lose something. The acknowledged LSN is kept as its distance from the LSN
//! of the batch; 2^32 - 1 stands for any distance from there on and claims no more than the durable LSN.
//!
//! The **features** are a set of bits. A reader that does not know one of them refuses the segment by the feature's name,
//! because it could take what the feature changes for damage. None is written today; [`FEATURES`] names those that are
//! reserved, and the unused bytes of both headers are theirs.
//!
//! The **time** of a batch is when it was gathered, by the clock of the machine. It never goes back within a log while
//! that is open; it says nothing about order, which the LSN does.
//!
//! A **batch header is self-valid** if and only if, in this order, (1) the magic is right, (2) its checksum is right,
//! (3) the version is known, (4) log identity, segment number and offset are those of the place it was read from, (5)
//! the kind and the flags are known, flag 2 stands only beside flag 1, the unused bytes are zero, the end of the batch lies before 2^64, and its
//! acknowledged LSN neither before 0 nor, where the distance is 2^32 - 1, nearer than that to its LSN, (6) the batch ends before the
//! last block and is no longer than the longest record and 64 MiB. A self-valid header is a
//! *witness*: what it says about the durable and the acknowledged LSN was true when it was issued.
//!
//! A **batch is valid** if and only if its header is self-valid and then, in this order, (7) its epoch is the one of
//! the batch before (or, for an open mark after a close mark, a later one), (8) its LSN is where the batch before
//! ended, (9) its link is the header checksum of the batch before, (10) its durable LSN does not lie past its acknowledged
//! LSN, nor that one or its first LSN past its LSN, (11) the checksum of records and padding is right, (12) the records fill the stated length exactly,
//! are as many as stated, have tags of known kinds and only if the flags say so, and the last one has no "more follows"; a mark has none.
//!
//! A **segment header is valid** if and only if (1) magic, (2) checksum, (3) version, (4) the durability class and the features are known, (5) the
//! number is the one in the file's name, (6) the block size is 512, 1024, 2048 or 4096, the size is that of the file and the copy is the one
//! that belongs there, (7) the unused bytes are zero, the segment before and the two that it names for streams and cuts are no later ones, and
//! the first LSN that must be present does not lie past its first. Either copy will do.
//!
//! Invariants: no valid header starts with a zero byte; no batch is ever rewritten once acknowledged; nothing here
//! relies on more than 512 bytes arriving together; magic, version, features and checksum stay where they are in every later version,
//! so that a newer log is recognised as such and never mistaken for damage.
//!
//! This is version 1, which every release from 0.1.0 on reads. Builds before the first release wrote other bytes after the magic
//! "SWS1"; they are refused by name.

pub(crate) mod buffer;
pub(crate) mod checksum;
pub(crate) mod cursor;
pub(crate) mod free_buffers;
pub(crate) mod names;

pub use names::{FileRole, file_role, preparing_name, segment_name};

use seawall_sys::durability::Durability;

use crate::format::checksum::crc32c;
use crate::lsn::Lsn;

/// The version of the format that this library writes, and the only one that it reads.
pub const FORMAT_VERSION: u16 = 1;

/// Length of a batch header in bytes.
pub const BATCH_HEADER_BYTES: usize = 128;
/// Length of a segment header in bytes.
pub const SEGMENT_HEADER_BYTES: usize = 128;
/// Length of a record header in bytes, without a tag.
pub const RECORD_HEADER_BYTES: usize = 4;
/// Length of a tag in bytes.
pub const TAG_BYTES: usize = 12;
/// The longest record that the format allows, in bytes: one less than 1 GiB.
pub const RECORD_BYTES_MAX: usize = (1 << 30) - 1;
/// The block sizes that a log may have, in bytes.
pub const BLOCK_SIZES: [u16; 4] = [512, 1024, 2048, 4096];

const SEGMENT_MAGIC: [u8; 4] = *b"SWLS";
/// How a batch starts.
pub const BATCH_MAGIC: [u8; 4] = *b"SWLB";
/// How the segments of builds before the first release start.
const UNRELEASED_MAGIC: [u8; 4] = *b"SWS1";
const MORE_FOLLOWS: u32 = 1 << 31;
const HAS_TAG: u32 = 1 << 30;
/// Batch flags: some record has a tag, some record says what of the log is cut.
const TAGGED: u16 = 1;
const CUTS: u16 = 2;

/// The features that are reserved, by their bit. No version knows one yet.
pub const FEATURES: [(u32, &str); 2] =
    [(1 << 0, "compressed or encrypted batches"), (1 << 1, "a second copy of the log on another disk")];

/// The names of the features in `bits`.
#[must_use]
pub fn feature_names(bits: u32) -> String {
    let known = FEATURES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| (*name).to_owned());
    let others = bits & !FEATURES.iter().fold(0, |all, (bit, _)| all | bit);
    let unknown = (others != 0).then(|| format!("features {others:#x} of a later version"));
    known.chain(unknown).collect::<Vec<_>>().join(", ")
}

/// One drawn field: where it starts and how long it is, in bytes.
type Field = (usize, usize);

const BATCH_FIELDS: [Field; 18] = fields([4, 2, 2, 16, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 2, 2, 8]);
const BATCH_UNUSED: [Field; 2] = [BATCH_FIELDS[16], (104, 20)];
const SEGMENT_FIELDS: [Field; 17] = fields([4, 2, 2, 16, 8, 8, 8, 8, 8, 8, 4, 4, 2, 2, 4, 8, 8]);
const SEGMENT_UNUSED: [Field; 2] = [SEGMENT_FIELDS[13], (104, 20)];
const CHECKSUM: Field = (124, 4);

/// The fields of these lengths, one after the other.
const fn fields<const N: usize>(lengths: [usize; N]) -> [Field; N] {
    let mut fields = [(0, 0); N];
    let (mut at, mut i) = (0, 0);
    while i < N {
        fields[i] = (at, lengths[i]);
        at += lengths[i];
        i += 1;
    }
    fields
}

/// Where a field ends.
const fn end(field: Field) -> usize {
    field.0 + field.1
}

// The drawing above and the encoder below both use these tables; the compiler checks that they add up.
const _: () = assert!(end(BATCH_FIELDS[17]) == BATCH_UNUSED[1].0);
const _: () = assert!(end(BATCH_UNUSED[1]) == CHECKSUM.0);
const _: () = assert!(end(SEGMENT_FIELDS[16]) == SEGMENT_UNUSED[1].0);
const _: () = assert!(end(SEGMENT_UNUSED[1]) == CHECKSUM.0);
const _: () = assert!(end(CHECKSUM) == BATCH_HEADER_BYTES);
const _: () = assert!(SEGMENT_HEADER_BYTES == BATCH_HEADER_BYTES);
// Both headers fit the smallest unit that any disk writes as one.
const _: () = assert!(BATCH_HEADER_BYTES <= 512);
const _: () = assert!(BATCH_MAGIC[0] != 0 && SEGMENT_MAGIC[0] != 0);
const _: () = assert!(RECORD_BYTES_MAX < HAS_TAG as usize);

/// What a batch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// It holds records.
    Records,
    /// It holds none and says what is durable.
    Mark,
    /// The last one of a cleanly closed log: everything before it is durable and nothing follows.
    Close,
    /// The first one after a close mark: a new epoch begins in the same segment.
    Open,
}

impl BatchKind {
    const fn code(self) -> u16 {
        match self {
            Self::Records => 1,
            Self::Mark => 2,
            Self::Close => 3,
            Self::Open => 4,
        }
    }

    fn of(code: u16) -> Option<Self> {
        [Self::Records, Self::Mark, Self::Close, Self::Open].into_iter().find(|kind| kind.code() == code)
    }
}

/// The code of a durability class in a segment header.
const fn class_code(class: Durability) -> u16 {
    match class {
        Durability::ProcessCrash => 1,
        Durability::SystemCrash => 2,
        Durability::PowerLoss => 3,
    }
}

fn class_of(code: u16) -> Option<Durability> {
    Durability::ALL.into_iter().find(|class| class_code(*class) == code)
}

/// Stands for any distance from here on between the acknowledged LSN and that of a batch.
const FAR: u32 = u32::MAX;

/// The identity of one log, chosen at random when it is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LogId(pub [u8; 16]);

impl LogId {
    /// An identity that no other log has, from the keys that the standard library gives each process.
    pub(crate) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let mut id = [0; 16];
        for half in id.chunks_mut(8) {
            half.copy_from_slice(
                &RandomState::new().hash_one(seawall_sys::clock::monotonic_ns()).to_le_bytes(),
            );
        }
        Self(id)
    }
}

impl std::fmt::Display for LogId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Which rule of the list at the top of this file a block broke, first one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Fewer bytes are there than a header needs.
    Short,
    /// Rule 1: no header starts here.
    Magic,
    /// Rule 2: the header's checksum is wrong.
    HeaderChecksum,
    /// Rule 3: a version that this library does not know.
    Version(u16),
    /// Rule 4: written for another log, segment or offset.
    Place,
    /// Rule 5: unknown kind, flags, block size or copy, or unused bytes that are not zero.
    Fields,
    /// Rule 4 of segment headers: features that this library does not know.
    Features(u32),
    /// Rule 4 of segment headers: a durability class that this library does not know.
    Class(u16),
    /// Rule 6: longer than its segment.
    Length,
    /// Rule 7: of another epoch.
    Epoch,
    /// Rule 8: not the LSN that is due here.
    Lsn,
    /// Rule 9: does not follow the batch before it.
    Link,
    /// Rule 10: claims what cannot have been known.
    Claims,
    /// Rule 11: the checksum of records and padding is wrong.
    BodyChecksum,
    /// Rule 12: the records do not fill the batch as stated.
    Records,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::Short => "the file ends here",
            Self::Magic => "no header starts here",
            Self::HeaderChecksum => "the header's checksum is wrong",
            Self::Version(version) => return write!(f, "format version {version} is not known"),
            Self::Place => "it was written for another log, segment or offset",
            Self::Fields => "a header field has no meaning",
            Self::Class(class) => return write!(f, "durability class {class} is not known"),
            Self::Features(bits) => return write!(f, "it needs {}", feature_names(*bits)),
            Self::Length => "it is longer than its segment",
            Self::Epoch => "it belongs to another epoch",
            Self::Lsn => "its LSN is not the one due here",
            Self::Link => "it does not follow the batch before it",
            Self::Claims => "it claims what cannot have been known",
            Self::BodyChecksum => "the checksum of its records is wrong",
            Self::Records => "its records do not fill it as stated",
        };
        f.write_str(text)
    }
}

fn take<const N: usize>(bytes: &[u8], field: Field) -> [u8; N] {
    let mut out = [0; N];
    if let Some(slice) = bytes.get(field.0..field.0 + N) {
        out.copy_from_slice(slice);
    }
    out
}

fn put(bytes: &mut [u8], field: Field, value: &[u8]) {
    bytes[field.0..field.0 + field.1].copy_from_slice(value);
}

fn unused_is_zero(bytes: &[u8], field: Field) -> bool {
    bytes[field.0..field.0 + field.1].iter().all(|byte| *byte == 0)
}

/// Rules 1 to 3, the same for both headers.
fn check_envelope(bytes: &[u8], magic: [u8; 4]) -> Result<(), Fault> {
    if bytes.len() < BATCH_HEADER_BYTES {
        return Err(Fault::Short);
    }
    if bytes[..4] != magic {
        let unreleased = magic == SEGMENT_MAGIC && bytes[..4] == UNRELEASED_MAGIC;
        return Err(if unreleased { Fault::Version(0) } else { Fault::Magic });
    }
    if u32::from_le_bytes(take(bytes, CHECKSUM)) != crc32c(&bytes[..CHECKSUM.0]) {
        return Err(Fault::HeaderChecksum);
    }
    match u16::from_le_bytes(take(bytes, BATCH_FIELDS[1])) {
        FORMAT_VERSION => Ok(()),
        other => Err(Fault::Version(other)),
    }
}

/// The header of one segment; the same in both copies but for the copy's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Block size in bytes, one of [`BLOCK_SIZES`].
    pub block_bytes: u16,
    /// Which log this is a part of.
    pub log_id: LogId,
    /// The epoch that started the segment.
    pub epoch: u64,
    /// The segment's number, as in its name.
    pub number: u64,
    /// The size of its file in bytes.
    pub segment_bytes: u64,
    /// The LSN of its first record: where the log ended when the segment was started.
    pub first_lsn: Lsn,
    /// The first LSN that must be present: what lies before was trimmed.
    pub trim_lsn: Lsn,
    /// The number of the segment before, 0 for none.
    pub previous: u64,
    /// The header checksum of the last batch before this segment, 0 for none.
    pub link: u32,
    /// What the log promised that an acknowledged record outlives when the segment was started.
    pub class: Durability,
    /// The number of the first segment that may hold records of streams, 0 if none does.
    pub streams_from: u64,
    /// The number of the segment from which on the cuts of the log are stated, 0 if there are none.
    pub cuts_from: u64,
}

impl SegmentHeader {
    /// Writes copy `copy` (0 or 1) over the first bytes of `out`.
    pub fn encode(&self, copy: u32, out: &mut [u8]) {
        let out = &mut out[..SEGMENT_HEADER_BYTES];
        out.fill(0);
        put(out, SEGMENT_FIELDS[0], &SEGMENT_MAGIC);
        put(out, SEGMENT_FIELDS[1], &FORMAT_VERSION.to_le_bytes());
        put(out, SEGMENT_FIELDS[2], &self.block_bytes.to_le_bytes());
        put(out, SEGMENT_FIELDS[3], &self.log_id.0);
        put(out, SEGMENT_FIELDS[4], &self.epoch.to_le_bytes());
        put(out, SEGMENT_FIELDS[5], &self.number.to_le_bytes());
        put(out, SEGMENT_FIELDS[6], &self.segment_bytes.to_le_bytes());
        put(out, SEGMENT_FIELDS[7], &self.first_lsn.get().to_le_bytes());
        put(out, SEGMENT_FIELDS[8], &self.trim_lsn.get().to_le_bytes());
        put(out, SEGMENT_FIELDS[9], &self.previous.to_le_bytes());
        put(out, SEGMENT_FIELDS[10], &self.link.to_le_bytes());
        put(out, SEGMENT_FIELDS[11], &copy.to_le_bytes());
        put(out, SEGMENT_FIELDS[12], &class_code(self.class).to_le_bytes());
        put(out, SEGMENT_FIELDS[15], &self.streams_from.to_le_bytes());
        put(out, SEGMENT_FIELDS[16], &self.cuts_from.to_le_bytes());
        let checksum = crc32c(&out[..CHECKSUM.0]);
        put(out, CHECKSUM, &checksum.to_le_bytes());
    }

    /// Reads copy `copy` of the header of segment `number`, whose file is `file_bytes` long.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn decode(bytes: &[u8], copy: u32, number: u64, file_bytes: u64) -> Result<Self, Fault> {
        let header = Self::decode_unplaced(bytes, copy)?;
        if header.number != number {
            return Err(Fault::Place);
        }
        if header.segment_bytes != file_bytes {
            return Err(Fault::Length);
        }
        Ok(header)
    }

    /// Reads a header without holding it against the place that it was found in: everything but the number in the
    /// name and the length of the file.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn decode_unplaced(bytes: &[u8], copy: u32) -> Result<Self, Fault> {
        check_envelope(bytes, SEGMENT_MAGIC)?;
        let features = u32::from_le_bytes(take(bytes, SEGMENT_FIELDS[14]));
        if features != 0 {
            return Err(Fault::Features(features));
        }
        let class = u16::from_le_bytes(take(bytes, SEGMENT_FIELDS[12]));
        let word = |field: Field| u64::from_le_bytes(take(bytes, field));
        let header = Self {
            block_bytes: u16::from_le_bytes(take(bytes, SEGMENT_FIELDS[2])),
            log_id: LogId(take(bytes, SEGMENT_FIELDS[3])),
            epoch: word(SEGMENT_FIELDS[4]),
            number: word(SEGMENT_FIELDS[5]),
            segment_bytes: word(SEGMENT_FIELDS[6]),
            first_lsn: Lsn::new(word(SEGMENT_FIELDS[7])),
            trim_lsn: Lsn::new(word(SEGMENT_FIELDS[8])),
            previous: word(SEGMENT_FIELDS[9]),
            link: u32::from_le_bytes(take(bytes, SEGMENT_FIELDS[10])),
            class: class_of(class).ok_or(Fault::Class(class))?,
            streams_from: word(SEGMENT_FIELDS[15]),
            cuts_from: word(SEGMENT_FIELDS[16]),
        };
        let sound = BLOCK_SIZES.contains(&header.block_bytes)
            && u32::from_le_bytes(take(bytes, SEGMENT_FIELDS[11])) == copy
            && header.previous < header.number
            && header.trim_lsn <= header.first_lsn
            && header.streams_from.max(header.cuts_from) <= header.number
            && SEGMENT_UNUSED.iter().all(|field| unused_is_zero(bytes, *field));
        if sound { Ok(header) } else { Err(Fault::Fields) }
    }

    /// Where the first batch of the segment starts, in bytes.
    #[must_use]
    pub fn data_start(&self) -> u64 {
        u64::from(self.block_bytes)
    }

    /// Where the batches of the segment must have ended, in bytes: the start of the second copy of the header.
    #[must_use]
    pub fn data_end(&self) -> u64 {
        self.segment_bytes.saturating_sub(u64::from(self.block_bytes))
    }
}

/// The header of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// What the batch is for.
    pub kind: BatchKind,
    /// Which log this is a part of.
    pub log_id: LogId,
    /// The epoch of the writer: one more at every open.
    pub epoch: u64,
    /// The number of the segment it was written to.
    pub segment: u64,
    /// Where in the segment it was written, in bytes.
    pub offset: u64,
    /// The LSN of its first record.
    pub lsn: Lsn,
    /// What was durable when the batch was issued: what a power cut leaves.
    pub durable: Lsn,
    /// What was acknowledged in the durability class of the log when the batch was issued.
    pub acknowledged: Lsn,
    /// The first LSN that must be present: what lies before was trimmed.
    pub trim_lsn: Lsn,
    /// The length of its records in bytes, their headers included.
    pub body_bytes: u32,
    /// How many records it holds.
    pub records: u32,
    /// The header checksum of the batch before it.
    pub link: u32,
    /// CRC-32C of records and padding.
    pub body_checksum: u32,
    /// Whether some record has a tag.
    pub tagged: bool,
    /// Whether some record says what of the log is cut.
    pub cuts: bool,
    /// When it was gathered, microseconds since 1970, 0 if unknown.
    pub time_us: u64,
}

impl BatchHeader {
    /// Writes the header over the first bytes of `out` and returns its checksum: the link of the next batch.
    pub fn encode(&self, out: &mut [u8]) -> u32 {
        let out = &mut out[..BATCH_HEADER_BYTES];
        out.fill(0);
        put(out, BATCH_FIELDS[0], &BATCH_MAGIC);
        put(out, BATCH_FIELDS[1], &FORMAT_VERSION.to_le_bytes());
        put(out, BATCH_FIELDS[2], &self.kind.code().to_le_bytes());
        put(out, BATCH_FIELDS[3], &self.log_id.0);
        put(out, BATCH_FIELDS[4], &self.epoch.to_le_bytes());
        put(out, BATCH_FIELDS[5], &self.segment.to_le_bytes());
        put(out, BATCH_FIELDS[6], &self.offset.to_le_bytes());
        put(out, BATCH_FIELDS[7], &self.lsn.get().to_le_bytes());
        put(out, BATCH_FIELDS[8], &self.durable.get().to_le_bytes());
        put(out, BATCH_FIELDS[9], &self.trim_lsn.get().to_le_bytes());
        put(out, BATCH_FIELDS[10], &self.body_bytes.to_le_bytes());
        put(out, BATCH_FIELDS[11], &self.records.to_le_bytes());
        put(out, BATCH_FIELDS[12], &self.link.to_le_bytes());
        put(out, BATCH_FIELDS[13], &self.body_checksum.to_le_bytes());
        let behind = u32::try_from(self.lsn.since(self.acknowledged)).unwrap_or(FAR);
        put(out, BATCH_FIELDS[14], &behind.to_le_bytes());
        put(out, BATCH_FIELDS[15], &self.flags().to_le_bytes());
        put(out, BATCH_FIELDS[17], &self.time_us.to_le_bytes());
        let checksum = crc32c(&out[..CHECKSUM.0]);
        put(out, CHECKSUM, &checksum.to_le_bytes());
        checksum
    }

    /// Reads a header by rules 1 to 3 and 5 and returns it with its checksum.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u32), Fault> {
        check_envelope(bytes, BATCH_MAGIC)?;
        let word = |field: Field| u64::from_le_bytes(take(bytes, field));
        let half = |field: Field| u32::from_le_bytes(take(bytes, field));
        let kind = BatchKind::of(u16::from_le_bytes(take(bytes, BATCH_FIELDS[2]))).ok_or(Fault::Fields)?;
        let flags = u16::from_le_bytes(take(bytes, BATCH_FIELDS[15]));
        if flags & !(TAGGED | CUTS) != 0
            || flags == CUTS
            || !BATCH_UNUSED.iter().all(|field| unused_is_zero(bytes, *field))
        {
            return Err(Fault::Fields);
        }
        let (lsn, durable) = (word(BATCH_FIELDS[7]), Lsn::new(word(BATCH_FIELDS[8])));
        let acknowledged = match half(BATCH_FIELDS[14]) {
            // Nothing else is known then; one that would have fitted is written as it is.
            FAR if lsn.checked_sub(durable.get()).is_some_and(|behind| behind >= FAR.into()) => durable,
            FAR => return Err(Fault::Claims),
            behind => lsn.checked_sub(behind.into()).map(Lsn::new).ok_or(Fault::Claims)?,
        };
        let header = Self {
            kind,
            log_id: LogId(take(bytes, BATCH_FIELDS[3])),
            epoch: word(BATCH_FIELDS[4]),
            segment: word(BATCH_FIELDS[5]),
            offset: word(BATCH_FIELDS[6]),
            lsn: Lsn::new(lsn),
            durable,
            acknowledged,
            trim_lsn: Lsn::new(word(BATCH_FIELDS[9])),
            body_bytes: half(BATCH_FIELDS[10]),
            records: half(BATCH_FIELDS[11]),
            link: half(BATCH_FIELDS[12]),
            body_checksum: half(BATCH_FIELDS[13]),
            tagged: flags & TAGGED != 0,
            cuts: flags & CUTS != 0,
            time_us: word(BATCH_FIELDS[17]),
        };
        if header.lsn.checked_add(header.body_bytes.into()).is_none() {
            return Err(Fault::Fields);
        }
        Ok((header, half(CHECKSUM)))
    }

    fn flags(&self) -> u16 {
        (if self.tagged { TAGGED } else { 0 }) | if self.cuts { CUTS } else { 0 }
    }

    /// Rule 10: whether it claims only what can have been known.
    ///
    /// # Errors
    /// [`Fault::Claims`].
    pub fn check_claims(&self) -> Result<(), Fault> {
        let known =
            self.durable <= self.acknowledged && self.acknowledged <= self.lsn && self.trim_lsn <= self.lsn;
        if known { Ok(()) } else { Err(Fault::Claims) }
    }

    /// Where the batch ends in the logical log, exclusive.
    #[must_use]
    pub fn end(&self) -> Lsn {
        self.lsn.saturating_add(self.body_bytes.into())
    }

    /// Its length on disk in bytes: header, records and padding.
    #[must_use]
    pub fn disk_bytes(&self, block_bytes: u16) -> u64 {
        (BATCH_HEADER_BYTES as u64 + u64::from(self.body_bytes)).next_multiple_of(block_bytes.into())
    }
}

/// Rules 11 and 12 for `batch`: header, records and padding.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_body(header: &BatchHeader, batch: &[u8]) -> Result<(), Fault> {
    let Some(body) = batch.get(BATCH_HEADER_BYTES..) else { return Err(Fault::Short) };
    if crc32c(body) != header.body_checksum {
        return Err(Fault::BodyChecksum);
    }
    let records = usize::try_from(header.body_bytes).ok().and_then(|length| body.get(..length));
    let mut walk = Records::new(records.ok_or(Fault::Records)?);
    let mut count = 0_u32;
    let mut more = false;
    for record in walk.by_ref() {
        count = count.saturating_add(1);
        more = record.more;
        if record.tag.is_some() && !header.tagged {
            return Err(Fault::Records);
        }
    }
    let filled = walk.rest().is_empty() && count == header.records && !more;
    let of_its_kind = (header.kind == BatchKind::Records) == (count > 0);
    if filled && of_its_kind { Ok(()) } else { Err(Fault::Records) }
}

/// What a tagged record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagKind {
    /// A record of a stream.
    Data,
    /// A record of a stream, rewritten because the segment that held it is to be trimmed.
    Copy,
    /// What lies before the number is trimmed; [`u64::MAX`] removes the stream.
    StreamTrim,
    /// What lies at or after the number is cut.
    StreamCut,
    /// The stream has no records, and its next one gets the number.
    StreamState,
    /// The records without a tag from this LSN up to the tagged one are cut.
    LogCut,
    /// All cuts of the log that are still needed.
    LogCuts,
}

impl TagKind {
    const ALL: [Self; 7] = [
        Self::Data,
        Self::Copy,
        Self::StreamTrim,
        Self::StreamCut,
        Self::StreamState,
        Self::LogCut,
        Self::LogCuts,
    ];

    const fn code(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Copy => 2,
            Self::StreamTrim => 3,
            Self::StreamCut => 4,
            Self::StreamState => 5,
            Self::LogCut => 6,
            Self::LogCuts => 7,
        }
    }

    /// Whether it may carry a payload.
    const fn has_payload(self) -> bool {
        matches!(self, Self::Data | Self::Copy | Self::LogCuts)
    }
}

/// The tag of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// What it says.
    pub kind: TagKind,
    /// The stream, less than 2^24.
    pub stream: u32,
    /// A sequence number or an LSN, by its kind.
    pub number: u64,
}

impl Tag {
    /// What removes a stream: a trim past all numbers.
    pub(crate) const fn removal(stream: u32) -> Self {
        Self { kind: TagKind::StreamTrim, stream, number: u64::MAX }
    }

    /// Whether it removes a stream.
    pub(crate) fn removes(&self) -> bool {
        *self == Self::removal(self.stream)
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> [u8; TAG_BYTES] {
        let mut out = [0; TAG_BYTES];
        out[..4].copy_from_slice(&self.stream.to_le_bytes());
        out[3] = self.kind.code();
        out[4..].copy_from_slice(&self.number.to_le_bytes());
        out
    }

    /// Whether `head`, the header of a record and its tag, names a known kind that may have `length` bytes of payload.
    pub(crate) fn fits(head: [u8; RECORD_HEADER_BYTES + TAG_BYTES], length: usize) -> bool {
        let tag = head.last_chunk::<TAG_BYTES>().and_then(|bytes| Self::decode(*bytes));
        tag.is_some_and(|tag| tag.kind.has_payload() || length == 0)
    }

    /// Reads a tag; `None` if its kind is not known.
    #[must_use]
    #[inline]
    pub fn decode(bytes: [u8; TAG_BYTES]) -> Option<Self> {
        let [a, b, c, code, number @ ..] = bytes;
        let kind = TagKind::ALL.into_iter().find(|kind| kind.code() == code)?;
        Some(Self { kind, stream: u32::from_le_bytes([a, b, c, 0]), number: u64::from_le_bytes(number) })
    }
}

/// The header of a record of `length` bytes, or `None` if no record may be that long.
#[must_use]
pub fn record_header(length: usize, more: bool) -> Option<[u8; RECORD_HEADER_BYTES]> {
    let length = u32::try_from(length).ok().filter(|length| *length as usize <= RECORD_BYTES_MAX)?;
    Some((length | if more { MORE_FOLLOWS } else { 0 }).to_le_bytes())
}

/// Marks the record that starts `bytes` as the last one of its transaction.
pub(crate) fn end_transaction(bytes: &mut [u8]) {
    if let Some(head) = bytes.first_chunk_mut::<RECORD_HEADER_BYTES>() {
        *head = (u32::from_le_bytes(*head) & !MORE_FOLLOWS).to_le_bytes();
    }
}

/// The header of a record of `length` bytes after a tag, and the tag, or `None` if no record may be that long.
#[must_use]
#[inline]
pub fn tagged_header(length: usize, more: bool, tag: &Tag) -> Option<[u8; RECORD_HEADER_BYTES + TAG_BYTES]> {
    let word = u32::from_le_bytes(record_header(length, more)?) | HAS_TAG;
    let mut out = [0; RECORD_HEADER_BYTES + TAG_BYTES];
    out[..RECORD_HEADER_BYTES].copy_from_slice(&word.to_le_bytes());
    out[RECORD_HEADER_BYTES..].copy_from_slice(&tag.encode());
    Some(out)
}

/// What the four bytes before a record say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    /// The length of the payload in bytes.
    pub(crate) length: usize,
    /// Whether the next record belongs to the same transaction.
    pub(crate) more: bool,
    /// Whether a tag stands before the payload.
    pub(crate) has_tag: bool,
}

impl RecordHead {
    #[inline]
    pub(crate) fn read(head: [u8; RECORD_HEADER_BYTES]) -> Self {
        let word = u32::from_le_bytes(head);
        let length = (word & !(MORE_FOLLOWS | HAS_TAG)) as usize;
        Self { length, more: word & MORE_FOLLOWS != 0, has_tag: word & HAS_TAG != 0 }
    }

    /// How many bytes stand before the payload.
    #[inline]
    pub(crate) fn front_bytes(self) -> usize {
        RECORD_HEADER_BYTES + if self.has_tag { TAG_BYTES } else { 0 }
    }

    /// The whole record in bytes.
    #[inline]
    pub(crate) fn record_bytes(self) -> usize {
        self.front_bytes() + self.length
    }
}

/// One record inside a batch. `{:?}` prints their number, not the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Its bytes.
    pub payload: &'a [u8],
    /// Whether the next record belongs to the same transaction.
    pub more: bool,
    /// Its tag, if it has one.
    pub tag: Option<Tag>,
}

impl RawRecord<'_> {
    /// How many bytes it takes in the log, its header included.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.tag.map_or(0, |_| TAG_BYTES) + self.payload.len()
    }
}

impl std::fmt::Debug for RawRecord<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("RawRecord");
        shown.field("bytes", &self.payload.len()).field("more", &self.more).field("tag", &self.tag).finish()
    }
}

/// Walks the records of a batch; stops at the first byte that is not a whole record.
#[derive(Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl std::fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("bytes_left", &self.rest.len()).finish()
    }
}

impl<'a> Records<'a> {
    /// Walks `body`: the records of a batch without its header and padding.
    #[must_use]
    pub fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// What has not been walked yet; empty after a sound batch.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = RawRecord<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawRecord<'a>> {
        let (head, mut rest) = self.rest.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let head = RecordHead::read(*head);
        let mut tag = None;
        if head.has_tag {
            let (bytes, behind) = rest.split_first_chunk::<TAG_BYTES>()?;
            tag = Some(Tag::decode(*bytes)?);
            rest = behind;
        }
        let payload = rest.get(..head.length)?;
        if tag.is_some_and(|tag| !tag.kind.has_payload() && head.length > 0) {
            return None;
        }
        self.rest = &rest[head.length..];
        Some(RawRecord { payload, more: head.more, tag })
    }
}
