//! Tests failing writes, syncs, opens and full disks, including mistakes that other logs make.
//!
//! The first half names mistakes that logs in use make and shows that this one does not; the second half goes through
//! the failure paths of opening.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::fixture::{
    self, LIMIT, comes, count, faulty, id, new_faulty, new_log, payloads, scratch, segments, small, until,
};
use seawall::format::segment_name;
use seawall::{Error, Log, Lsn, MethodChoice, Tail, salvage, verify};

/// Peers: after one failed sync several go on acknowledging; one acknowledges the failed write itself.
#[test]
fn after_one_failed_write_nothing_is_acknowledged_any_more() {
    let (dir, faults, log) = new_faulty(small());
    for _ in 0..5 {
        log.append_commit(b"good").expect("commits");
    }
    faults.fail_commit(faults.commits());
    let failed = log.append_commit(b"lost");
    assert!(matches!(&failed, Err(Error::Failed { .. })), "{failed:?}");
    assert_eq!(failed.err().and_then(|error| error.raw_os_error()), Some(5), "the cause is kept");
    let durable = log.durable_lsn();
    assert!(matches!(log.append_commit(b"more"), Err(Error::Failed { .. })));
    assert!(matches!(log.append(b"more"), Err(Error::Failed { .. })));
    assert!(matches!(log.trim(durable), Err(Error::Failed { .. })));
    assert_eq!(log.durable_lsn(), durable);
    assert!(matches!(log.close(), Err(Error::Failed { .. })));
    let log = Log::open(dir.path(), small()).expect("opens again");
    assert!((5..=6).contains(&count(&log)), "the acknowledged ones, and perhaps the one that failed");
}

/// Preparing a segment meets a full disk; a commit that meets one after all has failed like any other, and must not be
/// reported as one before which nothing was written.
#[test]
fn a_commit_that_meets_a_full_disk_fails_the_log_and_promises_nothing() {
    // ENOSPC and EDQUOT, as Linux numbers them; elsewhere they are other failures.
    for errno in [28, 122] {
        let (_dir, faults, log) = new_faulty(small());
        log.append_commit(b"good").expect("commits");
        faults.fail_with(errno);
        faults.fail_commit(faults.commits());
        let failed = log.append_commit(b"lost").expect_err("fails");
        assert_eq!(failed.raw_os_error(), Some(errno));
        match &failed {
            Error::Failed { cause } => assert!(matches!(&**cause, Error::Io { .. }), "{failed}"),
            other => panic!("{other}"),
        }
        let text = failed.to_string();
        assert!(text.contains("reopened") && text.contains(".seg") && !text.contains("resumes"), "{text}");
    }
}

/// Peers: in one of them every waiter but the first hangs for ever.
#[test]
fn a_failure_reaches_every_waiter() {
    let (dir, faults, log) = new_faulty(small());
    faults.fail_commit(40);
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while log.append_commit(b"record").is_ok() {
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let placed = log.append(b"asynchronous").ok();
        if let Some(placed) = placed {
            let _ = log.commit_async(placed.end).wait();
        }
        let mut follower = log.follow(Lsn::ZERO).expect("follows");
        scope.spawn(move || while follower.next_record().is_ok_and(|record| record.is_some()) {});
    });
    drop(log);
    let log = Log::open(dir.path(), small()).expect("opens again");
    assert!(count(&log) as u64 >= acknowledged.load(Ordering::SeqCst));
}

/// A failed write is followed by others that succeed: what was in flight at the same time must not be acknowledged before it.
#[test]
fn acknowledged_is_durable_whichever_commit_fails() {
    for fail_at in 0..30 {
        let dir = scratch();
        let (faults, options) = faulty(small());
        faults.fail_commit(fail_at);
        let log = Log::open(dir.path(), options).expect("opens");
        let mut acknowledged = 0;
        while log.append_commit(&vec![1; 9000]).is_ok() {
            acknowledged += 1;
        }
        drop(log);
        let log = Log::open(dir.path(), small()).expect("opens again");
        assert!(count(&log) >= acknowledged, "commit {fail_at}");
    }
}

/// Segments in preparation, as files and, where the system reports them, as open descriptors.
fn staging_files(dir: &Path) -> usize {
    let is_staging = |path: &Path| path.to_string_lossy().contains(".new");
    let files = std::fs::read_dir(dir).expect("lists").map(|entry| entry.expect("lists").path());
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().filter_map(Result::ok);
    let open = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    files.filter(|path| is_staging(path)).count()
        + open.filter(|path| path.starts_with(dir) && is_staging(path)).count()
}

/// A full disk shows before anything is written, harms nothing and passes.
#[test]
fn a_full_disk_is_reported_and_passes() {
    let (dir, faults, log) = new_faulty(small());
    log.append_commit(b"first").expect("commits");
    faults.set_full(true);
    let mut acknowledged = 1;
    let refused = loop {
        match log.append_commit(&vec![7; 10_000]) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1000, "the disk is full");
    };
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    assert_eq!(log.durable_lsn(), log.appended_lsn(), "what was refused left nothing behind");
    for _ in 0..100 {
        assert!(matches!(log.append(&vec![7; 10_000]), Err(Error::DiskFull { .. })));
    }
    assert_eq!(staging_files(dir.path()), 0, "each attempt would make the disk fuller");
    faults.set_full(false);
    for _ in 0..100 {
        log.append_commit(&vec![8; 10_000]).expect("commits again");
    }
    log.close().expect("closes");
    let log = Log::open(dir.path(), small()).expect("opens");
    assert_eq!(count(&log), acknowledged + 100);
}

/// Too many open files stop the log for as long as there are too many, with segments created and recycled.
#[test]
fn too_many_open_files_are_reported_and_pass() {
    for trims in [false, true] {
        let (dir, faults, log) = new_faulty(small());
        let mut acknowledged = 0;
        for round in 0..3 {
            for _ in 0..200 {
                log.append_commit(&vec![7; 10_000]).expect("commits");
                acknowledged += 1;
                if trims {
                    log.trim(log.durable_lsn()).expect("trims");
                }
            }
            faults.set_out_of_descriptors(true);
            let refused = loop {
                match log.append_commit(&vec![7; 10_000]) {
                    Ok(_) => acknowledged += 1,
                    Err(error) => break error,
                }
                assert!(acknowledged < 10_000, "no segment can be opened, round {round}");
                if trims {
                    log.trim(log.durable_lsn()).expect("trims");
                }
            };
            assert!(refused.to_string().contains(".seg") && refused.to_string().contains("24"), "{refused}");
            faults.set_out_of_descriptors(false);
        }
        log.append_commit(b"goes on").expect("commits again");
        log.close().expect("closes");
        let log = Log::open(dir.path(), small()).expect("opens");
        assert_eq!(log.opened().tail, Tail::Clean);
        if !trims {
            assert_eq!(count(&log), acknowledged + 1);
        }
    }
}

/// A log of `records` records, closed or not.
fn written(dir: &Path, records: u8, close: bool) {
    let log = Log::open(dir, small()).expect("opens");
    for i in 0..records {
        log.append_commit(&[i; 100]).expect("commits");
    }
    if close {
        log.close().expect("closes");
    }
}

/// Changes what begins at this byte of the first segment.
fn change(dir: &Path, at: usize, change: impl Fn(&mut [u8])) {
    fixture::change(&dir.join(segment_name(1)), |bytes| change(&mut bytes[at..]));
}

/// Peers: four silently drop everything after a flipped byte in the middle; four hand out garbage.
#[test]
fn a_flipped_byte_in_the_middle_is_reported_with_its_place_and_the_rest_is_saved() {
    let dir = scratch();
    written(dir.path(), 10, false);
    change(dir.path(), 4 * 4096 + 150, |bytes| bytes[0] ^= 1);
    match Log::open(dir.path(), small()) {
        Err(Error::Corrupt(damage)) => assert_eq!((damage.offset, damage.lsn), (4 * 4096, Lsn::new(3 * 104))),
        other => panic!("{other:?}"),
    }
    let report = verify(dir.path()).expect("verifies");
    assert_eq!((report.damage.len(), report.records), (1, 9));
    let rescued = scratch();
    let done = salvage(dir.path(), rescued.path().join("log"), small()).expect("salvages");
    assert_eq!(done.records, 9);
    let log = Log::open(rescued.path().join("log"), small()).expect("opens");
    let first: Vec<u8> = payloads(&log).iter().map(|payload| payload[0]).collect();
    assert_eq!(first, [0, 1, 2, 4, 5, 6, 7, 8, 9]);
}

/// Peers: one cannot open a log with a torn last record.
#[test]
fn a_torn_last_record_is_cut_off_and_the_log_goes_on() {
    for torn in [0, 1, 127, 128, 132, 231] {
        let dir = scratch();
        written(dir.path(), 10, false);
        change(dir.path(), 10 * 4096, |bytes| bytes[torn..4096].fill(0));
        let log = Log::open(dir.path(), small()).expect("opens");
        assert_eq!(log.opened().tail, Tail::Torn);
        assert_eq!(count(&log), 9, "torn at {torn}");
        log.append_commit(b"goes on").expect("commits");
        drop(log);
        let log = Log::open(dir.path(), small()).expect("opens");
        assert_eq!(count(&log), 10);
        assert!(verify(dir.path()).expect("verifies").damage.is_empty());
    }
}

/// The close mark is a witness: damage to the very last record of a closed log is reported too.
#[test]
fn damage_to_the_last_record_of_a_closed_log_is_corruption() {
    let dir = scratch();
    written(dir.path(), 10, true);
    change(dir.path(), 10 * 4096 + 132, |bytes| bytes[0] ^= 1);
    assert!(matches!(Log::open(dir.path(), small()), Err(Error::Corrupt(_))));
}

#[test]
fn a_newer_format_a_foreign_segment_and_a_missing_one_are_distinguished() {
    let dir = scratch();
    written(dir.path(), 3, true);
    let good = std::fs::read(dir.path().join(segment_name(1))).expect("reads");
    let newer = |bytes: &mut [u8]| {
        bytes[4] = 3;
        let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[..124]);
        bytes[124..128].copy_from_slice(&u32::try_from(checksum).expect("32 bits").to_le_bytes());
    };
    change(dir.path(), 0, newer);
    change(dir.path(), good.len() - 4096, newer);
    assert!(matches!(Log::open(dir.path(), small()), Err(Error::NewerFormat { version: 3, .. })));
    assert!(matches!(verify(dir.path()), Err(Error::NewerFormat { version: 3, .. })));

    let other = scratch();
    written(other.path(), 3, true);
    let path = other.path().join(segment_name(1));
    std::fs::copy(&path, dir.path().join(segment_name(1))).expect("copies");
    written(dir.path(), 1, true);
    assert_eq!(count(&Log::open(dir.path(), small()).expect("opens")), 4, "a moved log is a log");
}

#[test]
fn a_segment_of_another_log_is_named_and_not_touched() {
    let (dir, other) = (scratch(), scratch());
    written(dir.path(), 3, true);
    written(other.path(), 3, true);
    let path = dir.path().join(segment_name(2));
    let foreign = std::fs::read(other.path().join(segment_name(1))).expect("reads");
    // Bound to its name, so that it must be renamed inside as well to pass for the second one.
    let renumbered = renumber(foreign.clone());
    let mut refused = 0;
    for bytes in [foreign, renumbered] {
        std::fs::write(&path, &bytes).expect("writes");
        refused += 1;
        match Log::open(dir.path(), small()) {
            Ok(log) => {
                refused -= 1;
                drop(log);
                assert_eq!(
                    count(&Log::open(dir.path(), small()).expect("opens")),
                    3,
                    "nothing foreign is read"
                );
            }
            Err(error) => {
                let named = matches!(&error, Error::ForeignSegment { path } if path.starts_with(dir.path()));
                assert!(named && error.to_string().contains("move the foreign one out"), "{error}");
                assert_eq!(std::fs::read(&path).expect("is there"), bytes, "it is left as it was");
            }
        }
    }
    assert!(refused >= 1, "the one whose header is sound shows that two logs are mixed");
}

/// Gives both copies of a segment header the number 2.
fn renumber(mut bytes: Vec<u8>) -> Vec<u8> {
    for copy in [0, bytes.len() - 4096] {
        let header = &mut bytes[copy..copy + 128];
        header[32..40].copy_from_slice(&2_u64.to_le_bytes());
        let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &header[..124]);
        header[124..128].copy_from_slice(&u32::try_from(checksum).expect("32 bits").to_le_bytes());
    }
    bytes
}

/// What is remembered of the probe is advice: damage to it costs another probe and nothing else.
#[test]
fn a_damaged_memory_of_the_probe_harms_nothing() {
    let dir = scratch();
    let method = {
        let log = Log::open(dir.path(), small()).expect("opens");
        log.append_commit(b"record").expect("commits");
        log.opened().method
    };
    let known = dir.path().join("METHOD");
    for text in [&b""[..], b"no-such-method\n", b"\xFF\xFE\0\0", b"buffered\n", b"only \n"] {
        std::fs::write(&known, text).expect("writes");
        let log = Log::open(dir.path(), small()).expect("opens");
        assert_ne!(log.opened().method, "buffered", "it does not outlive a power loss");
        assert!(!log.opened().method.is_empty() && !method.is_empty());
        assert_eq!(count(&log), 1);
    }
}

#[test]
fn a_lock_that_is_held_is_named_with_its_remedy_and_passes() {
    let (dir, log) = new_log(small());
    let held = Log::open(dir.path(), small()).expect_err("is held");
    assert!(matches!(&held, Error::Locked { path } if *path == dir.path().join("LOCK")), "{held}");
    assert!(held.to_string().contains("close it first"), "{held}");
    log.append_commit(b"goes on").expect("the holder is not disturbed");
    drop(log);
    // Whatever stands in the file, the lock is the system's.
    std::fs::write(dir.path().join("LOCK"), b"\xFFgarbage").expect("writes");
    assert_eq!(count(&Log::open(dir.path(), small()).expect("opens")), 1);
}

#[test]
fn a_missing_segment_is_reported() {
    for missing in 1..=3 {
        let (dir, log) = new_log(small());
        for _ in 0..80 {
            log.append_commit(&vec![3; 10_000]).expect("commits");
        }
        log.close().expect("closes");
        std::fs::remove_file(dir.path().join(segment_name(missing))).expect("is there");
        assert!(matches!(Log::open(dir.path(), small()), Err(Error::Corrupt(_))), "segment {missing}");
        assert!(!verify(dir.path()).expect("verifies").damage.is_empty());
    }
}

#[test]
fn other_files_in_the_directory_are_named_and_left_alone() {
    let dir = scratch();
    std::fs::write(dir.path().join("notes.txt"), "mine").expect("writes");
    std::fs::write(dir.path().join("1.seg"), "mine too").expect("writes");
    let log = Log::open(dir.path(), small()).expect("opens");
    assert_eq!(log.opened().foreign_files, ["1.seg", "notes.txt"]);
    drop(log);
    assert_eq!(std::fs::read(dir.path().join("1.seg")).expect("is there"), b"mine too");
}

#[test]
fn a_file_in_the_place_of_the_directory_is_an_error_that_names_it() {
    let dir = scratch();
    let path = dir.path().join("file");
    std::fs::write(&path, "").expect("writes");
    match Log::open(path.join("log"), small()) {
        Err(Error::Io { operation: "create", path: named, .. }) => assert!(named.starts_with(&path)),
        other => panic!("{other:?}"),
    }
}

/// As on a system that cannot read past its page cache: what is opened is a copy that was synced.
#[test]
#[cfg(target_os = "linux")]
fn what_was_read_through_the_cache_is_handed_out_of_a_copy() {
    use std::os::unix::fs::MetadataExt as _;
    let dir = scratch();
    let newest = || {
        let mut segments = segments(dir.path());
        let started = seawall::View::open(dir.path()).expect("looks").segments();
        let path = segments.swap_remove(started - 1);
        (std::fs::metadata(&path).expect("is there").ino(), path)
    };
    let log = Log::open(dir.path(), small()).expect("opens");
    log.append_commit(b"first").expect("commits");
    log.close().expect("closes");
    let (before, path) = newest();
    // Left by a copying that the power ended.
    std::fs::write(path.with_extension("new"), b"half").expect("writes");
    drop(Log::open(dir.path(), small()).expect("opens"));
    assert_eq!(std::fs::metadata(&path).expect("is there").ino(), before, "it is read past the cache");
    std::fs::write(path.with_extension("new"), b"half").expect("writes");
    let log = Log::open(dir.path(), small().cached_reads()).expect("opens");
    assert_eq!(count(&log), 1);
    log.append_commit(b"second").expect("commits");
    drop(log);
    let log = Log::open(dir.path(), small().cached_reads()).expect("opens");
    assert_eq!(count(&log), 2);
    assert_ne!(std::fs::metadata(&path).expect("is there").ino(), before, "no copy was written");
}

/// What is refused is refused before anything is made.
#[test]
fn a_refused_opening_leaves_no_segment_behind() {
    let refusals = [
        ("no such method", "method", small().method(MethodChoice::Named("nope".to_owned()))),
        ("too weak a method", "method", small().method(MethodChoice::Named("buffered".to_owned()))),
        ("too much memory", "memory_bytes", small().memory_bytes(usize::MAX)),
    ];
    for (what, option, options) in refusals {
        let dir = scratch();
        let refused = Log::open(dir.path(), options).expect_err(what);
        let named = matches!(refused, Error::InvalidOption { option: named, .. } if named == option);
        assert!(named, "{what}: {refused}");
        assert_eq!(segments(dir.path()), [""; 0].map(std::path::PathBuf::from), "{what}");
        Log::open(dir.path(), small()).expect("opens all the same");
    }
}

/// One long append after the other must not stop everybody else: records that fill a batch of their own are copied before
/// the log is locked.
#[test]
fn small_commits_go_on_while_a_large_record_is_copied() {
    let large = vec![9; 300_000];
    for in_transaction in [false, true] {
        let (_dir, faults, log) = new_faulty(small());
        faults.hold_copies(true);
        std::thread::scope(|scope| {
            let (log, large, faults) = (&log, &large, &faults);
            let copying = scope.spawn(move || {
                let end = if in_transaction {
                    log.transaction::<Error>(|transaction| transaction.append(large))?
                } else {
                    log.append(large)?.end
                };
                log.commit(end)
            });
            scope.spawn(move || {
                // Commits that wait for the copy would hang, and this with them.
                comes(LIMIT, || log.stats().records >= 100);
                faults.hold_copies(false);
            });
            until("it is copied", || faults.copies() > 0);
            for _ in 0..100 {
                log.append_commit(b"small").expect("commits");
            }
            assert_eq!(faults.copies(), 1);
            assert_eq!(log.durable_lsn(), Lsn::new(100 * 9), "the large record has no place yet");
            faults.hold_copies(false);
            copying.join().expect("ends").expect("commits");
        });
        let lengths = payloads(&log).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths, [&[5; 100][..], &[large.len()]].concat());
        log.close().expect("closes");
    }
}

/// Every append to a stream says that the thread is lacking which gives disk space back, until it can be started.
#[test]
fn a_thread_that_cannot_be_started_is_reported_until_it_is() {
    let (_dir, faults, log) = new_faulty(small());
    let stream = log.stream(id(1));
    faults.set_out_of_threads(true);
    for _ in 0..2 {
        assert!(matches!(stream.append(b"record"), Err(Error::Io { operation: "start a thread for", .. })));
        let transaction =
            log.transaction::<Error>(|transaction| transaction.append_to(stream.id(), b"record"));
        assert!(matches!(transaction, Err(Error::Io { .. })));
    }
    faults.set_out_of_threads(false);
    assert_eq!(stream.append(b"record").expect("appends").seq, 0, "nothing was appended");
    assert_eq!(faults.threads(), 1);
    stream.append(b"record").expect("appends");
    assert_eq!(faults.threads(), 1, "it is started once");
    log.close().expect("closes");
}

/// The log ends while a first append to a stream has started a thread that sleeps, and has not left its handle yet.
#[test]
fn a_log_that_is_closed_while_it_starts_a_thread_ends() {
    let (_dir, faults, log) = new_faulty(small());
    faults.hold_threads(true);
    let (done, ended) = std::sync::mpsc::channel();
    // A log that hangs cannot be joined.
    std::thread::spawn(move || {
        std::thread::scope(|scope| {
            let appends = scope.spawn(|| log.stream(id(1)).append(b"record"));
            until("a thread is started", || faults.threads() > 0);
            // Time for the new thread to fall asleep; without it this shows less.
            std::thread::sleep(Duration::from_millis(50));
            let closed = log.close_async();
            std::thread::sleep(Duration::from_millis(50));
            faults.hold_threads(false);
            let _ = appends.join().expect("ends");
            futures_lite::future::block_on(closed).expect("closes");
        });
        done.send(()).expect("is awaited");
    });
    assert!(ended.recv_timeout(Duration::from_mins(1)).is_ok(), "the log does not end");
}

/// Large records that wait for each other's memory, none of which is committed.
#[test]
fn large_records_that_are_not_committed_make_room_for_each_other() {
    let (dir, log) = new_log(small());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10).for_each(|_| assert!(log.append(&vec![7; 100_000]).is_ok())));
        }
    });
    log.close().expect("closes");
    assert_eq!(count(&Log::open(dir.path(), small()).expect("opens")), 40);
}

/// Reading records until the end, errors left out, comes to an end.
#[test]
fn an_iterator_returns_damage_once_and_ends() {
    let dir = scratch();
    written(dir.path(), 10, false);
    let log = Log::open(dir.path(), small()).expect("opens, in a new segment");
    let before = seawall::View::open(dir.path()).expect("looks");
    change(dir.path(), 5 * 4096 + 150, |bytes| bytes[0] ^= 1);
    let mut reader = log.read(Lsn::ZERO).expect("reads");
    let read: Vec<bool> = reader.by_ref().take(1000).map(|record| record.is_ok()).collect();
    assert_eq!(read, [&[true; 4][..], &[false]].concat());
    assert!(reader.next().is_none());
    assert!(reader.next_record().is_err(), "called directly it fails again");
    let mut reader = before.read(before.first_lsn()).expect("reads");
    assert_eq!(reader.by_ref().take(1000).filter(Result::is_err).count(), 1);
    assert!(reader.next().is_none());
}
