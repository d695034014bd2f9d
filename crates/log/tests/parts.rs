//! Tests which threads and files an open log has, and that what most programs never use adds none before it is used.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::Path;
use std::task::{Context, Waker};
use std::time::Duration;

use seawall::{Durability, Follower, Log, Lsn, Options, StreamId};

/// The log's threads, by their names.
fn threads() -> BTreeSet<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("lists").flatten();
    // One that ends meanwhile has no name any more.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("seawall-")).collect()
}

/// The files of the log other than its segments, whose names are numbers.
fn files(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).expect("lists").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('0')).collect()
}

/// One use of a log, which may leave followers that live on, and what it adds to the log: threads, files.
type Part = (&'static str, fn(&Log, &mut Vec<Follower>), &'static [&'static str], &'static [&'static str]);

const PARTS: [Part; 4] = [
    ("append, commit, read", used, &[], &[]),
    ("a commit that outlives the process only", commit_weakly, &[], &["MEMORY"]),
    ("a stream", append_to_stream, &["seawall-rewrite"], &[]),
    ("a follower that is polled", poll, &["seawall-follow"], &[]),
];

fn used(log: &Log, _: &mut Vec<Follower>) {
    let at = log.append_commit(b"two").expect("commits");
    assert_eq!(&*log.read_at(at.start).expect("reads").payload, b"two");
    assert_eq!(log.read(Lsn::ZERO).expect("reads").count(), 2);
}

fn commit_weakly(log: &Log, _: &mut Vec<Follower>) {
    let at = log.append(b"two").expect("appends");
    log.commit_as(at.end, Durability::ProcessCrash).expect("commits");
}

fn append_to_stream(log: &Log, _: &mut Vec<Follower>) {
    log.stream(StreamId::new(1).expect("is one")).append(b"two").expect("appends");
}

fn poll(log: &Log, followers: &mut Vec<Follower>) {
    let mut follower = log.follow(Lsn::ZERO).expect("follows");
    let _ = follower.poll_next_record(&mut Context::from_waker(Waker::noop()));
    followers.push(follower);
}

fn names(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

/// The log has these threads and files. A thread has its name, and one that ended is gone, a moment later.
fn has(dir: &Path, expected: &(BTreeSet<String>, BTreeSet<String>), part: &str) {
    for _ in 0..500 {
        if threads() == expected.0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((threads(), files(dir)), *expected, "{part}");
}

// One test: the threads are those of the whole process.
#[test]
fn a_log_has_two_threads_and_two_files_besides_segments_until_more_is_used() {
    let made = tempfile::tempdir().expect("a directory");
    for (part, act, threads_added, files_added) in PARTS {
        let dir = made.path().join(part.replace([' ', ','], "-"));
        let log = Log::open(&dir, Options::default()).expect("opens");
        log.append_commit(b"one").expect("commits");
        let own = (names(&["seawall-segment", "seawall-writer"]), names(&["LOCK", "METHOD"]));
        has(&dir, &own, "before it is used");
        let mut followers = Vec::new();
        act(&log, &mut followers);
        has(&dir, &(&own.0 | &names(threads_added), &own.1 | &names(files_added)), part);
        log.close().expect("closes");
    }
    let watched = Options::default().stall_threshold(Duration::from_mins(1));
    let log = Log::open(made.path().join("watched"), watched).expect("opens");
    let watched = names(&["seawall-segment", "seawall-watch", "seawall-writer"]);
    has(log.dir(), &(watched, names(&["LOCK", "METHOD"])), "a threshold for stalls");
}
