//! Computes the log's checksum: CRC-32C (Castagnoli), in hardware where available.
//!
//! The choice is made here only, so that the format cannot end up with two checksums. CRC-32C finds every burst of up
//! to 32 bits and every error of up to three bits in a batch of the usual size.

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_more(0, bytes)
}

/// The CRC-32C of something whose checksum is `sum`, followed by `bytes`; that of nothing is 0.
#[inline]
pub(crate) fn crc32c_more(sum: u32, bytes: &[u8]) -> u32 {
    let state = u64::from(!sum);
    let mut digest = crc_fast::Digest::new_with_init_state(crc_fast::CrcAlgorithm::Crc32Iscsi, state);
    digest.update(bytes);
    // A 32-bit CRC leaves the upper half of the library's 64-bit answer zero.
    u32::try_from(digest.finalize() & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{crc32c, crc32c_more};

    #[test]
    fn the_published_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn rfc_3720_vectors() {
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
    }

    #[test]
    fn piece_by_piece_is_the_same_as_at_once() {
        let bytes: Vec<u8> = (0..5000_u32).map(|i| i.to_le_bytes()[0] ^ i.to_le_bytes()[1]).collect();
        for step in [1, 3, 8, 100, 255, 256, 2048, 4999] {
            let sum = bytes.chunks(step).fold(0, crc32c_more);
            assert_eq!(sum, crc32c(&bytes), "{step}");
        }
        assert_eq!(crc32c(b""), 0);
    }
}
