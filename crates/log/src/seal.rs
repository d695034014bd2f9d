//! How does a gathered batch become bytes on disk?
//!
//! Sealing writes the headers, pads with zeros and computes the checksums; batches are sealed strictly in order of
//! issue, because each one carries the checksum of the one before. The result is a [`Job`]: one or two phases of
//! writes, each durable before the next one starts.

use crate::asked::Grade;
use crate::buffer::AlignedBuf;
use crate::checksum::crc32c_more;
use crate::core::{Issue, Shape};
use crate::format::{BATCH_HEADER_BYTES, BatchHeader, SegmentHeader};
use crate::lsn::Lsn;
use crate::mutant::{self, Mutant};

/// The end of the chain of checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The header checksum of the last sealed batch.
    pub(crate) link: u32,
}

/// What is to be written for one batch.
#[derive(Debug)]
pub(crate) struct Job {
    /// The batch's number.
    pub(crate) id: u64,
    /// The segment to write to.
    pub(crate) segment: u64,
    /// Records in it.
    pub(crate) records: u32,
    /// How safe it must be before it is acknowledged.
    pub(crate) grade: Grade,
    /// A segment that must be synced before anything of this is written.
    pub(crate) settle: Option<u64>,
    /// Set if the segment is started with this batch: its header.
    pub(crate) starts: Option<SegmentHeader>,
    /// The durable LSN that it states.
    #[cfg(feature = "simulation")]
    witness: Lsn,
    header_blocks: Option<AlignedBuf>,
    offset: u64,
    bytes: usize,
    buf: AlignedBuf,
}

/// One write of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    /// Where in the segment, in bytes.
    pub(crate) offset: u64,
    /// What.
    pub(crate) bytes: &'a [u8],
    /// The number of the buffer that it lies in, if that has one.
    pub(crate) buffer: Option<u16>,
}

impl Job {
    /// The phases of the job. All writes of a phase must be durable before the next phase starts.
    pub(crate) fn phases(&self) -> impl Iterator<Item = Phase<'_>> {
        let start = self.starts.as_ref().zip(self.header_blocks.as_ref()).map(|(header, blocks)| {
            let (first, second) = blocks.bytes().split_at(blocks.capacity() / 2);
            Phase([
                Some(Write { offset: 0, bytes: first, buffer: None }),
                Some(Write { offset: header.data_end(), bytes: second, buffer: None }),
            ])
        });
        let batch =
            Write { offset: self.offset, bytes: &self.buf.bytes()[..self.bytes], buffer: self.buf.number() };
        let batch = (!self.is_settlement()).then_some(Phase([Some(batch), None]));
        start.into_iter().chain(batch)
    }

    /// Whether it writes nothing and only settles what others wrote.
    pub(crate) fn is_settlement(&self) -> bool {
        self.bytes == 0
    }

    /// The sync that must come first, unless the batch is followed by one of the whole file anyway, as it is where
    /// `sync_covers` and both lie in the same segment.
    pub(crate) fn settles_first(&self, sync_covers: bool) -> Option<u64> {
        let covered = sync_covers && !self.is_settlement() && self.starts.is_none();
        self.settle.filter(|segment| !covered || *segment != self.segment)
    }

    /// Nothing but the sync of `settle`.
    #[cfg_attr(
        not(feature = "simulation"),
        expect(unused_variables, reason = "only the oracle asks what it states")
    )]
    fn settlement(id: u64, settle: Option<u64>, durable: Lsn) -> Self {
        Self {
            id,
            segment: settle.unwrap_or(0),
            records: 0,
            grade: Grade::Full,
            settle,
            starts: None,
            #[cfg(feature = "simulation")]
            witness: durable,
            header_blocks: None,
            offset: 0,
            bytes: 0,
            buf: AlignedBuf::zeroed(0),
        }
    }

    /// The durable LSN that the batch states once it is on disk.
    #[cfg(feature = "simulation")]
    pub(crate) fn witness(&self) -> Lsn {
        self.witness
    }

    /// Bytes that the batch takes on disk.
    pub(crate) fn disk_bytes(&self) -> usize {
        self.bytes
    }

    /// The buffer, to be used again.
    pub(crate) fn into_buffer(self) -> AlignedBuf {
        self.buf
    }
}

/// Writes that may go to the disk together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase<'a>([Option<Write<'a>>; 2]);

impl<'a> Phase<'a> {
    /// Its writes.
    pub(crate) fn writes(&self) -> impl Iterator<Item = Write<'a>> + use<'a> {
        self.0.into_iter().flatten()
    }
}

/// Both copies of a segment header, each in a block of its own, one behind the other.
pub(crate) fn header_blocks(header: &SegmentHeader) -> AlignedBuf {
    let block = usize::from(header.block_bytes);
    let mut blocks = AlignedBuf::zeroed(2 * block);
    let (first, second) = blocks.bytes_mut().split_at_mut(block);
    header.encode(0, first);
    header.encode(1, second);
    blocks
}

impl Chain {
    /// Seals one batch.
    pub(crate) fn seal(&mut self, shape: &Shape, issue: Issue) -> Job {
        let Issue { id, batch, grade, settle, durable, trim } = issue;
        let Some(mut batch) = batch else { return Job::settlement(id, settle, durable) };
        let starts = batch.start.map(|start| SegmentHeader {
            block_bytes: shape.block_bytes,
            log_id: shape.log_id,
            epoch: shape.epoch,
            number: batch.segment,
            segment_bytes: start.bytes,
            first_lsn: batch.lsn,
            trim_lsn: if mutant::on(Mutant::TrimNotCarried) { Lsn::ZERO } else { trim },
            previous: start.previous,
            link: self.link,
        });
        let bytes = batch.used.next_multiple_of(shape.block_bytes.into());
        let out = &mut batch.buf.bytes_mut()[..bytes];
        out[batch.used..].fill(0);
        let body_bytes = u32::try_from(batch.used - BATCH_HEADER_BYTES).unwrap_or(u32::MAX);
        let header = BatchHeader {
            kind: batch.kind,
            log_id: shape.log_id,
            epoch: shape.epoch,
            segment: batch.segment,
            offset: batch.offset,
            lsn: batch.lsn,
            durable,
            trim_lsn: if mutant::on(Mutant::TrimNotCarried) && starts.is_some() { Lsn::ZERO } else { trim },
            body_bytes,
            records: batch.records,
            link: self.link,
            body_checksum: crc32c_more(batch.sum, &out[batch.summed..]),
        };
        let checksum = header.encode(out);
        if !mutant::on(Mutant::LinkNotAdvanced) {
            self.link = checksum;
        }
        if mutant::on(Mutant::WriteWithoutTail) {
            // What a short write leaves behind when nobody looks at the count.
            out[bytes - 1] = 1;
        }
        Job {
            id: batch.id,
            segment: batch.segment,
            records: batch.records,
            grade,
            settle,
            starts,
            #[cfg(feature = "simulation")]
            witness: durable,
            header_blocks: starts.as_ref().map(header_blocks),
            offset: batch.offset,
            bytes,
            buf: batch.buf,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Chain;
    use crate::asked::Grade;
    use crate::core::{Beginning, Core, Place, Shape};
    use crate::format::{LogId, Records, SegmentHeader};
    use crate::lsn::Lsn;
    use crate::walk::Cursor;

    #[test]
    fn what_is_sealed_is_what_a_walk_accepts_in_order_and_whatever_its_grade() {
        let log_id = LogId([3; 16]);
        let shape =
            Shape { log_id, epoch: 1, block_bytes: 512, batch_bytes: 1024, depth: 2, memory_bytes: 4096 };
        let place = Place { segment: 1, offset: 512, data_end: 1 << 20 };
        let beginning = Beginning { end: Lsn::ZERO, trim: Lsn::ZERO, place, spares: Vec::new() };
        let mut core = Core::new(shape, beginning);
        let mut chain = Chain { link: 0 };
        let segment = SegmentHeader {
            block_bytes: 512,
            log_id,
            epoch: 1,
            number: 1,
            segment_bytes: (1 << 20) + 512,
            first_lsn: Lsn::ZERO,
            trim_lsn: Lsn::ZERO,
            previous: 0,
            link: 0,
        };
        let mut cursor = Cursor::start(segment);
        for round in 0..6_u8 {
            let records = [vec![round; 700], Vec::new(), vec![round; usize::from(round)]];
            let end = records.iter().map(|record| core.append(record).expect("there is room")).last();
            core.want([Grade::Full, Grade::Process][usize::from(round % 2)], end.unwrap_or_default());
            let mut read = Vec::new();
            while let Some(issue) = core.issue() {
                let settles = issue.settle;
                let job = chain.seal(&shape, issue);
                assert_eq!(settles.is_some(), round > 0 && job.grade == Grade::Full && round % 2 == 0);
                for write in job.phases().flat_map(|phase| phase.writes()) {
                    assert_eq!(write.offset, cursor.offset);
                    let (header, checksum) = cursor.check_header(write.bytes).expect("the next batch");
                    Cursor::check_batch(&header, write.bytes).expect("whole");
                    assert!(header.durable <= core.watermarks().durable);
                    let body =
                        &write.bytes[crate::format::BATCH_HEADER_BYTES..][..header.body_bytes as usize];
                    read.extend(Records::new(body).map(|record| record.payload.to_vec()));
                    cursor.advance(&header, checksum);
                }
                core.done(job.id, job.into_buffer());
            }
            assert_eq!(read, records);
            assert_eq!(core.watermarks().durable == core.watermarks().appended, round % 2 == 0);
        }
    }
}
