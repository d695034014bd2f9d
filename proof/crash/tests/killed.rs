//! Tests that an interrupted or killed harness leaves nothing behind.
//!
//! The real harness is stopped while it has a file system mounted on a loop device over its own file system: after
//! SIGINT it removes everything itself, after SIGKILL the kernel does, except the directory, which the next run
//! removes.
#![cfg(target_os = "linux")]

use seawall_sys::skip::skipped;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Generous, because the machine may be busy with something else.
const TRIES: u32 = 3000;
const PAUSE: Duration = Duration::from_millis(20);

fn harness(part: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall-crash"));
    // Any file will do for the release binary: the recordings stopped here are made by the library.
    command.args(["--only", part, "--binary", env!("CARGO_BIN_EXE_seawall-crash")]);
    command.current_dir(env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Whether the recorders can run here; if not says so past the test harness, and in CI fails.
fn runs_here() -> bool {
    let root = rustix::process::geteuid().is_root();
    let fuse = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    let tools = ["losetup", "mkfs.ext4", "unshare"];
    let tools = tools.iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
    if root && fuse && tools {
        return true;
    }
    skipped(format_args!("root {root}, /dev/fuse {fuse}, tools {tools}"));
    false
}

/// Files under loop devices that belong to the process.
fn backing_files(owner: u32) -> Vec<String> {
    let mark = format!("/seawall-crash-{owner}-");
    let blocks = std::fs::read_dir("/sys/block").expect("the kernel lists its devices").flatten();
    let files =
        blocks.filter_map(|block| std::fs::read_to_string(block.path().join("loop/backing_file")).ok());
    files.filter(|file| file.contains(&mark)).collect()
}

fn directories(owner: u32) -> Vec<PathBuf> {
    let mark = format!("seawall-crash-{owner}-");
    let all = std::fs::read_dir(std::env::temp_dir()).expect("reads").flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&mark))
        .map(|entry| entry.path())
        .collect()
}

/// Processes that were given a path of this harness.
fn victims(owner: u32) -> Vec<String> {
    let mark = format!("/seawall-crash-{owner}-");
    let all = std::fs::read_dir("/proc").expect("reads").flatten();
    let lines = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(&mark)).collect()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..TRIES {
        if holds() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("not in time: {what}");
}

/// A harness that has a file system mounted.
fn at_work() -> Child {
    let child = harness("blocks").stderr(Stdio::null()).spawn().expect("starts");
    let (owner, mounts) = (child.id(), Path::new("/proc").join(child.id().to_string()).join("mountinfo"));
    eventually("a loop device is mounted", || {
        let mounts = std::fs::read_to_string(&mounts).unwrap_or_default();
        let mounted =
            |line: &str| line.contains(&format!("seawall-crash-{owner}-")) && line.contains("/mounted ");
        !backing_files(owner).is_empty() && mounts.lines().any(mounted)
    });
    child
}

/// Kills the harness. If it was just reading through its own recorder, nothing answers any more, and the
/// kernel cannot end it before the recorder's connection is aborted; a user would do that by hand.
fn kill(child: &mut Child) {
    let recorders = recorders(child.id());
    child.kill().expect("is killed");
    for _ in 0..100 {
        if child.try_wait().expect("has a status").is_some() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    let control = tempfile::tempdir().expect("a folder");
    let mounted = Command::new("mount").args(["-t", "fusectl", "none"]).arg(control.path()).status();
    assert!(mounted.is_ok_and(|status| status.success()), "the control files of FUSE are mounted");
    // One that is gone already needs none.
    for minor in recorders {
        let _ = std::fs::write(control.path().join(minor).join("abort"), "1");
    }
    let unmounted = Command::new("umount").arg(control.path()).status();
    assert!(unmounted.is_ok_and(|status| status.success()), "and unmounted");
    child.wait().expect("ends");
}

/// The numbers of the recorders' connections: the minor numbers of their mounts.
fn recorders(owner: u32) -> Vec<String> {
    let mounts = std::fs::read_to_string(format!("/proc/{owner}/mountinfo")).unwrap_or_default();
    let lines = mounts.lines().filter(|line| line.contains("/recorder ") && line.contains(" - fuse "));
    let number = |line: &str| Some(line.split(' ').nth(2)?.split_once(':')?.1.to_owned());
    lines.filter_map(number).collect()
}

fn nothing_is_left(owner: u32) {
    eventually("no loop device is left", || backing_files(owner).is_empty());
    eventually("no victim is left", || victims(owner).is_empty());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("reads");
    assert!(!mounts.contains(&format!("seawall-crash-{owner}-")), "{mounts}");
}

fn an_interrupted_harness_clears_everything_away() {
    let mut child = at_work();
    let owner = child.id();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("is signalled");
    let status = child.wait().expect("ends");
    assert_eq!(status.code(), Some(1), "an interrupted run has not passed");
    nothing_is_left(owner);
    assert_eq!(directories(owner), Vec::<PathBuf>::new());
}

fn a_killed_harness_leaves_a_directory_at_most_and_the_next_one_removes_it() {
    let mut child = at_work();
    let owner = child.id();
    kill(&mut child);
    nothing_is_left(owner);
    assert!(!directories(owner).is_empty(), "nothing was there to remove it");
    let next = harness("nothing").output().expect("runs");
    let printed = String::from_utf8_lossy(&next.stderr);
    let swept = format!("seawall-crash-{owner}-");
    assert!(next.status.success() && printed.contains(&swept), "{printed}");
    assert_eq!(directories(owner), Vec::<PathBuf>::new());
}

/// One after the other: each harness removes what a dead one left.
#[test]
fn a_harness_that_ends_early_leaves_nothing_for_good() {
    if runs_here() {
        an_interrupted_harness_clears_everything_away();
        a_killed_harness_leaves_a_directory_at_most_and_the_next_one_removes_it();
    }
}
