//! Fuzz target: every input that decodes as a header or batch encodes to the same bytes; all others are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall::format::{BATCH_HEADER_BYTES, BatchHeader, BatchKind, Records, SegmentHeader, check_body};
use seawall_fuzz::{mend_batch, mend_header};

fn batch(bytes: &[u8]) {
    let Ok((header, checksum)) = BatchHeader::decode(bytes) else { return };
    let mut again = [0; BATCH_HEADER_BYTES];
    assert_eq!(header.encode(&mut again), checksum);
    assert_eq!(again, bytes[..BATCH_HEADER_BYTES], "every byte of a header has a meaning");
    if check_body(&header, bytes).is_err() {
        return;
    }
    let body = &bytes[BATCH_HEADER_BYTES..][..usize::try_from(header.body_bytes).expect("32 bits fit")];
    let records: Vec<_> = Records::new(body).collect();
    assert_eq!(records.len(), usize::try_from(header.records).expect("32 bits fit"));
    assert_eq!(records.iter().map(|record| record.bytes()).sum::<usize>(), body.len());
    assert!(records.last().is_none_or(|record| !record.more), "a transaction lies in one batch");
    assert_eq!(header.kind == BatchKind::Records, !records.is_empty());
}

fn segment(bytes: &[u8]) {
    for copy in [0, 1] {
        let Ok(header) = SegmentHeader::decode_unplaced(bytes, copy) else { continue };
        let mut again = [0; BATCH_HEADER_BYTES];
        header.encode(copy, &mut again);
        assert_eq!(again, bytes[..BATCH_HEADER_BYTES]);
    }
}

fuzz_target!(|input: &[u8]| {
    batch(input);
    segment(input);
    let mut mended = input.to_vec();
    mend_header(&mut mended);
    segment(&mended);
    mend_batch(&mut mended, 512);
    batch(&mended);
});
