//! Writes the initial fuzz corpus: small logs with the bytes that the log itself would write.

use std::path::Path;

use seawall::Lsn;
use seawall::format::{
    BATCH_HEADER_BYTES, BatchHeader, BatchKind, LogId, SegmentHeader, Tag, TagKind, record_header, tagged_header,
};
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
            streams_from: 0,
            cuts_from: 0,
        };
        let mut bytes = vec![0; SEGMENT];
        header.encode(0, &mut bytes);
        header.encode(1, &mut bytes[SEGMENT - BLOCK..]);
        Self { bytes, header, at: BLOCK, lsn, link, epoch: number }
    }

    fn batch(self, kind: BatchKind, payloads: &[(&[u8], bool)]) -> Self {
        let mut body = Vec::new();
        for (payload, more) in payloads {
            body.extend(record_header(payload.len(), *more).expect("short"));
            body.extend_from_slice(payload);
        }
        self.encoded(kind, &body, payloads.len(), (false, false))
    }

    /// A batch of tagged records, each a transaction of its own.
    fn tagged(self, records: &[(TagKind, u32, u64, &[u8])]) -> Self {
        let mut body = Vec::new();
        for (kind, stream, number, payload) in records {
            let tag = Tag { kind: *kind, stream: *stream, number: *number };
            body.extend(tagged_header(payload.len(), false, &tag).expect("short"));
            body.extend_from_slice(payload);
        }
        let cuts = records.iter().any(|(kind, ..)| matches!(kind, TagKind::LogCut | TagKind::LogCuts));
        self.encoded(BatchKind::Records, &body, records.len(), (true, cuts))
    }

    fn encoded(mut self, kind: BatchKind, body: &[u8], records: usize, (tagged, cuts): (bool, bool)) -> Self {
        if kind == BatchKind::Open {
            self.epoch += 1;
        }
        let blocks = (BATCH_HEADER_BYTES + body.len()).next_multiple_of(BLOCK);
        let out = &mut self.bytes[self.at..self.at + blocks];
        out[BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + body.len()].copy_from_slice(body);
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
            records: u32::try_from(records).expect("few"),
            link: self.link,
            body_checksum: crc32c(&out[BATCH_HEADER_BYTES..]),
            tagged,
            cuts,
            time_us: 1_795_000_000_000_000,
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
    let first_stream = Builder::new(1, None)
        .batch(BatchKind::Records, &[(b"plain", false)])
        .tagged(&[(TagKind::Data, 7, 0, b"a"), (TagKind::Data, 8, 0, b"b"), (TagKind::Data, 7, 1, b"c")])
        .tagged(&[(TagKind::LogCut, 0, 5, b""), (TagKind::StreamTrim, 7, 1, b"")]);
    let mut second_stream = Builder::new(2, Some(&first_stream));
    (second_stream.header.streams_from, second_stream.header.cuts_from) = (1, 2);
    second_stream.header.encode(0, &mut second_stream.bytes);
    second_stream.header.encode(1, &mut second_stream.bytes[SEGMENT - BLOCK..]);
    let cuts = [5_u64.to_le_bytes(), 9_u64.to_le_bytes()].concat();
    let second_stream = second_stream
        .tagged(&[(TagKind::LogCuts, 0, 0, &cuts)])
        .tagged(&[(TagKind::Copy, 8, 0, b"b"), (TagKind::StreamCut, 7, 1, b""), (TagKind::StreamState, 9, 4, b"")]);
    write("recovery", "streams", &input(true, &[&first_stream, &second_stream]));
    write("recovery", "unmended", &input(false, &[&first]));
    write("recovery", "empty", &[1]);
    write("batch", "records", &first.bytes[BLOCK..2 * BLOCK]);
    write("batch", "long", &first.bytes[2 * BLOCK..4 * BLOCK]);
    write("batch", "mark", &first.bytes[4 * BLOCK..5 * BLOCK]);
    write("batch", "segment", &first.bytes[..BLOCK]);
    write("batch", "segment-copy", &first.bytes[SEGMENT - BLOCK..]);
}
