//! Does recovery come to an end on any files at all, without a panic, in order, and to the same end twice?
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall::sim::arbitrary::recover_files;

fuzz_target!(|input: &[u8]| {
    // A refusal is an answer; what must not happen panics.
    let _ = recover_files(&seawall_fuzz::files(input));
});
