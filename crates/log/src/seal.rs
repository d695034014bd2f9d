//! How does a gathered batch become bytes on disk?
//!
//! Sealing writes the headers, pads with zeros and computes the checksums; batches are sealed strictly in order of
//! issue, because each one carries the checksum of the one before. The result is a [`Job`]: one or two phases of
//! writes, each durable before the next one starts.

use crate::buffer::AlignedBuf;
use crate::checksum::crc32c;
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
        start.into_iter().chain(std::iter::once(Phase([Some(batch), None])))
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
        let Issue { mut batch, durable, trim } = issue;
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
            body_checksum: crc32c(&out[BATCH_HEADER_BYTES..]),
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
