//! Accepts records into the log: into the open batch, or as a batch of their own if they are large.
//!
//! Invariant: however a transaction ends, also by a panic, its memory goes back to the log.

use std::ops::Range;

use super::Log;
use crate::commit::large::accept_large;
use crate::commit::state::{Core, Refusal};
use crate::commit::sync::{MutexGuard, lock};
use crate::commit::transaction::{Finished, Transaction};
use crate::error::{Error, Result};
use crate::format::{
    BATCH_HEADER_BYTES, RECORD_HEADER_BYTES, TAG_BYTES, Tag, TagKind, record_header, tagged_header,
};
use crate::lsn::Lsn;
use crate::read::stream::StreamAppend;
use crate::stream::StreamId;
use crate::stream::state::Numbering;

/// Where `record` lies if it ends at `end`: in one piece, with its header in front.
#[inline]
pub(super) fn range_of(record: &[u8], end: Lsn) -> Range<Lsn> {
    start_of(RECORD_HEADER_BYTES, record, end)..end
}

fn start_of(header_bytes: usize, record: &[u8], end: Lsn) -> Lsn {
    Lsn::new(end.get() - (header_bytes + record.len()) as u64)
}

fn stream_append(record: &[u8], seq: u64, end: Lsn) -> StreamAppend {
    StreamAppend { seq, start: start_of(RECORD_HEADER_BYTES + TAG_BYTES, record, end), end }
}

impl Log {
    pub(super) fn check_length(&self, bytes: usize) -> Result<()> {
        if bytes > self.record_bytes_max { Err(self.too_long(bytes)) } else { Ok(()) }
    }

    pub(super) fn too_long(&self, bytes: usize) -> Error {
        Error::TooLong { bytes: bytes as u64, bytes_max: self.record_bytes_max as u64 }
    }

    /// Wakes the first future in line: a large record that was refused may have held the memory that it waits for.
    pub(super) fn pass_on_memory(&self) {
        self.group.waiters.appends.wake_up_to(0);
    }

    /// As [`Log::append_no_wait`], for a future that is in line itself.
    pub(crate) fn try_in_line(&self, record: &[u8]) -> Result<Range<Lsn>> {
        self.accept_record::<false>(record).map(|(end, _)| range_of(record, end))
    }

    /// Whether the record fills a batch of its own.
    #[inline]
    pub(crate) fn is_large(&self, record: &[u8]) -> bool {
        Core::is_large(&self.group.config, BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + record.len())
    }

    #[inline]
    pub(super) fn accept_record<const WAIT: bool>(
        &self,
        record: &[u8],
    ) -> Result<(Lsn, MutexGuard<'_, Core>)> {
        self.check_length(record.len())?;
        if self.is_large(record) {
            let head = record_header(record.len(), false).ok_or_else(|| self.too_long(record.len()))?;
            return self.accept_large::<WAIT>([&head, record], (1, Numbering::Untagged));
        }
        self.group.accept_or::<WAIT>(|core| core.append(record))
    }

    pub(super) fn accept_large<const WAIT: bool>(
        &self,
        parts: [&[u8]; 2],
        count: (u32, Numbering),
    ) -> Result<(Lsn, MutexGuard<'_, Core>)> {
        let lsn = accept_large::<WAIT>(&self.group, parts, false, |core, large| {
            core.adopt(large.buf, large.used, count, large.sum)
        })?;
        Ok((lsn, self.group.core()))
    }

    pub(crate) fn try_append_to_stream(&self, stream: StreamId, record: &[u8]) -> Result<StreamAppend> {
        self.check_length(record.len())?;
        let used = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + TAG_BYTES + record.len();
        if Core::is_large(&self.group.config, used) || !self.group.threads.has_rewriter() {
            return Err(Error::WouldBlock);
        }
        let (end, seq) = self.group.try_accept(|core| core.append_to(stream, record))?;
        Ok(stream_append(record, seq, end))
    }

    pub(crate) fn append_to_stream<const WAIT: bool>(
        &self,
        stream: StreamId,
        record: &[u8],
    ) -> Result<StreamAppend> {
        self.check_length(record.len())?;
        self.start_rewriter()?;
        let used = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + TAG_BYTES + record.len();
        if !Core::is_large(&self.group.config, used) {
            let mut seq = 0;
            let accepted = self.group.accept_or::<WAIT>(|core| {
                let (end, number) = core.append_to(stream, record)?;
                seq = number;
                Ok(end)
            });
            return accepted.map(|(end, _)| stream_append(record, seq, end));
        }
        let tag = Tag { kind: TagKind::Data, stream: stream.get(), number: 0 };
        let head = tagged_header(record.len(), false, &tag).ok_or_else(|| self.too_long(record.len()))?;
        let mut seq = 0;
        let end = accept_large::<WAIT>(&self.group, [&head, record], false, |core, large| {
            seq = core.tagged.streams.next_number(stream);
            core.adopt(large.buf, large.used, (1, Numbering::Next), large.sum)
        });
        if !WAIT && end.is_err() {
            self.pass_on_memory();
        }
        end.map(|end| stream_append(record, seq, end))
    }

    /// Appends a transaction whose records are complete.
    pub(super) fn accept_transaction(&self, open: &mut Transaction) -> Result<Lsn> {
        if open.is_empty() {
            return Ok(self.group.core().appended());
        }
        // All that needs no core lock is done before it, because others append meanwhile.
        let (count, numbering, changes) = (open.len(), open.numbering, std::mem::take(&mut open.changes));
        let accepted = match open.finish() {
            Finished::InBuffer { buf, used, sum } => self.group.accept(|core| {
                let accepted = core.adopt(buf, used, (count, numbering), sum);
                accepted.inspect(|_| self.group.note_stream_changes(&changes))
            }),
            Finished::Apart(records) => return self.accept_encoded(records, (count, numbering), &changes),
        };
        accepted.map(|(lsn, _)| lsn)
    }

    /// Appends a transaction of encoded records, which makes these `changes` to streams.
    pub(super) fn accept_encoded(
        &self,
        records: &mut [u8],
        count: (u32, Numbering),
        changes: &[Tag],
    ) -> Result<Lsn> {
        let noted = |accepted: std::result::Result<Lsn, Refusal>| {
            accepted.inspect(|_| self.group.note_stream_changes(changes))
        };
        if Core::is_large(&self.group.config, BATCH_HEADER_BYTES + records.len()) {
            let makes_room = changes.len() == count.0 as usize;
            return accept_large::<true>(&self.group, [&[], records], makes_room, |core, large| {
                noted(core.adopt(large.buf, large.used, count, large.sum))
            });
        }
        let accepted = self.group.accept(|core| noted(core.append_encoded(records, count.0, count.1)));
        accepted.map(|(lsn, _)| lsn)
    }
}

/// A transaction under assembly. However that ends, also by a panic, its memory goes back to the log.
pub(super) struct OpenTransaction<'a> {
    pub(super) log: &'a Log,
    pub(super) transaction: Transaction,
}

impl Drop for OpenTransaction<'_> {
    fn drop(&mut self) {
        let (mut staged, bufs) = self.transaction.take_memory();
        for buf in bufs.into_iter().flatten() {
            self.log.group.core().recycle(buf);
        }
        staged.clear();
        if staged.capacity() <= 4 << 20 {
            lock(&self.log.staged_memory).push(staged);
        }
    }
}
