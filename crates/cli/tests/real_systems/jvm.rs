//! Tests with strace that each row of a JVM makes exactly its system calls.
//!
//! The expectations are written down here by hand, from what Java's documentation promises of each class, and not
//! taken from the table. A block begins in the trace where its JVM reads the order; all calls of the same thread
//! until its answer belong to the block.
//!
//! Invariant: the tests assert counts, calls and messages, never latencies.

use crate::ground::folder;
use crate::program::{Bench, names};
use crate::trace::{Call, parse};
use seawall_gauge::row::Outcome;
use seawall_gauge::scenario::path::jvm::WAYS;
use seawall_host::jdk::{FOREIGN, Jdk, find, labels};
use seawall_sys::skip::skipped;
use std::collections::HashMap;

/// A row, the flags with which it opens its files beside access mode, and the calls of one write.
type Expectation = (&'static str, &'static [&'static str], &'static [&'static str]);

#[rustfmt::skip]
const EXPECTED: [Expectation; 16] = [
    ("raf-seek+write",        &[],                      &["lseek", "write"]),
    ("raf-append",            &[],                      &["write"]),
    ("channel-heap-at",       &[],                      &["pwrite64"]),
    ("channel-direct-at",     &[],                      &["pwrite64"]),
    ("channel-append",        &["O_APPEND"],            &["write"]),
    ("mapped-buffer",         &[],                      &[]),
    ("ffm-pwrite",            &[],                      &["pwrite64"]),
    ("channel-odirect",       &["O_DIRECT"],            &["pwrite64"]),
    ("raf-rwd",               &["O_DSYNC"],             &["lseek", "write"]),
    ("channel-dsync",         &["O_DSYNC"],             &["pwrite64"]),
    ("channel-append-dsync",  &["O_APPEND", "O_DSYNC"], &["write"]),
    ("channel-force-false",   &[],                      &["pwrite64", "fdatasync"]),
    ("channel-force-true",    &[],                      &["pwrite64", "fsync"]),
    ("channel-odirect-dsync", &["O_DSYNC", "O_DIRECT"], &["pwrite64"]),
    ("mapped-buffer-force",   &[],                      &["msync"]),
    ("ffm-datasync",          &[],                      &["pwrite64", "fdatasync"]),
];

/// Flags that are compared; access mode and `O_CLOEXEC` say nothing here.
const FLAGS: [&str; 4] = ["O_APPEND", "O_DSYNC", "O_SYNC", "O_DIRECT"];

const COUNTED: [&str; 7] = ["lseek", "write", "pwrite64", "fsync", "fdatasync", "msync", "sync_file_range"];

const TRACE: &str = "trace=read,openat,lseek,write,pwrite64,fsync,fdatasync,msync,sync_file_range";

/// A row of a JVM on the disk under `folder`, small.
const SMALL: [&str; 8] = ["--jvm", "--rounds", "1", "--warm-up", "0", "--time", "1s", "--allow-memory"];

/// The JDKs of this machine with their labels. None at all is a failure: the step that runs this has installed one.
fn jdks() -> Vec<(String, Jdk)> {
    let jdks = find(&[]).expect("nothing was named");
    assert!(!jdks.is_empty(), "no JDK from 17 on is here; `cargo xtask setup` installs one");
    if jdks.iter().all(|jdk| jdk.major < FOREIGN) {
        skipped(format_args!(
            "no JDK from {FOREIGN} on is here: the rows of java.lang.foreign are not tested"
        ));
    }
    labels(&jdks).into_iter().zip(jdks).collect()
}

/// The calls of each block, by thread, row and pace.
fn blocks(calls: &[Call]) -> Vec<(u32, String, Vec<Call>)> {
    let mut open: HashMap<u32, (String, Vec<Call>)> = HashMap::new();
    let mut blocks = Vec::new();
    for call in calls {
        if call.name == "read" {
            if let Some(order) = order(call) {
                open.insert(call.thread, (order, Vec::new()));
            }
        } else if call.name == "write" && call.descriptor() == Some(1) {
            if let Some((order, calls)) = open.remove(&call.thread) {
                blocks.push((call.thread, order, calls));
            }
        } else if let Some((_, calls)) = open.get_mut(&call.thread) {
            calls.push(call.clone());
        }
    }
    blocks
}

/// `ROW/PACE` of the order that was read, if it is one.
fn order(call: &Call) -> Option<String> {
    let text = call.arguments.split_once('"')?.1;
    let mut fields = text.split("\\t");
    let (row, pace) = (fields.next()?, fields.next()?);
    ["closed", "scheduled"].contains(&pace).then(|| format!("{row}/{pace}"))
}

fn names_journal(call: &Call) -> bool {
    call.arguments.contains("seawall-jvm")
}

/// What is wrong with a block of `writes` writes.
fn wrong((_, flags, calls_of_one): &Expectation, calls: &[Call], writes: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    let expected: Vec<&str> = FLAGS.into_iter().filter(|flag| flags.contains(flag)).collect();
    let opens: Vec<&Call> =
        calls.iter().filter(|call| call.name == "openat" && names_journal(call)).collect();
    if opens.is_empty() {
        wrong.push("it opened no file of ours".to_owned());
    }
    for flags in opens.iter().map(|open| open.flags(&FLAGS)).filter(|flags| *flags != expected) {
        wrong.push(format!("opened with {flags:?} instead of {expected:?}"));
    }
    for name in COUNTED {
        let of_ours = |call: &&Call| call.name == name && (name == "msync" || names_journal(call));
        let found: Vec<&Call> = calls.iter().filter(of_ours).collect();
        let times = if calls_of_one.contains(&name) { writes } else { 0 };
        // Going to the start or the end of a file that was just opened, or to the start again, is not a write's.
        let most = if name == "lseek" && times == 0 { 2 * opens.len() + writes / 256 + 1 } else { times };
        if found.len() < times || found.len() > most {
            wrong.push(format!("{writes} writes made {} calls of {name}, not {times}", found.len()));
        }
        if name == "msync" && found.iter().any(|call| !call.arguments.contains("MS_SYNC")) {
            wrong.push("msync without MS_SYNC".to_owned());
        }
    }
    wrong
}

#[test]
#[ignore = "needs strace and JDKs; run by `cargo xtask test`"]
fn every_row_of_every_jdk_makes_exactly_its_calls() {
    let (folder, aside) = (folder(), folder());
    let path = aside.path().join("trace");
    let wrapper = ["strace", "-f", "-y", "-s", "40", "-e", TRACE, "-o", path.to_str().expect("UTF-8"), "--"];
    let result = Bench::scenario("path", folder.path(), &SMALL).under(&wrapper).run().result();
    assert_eq!(names(folder.path()), Vec::<String>::new());
    let calls = parse(&std::fs::read_to_string(&path).expect("a trace"));
    let mut blocks = blocks(&calls);
    let mut complaints = Vec::new();
    let mut compared = 0;
    for (label, jdk) in jdks() {
        for expected in &EXPECTED {
            let (row, flags, _) = expected;
            for pace in ["closed", "scheduled"] {
                let id = format!("jdk{label}/{row}/{pace}");
                let found = result.study.row(&id).unwrap_or_else(|| panic!("{id} is not in the result"));
                let foreign = row.starts_with("ffm-");
                let measured = match &found.outcome {
                    Outcome::NotAvailable { reason } if foreign && jdk.major < FOREIGN => {
                        assert!(reason.contains("needs JDK 22"), "{id}: {reason}");
                        continue;
                    }
                    Outcome::NotAvailable { reason } if flags.contains(&"O_DIRECT") => {
                        skipped(format_args!("{id}: {reason}"));
                        continue;
                    }
                    Outcome::Measured(measured) => measured,
                    other => panic!("{id}: {other:?}"),
                };
                let writes = measured.latency("write").expect("kept").count();
                let writes = usize::try_from(writes).expect("few");
                let order = format!("{row}/{pace}");
                // Of several JVMs that ran the same row, the block with as few complaints as there can be is this one's.
                let fits: Vec<(usize, Vec<String>)> = blocks
                    .iter()
                    .enumerate()
                    .filter(|(_, (_, printed, _))| *printed == order)
                    .map(|(at, (.., calls))| (at, wrong(expected, calls, writes)))
                    .collect();
                match fits.into_iter().min_by_key(|(_, wrong)| wrong.len()) {
                    Some((at, wrong)) => {
                        blocks.remove(at);
                        complaints.extend(wrong.into_iter().map(|wrong| format!("{id}: {wrong}")));
                        compared += 1;
                    }
                    None => complaints.push(format!("{id}: no block of it is in the trace")),
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(compared >= 2 * 14, "only {compared} blocks were compared");
}

#[test]
fn every_row_of_the_table_has_an_expectation_in_table_order() {
    assert_eq!(WAYS.map(|way| way.id), EXPECTED.map(|(row, ..)| row));
}
