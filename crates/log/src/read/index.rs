//! Finds and reads single records by an index of each segment, kept in memory.
//!
//! A [`SegmentIndex`] is built by one walk through its segment, in which every batch is checked by the full validity
//! rule, and continues with what became durable since. It holds
//!
//! ```text
//! for each batch   its LSN, its first block           12 bytes
//! for each block   its checksum, its first record      6 bytes
//! ```
//!
//! so that a record is read with the blocks that it lies in and nothing else. The indexes of a log take
//! [`INDEX_BYTES_MAX`] together and [`FILES_MAX`] descriptors: those used least go first and are built again when they
//! are needed.
//!
//! A batch whose records are damaged is stepped over by its header, so that it costs no record after it.
//!
//! Invariants: nothing at or past the durable LSN is indexed; a record is handed out only if every block of it is what
//! it was when its batch was found valid; an LSN at which no record starts is refused, whatever lies there.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use seawall_sys::directory::Directory;
use seawall_sys::planted;

use crate::commit::group::Group;
use crate::commit::sync::{Mutex, lock};
use crate::error::{Damage, Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::checksum::crc32c;
use crate::format::cursor::Cursor;
use crate::format::{
    BATCH_HEADER_BYTES, RECORD_HEADER_BYTES, RecordHead, Records, SegmentHeader, segment_name,
};
use crate::lsn::Lsn;
use crate::read::reader::{Files, Payload, ReadRecord, SegmentLookup, segment_of};
use crate::read::scan::{Scan, ScannedBatch};
use crate::read::segment_file::SegmentFile;
use crate::recovery::directory::damage;

/// What all indexes of a log may take in bytes: enough for 30 GiB in batches of 4 KiB.
const INDEX_BYTES_MAX: usize = 128 << 20;
/// Segments that are held open.
const FILES_MAX: usize = 384;
/// Blocks that are read for a record whose length is not known yet.
const BLOCKS_FIRST: usize = 2;
/// Least and most of one read of the walk, in bytes.
const WALK_BYTES: (usize, usize) = (64 << 10, 1 << 20);
/// Stands for a block in which no record starts.
const NONE: u16 = u16::MAX;

/// Which record is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The one that starts at this LSN.
    StartsAt(Lsn),
    /// The one that ends at this LSN, which is not 0.
    EndsAt(Lsn),
}

impl Wanted {
    /// The LSN of a byte of the record, and the one that was named.
    fn lsns(self) -> (Lsn, Lsn) {
        match self {
            Self::StartsAt(lsn) => (lsn, lsn),
            Self::EndsAt(lsn) => (Lsn::new(lsn.get().saturating_sub(1)), lsn),
        }
    }

    fn is(self, start: Lsn, end: Lsn) -> bool {
        match self {
            Self::StartsAt(lsn) => start == lsn,
            Self::EndsAt(lsn) => end == lsn,
        }
    }
}

/// Where the records of one segment are.
#[derive(Debug)]
pub(crate) struct SegmentIndex {
    /// Where the walk continues.
    cursor: Cursor,
    /// The LSN of each batch that holds records.
    lsns: Vec<u64>,
    /// The block in which it starts.
    starts: Vec<u32>,
    /// The checksum of each block, 0 for those without records.
    sums: Vec<u32>,
    /// Where in each block the first record starts.
    firsts: Vec<u16>,
    /// What is wrong with batches whose records are damaged.
    damaged: Vec<Damage>,
}

impl SegmentIndex {
    pub(crate) fn new(segment: SegmentHeader) -> Self {
        let (lsns, starts, sums, firsts) = <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
        Self { cursor: Cursor::start(segment), lsns, starts, sums, firsts, damaged: Vec::new() }
    }

    fn block_bytes(&self) -> usize {
        self.cursor.segment.block_bytes.into()
    }

    /// What it takes in memory, bytes.
    fn bytes(&self) -> usize {
        self.lsns.capacity() * 8
            + self.starts.capacity() * 4
            + self.sums.capacity() * 4
            + self.firsts.capacity() * 2
    }

    /// Walks on as far as `limit`, which does not lie after the segment.
    fn extend(&mut self, files: &mut Files<Arc<Group>>, limit: Lsn) -> Result<()> {
        let left = usize::try_from(limit.since(self.cursor.lsn)).unwrap_or(usize::MAX);
        let mut scan = Scan::at(self.cursor.clone(), left.clamp(WALK_BYTES.0, WALK_BYTES.1));
        loop {
            match scan.next_batch(files, limit) {
                Ok(Some(batch)) => self.take(&batch),
                Ok(None) => return Ok(()),
                Err(Error::Corrupt(damage)) => self.step_over(&mut scan, files, limit, damage)?,
                Err(error) => return Err(error),
            }
            self.cursor = scan.cursor.clone();
        }
    }

    /// Steps over the batch at which `scan` found `damage`, if its header is sound.
    fn step_over(
        &mut self,
        scan: &mut Scan,
        files: &mut Files<Arc<Group>>,
        limit: Lsn,
        damage: Damage,
    ) -> Result<()> {
        let offset = scan.cursor.offset;
        let header = planted!(DamageEndsIndex, scan.step_over(files, limit));
        match header {
            Ok(Some(header)) if header.end() <= limit => {
                self.lsns.push(header.lsn.get());
                self.starts.push(u32::try_from(offset / self.block_bytes() as u64).unwrap_or(u32::MAX));
                self.damaged.push(damage);
                Ok(())
            }
            _ => Err(Error::Corrupt(damage)),
        }
    }

    /// What is wrong with the batch that holds the byte at `inside`, if its records are damaged.
    fn damage_at(&self, inside: Lsn) -> Option<&Damage> {
        let batch = self.lsns.partition_point(|lsn| *lsn <= inside.get()).checked_sub(1)?;
        self.damaged.iter().find(|damage| damage.lsn.get() == self.lsns[batch])
    }

    /// Adds a batch that was found valid.
    pub(crate) fn take(&mut self, batch: &ScannedBatch) {
        let block = self.block_bytes();
        let first = usize::try_from(batch.header.offset).unwrap_or(usize::MAX) / block;
        self.sums.resize(first, 0);
        self.firsts.resize(first, NONE);
        let from = batch.start - BATCH_HEADER_BYTES;
        let bytes = (batch.end - from).next_multiple_of(block);
        for bytes in batch.buf.bytes()[from..from + bytes].chunks(block) {
            self.sums.push(crc32c(bytes));
            self.firsts.push(NONE);
        }
        let mut at = BATCH_HEADER_BYTES;
        for record in Records::new(&batch.buf.bytes()[batch.start..batch.end]) {
            let start = &mut self.firsts[first + at / block];
            // A block has 4096 bytes at most.
            *start = (*start).min(u16::try_from(at % block).unwrap_or(NONE));
            at += record.bytes();
        }
        self.lsns.push(batch.header.lsn.get());
        self.starts.push(u32::try_from(first).unwrap_or(u32::MAX));
    }

    /// Where the walk to the byte at `inside` begins: with the first record of its block, or of the last block before that
    /// in which one starts.
    fn start_before(&self, inside: Lsn) -> Option<Start> {
        let batch = self.lsns.partition_point(|lsn| *lsn <= inside.get()).checked_sub(1)?;
        let (block, batch_lsn) = (self.block_bytes(), self.lsns[batch]);
        let body = self.starts[batch] as usize * block + BATCH_HEADER_BYTES;
        // Marks, which hold no records, may follow.
        let batch_end = self.lsns.get(batch + 1).copied().unwrap_or(self.cursor.lsn.get());
        let end_block = (body + usize::try_from(batch_end - batch_lsn).ok()?).div_ceil(block);
        let at = body + usize::try_from(inside.get() - batch_lsn).ok()?;
        let start = (self.starts[batch] as usize..=at / block).rev().find_map(|of| {
            let first = *self.firsts.get(of)?;
            let start = of * block + usize::from(first);
            (first != NONE && start <= at).then_some(start)
        })?;
        Some(Start { lsn: Lsn::new(batch_lsn + (start - body) as u64), at: start, end_block })
    }
}

/// Where a walk through a batch begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    /// The LSN of a record.
    lsn: Lsn,
    /// Where in the file it starts.
    at: usize,
    /// The first block after its batch.
    end_block: usize,
}

/// The blocks of a segment that have been read for one record.
struct Blocks<'a> {
    index: &'a SegmentIndex,
    file: &'a SegmentFile,
    buf: AlignedBuf,
    /// The first one, and how many.
    first: usize,
    count: usize,
    /// How many there are from there to the end of the batch.
    available: usize,
}

impl Blocks<'_> {
    /// The bytes from `at` of the file on, `wanted` of them; `None` if a block is not what it was.
    fn bytes(&mut self, at: usize, wanted: usize) -> Result<Option<&[u8]>> {
        let block = self.index.block_bytes();
        let end = (at + wanted).div_ceil(block) - self.first;
        if end > self.count {
            let count = end.max(BLOCKS_FIRST).min(self.available);
            if end > self.available || !self.read(count)? {
                return Ok(None);
            }
        }
        let from = at - self.first * block;
        Ok(Some(&self.buf.bytes()[from..from + wanted]))
    }

    /// Reads until `count` blocks are there; whether each is what it was.
    fn read(&mut self, count: usize) -> Result<bool> {
        let (block, name) = (self.index.block_bytes(), || segment_name(self.index.cursor.segment.number));
        let failed = |source| Error::io("read", name(), source);
        if self.buf.capacity() < count * block {
            let mut larger = AlignedBuf::try_zeroed(count * block).map_err(failed)?;
            larger.bytes_mut()[..self.count * block].copy_from_slice(&self.buf.bytes()[..self.count * block]);
            self.buf = larger;
        }
        let fresh = &mut self.buf.bytes_mut()[self.count * block..count * block];
        let at = ((self.first + self.count) * block) as u64;
        let read = self.file.read(at, fresh).map_err(failed)?;
        let sums = &self.index.sums[self.first + self.count..self.first + count];
        let sound = fresh.chunks(block).zip(sums).all(|(bytes, sum)| crc32c(bytes) == *sum);
        self.count = count;
        Ok(read == fresh.len() && sound)
    }

    /// The record that is wanted; `None` if a block is not what it was.
    fn record(&mut self, wanted: Wanted, start: Start) -> Result<Option<ReadRecord>> {
        let (mut lsn, mut at) = (start.lsn, start.at);
        let (inside, named) = wanted.lsns();
        while lsn <= inside {
            let Some(head) = self.bytes(at, RECORD_HEADER_BYTES)? else { return Ok(None) };
            let head = RecordHead::read(head.try_into().unwrap_or_default());
            let end = lsn.saturating_add(head.record_bytes() as u64);
            if wanted.is(lsn, end) {
                let Some(record) = self.bytes(at, head.record_bytes())? else { return Ok(None) };
                let Some(raw) = Records::new(record).next() else { return Ok(None) };
                return Ok(Some(ReadRecord::of(lsn, &raw, Payload::own(raw.payload))));
            }
            at += head.record_bytes();
            lsn = end;
        }
        Err(Error::NoRecord { lsn: named })
    }
}

/// Where the durable records of segment `number` end.
pub(crate) fn durable_end(group: &Group, number: u64) -> Lsn {
    let next = || group.successor(number).map_or(Lsn::MAX, |next| next.first_lsn);
    // Before the look for the next segment: what becomes durable after that may lie in one that starts meanwhile.
    let early = planted!(IndexRunsOver(next()), None);
    let durable = group.durable();
    early.unwrap_or_else(next).min(durable)
}

#[derive(Debug)]
struct Indexed {
    index: Arc<RwLock<SegmentIndex>>,
    file: Option<Arc<SegmentFile>>,
    bytes: usize,
    used: u64,
}

#[derive(Debug, Default)]
struct Kept {
    segments: HashMap<u64, Indexed>,
    clock: u64,
}

impl Kept {
    /// The segment as it is used now.
    fn touch(&mut self, header: SegmentHeader) -> &mut Indexed {
        self.clock += 1;
        let used = self.clock;
        let index = || Arc::new(RwLock::new(SegmentIndex::new(header)));
        let fresh = || Indexed { index: index(), file: None, bytes: 0, used };
        let segment = self.segments.entry(header.number).or_insert_with(fresh);
        segment.used = used;
        segment
    }

    /// Gives up what was used least, until the rest is within bounds.
    fn tidy(&mut self, number: u64, bytes: usize) {
        if let Some(grown) = self.segments.get_mut(&number) {
            grown.bytes = bytes;
        }
        let oldest = |kept: &Self, of: fn(&Indexed) -> bool| {
            let candidates = kept.segments.iter().filter(|(_, one)| of(one));
            candidates.min_by_key(|(_, one)| one.used).map(|(number, _)| *number)
        };
        while self.segments.values().map(|one| one.bytes).sum::<usize>() > INDEX_BYTES_MAX
            && self.segments.len() > 1
            && let Some(number) = oldest(self, |_| true)
        {
            self.segments.remove(&number);
        }
        while self.segments.values().filter(|one| one.file.is_some()).count() > FILES_MAX
            && let Some(number) = oldest(self, |one| one.file.is_some())
            && let Some(one) = self.segments.get_mut(&number)
        {
            one.file = None;
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct RecordIndex {
    kept: Mutex<Kept>,
    /// Blocks that were read for a record, whose memory takes those of another one.
    idle: Mutex<Vec<IdleBlocks>>,
}

/// What was read last by one reader: where the next small record lies as well, if it reads in order.
#[derive(Debug)]
struct IdleBlocks {
    /// The number of the segment and that of the first block.
    at: (u64, usize),
    /// Blocks that are what they were when their batch was found valid.
    count: usize,
    buf: AlignedBuf,
}

impl RecordIndex {
    /// Gives up the segments before the one of `first`, the first LSN that is left: an open file would keep the space of
    /// one that is removed.
    pub(crate) fn trimmed(&self, group: &Group, first: Lsn) {
        let mut kept = lock(&self.kept);
        if !kept.segments.is_empty()
            && let Ok(Some(oldest)) = segment_of(group, first)
        {
            kept.segments.retain(|number, _| *number >= oldest.number);
        }
    }

    /// Reads a record that is durable.
    pub(crate) fn read(
        &self,
        group: &Arc<Group>,
        dir: &Arc<Directory>,
        wanted: Wanted,
    ) -> Result<ReadRecord> {
        let (inside, named) = wanted.lsns();
        let durable = group.durable();
        if inside >= durable {
            return Err(Error::BeyondEnd { lsn: named, end: durable });
        }
        let header = segment_of(group, inside)?;
        let header = header.ok_or_else(|| Error::NotALog { path: dir.path().to_path_buf() })?;
        let read = self.read_in(group, dir, header, wanted);
        read.map_err(|error| {
            // A segment that was recycled meanwhile looks damaged, and is not.
            let first = group.core().trim();
            let trimmed = inside < first && !matches!(error, Error::NoRecord { .. });
            if trimmed { Error::Trimmed { lsn: named, first } } else { error.in_dir(dir.path()) }
        })
    }

    fn read_in(
        &self,
        group: &Arc<Group>,
        dir: &Arc<Directory>,
        header: SegmentHeader,
        wanted: Wanted,
    ) -> Result<ReadRecord> {
        let (inside, named) = wanted.lsns();
        let (index, file) = {
            let mut kept = lock(&self.kept);
            let segment = kept.touch(header);
            (Arc::clone(&segment.index), segment.file.clone())
        };
        let opened = file.is_none();
        let file = match file {
            Some(file) => file,
            None => Arc::new(SegmentFile::open(dir, &segment_name(header.number))?),
        };
        let mut held = index.read().unwrap_or_else(PoisonError::into_inner);
        let grows = inside >= held.cursor.lsn;
        if grows {
            drop(held);
            let mut growing = index.write().unwrap_or_else(PoisonError::into_inner);
            let mut files = Files::new(Arc::clone(dir), Arc::clone(group));
            growing.extend(&mut files, durable_end(group, header.number))?;
            drop(growing);
            held = index.read().unwrap_or_else(PoisonError::into_inner);
        }
        if opened || grows {
            let mut kept = lock(&self.kept);
            kept.touch(header).file = Some(Arc::clone(&file));
            kept.tidy(header.number, held.bytes());
        }
        if let Some(damage) = held.damage_at(inside) {
            return Err(Error::Corrupt(damage.clone()));
        }
        let start = held.start_before(inside).ok_or(Error::NoRecord { lsn: named })?;
        let first = start.at / held.block_bytes();
        let available = start.end_block - first;
        let (buf, count) = self.blocks_at((header.number, first), held.block_bytes());
        let mut blocks = Blocks { index: &held, file: &file, buf, first, count, available };
        let record = blocks.record(wanted, start);
        if blocks.buf.capacity() <= BLOCKS_FIRST * held.block_bytes() {
            let count = if matches!(record, Ok(Some(_))) { blocks.count } else { 0 };
            lock(&self.idle).push(IdleBlocks { at: (header.number, first), count, buf: blocks.buf });
        }
        record?.ok_or_else(|| {
            let what = "a block has changed since it was found valid";
            damage(header.number, start.at as u64, start.lsn, what)
        })
    }

    /// Memory for blocks from that one on, and how many of them it holds already.
    fn blocks_at(&self, at: (u64, usize), block_bytes: usize) -> (AlignedBuf, usize) {
        let mut idle = lock(&self.idle);
        if let Some(same) = idle.iter().rposition(|idle| idle.at == at) {
            let same = idle.swap_remove(same);
            return (same.buf, same.count);
        }
        let other = idle.pop().map(|idle| idle.buf);
        drop(idle);
        (other.unwrap_or_else(|| AlignedBuf::zeroed(BLOCKS_FIRST * block_bytes)), 0)
    }
}
