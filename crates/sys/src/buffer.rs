//! Where does a transaction's memory live? In a buffer aligned for direct I/O.
//!
//! Invariant: [`Aligned::as_slice`] starts at a multiple of [`ALIGNMENT`], because `O_DIRECT` and
//! `FILE_FLAG_NO_BUFFERING` refuse anything less than the device's block size.

/// Alignment of every buffer, bytes: the largest logical block size in use on disks today, and a page.
pub const ALIGNMENT: usize = 4096;

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
        // SplitMix64 (Steele, Lea, Flood 2014): enough to defeat compression, no cryptography meant.
        let mut state = seed;
        for chunk in aligned.as_mut_slice().chunks_mut(8) {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let word = (z ^ (z >> 31)).to_le_bytes();
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
