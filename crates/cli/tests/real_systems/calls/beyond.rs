//! Tests with strace that what is archived in a folder, and the mark of a standby, are synced in the order that they promise.

use crate::ground::folder;
use std::path::Path;
use std::process::Command;

const CALLS: &str = "fsync,fdatasync,linkat,renameat,renameat2,unlinkat,unlink,rename,link";

/// Runs the program with these words under strace; its calls that succeeded.
fn traced(folder: &Path, words: &[&str]) -> Vec<String> {
    let trace = folder.join("trace");
    let mut run = Command::new("strace");
    run.args(["-f", "-y", "-e", CALLS, "-e", "signal=none", "-o"]).arg(&trace);
    let output = run.arg(env!("CARGO_BIN_EXE_seawall")).args(words).output().expect("strace runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&trace).expect("the trace");
    text.lines().filter(|line| line.ends_with("= 0")).map(str::to_owned).collect()
}

/// A call, and what must stand in front of it, behind the one before it, and behind it, in front of the next.
struct Order<'a> {
    call: &'a [&'a str],
    synced_before: Option<&'a str>,
    synced_behind: &'a str,
}

impl Order<'_> {
    /// How many calls there were, all of which kept the order.
    fn kept(&self, calls: &[String]) -> usize {
        let is_sync = |call: &String, of: &str| call.contains("sync(") && call.contains(of);
        let is_call = |call: &String| self.call.iter().all(|part| call.contains(part));
        let at: Vec<usize> = (0..calls.len()).filter(|at| is_call(&calls[*at])).collect();
        for (number, this) in at.iter().enumerate() {
            let from = number.checked_sub(1).map_or(0, |before| at[before]);
            let to = at.get(number + 1).copied().unwrap_or(calls.len());
            if let Some(synced) = self.synced_before {
                let before = calls[from..*this].iter().any(|call| is_sync(call, synced));
                assert!(before, "{synced} is not synced in front of {}", calls[*this]);
            }
            let behind = calls[*this..to].iter().any(|call| is_sync(call, self.synced_behind));
            assert!(behind, "{} is not synced behind {}", self.synced_behind, calls[*this]);
        }
        at.len()
    }
}

#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn objects_of_a_folder_and_the_mark_of_a_standby_are_synced_in_order() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (log, archive, standby) = (path("log"), format!("folder:{}", path("archive")), path("standby"));
    {
        let log = seawall::Log::open(&log, seawall::Options::default()).expect("opens");
        for number in 0..40_u8 {
            log.append_commit(&vec![number; 3000]).expect("commits");
        }
        log.close().expect("closes");
    }
    let words = ["log", "ship", &log, "--to", &archive, "--object-bytes", "32k", "--once"];
    let calls = traced(folder.path(), &words);
    let objects = Order {
        call: &["link", "/staged-", "/archive/messages/"],
        synced_before: Some("/archive/staged-"),
        synced_behind: "/archive/messages>",
    };
    assert!(objects.kept(&calls) >= 3, "objects are created: {calls:#?}");

    let calls = traced(folder.path(), &["log", "standby", &standby, "--from", &archive, "--once"]);
    let marks = Order {
        call: &["rename", "\"REBUILDING\""],
        synced_before: Some("/standby/REBUILDING"),
        synced_behind: "/standby>",
    };
    assert!(marks.kept(&calls) >= 1, "the place is saved: {calls:#?}");

    let calls = traced(folder.path(), &["log", "takeover", &standby, "--from", &archive, "--fence"]);
    let removal =
        Order { call: &["unlink", "\"REBUILDING\""], synced_before: None, synced_behind: "/standby>" };
    assert_eq!(removal.kept(&calls), 1, "the mark goes once: {calls:#?}");
}
