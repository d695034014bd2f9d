//! Tests that a failing system call never leads to a false acknowledgement by the log.
//!
//! `seawall log append` writes records one by one under strace, which makes the n-th call of one kind fail without
//! the kernel's doing anything, for each n at which the log's own files are concerned. In every case the acknowledged
//! records are there afterwards, the recovered records are a prefix of the written ones, and the program continues or
//! ends with an error that names the call's error. A call that was merely interrupted (`EINTR`), of an opening or on the way of a
//! record to the disk, is repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::ground::{Ground, Loop, Mount, folder, must, text};
use crate::program::{Appender, SEAWALL};
use crate::trace::parse;

const RECORDS: usize = 6;
/// Of the calls of one kind this many are made to fail, spread over all of them.
const PLACES_MAX: usize = 4;
const ERRORS: [(&str, &str); 3] = [("EINTR", "os error 4"), ("EIO", "os error 5"), ("ENOSPC", "os error 28")];

/// The kinds of calls: each is made again when it was merely interrupted.
const CALLS: [&str; 23] = [
    "openat",
    "getdents64",
    "statx",
    "mkdir",
    "mkdirat",
    "newfstatat",
    "fstat",
    "fstatfs",
    "statfs",
    "fcntl",
    "ioctl",
    "flock",
    "renameat2",
    "unlinkat",
    "fallocate",
    "pread64",
    "pwrite64",
    "pwritev2",
    "fdatasync",
    "fsync",
    "io_uring_setup",
    "io_uring_register",
    "io_uring_enter",
];
struct Appended {
    acknowledged: usize,
    code: Option<i32>,
    stderr: String,
    trace: String,
}

fn record(number: usize) -> String {
    format!("record {number}")
}

/// Appends records one after the other, each when the one before is acknowledged.
fn append(log: &Path, (method, engine): (&str, &str), only: &str, inject: Option<&str>) -> Appended {
    let aside = folder();
    let trace = aside.path().join("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "0", "-e", "signal=none", "-o"]).arg(&trace);
    command.args(["-e", &format!("trace={only}")]);
    if let Some(inject) = inject {
        command.args(["-e", &format!("inject={inject}")]);
    }
    command.args([SEAWALL, "log", "append"]).arg(log).args(["--method", method, "--engine", engine]);
    let mut appender = Appender::start(&mut command);
    let acknowledged = (0..RECORDS).take_while(|number| appender.put(&record(*number))).count();
    let (code, stderr) = appender.end();
    let trace = std::fs::read_to_string(&trace).expect("the trace");
    Appended { acknowledged, code, stderr, trace }
}

/// For each call the numbers, counted in each thread, at which the log's files or its ring are concerned.
fn places(log: &Path, way: (&str, &str)) -> BTreeMap<String, BTreeSet<usize>> {
    let all = CALLS.join(",");
    let healthy = append(log, way, &all, None);
    assert_eq!((healthy.code, healthy.acknowledged), (Some(0), RECORDS), "{}", healthy.stderr);
    let (mut counts, mut places) = (BTreeMap::new(), BTreeMap::<String, BTreeSet<usize>>::new());
    let dir = log.to_str().expect("is text");
    for call in parse(&healthy.trace) {
        let count: &mut usize = counts.entry((call.thread, call.name.clone())).or_default();
        *count += 1;
        if call.arguments.contains(dir) || call.name.starts_with("io_uring") {
            places.entry(call.name).or_default().insert(*count);
        }
    }
    places
}

/// What is in the log now; nothing if there is none yet.
fn recovered(log: &Path) -> Vec<String> {
    let output = Command::new(SEAWALL).args(["log", "cat"]).arg(log).output().expect("runs");
    let printed = String::from_utf8_lossy(&output.stderr);
    let none = printed.contains("holds no log") || printed.contains("No such file");
    assert!(output.status.success() || none, "{printed}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// So often a call may stay away before that is held against the test.
const TRIES: u32 = 6;

/// Makes one call fail and judges what came of it.
fn judge(call: &str, way: (&str, &str), (errno, words): (&str, &str), place: usize) {
    let fault = format!("{call}:error={errno}:when={place}");
    let what = format!("{} by {}, {fault}", way.0, way.1);
    // Which thread makes a call, and so its number in that thread, may differ from one run to the next.
    let mut tries = (0..TRIES).map(|_| {
        let folder = folder();
        let log = folder.path().join("log");
        let ended = append(&log, way, call, Some(&fault));
        (folder, log, ended)
    });
    let came = tries.find(|(_, _, ended)| ended.trace.contains("INJECTED"));
    let (_folder, log, ended) = came.unwrap_or_else(|| panic!("{what}: the call did not come"));
    let issued: Vec<String> = (0..RECORDS).map(record).collect();
    let found = recovered(&log);
    assert!(issued.starts_with(&found), "{what}: {found:?}");
    assert!(found.len() >= ended.acknowledged, "{what}: {} acknowledged, {found:?}", ended.acknowledged);
    match ended.code {
        Some(0) => assert_eq!(found.len(), RECORDS, "{what}"),
        Some(1) => assert!(ended.stderr.contains(words), "{what}: {}", ended.stderr),
        other => panic!("{what}: {other:?}: {}", ended.stderr),
    }
    if errno == "EINTR" {
        assert_eq!(ended.code, Some(0), "{what}: {}", ended.stderr);
    }
}

fn every_call_fails_by(method: &str, engine: &str, expected: &[&str]) {
    let base = folder();
    let [places, again] = ["log", "again"].map(|name| places(&base.path().join(name), (method, engine)));
    // What both runs made.
    let common = |(call, numbers): (String, BTreeSet<usize>)| {
        let numbers = &numbers & again.get(&call)?;
        (!numbers.is_empty()).then_some((call, numbers))
    };
    let places: BTreeMap<String, BTreeSet<usize>> = places.into_iter().filter_map(common).collect();
    for call in expected {
        assert!(places.contains_key(*call), "{method} makes no {call}: {:?}", places.keys());
    }
    for call in CALLS {
        let Some(places) = places.get(call) else { continue };
        let step = places.len().div_ceil(PLACES_MAX);
        for place in places.iter().step_by(step) {
            for error in &ERRORS {
                judge(call, (method, engine), *error, *place);
            }
        }
    }
}

const HOUSEKEEPING: [&str; 4] = ["openat", "fallocate", "renameat2", "fsync"];

#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn a_failed_call_acknowledges_nothing_falsely_by_write_and_sync() {
    let calls = [&HOUSEKEEPING[..], &["pwrite64", "fdatasync"]].concat();
    every_call_fails_by("buffered+fdatasync", "portable", &calls);
}

#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn a_failed_call_acknowledges_nothing_falsely_by_one_synchronous_write() {
    let calls = [&HOUSEKEEPING[..], &["pwritev2"]].concat();
    every_call_fails_by("rwf-dsync", "portable", &calls);
}

#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn a_failed_call_acknowledges_nothing_falsely_by_a_ring() {
    let calls = [&HOUSEKEEPING[..], &["io_uring_setup", "io_uring_register", "io_uring_enter"]].concat();
    every_call_fails_by("uring-direct-linked", "io_uring", &calls);
}

/// Opened again and again: recovery reads past the page cache, which such a disk allows in whole sectors only.
#[test]
#[ignore = "needs root and a loop device; run by `cargo xtask test`"]
fn a_log_on_a_disk_with_sectors_of_4096_bytes_is_opened_again() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for kind in ["ext4", "xfs"] {
        let ground = Ground::with_sectors(place, kind, 512, "defaults", 4096);
        let log = ground.path().join("log");
        for method in ["buffered+fdatasync", "direct+dsync", "uring-direct-linked"] {
            let mut appender =
                Appender::start(Command::new(SEAWALL).args(["log", "append", "--method", method]).arg(&log));
            assert!(appender.put(method) && appender.end().0 == Some(0), "{method} on {kind}");
        }
        assert_eq!(recovered(&log), ["buffered+fdatasync", "direct+dsync", "uring-direct-linked"], "{kind}");
        let verified = Command::new(SEAWALL).args(["log", "verify"]).arg(&log).output().expect("runs");
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    }
}

/// A backup by `cp --reflink` shares the segments' blocks, so that the next write to them allocates: what is acknowledged
/// then must have made that durable too. The power cut is a copy of the image, of which nothing but what the device has is
/// left.
#[test]
#[ignore = "needs root, xfsprogs and btrfs-progs; run by `cargo xtask test --full`"]
fn what_is_acknowledged_beside_clones_of_the_segments_outlives_a_power_cut() {
    let aside = folder();
    for (kind, options) in [("xfs", "nouuid"), ("btrfs", "defaults")] {
        for (method, engine) in [
            ("direct+dsync", "portable"),
            ("rwf-dsync", "portable"),
            ("buffered+fdatasync", "portable"),
            ("uring-direct-linked", "io_uring"),
        ] {
            let what = format!("{method} on {kind}");
            let ground = Ground::new(kind, 512, "defaults");
            let log = ground.path().join("log");
            let words = ["log", "append", "--method", method, "--engine", engine];
            let mut writer = Appender::start(Command::new(SEAWALL).args(words).arg(&log));
            for number in 0..RECORDS {
                let backup = ground.path().join(format!("backup-{number}"));
                if number > 0 {
                    must("mkdir", &[text(&backup)]);
                    if kind == "btrfs" {
                        // As the log's own files: blocks are shared among such files only.
                        must("chattr", &["+C", text(&backup)]);
                    }
                    for file in std::fs::read_dir(&log).expect("a folder") {
                        let file = file.expect("a file").path();
                        if file.extension().is_some_and(|extension| extension == "seg") {
                            must("cp", &["--reflink=always", text(&file), text(&backup)]);
                        }
                    }
                }
                assert!(writer.put(&record(number)), "{what}: {number} is not acknowledged");
            }
            let image = aside.path().join("image");
            must("cp", &["--sparse=always", text(&ground.image()), text(&image)]);
            writer.kill();
            drop(ground);
            let (device, at) = (Loop::attach(&image, 512), aside.path().join("mounted"));
            std::fs::create_dir_all(&at).expect("a mount point");
            let mount = Mount::new(kind, options, &device.path, &at);
            let issued: Vec<String> = (0..RECORDS).map(record).collect();
            assert_eq!(recovered(&at.join("log")), issued, "{what}");
            drop(mount);
        }
    }
}

/// A plain direct write commits no change of the file's layout, which a clone makes every overwrite need.
#[test]
#[ignore = "needs root, xfsprogs and btrfs-progs; run by `cargo xtask test --full`"]
fn a_direct_write_without_a_sync_is_refused_where_blocks_may_be_shared() {
    for kind in ["xfs", "btrfs"] {
        let ground = Ground::new(kind, 512, "defaults");
        let log = ground.path().join("log");
        let refused = Command::new(SEAWALL)
            .args(["log", "append", "--method", "direct"])
            .arg(&log)
            .stdin(Stdio::null())
            .output()
            .expect("runs");
        let printed = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{kind}: {printed}");
        assert!(printed.contains("direct does not outlive power loss"), "{kind}: {printed}");
    }
}

/// What `seawall log cat` tells of `log` when its syncs are answered with `error`.
fn cat(log: &Path, error: Option<&str>) -> (Option<i32>, String, String) {
    let (aside, mut command) = (folder(), Command::new("strace"));
    command.args(["-f", "-e", "signal=none", "-e", "trace=fsync", "-o"]).arg(aside.path().join("trace"));
    if let Some(error) = error {
        command.args(["-e", &format!("inject=fsync:error={error}")]);
    }
    let printed = command.args([SEAWALL, "log", "cat"]).arg(log).output().expect("strace starts");
    let text = |bytes| String::from_utf8(bytes).expect("is text");
    (printed.status.code(), text(printed.stdout), text(printed.stderr))
}

/// Appends all records and is killed as soon as the last one is acknowledged.
fn append_and_die(log: &Path) {
    let words = ["log", "append", "--method", "buffered+fdatasync"];
    let mut writer = Appender::start(Command::new(SEAWALL).args(words).arg(log));
    assert!((0..RECORDS).all(|number| writer.put(&record(number))), "is acknowledged");
    writer.kill();
}

/// A writer that was killed may have left what no disk has seen.
#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn a_reader_syncs_what_a_dead_writer_left_before_it_shows_it() {
    let folder = folder();
    let all: String = (0..RECORDS).map(|number| record(number) + "\n").collect();
    // An idle mark, which names all of it durable, may have come before the end.
    let log = (0..20).map(|attempt| folder.path().join(attempt.to_string())).find(|log| {
        append_and_die(log);
        // Who may not sync sees what is known to be durable.
        let (code, shown, printed) = cat(log, Some("EROFS"));
        assert!(code == Some(0) && all.starts_with(&shown), "{shown}{printed}");
        shown != all
    });
    let log = log.expect("one of them was killed in time");
    let (code, shown, printed) = cat(&log, Some("EIO"));
    assert_eq!((code, shown.as_str()), (Some(1), ""), "{printed}");
    assert!(printed.contains(".seg") && printed.contains("os error 5"), "{printed}");
    assert_eq!(cat(&log, None), (Some(0), all, String::new()));
    // What is known to be durable needs no sync.
    let trimmed = Command::new(SEAWALL).args(["log", "trim"]).arg(&log).arg("0").output().expect("runs");
    assert!(trimmed.status.success(), "it opens and closes the log");
    assert_eq!(cat(&log, Some("EIO")).0, Some(0));
}
