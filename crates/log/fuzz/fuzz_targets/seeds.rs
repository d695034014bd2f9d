//! Writes the initial fuzz corpus: small logs with the bytes that the log itself would write.

use std::path::Path;

use seawall::Lsn;
use seawall::format::{BATCH_HEADER_BYTES, BatchHeader, BatchKind, LogId, SegmentHeader, record_header};
use seawall_fuzz::crc32c;

const BLOCK: usize = 512;
const SEGMENT: usize = 4096;
const ID: LogId = LogId(*b"a fuzzed log....");

/// A segment under construction.
struct Builder {
    bytes: Vec<u8>,
    header: SegmentHeader,
    at: usize,
    lsn: u64,
    link: u32,
    epoch: u64,
}

impl Builder {
    fn new(number: u64, before: Option<&Builder>) -> Self {
        let (lsn, link) = before.map_or((0, 0), |before| (before.lsn, before.link));
        let header = SegmentHeader {
            block_bytes: 512,
            log_id: ID,
            epoch: number,
            number,
            segment_bytes: 4096,
            first_lsn: Lsn::new(lsn),
            trim_lsn: Lsn::ZERO,
            previous: number - 1,
            link,
            class: seawall::Durability::PowerLoss,
        };
        let mut bytes = vec![0; SEGMENT];
        header.encode(0, &mut bytes);
        header.encode(1, &mut bytes[SEGMENT - BLOCK..]);
        Self { bytes, header, at: BLOCK, lsn, link, epoch: number }
    }

    fn batch(mut self, kind: BatchKind, payloads: &[(&[u8], bool)]) -> Self {
        let mut body = Vec::new();
        for (payload, more) in payloads {
            body.extend(record_header(payload.len(), *more).expect("short"));
            body.extend_from_slice(payload);
        }
        if kind == BatchKind::Open {
            self.epoch += 1;
        }
        let blocks = (BATCH_HEADER_BYTES + body.len()).next_multiple_of(BLOCK);
        let out = &mut self.bytes[self.at..self.at + blocks];
        out[BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + body.len()].copy_from_slice(&body);
        let header = BatchHeader {
            kind,
            log_id: ID,
            epoch: self.epoch,
            segment: self.header.number,
            offset: u64::try_from(self.at).expect("fits"),
            lsn: Lsn::new(self.lsn),
            durable: Lsn::new(self.lsn),
            acknowledged: Lsn::new(self.lsn),
            trim_lsn: Lsn::ZERO,
            body_bytes: u32::try_from(body.len()).expect("short"),
            records: u32::try_from(payloads.len()).expect("few"),
            link: self.link,
            body_checksum: crc32c(&out[BATCH_HEADER_BYTES..]),
        };
        self.link = header.encode(out);
        self.lsn = header.end().get();
        self.at += blocks;
        self
    }
}

fn input(mend: bool, segments: &[&Builder]) -> Vec<u8> {
    let mut out = vec![u8::from(mend)];
    for segment in segments {
        out.push(u8::try_from(segment.header.number - 1).expect("few"));
        out.extend(u16::try_from(segment.bytes.len()).expect("short").to_le_bytes());
        out.extend_from_slice(&segment.bytes);
    }
    out
}

fn main() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let dir = corpus.join(target);
        std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(dir.join(name), bytes)).expect("writes");
    };
    let first = Builder::new(1, None)
        .batch(BatchKind::Records, &[(b"debit", true), (b"credit", false), (b"", false)])
        .batch(BatchKind::Records, &[(&[7; 600], false)])
        .batch(BatchKind::Mark, &[]);
    let second = Builder::new(2, Some(&first))
        .batch(BatchKind::Records, &[(b"one", false)])
        .batch(BatchKind::Records, &[(b"two", false)]);
    let torn = input(true, &[&first, &second]);
    let second = second.batch(BatchKind::Close, &[]);
    let closed = input(true, &[&first, &second]);
    let second = second.batch(BatchKind::Open, &[]).batch(BatchKind::Records, &[(b"three", false)]);
    write("recovery", "torn", &torn);
    write("recovery", "closed", &closed);
    write("recovery", "reopened", &input(true, &[&first, &second]));
    write("recovery", "unmended", &input(false, &[&first]));
    write("recovery", "empty", &[1]);
    write("batch", "records", &first.bytes[BLOCK..2 * BLOCK]);
    write("batch", "long", &first.bytes[2 * BLOCK..4 * BLOCK]);
    write("batch", "mark", &first.bytes[4 * BLOCK..5 * BLOCK]);
    write("batch", "segment", &first.bytes[..BLOCK]);
    write("batch", "segment-copy", &first.bytes[SEGMENT - BLOCK..]);
}
