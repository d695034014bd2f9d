//! A log stays in its directory, has it for itself, and refuses there what is none of its own.
//!
//! What concerns a whole process (its working directory, its limits) is tried in one of its own: the test runs itself.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use crate::fixture::{LIMIT, child, copy, faulty, new_log, orders, payloads, scratch, until_prepared};
use seawall::format::{preparing_name, segment_name};
use seawall::{Engine, Error, Log, Lsn, MethodChoice, Options, Permissions, Tail, View, salvage, verify};
use seawall_sys::fork::Child;

const RECORD_BYTES: usize = 3000;

fn small() -> Options {
    Options::default().segment_bytes(64 << 10).batch_bytes(4096).memory_bytes(1 << 20)
}

/// The methods that the tests go through: of every engine that this process may use.
fn methods() -> Vec<&'static str> {
    let mut methods = vec!["direct+dsync", "buffered+fdatasync"];
    if Engine::IoUring.probe().is_ok() {
        let ring = seawall_sys::methods::here().iter().filter(|row| row.engine() == Engine::IoUring);
        let dir = scratch();
        methods.extend(ring.map(|row| row.id).filter(|id| Log::open(dir.path().join(id), by(id)).is_ok()));
    }
    methods
}

fn by(method: &str) -> Options {
    small().method(MethodChoice::Named(method.to_owned()))
}

/// Runs `work` in a process of its own, started by a shell after `limits`.
fn alone(test: &str, limits: &str, work: impl FnOnce()) {
    if orders().is_some_and(|name| name == test) {
        return work();
    }
    let done = child(&format!("{limits} exec"), &format!("directory::{test}"), test).output().expect("runs");
    let printed = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(done.status.success(), "{}: {}\n{}", done.status, printed[0], printed[1]);
    assert!(printed[0].contains("1 passed"), "{}", printed[0]);
}

/// Commits so many records of this byte, and trims behind itself if it `trims`.
fn commit(log: &Log, byte: u8, records: usize, trims: bool) {
    for _ in 0..records {
        let end = log.append_commit(&[byte; RECORD_BYTES]).expect("commits").end;
        if trims {
            log.trim(Lsn::new(end.get().saturating_sub(10 * RECORD_BYTES as u64))).expect("trims");
        }
    }
}

/// The first byte of each record.
fn bytes(log: &Log) -> Vec<u8> {
    payloads(log).iter().map(|payload| payload[0]).collect()
}

#[test]
fn a_log_stays_where_it_was_opened_when_the_process_goes_elsewhere() {
    alone("a_log_stays_where_it_was_opened_when_the_process_goes_elsewhere", "", || {
        let base = scratch();
        for (at, method) in methods().into_iter().enumerate() {
            for trims in [false, true] {
                let base = base.path().join(format!("{at}-{trims}"));
                let [a, b] = ["a", "b"].map(|name| base.join(name));
                for dir in [&a, &b] {
                    std::fs::create_dir_all(dir).expect("made");
                }
                let other = Log::open(b.join("orders"), by(method)).expect("opens");
                commit(&other, 2, 60, false);
                other.close().expect("closes");
                std::env::set_current_dir(&a).expect("goes");
                let log = Log::open("orders", by(method)).expect("opens");
                assert_eq!(log.dir(), std::fs::canonicalize(&a).expect("there").join("orders"));
                commit(&log, 1, 5, trims);
                let mut reader = log.read(log.first_lsn()).expect("reads");
                let view = View::open("orders").expect("looks");
                std::env::set_current_dir(&b).expect("goes");
                commit(&log, 1, 60, trims);
                let seen = reader.next_record();
                assert!(matches!(&seen, Ok(Some(record)) if record.payload[0] == 1) || trims, "{seen:?}");
                let looked = view.read(view.first_lsn()).and_then(|mut records| records.next().transpose());
                assert!(matches!(&looked, Ok(Some(record)) if record.payload[0] == 1) || trims, "{looked:?}");
                assert!(bytes(&log).iter().all(|byte| *byte == 1));
                log.close().expect("closes");
                for (dir, byte, records) in [(a, 1, 65), (b, 2, 60)] {
                    let log = Log::open(dir.join("orders"), by(method)).expect("opens");
                    assert_eq!(log.opened().tail, Tail::Clean);
                    let found = bytes(&log);
                    assert!(found.iter().all(|found| *found == byte), "{method}");
                    assert!(found.len() == records || (trims && byte == 1), "{method}: {}", found.len());
                }
            }
        }
    });
}

#[test]
fn a_directory_that_is_moved_takes_its_log_along() {
    for method in methods() {
        let base = scratch();
        let [here, there] = ["here", "there"].map(|name| base.path().join(name));
        let log = Log::open(&here, by(method)).expect("opens");
        commit(&log, 1, 30, true);
        std::fs::rename(&here, &there).expect("moved");
        let other = Log::open(&here, by(method)).expect("another log in its place");
        commit(&log, 1, 60, true);
        commit(&other, 2, 60, true);
        log.close().expect("closes");
        other.close().expect("closes");
        for (dir, byte) in [(here, 2), (there, 1)] {
            let log = Log::open(dir, by(method)).expect("opens");
            assert_eq!(log.opened().tail, Tail::Clean);
            let found = bytes(&log);
            assert!(found.len() >= 5 && found.iter().all(|found| *found == byte), "{method}");
        }
    }
}

/// By a link, the log is the one that the link led to when it was opened.
#[test]
fn the_directory_may_be_a_link() {
    let base = scratch();
    let [real, link] = ["real", "link"].map(|name| base.path().join(name));
    std::fs::create_dir(&real).expect("made");
    symlink(&real, &link).expect("linked");
    let log = Log::open(&link, small()).expect("opens");
    std::fs::remove_file(&link).expect("removed");
    commit(&log, 1, 60, false);
    log.close().expect("closes");
    assert_eq!(bytes(&Log::open(&real, small()).expect("opens")).len(), 60);
}

#[test]
fn a_removed_or_replaced_lock_file_admits_no_second_writer() {
    let (dir, log) = new_log(small());
    commit(&log, 1, 20, false);
    let lock = dir.path().join("LOCK");
    for replaced in [false, true] {
        std::fs::remove_file(&lock).expect("removed");
        if replaced {
            std::fs::write(&lock, "").expect("replaced");
        }
        for _ in 0..2 {
            assert!(matches!(Log::open(dir.path(), small()), Err(Error::Locked { .. })), "{replaced}");
            assert_eq!(View::open(dir.path()).expect("looks").has_writer(), Some(true));
            // The attempt itself may have made another one.
            let _ = std::fs::remove_file(&lock);
        }
        std::fs::write(&lock, "").expect("there again");
    }
    commit(&log, 1, 60, false);
    log.close().expect("closes");
    assert_eq!(View::open(dir.path()).expect("looks").has_writer(), Some(false));
    let log = Log::open(dir.path(), small()).expect("opens");
    assert_eq!((log.opened().tail, bytes(&log).len()), (Tail::Clean, 80));
}

#[test]
fn a_child_that_was_forked_off_can_neither_use_the_log_nor_keep_it() {
    for method in methods() {
        let dir = scratch();
        let [log_dir, go] = ["log", "go"].map(|name| dir.path().join(name));
        let log = Log::open(&log_dir, by(method)).expect("opens");
        commit(&log, 1, 20, false);
        let end = log.append(&[1; RECORD_BYTES]).expect("appends").end;
        let mut held = Some(log);
        let child = Child::run(|| {
            let Some(log) = held.take() else { return 1 };
            let forked = |done: Result<(), Error>| matches!(done, Err(Error::Forked));
            let refused = [
                forked(log.append(b"x").map(drop)),
                forked(log.append_commit(b"x").map(drop)),
                forked(log.commit(end)),
                forked(log.commit_async(end).wait().map(drop)),
                forked(log.transaction::<Error>(|tx| tx.append(b"x")).map(drop)),
                forked(log.trim(end).map(drop)),
                forked(log.read(Lsn::ZERO).map(drop)),
                forked(log.close()),
            ];
            let mut looks = 0;
            while !go.exists() && looks < 6000 {
                std::thread::sleep(Duration::from_millis(10));
                looks += 1;
            }
            refused.iter().position(|refused| !refused).map_or(0, |at| 10 + u8::try_from(at).unwrap_or(80))
        })
        .expect("forks");
        let log = held.take().expect("the child has a copy of its own");
        commit(&log, 1, 60, false);
        assert_eq!(bytes(&log).len(), 81, "{method}");
        log.close().expect("closes");
        let again = Log::open(&log_dir, by(method)).expect("opens while the child lives");
        assert_eq!((again.opened().tail, bytes(&again).len()), (Tail::Clean, 81), "{method}");
        drop(again);
        let again = Log::open(&log_dir, by(method)).expect("opens after a drop as well");
        drop(again);
        std::fs::write(go, "").expect("written");
        assert_eq!(child.wait().expect("ends"), Some(0), "{method}");
    }
}

/// A program that has closed its standard streams opens a log: whatever is printed to one of them must reach no file of it.
#[cfg(target_os = "linux")]
#[test]
fn no_file_of_a_log_takes_the_place_of_standard_output() {
    for method in methods() {
        for closed in 1..=3 {
            let dir = scratch();
            let child = Child::run_without_streams(closed, || {
                let log = Log::open(dir.path(), by(method)).expect("opens");
                commit(&log, 1, 40, true);
                let view = View::open(dir.path()).expect("looks");
                let mut follower = view.follow(view.first_lsn()).expect("follows");
                while follower.try_next_record().expect("is sound").is_some() {}
                let root = Path::new("/");
                let taken =
                    |fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|file| file != root);
                u8::from((0..closed).any(taken))
            });
            assert_eq!(child.expect("forks").wait().expect("ends"), Some(0), "{method}, {closed} closed");
        }
    }
}

#[cfg(all(feature = "mutants", target_os = "linux"))]
#[test]
fn descriptors_that_are_not_moved_are_found() {
    use seawall::mutant::{Mutant, finds};
    assert!(finds(Mutant::LowDescriptors, no_file_of_a_log_takes_the_place_of_standard_output));
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn files_are_for_those_for_whom_they_are_made() {
    alone("files_are_for_those_for_whom_they_are_made", "umask 022;", || {
        for (options, file, folder) in [
            (small(), 0o600, 0o700),
            (small().permissions(Permissions::Group), 0o640, 0o750),
            (small().permissions(Permissions::Umask), 0o644, 0o755),
        ] {
            let base = scratch();
            let dir = base.path().join("parent/log");
            let log = Log::open(&dir, options).expect("opens");
            commit(&log, 1, 90, true);
            log.close().expect("closes");
            assert_eq!((mode(&dir), mode(&base.path().join("parent"))), (folder, 0o755));
            let names: Vec<PathBuf> = std::fs::read_dir(&dir)
                .expect("lists")
                .map(|entry| entry.expect("an entry").path())
                .collect();
            for name in ["LOCK", "METHOD"] {
                assert!(names.contains(&dir.join(name)), "{names:?}");
            }
            assert!(names.len() >= 4, "{names:?}");
            for path in names {
                assert_eq!(mode(&path), file, "{}", path.display());
            }
        }
    });
}

/// A process that may not open the lock file does not know whether there is a writer, and sees what is certain.
#[test]
fn a_lock_file_that_may_not_be_opened_leaves_the_writer_unknown() {
    let (dir, log) = new_log(small());
    commit(&log, 1, 20, false);
    let end = log.durable_lsn();
    log.close().expect("closes");
    let lock = dir.path().join("LOCK");
    std::fs::set_permissions(&lock, std::fs::Permissions::from_mode(0o0)).expect("set");
    let mine = std::fs::File::open(&lock).is_ok();
    let view = View::open(dir.path()).expect("looks");
    // Root may open everything.
    assert_eq!(view.has_writer(), if mine { Some(false) } else { None });
    assert_eq!(view.end_lsn(), end);
}

/// Every kind of thing that is no regular file.
const KINDS: [&str; 4] = ["fifo", "link", "directory", "device"];

/// Puts something of this kind there; returns whether that could be done.
fn put(kind: &str, path: &Path) -> bool {
    match kind {
        "fifo" => Command::new("mkfifo").arg(path).status().expect("runs").success(),
        "link" => symlink("/dev/zero", path).is_ok(),
        "directory" => std::fs::create_dir(path).is_ok(),
        // Root alone may make one: the device that answers zeros for ever.
        _ => Command::new("mknod").arg(path).args(["c", "1", "5"]).output().expect("runs").status.success(),
    }
}

/// The error of `work`, which must end.
fn ends(what: &str, work: impl FnOnce() -> Result<(), Error> + Send + 'static) -> Option<String> {
    let (sender, end) = mpsc::channel();
    std::thread::spawn(move || sender.send(work().err().map(|error| error.to_string())));
    end.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{what} waits"))
}

/// Looks at a log, or copies it to another folder.
type Look = fn(&Path, &Path) -> Result<(), Error>;

const LOOKS: [(&str, Look); 4] = [
    ("open", |at, _| Log::open(at, small()).map(drop)),
    ("view", |at, _| View::open(at).map(drop)),
    ("verify", |at, _| verify(at).map(drop)),
    ("salvage", |at, to| salvage(at, to, small()).map(drop)),
];

#[test]
fn what_is_no_regular_file_is_refused_by_name_without_a_wait() {
    for (name, needs) in [
        // Which of the looks must refuse.
        ("LOCK".to_owned(), [true, true, false, false]),
        ("METHOD".to_owned(), [true, false, false, false]),
        (segment_name(1), [true, true, true, true]),
        (segment_name(2), [true, true, true, true]),
    ] {
        for kind in KINDS {
            let base = scratch();
            let dir = base.path().join("log");
            let log = Log::open(&dir, small()).expect("opens");
            commit(&log, 1, 3, false);
            until_prepared(&log);
            log.close().expect("closes");
            let path = dir.join(&name);
            std::fs::remove_file(&path).expect("was there");
            if !put(kind, &path) {
                assert_eq!(kind, "device");
                continue;
            }
            let refused = LOOKS.map(|(what, look)| {
                let (at, to) = (dir.clone(), base.path().join("copy"));
                ends(what, move || look(&at, &to))
            });
            for (refused, needs) in refused.into_iter().zip(needs) {
                let Some(error) = refused else {
                    assert!(!needs, "{name} as {kind} was taken");
                    continue;
                };
                assert!(needs && error.contains(&name) && error.contains("move it out"), "{kind}: {error}");
            }
            if name == "METHOD" {
                let refused = View::open(&dir).expect("looks").method().expect_err("refused");
                assert!(refused.to_string().contains("METHOD"), "{refused}");
            }
        }
    }
}

/// Staging files and the scratch file of the probe are the log's own names: what is there is removed, never opened.
#[test]
fn what_lies_under_the_name_of_a_staging_file_is_never_opened() {
    for name in [preparing_name(1), "PROBE".to_owned()] {
        for kind in ["fifo", "link", "directory"] {
            let dir = scratch();
            assert!(put(kind, &dir.path().join(&name)));
            let at = dir.path().to_path_buf();
            let refused = ends("open", move || {
                // Another log of this process may have probed already.
                let log = Log::open(at, small().method(MethodChoice::ProbeAgain))?;
                log.append_commit(b"x")?;
                log.close()
            });
            match refused {
                None => assert_ne!(kind, "directory"),
                Some(error) => {
                    let says = error.contains(&name) && error.contains("move it out");
                    assert!(kind == "directory" && says, "{error}");
                }
            }
        }
    }
}

#[test]
fn a_foreign_segment_is_named_and_left_alone() {
    let content = vec![b'x'; 64 << 10];
    // Where a log is to be made.
    for number in [1, 2] {
        let dir = scratch();
        let path = dir.path().join(segment_name(number));
        std::fs::write(&path, &content).expect("written");
        let refused = Log::open(dir.path(), small()).expect_err("does not belong to the log").to_string();
        assert!(refused.contains(&segment_name(number)), "{refused}");
        assert_eq!(std::fs::read(&path).expect("there"), content);
    }
    // In the directory of a log that is about to need the name.
    let (dir, log) = new_log(small());
    commit(&log, 1, 1, false);
    let path = dir.path().join(segment_name(4));
    std::fs::write(&path, &content).expect("written");
    let mut refused = 0;
    for _ in 0..60 {
        match log.append_commit(&[1; RECORD_BYTES]) {
            Ok(_) => {}
            Err(error) => {
                assert!(error.to_string().contains(&segment_name(4)), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused <= 1, "the next name is taken instead");
    log.close().expect("closes");
    assert_eq!(std::fs::read(&path).expect("there"), content);
    let named = Log::open(dir.path(), small()).expect_err("does not belong to the log").to_string();
    assert!(named.contains(&segment_name(4)), "{named}");
    std::fs::remove_file(&path).expect("moved out");
    let log = Log::open(dir.path(), small()).expect("opens");
    assert_eq!(bytes(&log).len(), 61 - refused);
}

#[test]
fn a_network_file_system_is_refused_unless_it_is_permitted() {
    let dir = scratch();
    let (faults, options) = faulty(small());
    faults.set_network_file_system("NFS");
    let refused = Log::open(dir.path(), options.clone()).expect_err("refused");
    assert!(matches!(refused, Error::InvalidOption { option: "network_file_system", .. }), "{refused}");
    let text = refused.to_string();
    for part in ["NFS", "Options::network_file_system(true)", "--network-file-system"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 0, "nothing was made");
    let log = Log::open(dir.path(), options.network_file_system(true)).expect("permitted");
    log.append_commit(b"x").expect("commits");
}

/// Takes descriptors until there are none, then gives this many back.
fn fill_descriptors(free: usize) -> Vec<std::fs::File> {
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    taken.truncate(taken.len().saturating_sub(free));
    taken
}

#[test]
fn descriptors_may_run_out_at_any_call() {
    alone("descriptors_may_run_out_at_any_call", "ulimit -n 96;", || {
        for method in methods() {
            for trims in [false, true] {
                let (dir, log) = new_log(by(method));
                let mut acknowledged = 0;
                for free in 0..6 {
                    commit(&log, 1, 30, false);
                    acknowledged += 30;
                    let taken = fill_descriptors(free);
                    for _ in 0..40 {
                        if trims {
                            // It looks for the holds of other processes in the directory.
                            let trimmed = log.trim(log.durable_lsn());
                            trimmed.map_or_else(
                                |error| assert_eq!(error.raw_os_error(), Some(24), "{error}"),
                                drop,
                            );
                        }
                        match log.append_commit(&[1; RECORD_BYTES]) {
                            Ok(_) => acknowledged += 1,
                            Err(error @ Error::Io { .. }) => {
                                assert_eq!(error.raw_os_error(), Some(24), "{error}");
                            }
                            Err(error) => panic!("{method}, {free} left: {error}"),
                        }
                    }
                    // A record that needs a segment of its own, so that one that is prepared is replaced.
                    match log.append_commit(&vec![1; 100_000]) {
                        Ok(_) => acknowledged += 1,
                        Err(error) => assert_eq!(error.raw_os_error(), Some(24), "{error}"),
                    }
                    drop(taken);
                    log.append_commit(&vec![1; 100_000])
                        .or_else(|_| log.append_commit(&vec![1; 100_000]))
                        .expect("goes on");
                    acknowledged += 1;
                }
                log.close().expect("closes");
                let log = Log::open(dir.path(), by(method)).expect("opens");
                assert_eq!(log.opened().tail, Tail::Clean);
                assert!(trims || bytes(&log).len() == acknowledged, "{method}");
            }
        }
    });
}

#[test]
fn memory_that_is_not_there_is_an_error_at_opening() {
    alone("memory_that_is_not_there_is_an_error_at_opening", "ulimit -v 1000000;", || {
        let dir = scratch();
        for memory in [2 << 30, 32 << 30] {
            let options = Options::default().memory_bytes(memory);
            match Log::open(dir.path(), options) {
                Err(Error::Io { source, .. }) => assert_eq!(source.kind(), std::io::ErrorKind::OutOfMemory),
                other => panic!("{other:?}"),
            }
        }
        Log::open(dir.path(), small()).expect("opens").close().expect("closes");
    });
}

/// Puts something under a name of a log's directory.
type Put = fn(&Path);

/// What may lie under a name.
const PUTS: [(&str, Put); 5] = [
    ("random bytes", |path| {
        let bytes: Vec<u8> =
            (1..=64_u32 << 10).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 24) as u8 | 1).collect();
        std::fs::write(path, bytes).expect("writes");
    }),
    ("nothing", |path| std::fs::write(path, []).expect("writes")),
    ("a folder", |path| std::fs::create_dir(path).expect("makes")),
    ("a folder that is not empty", |path| std::fs::create_dir_all(path.join("x")).expect("makes")),
    ("a link", |path| symlink("/dev/null", path).expect("links")),
];

/// Which of the things that refuse an opening `verify` does not find; and how many refuse one.
fn missed_by_verify() -> (Vec<String>, usize) {
    let whole = scratch();
    let log = Log::open(whole.path(), small()).expect("opens");
    commit(&log, 1, 60, false);
    let last = log.stats().segments;
    log.close().expect("closes");
    let segments = [1, last - 1, last, last + 1, last + 2, 99].map(segment_name);
    let staging = [last, last + 1, 99].map(preparing_name);
    let others = ["LOCK", "METHOD", "MEMORY", "TRIMS", "TRIMS.new"].map(str::to_owned);
    let (mut missed, mut refused) = (Vec::new(), 0);
    for name in segments.into_iter().chain(staging).chain(others) {
        for (what, put) in PUTS {
            let dir = scratch();
            copy(whole.path(), dir.path());
            let path = dir.path().join(&name);
            let _ = std::fs::remove_file(&path);
            put(&path);
            let found = verify(dir.path()).map_or(true, |report| !report.damage.is_empty());
            if let Err(error) = Log::open(dir.path(), small()) {
                refused += 1;
                missed.extend((!found).then(|| format!("{what} as {name}: {error}")));
            }
        }
    }
    (missed, refused)
}

#[test]
fn whatever_refuses_an_opening_is_found_by_verify() {
    let (missed, refused) = missed_by_verify();
    assert_eq!(missed, Vec::<String>::new());
    assert!(refused > 20, "{refused}");
    #[cfg(feature = "mutants")]
    {
        use seawall::mutant::{Mutant, set};
        for (mutant, least) in [(Mutant::VerifySeesNoFolder, 1), (Mutant::VerifySeesNoForeign, 1)] {
            set(Some(mutant));
            let missed = missed_by_verify().0.len();
            set(None);
            assert!(missed >= least, "{mutant:?}");
        }
    }
}
