//! Does recovery come to an end on any files at all, without a panic, and to the same end twice?
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall::sim::arbitrary::recover_files;

fuzz_target!(|input: &[u8]| {
    let files = seawall_fuzz::files(input);
    if let Ok(found) = recover_files(&files) {
        let mut due = None;
        for (lsn, length) in &found.records {
            assert!(due.is_none_or(|due| due == lsn.get()), "records follow one another without a gap");
            due = Some(lsn.get() + 4 + u64::try_from(*length).expect("fits"));
            assert!(due <= Some(found.end.get()), "nothing behind the end is handed out");
        }
    }
});
