//! Tests that all engines and methods write the same bytes, and how refused or cut-short ones are reported.
//!
//! The tests assert content, errors and messages, never latencies. A test that needs a process of its own (limits,
//! stops) starts this program again as a child that runs [`in_a_child`] alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fixture::{scratch, small, until_prepared};
use seawall::{Durability, Engine, EngineChoice, Error, Log, Lsn, MethodChoice, Options};
use seawall_sys::methods;

/// By this method, whatever it outlives.
fn by(id: &str) -> Options {
    small().method(MethodChoice::Named(id.to_owned())).durability(Durability::ProcessCrash)
}

/// As [`Log::open`]; a child that another test is starting holds copies of all locks for the moment before it begins.
#[expect(clippy::needless_pass_by_value, reason = "as `Log::open` takes them")]
fn open(dir: &Path, options: Options) -> seawall::Result<Log> {
    let mut tries = 0;
    loop {
        match Log::open(dir, options.clone()) {
            Err(Error::Locked { .. }) if tries < 10_000 => std::thread::sleep(Duration::from_millis(1)),
            opened => return opened,
        }
        tries += 1;
    }
}

/// The same records in the same groups: small ones, groups, transactions that fill a batch, outgrow it and outgrow a
/// segment, several rotations, a second opening, trimming, a close mark.
fn write_everything(dir: &Path, options: &Options) {
    for life in 0..2_u8 {
        let log = open(dir, options.clone()).expect("opens");
        let mut end = Lsn::ZERO;
        for turn in 0..40_u8 {
            until_prepared(&log);
            end = match turn % 5 {
                0 => log.append_commit(&[turn; 100]).map(|at| at.end),
                1 => (0..7).try_fold(end, |_, i| Ok(log.append(&[i, life, turn])?.end)),
                2 => log.append_commit(&vec![turn; 15_000]).map(|at| at.end),
                3 => log.transaction(|tx| (0..50).try_for_each(|i| tx.append(&vec![i; 1000]))),
                _ => log.append_commit(&[]).map(|at| at.end),
            }
            .expect("is taken in");
            log.commit(end).expect("commits");
        }
        until_prepared(&log);
        let large = log.transaction::<Error>(|tx| tx.append(&vec![life; 300 << 10])).expect("is taken in");
        log.commit(large).expect("commits");
        until_prepared(&log);
        log.close().expect("closes");
    }
}

fn segments(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let named = |path: PathBuf| {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        (name, std::fs::read(&path).expect("reads"))
    };
    crate::fixture::segments(dir).into_iter().map(named).collect()
}

#[test]
fn the_bytes_on_disk_are_the_same_from_every_method_of_every_engine() {
    let mut first: Option<(&str, BTreeMap<String, Vec<u8>>)> = None;
    let mut ran: BTreeMap<Engine, usize> = BTreeMap::new();
    for method in methods::here() {
        let dir = scratch();
        let options = by(method.id).log_id(*b"the same for all");
        match open(dir.path(), options.clone()) {
            Ok(log) => {
                assert_eq!((log.stats().method, log.stats().engine), (method.id, method.engine().name()));
                // Otherwise the first spare is there or not, as chance has it, and the numbers differ from then on.
                until_prepared(&log);
            }
            Err(Error::InvalidOption { option: "method", reason }) => {
                println!("{}: n/a: {reason}", method.id);
                continue;
            }
            Err(error) => panic!("{}: {error}", method.id),
        }
        // The directory has been opened once, for the answer: the same for all.
        write_everything(dir.path(), &options);
        let written = segments(dir.path());
        assert!(written.len() > 8, "{}: {} segments", method.id, written.len());
        *ran.entry(method.engine()).or_default() += 1;
        let Some((other, expected)) = &first else {
            first = Some((method.id, written));
            continue;
        };
        assert_eq!(
            written.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "{} and {other}",
            method.id
        );
        for (name, bytes) in &written {
            let differs = bytes.iter().zip(&expected[name]).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{name} by {} and by {other} differs at this byte", method.id);
            assert_eq!(bytes.len(), expected[name].len(), "{name} by {} and by {other}", method.id);
        }
    }
    for engine in Engine::ALL.into_iter().filter(|engine| engine.probe().is_ok()) {
        assert!(ran.get(&engine).is_some_and(|ran| *ran >= 2), "{}: {ran:?}", engine.name());
    }
}

#[test]
fn a_named_method_of_another_engine_than_the_requested_one_is_refused() {
    let ids =
        methods::here().iter().filter(|method| method.engine() == Engine::Portable).map(|method| method.id);
    for engine in Engine::ALL.into_iter().filter(|engine| *engine != Engine::Portable) {
        let dir = scratch();
        let id = ids.clone().next_back().expect("some");
        let opened = open(dir.path(), by(id).engine(EngineChoice::Only(engine)));
        match opened {
            Err(error @ Error::InvalidOption { .. }) => {
                let text = error.to_string();
                assert!(text.contains(id) || text.contains(engine.name()), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn each_engine_can_be_requested_and_an_engine_that_is_not_here_is_an_error_with_its_needs() {
    for engine in Engine::ALL {
        let dir = scratch();
        let requested = || small().engine(EngineChoice::Only(engine));
        match open(dir.path(), requested()) {
            Ok(log) => {
                assert!(engine.probe().is_ok());
                assert_eq!((log.opened().engine, log.stats().engine), (engine.name(), engine.name()));
                assert_eq!(log.stats().engine_refused, None);
                let method = log.opened().method;
                log.append_commit(b"record").expect("commits");
                log.close().expect("closes");
                let log = open(dir.path(), requested()).expect("opens");
                assert_eq!(log.opened().method, method, "it is remembered");
                assert_eq!(
                    seawall::View::open(dir.path()).expect("looks").method().expect("reads"),
                    Some((method, engine))
                );
            }
            Err(error @ Error::InvalidOption { option: "engine", .. }) => {
                let refused = engine.probe().expect_err("refused here").to_string();
                assert!(error.to_string().contains(&refused), "{error}");
            }
            Err(error) => panic!("{}: {error}", engine.name()),
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use crate::fixture::PLAIN;
    use crate::telemetry::Heard;
    use seawall_host::confinement::forbid_io_uring;
    use std::process::{Command, Stdio};

    /// Rows of both engines, with a sync of each kind.
    const ROWS: [&str; 5] = [
        "direct+dsync",
        "buffered+fdatasync",
        "uring-linked",
        "uring-direct+fdatasync",
        "uring-direct-fixed-dsync",
    ];
    /// EFBIG, EPERM and ENOSYS as Linux numbers them.
    const EFBIG: i32 = 27;
    const EPERM: u16 = 1;
    const ENOSYS: u16 = 38;

    fn count(dir: &Path) -> usize {
        crate::fixture::count(&open(dir, small()).expect("opens"))
    }

    /// Runs in a thread in which `io_uring` is answered with `errno`, as in a container.
    fn confined<T: Send>(errno: u16, run: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let confined = scope.spawn(|| {
                forbid_io_uring(errno).expect("a filter");
                run()
            });
            confined.join().expect("no panic")
        })
    }

    #[test]
    fn where_io_uring_is_refused_the_portable_engine_takes_over_and_says_so() {
        for (errno, word) in [(EPERM, "seccomp"), (ENOSYS, "no io_uring")] {
            let dir = scratch();
            let said = Heard::up_to(tracing::Level::TRACE);
            confined(errno, || {
                tracing::subscriber::with_default(said.clone(), || {
                    let log = open(dir.path(), small()).expect("opens");
                    assert_eq!(log.opened().engine, "portable");
                    let reason = log.opened().engine_refused.clone().expect("a reason");
                    assert!(reason.contains(word) && reason.contains("allow io_uring_setup"), "{reason}");
                    assert_eq!(log.stats().engine_refused, Some(reason));
                    log.append_commit(b"record").expect("commits");
                });
            });
            let said = said.words.lock().expect("no panic").clone();
            assert!(said.contains("using the portable engine") && said.contains(word), "{said}");
            let log = open(dir.path(), small()).expect("opens");
            assert_eq!(log.opened().engine_refused, None, "where it is allowed nothing is said");
        }
    }

    #[test]
    fn a_log_that_remembers_io_uring_opens_where_it_is_refused_and_returns_to_it() {
        let dir = scratch();
        std::fs::write(dir.path().join("METHOD"), "uring-direct-linked\ndirect+dsync\n").expect("writes");
        let method = |log: &Log| (log.opened().method, log.opened().engine_refused.is_some());
        let log = open(dir.path(), small()).expect("opens");
        assert_eq!(method(&log), ("uring-direct-linked", false));
        log.append_commit(b"by the ring").expect("commits");
        drop(log);
        confined(EPERM, || {
            let log = open(dir.path(), small()).expect("opens");
            assert_eq!(method(&log), ("direct+dsync", true));
            log.append_commit(b"by a call").expect("commits");
        });
        let log = open(dir.path(), small()).expect("opens");
        assert_eq!(method(&log), ("uring-direct-linked", false));
        drop(log);
        assert_eq!(count(dir.path()), 2);
    }

    #[test]
    fn an_explicit_choice_of_io_uring_where_it_is_refused_is_an_error_with_its_remedy() {
        confined(EPERM, || {
            for (option, options) in [
                ("engine", small().engine(EngineChoice::Only(Engine::IoUring))),
                ("method", by("uring-linked")),
            ] {
                let dir = scratch();
                match open(dir.path(), options) {
                    Err(error @ Error::InvalidOption { .. }) => {
                        let text = error.to_string();
                        let named = text.contains(option) && text.contains("allow io_uring_setup");
                        assert!(named, "{text}");
                    }
                    other => panic!("{other:?}"),
                }
            }
        });
    }

    #[test]
    fn a_ring_that_is_forbidden_in_mid_flight_fails_the_log_and_acknowledges_nothing() {
        let dir = scratch();
        let log = open(dir.path(), by("uring-direct-fixed-dsync")).expect("opens");
        log.append_commit(b"good").expect("commits");
        let durable = log.durable_lsn();
        confined(EPERM, || {
            let failed = log.append_commit(b"lost").expect_err("the ring is gone");
            assert!(matches!(failed, Error::Failed { .. }), "{failed}");
            assert_eq!(failed.raw_os_error(), Some(i32::from(EPERM)), "{failed}");
            assert!(
                failed.to_string().contains(".seg") && failed.to_string().contains("io_uring_enter"),
                "{failed}"
            );
        });
        assert!(matches!(log.append_commit(b"more"), Err(Error::Failed { .. })));
        assert_eq!(log.durable_lsn(), durable);
        drop(log);
        assert_eq!(count(dir.path()), 1);
    }

    /// This program again, after `before`, as [`super::in_a_child`].
    fn child(before: &str, what: &str, dir: &Path, method: &str) -> Command {
        let orders = format!("{what}\n{}\n{method}", dir.display());
        let mut command = crate::fixture::child(before, "engines::in_a_child", &orders);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What the child says after `name `.
    fn printed(output: &str, name: &str) -> Option<String> {
        output.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned())
    }

    /// A file may not grow past a limit: the write that crosses it is cut short there, and its rest fails.
    #[test]
    fn a_short_write_is_continued_and_the_error_behind_it_fails_the_log() {
        // Header, close mark, open mark, 5 batches of 3 blocks, the first block of the sixth.
        const LIMIT_BLOCKS: usize = 3 + 5 * 3 + 1;
        for method in ROWS {
            let dir = scratch();
            let log = open(dir.path(), by(method)).expect("opens");
            until_prepared(&log);
            log.close().expect("closes");
            // In blocks of 512 bytes, as POSIX has it.
            let limited = format!(r#"trap "" XFSZ; ulimit -f {}; exec"#, LIMIT_BLOCKS * 8);
            let output = child(&limited, "commit", dir.path(), method).output().expect("starts");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(printed(&text, "errno").as_deref(), Some(&*EFBIG.to_string()), "{method}: {text}");
            assert_eq!(printed(&text, "committed").as_deref(), Some("5"), "{method}: {text}");
            assert!(printed(&text, "failed").is_some_and(|error| error.contains(".seg")), "{method}: {text}");
            let bytes = std::fs::read(dir.path().join(seawall::format::segment_name(1))).expect("reads");
            let block = |block: usize| &bytes[block * 4096..(block + 1) * 4096];
            assert!(block(LIMIT_BLOCKS - 1).iter().any(|byte| *byte != 0), "{method}: the write was short");
            assert!(block(LIMIT_BLOCKS).iter().all(|byte| *byte == 0), "{method}: and no more");
            assert_eq!(count(dir.path()), 5, "{method}");
        }
    }

    /// Stopping and continuing a process ends its sleep in `io_uring_enter` with EINTR.
    #[test]
    fn interruptions_are_survived() {
        for method in ["uring-linked", "uring-direct-fixed-dsync", "direct+dsync"] {
            let dir = scratch();
            let mut running = child(PLAIN, "commit", dir.path(), method).spawn().expect("starts");
            let pid = running.id().to_string();
            let mut ended = false;
            while !ended {
                for signal in ["-STOP", "-CONT"] {
                    // The process may have ended meanwhile.
                    let _ = Command::new("kill").args([signal, &pid]).stderr(Stdio::null()).status();
                }
                ended = running.try_wait().expect("is a child").is_some();
            }
            let output = running.wait_with_output().expect("ends");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(printed(&text, "committed").as_deref(), Some("200"), "{method}: {text}");
            assert_eq!(count(dir.path()), 200, "{method}");
        }
    }

    #[test]
    fn too_little_locked_memory_is_a_refusal_with_its_remedy() {
        let dir = scratch();
        std::fs::write(dir.path().join("METHOD"), "uring-direct-fixed-dsync\ndirect+dsync\n")
            .expect("writes");
        let limited =
            "exec prlimit --memlock=65536:65536 setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock";
        let said = |method: &str| {
            let output = child(limited, "open", dir.path(), method).output().expect("starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let text = said("");
        assert_eq!(printed(&text, "method").as_deref(), Some("direct+dsync"), "{text}");
        assert!(printed(&text, "refused").is_some_and(|reason| reason.contains("RLIMIT_MEMLOCK")), "{text}");
        let text = said("uring-direct-fixed-dsync");
        assert!(printed(&text, "failed").is_some_and(|reason| reason.contains("RLIMIT_MEMLOCK")), "{text}");
        // What registers no memory needs none.
        let text = said("uring-direct-linked");
        assert!(printed(&text, "failed").is_some(), "{text}");
        // The memory of a ring itself counts too, and the kernel gives that of a child back some time after it has ended.
        let mut text = said("uring-linked");
        for _ in 0..100 {
            if printed(&text, "method").is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            text = said("uring-linked");
        }
        assert_eq!(printed(&text, "method").as_deref(), Some("uring-linked"), "{text}");
    }
}

/// What a child does; nothing unless a test above started it.
#[cfg(target_os = "linux")]
#[test]
fn in_a_child() {
    let Some(orders) = crate::fixture::orders() else { return };
    let mut orders = orders.splitn(3, '\n');
    let mut next = || orders.next().expect("three lines");
    let (what, dir, method) = (next(), next(), next());
    let options = if method.is_empty() { small() } else { by(method) };
    let log = match open(Path::new(dir), options) {
        Ok(log) => log,
        Err(error) => return println!("failed {error}"),
    };
    println!("method {}", log.opened().method);
    if let Some(reason) = &log.opened().engine_refused {
        println!("refused {reason}");
    }
    if what == "commit" {
        let mut committed = 0;
        while committed < 200 {
            if let Err(error) = log.append_commit(&[7; 10_000]) {
                println!("failed {error}\nerrno {}", error.raw_os_error().unwrap_or(0));
                break;
            }
            committed += 1;
        }
        println!("committed {committed}");
    }
}
