//! Hashes the numbers of streams by one multiplication, because every append to a stream looks it up.
//!
//! A stream's number has 24 bits. So however numbers are chosen, in a table of 100,000 streams at most some 128 of them share a
//! slot, and no choice of them makes a look-up long.
//!
//! Invariant: the same numbers give the same order in every process, so that a simulated run can be repeated.

use std::hash::{BuildHasherDefault, Hasher};

/// Makes [`StreamHasher`]s.
pub(crate) type StreamHash = BuildHasherDefault<StreamHasher>;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamHasher(u64);

impl Hasher for StreamHasher {
    #[inline]
    fn write_u32(&mut self, number: u32) {
        // 2^64 by the golden ratio. The table takes the lowest bits and the highest ones: both must depend on all.
        let product = (self.0 ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::StreamHash;
    use crate::stream::StreamId;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn numbers_in_a_row_and_in_any_stride_spread_over_the_slots() {
        const SLOTS: usize = 1 << 12;
        for stride in [1, 2, 3, 64, 256, 1000, 4096] {
            let mut slots = vec![0_u32; SLOTS];
            let ids = (0..4096).filter_map(|at| StreamId::new(at * stride));
            let hashes: Vec<u64> = ids.map(|id| StreamHash::default().hash_one(id)).collect();
            for hash in &hashes {
                slots[usize::try_from(*hash % SLOTS as u64).expect("small")] += 1;
            }
            assert_eq!(hashes.len(), SLOTS, "{stride}");
            assert!(slots.iter().max().is_some_and(|most| *most <= 16), "{stride}: {:?}", slots.iter().max());
        }
    }

    #[test]
    fn every_process_sees_the_same_order() {
        let fill = || (0..500).filter_map(StreamId::new).collect::<HashSet<_, StreamHash>>();
        assert!(fill().iter().eq(fill().iter()));
    }
}
