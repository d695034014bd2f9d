//! Defines the on-disk format: the drawing and the validity rules of segment headers, batch headers and records.
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

mod batch_header;
pub(crate) mod buffer;
pub(crate) mod checksum;
pub(crate) mod cursor;
pub(crate) mod free_buffers;
pub(crate) mod names;
mod record;
mod segment_header;

pub use batch_header::{BatchHeader, BatchKind, check_body};
pub use names::{FileRole, file_role, preparing_name, segment_name};
pub use record::{RawRecord, Records, Tag, TagKind, record_header, tagged_header};
pub(crate) use record::{RecordHead, end_transaction};
pub use segment_header::SegmentHeader;

use crate::format::checksum::crc32c;

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

// The encoders of the headers use these tables of what is drawn above; the compiler checks that they add up.
const _: () = assert!(end(BATCH_FIELDS[17]) == BATCH_UNUSED[1].0);
const _: () = assert!(end(BATCH_UNUSED[1]) == CHECKSUM.0);
const _: () = assert!(end(SEGMENT_FIELDS[16]) == SEGMENT_UNUSED[1].0);
const _: () = assert!(end(SEGMENT_UNUSED[1]) == CHECKSUM.0);
const _: () = assert!(end(CHECKSUM) == BATCH_HEADER_BYTES);
const _: () = assert!(SEGMENT_HEADER_BYTES == BATCH_HEADER_BYTES);
// Both headers fit the smallest unit that any disk writes as one.
const _: () = assert!(BATCH_HEADER_BYTES <= 512);
const _: () = assert!(BATCH_MAGIC[0] != 0 && SEGMENT_MAGIC[0] != 0);

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
