//! Generates the test records and recognises them on the disk, whole or in part.
//!
//! A record is cut into sectors of 512 bytes, each of which identifies its record by itself, so that a record of
//! which only some sectors arrived, an older one that was never overwritten, and foreign bytes can be distinguished.
//!
//! ```text
//!   0        4        6        8               16              24       28      32          512
//!   | "SWpc" | stream | sector | run (8 bytes) | sequence      | record | crc32c | filler … |
//!   |        |        | number | its first     | of the record | bytes  |        |          |
//! ```
//!
//! All numbers are little-endian. The last sector ends with the record. The checksum covers the sector without itself;
//! the filler follows from run, stream, sequence and sector number.
//!
//! A record is intact if and only if its bytes are those that [`encode`] makes for its place.

use seawall_sys::chance::SplitMix64;

/// Bytes of a sector: the smallest unit that disks write.
pub(crate) const SECTOR_BYTES: usize = 512;
/// Bytes in front of the filler.
pub(crate) const HEAD_BYTES: usize = 32;
/// The longest record in bytes: what a sector number of 16 bits reaches.
pub(crate) const RECORD_BYTES_MAX: usize = SECTOR_BYTES << 15;

const MAGIC: [u8; 4] = *b"SWpc";
const CRC_AT: usize = 28;
const _: () = assert!(4 + 2 + 2 + 8 + 8 + 4 == CRC_AT && CRC_AT + 4 == HEAD_BYTES);

/// Which record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The first eight bytes of the run's id.
    pub(crate) run: u64,
    pub(crate) stream: u16,
    /// The record's number in its stream, from 0.
    pub(crate) sequence: u64,
}

/// What the bytes of a place show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Nothing was ever written there.
    Zeros,
    /// This record, whole.
    Whole(u64),
    /// Parts of records, of this run and stream as far as they are named; the highest sequence among them.
    Parts(Option<u64>),
    /// At least one valid sector that belongs elsewhere.
    Foreign,
}

/// Whether a record may have this many bytes.
pub(crate) fn is_length(bytes: usize) -> bool {
    let last = bytes % SECTOR_BYTES;
    (HEAD_BYTES..=RECORD_BYTES_MAX).contains(&bytes) && (last == 0 || last >= HEAD_BYTES)
}

fn crc(sector: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&sector[..CRC_AT]);
    digest.update(&sector[HEAD_BYTES..]);
    // A 32-bit CRC leaves the upper half zero.
    u32::try_from(digest.finalize() & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// Fills `bytes`, whose length is one that [`is_length`] allows, with the record `name`.
pub(crate) fn encode(name: Name, bytes: &mut [u8]) {
    debug_assert!(is_length(bytes.len()));
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    for (number, sector) in (0_u16..).zip(bytes.chunks_mut(SECTOR_BYTES)) {
        sector[..4].copy_from_slice(&MAGIC);
        sector[4..6].copy_from_slice(&name.stream.to_le_bytes());
        sector[6..8].copy_from_slice(&number.to_le_bytes());
        sector[8..16].copy_from_slice(&name.run.to_le_bytes());
        sector[16..24].copy_from_slice(&name.sequence.to_le_bytes());
        sector[24..28].copy_from_slice(&length.to_le_bytes());
        let seed = name.run ^ name.sequence.rotate_left(24) ^ u64::from(number) << 16;
        let mut chance = SplitMix64::new(seed ^ u64::from(name.stream));
        for word in sector[HEAD_BYTES..].chunks_mut(8) {
            let filler = chance.next_u64().to_le_bytes();
            word.copy_from_slice(&filler[..word.len()]);
        }
        let crc = crc(sector).to_le_bytes();
        sector[CRC_AT..HEAD_BYTES].copy_from_slice(&crc);
    }
}

/// Whether `bytes` are exactly the record `name`.
pub(crate) fn is_exactly(name: Name, bytes: &[u8], scratch: &mut Vec<u8>) -> bool {
    if !is_length(bytes.len()) {
        return false;
    }
    scratch.clear();
    scratch.resize(bytes.len(), 0);
    encode(name, scratch);
    scratch == bytes
}

/// Says of a valid sector that it is valid: number, run, stream and sequence, and the bytes of its record.
fn head(sector: &[u8]) -> Option<(u16, Name, u32)> {
    let u16_at = |at: usize| sector.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes);
    let u32_at = |at: usize| sector.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let u64_at = |at: usize| sector.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    if sector.len() < HEAD_BYTES || sector[..4] != MAGIC || u32_at(CRC_AT)? != crc(sector) {
        return None;
    }
    let name = Name { stream: u16_at(4)?, run: u64_at(8)?, sequence: u64_at(16)? };
    Some((u16_at(6)?, name, u32_at(24)?))
}

/// What the place shows that belongs to records of `bytes.len()` bytes of this run and stream.
pub(crate) fn look(run: u64, stream: u16, bytes: &[u8]) -> Shown {
    let (mut zeros, mut whole, mut highest) = (true, true, None);
    let mut first = None;
    for (number, sector) in (0_u16..).zip(bytes.chunks(SECTOR_BYTES)) {
        let empty = sector.iter().all(|byte| *byte == 0);
        zeros &= empty;
        let Some((at, name, length)) = head(sector) else {
            whole = false;
            continue;
        };
        let ours = (name.run, name.stream, at) == (run, stream, number);
        if !ours || length as usize != bytes.len() {
            return Shown::Foreign;
        }
        whole &= *first.get_or_insert(name.sequence) == name.sequence;
        highest = highest.max(Some(name.sequence));
    }
    match (zeros, whole, first) {
        (true, ..) => Shown::Zeros,
        (_, true, Some(sequence)) => Shown::Whole(sequence),
        _ => Shown::Parts(highest),
    }
}

#[cfg(test)]
mod tests {
    use super::{Name, Shown, encode, is_exactly, is_length, look};

    const RUN: u64 = 77;

    fn record(sequence: u64, bytes: usize) -> Vec<u8> {
        let mut record = vec![0; bytes];
        encode(Name { run: RUN, stream: 3, sequence }, &mut record);
        record
    }

    #[test]
    fn a_record_is_known_whole_and_any_flipped_bit_makes_pieces_of_it() {
        for bytes in [32, 100, 512, 544, 2300, 4096] {
            let whole = record(9, bytes);
            assert_eq!(look(RUN, 3, &whole), Shown::Whole(9), "{bytes}");
            assert!(is_exactly(Name { run: RUN, stream: 3, sequence: 9 }, &whole, &mut Vec::new()));
            assert!(!is_exactly(Name { run: RUN, stream: 3, sequence: 8 }, &whole, &mut Vec::new()));
            for byte in 0..bytes {
                let mut changed = whole.clone();
                changed[byte] ^= 4;
                assert!(matches!(look(RUN, 3, &changed), Shown::Parts(_)), "{bytes}, byte {byte}");
            }
        }
    }

    #[test]
    fn zeros_tears_stale_and_foreign_bytes_are_distinguished() {
        assert_eq!(look(RUN, 3, &[0; 1024]), Shown::Zeros);
        let (old, new) = (record(4, 1024), record(8, 1024));
        let torn = [&new[..512], &old[512..]].concat();
        assert_eq!(look(RUN, 3, &torn), Shown::Parts(Some(8)));
        assert_eq!(look(RUN, 3, &[&new[..512], &[0; 512]].concat()), Shown::Parts(Some(8)));
        assert_eq!(look(RUN, 3, &[&old[..700], &new[700..]].concat()), Shown::Parts(Some(4)));
        assert_eq!(look(RUN, 3, &[7; 1024]), Shown::Parts(None));
        assert_eq!(look(RUN + 1, 3, &new), Shown::Foreign);
        assert_eq!(look(RUN, 2, &new), Shown::Foreign);
        assert_eq!(look(RUN, 3, &new[..512]), Shown::Foreign, "half of a longer record");
        assert_eq!(look(RUN, 3, &[&new[512..], &new[..512]].concat()), Shown::Foreign, "sectors swapped");
    }

    #[test]
    fn lengths_are_those_whose_last_sector_can_say_whose_it_is() {
        for (bytes, allowed) in [(31, false), (32, true), (512, true), (513, false), (544, true), (0, false)]
        {
            assert_eq!(is_length(bytes), allowed, "{bytes}");
        }
    }
}
