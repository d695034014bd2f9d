//! Tests that what `verify` reads grows with the log and not with what its headers claim, by counting the bytes.

use crate::format::{BATCH_HEADER_BYTES, BatchHeader, BatchKind, SegmentHeader, segment_name};
use crate::lsn::Lsn;
use crate::repair::verify::look;
use crate::storage::disk::{Disk, write_all};
use crate::testing::fixtures;
use crate::testing::sim::disk::SimDisk;
use crate::testing::sim::media::Media;

const BLOCK: u16 = 512;

fn header(number: u64, segment_bytes: u64) -> SegmentHeader {
    fixtures::segment(number, BLOCK, segment_bytes, Lsn::new((number - 1) << 40))
}

/// A segment with a batch header in each block, which claims `claim` bytes, or all that are left if there are fewer. Every
/// `sound`th claims nothing and is intact.
fn segment(header: &SegmentHeader, claim: u64, sound: usize) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(header.segment_bytes).expect("small")];
    let block = usize::from(BLOCK);
    let (mut lsn, mut link) = (Lsn::ZERO, 0);
    for (index, at) in (block..bytes.len() - block).step_by(block).enumerate() {
        let left = header.data_end() - at as u64 - BATCH_HEADER_BYTES as u64;
        let claim = if index % sound == sound - 1 { 0 } else { claim.min(left) };
        let mark = fixtures::mark(header, at as u64);
        let mark = BatchHeader { lsn, durable: lsn, acknowledged: lsn, link, ..mark };
        let claims = BatchHeader {
            kind: BatchKind::Records,
            body_bytes: u32::try_from(claim).expect("small"),
            records: 1,
            body_checksum: 1,
            ..mark
        };
        let batch = if claim == 0 { mark } else { claims };
        link = batch.encode(&mut bytes[at..]);
        lsn = lsn.saturating_add(1);
    }
    header.encode(0, &mut bytes);
    let end = bytes.len() - block;
    header.encode(1, &mut bytes[end..]);
    bytes
}

/// Bytes read of a log of two segments, of which the one at `forged` is full of such batches, by `verify`.
fn read(forged: u64, bytes: u64, (claim, sound): (u64, usize), wiped: bool) -> u64 {
    let mut disk = SimDisk::idle(Media::default(), 0, None);
    for number in [1, 2] {
        let header = header(number, if number == forged { bytes } else { 64 << 10 });
        let mut content = if number == forged { segment(&header, claim, sound) } else { Vec::new() };
        content.resize(usize::try_from(header.segment_bytes).expect("small"), 0);
        let end = content.len() - usize::from(BLOCK);
        header.encode(0, &mut content);
        header.encode(1, &mut content[end..]);
        if wiped && number == forged {
            content[..BATCH_HEADER_BYTES].fill(0);
            content[end..].fill(0);
        }
        let name = segment_name(number);
        let file = disk.create(&name).expect("creates");
        write_all(&mut disk, &name, (file, 0), &content, true).expect("writes");
    }
    let report = look(&mut disk).expect("verifies");
    assert!(!report.damage.is_empty() || forged == 2, "{report:?}");
    disk.bytes_read
}

#[test]
fn bytes_read_grow_with_the_segment() {
    for bytes in [4 << 20, 16 << 20] {
        for claim in [1 << 10, 4 << 10, 100 << 10, 1 << 20, 3 << 20, u64::from(u32::MAX)] {
            for (forged, wiped) in [(1, true), (1, false), (2, true), (2, false)] {
                let read = read(forged, bytes, (claim, usize::MAX), wiped);
                assert!(read <= 4 * bytes, "{forged} {wiped} {claim}: {read} of {bytes}");
                // Where the walk continues again and again, what was durable is looked for as well.
                let read = self::read(forged, bytes, (claim, 3), wiped);
                assert!(read <= 8 * bytes, "{forged} {wiped} {claim}, some sound: {read} of {bytes}");
            }
        }
    }
}
