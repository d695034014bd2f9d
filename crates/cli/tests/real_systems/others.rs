//! Tests what a user may do with the files of another one, as a user without rights.

use crate::path_table::{Ended, PathKind, Runner, try_all};
use crate::program::Appender;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// By convention a user who owns nothing.
const NOBODY: u32 = 65534;

/// A folder that everybody may write to, below the temporary one: the build tree may not be open to others.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    set_mode(folder.path(), 0o777);
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

fn program(folder: &Path) -> std::path::PathBuf {
    let copy = folder.join("seawall");
    fs::copy(crate::program::SEAWALL, &copy).expect("copied");
    set_mode(&copy, 0o755);
    copy
}

#[test]
#[ignore = "needs root to give up its rights; run by `cargo xtask test`"]
fn what_a_user_may_not_open_is_named_by_every_command_and_nothing_changes() {
    let public = open_folder();
    let program = program(public.path());
    let runner = Runner { program: &program, user: Some(NOBODY) };
    try_all(&runner, |kind| kind == PathKind::Unreadable, &open_folder);
}

#[test]
#[ignore = "needs root to give up its rights; run by `cargo xtask test`"]
fn a_log_of_another_user_is_refused_by_name_or_shown_as_far_as_it_may_be_read() {
    let place = open_folder();
    let program = program(place.path());
    let log = place.path().join("log");
    let append = || {
        let words = ["log", "append", "log"];
        let mut appender = Appender::start(Command::new(&program).args(words).current_dir(place.path()));
        assert!(appender.put("one") && appender.end().0 == Some(0));
    };
    append();
    let runner = Runner { program: &program, user: Some(NOBODY) };
    let run = |words: &[&str]| -> Ended {
        let words = ["log"].iter().chain(words).map(|word| (*word).to_owned());
        runner.run(place.path(), &words.collect::<Vec<_>>())
    };
    let all: [&[&str]; 7] = [
        &["stat", "log"],
        &["cat", "log"],
        &["follow", "log"],
        &["verify", "log"],
        &["append", "log"],
        &["trim", "log", "0"],
        &["salvage", "log", "saved"],
    ];
    for words in all {
        let ended = run(words);
        assert_eq!(ended.code, Some(1), "{words:?}: {}", ended.said);
        assert!(ended.said.contains("log") && ended.said.contains("ermission"), "{words:?}: {}", ended.said);
    }
    assert!(!place.path().join("saved").exists());
    // Its owner lets others read, but not the lock.
    set_mode(&log, 0o755);
    for entry in fs::read_dir(&log).expect("reads") {
        set_mode(&entry.expect("reads").path(), 0o644);
    }
    set_mode(&log.join("LOCK"), 0o600);
    let stat = run(&["stat", "log"]);
    assert!(stat.code == Some(0) && stat.said.contains("writer       unknown"), "{}", stat.said);
    let cat = run(&["cat", "log"]);
    assert_eq!((cat.code, cat.said.as_str()), (Some(0), "one\n"));
    for words in [&["append", "log"][..], &["trim", "log", "0"]] {
        let ended = run(words);
        assert!(ended.code == Some(1) && ended.said.contains("LOCK"), "{words:?}: {}", ended.said);
    }
    set_mode(&log.join("LOCK"), 0o644);
    let stat = run(&["stat", "log"]);
    assert!(stat.code == Some(0) && stat.said.contains("writer       none"), "{}", stat.said);
    append();
    assert_eq!(run(&["cat", "log"]).said, "one\none\n", "its owner goes on");
}

#[test]
#[ignore = "needs root to give a folder away; run by `cargo xtask test`"]
fn root_keeps_no_results_where_another_user_could_replace_them_and_follows_no_link_of_theirs() {
    let place = open_folder();
    let at = |name: &str| place.path().join(name);
    for name in ["bob", "secret"] {
        fs::create_dir(at(name)).expect("made");
    }
    fs::write(at("secret").join("x.json"), "precious").expect("written");
    for (link, to) in [("x.json", "secret/x.json"), ("folder", "secret")] {
        std::os::unix::fs::symlink(at(to), at("bob").join(link)).expect("linked");
    }
    std::os::unix::fs::chown(at("bob"), Some(NOBODY), Some(NOBODY)).expect("given away");
    let run = |more: &[&str]| {
        let arguments = ["bench", "..", "--no-progress", "--allow-memory", "--methods", "buffered"];
        let mut command = Command::new(crate::program::SEAWALL);
        command.args(arguments).args(crate::program::SMALL);
        crate::program::ran(command.args(more).current_dir(at("bob")))
    };
    for more in [
        &["--out", "."][..],
        &["--out", "folder"],
        &["--no-out", "--json", "x.json"],
        &["--no-out", "--csv", "folder/x.json"],
    ] {
        let (code, printed) = run(more);
        assert!(code == Some(1) && printed.contains(more[more.len() - 1]), "{more:?}: {printed}");
        assert!(
            printed.contains("another user") || printed.contains("belongs to user 65534"),
            "{more:?}: {printed}"
        );
    }
    assert_eq!(crate::program::names(&at("secret")), ["x.json"]);
    assert_eq!(fs::read(at("secret").join("x.json")).expect("read"), b"precious");
    assert_eq!(crate::program::names(&at("bob")), ["folder", "x.json"]);
    // A new folder is root's own, wherever it is.
    let (code, printed) = run(&[]);
    assert_eq!(code, Some(0), "{printed}");
    assert_eq!(crate::program::names(&at("bob").join("seawall-results")).len(), 1, "{printed}");
}
