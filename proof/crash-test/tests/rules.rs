//! Tests which states a record may leave, what is found in them, and how the missing call is named.
//!
//! A record is written as the calls of a program, a word each; the check knows the program's promise.
#![cfg(target_os = "linux")]

use seawall_crash_test::call::{Call, Event, Record};
use seawall_crash_test::check::{Answer, Check};
use seawall_crash_test::membership::allowed;
use seawall_crash_test::progress::Progress;
use seawall_crash_test::report::calls;
use seawall_crash_test::rule::Rule;
use seawall_crash_test::search::{Finding, Outcome, Search, search, synced_roles, without};
use seawall_crash_test::tree::{Inode, Kind, Name, ROOT, Tree};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Plays lines such as `write tmp 1k` into a record.
#[derive(Default)]
struct Script {
    names: BTreeMap<String, Inode>,
    inodes: Inode,
    events: Vec<Event>,
}

impl Script {
    fn place(&self, path: &str) -> (Inode, Name) {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = if folder.is_empty() { ROOT } else { self.names[folder] };
        (parent, name.as_bytes().into())
    }

    fn inode(&self, path: &str) -> Inode {
        if path == "." { ROOT } else { self.names[path] }
    }

    fn new_inode(&mut self, path: &str) -> Inode {
        self.inodes += 1;
        self.names.insert(path.to_owned(), self.inodes);
        self.inodes
    }

    fn call(&mut self, line: &str) -> Call {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["create" | "mkdir", path] => {
                let (parent, name) = self.place(path);
                let kind = if words[0] == "mkdir" { Kind::Folder } else { Kind::File };
                Call::Create { parent, name, inode: self.new_inode(path), kind, mode: 0o644 }
            }
            ["write" | "page", path, offset, text] => {
                let offset = offset.parse().expect("a number");
                let data = text.as_bytes().into();
                Call::Write { inode: self.inode(path), offset, data, mapped: words[0] == "page" }
            }
            ["fill", path, offset, bytes, letter] => {
                let (offset, bytes) = (offset.parse().expect("a number"), bytes.parse().expect("a number"));
                let data = vec![letter.as_bytes()[0]; bytes].into();
                Call::Write { inode: self.inode(path), offset, data, mapped: false }
            }
            ["resize", path, bytes] => {
                Call::Resize { inode: self.inode(path), bytes: bytes.parse().expect("a number") }
            }
            ["fsync" | "fdatasync", path] => {
                Call::Sync { inode: self.inode(path), data_only: words[0] == "fdatasync" }
            }
            ["chmod", path, mode] => {
                Call::Mode { inode: self.inode(path), mode: u32::from_str_radix(mode, 8).expect("a mode") }
            }
            ["tmpfile", path, mode] => {
                let mode = u32::from_str_radix(mode, 8).expect("a mode");
                Call::Temporary { inode: self.new_inode(path), mode }
            }
            ["link", from, to] => {
                let ((parent, name), inode) = (self.place(to), self.inode(from));
                self.names.insert(to.to_owned(), inode);
                Call::Link { inode, parent, name }
            }
            ["exchange", one, other] => {
                let (from, to, inode, over) =
                    (self.place(one), self.place(other), self.inode(one), self.inode(other));
                self.names.extend([(one.to_owned(), over), (other.to_owned(), inode)]);
                Call::Rename { from, to, inode, over: Some(over), exchange: true }
            }
            ["failed", path] => Call::SyncFailed { inode: self.inode(path) },
            ["sync"] => Call::SyncAll,
            ["rename", from, to] => {
                let (before, after) = (self.place(from), self.place(to));
                let inode = self.names.remove(from).expect("a file");
                let over = self.names.insert(to.to_owned(), inode);
                Call::Rename { from: before, to: after, inode, over, exchange: false }
            }
            ["unlink", path] => {
                let (parent, name) = self.place(path);
                Call::Remove { parent, name, inode: self.names.remove(path).expect("a file") }
            }
            ["ack", line] => Call::Acknowledge { line: line.as_bytes().into() },
            _ => panic!("no call: {line}"),
        }
    }
}

fn record(script: &str) -> Record {
    let mut made = Script::default();
    for line in script.split(';').map(str::trim).filter(|line| !line.is_empty()) {
        let call = made.call(line);
        let ended = made.events.len() + 1;
        made.events.push(Event { call, thread: 1, ended });
    }
    Record { before: Tree::default(), events: made.events, notices: Vec::new() }
}

/// A check in this process.
struct Promise(Promised);

impl Check for Promise {
    fn judge(&self, state: &Tree, acknowledged: &[Arc<[u8]>]) -> seawall_crash_test::Result<Answer> {
        let lines: Vec<String> =
            acknowledged.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        Ok((self.0)(state, &lines).map_or(Answer::Kept, Answer::Broken))
    }
}

fn content(state: &Tree, path: &str) -> Option<Vec<u8>> {
    let mut at = ROOT;
    for name in path.split('/') {
        at = *state.nodes[&at].names.get(name.as_bytes())?;
    }
    Some(state.nodes[&at].content.to_vec())
}

/// What a program promises; what is wrong with a state.
type Promised = fn(&Tree, &[String]) -> Option<String>;

/// The same calls for 0 to 4.
fn repeated(calls: &str) -> String {
    (0..5).map(|n| calls.replace('@', &n.to_string())).collect()
}

/// Each acknowledged name is there and holds its own name.
fn named(state: &Tree, acknowledged: &[String]) -> Option<String> {
    let lost = acknowledged.iter().find(|name| content(state, name).as_deref() != Some(name.as_bytes()));
    lost.map(|name| format!("{name} was acknowledged and is gone"))
}

/// Every acknowledged line is in `log`, in order.
fn logged(state: &Tree, acknowledged: &[String]) -> Option<String> {
    let log = String::from_utf8_lossy(&content(state, "log").unwrap_or_default()).into_owned();
    (!log.starts_with(&acknowledged.concat())).then(|| format!("the log has {log:?}"))
}

/// `a` and `b` hold the same letter.
fn alike(state: &Tree, _: &[String]) -> Option<String> {
    let (one, other) = (content(state, "a"), content(state, "b"));
    (one != other).then(|| "a and b differ".to_owned())
}

/// The file has the permission bits that were acknowledged, and what was written before.
fn read_only(state: &Tree, acknowledged: &[String]) -> Option<String> {
    let mode = || state.nodes[state.nodes[&ROOT].names.get(&b"k"[..])?].mode;
    let kept = acknowledged.is_empty() || mode() == Some(0o400);
    named(state, acknowledged).or_else(|| (!kept).then(|| format!("k has {:?}", mode())))
}

/// The record is whole: one letter throughout.
fn whole(state: &Tree, _: &[String]) -> Option<String> {
    let data = content(state, "data").unwrap_or_default();
    data.windows(2).any(|pair| pair[0] != pair[1]).then(|| "the record is torn".to_owned())
}

fn searched_by(record: &Record, rules: &[Rule], budget: Duration, check: &dyn Check) -> Outcome {
    let how = Search { rules: rules.to_vec(), budget, workers: 2, seed: 1, first_cut: 0 };
    search(record, &how, check, &Progress::default()).expect("a check in this process runs")
}

fn searched(record: &Record, rules: &[Rule], promise: Promised) -> Outcome {
    searched_by(record, rules, Duration::from_secs(20), &Promise(promise))
}

/// The missing call and its place, in words.
fn missing(finding: &Finding) -> Option<String> {
    finding.missing.as_ref().map(|missing| format!("{} {}", missing.call, missing.place))
}

const REAL: [Rule; 3] = [Rule::Ext4, Rule::Xfs, Rule::Btrfs];

#[test]
fn right_programs_are_kept_under_every_rule() {
    let keys = repeated("create tmp; write tmp 0 key@; fsync tmp; rename tmp key@; fsync .; ack key@;");
    let log = repeated("write log @ @; fdatasync log; ack @;");
    let folders = "mkdir d; fsync .; create d/k; write d/k 0 d/k; fsync d/k; fsync d; ack d/k";
    let all_at_once = "create k; write k 0 k; create l; write l 0 l; sync; ack k; ack l";
    // A sync of data covers what was written after a change of permission bits.
    let modes =
        "create k; fsync .; chmod k 444; write k 0 k; fdatasync k; fdatasync k; chmod k 400; fsync k; ack k";
    for (script, promise) in [
        (keys.as_str(), named as Promised),
        (&format!("create log; fsync log; fsync .; {log}"), logged),
        (folders, named),
        (all_at_once, named),
        (modes, read_only),
    ] {
        let outcome = searched(&record(script), &Rule::ALL, promise);
        assert!(outcome.findings.is_empty(), "{script}: {:?}", outcome.findings);
        assert!(outcome.judged > 3, "{script}: nothing was tried");
    }
}

/// What it is, the calls, what was promised, the rules that show it, and the call that is missing.
type Mistake = (&'static str, String, Promised, &'static [Rule], &'static str);

#[test]
fn each_mistake_is_found_and_the_missing_call_named() {
    let keys = repeated;
    let rows: [Mistake; 11] = [
        (
            "no sync of the directory",
            keys("create tmp; write tmp 0 key@; fsync tmp; rename tmp key@; ack key@;"),
            named,
            &Rule::ALL,
            "fsync of the directory after rename to key#",
        ),
        (
            "no sync of the data",
            keys("create tmp; write tmp 0 key@; rename tmp key@; fsync .; ack key@;"),
            named,
            &Rule::ALL,
            "fsync of tmp after its last write",
        ),
        (
            "no sync of a folder's name: kept by journals",
            "mkdir d; create d/k; write d/k 0 d/k; fsync d/k; fsync d; ack d/k".to_owned(),
            named,
            &[Rule::Posix],
            "fsync of the directory after mkdir of d",
        ),
        (
            "no sync at all of an append",
            format!("create log; fsync log; fsync .; {}", keys("write log @ @; ack @;")),
            logged,
            &Rule::ALL,
            "fsync of log after its last write",
        ),
        (
            "acknowledged before the sync",
            format!("create log; fsync log; fsync .; {}", keys("write log @ @; ack @; fsync log;")),
            logged,
            &Rule::ALL,
            "fsync of log after its last write",
        ),
        (
            "acknowledged before the write",
            format!("create log; fsync log; fsync .; {}", keys("ack @; write log @ @; fsync log;")),
            logged,
            &Rule::ALL,
            "write of log before the acknowledgement: it came after",
        ),
        (
            "a mapping that is written back too late",
            "create log; write log 0 .; fsync log; fsync .; ack X; page log 0 X".to_owned(),
            logged,
            &Rule::ALL,
            "msync of log before the acknowledgement: the kernel wrote the page back after it",
        ),
        (
            "a page written over in place",
            "create data; fill data 0 3000 a; fsync data; fsync .; ack 1; fill data 0 3000 b; fsync data; ack 2".to_owned(),
            whole,
            &Rule::ALL,
            "",
        ),
        (
            "two files in the wrong order",
            "create a; create b; sync; ack 0; write a 0 x; write b 0 x; fsync a; fsync b; ack 1".to_owned(),
            alike,
            &Rule::ALL,
            "",
        ),
        (
            "created and synced, its name not: kept by journals",
            "create k; write k 0 k; fsync k; ack k".to_owned(),
            named,
            &[Rule::Posix],
            "fsync of the directory after create of k",
        ),
        (
            "fdatasync after rename",
            keys("create tmp; write tmp 0 key@; fsync tmp; rename tmp key@; fdatasync key@; ack key@;"),
            named,
            &[Rule::Posix, Rule::Ext4, Rule::Xfs],
            "fsync of the directory after rename to key#",
        ),
    ];
    are_found(&rows);
}

#[test]
fn torn_appends_and_lost_permission_bits_are_found() {
    are_found(&[
        (
            "a torn append that does not open",
            "create log; fsync .; fill log 0 603 a; fsync log; ack 1; fill log 603 603 b".to_owned(),
            |state, _| (content(state, "log")?.len() % 603 > 0).then(|| "it does not open".to_owned()),
            &Rule::ALL,
            "",
        ),
        (
            "an append with its size and its beginning",
            "create log; fsync .; fill log 0 600 a".to_owned(),
            |state, _| {
                let log = content(state, "log")?;
                (log.len() == 600 && log[0] == b'a' && log[599] == 0).then(|| "it ends in zeros".to_owned())
            },
            &[Rule::Posix],
            "",
        ),
        (
            "permission bits that no sync covers",
            "create k; write k 0 k; fsync k; fsync .; chmod k 400; ack k".to_owned(),
            read_only,
            &Rule::ALL,
            "fsync of k after its chmod",
        ),
        (
            "permission bits behind a sync of data only",
            "create k; write k 0 k; fsync .; chmod k 400; write k 0 k; fdatasync k; ack k".to_owned(),
            read_only,
            &[Rule::Posix, Rule::Ext4],
            "fsync of k after its chmod",
        ),
    ]);
}

fn are_found(rows: &[Mistake]) {
    for (title, script, promise, rules, call) in rows {
        let outcome = searched(&record(script), &Rule::ALL, *promise);
        let [finding, ..] = &outcome.findings[..] else { panic!("{title}: not found") };
        assert_eq!(missing(finding).unwrap_or_default(), *call, "{title}: {finding:?}");
        assert_eq!(finding.rules, *rules, "{title}: {finding:?}");
        assert_eq!(outcome.findings.len(), 1, "{title}: {:?}", outcome.findings);
    }
}

#[test]
fn a_sync_after_one_that_failed_keeps_only_what_was_written_again() {
    let repeated = "create log; fsync log; fsync .; write log 0 0; failed log; fsync log; ack 0";
    let outcome = searched(&record(repeated), &REAL, logged);
    assert_eq!(outcome.findings.len(), 1, "{outcome:?}");
    let rewritten = repeated.replace("failed log;", "failed log; write log 0 0;");
    let outcome = searched(&record(&rewritten), &Rule::ALL, logged);
    assert!(outcome.findings.is_empty() && outcome.judged > 3, "{outcome:?}");
}

#[test]
fn a_real_file_system_keeps_what_its_journal_had() {
    let fsync_keeps_names = "create k; write k 0 k; fsync k; ack k";
    assert!(searched(&record(fsync_keeps_names), &REAL, named).findings.is_empty());
    // A sync of another file carries names on ext4 and xfs, not on btrfs.
    let by_neighbour =
        "create k; write k 0 k; fsync k; rename k l; create n; write n 0 n; fsync n; ack n; ack k";
    let renamed = |state: &Tree, acknowledged: &[String]| {
        let there = content(state, "l").is_some();
        (acknowledged.len() == 2 && !there).then(|| "l is not there".to_owned())
    };
    assert!(searched(&record(by_neighbour), &[Rule::Ext4, Rule::Xfs], renamed).findings.is_empty());
    assert_eq!(searched(&record(by_neighbour), &[Rule::Btrfs], renamed).findings.len(), 1);
}

#[test]
fn a_second_mistake_is_found_behind_the_first() {
    let script = "create a; write a 0 a; fsync a; fsync .; ack a; create tmp; write tmp 0 key; rename tmp key; ack key";
    let outcome = searched(&record(script), &Rule::ALL, named);
    let both: String = outcome.findings.iter().filter_map(missing).collect();
    assert!(both.contains("fsync of tmp") && both.contains("directory after rename to key"), "{both}");
}

#[test]
fn a_state_between_two_acknowledgements_of_the_same_content_is_judged() {
    // The content goes from x to y and back to x; only while y was acknowledged may x not be there.
    let script =
        "create f; write f 0 x; fsync f; fsync .; ack x; write f 0 y; ack y; write f 0 x; fsync f; ack x";
    let last = |state: &Tree, acknowledged: &[String]| {
        let value = String::from_utf8(content(state, "f")?).ok()?;
        // A write that has not been acknowledged may be there.
        let lost = acknowledged.len() == 2 && value == "x" && acknowledged[1] == "y";
        lost.then(|| "y was acknowledged".to_owned())
    };
    assert!(!searched(&record(script), &Rule::ALL, last).findings.is_empty());
}

#[test]
fn a_sync_that_is_left_out_is_named_and_noticed() {
    let script = "create tmp; write tmp 0 key; fsync tmp; rename tmp key; fsync .; ack key";
    let record = record(script);
    assert_eq!(synced_roles(&record), ["fsync of the directory", "fsync of tmp"]);
    for role in synced_roles(&record) {
        let outcome = searched(&without(&record, &role), &Rule::ALL, named);
        let missing = outcome.findings[0].missing.as_ref().expect("a call that mends it");
        assert_eq!(missing.call, role);
    }
}

#[test]
fn what_was_not_judged_is_not_called_whole() {
    let record = record("create k; write k 0 k; fsync k; fsync .; ack k");
    assert!(searched(&record, &Rule::ALL, named).whole);
    let outcome = searched_by(&record, &Rule::ALL, Duration::ZERO, &Promise(named));
    assert!(!outcome.whole && outcome.judged == 0, "{outcome:?}");
}

#[test]
fn a_held_sync_covers_nothing_before_it_is_answered() {
    let mut record = record("create log; fsync log; fsync .; write log 0 1; fdatasync log; ack 1");
    assert!(searched(&record, &Rule::ALL, logged).findings.is_empty());
    // The write had not ended when the sync began.
    record.events[3].ended = 5;
    assert_eq!(searched(&record, &Rule::ALL, logged).findings.len(), 1);
}

#[test]
fn every_state_that_is_drawn_is_allowed_and_others_are_not() {
    struct Allowed<'a>(&'a Record, Rule);
    impl Check for Allowed<'_> {
        fn judge(&self, state: &Tree, acknowledged: &[Arc<[u8]>]) -> seawall_crash_test::Result<Answer> {
            // The power goes at any event between this acknowledgement and the next one.
            let acks = |cut: &usize| self.0.acknowledged(*cut).len() == acknowledged.len();
            let cuts = (0..=self.0.events.len()).filter(acks);
            let refused: Vec<String> =
                cuts.map_while(|cut| allowed(self.0, self.1, cut, state).err()).collect();
            let cuts = (0..=self.0.events.len()).filter(acks).count();
            Ok(if refused.len() < cuts { Answer::Kept } else { Answer::Broken(refused.join("; ")) })
        }
    }
    let script = "mkdir d; create d/a; fill d/a 0 5000 x; fsync d/a; ack 1; resize d/a 100; write d/a 90 yyyyyyyyyyyyyyy; \
                  create b; fill b 0 9000 z; rename d/a b; fdatasync b; ack 2; unlink b; sync; ack 3; create b; ack 4";
    let record = record(script);
    for rule in Rule::ALL {
        let outcome = searched_by(&record, &[rule], Duration::from_secs(20), &Allowed(&record, rule));
        assert!(outcome.findings.is_empty(), "{rule:?}: {:?}", outcome.findings[0]);
        assert!(outcome.judged > 20, "{rule:?}");
    }
    // Nothing explains a file that was never made, or what a sync has made certain.
    let end = record.events.len();
    let mut odd = Tree::default();
    assert!(allowed(&record, Rule::Ext4, end, &odd).is_err(), "the folder is certain");
    odd.node(ROOT).names.insert(b"odd"[..].into(), 77);
    odd.node(77);
    assert!(allowed(&record, Rule::Posix, end, &odd).is_err());
}

#[test]
fn the_log_of_btrfs_takes_a_name_that_the_disk_has_free() {
    // Seen on Linux 6.18: the removal of a from under its other name is lost, and that name has its new file.
    let record = record(
        "create a; sync; rename a b; unlink b; create c; fsync c; rename c b; fsync b; create z; fsync z",
    );
    let mut found = Tree::default();
    found.node(ROOT).names.extend([(b"a"[..].into(), 1), (b"b"[..].into(), 2), (b"z"[..].into(), 3)]);
    (1..=3).for_each(|inode| drop(found.node(inode).kind.clone()));
    let explained = |rule| allowed(&record, rule, record.events.len(), &found);
    explained(Rule::Btrfs).expect("btrfs");
    assert!(explained(Rule::Ext4).is_err(), "one journal has the removal too");
}

#[test]
fn permission_bits_are_those_of_a_synced_state() {
    // (The calls, the bits of k that a cut can leave under ext4, and under btrfs.)
    let rows: [(&str, &[u32], &[u32]); 4] = [
        ("create k; fsync k", &[0o644], &[0o644]),
        ("create k; fsync k; chmod k 600; chmod k 400", &[0o644, 0o600, 0o400], &[0o644, 0o600, 0o400]),
        ("create k; fsync k; chmod k 600; fsync k", &[0o600], &[0o600]),
        ("tmpfile t 640; link t k; fsync t", &[0o640], &[0o640]),
    ];
    for (script, by_ext4, by_btrfs) in rows {
        let record = record(script);
        for mode in [0o644, 0o640, 0o600, 0o400] {
            let mut found = Tree::default();
            found.node(ROOT).names.insert(b"k"[..].into(), 1);
            found.node(1).mode = Some(mode);
            for (rule, allowed_bits) in [(Rule::Ext4, by_ext4), (Rule::Btrfs, by_btrfs)] {
                let explained = allowed(&record, rule, record.events.len(), &found).is_ok();
                assert_eq!(explained, allowed_bits.contains(&mode), "{script}: {mode:o} under {rule:?}");
            }
        }
    }
}

#[test]
fn a_rename_of_btrfs_can_arrive_in_two_steps() {
    // Seen on Linux 6.18: (the calls, the files that a cut left).
    let rows: [(&str, &[&str]); 3] = [
        // What was synced goes when a file takes its name that was not.
        ("create k; fsync k; create tmp; create z; rename tmp k; fsync z", &["z"]),
        // A sync of the new folder logs the new name, and not the end of the old one.
        ("mkdir d; create k; sync; rename k d/k; fsync d", &["d", "d/k", "k"]),
        (
            "mkdir d; fsync d; create m; rename m n; fsync n; sync; create m; rename n d/n; fill m 0 5000 x; unlink d/n; fdatasync m; \
             rename m d/m; fsync d; create d/o; create o",
            &["d", "d/m", "n"],
        ),
    ];
    for (script, names) in rows {
        let record = record(script);
        let mut found = Tree::default();
        for (inode, path) in (1..).zip(names) {
            let (folder, name) = path.split_once('/').map_or((ROOT, *path), |(_, name)| (1, name));
            found.node(folder).names.insert(name.as_bytes().into(), inode);
            found.node(inode).kind = if *path == "d" { Kind::Folder } else { Kind::File };
            if *path == "d/m" {
                found.node(inode).content = Arc::new(vec![b'x'; 5000][..].into());
            }
        }
        let explained = |rule| allowed(&record, rule, record.events.len(), &found);
        assert_eq!(explained(Rule::Btrfs), Ok(()), "{script}");
        assert!(explained(Rule::Ext4).is_err(), "{script}: in one step");
    }
}

/// One of two copies is whole.
fn one_of_two(state: &Tree, acknowledged: &[String]) -> Option<String> {
    let is_whole = |copy: Vec<u8>| !copy.is_empty() && copy.iter().all(|byte| *byte == copy[0]);
    let copies = ["a", "b"].into_iter().filter_map(|name| content(state, name));
    (acknowledged.len() > 1 && !copies.into_iter().any(is_whole)).then(|| "both copies are torn".to_owned())
}

/// A record whose ends are there is there.
fn by_its_ends(state: &Tree, _: &[String]) -> Option<String> {
    let record = content(state, "r").unwrap_or_default();
    let ends = record.first() == Some(&b'x') && record.last() == Some(&b'x');
    (ends && record.contains(&0)).then(|| "there is a hole in the record".to_owned())
}

/// What is marked is there.
fn marked(state: &Tree, _: &[String]) -> Option<String> {
    let file = content(state, "f").unwrap_or_default();
    (file.first() == Some(&b'm') && file.get(4096) != Some(&b'v')).then(|| "marked, and not there".to_owned())
}

#[test]
fn losses_of_several_pieces_are_drawn_and_what_keeps_them_apart_is_named() {
    let copies = "create a; create b; fsync .; ack 0; fill a 0 4096 x; fsync a; fill b 0 4096 x; fsync b; ack 1; \
                  fill a 0 4096 y; fill b 0 4096 y; fsync a; fsync b; ack 2";
    let apart = copies.replace("4096 y; fill b", "4096 y; fsync a; fill b");
    let ends = "create r; fsync .; ack 0; fill r 0 65536 x; fsync r; ack 1";
    let mark = "create f; fsync .; ack 0; write f 4096 v; write f 0 m; fsync f; ack 1";
    for (script, promise, call) in [
        (copies, one_of_two as Promised, Some("fsync of a after its last write")),
        (ends, by_its_ends, None),
        (mark, marked, Some("fsync of f after each of its writes")),
    ] {
        let outcome = searched(&record(script), &[Rule::Ext4], promise);
        let found = outcome.findings.first().unwrap_or_else(|| panic!("{script}"));
        assert_eq!(missing(found).as_deref(), call, "{script}");
    }
    assert!(searched(&record(&apart), &Rule::ALL, one_of_two).findings.is_empty());
}

#[test]
fn each_finding_is_told_in_the_calls_that_were_recorded() {
    let record = record("create k; write k 0 k; ack k; create l; write l 0 l; ack l; create z; fsync z");
    let outcome = searched(&record, &Rule::ALL, named);
    assert!(outcome.findings.len() > 1, "{outcome:?}");
    for finding in outcome.findings {
        let last = &record.events[finding.cut - 1].call;
        assert!(finding.story.iter().all(|place| *place < finding.cut), "{finding:?}");
        assert!(finding.story.contains(&(finding.cut - 1)), "{last:?} came last: {finding:?}");
        let changes = |place: &usize| !matches!(record.events[*place].call, Call::Sync { .. });
        assert!(finding.lost.iter().all(changes), "{finding:?}");
    }
}

/// The value is in one of two files.
fn in_one_of_two(state: &Tree, acknowledged: &[String]) -> Option<String> {
    let is_there = |name: &str| content(state, name).is_some_and(|bytes| bytes.starts_with(b"v"));
    (acknowledged.len() > 1 && !is_there("db") && !is_there("wal")).then(|| "the value is gone".to_owned())
}

#[test]
fn a_story_has_the_call_that_made_the_loss_matter() {
    let record = record(
        "create db; create wal; fsync .; ack 0; write wal 0 v; fsync wal; ack 1; write db 0 v; resize wal 0; fsync db",
    );
    let finding = &searched(&record, &[Rule::Ext4], in_one_of_two).findings[0];
    assert_eq!((&finding.lost[..], finding.cut), (&[7][..], 9), "the write to db: {finding:?}");
    assert!(finding.story.contains(&8), "the truncation of wal: {finding:?}");
}

#[test]
fn a_story_has_the_names_of_the_calls() {
    let script = "create a; create c; sync; link a b; unlink a; exchange b c; ack 1";
    let lost = |state: &Tree, acknowledged: &[String]| {
        let there = content(state, "a").is_some();
        (!acknowledged.is_empty() && there).then(|| "a is back".to_owned())
    };
    let record = record(script);
    let outcome = searched(&record, &Rule::ALL, lost);
    let told = calls(&record, &outcome.findings[0]);
    for line in ["link       -> b", "unlink     a  ", "exchange   b <-> c"] {
        assert!(told.contains(line), "{line}: {told}");
    }
}

#[test]
fn files_with_random_names_have_one_missing_call() {
    let one = "create tmpK; write tmpK 0 keyN; rename tmpK keyN; fsync .; ack keyN;";
    let script: String = ["ab", "cd", "xy"]
        .iter()
        .zip(0..)
        .map(|(random, number): (_, u32)| one.replace('K', random).replace('N', &number.to_string()))
        .collect();
    let outcome = searched(&record(&script), &REAL, named);
    let missing = outcome.findings[0].missing.as_ref().expect("a call");
    assert_eq!((missing.call.as_str(), missing.whole), ("fsync of tmp*", true));
}

#[test]
fn a_call_that_there_was_no_time_to_try_is_not_said_to_be_none() {
    struct Slow;
    impl Check for Slow {
        fn judge(&self, state: &Tree, acknowledged: &[Arc<[u8]>]) -> seawall_crash_test::Result<Answer> {
            let answer = Promise(named).judge(state, acknowledged)?;
            if answer != Answer::Kept {
                std::thread::sleep(Duration::from_millis(300));
            }
            Ok(answer)
        }
    }
    let record = record("create k; write k 0 k; ack k");
    let outcome = searched_by(&record, &REAL, Duration::from_millis(300), &Slow);
    let said = seawall_crash_test::report::missing(&outcome.findings[0]);
    assert!(said.contains("the time ran out"), "{said}");
}
