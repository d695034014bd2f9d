//! Does decoding end without a panic on any bytes, and does what it accepts encode to the same bytes?
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall::format::{BATCH_HEADER_BYTES, BatchHeader, Records, SEGMENT_HEADER_BYTES, SegmentHeader, check_body};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, checksum)) = BatchHeader::decode(bytes) {
        let mut again = [0; BATCH_HEADER_BYTES];
        assert_eq!(header.encode(&mut again), checksum);
        assert_eq!(again[..], bytes[..BATCH_HEADER_BYTES]);
        let _ = check_body(&header, bytes);
    }
    for copy in [0, 1] {
        if let Ok(header) = SegmentHeader::decode_unplaced(bytes, copy) {
            let mut again = [0; SEGMENT_HEADER_BYTES];
            header.encode(copy, &mut again);
            assert_eq!(again[..], bytes[..SEGMENT_HEADER_BYTES]);
        }
    }
    let walked: usize = Records::new(bytes).map(|record| record.payload.len() + 4).sum();
    assert!(walked <= bytes.len());
});
