//! Tests that an open log takes memory as it needs it, gives it back when it is idle, and writes the right bytes afterwards.
//!
//! The memory of a process is that of all its threads: each test starts this program again as a child that runs [`in_a_child`]
//! alone, and counts what the log adds to the resident memory, not how long that takes.

use std::process::Stdio;

use crate::fixture::{PLAIN, child, orders, scratch, until};
use seawall::{Durability, Log, MethodChoice, Options};

const MIB: u64 = 1 << 20;
/// What an idle log may add: the bound of 8 MiB for a process with one log, less what a small program has itself.
const IDLE_BYTES_MAX: u64 = 5 * MIB;

/// Resident bytes of this process, counted page by page.
fn resident() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("reads");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).expect("is listed");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// Records that fill every buffer, of bytes that name them.
fn burst(log: &Log, round: u8) -> Vec<(u64, u8)> {
    let mut written = Vec::new();
    for i in 0..48_u8 {
        let fill = round.wrapping_mul(48).wrapping_add(i);
        let end = log.append(&vec![fill; 700 << 10]).expect("appends").end;
        written.push((end.get(), fill));
    }
    log.commit(log.appended_lsn()).expect("commits");
    written
}

fn run(method: &str) {
    let end = |method: &str| println!("\nmethod {method}");
    let chosen = MethodChoice::Named(method.to_owned());
    let dir = scratch();
    let options = Options::default().method(chosen).durability(Durability::ProcessCrash);
    // What the first log of a process takes for good: code that is run for the first time, and the like.
    let opened = Log::open(dir.path(), options.clone());
    let Ok(log) = opened else { return end("n/a") };
    log.append_commit(b"first").expect("commits");
    log.close().expect("closes");
    let before = resident();
    let log = Log::open(dir.path(), options).expect("opens");
    let added = || resident().saturating_sub(before);
    until(&format!("{} MiB and no more after opening", IDLE_BYTES_MAX / MIB), || {
        log.is_prepared() && added() <= IDLE_BYTES_MAX
    });
    let mut written = Vec::new();
    for round in 0..3 {
        written.extend(burst(&log, round));
        // Far more was in use than an idle log has, and is still there; how much depends on how far the disk lagged.
        assert!(added() > 2 * IDLE_BYTES_MAX, "{} MiB after a burst", added() / MIB);
        until(&format!("{} MiB and no more after a burst", IDLE_BYTES_MAX / MIB), || {
            added() <= IDLE_BYTES_MAX
        });
        log.append_commit(&[round; 100]).expect("commits");
    }
    // Nothing was written from memory that had been given back.
    let records: Vec<_> =
        log.read(log.first_lsn()).expect("reads").map(|record| record.expect("is sound")).collect();
    for (lsn, fill) in written {
        let record = records.iter().find(|record| record.end.get() == lsn).expect("is there");
        assert!(record.payload.iter().all(|byte| *byte == fill), "{lsn}");
    }
    assert_eq!(records.len(), 1 + 3 * 49);
    end(log.opened().method);
}

#[test]
fn an_idle_log_gives_its_memory_back_by_every_engine() {
    let methods = ["direct+dsync", "buffered+fdatasync", "uring-direct-linked", "uring-direct-fixed-dsync"];
    // Side by side, because each mostly waits for its log to be idle.
    let children = methods.map(|method| {
        let mut child = child(PLAIN, "idle_memory::in_a_child", method);
        (method, child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts"))
    });
    for (method, child) in children {
        let output = child.wait_with_output().expect("ends");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{method}: {text}{}", String::from_utf8_lossy(&output.stderr));
        let ran = text.lines().any(|line| line == format!("method {method}") || line == "method n/a");
        assert!(ran, "{method}: {text}");
    }
}

#[test]
fn in_a_child() {
    if let Some(method) = orders() {
        run(&method);
    }
}
