//! Tests reads of single records by LSN: each found, everything else refused, damage noticed.

use crate::fixture::{flip, new_log, tiny};
#[cfg(target_os = "linux")]
use crate::fixture::{nameless, until};
use seawall::{Error, Log, Lsn, Record};

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
            let (dir, log) = new_log(tiny().block_bytes(block_bytes));
            write(&log, lengths);
            // An index that was built grows with the log, and is built again by the next opening.
            assert_eq!(hold_against_a_reader(&log), lengths.len());
            write(&log, lengths);
            assert_eq!(hold_against_a_reader(&log), 2 * lengths.len());
            log.close().expect("closes");
            let log = Log::open(dir.path(), tiny()).expect("opens");
            write(&log, &[10, 20, 30]);
            assert_eq!(hold_against_a_reader(&log), 2 * lengths.len() + 3);
            log.close().expect("closes");
        }
    }
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let (_dir, log) = new_log(tiny());
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

#[test]
fn damage_behind_the_first_read_is_noticed_where_it_lies() {
    let (dir, log) = new_log(tiny());
    let mut lsns = vec![Lsn::ZERO];
    for number in 0..20 {
        let mut record = payload(number, 6000);
        record[..8].copy_from_slice(&(0xFEED_0000_u64 + number as u64).to_le_bytes());
        lsns.push(log.append_commit(&record).expect("commits").end);
    }
    for lsn in &lsns[..20] {
        log.read_at(*lsn).expect("reads");
    }
    flip(dir.path(), &0xFEED_0007_u64.to_le_bytes());
    for (number, lsn) in lsns[..20].iter().enumerate() {
        let read = log.read_at(*lsn);
        let corrupt = matches!(&read, Err(Error::Corrupt(damage)) if damage.lsn == *lsn);
        assert_eq!(corrupt, number == 7, "{number}: {read:?}");
        assert_eq!(read.is_ok(), number != 7, "{number}");
    }
}

#[test]
fn a_detached_payload_holds_the_same_bytes() {
    let (_dir, log) = new_log(tiny());
    write(&log, &[100, 5000, 0]);
    for record in log.read(Lsn::ZERO).expect("reads") {
        let record = record.expect("reads");
        let detached = record.payload.clone().detach();
        assert_eq!(detached[..], record.payload[..]);
        assert_eq!(detached.as_ptr(), detached.clone().detach().as_ptr(), "copied once");
    }
    log.close().expect("closes");
}

#[cfg(target_os = "linux")]
#[test]
fn a_segment_that_was_read_from_and_trimmed_gives_its_space_back() {
    let (dir, log) = new_log(tiny());
    write(&log, &[20_000; 60]);
    assert_eq!(hold_against_a_reader(&log), 60);
    assert!(log.stats().segments > 15);
    log.trim(log.durable_lsn()).expect("trims");
    let end = log.append_commit(b"makes the trim durable").expect("commits").end;
    until("trimmed segments go, and are held open by none", || {
        log.stats().segments <= 2 && nameless(dir.path()) == 0
    });
    assert!(log.read_before(end).expect("reads").is_some());
    log.close().expect("closes");
}
