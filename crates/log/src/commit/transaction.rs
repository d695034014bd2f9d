//! Builds a transaction: stages its records in cached memory and moves them into an I/O buffer.
//!
//! The records are staged in memory that stays in the processor's cache, and are copied from there in large pieces
//! into a buffer that can be written to the disk as it is. A processor skips fetching cache lines that are
//! overwritten whole; record by record it would first fetch each line that the disk read last.
//!
//! ```text
//!   buffer   | header room | moved, summed up to `summed` |            |     lent by the log, if it had one to spare
//!   staged                                                | the latest |     or all records, without such a buffer
//! ```
//!
//! Invariants: a record is moved only when another one comes after it or the transaction ends, unless it was too
//! large to be staged; the checksum does not cover the header of the last record before the transaction ends, because
//! that header marks it as the last one.

use crate::error::{Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::checksum::crc32c_more;
use crate::format::{
    BATCH_HEADER_BYTES, RECORD_HEADER_BYTES, Tag, TagKind, end_transaction, record_header, tagged_header,
};
use crate::stream::StreamId;
use crate::stream::state::Numbering;

/// So much is staged at most, in bytes: a third of a small first-level cache.
const STAGED_BYTES: usize = 16 << 10;
/// A transaction of this many bytes goes to the disk in its own buffer; a shorter one is copied after others.
const ADOPT_BYTES: usize = 32 << 10;

/// The records of one transaction while it is put together.
pub struct Transaction {
    lent: Option<AlignedBuf>,
    /// The lent buffer, once it was too small.
    outgrown: Option<AlignedBuf>,
    /// Bytes used of the lent buffer, header room included.
    used: usize,
    /// The checksum of the records in the lent buffer up to `summed`.
    sum: u32,
    summed: usize,
    /// Records that are not in the lent buffer.
    staged: Vec<u8>,
    count: u32,
    /// Where the header of the last record is, from the start of the records.
    last: usize,
    pub(crate) numbering: Numbering,
    /// What it trims, cuts and removes.
    pub(crate) changes: Vec<Tag>,
    bytes_max: usize,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.moved() + self.staged.len();
        let mut shown = f.debug_struct("Transaction");
        shown.field("records", &self.count).field("bytes", &bytes).finish_non_exhaustive()
    }
}

/// A transaction that is to be appended.
pub(crate) enum Finished<'a> {
    /// It fills a buffer of its own, header room included up to `used`; `sum` is the checksum of its records.
    InBuffer {
        /// The buffer; the caller gives back what is left in it.
        buf: &'a mut Option<AlignedBuf>,
        used: usize,
        sum: u32,
    },
    /// Its records lie somewhere.
    Apart(&'a mut [u8]),
}

impl Transaction {
    /// An empty one that stages in `staged` and may use `lent`; of at most `bytes_max` bytes, or a little more.
    pub(crate) fn new(staged: Vec<u8>, lent: Option<AlignedBuf>, bytes_max: usize) -> Self {
        Self {
            lent,
            outgrown: None,
            used: BATCH_HEADER_BYTES,
            sum: 0,
            summed: BATCH_HEADER_BYTES,
            staged,
            count: 0,
            last: 0,
            numbering: Numbering::Untagged,
            changes: Vec::new(),
            bytes_max,
        }
    }

    /// Bytes of records in the lent buffer.
    fn moved(&self) -> usize {
        if self.lent.is_some() { self.used - BATCH_HEADER_BYTES } else { 0 }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`Error::TooLong`] if the record, or the transaction with it, is longer than the log accepts.
    pub fn append(&mut self, record: &[u8]) -> Result<()> {
        let head = record_header(record.len(), true);
        self.stage(head.as_ref().map_or(&[], |head| head.as_slice()), record)
    }

    /// Adds a record of a stream, which gets its number when the transaction is appended.
    ///
    /// # Errors
    /// As [`Transaction::append`].
    pub fn append_to(&mut self, stream: StreamId, record: &[u8]) -> Result<()> {
        let tag = Tag { kind: TagKind::Data, stream: stream.get(), number: 0 };
        let head = tagged_header(record.len(), true, &tag);
        self.stage(head.as_ref().map_or(&[], |head| head.as_slice()), record)?;
        if self.numbering == Numbering::Untagged {
            self.numbering = Numbering::Next;
        }
        Ok(())
    }

    /// Trims the records of a stream before `seq`, as [`crate::Stream::trim`] does: together with the rest of the transaction or not at
    /// all, such as a snapshot and the trim of what it replaces, or trims of many streams. Numbers that the transaction appended before
    /// count. If the stream lacks the number, the whole transaction is refused when it is appended.
    ///
    /// Unlike a single trim, a transaction needs the space of a record when the log is at its cap.
    ///
    /// # Errors
    /// As [`Transaction::append`], and [`Error::StreamEnd`] of the number that no record has. [`crate::Log::transaction`] returns
    /// [`Error::StreamEnd`] past the next record.
    pub fn trim(&mut self, stream: StreamId, seq: u64) -> Result<()> {
        let tag = Tag { kind: TagKind::StreamTrim, stream: stream.get(), number: seq };
        if tag.removes() {
            return Err(Error::StreamEnd { stream, seq, next: seq - 1 });
        }
        self.change(tag)
    }

    /// Cuts off the record of sequence number `seq` and all after it, those that the transaction appended before included, as
    /// [`crate::Stream::truncate`] does.
    ///
    /// # Errors
    /// As [`Transaction::trim`], and of [`crate::Log::transaction`] also [`Error::StreamTrimmed`] before the first record.
    pub fn truncate(&mut self, stream: StreamId, seq: u64) -> Result<()> {
        self.change(Tag { kind: TagKind::StreamCut, stream: stream.get(), number: seq })
    }

    /// Removes a stream with all its records, as [`crate::Stream::remove`] does.
    ///
    /// # Errors
    /// As [`Transaction::append`].
    pub fn remove(&mut self, stream: StreamId) -> Result<()> {
        self.change(Tag::removal(stream.get()))
    }

    fn change(&mut self, tag: Tag) -> Result<()> {
        let head = tagged_header(0, true, &tag);
        self.stage(head.as_ref().map_or(&[], |head| head.as_slice()), &[])?;
        self.numbering = Numbering::Checked;
        self.changes.push(tag);
        Ok(())
    }

    /// Adds a record with the tag that it has in another log, where all tagged ones of this transaction come from.
    pub(crate) fn append_copy(&mut self, tag: &Tag, record: &[u8]) -> Result<()> {
        let head = tagged_header(record.len(), true, tag);
        self.stage(head.as_ref().map_or(&[], |head| head.as_slice()), record)?;
        self.numbering = Numbering::Kept;
        Ok(())
    }

    /// Adds a record with its header, which is empty if the record is too long for one.
    fn stage(&mut self, head: &[u8], record: &[u8]) -> Result<()> {
        let last = self.moved() + self.staged.len();
        let bytes = head.len() + record.len();
        if head.is_empty() || last + bytes > self.bytes_max.saturating_add(4096) {
            let bytes = (last + RECORD_HEADER_BYTES + record.len()) as u64;
            return Err(Error::TooLong { bytes, bytes_max: self.bytes_max as u64 });
        }
        if let Some(buf) = self.lent.take_if(|buf| BATCH_HEADER_BYTES + last + bytes > buf.capacity()) {
            let moved = &buf.bytes()[BATCH_HEADER_BYTES..self.used];
            self.staged.splice(..0, moved.iter().copied());
            self.outgrown = Some(buf);
        }
        if self.lent.is_some() && self.staged.len() + bytes > STAGED_BYTES {
            self.move_staged();
        }
        match &mut self.lent {
            Some(buf) if bytes > STAGED_BYTES => {
                let room = &mut buf.bytes_mut()[self.used..self.used + bytes];
                room[..head.len()].copy_from_slice(head);
                room[head.len()..].copy_from_slice(record);
                self.used += bytes;
            }
            _ => {
                self.staged.extend_from_slice(head);
                self.staged.extend_from_slice(record);
            }
        }
        self.last = last;
        self.count += 1;
        Ok(())
    }

    /// Moves the staged records into the lent buffer, and adds all that is there to the checksum.
    fn move_staged(&mut self) {
        let Some(buf) = &mut self.lent else { return };
        // What was moved before is summed first, and what is staged while the cache still has it.
        self.sum = crc32c_more(self.sum, &buf.bytes()[self.summed..self.used]);
        self.sum = crc32c_more(self.sum, &self.staged);
        let end = self.used + self.staged.len();
        buf.bytes_mut()[self.used..end].copy_from_slice(&self.staged);
        (self.used, self.summed) = (end, end);
        self.staged.clear();
    }

    /// The records so far.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether nothing was added yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Marks the last record, of which there must be one, as the end of the transaction.
    pub(crate) fn finish(&mut self) -> Finished<'_> {
        let moved = self.moved();
        let place = match (&mut self.lent, self.last.checked_sub(moved)) {
            (Some(buf), None) => &mut buf.bytes_mut()[BATCH_HEADER_BYTES + self.last..],
            (_, staged) => &mut self.staged[staged.unwrap_or(0)..],
        };
        end_transaction(place);
        let adopted = self.lent.is_some() && moved + self.staged.len() >= ADOPT_BYTES;
        if !adopted && moved == 0 {
            return Finished::Apart(&mut self.staged);
        }
        self.move_staged();
        if adopted {
            return Finished::InBuffer { buf: &mut self.lent, used: self.used, sum: self.sum };
        }
        let used = self.used;
        match &mut self.lent {
            Some(buf) => Finished::Apart(&mut buf.bytes_mut()[BATCH_HEADER_BYTES..used]),
            None => Finished::Apart(&mut []),
        }
    }

    /// The memory of the transaction, to be used again.
    pub(crate) fn take_memory(&mut self) -> (Vec<u8>, [Option<AlignedBuf>; 2]) {
        (std::mem::take(&mut self.staged), [self.lent.take(), self.outgrown.take()])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ADOPT_BYTES, Finished, STAGED_BYTES, Transaction};
    use crate::format::buffer::AlignedBuf;
    use crate::format::checksum::crc32c;
    use crate::format::{BATCH_HEADER_BYTES, RECORD_HEADER_BYTES, Records};

    const LARGE: usize = STAGED_BYTES + 1;
    const HELD: usize = 4 * STAGED_BYTES;

    /// Transactions of records of these lengths, with and without a buffer of [`HELD`] bytes: the same records in the
    /// same order come out, the last one alone ends the transaction, and the checksum is that of them all.
    #[test]
    fn records_come_out_as_they_were_appended_wherever_they_are_staged() {
        let small = 1024 - RECORD_HEADER_BYTES;
        let (many, beyond) = (vec![small; 40], vec![small; 80]);
        for (lengths, in_buffer) in [
            (&[0][..], false),
            (&[1, 0, 2], false),
            (&[LARGE], false),
            (&[LARGE, 0], false),
            (&[0, LARGE], false),
            (&[LARGE, LARGE], true),
            (&[small, LARGE, small, LARGE], true),
            (&[LARGE, small, LARGE, small], true),
            (&[STAGED_BYTES - RECORD_HEADER_BYTES; 2], true),
            (&[STAGED_BYTES - RECORD_HEADER_BYTES - 1; 2], false),
            (&[ADOPT_BYTES - RECORD_HEADER_BYTES], true),
            (&[ADOPT_BYTES - RECORD_HEADER_BYTES - 1], false),
            (&many, true),
            (&beyond, false),
            (&[HELD], false),
            (&[LARGE, LARGE, LARGE, LARGE, 7], false),
        ] {
            for lends in [true, false] {
                let lent = lends.then(|| AlignedBuf::zeroed(HELD));
                let mut transaction = Transaction::new(Vec::new(), lent, usize::MAX / 2);
                let content = |i: usize| vec![u8::try_from(i % 250 + 1).expect("small"); lengths[i]];
                for i in 0..lengths.len() {
                    transaction.append(&content(i)).expect("is short enough");
                }
                assert_eq!(transaction.len() as usize, lengths.len());
                let of = format!("{:?} lent {lends}", &lengths[..lengths.len().min(4)]);
                let records = match transaction.finish() {
                    Finished::Apart(records) => {
                        assert!(!(in_buffer && lends), "{of}");
                        records.to_vec()
                    }
                    Finished::InBuffer { buf, used, sum } => {
                        assert!(in_buffer && lends, "{of}");
                        let records =
                            buf.as_ref().expect("is lent").bytes()[BATCH_HEADER_BYTES..used].to_vec();
                        assert_eq!(sum, crc32c(&records), "{of}");
                        records
                    }
                };
                let mut walk = Records::new(&records);
                for i in 0..lengths.len() {
                    let record = walk.next().expect("is there");
                    assert_eq!(record.payload, content(i), "{of}: {i}");
                    assert_eq!(record.more, i + 1 < lengths.len(), "{of}: {i}");
                }
                assert!(walk.rest().is_empty(), "{of}");
                let (_, bufs) = transaction.take_memory();
                assert_eq!(
                    bufs.iter().flatten().count(),
                    usize::from(lends),
                    "{of}: what was lent comes back"
                );
            }
        }
    }
}
