//! Encodes a gathered batch into its on-disk bytes: headers, padding, checksums and the order of writes.
//!
//! Sealing writes the headers, pads with zeros and computes the checksums; batches are sealed strictly in order of
//! issue, because each one contains the checksum of the one before. The result is a [`Job`]: one or two writes, each
//! durable before the next one starts.
//!
//! ```text
//!   a batch                       [batch]
//!   the first one of a segment    [header, copy 1]  then  [header, copy 0 | batch]
//! ```
//!
//! Invariant: no batch is in flight in a segment that is not durably started; copy 1 alone is enough for that, so
//! copy 0, which lies right before the first batch, costs no write of its own.

use crate::commit::state::{CoreConfig, Issue};
use crate::format::buffer::AlignedBuf;
use crate::format::checksum::crc32c_more;
use crate::format::{BATCH_HEADER_BYTES, BatchHeader, SegmentHeader};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use seawall_sys::{NumberedBuffer, planted};

/// The end of the chain of checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The header checksum of the last sealed batch.
    pub(crate) link: u32,
    /// The time of that batch, microseconds since 1970: the next one has none before it.
    pub(crate) time_us: u64,
}

/// What is to be written for one batch.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) segment: u64,
    pub(crate) records: u32,
    pub(crate) level: AckLevel,
    pub(crate) sync_first: Option<u64>,
    /// Set if the segment is started with this batch: its header.
    pub(crate) starts: Option<SegmentHeader>,
    /// The durable LSN that it states.
    #[cfg(feature = "simulation")]
    pub(crate) witness: Lsn,
    /// The last block of the segment, with copy 1 of its header, if the segment is started with this batch.
    last_block: Option<AlignedBuf>,
    offset: u64,
    bytes: usize,
    buf: AlignedBuf,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentWrite<'a> {
    /// Where in the segment, in bytes.
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
    /// The buffer that it lies in, if that has a number.
    pub(crate) buffer: Option<NumberedBuffer<'a>>,
}

impl Job {
    /// The writes of the job. Each must be durable before the next one is begun.
    pub(crate) fn writes(&self) -> impl Iterator<Item = SegmentWrite<'_>> {
        let start = self.starts.as_ref().zip(self.last_block.as_ref());
        let start = start.map(|(header, block)| SegmentWrite {
            offset: header.data_end(),
            bytes: block.bytes(),
            buffer: None,
        });
        // The first batch is written together with the header copy before it.
        let front = if self.starts.is_some() { usize::try_from(self.offset).unwrap_or(0) } else { 0 };
        let bytes = &self.buf.bytes_behind(front)[..front + self.bytes];
        let batch =
            SegmentWrite { offset: self.offset - front as u64, bytes, buffer: self.buf.registrable() };
        start.into_iter().chain((!self.is_sync_only()).then_some(batch))
    }

    /// Whether it writes nothing and only syncs what other jobs wrote.
    pub(crate) fn is_sync_only(&self) -> bool {
        self.bytes == 0
    }

    /// The sync that must come first, unless the batch is followed by one of the whole file anyway, as it is where
    /// `sync_covers` and both lie in the same segment. A write that is durable by itself is no such sync: with FUA it
    /// flushes nothing that was written before.
    pub(crate) fn needs_sync_first(&self, sync_covers: bool) -> Option<u64> {
        let covered = planted!(TrustFlushOfFua, sync_covers) && !self.is_sync_only() && self.starts.is_none();
        self.sync_first.filter(|segment| !covered || *segment != self.segment)
    }

    /// What the sync of [`Job::needs_sync_first`] means for the batch: a failed sync fails the batch.
    pub(crate) fn first_sync<T, E>(result: std::result::Result<T, E>) -> std::result::Result<(), E> {
        planted!(DebtSyncErrorIgnored, result.map(drop))
    }

    /// A job that writes nothing and syncs the segment `sync_first`.
    #[cfg_attr(
        not(feature = "simulation"),
        expect(unused_variables, reason = "only the oracle reads what it states")
    )]
    fn sync_only(id: u64, sync_first: Option<u64>, durable: Lsn) -> Self {
        Self {
            id,
            segment: sync_first.unwrap_or(0),
            records: 0,
            level: AckLevel::Full,
            sync_first,
            starts: None,
            #[cfg(feature = "simulation")]
            witness: durable,
            last_block: None,
            offset: 0,
            bytes: 0,
            buf: AlignedBuf::zeroed(0),
        }
    }

    pub(crate) fn disk_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn into_buffer(self) -> AlignedBuf {
        self.buf
    }
}

/// One copy of a segment header in a block of its own.
pub(crate) fn header_block(header: &SegmentHeader, copy: u32) -> AlignedBuf {
    let mut block = AlignedBuf::zeroed(header.block_bytes.into());
    header.encode(copy, block.bytes_mut());
    block
}

impl Chain {
    /// After a batch whose header has this checksum, at an unknown time.
    #[cfg(test)]
    pub(crate) fn new(link: u32) -> Self {
        Self { link, time_us: 0 }
    }

    /// The next batch was gathered at this time, microseconds since 1970, unless the clock went back.
    pub(crate) fn at(&mut self, time_us: u64) {
        self.time_us = self.time_us.max(time_us);
    }

    pub(crate) fn seal(&mut self, config: &CoreConfig, issue: Issue) -> Job {
        let Issue { id, batch, level, sync_first, durable, acknowledged, trim } = issue;
        let Some(mut batch) = batch else { return Job::sync_only(id, sync_first, durable) };
        let starts = batch.start.map(|start| SegmentHeader {
            block_bytes: config.block_bytes,
            log_id: config.log_id,
            epoch: config.epoch,
            number: batch.segment,
            segment_bytes: start.bytes,
            first_lsn: batch.lsn,
            trim_lsn: planted!(TrimNotStated, trim),
            previous: start.previous,
            link: self.link,
            class: config.class,
            streams_from: start.streams_from,
            cuts_from: start.cuts_from,
        });
        let bytes = batch.used.next_multiple_of(config.block_bytes.into());
        let out = &mut batch.buf.bytes_mut()[..bytes];
        out[batch.used..].fill(0);
        let body_bytes = u32::try_from(batch.used - BATCH_HEADER_BYTES).unwrap_or(u32::MAX);
        let header = BatchHeader {
            kind: batch.kind,
            log_id: config.log_id,
            epoch: config.epoch,
            segment: batch.segment,
            offset: batch.offset,
            lsn: batch.lsn,
            durable,
            acknowledged,
            trim_lsn: planted!(TrimNotStated(starts.is_some(), trim), trim),
            body_bytes,
            records: batch.records,
            link: self.link,
            body_checksum: crc32c_more(batch.sum, &out[batch.summed..]),
            tagged: batch.tagged,
            cuts: batch.cuts,
            time_us: self.time_us,
        };
        let checksum = header.encode(out);
        planted!(LinkNotAdvanced, self.link = checksum);
        planted!(WriteWithoutTail(out));
        let last_block = starts.as_ref().map(|header| {
            let first = batch.buf.front_mut(config.block_bytes.into());
            first.fill(0);
            header.encode(0, first);
            header_block(header, 1)
        });
        Job {
            id: batch.id,
            segment: batch.segment,
            records: batch.records,
            level,
            sync_first,
            starts,
            #[cfg(feature = "simulation")]
            witness: durable,
            last_block,
            offset: batch.offset,
            bytes,
            buf: batch.buf,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Chain;
    use crate::commit::state::{Core, CoreConfig, ResumePoint};
    use crate::format::cursor::Cursor;
    use crate::format::{BLOCK_SIZES, Records, SEGMENT_HEADER_BYTES, SegmentHeader};
    use crate::lsn::Lsn;
    use crate::method::ack_level::AckLevel;
    use crate::segment::{Place, Spare};
    use crate::stream::cuts::CutList;
    use crate::stream::state::TaggedState;
    use crate::testing::fixtures;

    #[test]
    fn sealed_batches_pass_the_cursor_in_order_at_every_level() {
        let config = fixtures::config(512, 1024, 2);
        let place = Place { segment: 1, offset: 512, data_end: 1 << 20 };
        let mut core = fixtures::core(config, place);
        let mut chain = Chain::new(0);
        let segment = fixtures::segment(1, 512, (1 << 20) + 512, Lsn::ZERO);
        let mut cursor = Cursor::start(segment);
        for round in 0..6_u8 {
            let records = [vec![round; 700], Vec::new(), vec![round; usize::from(round)]];
            let end = records.iter().map(|record| core.append(record).expect("there is room")).last();
            core.request(
                [AckLevel::Full, AckLevel::Process][usize::from(round % 2)],
                end.unwrap_or_default(),
            );
            let mut read = Vec::new();
            while let Some(issue) = core.issue() {
                let syncs_first = issue.sync_first;
                let job = chain.seal(&config, issue);
                assert_eq!(syncs_first.is_some(), round > 0 && job.level == AckLevel::Full && round % 2 == 0);
                for write in job.writes() {
                    assert_eq!(write.offset, cursor.offset);
                    let (header, checksum) = cursor.check_header(write.bytes).expect("the next batch");
                    Cursor::check_batch(&header, write.bytes).expect("whole");
                    assert!(header.durable <= core.durable());
                    let body =
                        &write.bytes[crate::format::BATCH_HEADER_BYTES..][..header.body_bytes as usize];
                    read.extend(Records::new(body).map(|record| record.payload.to_vec()));
                    cursor.advance(&header, checksum);
                }
                core.done(job.id, job.into_buffer());
            }
            assert_eq!(read, records);
            assert_eq!(core.durable() == core.appended(), round % 2 == 0);
        }
    }

    /// The cuts that a segment states which starts after a trim that no batch has stated yet.
    fn stated_behind_an_unwritten_trim() -> CutList {
        let mut tagged = TaggedState { cuts_from: 1, ..TaggedState::default() };
        tagged.cuts.cut(Lsn::new(40), Lsn::new(60));
        let place = Place { segment: 1, offset: 1 << 15, data_end: 1 << 15 };
        let spares = vec![Spare { number: 2, bytes: 1 << 16 }];
        let resume = ResumePoint { end: Lsn::new(100), trim: Lsn::ZERO, place, spares, tagged };
        let mut core = Core::new(fixtures::config(512, 8192, 2), resume);
        assert_eq!(core.set_trim(Lsn::new(80), Lsn::MAX), Lsn::new(80));
        core.append(b"starts a segment").expect("there is a spare");
        core.tagged.cuts.clone()
    }

    #[test]
    fn a_segment_states_the_cuts_that_only_an_unwritten_trim_has_left_behind() {
        let stated = stated_behind_an_unwritten_trim();
        assert!(stated.hides(Lsn::new(40)), "a crash may lose the trim and keep the statement");
        #[cfg(feature = "mutants")]
        {
            use crate::testing::mutant::{Mutant, set};
            let (mutant, lost) = (Mutant::CutsRestatedPastTrim, Lsn::new(40));
            set(Some(mutant));
            assert!(!stated_behind_an_unwritten_trim().hides(lost));
            set(None);
        }
    }

    #[test]
    fn the_time_of_a_batch_never_goes_back() {
        let mut chain = Chain::new(0);
        for (clock, stated) in [(5, 5), (3, 5), (0, 5), (9, 9)] {
            chain.at(clock);
            assert_eq!(chain.time_us, stated, "when the clock says {clock}");
        }
    }

    #[test]
    fn a_segment_is_started_durably_before_its_first_batch_and_with_two_writes() {
        for block_bytes in BLOCK_SIZES {
            let config = CoreConfig { epoch: 7, ..fixtures::config(block_bytes, 8192, 2) };
            let (block, bytes) = (usize::from(block_bytes), 1 << 16);
            // No room is left in segment 1.
            let place = Place { segment: 1, offset: 1 << 15, data_end: 1 << 15 };
            let spares = vec![Spare { number: 4, bytes }];
            let resume = ResumePoint {
                end: Lsn::new(100),
                trim: Lsn::new(50),
                place,
                spares,
                tagged: TaggedState::default(),
            };
            let mut core = Core::new(config, resume);
            let end = core.append(b"the first one").expect("there is a spare");
            core.request(AckLevel::Full, end);
            let job = Chain::new(9).seal(&config, core.issue().expect("there is a batch"));
            let writes: Vec<_> = job.writes().collect();
            let [last, first] = writes[..] else { panic!("{} writes", writes.len()) };
            assert_eq!((last.offset, last.bytes.len(), first.offset), (bytes - block as u64, block, 0));
            let header = SegmentHeader::decode(last.bytes, 1, 4, bytes).expect("copy 1");
            assert_eq!(SegmentHeader::decode(&first.bytes[..block], 0, 4, bytes), Ok(header));
            assert_eq!(
                (header.first_lsn, header.trim_lsn, header.previous, header.link),
                (Lsn::new(100), Lsn::new(50), 1, 9)
            );
            for blank in [&last.bytes[SEGMENT_HEADER_BYTES..], &first.bytes[SEGMENT_HEADER_BYTES..block]] {
                assert!(blank.iter().all(|byte| *byte == 0));
            }
            let cursor = Cursor::start(header);
            let (batch, _) = cursor.check_header(&first.bytes[block..]).expect("the first batch");
            Cursor::check_batch(&batch, &first.bytes[block..]).expect("whole");
            assert_eq!(batch.end(), end);
        }
    }
}
