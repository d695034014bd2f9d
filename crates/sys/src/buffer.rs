//! Provides heap buffers aligned for direct I/O, and memory hints for the kernel and the processor.
//!
//! Invariant: [`Aligned::as_slice`] starts at a multiple of [`ALIGNMENT`], because `O_DIRECT` and
//! `FILE_FLAG_NO_BUFFERING` refuse anything less than the device's block size.

use crate::chance::SplitMix64;

/// Alignment of every buffer, bytes: the largest logical block size in use on disks today, and a page.
pub(crate) const ALIGNMENT: usize = 4096;

/// The size of a large page, bytes: what x86-64 and 4 KiB-granule arm64 map by one entry.
pub const LARGE_PAGE: usize = 2 << 20;

/// Asks for large pages under `bytes`, where the system takes such advice. Must come before the memory is touched.
///
/// A buffer for direct I/O is handed to the device page by page; in one large page it is a single piece, which the
/// kernel pins, maps and submits as one.
pub fn prefer_large_pages(bytes: &mut [u8]) {
    crate::os::memory::prefer_large_pages(bytes);
}

/// Gives the memory under the whole pages of `bytes` back to the system, where it takes any back (Linux): what lay there is
/// lost, and the next touch takes memory again. Returns whether it was taken; if not, `bytes` is what it was.
///
/// Memory that is registered with an engine must be given up there first, otherwise the device reads pages that the process
/// no longer writes.
pub fn give_back(bytes: &mut [u8]) -> bool {
    crate::os::memory::give_back(bytes)
}

/// `bytes` zero bytes; `None` if there is no memory for them.
#[must_use]
pub fn try_zeroed(bytes: usize) -> Option<Vec<u8>> {
    crate::os::buffer::try_zeroed(bytes)
}

/// Has the processor fetch the memory of `bytes`, which is about to be written, while other work goes on.
#[inline]
pub fn about_to_write(bytes: &mut [u8]) {
    crate::os::buffer::about_to_write(bytes.as_ptr(), bytes.len());
}

/// Bytes at an aligned address. Over-allocates by one alignment instead of using `unsafe`.
#[derive(Debug)]
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let bytes = vec![0; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { bytes, start, len }
    }

    /// `len` bytes that do not compress, made from `seed`: some devices compress constant data.
    #[must_use]
    pub fn incompressible(len: usize, seed: u64) -> Self {
        let mut aligned = Self::zeroed(len);
        let mut chance = SplitMix64::new(seed);
        for chunk in aligned.as_mut_slice().chunks_mut(8) {
            let word = chance.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        aligned
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    /// The bytes, to be filled.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Left out under Miri, which has no madvise(2) that discards pages.
    #[cfg(not(miri))]
    #[test]
    fn memory_that_was_given_back_can_be_used_and_what_lies_around_it_stays() {
        let mut bytes = vec![7_u8; 5 * ALIGNMENT + 100];
        let given = give_back(&mut bytes[10..5 * ALIGNMENT]);
        // Not even one whole page lies inside.
        assert!(!give_back(&mut bytes[10..20]));
        assert!(bytes[..10].iter().chain(&bytes[5 * ALIGNMENT..]).all(|byte| *byte == 7));
        let zeros: usize = bytes.iter().map(|byte| usize::from(*byte == 0)).sum();
        if given {
            assert!(zeros.is_multiple_of(ALIGNMENT) && zeros >= 3 * ALIGNMENT, "{zeros}");
        } else {
            assert_eq!(zeros, 0);
        }
        bytes.fill(9);
        assert!(bytes.iter().all(|byte| *byte == 9));
    }

    #[test]
    fn every_length_is_aligned_and_whole() {
        // An interpreter takes minutes for a MiB.
        let largest = if cfg!(miri) { 20_480 } else { 1 << 20 };
        for len in [1, 511, 512, 4096, 16_384, largest] {
            let buffer = Aligned::incompressible(len, 7);
            assert_eq!(buffer.as_slice().len(), len);
            assert_eq!(buffer.as_slice().as_ptr().align_offset(ALIGNMENT), 0);
        }
        assert_ne!(Aligned::incompressible(64, 1).as_slice(), Aligned::incompressible(64, 2).as_slice());
    }
}
