//! Defines the file `MEMORY`: memory that keeps records when the process is killed, before the disk has them.
//!
//! A commit that is to outlive the process only copies its records into this file, which is mapped, and writes nothing: the
//! kernel keeps what was stored however the process ends. The batches that hold the same records are written later, as if
//! they had never been committed. The next opening drains it ([`left`]): it appends what the segments lack.
//!
//! ```text
//!   0         128             128 + slot bytes
//!   +--------+---------------+---------------+--- - - ---+
//!   | header | slot 0        | slot 1        |           |     used one after the other, in a ring
//!   +--------+---------------+---------------+--- - - ---+
//!
//!   slot:    +-------+-------+-------+- - - -               frame:   +--------+------------------+
//!            | frame | frame | frame |  older                        | header | bytes of records |  padded to a word
//!            +-------+-------+-------+- - - -                        +--------+------------------+
//! ```
//!
//! Header                                        Frame header
//!
//! ```text
//!  at  size                                      at  size
//!   0   4   magic "SWM1"                          0   8   LSN of the first byte
//!   4   4   number of slots                       8   4   length in bytes
//!   8  16   log identity                         12   4   CRC-32C of the bytes, begun with LSN and length
//!  24  16   identity of the boot
//!  40   8   epoch
//!  48   8   size of a slot in bytes
//!  56   4   CRC-32C of bytes 0–55
//!  60   4   zero
//!  64   4   epoch of the opening that drains the memory, its lower half
//!  68   4   CRC-32C of bytes 0–67
//! ```
//!
//! A **frame is valid** if and only if it lies in its slot and its checksum is right. The **frames of a slot** are its first
//! one and those after it that are valid and begin at the LSN where the one before ended: a frame that is left from the
//! last use of the slot begins at a lower one. A slot is used again once the segments hold, for the end of the process,
//! everything in it.
//!
//! The memory is **believed** if and only if its header is sound, the boot is this one, the log is this one, and its epoch
//! is the last one that the log has seen, or the opening that drains it has that epoch or the next one. What is believed is an exact part of the
//! records of that epoch, because every frame says where it belongs and is checked.
//!
//! Invariants: what one opening stored is never changed by it but for slots that are used again; nothing here is durable, and
//! nothing of it is served before the segments hold it durably.

pub(crate) mod left;
pub(crate) mod ring;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::crash_memory::ring::FRAME_HEADER_BYTES;
use crate::format::LogId;
use crate::format::checksum::{crc32c, crc32c_more};
use seawall_sys::crash_memory::{CrashMapping, WORD_BYTES};

/// The name of the file in a log's directory.
pub(crate) const MEMORY_FILE: &str = "MEMORY";

/// The least size of the memory in bytes, for slots that hold more than one record.
pub(crate) const MEMORY_BYTES_LEAST: usize = 64 << 10;

/// Where the slots begin, in bytes.
pub(crate) const SLOTS_AT: usize = 128;

const MAGIC: [u8; 4] = *b"SWM1";
const HEADER_SUM_AT: usize = 56;
const HEADER_BYTES: usize = 64;
/// Where the word lies that says which opening drains the memory, in bytes.
pub(crate) const DRAINS_AT: usize = HEADER_BYTES;

/// Memory that this process and the kernel share. Stores reach it in the order in which they are made.
pub(crate) trait Memory {
    fn bytes(&self) -> usize;
    /// Stores bytes, in any order.
    fn store(&mut self, at: usize, bytes: &[u8]);
    /// Stores a word at once, after everything that was stored before.
    fn publish(&mut self, at: usize, word: u64);
    fn load(&self, at: usize, into: &mut [u8]);
    /// So many bytes are about to be stored there.
    fn about_to_store(&self, _at: usize, _bytes: usize) {}
}

impl Memory for CrashMapping {
    fn bytes(&self) -> usize {
        self.bytes()
    }

    #[inline]
    fn store(&mut self, at: usize, bytes: &[u8]) {
        self.store(at, bytes);
    }

    #[inline]
    fn publish(&mut self, at: usize, word: u64) {
        self.publish(at, word);
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        self.load(at, into);
    }

    #[inline]
    fn about_to_store(&self, at: usize, bytes: usize) {
        self.about_to_store(at, bytes);
    }
}

#[cfg(test)]
impl<M: Memory> Memory for &mut M {
    fn bytes(&self) -> usize {
        M::bytes(self)
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        M::store(self, at, bytes);
    }

    fn publish(&mut self, at: usize, word: u64) {
        M::publish(self, at, word);
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        M::load(self, at, into);
    }
}

/// Which opening of which log stores here, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryHeader {
    pub(crate) log_id: LogId,
    pub(crate) boot: [u8; 16],
    pub(crate) epoch: u64,
    pub(crate) slots: u32,
    /// Size of a slot in bytes, a multiple of a word.
    pub(crate) slot_bytes: usize,
}

impl MemoryHeader {
    /// The size of the file in bytes, `None` if no file is as large.
    pub(crate) fn file_bytes(&self) -> Option<usize> {
        self.slot_bytes.checked_mul(self.slots as usize)?.checked_add(SLOTS_AT)
    }

    pub(crate) fn write(&self, memory: &mut impl Memory) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.slots.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.log_id.0);
        bytes[24..40].copy_from_slice(&self.boot);
        bytes[40..48].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[48..56].copy_from_slice(&(self.slot_bytes as u64).to_le_bytes());
        let sum = crc32c(&bytes[..HEADER_SUM_AT]);
        bytes[HEADER_SUM_AT..HEADER_SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        memory.store(0, &bytes);
    }

    /// Reads the header; `None` if it is invalid.
    pub(crate) fn read(memory: &impl Memory) -> Option<Self> {
        if memory.bytes() < SLOTS_AT {
            return None;
        }
        let mut bytes = [0; HEADER_BYTES];
        memory.load(0, &mut bytes);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let header = Self {
            log_id: LogId(std::array::from_fn(|i| bytes[8 + i])),
            boot: std::array::from_fn(|i| bytes[24 + i]),
            epoch: word(40),
            slots: half(4),
            slot_bytes: usize::try_from(word(48)).ok()?,
        };
        let sound = bytes[..4] == MAGIC && half(HEADER_SUM_AT) == crc32c(&bytes[..HEADER_SUM_AT]);
        let fits = header.slot_bytes > FRAME_HEADER_BYTES && header.file_bytes() == Some(memory.bytes());
        (sound && fits).then_some(header)
    }
}

/// The lower half of the draining opening's epoch, and the checksum of the header and that half.
fn drains_bytes(memory: &impl Memory, epoch: u64) -> ([u8; 4], u32) {
    let mut header = [0; HEADER_BYTES];
    memory.load(0, &mut header);
    let epoch: [u8; 4] = std::array::from_fn(|i| epoch.to_le_bytes()[i]);
    (epoch, crc32c_more(crc32c(&header), &epoch))
}

/// Whether the memory says that the opening of this epoch drains it.
fn is_drained_by(memory: &impl Memory, epoch: u64) -> bool {
    let mut word = [0; WORD_BYTES];
    memory.load(DRAINS_AT, &mut word);
    let (epoch, sum) = drains_bytes(memory, epoch);
    word[..4] == epoch && word[4..] == sum.to_le_bytes()
}

/// Writes which opening drains the memory. One word, so that a kill leaves this epoch or the one before.
fn state_drains(memory: &mut impl Memory, epoch: u64) {
    let (epoch, sum) = drains_bytes(memory, epoch);
    memory.publish(DRAINS_AT, u64::from(u32::from_le_bytes(epoch)) | u64::from(sum) << 32);
}

/// Whether the log made the file, also one that was not finished, or that was forgotten: a foreign file is left alone.
pub(crate) fn is_own(memory: &impl Memory) -> bool {
    let mut start = [0; WORD_BYTES];
    let bytes = memory.bytes().min(WORD_BYTES);
    memory.load(0, &mut start[..bytes]);
    // One that was cut short has a part of it.
    start == [0; WORD_BYTES] || start[..bytes].iter().zip(MAGIC).all(|(found, byte)| *found == byte)
}

/// Makes the header unsound: nothing in the memory is ever believed again. One that is shorter than that never was.
pub(crate) fn forget(memory: &mut impl Memory) {
    if memory.bytes() >= WORD_BYTES {
        memory.publish(0, 0);
    }
}
