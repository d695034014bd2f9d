//! Tests followers in other processes: they see every committed record once and in order, whatever becomes of the writers,
//! believe nothing but what is durable, and neither they nor the writers do anything while nothing happens.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::fixture::{
    LIMIT, PLAIN, child, copy, new_faulty, new_log, orders, payloads_of, scratch, tiny, until,
};
use seawall::Durability::ProcessCrash;
use seawall::{Error, Log, Lsn, MethodChoice, Options, View, ViewFollower};

pub(crate) fn options() -> Options {
    tiny().method(MethodChoice::Named("dsync".to_owned()))
}

/// No idle marks: nothing but the page says that the last batch is durable.
fn quiet() -> Options {
    options().idle_mark(Duration::from_mins(10)).crash_memory_bytes(0)
}

fn follow(dir: &Path) -> ViewFollower {
    View::open(dir).expect("looks").follow(Lsn::ZERO).expect("follows")
}

/// The number that a record starts with.
fn number(payload: &[u8]) -> u64 {
    u64::from_le_bytes(payload[..8].try_into().expect("a number"))
}

/// A record with this number, of a length that goes with it.
fn record(number: u64) -> Vec<u8> {
    let mut record = vec![0x5A; 8 + usize::try_from(number * 97 % 3000).expect("small")];
    record[..8].copy_from_slice(&number.to_le_bytes());
    record
}

/// The writing process: appends numbered records, prints each number when it is durable, and trims to the LSNs of its input.
/// Nothing unless a test below started it.
#[test]
fn writer_process() {
    let Some(dir) = orders() else { return };
    let log = Log::open(dir, options().idle_mark(Duration::from_millis(2))).expect("opens");
    let last = log.read(log.first_lsn()).expect("reads").last();
    let mut next = last.map_or(0, |record| number(&record.expect("is sound").payload) + 1);
    let (sender, trims) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _ = sender.send(line.parse::<u64>().expect("an LSN"));
        }
        // The end of the input has the process end without closing the log.
        std::process::exit(0);
    });
    loop {
        log.append_commit(&record(next)).expect("commits");
        println!("#{next}");
        next += 1;
        while let Ok(lsn) = trims.try_recv() {
            log.trim(Lsn::new(lsn)).expect("trims");
        }
    }
}

/// The writing process, and what reads the numbers that it prints.
struct Writer(Child, JoinHandle<Option<u64>>);

impl Writer {
    fn start(dir: &Path) -> Self {
        let mut command = child(PLAIN, "follow::writer_process", dir.to_str().expect("is text"));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        let number = |line: String| line.strip_prefix('#')?.parse().ok();
        let numbers = lines.map_while(Result::ok).filter_map(number);
        Self(child, std::thread::spawn(|| numbers.last()))
    }

    fn trim(&mut self, lsn: Lsn) {
        writeln!(self.0.stdin.as_mut().expect("is piped"), "{lsn}").expect("goes on");
    }

    /// Waits for its end; returns the last number that it said was durable.
    fn ended(mut self) -> u64 {
        self.0.wait().expect("is ours");
        self.1.join().expect("reads").expect("it printed something")
    }

    /// Ends it by SIGKILL.
    fn kill(mut self) -> u64 {
        self.0.kill().expect("is ours");
        self.ended()
    }
}

#[test]
fn every_record_of_writers_that_are_killed_is_seen_once_and_in_order() {
    const LIVES: u64 = 4;
    const RECORDS: u64 = 400;
    let dir = scratch();
    Log::open(dir.path(), options()).expect("opens").close().expect("closes");
    let mut follower = follow(dir.path());
    let (mut next, mut woken) = (0, false);
    let mut step = |follower: &mut ViewFollower| {
        let record = follower.next_record_timeout(LIMIT).expect("reads").expect("the writer goes on");
        assert_eq!(&record.payload[..], &self::record(next)[..], "{follower:?}");
        next += 1;
        record
    };
    for _ in 0..LIVES {
        let mut writer = Writer::start(dir.path());
        let mut last = 0;
        for count in 0..RECORDS {
            let record = step(&mut follower);
            last = number(&record.payload);
            woken |= follower.polls().is_none() && !follower.has_no_writer();
            // A segment and more behind, so that files are recycled while they are followed.
            if count % 50 == 49 {
                writer.trim(record.lsn);
            }
        }
        let durable = writer.kill();
        while last < durable {
            last = number(&step(&mut follower).payload);
        }
    }
    assert!(woken, "{:?}", follower.polls());
    // What nobody waited for may be there as well, and nothing else is.
    let log = Log::open(dir.path(), options()).expect("opens");
    assert!(log.first_lsn() > Lsn::ZERO, "it was trimmed");
    let rest: Vec<_> = log.read(follower.lsn()).expect("reads").collect::<Result<_, _>>().expect("is sound");
    log.close().expect("closes");
    for record in rest {
        assert_eq!(follower.next_record().expect("reads").expect("is there").lsn, record.lsn);
    }
    let mut follower = follower.ends_with_writer(true);
    assert!(follower.next_record().expect("reads").is_none());
}

#[test]
fn a_commit_is_seen_at_once_and_without_an_idle_mark() {
    let (dir, log) = new_log(quiet());
    assert_eq!(log.opened().channel_refused, None);
    let first = log.append_commit(&record(0)).expect("commits").end;
    let mut follower = follow(dir.path());
    assert_eq!(follower.polls(), None);
    for next in 1..100 {
        let seen = follower.try_next_record().expect("reads").expect("is durable");
        assert_eq!(number(&seen.payload), next - 1);
        log.append(&record(next)).expect("appends");
        assert!(follower.try_next_record().expect("reads").is_none(), "it is not durable");
        log.commit(log.appended_lsn()).expect("commits");
    }
    assert!(follower.lsn() > first);
    assert!(View::open(dir.path()).expect("looks").segments() > 3, "it went through several segments");
}

#[test]
fn an_idle_follower_is_woken_and_looks_once_a_second() {
    let (dir, log) = new_log(quiet());
    log.append_commit(&record(0)).expect("commits");
    let mut follower = follow(dir.path());
    follower.try_next_record().expect("reads").expect("is there");
    let reads = || {
        let text = std::fs::read_to_string("/proc/thread-self/io").expect("is there");
        let value = |name| text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
        (value("rchar: ").expect("is listed"), value("syscr: ").expect("is listed"))
    };
    let (looks, before) = (follower.looks(), reads());
    let waited = follower.next_record_timeout(Duration::from_millis(3500));
    assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
    let (looks, after) = (follower.looks() - looks, reads());
    // At the beginning, at three seconds, at the end; the system may wake it once more.
    assert!((4..=7).contains(&looks), "{looks} looks");
    assert!(after.0 - before.0 < 4096 && after.1 - before.1 < 100, "{before:?} {after:?}");
    // It is woken from its sleep.
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| follower.next_record_timeout(LIMIT).expect("reads").expect("is woken"));
        while log.stats().follower_wakes == 0 {
            log.append_commit(&record(1)).expect("commits");
        }
        assert_eq!(number(&sleeper.join().expect("ends").payload), 1);
    });
}

#[test]
fn a_writer_makes_no_call_for_followers_that_are_none_or_awake_and_one_for_one_that_died_asleep() {
    let (dir, log) = new_log(quiet());
    let commit = || {
        for next in 0..50 {
            log.append_commit(&record(next)).expect("commits");
        }
    };
    commit();
    let mut follower = follow(dir.path());
    commit();
    assert_eq!(log.stats().follower_wakes, 0);
    while follower.try_next_record().expect("reads").is_some() {}
    // It says that it sleeps, and is gone.
    let waited = follower.next_record_timeout(Duration::from_millis(1));
    assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
    drop(follower);
    commit();
    assert_eq!(log.stats().follower_wakes, 1);
}

#[test]
fn a_follower_waits_for_the_next_writer_or_ends_as_it_chose() {
    let (dir, log) = new_log(quiet());
    log.append_commit(&record(0)).expect("commits");
    let (mut waits, ends) = (follow(dir.path()), follow(dir.path()));
    let mut ends = ends.ends_with_writer(true);
    log.close().expect("closes");
    for follower in [&mut waits, &mut ends] {
        assert_eq!(number(&follower.next_record().expect("reads").expect("is there").payload), 0);
    }
    assert!(ends.next_record().expect("reads").is_none());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| number(&waits.next_record().expect("reads").expect("is there").payload));
        // Between two of its looks.
        let log = Log::open(dir.path(), quiet()).expect("opens");
        log.append_commit(&record(1)).expect("commits");
        log.close().expect("closes");
        assert_eq!(waits.join().expect("ends"), 1);
    });
}

#[test]
fn a_follower_that_is_overtaken_by_a_trim_says_so() {
    let (dir, log) = new_log(quiet());
    for next in 0..300 {
        log.append_commit(&record(next)).expect("commits");
    }
    let mut follower = follow(dir.path());
    follower.try_next_record().expect("reads").expect("is there");
    let end = log.durable_lsn();
    log.trim(end).expect("trims");
    log.append_commit(&record(300)).expect("commits");
    log.append_commit(&record(301)).expect("commits");
    let error = loop {
        match follower.try_next_record() {
            Ok(Some(record)) if record.lsn < end => {}
            // Files that are still there may be read to the end.
            Ok(_) => return,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Trimmed { first, .. } if first == end), "{error}");
    let mut follower = View::open(dir.path()).expect("looks").follow(end).expect("follows");
    assert_eq!(number(&follower.next_record().expect("reads").expect("is there").payload), 300);
}

/// A record that is whole on the disk and not durable is not shown.
#[test]
fn what_is_not_durable_is_not_shown() {
    let (dir, log) = new_log(quiet());
    let end = log.append_commit(&record(0)).expect("commits").end;
    let mut follower = follow(dir.path());
    follower.try_next_record().expect("reads").expect("is durable");
    let weak = log.append(&record(1)).expect("appends").end;
    log.commit_as(weak, ProcessCrash).expect("commits");
    assert_eq!((log.durable_lsn(), log.lsn_surviving(ProcessCrash)), (end, weak));
    assert!(follower.try_next_record().expect("reads").is_none(), "it is not durable");
    log.commit(weak).expect("commits");
    assert_eq!(number(&follower.try_next_record().expect("reads").expect("is durable").payload), 1);
}

/// Commits across segments, each looked for by a new view and by one that is renewed; relaxed ones are not shown.
#[test]
fn a_view_shows_what_was_committed_before_it_was_opened_or_renewed() {
    let (dir, log) = new_log(quiet());
    let mut renewed = View::open(dir.path()).expect("looks");
    for seq in 0..200 {
        let end = log.append_commit(&record(seq)).expect("commits").end;
        assert_eq!(View::open(dir.path()).expect("looks").end_lsn(), end);
        assert!(renewed.renew().expect("looks"), "record {seq}");
        assert_eq!(renewed.end_lsn(), end);
    }
    let shown = payloads_of(renewed.read(Lsn::ZERO).expect("reads"));
    let numbers = shown.iter().map(|payload| number(payload));
    assert!(numbers.eq(0..200) && renewed.segments() > 2);
    let weak = log.append(&record(200)).expect("appends").end;
    log.commit_as(weak, ProcessCrash).expect("commits");
    assert!(View::open(dir.path()).expect("looks").end_lsn() < weak, "it is not durable");
}

/// A log that is dropped writes no close mark: its last record is shown because the lock is free, or because the page says so.
#[test]
fn a_view_shows_what_was_committed_before_a_writer_that_ends_during_the_look() {
    let dir = scratch();
    for seq in 0..200 {
        let log = Log::open(dir.path(), quiet()).expect("opens");
        let mut renewed = View::open(dir.path()).expect("looks");
        let end = log.append_commit(&record(seq)).expect("commits").end;
        std::thread::scope(|scope| {
            scope.spawn(|| drop(log));
            std::thread::sleep(Duration::from_micros(seq % 40 * 10));
            assert_eq!(View::open(dir.path()).expect("looks").end_lsn(), end, "opened");
            renewed.renew().expect("looks");
            assert_eq!(renewed.end_lsn(), end, "renewed");
        });
    }
}

/// Writers with other sizes of segments come and go, and trim what they find; every record that is left is seen once, in order.
#[test]
fn a_follower_beside_trims_and_new_writers_misses_no_file() {
    let dir = scratch();
    Log::open(dir.path(), options()).expect("opens").close().expect("closes");
    let mut follower = follow(dir.path());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut next = 0;
            for life in 0..60_u64 {
                let bytes = 64 << (10 + life % 3);
                let log = Log::open(dir.path(), options().segment_bytes(bytes)).expect("opens");
                // Some write nothing: the segment that an opening began is replaced by the next one.
                for seq in 0..if life % 3 == 0 { 15 } else { 0 } {
                    let end = log.append_commit(&record(next)).expect("commits").end;
                    next += 1;
                    if seq % 7 == 0 {
                        log.trim(end).expect("trims");
                    }
                }
                if life % 2 == 0 {
                    log.close().expect("closes");
                }
            }
        });
        let mut seen = 0;
        loop {
            let ended = writer.is_finished();
            match follower.next_record_timeout(Duration::from_millis(20)) {
                Ok(Some(record)) => {
                    let number = number(&record.payload);
                    assert!(number >= seen, "{number} behind {seen}");
                    seen = number + 1;
                }
                Err(Error::TimedOut { .. }) if ended => break,
                Err(Error::TimedOut { .. }) => {}
                Ok(None) => panic!("it waits for the next writer"),
                Err(Error::Trimmed { .. }) => drop(follower.skip_trimmed().expect("goes on")),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(seen, 20 * 15);
    });
}

/// Where the page is that `LOCK` names.
fn page(dir: &Path) -> PathBuf {
    let name = std::fs::read_to_string(dir.join("LOCK")).expect("reads");
    Path::new("/dev/shm").join(name.trim_end())
}

/// Puts numbers at places of the page.
fn put(page: &mut [u8], numbers: &[(usize, u64)]) {
    for (at, number) in numbers {
        page[*at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
}

const EPOCH: usize = 24;
const DURABLE: usize = 64;
const SEGMENT: usize = 72;
const CUTS: usize = 104;

/// Pages that say of a record that it is durable, which it is not: one of the writer itself, which is believed, and others.
#[test]
fn a_page_that_speaks_for_another_writer_is_not_believed() {
    let believes = |changed: &[(usize, u64)]| {
        let dir = scratch();
        // The second opening, so that there was an earlier one.
        Log::open(dir.path(), quiet()).expect("opens").close().expect("closes");
        let log = Log::open(dir.path(), quiet()).expect("opens");
        let weak = log.append(&record(0)).expect("appends").end;
        log.commit_as(weak, ProcessCrash).expect("commits");
        let mut bytes = std::fs::read(page(dir.path())).expect("reads");
        put(&mut bytes, &[(DURABLE, weak.get())]);
        put(&mut bytes, changed);
        let forged =
            format!("seawall-{:032x}", u128::from(std::process::id()) << 64 | u128::from(weak.get()));
        std::fs::write(Path::new("/dev/shm").join(&forged), bytes).expect("writes");
        std::fs::write(dir.path().join("LOCK"), format!("{forged}\n")).expect("writes");
        let mut follower = follow(dir.path());
        let found = follower.try_next_record().expect("reads").is_some();
        std::fs::remove_file(Path::new("/dev/shm").join(&forged)).expect("removed");
        assert_eq!(follower.polls().is_none(), found, "{:?}", follower.polls());
        found
    };
    assert!(believes(&[]), "the forgery works, or the rest proves nothing");
    for (what, at) in [("log", 8), ("epoch", EPOCH), ("boot", 32), ("LOCK", 56), ("magic", 0)] {
        assert!(!believes(&[(at, 1)]), "of another {what}");
    }
}

#[test]
fn a_page_with_hostile_contents_shows_nothing_that_is_not_there_and_stops_nothing() {
    for numbers in [
        &[(DURABLE, u64::MAX), (SEGMENT, u64::MAX)][..],
        &[(DURABLE, 1 << 40)],
        &[(DURABLE, 100)],
        &[(DURABLE, 0), (SEGMENT, 0)],
        &[(80, 1)],
    ] {
        let (dir, log) = new_log(options().idle_mark(Duration::from_millis(1)));
        log.append_commit(&record(0)).expect("commits");
        let mut follower = follow(dir.path());
        assert_eq!(number(&follower.next_record().expect("reads").expect("is there").payload), 0);
        let mut bytes = std::fs::read(page(dir.path())).expect("reads");
        put(&mut bytes, numbers);
        // In place: a page that is cut short, if only for a moment, ends the writer that stores into it.
        let file = std::fs::OpenOptions::new().write(true).open(page(dir.path())).expect("opens");
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).expect("writes");
        for _ in 0..3 {
            assert!(follower.try_next_record().expect("reads").is_none(), "{numbers:?}: {follower:?}");
        }
        // The writer writes its numbers over them, or the follower looks at the disk.
        for next in 1..60 {
            log.append_commit(&record(next)).expect("commits");
        }
        for next in 1..60 {
            let found = follower.next_record_timeout(LIMIT).expect("reads").expect("is there");
            assert_eq!(number(&found.payload), next, "{numbers:?}");
        }
    }
}

#[test]
fn a_page_that_is_gone_or_cut_short_does_not_end_the_follower() {
    let dir = scratch();
    Log::open(dir.path(), options()).expect("opens").close().expect("closes");
    let mut follower = follow(dir.path());
    let mut next = 0;
    let mut see = |records: u64| {
        for _ in 0..records {
            let record = follower.next_record_timeout(LIMIT).expect("reads").expect("the writer goes on");
            assert_eq!(number(&record.payload), next);
            next += 1;
        }
        next
    };
    let writer = Writer::start(dir.path());
    see(100);
    let page = page(dir.path());
    let file = std::fs::File::options().write(true).open(&page).expect("opens");
    std::fs::remove_file(&page).expect("removed");
    see(100);
    // The next store into the page ends the writer, as its own user can by a signal: perhaps before the next record.
    file.set_len(0).expect("cut short");
    let durable = writer.ended();
    let seen = see(0);
    see((durable + 1).saturating_sub(seen));
    let writer = Writer::start(dir.path());
    see(100);
    writer.kill();
    // Removes the page that is left.
    Log::open(dir.path(), options()).expect("opens").close().expect("closes");
}

#[test]
fn a_page_of_a_writer_that_died_is_removed_by_the_next_one_and_one_of_a_copied_log_is_not() {
    let dir = scratch();
    let mut writer = Writer::start(dir.path());
    let mut follower = loop {
        // Until it has made the log.
        if let Ok(view) = View::open(dir.path()) {
            break view.follow(Lsn::ZERO).expect("follows");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    follower.next_record_timeout(LIMIT).expect("reads").expect("is there");
    let left = page(dir.path());
    // A copy of the directory, LOCK included, is opened while the writer lives.
    let copy = scratch();
    writer.0.stdin.take();
    writer.ended();
    assert!(left.exists(), "a process that dies removes nothing");
    self::copy(dir.path(), copy.path());
    drop(Log::open(copy.path(), options()).expect("opens"));
    assert!(left.exists(), "the page of another log is left alone");
    let log = Log::open(dir.path(), options()).expect("opens");
    assert!(!left.exists(), "the next writer removes it");
    let own = page(dir.path());
    assert!(own.exists());
    log.close().expect("closes");
    assert!(!own.exists(), "a writer that ends removes its own");
}

#[test]
fn what_was_cut_before_a_follower_came_there_is_not_shown() {
    let (dir, log) = new_log(options());
    let kept = log.append_commit(b"kept").expect("commits");
    let mut follower = follow(dir.path());
    let next = |follower: &mut ViewFollower| {
        let record = follower.next_record_timeout(LIMIT).expect("follows");
        record.expect("comes").payload.to_vec()
    };
    assert_eq!(next(&mut follower), b"kept");
    log.append(b"cut off").expect("appends");
    log.append(b"cut off too").expect("appends");
    log.truncate_after(kept.end).expect("cuts");
    log.append_commit(b"behind it").expect("commits");
    assert_eq!(next(&mut follower), b"behind it");
}

/// The batch of the cut is written and not synced: a crash may take it, and what it cuts would be back.
#[test]
fn a_cut_hides_nothing_from_other_processes_before_it_is_durable() {
    let dir = scratch();
    let method = MethodChoice::Named("buffered+fdatasync".to_owned());
    let log = Log::open(dir.path(), quiet().method(method)).expect("opens");
    let kept = log.append_commit(b"kept").expect("commits");
    log.append_commit(b"cut off").expect("commits");
    let shown = |view: &View| payloads_of(view.read(Lsn::ZERO).expect("reads"));
    let mut renewed = View::open(dir.path()).expect("looks");
    let cut = log.truncate_after(kept.end).expect("cuts");
    log.commit_as(cut, ProcessCrash).expect("commits");
    assert!(log.durable_lsn() < cut);
    renewed.renew().expect("looks");
    let (view, mut follower) = (View::open(dir.path()).expect("looks"), follow(dir.path()));
    for view in [&view, &renewed] {
        assert_eq!(shown(view), [b"kept".to_vec(), b"cut off".to_vec()]);
    }
    assert_eq!(poll(&mut follower), Some(b"kept".to_vec()));
    assert_eq!(poll(&mut follower), Some(b"cut off".to_vec()));
    log.append_commit(b"behind it").expect("commits");
    renewed.renew().expect("looks");
    for view in [&View::open(dir.path()).expect("looks"), &renewed] {
        assert_eq!(shown(view), [b"kept".to_vec(), b"behind it".to_vec()]);
    }
    assert_eq!(poll(&mut follower), Some(b"behind it".to_vec()));
    assert_eq!(shown(&view), [b"kept".to_vec(), b"cut off".to_vec()], "as it was");
}

/// The next record if the follower finds one now.
fn poll(follower: &mut ViewFollower) -> Option<Vec<u8>> {
    follower.try_next_record().expect("follows").map(|record| record.payload.to_vec())
}

/// The batch in flight becomes durable with a cut appended that is not, and after the cut's records there is more to come.
#[test]
fn a_cut_that_comes_while_a_batch_is_in_flight_is_seen_with_its_own_batch() {
    let (dir, faults, log) = new_faulty(quiet());
    log.append_commit(b"kept").expect("commits");
    let mut follower = follow(dir.path());
    assert_eq!(poll(&mut follower).as_deref(), Some(&b"kept"[..]));
    faults.hang_commits(true);
    let in_flight = log.append(b"in flight").expect("appends");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until("it is in flight", || faults.hanging_commits() > 0);
            log.append(b"cut off").expect("appends");
            log.truncate_after(in_flight.end).expect("cuts");
            faults.hang_commits(false);
        });
        log.commit(in_flight.end).expect("commits");
    });
    let counted = || {
        let (file, mut count) = (std::fs::File::open(page(dir.path())).expect("opens"), [0; 8]);
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut count, CUTS as u64).expect("reads");
        u64::from_le_bytes(count)
    };
    assert_eq!(counted(), 0, "it is not durable");
    assert_eq!(poll(&mut follower).as_deref(), Some(&b"in flight"[..]));
    log.commit(log.appended_lsn()).expect("commits");
    assert_eq!(counted(), 1);
    assert_eq!(poll(&mut follower), None, "it was cut before the follower came there");
    log.append_commit(b"behind it").expect("commits");
    assert_eq!(poll(&mut follower).as_deref(), Some(&b"behind it"[..]));
}

/// The writer stores the count first: a follower may look between the two stores.
#[test]
fn cuts_that_are_counted_before_the_durable_lsn_moves_are_looked_at_when_it_does() {
    let (dir, log) = new_log(quiet());
    let kept = log.append_commit(b"kept").expect("commits");
    let mut follower = follow(dir.path());
    assert_eq!(poll(&mut follower).as_deref(), Some(&b"kept"[..]));
    log.append(b"cut off").expect("appends");
    let file = std::fs::OpenOptions::new().write(true).open(page(dir.path())).expect("opens");
    std::os::unix::fs::FileExt::write_all_at(&file, &1_u64.to_le_bytes(), CUTS as u64).expect("writes");
    assert_eq!(poll(&mut follower), None);
    let cut = log.truncate_after(kept.end).expect("cuts");
    log.commit(cut).expect("commits");
    assert_eq!(poll(&mut follower), None, "it was cut before the follower came there");
}

/// The scenes see the mistakes that they are there for.
#[cfg(feature = "mutants")]
#[test]
fn planted_mistakes_are_found() {
    use seawall::mutant::{Mutant, finds};
    let scenes: [(Mutant, fn()); 8] = [
        (Mutant::PublishBeforeDurable, what_is_not_durable_is_not_shown),
        (Mutant::BelieveStaleChannel, a_page_that_speaks_for_another_writer_is_not_believed),
        (Mutant::FollowerMissesCuts, what_was_cut_before_a_follower_came_there_is_not_shown),
        (Mutant::ViewIgnoresPage, a_view_shows_what_was_committed_before_it_was_opened_or_renewed),
        (Mutant::ViewMissesEnd, a_view_shows_what_was_committed_before_a_writer_that_ends_during_the_look),
        (Mutant::ViewCutsAhead, a_cut_hides_nothing_from_other_processes_before_it_is_durable),
        (Mutant::CutsPublishedEarly, a_cut_that_comes_while_a_batch_is_in_flight_is_seen_with_its_own_batch),
        (
            Mutant::CutsNotedUnseen,
            cuts_that_are_counted_before_the_durable_lsn_moves_are_looked_at_when_it_does,
        ),
    ];
    for (mutant, scene) in scenes {
        assert!(finds(mutant, scene), "{mutant:?}");
    }
}
