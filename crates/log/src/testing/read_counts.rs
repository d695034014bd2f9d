//! Tests that what `verify` reads grows with the log and not with what its headers claim, by counting the bytes.

use std::io;

use crate::format::{BATCH_HEADER_BYTES, BatchHeader, BatchKind, SegmentHeader, segment_name};
use crate::lock::open_dir;
use crate::lsn::Lsn;
use crate::repair::verify::look;
use crate::storage::disk::{Access, Completion, DirEntry, Disk, FileId, Op, Token};
use crate::storage::os_disk::OsDisk;
use crate::testing::fixtures;

const BLOCK: u16 = 512;

/// A disk that counts the bytes that are read.
struct Counting {
    disk: OsDisk,
    read: u64,
}

impl Disk for Counting {
    fn list(&mut self) -> io::Result<Vec<DirEntry>> {
        self.disk.list()
    }

    fn open(&mut self, name: &str, access: Access) -> io::Result<FileId> {
        self.disk.open(name, access)
    }

    fn create(&mut self, _: &str) -> io::Result<FileId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn close(&mut self, file: FileId) {
        self.disk.close(file);
    }

    fn rename(&mut self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn replace(&mut self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&mut self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&mut self, _: FileId, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn read_direct(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.disk.read_direct(file, offset, buf)?;
        self.read += read as u64;
        Ok(read)
    }

    fn submit(&mut self, op: Op<'_>) -> Token {
        self.disk.submit(op)
    }

    fn complete(&mut self, block: bool) -> Option<Completion> {
        self.disk.complete(block)
    }
}

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
    let dir = tempfile::tempdir().expect("a directory");
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
        std::fs::write(dir.path().join(segment_name(number)), content).expect("writes");
    }
    let mut disk = Counting { disk: OsDisk::read_only(open_dir(dir.path()).expect("opens")), read: 0 };
    let report = look(&mut disk).expect("verifies");
    assert!(!report.damage.is_empty() || forged == 2, "{report:?}");
    disk.read
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
