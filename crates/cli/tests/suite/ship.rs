//! Tests `seawall log ship`, `rebuild` and `drill` on folders, as a user calls them.

use crate::{SEAWALL, coded, folder};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use seawall::{Log, Lsn, Options, View};

fn seawall(words: &[&str]) -> Output {
    crate::seawall(Path::new("."), words)
}

/// What a command that ends with this code prints, and what it says.
#[track_caller]
fn ends(code: i32, words: &[&str]) -> (String, String) {
    coded(code, &seawall(words))
}

/// A directory that vanishes, and the path of a name in it.
fn place() -> (tempfile::TempDir, impl Fn(&str) -> String) {
    let dir = folder();
    let at = dir.path().to_owned();
    (dir, move |name| at.join(name).display().to_string())
}

fn written(dir: &Path, records: u8) -> Lsn {
    let log = Log::open(dir, Options::default().segment_bytes(64 << 10)).expect("opens");
    let end = (0..records).map(|i| log.append_commit(&vec![i; 3000]).expect("commits")).last();
    log.close().expect("closes");
    end.expect("some").end
}

#[test]
fn a_log_goes_to_an_archive_and_comes_back() {
    let (dir, path) = place();
    let (log, archive, again) = (path("log"), format!("folder:{}", path("archive")), path("again"));
    let end = written(Path::new(&log), 60);
    let (out, err) = ends(0, &["log", "ship", &log, "--to", &archive, "--object-bytes", "32k", "--once"]);
    assert_eq!(out, format!("acknowledged {end}\n"));
    // Before anything is sent: what it outlives, and what it costs.
    assert!(err.contains("outlives power-everywhere") && err.contains("NOT machine"), "{err}");
    assert!(err.contains("at most 17280 requests a day, lists included"), "{err}");
    let (out, err) = ends(0, &["log", "drill", "--from", &archive, "--log", &log]);
    assert!(out.contains(&format!("60 records, LSN 0 to {end}")), "{out}{err}");
    let (out, err) = ends(0, &["log", "rebuild", &again, "--from", &archive, "--fence"]);
    assert!(out.contains("taken over with epoch 2"), "{out}{err}");
    let (old, new) = (View::open(&log).expect("opens"), View::open(&again).expect("opens"));
    assert_eq!((old.log_id(), old.end_lsn()), (new.log_id(), new.end_lsn()));
    // The old one is refused from now on, with the remedy, and nothing of it is lost.
    written(Path::new(&log), 3);
    let (_, err) = ends(7, &["log", "ship", &log, "--to", &archive, "--once"]);
    assert!(err.contains("belongs to the log of another directory") && err.contains("rebuild"), "{err}");
    written(Path::new(&again), 3);
    ends(0, &["log", "ship", &again, "--to", &archive, "--once"]);
    // A copy of an earlier state takes nothing over.
    let copy = path("copy");
    let (out, err) = ends(0, &["log", "rebuild", &copy, "--from", &archive, "--lsn", &end.to_string()]);
    assert!(out.contains("this is a copy"), "{out}{err}");
    assert_eq!(View::open(&copy).expect("opens").end_lsn(), end);
    let near = path("near");
    let (_, err) = ends(0, &["log", "rebuild", &near, "--from", &archive, "--copy", "--skip-trimmed"]);
    assert!(err.contains("LSN 0 to ") && err.contains("to read"), "{err}");
    let two = ["log", "rebuild", &copy, "--from", &archive, "--from", &log, "--skip-trimmed"];
    let refused = seawall(&two);
    assert!(!refused.status.success(), "it takes one source");
    // Without manifests everything is read, and said to be.
    std::fs::remove_dir_all(dir.path().join("archive/manifests")).expect("removes");
    let bare = path("bare");
    let (out, err) = ends(0, &["log", "rebuild", &bare, "--from", &archive, "--copy", "--skip-trimmed"]);
    assert!(err.contains("everything is read"), "{out}{err}");
    let (out, err) = ends(0, &["log", "retain", "--at", &archive, "--keep-segments", "0", "--dry-run"]);
    assert!(out.contains("all messages were read"), "{out}{err}");
    assert!(seawall(&["log", "verify", &copy]).status.success());
}

#[test]
fn a_standby_that_a_retention_overtakes_is_named_and_ends_as_damaged() {
    let (dir, path) = place();
    let (log, archive, standby) = (path("log"), format!("folder:{}", path("archive")), path("standby"));
    let ship = || {
        ends(0, &["log", "ship", &log, "--to", &archive, "--object-bytes", "16k", "--once"]);
    };
    written(Path::new(&log), 60);
    ship();
    let mut service = Command::new(SEAWALL);
    service.args(["log", "standby", &standby, "--from", &archive]);
    let mut service = service.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    while std::fs::read_dir(dir.path().join("archive/standbys")).map_or(0, Iterator::count) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    service.kill().expect("is there");
    service.wait().expect("ends");
    ends(0, &["log", "standby", &standby, "--from", &archive, "--once"]);
    let end = written(Path::new(&log), 200);
    ship();
    ends(0, &["log", "trim", &log, &end.get().to_string()]);
    written(Path::new(&log), 20);
    ship();
    for dry in [&["--dry-run"][..], &[]] {
        let retain = [&["log", "retain", "--at", &archive, "--keep-segments", "0"][..], dry].concat();
        let (out, err) = ends(0, &retain);
        assert!(out.contains("it must start over"), "{out}{err}");
    }
    for words in [
        &["log", "standby", &standby, "--from", &archive, "--once"][..],
        &["log", "takeover", &standby, "--from", &archive, "--dry-run"],
        &["log", "takeover", &standby, "--from", &archive, "--fence"],
    ] {
        let (_, err) = ends(9, words);
        assert!(err.contains("a retention removed message"), "{err}");
    }
    // What it says there helps.
    std::fs::remove_dir_all(&standby).expect("removes");
    ends(0, &["log", "standby", &standby, "--from", &archive, "--once"]);
}

#[test]
fn a_damaged_archive_and_a_wrong_address_are_named() {
    let (dir, path) = place();
    let (log, archive) = (path("log"), format!("folder:{}", path("archive")));
    written(Path::new(&log), 60);
    ends(0, &["log", "ship", &log, "--to", &archive, "--object-bytes", "32k", "--once"]);
    std::fs::remove_file(dir.path().join("archive/messages/00000000000000000003")).expect("removes");
    for words in [
        &["log", "drill", "--from", &archive][..],
        &["log", "rebuild", &path("again"), "--from", &archive, "--fence"],
    ] {
        let (_, err) = ends(9, words);
        assert!(err.contains("message 3 of the destination is damaged: it is missing"), "{err}");
    }
    assert!(!dir.path().join("again").exists(), "nothing gets the name");
    for (address, named, code) in [
        ("nowhere", "nats://HOST:PORT/STREAM", 2),
        ("folder:/nowhere/at/all", "holds no archive", 1),
        ("nats://127.0.0.1:1", "name the stream", 2),
    ] {
        let (_, err) = ends(code, &["log", "drill", "--from", address]);
        assert!(err.contains(named), "{address}: {err}");
    }
    let (_, err) = ends(1, &["log", "ship", &path("none"), "--to", &archive, "--once"]);
    assert!(err.contains("none"), "{err}");
}

/// A standby is killed at any time, while the log is written and shipped; each goes on where the one before it was saved.
#[test]
fn a_standby_that_is_killed_goes_on_and_takes_over() {
    let (_dir, path) = place();
    let (log, archive, copy) = (path("log"), format!("folder:{}", path("archive")), path("copy"));
    written(Path::new(&log), 20);
    let ship = || {
        ends(0, &["log", "ship", &log, "--to", &archive, "--object-bytes", "16k", "--once"]);
    };
    ship();
    for round in 0..12 {
        let mut standby = Command::new(SEAWALL);
        standby.args(["log", "standby", &copy, "--from", &archive]).stdin(Stdio::null());
        let mut standby = standby.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        written(Path::new(&log), 20);
        ship();
        std::thread::sleep(std::time::Duration::from_millis(round * 37 % 400));
        assert!(standby.try_wait().expect("looks").is_none(), "it goes on until it is killed");
        standby.kill().expect("kills");
        standby.wait().expect("ends");
        for words in [&["log", "verify", &copy][..], &["log", "cat", &copy], &["log", "stat", &copy]] {
            let (_, err) = ends(1, words);
            assert!(err.contains("seawall log takeover"), "{err}");
        }
    }
    let (out, err) = ends(0, &["log", "standby", &copy, "--from", &archive, "--once"]);
    let end = View::open(&log).expect("opens").end_lsn();
    assert_eq!(out, format!("followed to LSN {end}, epoch 13\n"), "{err}");
    let other = path("other");
    ends(0, &["log", "standby", &other, "--from", &archive, "--once"]);
    let (out, err) = ends(0, &["log", "takeover", &copy, "--from", &archive, "--fence"]);
    assert!(out.contains("taken over with epoch 14"), "{out}{err}");
    let (cats, late) = ([&log, &copy].map(|dir| seawall(&["log", "cat", dir]).stdout), other);
    assert!(cats[0] == cats[1] && !cats[0].is_empty());
    // One that was killed after its last step may be tried again.
    let (out, err) = ends(0, &["log", "takeover", &copy, "--from", &archive, "--fence"]);
    assert!(out.contains("is the log already"), "{out}{err}");
    // Whoever comes second is told so, and so is the old writer.
    let (_, err) = ends(7, &["log", "takeover", &late, "--from", &archive, "--fence"]);
    assert!(err.contains("epoch 14"), "{err}");
    let (_, err) = ends(7, &["log", "ship", &log, "--to", &archive, "--once"]);
    assert!(err.contains("rebuild"), "{err}");
}

/// Of two archives one is damaged: the log comes from both, and the command says which and ends with 9.
#[test]
fn several_archives_make_up_for_each_other() {
    let (dir, path) = place();
    let (log, again) = (path("log"), path("again"));
    let [one, two] = ["one", "two"].map(|name| format!("folder:{}", path(name)));
    written(Path::new(&log), 60);
    for (to, size) in [(&one, "32k"), (&two, "20k")] {
        ends(0, &["log", "ship", &log, "--to", to, "--object-bytes", size, "--once"]);
    }
    let both = ["log", "drill", "--from", &one, "--from", &two, "--log", &log];
    let (out, err) = ends(0, &both);
    assert!(out.contains("60 records"), "{out}{err}");
    let damaged = dir.path().join("one/messages/00000000000000000003");
    let mut bytes = std::fs::read(&damaged).expect("reads");
    bytes[5000] ^= 1;
    std::fs::write(&damaged, bytes).expect("writes");
    let (out, err) = ends(9, &both);
    assert!(out.contains("60 records"), "{out}{err}");
    assert!(err.contains("message 3") && err.contains(&one) && !err.contains(&two), "{err}");
    let (out, err) = ends(9, &["log", "rebuild", &again, "--from", &one, "--from", &two, "--fence"]);
    assert!(out.contains("60 records"), "{out}{err}");
    assert!(err.contains("message 3") && err.contains("made up for it"), "{err}");
    let cats = [&log, &again].map(|dir| seawall(&["log", "cat", dir]).stdout);
    assert!(cats[0] == cats[1] && !cats[0].is_empty());
}

/// Nobody is refused without an answer: not by a dry run, not where there is nobody to ask, and not into a folder with a mistake in its name.
#[test]
fn a_take_over_is_asked_for() {
    let (dir, path) = place();
    let (log, archive, copy) = (path("log"), format!("folder:{}", path("archive")), path("copy"));
    let end = written(Path::new(&log), 20);
    let dry = ["log", "ship", &log, "--to", &archive, "--dry-run"];
    let (out, _) = ends(0, &dry);
    assert!(out.contains("would make") && !dir.path().join("archive").exists(), "{out}");
    ends(0, &["log", "ship", &log, "--to", &archive, "--once"]);
    written(Path::new(&log), 5);
    let (out, err) = ends(0, &dry);
    assert!(out.contains("5 records, ") && out.contains(&format!("LSN {end} to")), "{out}{err}");
    ends(0, &["log", "standby", &copy, "--from", &archive, "--once"]);
    let again = path("again");
    for (words, code, says) in [
        (&["rebuild", &again, "--from", &archive][..], 2, "--fence"),
        (&["rebuild", &again, "--from", &archive, "--dry-run"], 0, "nothing was changed"),
        (&["rebuild", &again, "--from", &archive, "--copy", "--dry-run"], 0, "nobody fenced"),
        (&["rebuild", &path("no/such/again"), "--from", &archive, "--fence"], 1, "does not exist"),
        (&["standby", &path("no/such/copy"), "--from", &archive, "--once"], 1, "does not exist"),
        (&["takeover", &copy, "--from", &archive], 2, "--fence"),
        (&["takeover", &copy, "--from", &archive, "--dry-run"], 0, "nothing was changed"),
    ] {
        let (_, err) = ends(code, &[&["log"], words].concat());
        assert!(err.contains(says), "{words:?}: {err}");
        assert!(!dir.path().join("again").exists() && !dir.path().join("no").exists(), "{words:?}");
        // The writer is not refused.
        ends(0, &["log", "ship", &log, "--to", &archive, "--once"]);
    }
}

/// What a folder of a log, one of a standby and a destination say of themselves, as JSON and as text.
#[test]
fn a_status_is_that_of_a_log_a_standby_or_a_destination() {
    let (_dir, path) = place();
    let (log, archive, copy) = (path("log"), format!("folder:{}", path("archive")), path("copy"));
    let json = |at: &str| -> serde_json::Value {
        let (out, _) = ends(0, &["log", "status", at, "--format", "json"]);
        serde_json::from_str(&out).expect("is JSON")
    };
    let end = written(Path::new(&log), 20);
    assert_eq!(json(&log)["destinations"].as_array().map(Vec::len), Some(0));
    ends(0, &["log", "ship", &log, "--to", &archive, "--once"]);
    written(Path::new(&log), 7);
    let of_log = json(&log);
    let there = &of_log["destinations"][0];
    assert_eq!(there["acknowledged"], end.get());
    assert_eq!((&there["lag"]["records"], &there["term"]), (&7.into(), &1.into()));
    let held = json(&archive);
    assert_eq!((&held["owner"], &held["end"]), (&there["owner"], &end.get().into()));
    assert_eq!(held["identity"], of_log["identity"]);
    ends(0, &["log", "standby", &copy, "--from", &archive, "--once"]);
    let followed = json(&copy);
    assert_eq!((&followed["kind"], &followed["end"]), (&"standby".into(), &end.get().into()));
    assert_eq!(followed["address"], there["address"]);
    let (out, _) = ends(0, &["log", "status", &log]);
    assert!(out.contains(&format!("shipped to        {archive}")) && out.contains("7 records"), "{out}");
    let (_, err) = ends(1, &["log", "status", &path("none")]);
    assert!(err.contains("none"), "{err}");
}

/// A service says beside the log what it is doing, and over HTTP whether all is well; one that is fenced ends with its code, and what it said last stays.
#[cfg(unix)]
#[test]
fn a_service_waits_works_and_says_so() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let (_dir, path) = place();
    let (log, other, file) = (path("log"), path("other"), path("ship.conf"));
    let archive = format!("folder:{}", path("archive of logs"));
    written(Path::new(&log), 20);
    // The second log is not there yet.
    let lines = format!(
        "# two of them\n{log} --to '{archive}' --gather 100ms\n\n{other} --to folder:{} # later\n",
        path("others")
    );
    std::fs::write(&file, lines).expect("writes");
    let mut service = Command::new(SEAWALL);
    service.args([
        "log",
        "ship",
        "--file",
        &file,
        "--wait",
        "--listen",
        "127.0.0.1:0",
        "--say-every",
        "100ms",
    ]);
    let mut service =
        service.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(service.stderr.take().expect("is piped")).lines().map_while(Result::ok);
    let address =
        lines.find_map(|line| Some(line.strip_prefix("metrics at http://")?.split('/').next()?.to_owned()));
    let address = address.expect("says where");
    let said = std::thread::spawn(move || lines.collect::<Vec<_>>());
    let get = |path: &str| {
        let mut stream = std::net::TcpStream::connect(&address).expect("listens");
        write!(stream, "GET {path} HTTP/1.1\r\n\r\n").expect("asks");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers");
        answer
    };
    let until = |what: &dyn Fn() -> bool, why: &str| {
        for _ in 0..600 {
            if what() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("in vain: {why}: {}", get("/health"));
    };
    until(&|| get("/health").contains("archive of logs: works"), "the first works");
    let health = get("/health");
    assert!(health.starts_with("HTTP/1.1 503") && health.contains("waits: "), "{health}");
    let status = |log: &str| crate::out(&seawall(&["log", "status", log]));
    until(&|| status(&log).contains("service         works, "), "it says so beside the log");
    written(Path::new(&other), 5);
    until(&|| get("/health").starts_with("HTTP/1.1 200"), "the second works too");
    let metrics = get("/metrics");
    for line in ["seawall_ship_up{log=", "seawall_ship_lag_records{", "seawall_ship_records_total{"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    written(Path::new(&log), 1);
    // It is taken over meanwhile.
    ends(0, &["log", "rebuild", &path("again"), "--from", &archive, "--fence"]);
    written(Path::new(&log), 3);
    until(&|| status(&log).contains("service         ended, "), "the end is said");
    assert!(
        status(&log).contains("taken over") && get("/health").contains("others: works"),
        "{}",
        status(&log)
    );
    let pid = service.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().expect("kills").success());
    let ended = service.wait_with_output().expect("ends");
    let said = said.join().expect("reads").join("\n");
    assert_eq!(ended.status.code(), Some(7), "the gravest end is that of all: {said}");
    assert!(said.contains("acknowledged LSN") && said.contains("lag 0 records"), "{said}");
    assert!(status(&other).contains("service         stopped, "), "{}", status(&other));
    // What it said is none of the log's damage.
    assert!(!ends(0, &["log", "verify", &log]).0.contains("not ours"));
}
