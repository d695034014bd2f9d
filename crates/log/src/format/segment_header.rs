//! Encodes and decodes the header of a segment, by the drawing and the rules in `format/mod.rs`.

use seawall_sys::durability::Durability;

use crate::format::checksum::crc32c;
use crate::format::{
    BLOCK_SIZES, CHECKSUM, FORMAT_VERSION, Fault, Field, LogId, SEGMENT_FIELDS, SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC, SEGMENT_UNUSED, check_envelope, put, take, unused_is_zero,
};
use crate::lsn::Lsn;

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
