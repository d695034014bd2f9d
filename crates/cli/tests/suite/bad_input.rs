//! Tests that every bad input and hostile situation ends with its message and its exit code, and leaves nothing behind.
//!
//! Invariants: cases are rows of [`rows`]; before and after a row the folder holds the same names with the same bytes; no
//! row waits longer than the limit, panics, or prints what is not an error.

mod rows;

use crate::{SEAWALL, committed};
use rows::{Around, ROWS, Row};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// No refusal takes longer, whatever else the machine does.
const LIMIT: Duration = Duration::from_mins(1);

/// A folder with results, files that are none, and names that lead nowhere.
fn folder() -> tempfile::TempDir {
    let folder = crate::folder();
    let at = |name: &str| folder.path().join(name);
    for name in ["stall", "cached", "commit", "published"] {
        std::fs::copy(committed(name), at(&format!("{name}.json"))).expect("copied");
    }
    let stall = std::fs::read_to_string(at("stall.json")).expect("readable");
    for (name, text) in [
        ("broken.json", "{ \"format\": "),
        ("foreign.json", "{ \"format\": \"someone-else's\" }"),
        ("empty.json", ""),
        ("read.fio", "[a]\nrw=randread\n"),
        ("think.fio", "[a]\nrw=write\nthinktime=5\n"),
        ("two.fio", "[a]\nrw=write\nbs=4k\n[b]\nrw=write\nbs=8k\n"),
        ("back.trace", "5 4k\n1 4k\n"),
        ("nan.trace", "NaN 4k\n"),
        ("cut.json", &stall[..stall.len() / 2]),
        ("newer.json", &stall.replacen("\"version\": 3", "\"version\": 9999", 1)),
    ] {
        std::fs::write(at(name), text).expect("written");
    }
    std::fs::create_dir(at("folder.json")).expect("made");
    for (link, to) in [("dangling", "no-such"), ("loop", "loop")] {
        std::os::unix::fs::symlink(to, at(link)).expect("linked");
    }
    assert!(Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo starts").success());
    UnixListener::bind(at("socket")).expect("bound");
    folder
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        let name = path.display().to_string();
        if kind.is_dir() {
            found.extend(contents(&path));
        }
        let is_special = kind.is_fifo() || kind.is_socket() || kind.is_symlink() || kind.is_dir();
        found.insert(name, if is_special { Vec::new() } else { std::fs::read(&path).expect("readable") });
    }
    found
}

fn start(folder: &Path, around: Around, words: &[&str]) -> Child {
    let mut command = match around {
        Around::Nothing | Around::FullOutput => Command::new(SEAWALL),
        Around::Shell(before) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{before}; exec \"$0\" \"$@\""), SEAWALL]);
            shell
        }
    };
    let full = || File::options().write(true).open("/dev/full").expect("Linux has one");
    command
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(if matches!(around, Around::FullOutput) { full().into() } else { Stdio::piped() })
        .stderr(Stdio::piped())
        .spawn()
        .expect("started")
}

fn wrong(folder: &Path, before: &BTreeMap<String, Vec<u8>>, row: &Row) -> Option<String> {
    let (_, around, words, code, says) = row;
    let child = start(folder, *around, words);
    let id = child.id().to_string();
    let (ended, waiting) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if waiting.recv_timeout(LIMIT).is_err() {
            Command::new("kill").args(["-9", &id]).status().expect("kill starts");
        }
    });
    let output = child.wait_with_output().expect("ended");
    ended.send(()).ok();
    watch.join().expect("the watch ends");
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(*code) {
        return Some(format!("ended with {:?} instead of {code}: {said}", output.status));
    }
    if let Some(word) = says.iter().find(|word| !said.contains(**word)) {
        return Some(format!("does not say {word:?}: {said}"));
    }
    if said.contains("panicked") || said.contains("RUST_BACKTRACE") {
        return Some(format!("panicked: {said}"));
    }
    if !output.stdout.is_empty() {
        return Some(format!("printed {:?}", String::from_utf8_lossy(&output.stdout)));
    }
    let after = contents(folder);
    let changed: Vec<&String> =
        after.keys().chain(before.keys()).filter(|name| after.get(*name) != before.get(*name)).collect();
    (!changed.is_empty()).then(|| format!("left or changed {changed:?}"))
}

#[test]
fn bad_input_ends_with_its_message_and_exit_code_and_leaves_nothing() {
    assert!(ROWS.len() >= 100, "{} rows", ROWS.len());
    let folder = folder();
    let before = contents(folder.path());
    let failed: Vec<String> = ROWS
        .iter()
        .filter_map(|row| Some(format!("{} ({:?}): {}", row.0, row.2, wrong(folder.path(), &before, row)?)))
        .collect();
    assert!(failed.is_empty(), "{} of {} rows:\n{}", failed.len(), ROWS.len(), failed.join("\n"));
}

#[test]
fn rows_are_unique() {
    let mut names: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "two rows of one name");
    let mut lines: Vec<String> = ROWS.iter().map(|row| format!("{:?} {:?}", row.1, row.2)).collect();
    lines.sort_unstable();
    let (all, ()) = (lines.len(), lines.dedup());
    assert_eq!(lines.len(), all, "two rows of one command line");
}
