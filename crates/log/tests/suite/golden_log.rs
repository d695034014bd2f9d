//! Reads the golden log of format version 1 and compares what it holds with the text beside it.
//!
//! The log has segments, transactions, streams that were trimmed, cut and removed, a cut of the log and a torn tail. Its bytes are never
//! made again: that today's library writes what today's library reads would show nothing.

use std::fs;
use std::path::Path;

use crate::fixture::{copy, scratch};
use seawall::{Log, Options, Record, Tail, View};

fn golden() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn shown(bytes: &[u8]) -> String {
    match bytes.first() {
        None => "nothing".to_owned(),
        Some(letter) => format!("{}*{}", char::from(*letter), bytes.len()),
    }
}

fn line(record: &Record) -> String {
    let place = record.stream.map_or_else(|| "-".to_owned(), |at| format!("{}/{}", at.stream, at.seq));
    let end = if record.ends_transaction { "ends" } else { "goes on" };
    format!("{} {place} {end} {}", record.lsn, shown(&record.payload))
}

#[test]
fn the_golden_log_holds_what_its_text_says() {
    // A copy, because opening writes.
    let dir = scratch();
    copy(&golden().join("log"), dir.path());
    let mut lines = Vec::new();
    let view = View::open(dir.path()).expect("opens");
    assert_eq!(view.tail(), Some(Tail::Torn));
    lines.push(format!("log {} {}", view.first_lsn(), view.end_lsn()));
    for record in view.read(view.first_lsn()).expect("starts") {
        lines.push(line(&record.expect("is sound")));
    }
    let log = Log::open(dir.path(), Options::default().create(false)).expect("opens");
    for id in log.streams() {
        let stream = log.stream(id);
        lines.push(format!("stream {id} {} {}", stream.first_seq(), stream.next_seq()));
        for record in stream.read(stream.first_seq()).expect("starts") {
            let record = record.expect("is sound");
            lines.push(format!("{} {}", record.stream.expect("of a stream").seq, shown(&record.payload)));
        }
    }
    let text = fs::read_to_string(golden().join("log.txt")).expect("is there");
    assert_eq!(lines, text.lines().collect::<Vec<_>>());
    assert!(seawall::verify(golden().join("log")).expect("is a log").damage.is_empty());
}
