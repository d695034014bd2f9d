//! Reads back every record of a recovered log, from any disk.

use std::borrow::Cow;

use crate::error::Result;
use crate::format::{RawRecord, Records, SegmentHeader, segment_name};
use crate::lsn::Lsn;
use crate::read::scan::{Scan, Source};
use crate::recovery::Recovered;
use crate::storage::disk::{Access, Disk, FileId, open, read_full};
use crate::testing::oracle::Violation;

/// Reads segments from any disk.
struct DiskSource<'a, D: Disk> {
    disk: &'a mut D,
    segments: &'a [SegmentHeader],
    open: Option<(u64, FileId)>,
}

impl<D: Disk> Source for DiskSource<'_, D> {
    fn read(&mut self, number: u64, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let name = segment_name(number);
        let file = match self.open {
            Some((open, file)) if open == number => file,
            other => {
                if let Some((_, file)) = other {
                    self.disk.close(file);
                }
                let file = open(self.disk, &name, Access::Direct)?;
                self.open = Some((number, file));
                file
            }
        };
        read_full(self.disk, &name, file, offset, buf)
    }

    fn successor(&mut self, number: u64) -> Option<SegmentHeader> {
        let at = self.segments.iter().position(|header| header.number == number)?;
        self.segments.get(at + 1).copied()
    }
}

/// What a record says: its tag, if it has one, and its payload.
pub(super) fn content<'a>(record: &RawRecord<'a>) -> Cow<'a, [u8]> {
    match &record.tag {
        None => Cow::Borrowed(record.payload),
        Some(tag) => Cow::Owned([&tag.encode(), record.payload].concat()),
    }
}

/// Hands every record of `recovered` to `see`, in reads of `read_bytes`.
pub(super) fn read_all<D: Disk>(
    disk: &mut D,
    recovered: &Recovered,
    read_bytes: usize,
    mut see: impl FnMut(Lsn, &[u8]) -> Result<(), Violation>,
) -> Result<Result<(), Violation>> {
    let segments = &recovered.segments;
    let Some(first) = segments.first().copied() else { return Ok(Ok(())) };
    let mut source = DiskSource { disk, segments, open: None };
    let mut scan = Scan::new(first, read_bytes);
    while let Some(batch) = scan.next_batch(&mut source, recovered.resume.end)? {
        let mut lsn = batch.header.lsn;
        for record in Records::new(&batch.buf.bytes()[batch.start..batch.end]) {
            if let Err(violation) = see(lsn, &content(&record)) {
                return Ok(Err(violation));
            }
            lsn = lsn.saturating_add(record.bytes() as u64);
        }
    }
    if let Some((_, file)) = source.open {
        disk.close(file);
    }
    Ok(Ok(()))
}
