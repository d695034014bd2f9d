//! Recovers directories made of fuzzer bytes and checks that a second recovery yields the same log.
//!
//! Bytes from a fuzzer become files: each starts with a head of four bytes (number, kind, length in blocks, whether the
//! checksums are mended), then its content. With mended checksums the fuzzer gets past the first rules.

use super::disk::SimDisk;
use super::life::plan;
use super::media::Media;
use super::names::{Name, NameChange};
use crate::format::checksum::crc32c;
use crate::format::{preparing_name, segment_name};
use crate::recovery::recover;
use seawall_sys::durability::Class;

const BLOCK: usize = 512;

/// Puts right the header checksum of each block that starts like a header.
fn mend(content: &mut [u8]) {
    for block in content.chunks_mut(BLOCK).filter(|block| block.starts_with(b"SW") && block.len() >= 96) {
        let checksum = crc32c(&block[..92]);
        block[92..96].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Makes files of `bytes`, recovers, and if that worked recovers again.
///
/// # Panics
/// If the second recovery does not give the log of the first one.
fn recover_twice(mut bytes: &[u8]) {
    let mut media = Media::default();
    while let Some(([number, kind, blocks, mended], rest)) = bytes.split_first_chunk::<4>() {
        let length = rest.len().min(usize::from(*blocks) * BLOCK);
        let mut content = rest[..length].to_vec();
        content.resize(length.next_multiple_of(BLOCK), 0);
        if mended & 1 == 1 {
            mend(&mut content);
        }
        let inode = media.new_inode();
        media.put(inode, 0, &content);
        let number = u64::from(*number);
        let name = if kind & 7 == 7 { preparing_name(number) } else { segment_name(number) };
        media.change(NameChange::Set(Name::new(&name), inode));
        bytes = &rest[length..];
    }
    media.dir_synced();
    let mut disk = SimDisk::idle(media, 0, None);
    if let Ok(first) = recover(&mut disk, &plan(true, Class::PowerLoss)) {
        let again = recover(&mut disk, &plan(true, Class::PowerLoss));
        assert!(again.is_ok_and(|again| again.resume.end == first.resume.end), "recovery is not idempotent");
    }
}

#[cfg(test)]
mod tests {
    use super::recover_twice;
    use crate::format::{BatchHeader, Kind, LogId, SegmentHeader};
    use crate::lsn::Lsn;
    use crate::testing::sim::rng::Rng;
    use seawall_sys::durability::Class;

    /// A sound segment of 16 blocks as the fuzzer would have to write it, then changed at random.
    fn mutated(rng: &mut Rng) -> Vec<u8> {
        let log_id = LogId(*b"a simulated log!");
        let mut content = vec![0; 16 * 512];
        let header = SegmentHeader {
            block_bytes: 512,
            log_id,
            epoch: 1,
            number: 1,
            segment_bytes: 8192,
            first_lsn: Lsn::ZERO,
            trim_lsn: Lsn::ZERO,
            previous: 0,
            link: 0,
            class: Class::PowerLoss,
        };
        header.encode(0, &mut content);
        header.encode(1, &mut content[15 * 512..]);
        let mut link = 0;
        for block in 1..=rng.index(8) {
            let offset = block as u64 * 512;
            let kind = [Kind::Mark, Kind::Close, Kind::Open][rng.index(3)];
            let place = &mut content[block * 512..];
            link = BatchHeader {
                kind,
                log_id,
                epoch: if rng.one_in(20) { u64::MAX } else { 1 + rng.below(2) },
                segment: 1,
                offset,
                lsn: Lsn::ZERO,
                durable: Lsn::new(rng.below(2)),
                acknowledged: Lsn::ZERO,
                trim_lsn: Lsn::ZERO,
                body_bytes: u32::try_from(rng.below(600)).unwrap_or(0) & 0xFFFF_FE00,
                records: 0,
                link,
                body_checksum: crate::format::checksum::crc32c(&[0; 512 - 96]),
            }
            .encode(place);
        }
        for _ in 0..rng.index(6) {
            let at = rng.index(content.len());
            content[at] ^= 1 << rng.below(8);
        }
        let mended = u8::from(rng.coin());
        let mut bytes = vec![1 + u8::from(rng.one_in(8)), 0, 16, mended];
        bytes.extend_from_slice(&content);
        bytes
    }

    #[test]
    fn any_input_ends_in_a_typed_answer() {
        let mut rng = Rng::new(11);
        for _ in 0..4000 {
            let mut bytes = mutated(&mut rng);
            if rng.coin() {
                bytes.extend(mutated(&mut rng));
            }
            if rng.one_in(4) {
                bytes.truncate(rng.index(bytes.len()));
            }
            recover_twice(&bytes);
        }
    }
}
