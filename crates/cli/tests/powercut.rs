//! Tests that `seawall powercut` finds exactly the records that are missing.
//!
//! The writer is killed instead of the machine: every record must be there then. After that the files are rolled
//! back, torn and mixed up on purpose, and check must count that damage.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const RECORD_BYTES: usize = 4096;

fn seawall(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    command
        .arg("powercut")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A witness, ended with the test, and the words that reach it.
struct Stage {
    dir: tempfile::TempDir,
    witness: Child,
    address: String,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.witness.kill().expect("is there to be ended");
        self.witness.wait().expect("ends");
    }
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder of the build");
        std::fs::write(dir.path().join("token"), "a token of this test only\n").expect("written");
        std::fs::create_dir(dir.path().join("disk")).expect("made");
        let (witness, address) = Self::witness(dir.path());
        Self { dir, witness, address }
    }

    fn witness(dir: &Path) -> (Child, String) {
        let (token, ledger) = (dir.join("token"), dir.join("ledger"));
        let mut witness = seawall(&["witness", "--listen", "127.0.0.1:0", "--token-file"])
            .arg(token)
            .arg("--ledger")
            .arg(ledger)
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let line = first_line(&mut witness);
        let address = line.strip_prefix("listening on ").expect("says where").to_owned();
        (witness, address)
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("is text").to_owned()
    }

    fn command(&self, word: &str, more: &[&str]) -> Command {
        let (disk, token) = (self.path("disk"), self.path("token"));
        let mut command = seawall(&[word, &disk, "--witness", &self.address, "--token-file", &token]);
        command.args(more);
        command
    }

    /// Runs until it is killed; gives the run's id.
    fn killed(&self, more: &[&str]) -> String {
        let mut run = self.command("run", more).spawn().expect("starts");
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
        (code, json.unwrap_or_else(|_| panic!("no verdict, exit code {code}: {}", error(&output))))
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

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
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
    // The last three taken back to zeros, together with whatever was written behind them.
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
fn what_was_confirmed_outlives_the_witness_and_a_run_can_end_by_itself() {
    let mut stage = Stage::new();
    let ended = stage.command("run", &["--method", "durable", "--turn", "50ms", "--duration", "1s"]).output();
    let ended = ended.expect("ends");
    assert!(ended.status.success(), "{}", error(&ended));
    let (_, before) = stage.check(&[]);
    stage.witness.kill().expect("is killed");
    stage.witness.wait().expect("ends");
    (stage.witness, stage.address) = Stage::witness(stage.dir.path());
    let (code, verdict) = stage.check(&[]);
    assert_eq!((code, verdict["ended"].as_bool()), (1, Some(true)), "no cut came: {verdict}");
    assert_eq!(verdict["no_cut"], "ended-by-itself");
    let printed = stage.command("check", &[]).output().expect("ends");
    let shown = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(
        error(&printed).contains("no cut came") && shown.contains("no cut") && !shown.contains("kept"),
        "{shown}"
    );
    assert_eq!(before["streams"], verdict["streams"]);
    let streams = verdict["streams"].as_array().expect("streams");
    assert!(streams.len() > 3 && streams.iter().any(|stream| stream["acknowledged"].as_u64() > Some(0)));
}

#[test]
fn who_does_not_know_the_token_and_what_cannot_be_judged_is_refused_with_a_remedy() {
    let stage = Stage::new();
    let refused = |command: &mut Command, code: i32, words: &[&str]| {
        let output = command.output().expect("ends");
        let printed = error(&output);
        assert_eq!(output.status.code(), Some(code), "{printed}");
        for word in words {
            assert!(printed.contains(word), "{word:?} in {printed}");
        }
    };
    std::fs::write(stage.dir.path().join("other"), "another run's token").expect("written");
    std::fs::write(stage.dir.path().join("short"), "short").expect("written");
    let (disk, other, short) = (stage.path("disk"), stage.path("other"), stage.path("short"));
    let with =
        |word: &str, token: &str| seawall(&[word, &disk, "--witness", &stage.address, "--token-file", token]);
    refused(&mut with("run", &other), 1, &["refused", "token"]);
    refused(&mut with("check", &other), 1, &["refused", "token"]);
    refused(&mut with("run", &short), 1, &["16 bytes", "urandom"]);
    refused(&mut stage.command("check", &[]), 1, &["no run yet"]);
    refused(&mut stage.command("check", &["--run", "xyz"]), 2, &["32 hexadecimal digits"]);
    refused(&mut stage.command("run", &["--method", "bufered"]), 1, &["bufered", "seawall methods"]);
    refused(&mut stage.command("run", &["--size", "513"]), 1, &["--size 513"]);
    refused(&mut stage.command("run", &["--window", "1"]), 1, &["--window 1", "log"]);
    refused(&mut stage.command("run", &["--journal", "8KiB"]), 1, &["--journal"]);
    let refusal = seawall(&["check", &disk, "--witness", "127.0.0.1:1", "--token-file", &other]).output();
    let refusal = error(&refusal.expect("ends"));
    assert!(
        refusal.contains("reach the witness at 127.0.0.1:1") && refusal.contains("powercut witness"),
        "{refusal}"
    );
    let (token, second) = (stage.path("token"), stage.path("second"));
    let witness =
        |listen: &str| seawall(&["witness", "--listen", listen, "--token-file", &token, "--ledger", &second]);
    refused(&mut witness(&stage.address), 1, &["listen on", &stage.address, "--listen"]);
    let held = stage.path("ledger");
    let mut twin =
        seawall(&["witness", "--listen", "127.0.0.1:0", "--token-file", &token, "--ledger", &held]);
    refused(&mut twin, 1, &["ledger"]);
    let nowhere = stage.path("nowhere");
    let gone = |word: &str| seawall(&[word, &nowhere, "--witness", &stage.address, "--token-file", &token]);
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
fn ctrl_c_ends_a_witness_and_a_run_in_order() {
    let mut stage = Stage::new();
    let interrupt = |child: &mut Child| {
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.expect("is there").success());
        child.wait().expect("ends").code()
    };
    let mut run = stage.command("run", &["--method", "buffered", "--turn", "100ms"]).spawn().expect("starts");
    first_line(&mut run);
    assert_eq!(interrupt(&mut run), Some(0));
    let (code, verdict) = stage.check(&[]);
    assert_eq!((code, verdict["no_cut"].as_str()), (1, Some("ended-by-itself")), "{verdict}");
    assert_eq!(interrupt(&mut stage.witness), Some(0));
    for word in ["witness", "run"] {
        let help = seawall(&[word, "--help"]).output().expect("ends");
        assert!(!String::from_utf8_lossy(&help.stdout).contains("130"), "{word}");
    }
}

#[test]
fn a_witness_is_reached_from_this_host_only_unless_requested() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let help = seawall(&["witness", "--help"]).output().expect("ends");
    assert!(String::from_utf8_lossy(&help.stdout).contains("[default: 127.0.0.1:7643]"));
    let token = dir.path().join("token");
    std::fs::write(&token, "a token of this test only\n").expect("written");
    for (listen, ip) in [("127.0.0.1:0", "127.0.0.1:"), ("0.0.0.0:0", "0.0.0.0:")] {
        let mut witness = seawall(&["witness", "--listen", listen, "--token-file"]);
        let mut witness =
            witness.arg(&token).arg("--ledger").arg(dir.path().join("ledger")).spawn().expect("starts");
        let line = first_line(&mut witness);
        witness.kill().expect("is killed");
        witness.wait().expect("ends");
        assert!(line.starts_with(&format!("listening on {ip}")), "{line}");
    }
}

#[test]
fn what_a_false_witness_says_reaches_no_terminal_raw() {
    let stage = Stage::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let text = b"\x1b[2J\x1b]0;title\x07\x1b]52;c;eA==\x07\nrun 00 broke no promise\xe2\x80\xae";
    let mut frame = b"SWPW\x02\x04".to_vec();
    frame.extend(u16::try_from(text.len()).expect("is short").to_le_bytes());
    frame.extend([0; 8]);
    frame.extend(text);
    frame.extend([0; 16]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().expect("accepts");
                std::io::Write::write_all(&mut stream, &frame).expect("is sent");
                // Until the other side has closed it.
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            }
        });
        let (disk, token) = (stage.path("disk"), stage.path("token"));
        for word in ["run", "check"] {
            let output = seawall(&[word, &disk, "--witness", &address, "--token-file", &token]).output();
            let output = output.expect("ends");
            let printed = error(&output);
            assert_eq!(output.status.code(), Some(1), "{printed}");
            assert!(printed.contains("refused") && printed.contains("without a proof"), "{printed}");
            assert_eq!(printed.lines().count(), 1, "{printed:?}");
            let raw =
                |character: char| character != '\n' && (character.is_control() || character == '\u{202e}');
            assert!(!printed.contains(raw), "{printed:?}");
        }
    });
}
