//! Tests that no command panics where nothing can be written: standard output, standard error, or both on a full disk.
//!
//! Invariants: every command of `--help` has a row; what cannot be told to people changes no exit code; what was asked for
//! and cannot be printed is a failure.

use crate::{SEAWALL, err, printed};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A command line, and whether it prints something to standard output.
#[rustfmt::skip]
const ROWS: &[(&[&str], bool)] = &[
    (&["--help"], true),
    (&["--version"], true),
    (&["no-such-command"], false),
    (&["bench", "--help"], true),
    (&["bench", "--list"], true),
    (&["bench", ".", "--dry-run"], true),
    (&["bench", ".", "--time", "1", "--methods", "buffered,dsync", "--journal", "1M", "--no-out", "--settle", "0", "--allow-memory"], true),
    (&["bench", ".", "--transactions", "4", "--methods", "dsync", "--journal", "1M", "--out", "kept", "--allow-memory", "--require", "p99<1s"], true),
    (&["bench", "nothing"], false),
    (&["advise", "nothing"], false),
    (&["advise", "--time", "1", "--only", "sqlite", "--settle", "0", "--allow-memory"], true),
    (&["compare", "--list"], true),
    (&["compare", "nothing", "nothing"], false),
    (&["methods"], true),
    (&["methods", "--json"], true),
    (&["crash-test", "nothing", "--run", "true", "--check", "true"], false),
    (&["powercut", "check", "nowhere", "--witness-command", "false"], false),
    (&["probe"], true),
    (&["trace", "--", "nothing"], false),
    (&["watch", "--time", "1s", "--every", "1s", "--allow-memory"], true),
    (&["watch", "--time", "1s", "--every", "1s", "--allow-memory", "--listen", "127.0.0.1:0"], false),
    (&["completions", "bash"], true),
    (&["man"], true),
    (&["report", "nothing"], false),
    (&["log", "stat", "orders"], true),
    (&["log", "cat", "orders"], true),
    (&["log", "verify", "orders"], true),
    (&["log", "verify", "nothing"], false),
    (&["log", "ship", "orders", "--to", "folder:archive", "--once"], false),
    (&["log", "drill", "--from", "folder:archive"], false),
    (&["log", "rebuild", "rebuilt", "--from", "folder:archive", "--copy"], false),
    (&["log", "standby", "standby", "--from", "folder:archive", "--once"], false),
    (&["log", "takeover", "nothing", "--from", "folder:archive"], false),
    (&["log", "status", "orders"], true),
    (&["log", "compact", "--at", "folder:archive"], false),
    (&["log", "retain", "--at", "folder:archive", "--keep-days", "30"], false),
    (&["log", "backup", "orders", "copy"], false),
    (&["log", "salvage", "orders", "saved"], true),
    (&["log", "trim", "orders", "0"], true),
    (&["log", "append", "orders"], false),
    (&["log", "follow", "nothing"], false),
];

fn run(folder: &Path, words: &[&str], full: [bool; 2]) -> Child {
    let sink = |full: bool| {
        if full {
            Stdio::from(OpenOptions::new().write(true).open("/dev/full").expect("opens"))
        } else {
            Stdio::piped()
        }
    };
    let mut command = Command::new(SEAWALL);
    command.args(words).current_dir(folder).stdin(Stdio::null()).stdout(sink(full[0])).stderr(sink(full[1]));
    command.spawn().expect("started")
}

fn commands(folder: &Path, of: &[&str]) -> BTreeSet<String> {
    let help = printed(&crate::seawall(folder, &[of, &["--help"]].concat()));
    let list = help.split("Commands:\n").nth(1).expect("it lists commands");
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    lines
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// Runs every row with these outputs full, in a folder of its own with a log.
fn run_rows(full: [bool; 2]) {
    let folder = crate::folder();
    let at = folder.path();
    std::fs::write(at.join("records"), "one\ntwo\n").expect("written");
    let append = format!("'{SEAWALL}' log append orders < records");
    printed(&Command::new("sh").args(["-c", &append]).current_dir(at).output().expect("started"));
    for (words, prints) in ROWS {
        let ended = run(at, words, full).wait_with_output().expect("ends");
        let code = ended.status.code();
        let said = err(&ended);
        assert!(
            code.is_some_and(|code| code != 101) && !said.contains("panicked"),
            "{words:?} {full:?}: {code:?} {said}"
        );
        if *prints && full[0] {
            assert_eq!(code, Some(1), "{words:?} {full:?}: what was asked for was not printed: {said}");
            let named = full[1] || said.contains("cannot write to standard output");
            assert!(named, "{words:?}: {said}");
        }
    }
}

#[test]
fn no_command_panics_on_full_outputs() {
    // Side by side, because some rows take a second.
    std::thread::scope(|scope| {
        for full in [[true, false], [false, true], [true, true]] {
            scope.spawn(move || run_rows(full));
        }
    });
}

#[test]
fn every_command_has_a_row() {
    let folder = crate::folder();
    for of in [&[][..], &["log"]] {
        for name in commands(folder.path(), of) {
            let tried = ROWS
                .iter()
                .any(|(words, _)| words.get(of.len()) == Some(&name.as_str()) && words.starts_with(of));
            assert!(tried || name == "help", "{of:?} {name} has no row");
        }
    }
}
