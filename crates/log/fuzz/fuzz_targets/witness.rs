//! Fuzz target: no bytes of a peer get in without the token, are obeyed by a terminal, or make a ledger panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| seawall_powercut::fuzzing::peer(input));
