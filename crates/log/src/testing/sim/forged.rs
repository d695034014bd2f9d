//! Decodes fuzzer bytes into log files whose checksums are right although their fields are forged.
//!
//! ```text
//! byte 0      bit 0: make every checksum right, so that the rules after it are reached
//! then files  role (1 byte), length (2 bytes, little-endian), content
//! ```
//!
//! The fuzzer's inputs and the table of forged fields in `tests/promises/forged.rs` are both read here. The role is a
//! segment's number for 0 to 239 (modulo 8, plus 1), a staging file (`.new`) for 240 to 247, otherwise a foreign
//! file.

use crate::format::checksum::crc32c;
use crate::format::{BATCH_HEADER_BYTES, BLOCK_SIZES, preparing_name, segment_name};

/// Makes the checksum of the header at the start of `bytes` right.
pub fn mend_header(bytes: &mut [u8]) {
    if let Some(header) = bytes.get_mut(..BATCH_HEADER_BYTES) {
        let checksum = crc32c(&header[..124]);
        header[124..].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Makes both checksums of the batch at the start of `bytes` right, as far as the batch lies within them.
pub fn mend_batch(bytes: &mut [u8], block: usize) {
    let Some(length) = bytes.get(72..76).and_then(|field| field.try_into().ok()).map(u32::from_le_bytes)
    else {
        return;
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let end = BATCH_HEADER_BYTES.saturating_add(length).checked_next_multiple_of(block).unwrap_or(usize::MAX);
    if let Some(body) = bytes.get(BATCH_HEADER_BYTES..end) {
        let checksum = crc32c(body);
        bytes[84..88].copy_from_slice(&checksum.to_le_bytes());
    }
    mend_header(bytes);
}

/// Makes every checksum in a segment right.
pub fn mend_segment(bytes: &mut [u8]) {
    let block = bytes.get(6..8).map_or(0, |field| u16::from_le_bytes([field[0], field[1]]));
    let block = usize::from(if BLOCK_SIZES.contains(&block) { block } else { 512 });
    for at in (0..bytes.len()).step_by(block) {
        if bytes[at..].starts_with(b"SWLB") {
            mend_batch(&mut bytes[at..], block);
        } else if bytes[at..].starts_with(b"SWLS") {
            mend_header(&mut bytes[at..]);
        }
    }
}

/// The files that `input` stands for.
#[must_use]
pub fn files(input: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let Some((flags, mut rest)) = input.split_first() else { return files };
    while let [role, low, high, content @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(content.len());
        let (bytes, behind) = content.split_at(length);
        let number = u64::from(role % 8) + 1;
        let name = match role {
            0..240 => segment_name(number),
            240..248 => preparing_name(number),
            _ => format!("foreign_file-{role}"),
        };
        let mut bytes = bytes.to_vec();
        if flags & 1 == 1 {
            mend_segment(&mut bytes);
        }
        files.push((name, bytes));
        rest = behind;
    }
    files
}
