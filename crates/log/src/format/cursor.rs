//! Validates batches in sequence: a [`Cursor`] checks each block against the format's rules.
//!
//! A [`Cursor`] knows what must come next in one segment and checks the bytes there against the validity rule of
//! `format/mod.rs`. Recovery, readers, `verify` and `salvage` all use it, so the rule is implemented once.

use crate::format::checksum::crc32c_more;
use crate::format::{
    BATCH_HEADER_BYTES, BatchHeader, BatchKind, Fault, RECORD_BYTES_MAX, RECORD_HEADER_BYTES, RecordHead,
    SegmentHeader, TAG_BYTES, Tag, check_body,
};
use crate::lsn::Lsn;
use seawall_sys::durability::Durability;
use seawall_sys::planted;

/// The longest batch in bytes: the longest record or transaction, and all that a batch of the usual kind may hold.
pub(crate) const BATCH_BYTES_MAX: u64 = RECORD_BYTES_MAX as u64 + (64 << 20);
/// What is read in pieces is read from multiples of this many bytes.
const PIECE_ALIGN: u64 = 4096;

/// What must come next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) segment: SegmentHeader,
    /// Where the next batch starts, in bytes.
    pub(crate) offset: u64,
    /// The LSN it must have.
    pub(crate) lsn: Lsn,
    /// The link it must have.
    pub(crate) link: u32,
    /// The epoch it must have.
    pub(crate) epoch: u64,
    /// The kind of the batch before it, `None` at the start of the segment.
    pub(crate) last: Option<BatchKind>,
    /// The highest first LSN that was promised so far.
    pub(crate) trim: Lsn,
    /// The highest durable LSN that any accepted batch stated.
    pub(crate) witnessed: Lsn,
    /// The highest acknowledged LSN that any accepted batch stated.
    pub(crate) acknowledged: Lsn,
    /// Whether any accepted batch holds tagged records.
    pub(crate) tagged: bool,
    /// How many accepted batches say what of the log is cut.
    pub(crate) cuts: u64,
    /// The latest time of any accepted batch, microseconds since 1970.
    pub(crate) time_us: u64,
}

impl Cursor {
    pub(crate) fn start(segment: SegmentHeader) -> Self {
        Self {
            segment,
            offset: segment.data_start(),
            lsn: segment.first_lsn,
            link: segment.link,
            epoch: segment.epoch,
            last: None,
            trim: segment.trim_lsn,
            witnessed: segment.first_lsn,
            acknowledged: segment.first_lsn,
            tagged: false,
            cuts: 0,
            time_us: 0,
        }
    }

    /// Rules 1 to 6 for the header read from `offset` of the segment.
    pub(crate) fn self_valid(
        segment: &SegmentHeader,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(BatchHeader, u32), Fault> {
        let (header, checksum) = BatchHeader::decode(bytes)?;
        let other_segment = planted!(AcceptOtherSegment, header.segment != segment.number);
        let other_offset = planted!(AcceptOtherOffset | IgnoreChainAndPlace, header.offset != offset);
        if header.log_id != segment.log_id || other_segment || other_offset {
            return Err(Fault::Place);
        }
        let bytes = header.disk_bytes(segment.block_bytes);
        let end = offset.checked_add(bytes);
        if bytes > BATCH_BYTES_MAX || end.is_none_or(|end| end > segment.data_end()) {
            return Err(Fault::Length);
        }
        Ok((header, checksum))
    }

    /// Rules 1 to 10 for the header that starts `bytes`.
    pub(crate) fn check_header(&self, bytes: &[u8]) -> Result<(BatchHeader, u32), Fault> {
        let (header, checksum) = Self::self_valid(&self.segment, self.offset, bytes)?;
        planted!(IgnoreChainAndPlace, self.check_chain(&header)?);
        header.check_claims()?;
        Ok((header, checksum))
    }

    /// Whether `header` follows what was accepted last: its epoch, LSN and link.
    fn check_chain(&self, header: &BatchHeader) -> Result<(), Fault> {
        let epoch_fits = match (self.last, header.kind) {
            (Some(BatchKind::Close), BatchKind::Open) => header.epoch > self.epoch,
            (Some(BatchKind::Close), _) | (_, BatchKind::Open) => false,
            _ => header.epoch == self.epoch,
        };
        if planted!(IgnoreEpoch, !epoch_fits) {
            return Err(Fault::Epoch);
        }
        if planted!(IgnoreLsn, header.lsn != self.lsn) {
            return Err(Fault::Lsn);
        }
        if planted!(IgnoreLink, header.link != self.link) {
            return Err(Fault::Link);
        }
        Ok(())
    }

    /// Rules 11 and 12 for the whole batch: header, records and padding.
    pub(crate) fn check_batch(header: &BatchHeader, batch: &[u8]) -> Result<(), Fault> {
        planted!(SkipBodyChecksum, check_body(header, batch))
    }

    /// Whether `later`, a self-valid header after the place where the walk stopped, shows that more had been there for
    /// good: something durable past this end, or an opening after this close mark, whose mark was synced before
    /// anything was written after it. In a log of class power loss everything acknowledged is durable.
    pub(crate) fn is_contradicted_by(&self, later: &BatchHeader) -> bool {
        self.durable_claim(later) > self.lsn
            || (self.last == Some(BatchKind::Close) && later.epoch > self.epoch)
    }

    /// What `later` says of what was durable.
    pub(crate) fn durable_claim(&self, later: &BatchHeader) -> Lsn {
        match self.segment.class {
            Durability::PowerLoss => later.durable.max(later.acknowledged),
            Durability::ProcessCrash | Durability::SystemCrash => later.durable,
        }
    }

    /// Steps after a batch that was found valid.
    pub(crate) fn advance(&mut self, header: &BatchHeader, checksum: u32) {
        self.offset = self.offset.saturating_add(header.disk_bytes(self.segment.block_bytes));
        self.lsn = header.end();
        self.link = checksum;
        self.epoch = header.epoch;
        self.last = Some(header.kind);
        self.trim = self.trim.max(header.trim_lsn);
        self.witnessed = self.witnessed.max(header.durable);
        self.acknowledged = self.acknowledged.max(header.acknowledged);
        self.tagged |= header.tagged;
        self.cuts += u64::from(header.cuts);
        self.time_us = self.time_us.max(header.time_us);
    }

    /// Whether another batch header can still start in this segment.
    pub(crate) fn has_room(&self) -> bool {
        self.offset.saturating_add(BATCH_HEADER_BYTES as u64) <= self.segment.data_end()
    }
}

/// The header of a record and its tag.
const HEAD_BYTES: usize = RECORD_HEADER_BYTES + TAG_BYTES;

/// Rules 11 and 12 for a batch whose bytes come piece by piece.
#[derive(Debug)]
struct BodyCheck {
    sum: u32,
    /// Bytes of records that are still to come.
    left: usize,
    /// The header of the record that comes, and its tag, as far as they have come.
    head: [u8; HEAD_BYTES],
    head_filled: usize,
    /// Bytes of the record that are still to come.
    payload_left: usize,
    more: bool,
    records: u32,
    /// Whether a record may have a tag.
    tagged: bool,
    broken: bool,
}

impl BodyCheck {
    fn new(header: &BatchHeader) -> Self {
        let (left, tagged) = (header.body_bytes as usize, header.tagged);
        let head = [0; HEAD_BYTES];
        Self {
            sum: 0,
            left,
            head,
            head_filled: 0,
            payload_left: 0,
            more: false,
            records: 0,
            tagged,
            broken: false,
        }
    }

    fn take(&mut self, piece: &[u8]) {
        self.sum = crc32c_more(self.sum, piece);
        let mut rest = &piece[..piece.len().min(self.left)];
        self.left -= rest.len();
        while !rest.is_empty() {
            let of_payload = rest.len().min(self.payload_left);
            self.payload_left -= of_payload;
            rest = &rest[of_payload..];
            let of_head = rest.len().min(self.head_bytes() - self.head_filled);
            self.head[self.head_filled..][..of_head].copy_from_slice(&rest[..of_head]);
            self.head_filled += of_head;
            rest = &rest[of_head..];
            if self.head_filled >= RECORD_HEADER_BYTES && self.head_filled == self.head_bytes() {
                self.begin_record();
            }
        }
    }

    /// How many bytes stand before the payload, as far as that is known.
    fn head_bytes(&self) -> usize {
        if self.head_filled < RECORD_HEADER_BYTES {
            RECORD_HEADER_BYTES
        } else {
            self.record_head().front_bytes()
        }
    }

    fn record_head(&self) -> RecordHead {
        let [a, b, c, d, ..] = self.head;
        RecordHead::read([a, b, c, d])
    }

    fn begin_record(&mut self) {
        let head = self.record_head();
        // A tag is judged as in one piece: by a record of it alone, whose payload may be missing only where one is allowed.
        let tag_fits = !head.has_tag || (self.tagged && Tag::fits(self.head, head.length));
        self.broken |= !tag_fits;
        (self.payload_left, self.more) = (head.length, head.more);
        self.records = self.records.saturating_add(1);
        self.head_filled = 0;
    }

    fn finish(&self, header: &BatchHeader) -> Result<(), Fault> {
        if self.sum != header.body_checksum {
            return Err(Fault::BodyChecksum);
        }
        let whole = self.left == 0 && self.head_filled == 0 && self.payload_left == 0;
        let filled = whole && self.records == header.records && !self.more && !self.broken;
        let of_its_kind = (header.kind == BatchKind::Records) == (self.records > 0);
        if filled && of_its_kind { Ok(()) } else { Err(Fault::Records) }
    }
}

/// Rules 11 and 12 for the batch at `offset`, of blocks of `block_bytes`, which `read` reads through `buf` from a place
/// in the segment on: what a header claims costs no memory.
pub(crate) fn check_in_pieces<E>(
    header: &BatchHeader,
    (offset, block_bytes): (u64, u16),
    buf: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<Result<(), Fault>, E> {
    let end = offset.saturating_add(header.disk_bytes(block_bytes));
    let mut at = offset.saturating_add(BATCH_HEADER_BYTES as u64);
    let mut check = BodyCheck::new(header);
    while at < end {
        let start = at - at % PIECE_ALIGN;
        let left = usize::try_from((end - start).next_multiple_of(PIECE_ALIGN)).unwrap_or(usize::MAX);
        let wanted = left.min(buf.len());
        let filled = read(start, &mut buf[..wanted])?;
        let from = usize::try_from(at - start).unwrap_or(usize::MAX);
        let to = filled.min(usize::try_from(end - start).unwrap_or(usize::MAX));
        if to <= from {
            return Ok(Err(Fault::BodyChecksum));
        }
        check.take(&buf[from..to]);
        at = start + to as u64;
    }
    Ok(planted!(SkipBodyChecksum, check.finish(header)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::check_in_pieces;
    use crate::format::checksum::crc32c;
    use crate::format::{
        BATCH_HEADER_BYTES, BatchHeader, BatchKind, Tag, TagKind, check_body, record_header, tagged_header,
    };
    use crate::lsn::Lsn;
    use crate::testing::fixtures;

    const BLOCK: u16 = 512;

    /// A batch of records of these lengths, each second one with a tag of this kind if one is named.
    fn batch(lengths: &[usize], more: bool, kind: Option<TagKind>) -> (BatchHeader, Vec<u8>) {
        let mut bytes = vec![0; BATCH_HEADER_BYTES];
        for (i, length) in lengths.iter().enumerate() {
            match kind.filter(|_| i % 2 == 0) {
                None => bytes.extend(record_header(*length, more).expect("short enough")),
                Some(kind) => {
                    let tag = Tag { kind, stream: 7, number: 9 };
                    bytes.extend(tagged_header(*length, more, &tag).expect("short enough"));
                }
            }
            bytes.extend(std::iter::repeat_n(0xA5, *length));
        }
        let body_bytes = u32::try_from(bytes.len() - BATCH_HEADER_BYTES).expect("short");
        bytes.resize(bytes.len().next_multiple_of(BLOCK.into()), 0);
        let header = BatchHeader {
            kind: BatchKind::Records,
            body_bytes,
            records: u32::try_from(lengths.len()).expect("few"),
            tagged: kind.is_some(),
            body_checksum: crc32c(&bytes[BATCH_HEADER_BYTES..]),
            ..fixtures::mark(&fixtures::segment(1, BLOCK, 1 << 20, Lsn::ZERO), 1024)
        };
        header.encode(&mut bytes);
        (header, bytes)
    }

    #[test]
    fn piece_by_piece_is_judged_as_at_once() {
        let lengths: [&[usize]; 5] = [&[], &[0], &[0, 1, 2, 3, 0, 0], &[9000, 4093, 1, 12_000], &[40_000]];
        let kinds = [None, Some(TagKind::Data), Some(TagKind::StreamCut)];
        for (lengths, kind) in lengths.into_iter().flat_map(|lengths| kinds.map(|kind| (lengths, kind))) {
            let (good, bytes) = batch(lengths, false, kind);
            let mut rows = vec![(good, bytes.clone()), batch(lengths, true, kind)];
            rows.push((BatchHeader { tagged: !good.tagged, ..good }, bytes.clone()));
            rows.push((BatchHeader { records: good.records + 1, ..good }, bytes.clone()));
            rows.push((BatchHeader { kind: BatchKind::Mark, ..good }, bytes.clone()));
            rows.push((BatchHeader { body_checksum: !good.body_checksum, ..good }, bytes.clone()));
            rows.push((BatchHeader { body_bytes: good.body_bytes.saturating_sub(1), ..good }, bytes.clone()));
            for (row, (header, bytes)) in rows.into_iter().enumerate() {
                let file = [vec![0; 1024], bytes.clone()].concat();
                for piece in [4096, 8192, 1 << 20] {
                    let mut buf = vec![0; piece];
                    let checked = check_in_pieces(&header, (1024, BLOCK), &mut buf, |at, buf| {
                        let from = usize::try_from(at).expect("small").min(file.len());
                        let read = buf.len().min(file.len() - from);
                        buf[..read].copy_from_slice(&file[from..from + read]);
                        Ok::<_, std::convert::Infallible>(read)
                    });
                    let whole = usize::try_from(header.disk_bytes(BLOCK)).expect("small");
                    let expected = check_body(&header, &bytes[..whole.min(bytes.len())]);
                    assert_eq!(checked.expect("reads"), expected, "{lengths:?} row {row} by {piece}");
                }
            }
        }
    }
}
