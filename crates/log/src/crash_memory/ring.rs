//! Stores records in the memory frame by frame, each published by its last word, and reads them back.
//!
//! ```text
//!   store bytes ─► publish LSN ─► publish length and checksum          a kill between any two leaves a frame that is not valid
//! ```
//!
//! Invariant: a slot is used again only when the segments hold what is in it.

use crate::crash_memory::{Memory, MemoryHeader, SLOTS_AT};
use crate::format::checksum::crc32c_more;
use crate::lsn::Lsn;
use seawall_sys::crash_memory::WORD_BYTES;
use seawall_sys::planted;

pub(crate) const FRAME_HEADER_BYTES: usize = 16;
/// Frames of up to this many bytes are small; for larger ones the processor prefetches memory by itself.
const SMALL_BYTES: usize = 512;
/// How far behind a small frame memory is fetched for later ones, in bytes: the time of a few commits.
const FETCH_BYTES: usize = 1024;
/// Records are not cut for less room than this, in bytes.
const PIECE_BYTES: usize = 64;

/// The checksum of a frame. It begins with what the header says, so that one frame's bytes are never taken for another's.
fn frame_sum(lsn: Lsn, bytes: &[u8]) -> u32 {
    let lsn = lsn.get();
    let words = [lsn, lsn >> 32, bytes.len() as u64].map(|word| word & u64::from(u32::MAX));
    let [low, high, length] = words.map(|word| u32::try_from(word).unwrap_or(0));
    crc32c_more(low ^ high.rotate_left(16) ^ length.rotate_left(8), bytes)
}

/// The memory of one opening, to store in.
#[derive(Debug)]
pub(crate) struct Ring<M> {
    pub(crate) memory: M,
    slot_bytes: usize,
    slot: usize,
    /// Bytes used of it.
    used: usize,
    /// Where the records in each slot end.
    ends: Vec<Lsn>,
    /// Where the next frame begins if it follows the last one.
    end: Lsn,
}

impl<M: Memory> Ring<M> {
    /// An empty one in fresh memory of the size that `header` says.
    pub(crate) fn new(mut memory: M, header: &MemoryHeader) -> Self {
        header.write(&mut memory);
        let ends = vec![Lsn::ZERO; header.slots as usize];
        Self { memory, slot_bytes: header.slot_bytes, slot: 0, used: 0, ends, end: Lsn::ZERO }
    }

    /// Everything before this outlives the process, from here and from the segments together.
    pub(crate) fn end(&self) -> Lsn {
        self.end
    }

    /// Stores `bytes`, which begin at `lsn`; the segments hold everything before `written`. Returns whether they fit: if
    /// not, what does is stored, and is a part of the log like any other.
    #[inline]
    pub(crate) fn put(&mut self, lsn: Lsn, mut bytes: &[u8], written: Lsn) -> bool {
        if lsn != self.end {
            // Frames that do not follow each other lie in different slots, and what lies between them in the segments.
            let gap = planted!(MemoryWithGap, lsn > written);
            if gap || (self.used > 0 && !self.next_slot(written)) {
                return false;
            }
            self.end = lsn;
        }
        while !bytes.is_empty() {
            let room = (self.slot_bytes - self.used).saturating_sub(FRAME_HEADER_BYTES);
            if room < bytes.len() && room < PIECE_BYTES {
                if !self.next_slot(written) {
                    return false;
                }
                continue;
            }
            let (piece, rest) = bytes.split_at(bytes.len().min(room));
            self.frame(piece);
            bytes = rest;
        }
        true
    }

    /// Stores one frame, for which there is room.
    #[inline]
    fn frame(&mut self, bytes: &[u8]) {
        let at = SLOTS_AT + self.slot * self.slot_bytes + self.used;
        let word = u64::from(frame_sum(self.end, bytes)) << 32 | bytes.len() as u64;
        self.memory.store(at + FRAME_HEADER_BYTES, bytes);
        self.memory.publish(at, self.end.get());
        self.memory.publish(at + WORD_BYTES, word);
        let frame_bytes = (FRAME_HEADER_BYTES + bytes.len()).next_multiple_of(WORD_BYTES);
        if frame_bytes <= SMALL_BYTES {
            self.memory.about_to_store(at + frame_bytes + FETCH_BYTES, frame_bytes);
        }
        self.used += frame_bytes;
        self.end = self.end.saturating_add(bytes.len() as u64);
        self.ends[self.slot] = self.end;
    }

    /// Goes on in the next slot, if the segments hold what is in it.
    fn next_slot(&mut self, written: Lsn) -> bool {
        let next = (self.slot + 1) % self.ends.len();
        let free = planted!(MemoryReusedEarly, self.ends[next] <= written);
        if free {
            (self.slot, self.used) = (next, 0);
        }
        free
    }
}

/// Everything from `from` on that follows without a gap, in bytes of records.
pub(crate) fn read_from(memory: &impl Memory, header: &MemoryHeader, from: Lsn) -> Vec<u8> {
    let mut runs = Vec::new();
    let mut slot = vec![0; header.slot_bytes];
    for number in 0..header.slots as usize {
        memory.load(SLOTS_AT + number * header.slot_bytes, &mut slot);
        runs.extend(frames(&slot));
    }
    let mut found = Vec::new();
    let end = |found: &Vec<u8>| from.saturating_add(found.len() as u64);
    loop {
        let at = end(&found);
        let next = runs.iter().find_map(|(lsn, bytes)| {
            let skipped = usize::try_from(at.get().checked_sub(lsn.get())?).ok()?;
            bytes.get(skipped..).filter(|rest| !rest.is_empty())
        });
        let Some(next) = next else { return found };
        found.extend_from_slice(next);
    }
}

/// The records in one slot: where they begin, and their bytes.
fn frames(slot: &[u8]) -> Option<(Lsn, Vec<u8>)> {
    let (first, bytes) = frame_at(slot, 0)?;
    let (mut at, mut found) = (0, Vec::new());
    let mut next = Some((first, bytes));
    while let Some((_, bytes)) = next.filter(|(lsn, _)| *lsn == first.saturating_add(found.len() as u64)) {
        found.extend_from_slice(bytes);
        at += (FRAME_HEADER_BYTES + bytes.len()).next_multiple_of(WORD_BYTES);
        next = frame_at(slot, at);
    }
    Some((first, found))
}

/// The valid frame that starts at `at`.
fn frame_at(slot: &[u8], at: usize) -> Option<(Lsn, &[u8])> {
    let (lsn, rest) = slot.get(at..)?.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (sum, rest) = rest.split_first_chunk()?;
    let bytes = rest.get(..usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let lsn = Lsn::new(u64::from_le_bytes(*lsn));
    let sound = planted!(MemorySumIgnored, frame_sum(lsn, bytes) == u32::from_le_bytes(*sum));
    (sound && !bytes.is_empty()).then_some((lsn, bytes))
}
