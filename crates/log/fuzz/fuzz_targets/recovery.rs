//! Fuzz target: recovery of arbitrary files terminates without a panic, in LSN order, with the same result twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall::sim::arbitrary::recover_files;

fuzz_target!(|input: &[u8]| {
    // A refusal is an answer; what must not happen panics.
    let _ = recover_files(&seawall_fuzz::files(input));
});
