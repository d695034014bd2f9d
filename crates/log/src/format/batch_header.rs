//! Encodes and decodes the header of a batch, and checks it and the records after it by the rules in `format/mod.rs`.

use crate::format::checksum::crc32c;
use crate::format::{
    BATCH_FIELDS, BATCH_HEADER_BYTES, BATCH_MAGIC, BATCH_UNUSED, CHECKSUM, FORMAT_VERSION, Fault, Field,
    LogId, Records, check_envelope, put, take, unused_is_zero,
};
use crate::lsn::Lsn;

/// Batch flags: some record has a tag, some record says what of the log is cut.
const TAGGED: u16 = 1;
const CUTS: u16 = 2;
/// Stands for any distance from here on between the acknowledged LSN and that of a batch.
const FAR: u32 = u32::MAX;

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
