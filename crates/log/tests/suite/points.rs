//! Tests reads of single records by LSN: each found, everything else refused, damage noticed.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use seawall::{Error, Log, Lsn, Options, Record};

fn options() -> Options {
    Options::default().segment_bytes(64 << 10).batch_bytes(8 << 10).memory_bytes(64 << 10)
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// A record of `length` bytes that no other one equals.
fn payload(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (number * 31 + i * 7 + i / 251).to_le_bytes()[0]).collect()
}

/// Appends records of these lengths: some alone, some in transactions, some committed at once.
fn write(log: &Log, lengths: &[usize]) {
    for (number, group) in lengths.chunks(3).enumerate() {
        let records: Vec<_> = group.iter().map(|length| payload(number, *length)).collect();
        let end = if number % 2 == 0 {
            log.transaction::<Error>(|tx| records.iter().try_for_each(|record| tx.append(record)))
                .expect("appends")
        } else {
            records
                .iter()
                .map(|record| log.append(record).expect("appends"))
                .last()
                .expect("one at least")
                .end
        };
        if number % 3 == 0 {
            log.commit(end).expect("commits");
        }
    }
    log.commit(log.appended_lsn()).expect("commits");
}

fn same(a: &Record, b: &Record) -> bool {
    (a.lsn, a.end, a.ends_transaction, &a.payload[..]) == (b.lsn, b.end, b.ends_transaction, &b.payload[..])
}

/// Holds every single read against what a reader returns.
fn hold_against_a_reader(log: &Log) -> usize {
    let records: Vec<Record> =
        log.read(log.first_lsn()).expect("reads").collect::<Result<_, _>>().expect("reads");
    for record in &records {
        assert!(same(&log.read_at(record.lsn).expect("starts here"), record), "{}", record.lsn);
        let before = log.read_before(record.end).expect("ends here").expect("one is left");
        assert!(same(&before, record), "{}", record.end);
        for lsn in [record.lsn.get() + 1, record.lsn.get() + 4, record.end.get() - 1] {
            let lsn = Lsn::new(lsn);
            if lsn > record.lsn && lsn < record.end {
                let refused = |error: &Error| matches!(error, Error::NoRecord { lsn: at } if *at == lsn);
                assert!(log.read_at(lsn).is_err_and(|error| refused(&error)), "{lsn}");
                assert!(log.read_before(lsn).is_err_and(|error| refused(&error)), "{lsn}");
            }
        }
    }
    let (mut end, mut backwards) = (log.durable_lsn(), Vec::new());
    while let Some(record) = log.read_before(end).expect("reads") {
        end = record.lsn;
        backwards.push(record);
    }
    backwards.reverse();
    assert!(backwards.len() == records.len() && backwards.iter().zip(&records).all(|(a, b)| same(a, b)));
    records.len()
}

#[test]
fn every_record_is_found_and_nothing_else() {
    let lengths: [&[usize]; 4] = [
        &[0, 1, 2, 3, 0, 0, 100, 4000, 4092, 4096, 5000, 0, 9000, 12, 40_000, 1, 30_000, 0, 7],
        &[3_000_000, 5, 0, 200_000, 1],
        &[100; 600],
        &[508, 412, 416, 408, 404, 400, 512, 1020, 0, 3996, 3992, 4000],
    ];
    for block_bytes in [512, 4096] {
        for lengths in lengths {
            let dir = directory();
            let log = Log::open(dir.path(), options().block_bytes(block_bytes)).expect("opens");
            write(&log, lengths);
            // An index that was built grows with the log, and is built anew by the next opening.
            assert_eq!(hold_against_a_reader(&log), lengths.len());
            write(&log, lengths);
            assert_eq!(hold_against_a_reader(&log), 2 * lengths.len());
            log.close().expect("closes");
            let log = Log::open(dir.path(), options()).expect("opens");
            write(&log, &[10, 20, 30]);
            assert_eq!(hold_against_a_reader(&log), 2 * lengths.len() + 3);
            log.close().expect("closes");
        }
    }
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let dir = directory();
    let log = Log::open(dir.path(), options()).expect("opens");
    assert!(matches!(log.read_at(Lsn::ZERO), Err(Error::BeyondEnd { .. })), "the log is empty");
    assert!(log.read_before(Lsn::ZERO).expect("nothing lies before").is_none());
    write(&log, &[20_000; 30]);
    let durable = log.durable_lsn();
    let end = log.append(b"not committed").expect("appends").end;
    assert!(matches!(log.read_at(durable), Err(Error::BeyondEnd { end, .. }) if end == durable));
    assert!(matches!(log.read_before(end), Err(Error::BeyondEnd { end, .. }) if end == durable));
    assert!(matches!(log.read_at(Lsn::MAX), Err(Error::BeyondEnd { .. })));
    log.commit(end).expect("commits");
    assert_eq!(&log.read_at(durable).expect("it is durable now").payload[..], b"not committed");
    let third = log.read_at(Lsn::new(2 * 20_004)).expect("reads").lsn;
    log.trim(third).expect("trims");
    for (lsn, trimmed) in [(Lsn::ZERO, true), (Lsn::new(20_004), true), (third, false)] {
        let read = log.read_at(lsn);
        assert_eq!(matches!(read, Err(Error::Trimmed { first, .. }) if first == third), trimmed, "{lsn}");
    }
    assert!(log.read_before(third).expect("the first one that is left").is_none());
    assert!(matches!(log.read_before(Lsn::new(20_004)), Err(Error::Trimmed { .. })));
    log.close().expect("closes");
}

/// Changes the byte of the log in `dir` in which `needle` begins.
fn damage(dir: &Path, needle: &[u8]) {
    for entry in std::fs::read_dir(dir).expect("lists").flatten() {
        // The log prepares and removes segments meanwhile.
        let Ok(mut file) = std::fs::File::options().read(true).write(true).open(entry.path()) else {
            continue;
        };
        let mut content = Vec::new();
        file.read_to_end(&mut content).expect("reads");
        if let Some(at) = content.windows(needle.len()).position(|bytes| bytes == needle) {
            file.seek(SeekFrom::Start(at as u64)).expect("seeks");
            file.write_all(&[content[at] ^ 1]).expect("writes");
            return;
        }
    }
    panic!("it is nowhere");
}

#[test]
fn damage_behind_the_first_read_is_noticed_where_it_lies() {
    let dir = directory();
    let log = Log::open(dir.path(), options()).expect("opens");
    let mut lsns = vec![Lsn::ZERO];
    for number in 0..20 {
        let mut record = payload(number, 6000);
        record[..8].copy_from_slice(&(0xFEED_0000_u64 + number as u64).to_le_bytes());
        lsns.push(log.append_commit(&record).expect("commits").end);
    }
    for lsn in &lsns[..20] {
        log.read_at(*lsn).expect("reads");
    }
    damage(dir.path(), &0xFEED_0007_u64.to_le_bytes());
    for (number, lsn) in lsns[..20].iter().enumerate() {
        let read = log.read_at(*lsn);
        let corrupt = matches!(&read, Err(Error::Corrupt(damage)) if damage.lsn == *lsn);
        assert_eq!(corrupt, number == 7, "{number}: {read:?}");
        assert_eq!(read.is_ok(), number != 7, "{number}");
    }
}

#[test]
fn reads_beside_a_writer_that_trims_find_their_record_or_say_that_it_was_trimmed() {
    let dir = directory();
    let log = Log::open(dir.path(), options()).expect("opens");
    let stop = AtomicBool::new(false);
    let record = |start: Lsn| [&start.get().to_le_bytes()[..], &[0xA5; 6992][..]].concat();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut starts = vec![Lsn::ZERO];
            for _ in 0..400 {
                let start = starts[starts.len() - 1];
                starts.push(log.append_commit(&record(start)).expect("commits").end);
                if starts.len() > 8 {
                    log.trim(starts[starts.len() - 8]).expect("trims");
                }
            }
            stop.store(true, Ordering::SeqCst);
        });
        let (mut found, mut trimmed) = (0, 0);
        while !stop.load(Ordering::SeqCst) || found == 0 {
            let (first, end) = (log.first_lsn(), log.durable_lsn());
            for start in (first.get()..end.get()).step_by(7004).map(Lsn::new) {
                match log.read_at(start) {
                    Ok(read) => {
                        assert_eq!(&read.payload[..], record(start), "{start}");
                        found += 1;
                    }
                    Err(Error::Trimmed { .. }) => trimmed += 1,
                    Err(error) => panic!("{start}: {error}"),
                }
            }
        }
        println!("{found} found, {trimmed} trimmed");
    });
    log.close().expect("closes");
}

#[test]
fn a_detached_payload_holds_the_same_bytes() {
    let dir = directory();
    let log = Log::open(dir.path(), options()).expect("opens");
    write(&log, &[100, 5000, 0]);
    for record in log.read(Lsn::ZERO).expect("reads") {
        let record = record.expect("reads");
        let detached = record.payload.clone().detach();
        assert_eq!(detached[..], record.payload[..]);
        assert_eq!(detached.as_ptr(), detached.clone().detach().as_ptr(), "copied once");
    }
    log.close().expect("closes");
}

/// Files of the log in `dir` that this process holds open and that have no name any more.
#[cfg(target_os = "linux")]
fn nameless(dir: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("lists").flatten();
    let names = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    names.filter(|name| name.starts_with(dir) && name.to_string_lossy().ends_with("(deleted)")).count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_segment_that_was_read_from_and_trimmed_gives_its_space_back() {
    let dir = directory();
    let path = dir.path().canonicalize().expect("is there");
    let log = Log::open(&path, options()).expect("opens");
    write(&log, &[20_000; 60]);
    assert_eq!(hold_against_a_reader(&log), 60);
    assert!(log.stats().segments > 15);
    log.trim(log.durable_lsn()).expect("trims");
    let end = log.append_commit(b"makes the trim durable").expect("commits").end;
    for _ in 0..2_000 {
        if log.stats().segments <= 2 && nameless(&path) == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(log.stats().segments <= 2, "trimmed segments go");
    assert_eq!(nameless(&path), 0, "files without a name are held open");
    assert!(log.read_before(end).expect("reads").is_some());
    log.close().expect("closes");
}
