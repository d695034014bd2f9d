//! Tests the on-disk format against golden bytes, and that damage to any bit of it is detected.

use std::fs;
use std::path::Path;

use crate::fixture::tiny;
use seawall::format::{
    BATCH_HEADER_BYTES, BatchHeader, BatchKind, FEATURES, Fault, LogId, RECORD_BYTES_MAX, Records,
    SegmentHeader, Tag, TagKind, check_body, file_role, record_header, segment_name, tagged_header,
};
use seawall::{Durability, Error, Log, Lsn};

const TAG: Tag = Tag { kind: TagKind::Data, stream: 0x01_0203, number: 0x0405_0607_0809 };

const ID: LogId = LogId(*b"0123456789abcdef");

fn segment_header() -> SegmentHeader {
    SegmentHeader {
        block_bytes: 512,
        log_id: ID,
        epoch: 3,
        number: 7,
        segment_bytes: 65_536,
        first_lsn: Lsn::new(1_000_000),
        trim_lsn: Lsn::new(999_000),
        previous: 6,
        link: 0xDEAD_BEEF,
        class: Durability::SystemCrash,
        streams_from: 5,
        cuts_from: 6,
    }
}

/// A batch of two records that are one transaction, one record by itself, and one of a stream.
fn batch() -> Vec<u8> {
    let mut body = Vec::new();
    for (payload, more) in [(&b"debit"[..], true), (b"credit", false), (b"", false)] {
        body.extend(record_header(payload.len(), more).expect("short"));
        body.extend_from_slice(payload);
    }
    body.extend(tagged_header(4, false, &TAG).expect("short"));
    body.extend_from_slice(b"vote");
    let mut bytes = vec![0; 512];
    bytes[BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + body.len()].copy_from_slice(&body);
    let header = BatchHeader {
        kind: BatchKind::Records,
        log_id: ID,
        epoch: 3,
        segment: 7,
        offset: 512,
        lsn: Lsn::new(1_000_000),
        durable: Lsn::new(999_500),
        acknowledged: Lsn::new(999_900),
        trim_lsn: Lsn::new(999_000),
        body_bytes: u32::try_from(body.len()).expect("short"),
        records: 4,
        link: 0xDEAD_BEEF,
        body_checksum: seawall_crc(&bytes[BATCH_HEADER_BYTES..]),
        tagged: true,
        cuts: false,
        time_us: 1_795_000_000_000_000,
    };
    header.encode(&mut bytes);
    bytes
}

/// CRC-32C, bit by bit: a second implementation, so that the golden files do not hang on a library.
fn seawall_crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg()))
    })
}

/// Compares with a golden file; writes it only when `SEAWALL_GOLDEN` is set, on purpose.
fn golden(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("SEAWALL_GOLDEN").is_some() {
        fs::write(&path, bytes).expect("writes the golden file");
    }
    let expected = fs::read(&path).expect("the golden file is there");
    assert!(expected == bytes, "{name}: the format has changed; old logs would no longer be read");
}

#[test]
fn the_bytes_are_those_of_version_1() {
    let mut segment = vec![0; 512];
    segment_header().encode(0, &mut segment);
    golden("segment-v1.bin", &segment);
    golden("batch-v1.bin", &batch());
}

#[test]
fn the_golden_files_read_back() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let segment = fs::read(dir.join("segment-v1.bin")).expect("is there");
    assert_eq!(SegmentHeader::decode(&segment, 0, 7, 65_536), Ok(segment_header()));
    let bytes = fs::read(dir.join("batch-v1.bin")).expect("is there");
    let (header, _) = BatchHeader::decode(&bytes).expect("is sound");
    assert_eq!(check_body(&header, &bytes), Ok(()));
    let body = &bytes[BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + header.body_bytes as usize];
    let records: Vec<_> =
        Records::new(body).map(|record| (record.payload.to_vec(), record.more, record.tag)).collect();
    let plain = |payload: &[u8], more| (payload.to_vec(), more, None);
    let tagged = (b"vote".to_vec(), false, Some(TAG));
    assert_eq!(records, [plain(b"debit", true), plain(b"credit", false), plain(b"", false), tagged]);
}

#[test]
fn every_flipped_bit_of_a_batch_is_noticed() {
    let good = batch();
    let accepted =
        |bytes: &[u8]| BatchHeader::decode(bytes).is_ok_and(|(header, _)| check_body(&header, bytes).is_ok());
    assert!(accepted(&good));
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(!accepted(&bad), "bit {bit}");
    }
    for length in 0..good.len() {
        assert!(!accepted(&good[..length]), "cut to {length} bytes");
    }
}

#[test]
fn every_flipped_bit_of_a_segment_header_is_noticed_and_the_place_is_bound() {
    let mut good = vec![0; 512];
    segment_header().encode(1, &mut good);
    for bit in 0..BATCH_HEADER_BYTES * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(SegmentHeader::decode(&bad, 1, 7, 65_536).is_err(), "bit {bit}");
    }
    assert_eq!(SegmentHeader::decode(&good, 0, 7, 65_536), Err(Fault::Fields), "the other copy");
    assert_eq!(SegmentHeader::decode(&good, 1, 8, 65_536), Err(Fault::Place), "another name");
    assert_eq!(SegmentHeader::decode(&good, 1, 7, 65_535), Err(Fault::Length), "a truncated file");
}

/// A header with `bytes` at `at`, its checksum right.
fn forged(mut header: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    header[at..at + bytes.len()].copy_from_slice(bytes);
    let checksum = seawall_crc(&header[..124]);
    header[124..128].copy_from_slice(&checksum.to_le_bytes());
    header
}

#[test]
fn another_version_is_distinguished_from_damage() {
    for version in [0, 2] {
        assert_eq!(BatchHeader::decode(&forged(batch(), 4, &[version])), Err(Fault::Version(version.into())));
    }
}

/// Why a log with this beginning of a segment is not opened, looked at and verified.
fn refusals(mut segment: Vec<u8>) -> [Error; 3] {
    let dir = tempfile::tempdir().expect("a directory");
    segment.resize(65_536, 0);
    fs::write(dir.path().join(segment_name(7)), segment).expect("writes");
    let refusals = [
        Log::open(dir.path(), tiny().block_bytes(512)).map(drop),
        seawall::View::open(dir.path()).map(drop),
        seawall::verify(dir.path()).map(drop),
    ];
    refusals.map(|refusal| refusal.expect_err("is refused"))
}

#[test]
fn a_log_of_an_unreleased_build_is_refused_by_name_and_with_a_remedy() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/segment-unreleased.bin");
    for error in refusals(fs::read(golden).expect("the golden file is there")) {
        assert!(matches!(error, Error::OlderFormat { version: 0, .. }), "{error}");
        assert!(error.to_string().contains("append them to a new log"), "{error}");
    }
}

#[test]
fn a_feature_that_is_reserved_or_unknown_is_refused_by_name() {
    let mut header = vec![0; 512];
    segment_header().encode(0, &mut header);
    for (bits, name) in FEATURES.into_iter().chain([(1 << 31, "0x80000000")]) {
        let segment = forged(header.clone(), 84, &bits.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&segment, 0, 7, 65_536), Err(Fault::Features(bits)));
        for error in refusals(segment) {
            assert!(matches!(error, Error::UnknownFeature { .. }), "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

/// Each rule of a tagged record: the kind is known, a kind without payload has none, and the flags of the batch say it.
#[test]
fn a_batch_with_a_malformed_tag_is_not_valid_at_once_or_in_pieces() {
    let tag = |kind: u8| [3, 2, 1, kind, 9, 0, 0, 0, 0, 0, 0, 0];
    let body = |kind: u8, payload: &[u8]| {
        let head = u32::try_from(payload.len()).expect("short") | 1 << 30;
        [&head.to_le_bytes()[..], &tag(kind), payload].concat()
    };
    let batch = |body: &[u8], tagged: bool| {
        let mut bytes = vec![0; 512];
        bytes[BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + body.len()].copy_from_slice(body);
        let (header, _) = BatchHeader::decode(&self::batch()).expect("is sound");
        let body_bytes = u32::try_from(body.len()).expect("short");
        let body_checksum = seawall_crc(&bytes[BATCH_HEADER_BYTES..]);
        let header = BatchHeader { body_bytes, records: 1, body_checksum, tagged, ..header };
        header.encode(&mut bytes);
        check_body(&header, &bytes)
    };
    for kind in 0..=u8::MAX {
        let known = (1..=7).contains(&kind);
        let expected = |holds: bool| if holds { Ok(()) } else { Err(Fault::Records) };
        assert_eq!(batch(&body(kind, b""), true), expected(known), "{kind}");
        assert_eq!(batch(&body(kind, b"x"), true), expected(matches!(kind, 1 | 2 | 7)), "{kind}");
        assert_eq!(batch(&body(kind, b""), false), Err(Fault::Records), "{kind} without the flag");
    }
}

#[test]
fn an_unknown_durability_class_is_refused_by_name() {
    let mut header = vec![0; 512];
    segment_header().encode(0, &mut header);
    for class in [0_u16, 4, 0x0302, u16::MAX] {
        let header = forged(header.clone(), 80, &class.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&header, 0, 7, 65_536), Err(Fault::Class(class)));
        for error in refusals(header) {
            let named = error.to_string().contains(&format!("durability class {class} is not known"));
            assert!(named, "{error}");
        }
    }
}

#[test]
fn what_a_batch_claims_was_acknowledged_lies_between_durable_and_its_lsn() {
    let claims = |behind: u32| {
        let forged = forged(batch(), 88, &behind.to_le_bytes());
        BatchHeader::decode(&forged)
            .and_then(|(header, _)| header.check_claims().map(|()| header.acknowledged))
    };
    assert_eq!(claims(0), Ok(Lsn::new(1_000_000)));
    assert_eq!(claims(500), Ok(Lsn::new(999_500)), "no more than what is durable");
    assert_eq!(claims(501), Err(Fault::Claims), "before what is durable");
    assert_eq!(claims(1_000_001), Err(Fault::Claims), "before the start of the log");
    assert_eq!(claims(u32::MAX), Err(Fault::Claims), "said to be too far away, and is not");
    let (mut far, _) = BatchHeader::decode(&batch()).expect("is sound");
    (far.lsn, far.acknowledged) = (Lsn::new(10_000_000_000), Lsn::new(2_000_000));
    let mut bytes = [0; BATCH_HEADER_BYTES];
    far.encode(&mut bytes);
    let (read, _) = BatchHeader::decode(&bytes).expect("is sound");
    assert_eq!(read.acknowledged, far.durable, "too far away to be said");
}

#[test]
fn records_and_names_keep_their_bounds() {
    assert!(record_header(RECORD_BYTES_MAX, true).is_some());
    assert!(record_header(RECORD_BYTES_MAX + 1, false).is_none());
    assert!(Records::new(&[5, 0, 0, 0, 1, 2]).next().is_none(), "a record that is longer than its batch");
    assert_eq!(file_role(&segment_name(9)), Some(seawall::format::FileRole::Segment(9)));
    for foreign in ["9.seg", "00000000000000000000.seg", "LOCK", "0000000000000000000x.seg", "a.new", ".seg"]
    {
        assert_eq!(file_role(foreign), None, "{foreign}");
    }
}
