//! Provides aligned I/O buffers of fixed capacity.
//!
//! Direct I/O wants the memory address, the file offset and the length to be multiples of the device's block. The
//! buffer never grows and never moves, so its alignment never changes; no `unsafe` is needed, because it is a slice
//! of a larger vector. Before its bytes there is room for one block more, so that a segment header that precedes
//! them on disk goes out with the same write. Buffers of a large page and more lie in large pages where the system
//! has them, because a direct write then is one piece for the kernel instead of one for each 4 KiB.

use seawall_sys::NumberedBuffer;
use seawall_sys::buffer::{LARGE_PAGE, give_back, prefer_large_pages, try_zeroed};

/// The alignment of every buffer in bytes: one page, enough for every block size in use.
pub(crate) const BUFFER_ALIGN: usize = 4096;

/// The room before the bytes of every buffer, in bytes: the largest block.
pub(crate) const FRONT_BYTES: usize = 4096;

fn alignment(capacity: usize) -> usize {
    if capacity >= LARGE_PAGE { LARGE_PAGE } else { BUFFER_ALIGN }
}

/// Zeroed memory whose first byte lies at a multiple of [`BUFFER_ALIGN`].
pub(crate) struct AlignedBuf {
    memory: Vec<u8>,
    /// Where its bytes start, at least [`FRONT_BYTES`] after the start of the memory.
    start: usize,
    capacity: usize,
    /// Its number among the buffers that an engine may have registered. Given once, so that memory which was freed and
    /// handed out again at the same address is never mistaken for a registered buffer.
    pub(crate) number: Option<u16>,
}

/// Sizes only: what lies in it belongs to users, and may be a secret of theirs.
impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBuf").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl AlignedBuf {
    pub(crate) fn zeroed(capacity: usize) -> Self {
        Self::in_memory(vec![0_u8; Self::memory_bytes(capacity)], capacity)
    }

    /// The same, or an error if there is no memory for it.
    pub(crate) fn try_zeroed(capacity: usize) -> std::io::Result<Self> {
        let memory = try_zeroed(Self::memory_bytes(capacity));
        Ok(Self::in_memory(memory.ok_or(std::io::ErrorKind::OutOfMemory)?, capacity))
    }

    fn memory_bytes(capacity: usize) -> usize {
        capacity.saturating_add(FRONT_BYTES + alignment(capacity))
    }

    fn in_memory(mut memory: Vec<u8>, capacity: usize) -> Self {
        let align = alignment(capacity);
        let misfit = (memory.as_ptr().addr() + FRONT_BYTES) % align;
        let start = FRONT_BYTES + if misfit == 0 { 0 } else { align - misfit };
        prefer_large_pages(&mut memory[start..start + capacity]);
        Self { memory, start, capacity, number: None }
    }

    /// The same with a number, for those that are kept as long as the log is open.
    pub(crate) fn numbered(mut self, number: usize) -> Self {
        self.number = u16::try_from(number).ok();
        self
    }

    /// All that an engine may register of it, the room in front included, if it is one of those that are kept.
    pub(crate) fn registrable(&self) -> Option<NumberedBuffer<'_>> {
        self.number.map(|number| NumberedBuffer { number, memory: self.bytes_behind(FRONT_BYTES) })
    }

    /// Gives its memory back to the system until it is written again, as far as the system takes it; returns whether it did.
    /// What lay in it may be lost. Nothing of it may be registered with an engine.
    pub(crate) fn give_back(&mut self) -> bool {
        give_back(&mut self.memory)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.capacity]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.capacity]
    }

    /// All of its bytes and the last `front` of the room before them.
    pub(crate) fn bytes_behind(&self, front: usize) -> &[u8] {
        &self.memory[self.start - front..self.start + self.capacity]
    }

    /// The last `bytes` of the room before its bytes, to write.
    pub(crate) fn front_mut(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.memory[self.start - bytes..self.start]
    }

    /// Touches every page, so that the first append into it meets no page fault.
    pub(crate) fn touch(&mut self) {
        let from = self.start - FRONT_BYTES;
        for page in self.memory[from..self.start + self.capacity].chunks_mut(BUFFER_ALIGN) {
            if let Some(first) = page.first_mut() {
                *first = std::hint::black_box(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AlignedBuf, FRONT_BYTES, LARGE_PAGE, alignment};

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        for bytes in [usize::MAX, isize::MAX.cast_unsigned()] {
            let refused = AlignedBuf::try_zeroed(bytes).expect_err("there is no such memory");
            assert_eq!(refused.kind(), std::io::ErrorKind::OutOfMemory);
        }
        let buffer = AlignedBuf::try_zeroed(8192).expect("is there");
        assert_eq!(buffer.bytes().len(), 8192);
        assert!(buffer.bytes().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn every_buffer_is_aligned_zeroed_and_of_the_requested_size() {
        // An interpreter takes minutes for a MiB.
        let large: &[usize] =
            if cfg!(miri) { &[16 << 10] } else { &[1 << 20, LARGE_PAGE, 3 * LARGE_PAGE + 1] };
        for capacity in [0, 1, 512, 4096, 4097].iter().chain(large).copied() {
            let mut buffer = AlignedBuf::zeroed(capacity);
            assert_eq!(buffer.bytes().as_ptr().addr() % alignment(capacity), 0);
            assert_eq!(buffer.bytes().len(), capacity);
            assert!(buffer.bytes().iter().all(|byte| *byte == 0));
            buffer.touch();
            assert_eq!(buffer.bytes_mut().len(), buffer.capacity());
            for front in [0, 512, FRONT_BYTES] {
                buffer.front_mut(front).fill(7);
                let both = buffer.bytes_behind(front);
                assert!(both[..front].iter().all(|byte| *byte == 7));
                assert_eq!(&both[front..], buffer.bytes());
                assert!(buffer.bytes().iter().all(|byte| *byte == 0));
            }
        }
    }
}
