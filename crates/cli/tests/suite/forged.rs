//! Tests that a forged result file is refused by name or reported, within bounds of memory and output.
//!
//! Invariants: every forgery is tested with every command over results, under a limit of address space that the
//! file's size does not explain; a command ends with its code, never by a signal, and prints no control character.

use crate::{SEAWALL, err, folder, out};
use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

/// Address space of a command, KiB: room for its libraries and a result of 20 MB, not for what a forgery claims.
const LIMIT_KIB: u32 = 1_500_000;

fn committed(scenario: &str) -> Value {
    let text = std::fs::read_to_string(crate::committed(scenario)).expect("readable");
    serde_json::from_str(&text).expect("JSON")
}

fn packed(high: u64, digits: u8, count: u64) -> Value {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, high, digits).expect("bounds");
    histogram.record_n(1000, count).expect("in range");
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).expect("packed");
    json!(base64::engine::general_purpose::STANDARD.encode(bytes))
}

fn rows(result: &mut Value) -> &mut Vec<Value> {
    result["study"]["rows"].as_array_mut().expect("rows")
}

fn measured(result: &mut Value) -> &mut Value {
    let row = rows(result).iter_mut().find(|row| row["outcome"]["measured"].is_object()).expect("one");
    &mut row["outcome"]["measured"]
}

fn latency(result: &mut Value) -> &mut Value {
    &mut measured(result)["latencies"][0]["latency"]
}

fn copied(result: &mut Value, copies: usize, renamed: bool) {
    let rows = rows(result);
    let row = rows.iter().find(|row| row["outcome"]["measured"].is_object()).expect("one").clone();
    for copy in 0..copies {
        let mut row = row.clone();
        if renamed {
            row["id"] = json!(format!("copy-{copy}"));
        }
        rows.push(row);
    }
}

type Forgery = (&'static str, &'static str, fn(&mut Value));

/// The scenario that is forged, what the refusal says, and how. An empty refusal: it is reported like any other.
#[rustfmt::skip]
const FORGERIES: &[Forgery] = &[
    ("commit", "digits", |result| latency(result)["hdr"] = packed(u64::MAX / 2, 5, 1)),
    ("commit", "hour",   |result| latency(result)["hdr"] = packed(u64::MAX / 2, 3, 1)),
    ("commit", "samples", |result| latency(result)["hdr"] = packed(60_000_000_000, 3, u64::MAX / 2)),
    ("commit", "does not hold", |result| latency(result)["count"] = json!(1)),
    ("commit", "twice", |result| copied(result, 1, false)),
    ("commit", "methods, of at most", |result| copied(result, 1000, true)),
    ("commit", "memory", |result| {
        // A few hundred bytes each, and a quarter of a MiB once unpacked.
        let small = packed(1 << 42, 3, 1);
        copied(result, 2000, true);
        for row in rows(result) {
            let Some(measured) = row.pointer_mut("/outcome/measured") else { continue };
            let latency = json!({ "count": 1, "min_ns": 1, "mean_ns": 1.0, "max_ns": 1, "hdr": small });
            measured["latencies"] = json!([{ "name": "commit", "title": "commit", "latency": latency }]);
        }
    }),
    ("commit", "rounds, of at most", |result| result["order"] = json!(vec![Vec::<u64>::new(); 20_000])),
    ("commit", "values", |result| result["order"] = json!(vec![Vec::<u64>::new(); 8_100_000])),
    ("commit", "a time of", |result| {
        measured(result)["rounds"][0]["start_ns"] = json!(u64::MAX);
    }),
    ("commit", "devices", |result| {
        let device = result["environment"]["devices"][0].clone();
        result["environment"]["devices"] = json!(vec![device; 5000]);
    }),
    ("stall", "notes", |result| result["study"]["notes"] = json!(vec!["" ; 100_000])),
    ("stall", "twice", |result| {
        let first = rows(result)[0].clone();
        rows(result).push(first);
    }),
    ("commit", "", |result| {
        let bad = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\nrun 0011 broke no promise\u{202e}";
        result["environment"]["system"] = json!(format!("Linux {bad}"));
        result["environment"]["cpu_model"] = json!(bad);
        result["environment"]["file_system"]["source"] = json!(bad);
        result["environment"]["hypervisor"] = json!(bad);
        result["scenario"] = json!("commit");
        let mut row = rows(result)[0].clone();
        row["id"] = json!(bad);
        row["what"] = json!(bad);
        row["method"] = json!({ "id": bad, "calls": bad });
        row["outcome"] = json!({ "not-available": { "reason": bad } });
        rows(result).push(row);
        for row in rows(result) {
            if row["outcome"]["measured"].is_object() {
                row["outcome"]["measured"]["durability"]["because"] = json!([bad]);
            }
        }
    }),
    ("commit", "damaged", |result| result["plan"]["file_state"] = json!("\u{1b}[2J")),
    ("commit", "format", |result| result["format"] = json!("\u{1b}[2J")),
];

/// A command under the limit; it ends by itself.
fn limited(folder: &Path, arguments: &[&str]) -> Output {
    let line = format!("ulimit -v {LIMIT_KIB}; exec \"$0\" \"$@\"");
    let output = Command::new("sh").args(["-c", &line, SEAWALL]).args(arguments).current_dir(folder).output();
    let output = output.expect("started");
    let (shown, printed) = (out(&output), err(&output));
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {:?} {printed}", output.status);
    assert!(!printed.contains("panicked"), "{arguments:?}: {printed}");
    for text in [shown, printed] {
        let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(acts), "{arguments:?} prints what moves a cursor");
    }
    output
}

#[test]
fn a_forged_result_is_refused_or_printed_within_bounds() {
    let folder = folder();
    std::fs::write(folder.path().join("commit.json"), committed("commit").to_string()).expect("written");
    std::fs::write(folder.path().join("stall.json"), committed("stall").to_string()).expect("written");
    for (scenario, why, forge) in FORGERIES {
        let mut result = committed(scenario);
        forge(&mut result);
        std::fs::write(folder.path().join("forged.json"), result.to_string()).expect("written");
        let honest = format!("{scenario}.json");
        let commands: [&[&str]; 3] = [
            &["report", "forged.json", "-o", "page.html"],
            &["compare", &honest, "forged.json"],
            &["advise", "forged.json"],
        ];
        for arguments in commands {
            let output = limited(folder.path(), arguments);
            let printed = err(&output);
            if why.is_empty() {
                assert_eq!(output.status.code(), Some(0), "{arguments:?}: {printed}");
            } else {
                assert_eq!(output.status.code(), Some(1), "{arguments:?}, {why}: {printed}");
                assert!(
                    printed.contains("forged.json") && printed.contains(why),
                    "{arguments:?}, {why}: {printed}"
                );
            }
        }
    }
}

#[test]
fn what_is_no_file_of_a_fair_size_is_refused() {
    let folder = folder();
    let large = std::fs::File::create(folder.path().join("large.json")).expect("made");
    large.set_len(1 << 40).expect("sparse");
    let output = limited(folder.path(), &["advise", "large.json"]);
    let printed = err(&output);
    assert!(output.status.code() == Some(1) && printed.contains("MiB"), "{printed}");
}
