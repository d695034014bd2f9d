//! Tests that `seawall powercut` finds exactly the records that are missing.
//!
//! The writer is killed instead of the machine: every record must be there then. After that the files are rolled
//! back, torn and mixed up on purpose, and check must count that damage.

use crate::{SEAWALL, coded, err, out};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const RECORD_BYTES: usize = 4096;

fn seawall(arguments: &[&str]) -> Command {
    let mut command = Command::new(SEAWALL);
    command
        .arg("powercut")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A disk, a ledger, and the words that reach a witness.
struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let dir = crate::folder();
        std::fs::create_dir(dir.path().join("disk")).expect("made");
        Self { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("is text").to_owned()
    }

    /// What stands in place of ssh and another host.
    fn witness(&self) -> String {
        format!("{SEAWALL} powercut witness --ledger {}", self.path("ledger"))
    }

    /// The same, as a script does it that has `lines`, in which `$witness` is the usual one.
    #[cfg(unix)]
    fn script(&self, lines: &str) -> String {
        let (script, witness) = (self.path("script"), self.witness());
        std::fs::write(&script, format!("witness='{witness}'\n{lines}\n")).expect("written");
        format!("sh {script}")
    }

    fn command(&self, word: &str, more: &[&str]) -> Command {
        self.through(&self.witness(), word, more)
    }

    fn through(&self, witness: &str, word: &str, more: &[&str]) -> Command {
        let mut command = seawall(&[word, &self.path("disk"), "--witness-command", witness]);
        command.args(more);
        command
    }

    /// Runs until it is killed; gives the run's id.
    fn killed(&self, more: &[&str]) -> String {
        self.killed_beside(&self.witness(), more)
    }

    fn killed_beside(&self, witness: &str, more: &[&str]) -> String {
        let mut run = self.through(witness, "run", more).spawn().expect("starts");
        let line = first_line(&mut run);
        let id = line.split(' ').nth(1).expect("says which run it is").to_owned();
        // Long enough for some acknowledgements of each method; check says if there were none.
        std::thread::sleep(Duration::from_millis(1500));
        run.kill().expect("is killed");
        run.wait().expect("ends");
        id
    }

    fn check(&self, more: &[&str]) -> (i32, serde_json::Value) {
        let more = [&["--json", "-"], more].concat();
        let output = self.command("check", &more).output().expect("ends");
        let code = output.status.code().expect("has a code");
        let json = serde_json::from_slice(&output.stdout);
        (code, json.unwrap_or_else(|_| panic!("no verdict, exit code {code}: {}", err(&output))))
    }

    fn journal(&self, run: &str, name: &str) -> PathBuf {
        self.dir.path().join("disk").join(format!("powercut-{run}")).join(name)
    }
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("is piped");
    BufReader::new(stdout).read_line(&mut line).expect("says something");
    assert!(!line.is_empty(), "it ended at once: {:?}", child.wait());
    line.trim_end().to_owned()
}

fn stream<'a>(verdict: &'a serde_json::Value, method: &str) -> &'a serde_json::Value {
    let streams = verdict["streams"].as_array().expect("streams");
    streams.iter().find(|stream| stream["method"] == method).expect("the method")
}

fn count(stream: &serde_json::Value, name: &str) -> u64 {
    stream[name].as_u64().unwrap_or_else(|| panic!("{name} in {stream}"))
}

/// The counts of a stream whose every expected record is accounted for: lost, torn, reordered, phantom.
fn counts(stream: &serde_json::Value) -> [u64; 4] {
    let [expected, intact, lost, torn] =
        ["expected", "intact", "lost", "torn"].map(|name| count(stream, name));
    assert_eq!(expected, intact + lost + torn, "{stream}");
    assert!(expected > 8, "too little was acknowledged to test anything: {stream}");
    [lost, torn, count(stream, "reordered"), count(stream, "phantom")]
}

#[test]
fn a_killed_writer_has_lost_nothing_and_what_is_taken_away_is_counted() {
    let stage = Stage::new();
    // Journals of 64 records, so that they have gone round by the time of the kill.
    let methods = "buffered+fdatasync,log";
    let arguments = ["--method", methods, "--turn", "100ms", "--journal", "256KiB", "--window", "4"];
    let run = stage.killed(&arguments);
    let (code, verdict) = stage.check(&["--run", &run, "--disk-cut"]);
    assert_eq!(code, 0, "{verdict}");
    assert_eq!((verdict["ended"].as_bool(), verdict["no_cut"].is_null()), (Some(false), true));
    for method in ["buffered+fdatasync", "log"] {
        assert_eq!(counts(stream(&verdict, method)), [0; 4], "{method}");
    }
    let journal = stage.journal(&run, "00-buffered+fdatasync.journal");
    let whole = std::fs::read(&journal).expect("reads");
    let held = count(stream(&verdict, "buffered+fdatasync"), "acknowledged");
    let slot = |back: u64| usize::try_from((held - back) % 64).expect("is small") * RECORD_BYTES;
    let judged = |bytes: Vec<u8>, expected: [u64; 4]| {
        std::fs::write(&journal, bytes).expect("writes");
        let (code, verdict) = stage.check(&["--run", &run, "--hold-to", "power-loss"]);
        let stream = stream(&verdict, "buffered+fdatasync");
        assert_eq!((code, counts(stream)), (4, expected), "{verdict}");
        assert_eq!(stream["verdict"], "broken");
        assert!(stream["first"].is_string(), "the first place is named");
    };
    // The last three taken back to zeros, together with whatever was written after them.
    let mut back = whole.clone();
    for record in
        (1..=3).map(slot).chain((0..4).map(|ahead| (slot(1) + (ahead + 1) * RECORD_BYTES) % whole.len()))
    {
        back[record..record + RECORD_BYTES].fill(0);
    }
    let before = usize::try_from(held.min(64)).expect("is small");
    let overwritten = if before == 64 { 4 } else { 0 };
    judged(back, [3 + overwritten, 0, overwritten, 0]);
    // One in the middle torn: later ones have outlived it.
    let mut torn = whole.clone();
    torn[slot(6) + 512..slot(6) + 1024].fill(0);
    judged(torn, [0, 1, 1, 0]);
    // Two written to each other's places.
    let mut mixed = whole.clone();
    mixed[slot(7)..slot(7) + RECORD_BYTES].copy_from_slice(&whole[slot(6)..slot(6) + RECORD_BYTES]);
    mixed[slot(6)..slot(6) + RECORD_BYTES].copy_from_slice(&whole[slot(7)..slot(7) + RECORD_BYTES]);
    judged(mixed, [2, 0, 2, 2]);
    std::fs::remove_file(&journal).expect("removes");
    let (code, verdict) = stage.check(&["--run", &run, "--hold-to", "power-loss"]);
    let lost = stream(&verdict, "buffered+fdatasync");
    assert_eq!((code, count(lost, "lost")), (4, count(lost, "expected")), "the journal is gone");
    // A log whose folder is gone has lost everything as well.
    std::fs::remove_dir_all(stage.journal(&run, "01-log")).expect("removes");
    let (code, verdict) = stage.check(&["--run", &run]);
    assert_eq!((code, stream(&verdict, "log")["verdict"].as_str()), (4, Some("broken")));
}

#[test]
fn a_run_can_end_by_itself_and_is_then_no_cut() {
    let stage = Stage::new();
    let ended = stage.command("run", &["--method", "durable", "--turn", "50ms", "--duration", "1s"]).output();
    coded(0, &ended.expect("ends"));
    let (code, verdict) = stage.check(&[]);
    assert_eq!((code, verdict["ended"].as_bool()), (1, Some(true)), "no cut came: {verdict}");
    assert_eq!(verdict["no_cut"], "ended-by-itself");
    let printed = stage.command("check", &[]).output().expect("ends");
    let shown = out(&printed);
    assert!(
        err(&printed).contains("no cut came") && shown.contains("no cut") && !shown.contains("kept"),
        "{shown}"
    );
    let streams = verdict["streams"].as_array().expect("streams");
    assert!(streams.len() > 3 && streams.iter().any(|stream| stream["acknowledged"].as_u64() > Some(0)));
}

#[test]
fn what_cannot_be_judged_is_refused_with_a_remedy() {
    let stage = Stage::new();
    let refused = |command: &mut Command, code: i32, words: &[&str]| {
        let (_, printed) = coded(code, &command.output().expect("ends"));
        for word in words {
            assert!(printed.contains(word), "{word:?} in {printed}");
        }
    };
    refused(&mut stage.command("check", &[]), 1, &["no run yet", &stage.path("ledger")]);
    assert!(!Path::new(&stage.path("ledger")).exists(), "a check makes no ledger");
    refused(&mut stage.command("check", &["--run", "xyz"]), 2, &["32 hexadecimal digits"]);
    refused(&mut stage.command("check", &["--run", &"0".repeat(32)]), 1, &["no run 0000"]);
    refused(&mut stage.command("run", &["--method", "bufered"]), 1, &["bufered", "seawall methods"]);
    refused(&mut stage.command("run", &["--size", "513"]), 1, &["--size 513"]);
    refused(&mut stage.command("run", &["--window", "1"]), 1, &["--window 1", "log"]);
    refused(&mut stage.command("run", &["--journal", "8KiB"]), 1, &["--journal"]);
    let (disk, nowhere, witness) = (stage.path("disk"), stage.path("nowhere"), stage.witness());
    let gone = |word: &str| seawall(&[word, &nowhere, "--witness-command", &witness]);
    refused(&mut gone("run"), 1, &["nowhere"]);
    assert!(std::fs::read_dir(&disk).expect("reads").next().is_none(), "nothing is left of refused runs");
    // The run is known, but its folder is not there: perhaps it is not mounted.
    let id = stage.killed(&["--method", "buffered", "--turn", "100ms"]);
    refused(&mut gone("check"), 1, &["nowhere", "mounted"]);
    std::fs::rename(stage.journal(&id, ""), stage.dir.path().join("away")).expect("moves");
    refused(&mut stage.command("check", &[]), 1, &["mounted", &id]);
    let (code, verdict) = stage.check(&["--mounted", "--hold-to", "power-loss"]);
    let lost = stream(&verdict, "buffered");
    assert_eq!((code, count(lost, "lost")), (4, count(lost, "expected")));
    let (code, verdict) = stage.check(&["--mounted", "--disk-cut"]);
    assert_eq!((code, stream(&verdict, "buffered")["verdict"].as_str()), (0, Some("lost-unpromised")));
}

#[test]
fn a_killed_process_is_no_power_cut_and_a_restart_since_is_one() {
    let stage = Stage::new();
    let run = stage.killed(&["--method", "buffered+fdatasync", "--turn", "100ms"]);
    let boot = stage.journal(&run, "boot");
    if cfg!(target_os = "linux") {
        let (code, verdict) = stage.check(&["--run", &run]);
        assert_eq!((code, verdict["no_cut"].as_str()), (1, Some("same-boot")), "{verdict}");
        assert_eq!(stream(&verdict, "buffered+fdatasync")["verdict"], "no-cut");
        assert!(boot.exists());
    }
    // As after a restart; and as a cut may leave the file.
    for then in ["00000000-0000-0000-0000-000000000000\n", ""] {
        std::fs::write(&boot, then).expect("written");
        let (code, verdict) = stage.check(&["--run", &run]);
        assert_eq!((code, verdict["no_cut"].is_null()), (0, true), "{verdict}");
        assert_eq!(stream(&verdict, "buffered+fdatasync")["verdict"], "kept");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_in_order_although_it_goes_to_all_that_the_terminal_runs() {
    use std::os::unix::process::CommandExt as _;
    let stage = Stage::new();
    let mut run = stage.command("run", &["--method", "buffered", "--turn", "100ms"]);
    // As a shell does, so that the signal reaches it and every child that is not kept out of its group.
    let mut run = run.process_group(0).spawn().expect("starts");
    first_line(&mut run);
    let sent = Command::new("kill").args(["-INT", "--", &format!("-{}", run.id())]).status();
    assert!(sent.expect("is there").success());
    coded(0, &run.wait_with_output().expect("ends"));
    let (code, verdict) = stage.check(&[]);
    assert_eq!((code, verdict["no_cut"].as_str()), (1, Some("ended-by-itself")), "{verdict}");
}

#[cfg(unix)]
#[test]
fn a_check_does_not_wait_for_the_witness_of_a_dead_run() {
    let stage = Stage::new();
    // As sshd keeps it that has not noticed the cut: its input does not end while this test runs, and its output is taken.
    let lingers = stage.script("(cat; sleep 60) | $witness | (cat; cat >/dev/null)");
    let id = stage.killed_beside(&lingers, &["--method", "buffered+fdatasync", "--turn", "100ms"]);
    let held = Command::new(SEAWALL)
        .args(["log", "append", &format!("{}/{id}", stage.path("ledger"))])
        .stdin(Stdio::null())
        .output()
        .expect("ends");
    assert!(!held.status.success() && err(&held).contains("lock"), "no witness is left: {}", err(&held));
    for run in [&["--disk-cut"][..], &["--disk-cut", "--run", &id]] {
        let (code, verdict) = stage.check(run);
        assert_eq!((code, verdict["run"].as_str()), (0, Some(&*id)), "{verdict}");
        assert_eq!(counts(stream(&verdict, "buffered+fdatasync")), [0; 4]);
    }
}

#[cfg(unix)]
#[test]
fn no_record_is_issued_a_window_ahead_of_a_witness_that_confirms_nothing() {
    let stage = Stage::new();
    let mute =
        stage.script(&format!("printf '{{\"witness\":3}}\\n\"done\"\\n'\ncat >{}", stage.path("heard")));
    // Of a large window no more than fits into a pipe, whose writer would wait without an end.
    for (window, issued) in [("4", 4), ("600", 512)] {
        let id =
            stage.killed_beside(&mute, &["--method", "buffered", "--journal", "8MiB", "--window", window]);
        let heard = std::fs::read_to_string(stage.path("heard")).expect("reads");
        let last = format!("{{\"ack\":{{\"stream\":0,\"acknowledged\":{issued},\"trimmed\":0}}}}");
        assert_eq!(heard.lines().last(), Some(&*last));
        let journal = std::fs::read(stage.journal(&id, "00-buffered.journal")).expect("reads");
        let written = journal.chunks(RECORD_BYTES).filter(|slot| slot.iter().any(|byte| *byte != 0));
        assert_eq!(written.count(), issued, "each of them was acknowledged, and none further");
    }
}

#[cfg(unix)]
#[test]
fn writing_ends_with_the_witness_and_the_run_says_how_that_ended() {
    let stage = Stage::new();
    let known = stage.script(&format!("echo $$ >{}\nexec $witness", stage.path("pid")));
    let mut run = stage.through(&known, "run", &["--method", "log"]).spawn().expect("starts");
    first_line(&mut run);
    let pid = std::fs::read_to_string(stage.path("pid")).expect("reads");
    assert!(Command::new("kill").args(["-9", pid.trim()]).status().expect("is there").success());
    let (_, said) = coded(1, &run.wait_with_output().expect("ends"));
    assert!(said.contains("signal: 9") && said.contains(&known), "{said}");
}

#[cfg(unix)]
#[test]
fn what_a_false_witness_says_reaches_no_terminal_raw() {
    let stage = Stage::new();
    let obeyed = "\\u001b[2J\\u001b]0;title\\u0007\\nrun 00 broke no promise\\u202e";
    let raw = "\u{1b}[2J\u{1b}]0;title\u{7}\u{202e}";
    for (said, shown) in [
        (format!("{{\"witness\":3}}\n{{\"refused\":\"{obeyed}\"}}"), "refused: \\u{1b}[2J"),
        (format!("{{\"witness\":3}}\n{{\"{obeyed}\":1}}"), "cannot be read"),
        (raw.to_owned(), "cannot be read"),
    ] {
        std::fs::write(stage.path("said"), said + "\n").expect("written");
        for word in ["run", "check"] {
            let false_witness = format!("cat {}", stage.path("said"));
            let output = stage.through(&false_witness, word, &[]).output().expect("ends");
            let (_, printed) = coded(1, &output);
            assert!(printed.contains(shown), "{printed}");
            let raw = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(printed.lines().count() == 1 && !printed.contains(raw), "{printed:?}");
        }
    }
}
