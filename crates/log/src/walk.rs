//! Validates batches in sequence: a [`Cursor`] checks each block against the format's rules.
//!
//! A [`Cursor`] knows what must come next in one segment and checks the bytes there against the validity rule of
//! `format.rs`. Recovery, readers, `verify` and `salvage` all use it, so the rule is implemented once.

use crate::format::{BATCH_HEADER_BYTES, BatchHeader, Fault, Kind, SegmentHeader, check_body};
use crate::lsn::Lsn;
use crate::mutant::{self, Mutant};
use seawall_sys::durability::Class;

/// What must come next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The segment's header.
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
    pub(crate) last: Option<Kind>,
    /// The highest first LSN that was promised so far.
    pub(crate) trim: Lsn,
    /// The highest durable LSN that any accepted batch carried.
    pub(crate) witnessed: Lsn,
    /// The highest acknowledged LSN that any accepted batch carried.
    pub(crate) acknowledged: Lsn,
}

impl Cursor {
    /// At the start of a segment.
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
        }
    }

    /// Rules 1 to 6 for the header read from `offset` of the segment.
    pub(crate) fn self_valid(
        segment: &SegmentHeader,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(BatchHeader, u32), Fault> {
        let (header, checksum) = BatchHeader::decode(bytes)?;
        let other_segment = header.segment != segment.number && !mutant::on(Mutant::AcceptOtherSegment);
        let other_offset = header.offset != offset
            && !mutant::on(Mutant::AcceptOtherOffset)
            && !mutant::on(Mutant::IgnoreChainAndPlace);
        if header.log_id != segment.log_id || other_segment || other_offset {
            return Err(Fault::Place);
        }
        let end = offset.checked_add(header.disk_bytes(segment.block_bytes));
        if end.is_none_or(|end| end > segment.data_end()) {
            return Err(Fault::Length);
        }
        Ok((header, checksum))
    }

    /// Rules 1 to 10 for the header that starts `bytes`.
    pub(crate) fn check_header(&self, bytes: &[u8]) -> Result<(BatchHeader, u32), Fault> {
        let (header, checksum) = Self::self_valid(&self.segment, self.offset, bytes)?;
        let epoch_fits = match (self.last, header.kind) {
            (Some(Kind::Close), Kind::Open) => header.epoch > self.epoch,
            (Some(Kind::Close), _) | (_, Kind::Open) => false,
            _ => header.epoch == self.epoch,
        };
        let loose = mutant::on(Mutant::IgnoreChainAndPlace);
        if !epoch_fits && !mutant::on(Mutant::IgnoreEpoch) && !loose {
            return Err(Fault::Epoch);
        }
        if header.lsn != self.lsn && !mutant::on(Mutant::IgnoreLsn) && !loose {
            return Err(Fault::Lsn);
        }
        if header.link != self.link && !mutant::on(Mutant::IgnoreLink) && !loose {
            return Err(Fault::Link);
        }
        header.check_claims()?;
        Ok((header, checksum))
    }

    /// Rules 11 and 12 for the whole batch: header, records and padding.
    pub(crate) fn check_batch(header: &BatchHeader, batch: &[u8]) -> Result<(), Fault> {
        if mutant::on(Mutant::SkipBodyChecksum) {
            return Ok(());
        }
        check_body(header, batch)
    }

    /// Whether `later`, a self-valid header behind the place where the walk stopped, shows that more had been there for
    /// good: something durable past this end, or an opening behind this close mark, whose mark was synced before
    /// anything was written behind it. In a log of class power loss everything acknowledged is durable.
    pub(crate) fn is_contradicted_by(&self, later: &BatchHeader) -> bool {
        self.said_by(later) > self.lsn || (self.last == Some(Kind::Close) && later.epoch > self.epoch)
    }

    /// What `later` says of what was durable.
    pub(crate) fn said_by(&self, later: &BatchHeader) -> Lsn {
        match self.segment.class {
            Class::PowerLoss => later.durable.max(later.acknowledged),
            Class::ProcessCrash | Class::SystemCrash => later.durable,
        }
    }

    /// Steps behind a batch that was found valid.
    pub(crate) fn advance(&mut self, header: &BatchHeader, checksum: u32) {
        self.offset = self.offset.saturating_add(header.disk_bytes(self.segment.block_bytes));
        self.lsn = header.end();
        self.link = checksum;
        self.epoch = header.epoch;
        self.last = Some(header.kind);
        self.trim = self.trim.max(header.trim_lsn);
        self.witnessed = self.witnessed.max(header.durable);
        self.acknowledged = self.acknowledged.max(header.acknowledged);
    }

    /// Whether another batch header can still start in this segment.
    pub(crate) fn has_room(&self) -> bool {
        self.offset.saturating_add(BATCH_HEADER_BYTES as u64) <= self.segment.data_end()
    }
}
