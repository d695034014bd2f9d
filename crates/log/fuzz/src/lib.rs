//! Shares the checksum and the builders of forged files between the fuzz targets and the corpus writer.

pub use seawall::sim::forged::{files, mend_batch, mend_header};

/// CRC-32C.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)).unwrap_or(0)
}
