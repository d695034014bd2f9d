//! Does recovery end with a typed answer whatever lies in the directory, and twice with the same?
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| seawall::sim::arbitrary::recover_twice(bytes));
