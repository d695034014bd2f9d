//! Tests the `seawall log` commands through the program.

use crate::{SEAWALL, coded, err, folder, out};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn seawall(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(SEAWALL)
        .arg("log")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("is piped").write_all(input).expect("writes");
    child.wait_with_output().expect("ends")
}

/// A directory on the file system of the build, and where a log is to be in it.
fn scratch() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = folder();
    let log = dir.path().join("log");
    (dir, log)
}

/// What a command that ends with this code prints, and what it says.
#[track_caller]
fn ends(code: i32, arguments: &[&str], input: &[u8]) -> (String, String) {
    coded(code, &seawall(arguments, input))
}

fn damage(log: &Path, word: &[u8]) {
    let segment = log.join("00000000000000000001.seg");
    let mut bytes = std::fs::read(&segment).expect("reads");
    let at = bytes.windows(word.len()).position(|window| window == word).expect("is there");
    bytes[at] ^= 1;
    std::fs::write(&segment, bytes).expect("writes");
}

fn path(dir: &Path) -> &str {
    dir.to_str().expect("is text")
}

#[test]
fn lines_go_in_and_come_out_in_every_form() {
    let (dir, log) = scratch();
    let appended = seawall(&["append", path(&log)], b"one\ntwo\n\xFF\n");
    assert_eq!(out(&appended), "7\n14\n19\n", "the LSN of each record when it is durable");
    assert_eq!(seawall(&["cat", path(&log)], b"").stdout, b"one\ntwo\n\xFF\n");
    let json = out(&seawall(&["cat", path(&log), "--format", "json", "--from", "7"], b""));
    assert!(
        json.contains(r#""lsn":7"#)
            && json.contains(r#""text":"two""#)
            && json.contains(r#""base64":"/w==""#)
    );
    let raw = seawall(&["cat", path(&log), "--format", "raw"], b"").stdout;
    let copy = dir.path().join("copy");
    seawall(&["append", path(&copy), "--format", "raw", "--quiet"], &raw);
    assert_eq!(seawall(&["cat", path(&copy), "--format", "raw"], b"").stdout, raw);
    assert_eq!(out(&seawall(&["follow", path(&log), "--limit", "2"], b"")), "one\ntwo\n");
}

#[test]
fn damage_ends_verify_with_its_place_and_salvage_saves_the_rest() {
    let (dir, log) = scratch();
    for line in ["one\n", "two\n", "three\n"] {
        seawall(&["append", path(&log)], line.as_bytes());
    }
    assert!(seawall(&["verify", path(&log)], b"").status.success());
    damage(&log, b"two");
    let (verified, _) = ends(1, &["verify", path(&log)], b"");
    assert!(verified.contains("(LSN 7)"), "{verified}");
    ends(1, &["append", path(&log)], b"four\n");
    let saved = dir.path().join("saved");
    let (salvaged, _) = ends(1, &["salvage", path(&log), path(&saved)], b"");
    assert!(salvaged.contains("left out     LSN "), "{salvaged}");
    assert_eq!(seawall(&["cat", path(&saved)], b"").stdout, b"one\nthree\n");
}

#[test]
fn trim_and_stat_agree_and_what_is_no_log_is_refused() {
    let (dir, log) = scratch();
    seawall(&["append", path(&log)], b"one\ntwo\n");
    assert!(seawall(&["trim", path(&log), "7"], b"").status.success());
    assert_eq!(seawall(&["cat", path(&log)], b"").stdout, b"two\n");
    let stat = out(&seawall(&["stat", path(&log)], b""));
    assert!(stat.contains("first LSN    7\n") && stat.contains("end LSN      14\n"), "{stat}");
    for command in ["cat", "stat", "verify"] {
        let (_, printed) = ends(1, &[command, path(dir.path())], b"");
        assert!(printed.contains("holds no log"), "{command}: {printed}");
    }
}

/// Standard output that takes nothing: every write fails for want of space.
#[cfg(target_os = "linux")]
fn full() -> Stdio {
    std::fs::File::create("/dev/full").expect("opens").into()
}

/// A pipe without a reader.
fn gone() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("makes a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn results_that_nobody_reads_are_no_failure_but_damage_is() {
    let (dir, log) = scratch();
    seawall(&["append", path(&log)], b"one\ntwo\n");
    let salvaged = dir.path().join("salvaged");
    let commands: [&[&str]; 5] = [
        &["verify", path(&log)],
        &["stat", path(&log)],
        &["cat", path(&log)],
        &["trim", path(&log), "7"],
        &["salvage", path(&log), path(&salvaged)],
    ];
    let run = |arguments: &[&str], output: Stdio| {
        let mut command = Command::new(SEAWALL);
        command.arg("log").args(arguments).stdin(Stdio::null()).stdout(output).output().expect("runs")
    };
    for command in commands {
        let ended = run(command, gone());
        assert!(ended.status.success() && ended.stderr.is_empty(), "{command:?}: {}", err(&ended));
    }
    // Damage is an error even if the report cannot be printed.
    damage(&log, b"two");
    let ended = run(&["verify", path(&log)], gone());
    assert_eq!(ended.status.code(), Some(1));
    assert!(err(&ended).contains("1 damaged place"), "{}", err(&ended));
}

/// What is not a whole record ends `append`, but takes nothing of what came before it along.
#[test]
fn what_was_accepted_before_an_error_becomes_durable_and_the_log_is_closed() {
    let (_dir, log) = scratch();
    let ended = seawall(&["append", path(&log), "--format", "raw"], b"\x01\0\0\0a\x01\0\0\0b\x05\0\0\0cd");
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(out(&ended), "5\n10\n", "the LSNs of the two whole ones");
    let error = err(&ended);
    assert!(error.contains("error: record 3 of the input: it is truncated"), "{error}");
    assert!(
        error.contains("durable: 2 record(s) of the input; not appended: record 3 and everything"),
        "{error}"
    );
    assert_eq!(seawall(&["cat", path(&log)], b"").stdout, b"a\nb\n");
    let verified = out(&seawall(&["verify", path(&log)], b""));
    assert!(verified.contains("tail         closed\n"), "{verified}");
}

#[cfg(target_os = "linux")]
#[test]
fn lsns_that_cannot_be_printed_end_append_with_an_account_of_what_is_durable() {
    let (dir, log) = scratch();
    let append = |output: Stdio| {
        let lines: Vec<u8> = (0..5000).flat_map(|_| *b"x\n").collect();
        let input = dir.path().join("input");
        std::fs::write(&input, lines).expect("writes");
        let mut command = Command::new(SEAWALL);
        command.args(["log", "append", path(&log)]).stdin(std::fs::File::open(&input).expect("opens"));
        command.stdout(output).output().expect("runs")
    };
    let records = || out(&seawall(&["cat", path(&log)], b"")).lines().count();
    let ended = append(full());
    assert_eq!(ended.status.code(), Some(1));
    let error = err(&ended);
    assert!(error.contains("error: cannot write to standard output"), "{error}");
    assert!(error.contains("durable: 128 line(s) of the input; not appended: line 129"), "{error}");
    assert_eq!(records(), 128, "as many as are printed as durable");
    let verified = out(&seawall(&["verify", path(&log)], b""));
    assert!(verified.contains("tail         closed\n"), "{verified}");
    let ended = append(gone());
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", err(&ended));
    assert_eq!(records(), 5128, "the LSNs have no reader, but the records are kept");
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_that_had_to_leave_io_uring_says_so_in_one_line() {
    const EPERM: u16 = 1;
    let (dir, log) = scratch();
    let saved = dir.path().join("saved");
    let outputs = std::thread::scope(|scope| {
        let confined = scope.spawn(|| {
            // Of this thread, and of the processes that it starts.
            seawall_host::confinement::forbid_io_uring(EPERM).expect("a filter");
            let append = seawall(&["append", path(&log)], b"one\ntwo\n");
            let trim = seawall(&["trim", path(&log), "7"], b"");
            let salvage = seawall(&["salvage", path(&log), path(&saved)], b"");
            let only = seawall(&["append", path(&dir.path().join("only")), "--engine", "io_uring"], b"one\n");
            ([append, trim, salvage], only)
        });
        confined.join().expect("no panic")
    });
    let (outputs, only) = outputs;
    assert!(only.status.code() == Some(1) && err(&only).contains("--engine automatic"), "{}", err(&only));
    for output in outputs {
        let error = err(&output);
        let lines =
            error.lines().filter(|line| line.contains("using the portable engine: io_uring is refused"));
        assert_eq!(lines.count(), 1, "{error}");
    }
    let cat = seawall(&["cat", path(&log)], b"");
    assert!(cat.stderr.is_empty() && cat.stdout == b"two\n", "what only reads has no engine to leave");
}

#[test]
fn a_trim_past_the_end_is_refused_and_names_the_end() {
    let (_dir, log) = scratch();
    seawall(&["append", path(&log)], b"one\ntwo\n");
    let (_, printed) = ends(1, &["trim", path(&log), "99999999999999"], b"");
    assert!(printed.contains("past the end of the log, 14"), "{printed}");
    assert_eq!(seawall(&["cat", path(&log)], b"").stdout, b"one\ntwo\n");
    assert!(out(&seawall(&["verify", path(&log)], b"")).contains("tail         closed"));
    assert!(seawall(&["trim", path(&log), "14"], b"").status.success(), "the end itself is no exception");
}

#[test]
fn a_damaged_block_costs_a_part_of_what_was_piped_in() {
    let (dir, log) = scratch();
    let lines: String = (0..1000).fold(String::new(), |lines, i| lines + &format!("line {i}\n"));
    seawall(&["append", path(&log), "--quiet"], lines.as_bytes());
    let segment = log.join("00000000000000000001.seg");
    let mut bytes = std::fs::read(&segment).expect("reads");
    bytes[4096 + 200] ^= 1;
    std::fs::write(&segment, bytes).expect("writes");
    let saved = dir.path().join("saved");
    let (salvaged, _) = ends(1, &["salvage", path(&log), path(&saved)], b"");
    assert!(salvaged.contains("left out     LSN 0 to "), "{salvaged}");
    let left = seawall(&["cat", path(&saved)], b"").stdout.split(|byte| *byte == b'\n').count();
    assert!(left > 800, "{left}");
}

#[cfg(unix)]
#[test]
fn the_name_of_a_file_forges_no_line_and_moves_no_cursor() {
    let (_dir, log) = scratch();
    seawall(&["append", path(&log)], b"one\n");
    std::fs::write(log.join("x\ndamage       none\n\u{1b}[2J"), b"").expect("writes");
    let printed = out(&seawall(&["verify", path(&log)], b""));
    assert_eq!(printed.lines().filter(|line| line.starts_with("damage")).count(), 1, "{printed}");
    assert!(!printed.contains('\u{1b}'), "{printed:?}");
}

#[cfg(unix)]
#[test]
fn a_lock_that_is_no_file_is_named_by_every_command_and_none_waits_for_it() {
    type Put = fn(&Path);
    let kinds: [(&str, Put); 3] = [
        ("a folder", |at| std::fs::create_dir(at).expect("made")),
        ("a link", |at| std::os::unix::fs::symlink("nothing", at).expect("linked")),
        ("a pipe", |at| assert!(Command::new("mkfifo").arg(at).status().expect("mkfifo").success())),
    ];
    for (kind, put) in kinds {
        let (dir, log) = scratch();
        seawall(&["append", path(&log)], b"one\n");
        std::fs::remove_file(log.join("LOCK")).expect("removed");
        put(&log.join("LOCK"));
        for arguments in [
            &["append", path(&log)][..],
            &["trim", path(&log), "0"],
            &["stat", path(&log)],
            &["cat", path(&log)],
        ] {
            let ended = seawall(arguments, b"");
            assert_eq!(ended.status.code(), Some(1), "{kind} {arguments:?}: {}", out(&ended));
            assert!(err(&ended).contains("LOCK"), "{kind} {arguments:?}: {}", err(&ended));
        }
        assert!(!dir.path().join("nothing").exists() && !log.join("nothing").exists());
    }
}

/// `seawall log follow`, whose output is read line by line.
struct Follow {
    child: std::process::Child,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Follow {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(SEAWALL);
        command.args(["log", "follow"]).args(arguments).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("is piped")));
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("goes on").expect("reads")
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_follow_reads_next_to_nothing_and_goes_on_when_there_is_more() {
    let (_dir, log) = scratch();
    let line = vec![b'x'; 1 << 20];
    let lines: Vec<u8> = (0..12).flat_map(|_| [&line[..], b"\n"].concat()).collect();
    seawall(&["append", path(&log), "--quiet"], &lines);
    let mut follow = Follow::start(&[path(&log)]);
    for _ in 0..12 {
        assert_eq!(follow.line().len(), line.len());
    }
    let read = || {
        let printed = std::fs::read_to_string(format!("/proc/{}/io", follow.child.id())).expect("is there");
        let line = printed.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("is printed");
        line.parse::<u64>().expect("is a number")
    };
    let before = read();
    // Time for twenty looks; that a slow machine takes fewer of them makes no difference to the bound.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let read = read() - before;
    assert!(read < 1 << 20, "{read} bytes were read for nothing");
    for more in ["more", "and more"] {
        seawall(&["append", path(&log), "--quiet"], format!("{more}\n").as_bytes());
        assert_eq!(follow.line(), more);
    }
}

/// A log of this process that one `seawall log follow` has read to its end, where nothing happens any more.
#[cfg(target_os = "linux")]
fn followed(dir: &std::path::Path) -> (seawall::Log, Follow) {
    let log = seawall::Log::open(dir, seawall::Options::default()).expect("opens");
    log.append_commit(b"one").expect("commits");
    let mut follow = Follow::start(&[path(dir)]);
    assert_eq!(follow.line(), "one");
    (log, follow)
}

#[cfg(target_os = "linux")]
#[test]
fn a_follow_is_woken_by_the_writer() {
    let (dir, _) = scratch();
    let (log, mut follow) = followed(dir.path());
    let mut next = 0;
    while log.stats().follower_wakes == 0 {
        log.append_commit(format!("{next}").as_bytes()).expect("commits");
        assert_eq!(follow.line(), format!("{next}"));
        next += 1;
    }
    assert_eq!(log.opened().channel_refused, None);
}

#[cfg(target_os = "linux")]
#[test]
fn a_follow_ends_with_0_when_it_is_interrupted() {
    for signal in ["INT", "TERM"] {
        let (dir, _) = scratch();
        let (_log, mut follow) = followed(dir.path());
        let id = follow.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().expect("runs").success());
        assert_eq!(follow.child.wait().expect("ends").code(), Some(0), "{signal}");
        assert!(follow.lines.next().is_none(), "nothing is left");
        let mut printed = String::new();
        std::io::Read::read_to_string(&mut follow.child.stderr.take().expect("is piped"), &mut printed)
            .expect("reads");
        assert_eq!(printed, "", "{signal}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_follow_ends_when_nobody_reads_its_pipe_though_nothing_happens() {
    let (dir, _) = scratch();
    let (_log, follow) = followed(dir.path());
    let Follow { child, lines } = &mut { follow };
    // In its place a reader that has all of it.
    *lines = std::io::BufRead::lines(std::io::BufReader::new(nothing()));
    assert_eq!(child.wait().expect("ends").code(), Some(0));
}

/// The output of a program that has ended.
#[cfg(target_os = "linux")]
fn nothing() -> std::process::ChildStdout {
    let mut ended = Command::new("true").stdout(Stdio::piped()).spawn().expect("runs");
    ended.wait().expect("ends");
    ended.stdout.take().expect("is piped")
}

#[test]
fn a_follow_that_is_overtaken_by_a_trim_says_so_once_and_goes_on() {
    let (_dir, log) = scratch();
    seawall(&["append", path(&log)], b"one\ntwo\nthree\n");
    seawall(&["trim", path(&log), "7"], b"");
    let (records, printed) = ends(0, &["follow", path(&log), "--from", "0", "--limit", "2"], b"");
    assert_eq!(records, "two\nthree\n", "{printed}");
    assert!(printed.starts_with("trimmed: LSN 0 to 7 ") && printed.lines().count() == 1, "{printed}");
}

/// A reader that its pipe holds up, while the log is trimmed to its end.
#[test]
fn a_follow_that_waits_for_its_pipe_while_the_log_is_trimmed_goes_on_with_the_first_record_kept() {
    let (_dir, log) = scratch();
    let writer = seawall::Log::open(&log, seawall::Options::default().segment_bytes(65536)).expect("opens");
    let append = |text: String| writer.append_commit(text.as_bytes()).expect("appends");
    for i in 0..400 {
        append(format!("{i} {}", "x".repeat(16 << 10)));
    }
    let mut follow = Follow::start(&[path(&log)]);
    assert!(follow.line().starts_with("0 "));
    let end = append("forgotten".to_owned());
    assert_eq!(writer.trim(end.end).expect("trims"), end.end);
    // The files go away in the background.
    let until = seawall_sys::clock::monotonic_ns() + 60_000_000_000;
    let is_old = |name: &std::ffi::OsStr| {
        name.to_str()
            .and_then(|name| name.strip_suffix(".seg")?.parse::<u64>().ok())
            .is_some_and(|number| number < 100)
    };
    let entries = || std::fs::read_dir(&log).expect("reads").map(|entry| entry.expect("reads").file_name());
    while entries().any(|name| is_old(&name)) {
        assert!(seawall_sys::clock::monotonic_ns() < until, "trimmed segments stay");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    append("kept".to_owned());
    append("last".to_owned());
    let mut line = follow.line();
    while line.len() > 1000 {
        line = follow.line();
    }
    assert_eq!((line.as_str(), follow.line().as_str()), ("kept", "last"));
    let mut printed = String::new();
    follow.child.kill().expect("is ours");
    std::io::Read::read_to_string(&mut follow.child.stderr.take().expect("is piped"), &mut printed)
        .expect("reads");
    assert_eq!(printed.lines().filter(|line| line.starts_with("trimmed: ")).count(), 1, "{printed}");
    writer.close().expect("closes");
}

#[test]
fn what_cat_prints_as_json_append_takes_with_its_transactions() {
    let (dir, _) = scratch();
    let (log, copy) = (dir.path().join("log"), dir.path().join("copy"));
    let writer = seawall::Log::open(&log, seawall::Options::default()).expect("opens");
    writer.append(b"one").expect("appends");
    let records: [&[u8]; 3] = [b"two\n", b"\xFF\x1b", b""];
    let two =
        writer.transaction(|transaction| records.iter().try_for_each(|record| transaction.append(record)));
    writer.commit(two.expect("appends")).expect("commits");
    writer.append_commit("drei \u{9b}".as_bytes()).expect("appends");
    writer.close().expect("closes");
    let cat = |log: &Path| seawall(&["cat", path(log), "--format", "json"], b"").stdout;
    let printed = cat(&log);
    assert!(String::from_utf8_lossy(&printed).contains("\"ends_transaction\":false"));
    let appended = seawall(&["append", path(&copy), "--format", "json"], &printed);
    assert!(appended.status.success(), "{}", err(&appended));
    assert_eq!(cat(&copy), printed, "the new log gives the same LSNs");
    let lsns: Vec<String> = String::from_utf8_lossy(&printed)
        .lines()
        .map(|line| {
            line.split("\"end\":").nth(1).expect("is printed").split(',').next().expect("is there").to_owned()
        })
        .collect();
    assert_eq!(out(&appended).lines().collect::<Vec<_>>(), lsns);
    let cut: Vec<u8> = printed.split_inclusive(|byte| *byte == b'\n').take(2).flatten().copied().collect();
    let (_, error) = ends(1, &["append", path(&copy), "--format", "json"], &cut);
    assert!(error.contains("the input ends within a transaction"), "{error}");
    assert!(error.contains("durable: 1 line(s) of the input; not appended: line 2"), "{error}");
    let (_, error) = ends(1, &["append", path(&copy), "--format", "json"], b"not json\n");
    assert!(error.contains("line 1 of the input: it is not JSON"), "{error}");
}

#[test]
fn stat_and_verify_tell_the_same_as_json() {
    let (_dir, log) = scratch();
    seawall(&["append", path(&log)], b"one\ntwo\n");
    let answer_of = |command: &str| {
        let output = seawall(&[command, path(&log), "--format", "json"], b"");
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        (output.status.code(), value)
    };
    let (code, stat) = answer_of("stat");
    assert_eq!((code, &stat["end"], &stat["writer"]), (Some(0), &14.into(), &false.into()), "{stat}");
    assert_eq!((&stat["tail"], &stat["claims"]), (&"closed".into(), &"power loss".into()), "{stat}");
    // Neighbours that flush all the time leave it unconfirmed.
    let unconfirmed = stat["evidence"] == "not-confirmed";
    let outlives = if unconfirmed { "power loss, not confirmed" } else { "power loss" };
    assert_eq!(stat["outlives"], outlives, "{stat}");
    // As behind a mount, or in a copy: nobody has looked yet.
    std::fs::remove_file(log.join("METHOD")).expect("removes");
    let (_, unseen) = answer_of("stat");
    assert_eq!(
        (&unseen["outlives"], unseen["evidence"].is_null()),
        (&"power loss, not confirmed".into(), true),
        "{unseen}"
    );
    let (code, report) = answer_of("verify");
    assert_eq!(
        (code, &report["records"], &report["identity"]),
        (Some(0), &2.into(), &stat["identity"]),
        "{report}"
    );
    assert_eq!(report["damage"], serde_json::json!([]));
    damage(&log, b"one");
    let (code, report) = answer_of("verify");
    assert_eq!((code, &report["damage"][0]["lsn"]), (Some(1), &0.into()), "{report}");
}
