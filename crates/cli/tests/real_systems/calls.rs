//! Tests with strace that each method makes exactly the system calls of its row, in order.
//!
//! The expectations are written down here by hand, from the man pages, and not computed from the rows: a row whose
//! calls change must be changed here too. Of a ring, strace shows only the number of requests; [`super::evidence`]
//! tests their effect.

mod beyond;

use crate::ground::folder;
use crate::program::{Bench, row};
use crate::trace::{Call, TRACED, blocks, parse};
use seawall_gauge::row::Outcome;
use seawall_sys::methods;

pub(crate) const COMMITS: usize = 24;

/// A row, the flags of its opens that matter, one entry an open, the calls before the first commit, and those of each commit.
type Expectation =
    (&'static str, &'static [&'static [&'static str]], &'static [&'static str], &'static [&'static str]);

const PLAIN: &[&[&str]] = &[&[]];
const DSYNC: &[&[&str]] = &[&["O_DSYNC"]];
const DIRECT_DSYNC: &[&[&str]] = &[&["O_DSYNC", "O_DIRECT"]];
const DIRECT: &[&[&str]] = &[&["O_DIRECT"]];
const RING: &[&str] = &["io_uring_setup"];
const FIXED: &[&str] = &[
    "io_uring_setup",
    "io_uring_register IORING_REGISTER_BUFFERS",
    "io_uring_register IORING_REGISTER_FILES",
    "io_uring_register IORING_REGISTER_FILES_UPDATE",
];
const FIXED_SQPOLL: &[&str] = &["io_uring_setup IORING_SETUP_SQPOLL", FIXED[1], FIXED[2], FIXED[3]];
const FIXED_IOPOLL: &[&str] = &["io_uring_setup IORING_SETUP_IOPOLL", FIXED[1], FIXED[2], FIXED[3]];
/// One request submitted and waited for; two.
const ENTER: &str = "io_uring_enter 1 1";
const ENTER_TWO: &str = "io_uring_enter 2 2";

#[rustfmt::skip]
const EXPECTED: [Expectation; 30] = [
    ("buffered",                 PLAIN,          &[],          &["pwrite64"]),
    ("buffered+fsync",           PLAIN,          &[],          &["pwrite64", "fsync"]),
    ("buffered+fdatasync",       PLAIN,          &[],          &["pwrite64", "fdatasync"]),
    ("dsync",                    DSYNC,          &[],          &["pwrite64"]),
    ("direct",                   DIRECT,         &[],          &["pwrite64"]),
    ("direct+dsync",             DIRECT_DSYNC,   &[],          &["pwrite64"]),
    ("buffered+syncfs",          PLAIN,          &[],          &["pwrite64", "syncfs"]),
    ("sync",                     &[&["O_SYNC"]], &[],          &["pwrite64"]),
    ("rwf-dsync",                PLAIN,          &[],          &["pwritev2 RWF_DSYNC"]),
    ("rwf-sync",                 PLAIN,          &[],          &["pwritev2 RWF_SYNC"]),
    ("direct+sync",              &[&["O_SYNC", "O_DIRECT"]], &[], &["pwrite64"]),
    ("direct+fdatasync",         DIRECT,         &[],          &["pwrite64", "fdatasync"]),
    ("direct+fsync",             DIRECT,         &[],          &["pwrite64", "fsync"]),
    ("direct+rwf-dsync",         DIRECT,         &[],          &["pwritev2 RWF_DSYNC"]),
    ("sync-file-range",          PLAIN,          &[],          &["pwrite64", "sync_file_range SYNC_FILE_RANGE_WAIT_BEFORE|SYNC_FILE_RANGE_WRITE|SYNC_FILE_RANGE_WAIT_AFTER"]),
    ("dontcache",                PLAIN,          &[],          &["pwritev2 RWF_DONTCACHE"]),
    ("dontcache+fdatasync",      PLAIN,          &[],          &["pwritev2 RWF_DONTCACHE", "fdatasync"]),
    ("atomic+dsync",             DIRECT_DSYNC,   &[],          &["pwritev2 RWF_ATOMIC"]),
    ("mmap+msync",               PLAIN,          &["mmap MAP_SHARED"], &["msync MS_SYNC"]),
    ("fdatasync-other-thread",   PLAIN,          &[],          &["pwrite64", "fdatasync, another descriptor, another thread"]),
    ("fdatasync-other-fd",       &[&[], &[]],    &[],          &["pwrite64", "fdatasync, another descriptor"]),
    ("uring+fdatasync",          PLAIN,          RING,         &[ENTER, ENTER]),
    ("uring-linked",             PLAIN,          RING,         &[ENTER_TWO]),
    ("uring-rwf-dsync",          PLAIN,          RING,         &[ENTER]),
    ("uring-direct+fdatasync",   DIRECT,         FIXED,        &[ENTER, ENTER]),
    ("uring-direct-linked",      DIRECT,         FIXED,        &[ENTER_TWO]),
    ("uring-direct-rwf-dsync",   DIRECT,         RING,         &[ENTER]),
    ("uring-direct-fixed-dsync", DIRECT,         FIXED,        &[ENTER]),
    ("uring-direct-sqpoll",      DIRECT,         FIXED_SQPOLL, &["io_uring_enter"]),
    ("uring-direct-iopoll",      DIRECT,         FIXED_IOPOLL, &[ENTER]),
];

#[test]
fn every_row_of_linux_has_an_expectation_in_table_order() {
    let rows: Vec<&str> = methods::here().iter().map(|method| method.id).collect();
    assert_eq!(rows, EXPECTED.map(|(id, ..)| id));
}

#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn every_method_makes_exactly_the_calls_of_its_row() {
    trace_commits_of(1);
}

#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn a_commit_of_two_writes_makes_each_and_syncs_both_at_once_behind_them() {
    trace_commits_of(2);
}

fn trace_commits_of(writes: usize) {
    let folder = folder();
    let trace = folder.path().join("trace");
    let commits = COMMITS.to_string();
    let per_commit = writes.to_string();
    let arguments =
        ["--all", "--journal", "1MiB", "--transactions", &commits, "--rounds", "1", "--writes", &per_commit];
    let wrapper = ["strace", "-f", "-y", "-s", "0", "-e", TRACED, "-e", "signal=none", "-o"];
    let wrapper = [&wrapper[..], &[trace.to_str().expect("UTF-8")]].concat();
    let result = Bench::new(folder.path(), &arguments).under(&wrapper).run().result();
    let calls = parse(&std::fs::read_to_string(&trace).expect("the trace"));
    let blocks = blocks(&calls);
    assert_eq!(blocks.len(), result.order[0].len(), "one block a method that runs");
    for (block, index) in blocks.iter().zip(&result.order[0]) {
        compare(&result.study.rows[*index].id, writes, block);
    }
    for (id, ..) in EXPECTED {
        match &row(&result, id).outcome {
            Outcome::Measured(measured) => assert_eq!(measured.commits, COMMITS as u64, "{id}"),
            Outcome::NotAvailable { reason } => println!("{id}: n/a: {reason}"),
            Outcome::Failed { error, .. } => panic!("{id}: {error}"),
        }
    }
    let ran = blocks.len();
    assert!(ran >= 20, "only {ran} methods ran: these need nothing special");
}

/// Compares the calls of a block of commits of this many writes with what the row `id` must make.
pub(crate) fn compare(id: &str, writes: usize, block: &[Call]) {
    let (_, expected_opens, prepares, commit) =
        EXPECTED.into_iter().find(|(expected, ..)| *expected == id).expect(id);
    // The write is repeated, the sync is not; copies into a mapping make no call.
    let (write, sync) = commit.split_at(usize::from(!commit[0].starts_with("msync")));
    let commit = [&write.repeat(writes), sync].concat();
    let (opens, rest): (Vec<&Call>, Vec<&Call>) = block.iter().partition(|call| call.name == "openat");
    let flags: Vec<_> = opens.iter().map(|call| call.flags(&["O_DSYNC", "O_SYNC", "O_DIRECT"])).collect();
    assert_eq!(flags, expected_opens, "{id} opened the journal by other flags");
    let polled = rest.iter().any(|call| call.arguments.contains("IORING_SETUP_SQPOLL"));
    // A ring that is polled for completions may be asked again before there is one.
    let asks_again = |call: &&&Call| {
        prepares == FIXED_IOPOLL && call.name == "io_uring_enter" && call.arguments.contains(", 0, 1, ")
    };
    let once = rest.iter().filter(|call| !asks_again(call));
    let words: Vec<String> = once.map(|call| in_words(call, &opens, rest[0].thread, polled)).collect();
    let (first, commits) = words.split_at(prepares.len().min(words.len()));
    assert_eq!(first, prepares, "{id} prepared in another way");
    for (index, calls) in commits.chunks(commit.len()).enumerate() {
        assert_eq!(calls, commit, "{id}, commit {index}");
    }
    assert_eq!(commits.len(), COMMITS * commit.len(), "{id} made more or fewer commits");
    for call in rest.iter().filter(|call| call.name.starts_with("pwrite")) {
        assert_eq!(call.result, "16384", "{id}: {call:?}");
    }
    let all_writes = format!(", {}, ", 16_384 * writes);
    for call in rest.iter().filter(|call| ["msync", "sync_file_range"].contains(&call.name.as_str())) {
        assert!(call.arguments.contains(&all_writes), "{id} syncs another range: {call:?}");
    }
}

/// The call as the expectations spell it.
fn in_words(call: &Call, opens: &[&Call], writer: u32, polled: bool) -> String {
    let with_flags = |known: &[&'static str]| {
        let flags = call.flags(known);
        if flags.is_empty() { call.name.clone() } else { format!("{} {}", call.name, flags.join("|")) }
    };
    match call.name.as_str() {
        // Older straces print the newest flags as bits.
        "pwritev2" if call.arguments.contains("0x80") => "pwritev2 RWF_DONTCACHE".to_owned(),
        "pwritev2" if call.arguments.contains("0x40") => "pwritev2 RWF_ATOMIC".to_owned(),
        "pwritev2" => with_flags(&["RWF_DSYNC", "RWF_SYNC", "RWF_DONTCACHE", "RWF_ATOMIC"]),
        "sync_file_range" => with_flags(&[
            "SYNC_FILE_RANGE_WAIT_BEFORE",
            "SYNC_FILE_RANGE_WRITE",
            "SYNC_FILE_RANGE_WAIT_AFTER",
        ]),
        "msync" => with_flags(&["MS_SYNC", "MS_ASYNC"]),
        "mmap" => with_flags(&["MAP_SHARED", "MAP_PRIVATE"]),
        "io_uring_setup" => with_flags(&["IORING_SETUP_SQPOLL", "IORING_SETUP_IOPOLL"]),
        "io_uring_register" => {
            with_flags(&["IORING_REGISTER_BUFFERS", "IORING_REGISTER_FILES", "IORING_REGISTER_FILES_UPDATE"])
        }
        // Who polls submissions may have taken the request before the program asks to wait.
        "io_uring_enter" if polled => call.name.clone(),
        "io_uring_enter" => {
            let figures: Vec<&str> = call.arguments.split(", ").skip(1).take(2).collect();
            format!("{} {}", call.name, figures.join(" "))
        }
        "fdatasync" | "fsync" | "syncfs" => {
            let first = opens.first().and_then(|open| open.descriptor());
            let descriptor = if call.descriptor() == first { "" } else { ", another descriptor" };
            let thread = if call.thread == writer { "" } else { ", another thread" };
            format!("{}{descriptor}{thread}", call.name)
        }
        name => name.to_owned(),
    }
}
