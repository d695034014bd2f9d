//! Fuzz target: every text is refused or is a result that is reported in each form without a panic, and reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_gauge::report::{Style, csv, html, markdown, terminal};
use seawall_gauge::result::RunResult;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(result) = RunResult::from_json(text) else { return };
    let shown = terminal(&result, 100, Style::PLAIN);
    assert!(!shown.contains(|c: char| c != '\n' && c.is_control()), "a terminal would obey it");
    let _ = (csv::csv(&result), markdown::markdown(&result), html::html(&result));
    let json = result.to_json().expect("what was read can be written");
    let again = RunResult::from_json(&json).expect("what was written can be read");
    assert_eq!(again.to_json().expect("can be written"), json);
});
