//! Which checksum protects the log? CRC-32C (Castagnoli), in hardware where there is any.
//!
//! One home for the choice, so that the format cannot end up with two. CRC-32C finds every burst of up to 32 bits and
//! every error of up to three bits in a batch of the usual size.

/// The CRC-32C of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let wide = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes);
    // A 32-bit CRC leaves the upper half of the library's 64-bit answer zero.
    u32::try_from(wide & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn the_published_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn rfc_3720_vectors() {
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
    }
}
