//! Tests streams and cuts of the log on real files: order, numbers, readers, trims, cuts, rewriting, salvage and backups.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixture::{
    Released, Task, change, comes, id, new_faulty, new_log, payloads, payloads_of, scratch, segments,
    until_in, wait,
};
use seawall::{Error, Log, Lsn, MethodChoice, Options, Record, Transaction, View, backup, salvage, verify};

fn options() -> Options {
    let options = Options::default().segment_bytes(64 << 10).batch_bytes(8 << 10).memory_bytes(128 << 10);
    options.method(MethodChoice::Named("buffered+fdatasync".to_owned())).block_bytes(512)
}

fn open(dir: &Path) -> Log {
    Log::open(dir, options()).expect("opens")
}

/// What a record of a stream says.
fn content(stream: u32, seq: u64) -> Vec<u8> {
    let length = usize::try_from((u64::from(stream) * 31 + seq * 17) % 300).expect("small");
    [&stream.to_le_bytes()[..], &seq.to_le_bytes(), &vec![0x5A; length]].concat()
}

fn read(log: &Log, stream: u32) -> Vec<(u64, Vec<u8>)> {
    let stream = log.stream(id(stream));
    let record = |record: seawall::Result<Record>| {
        let record = record.expect("reads");
        let place = record.stream.expect("is of a stream");
        assert_eq!(place.stream, stream.id());
        (place.seq, record.payload.to_vec())
    };
    stream.read(stream.first_seq()).expect("reads").map(record).collect()
}

fn expected(stream: u32, seqs: std::ops::Range<u64>) -> Vec<(u64, Vec<u8>)> {
    seqs.map(|seq| (seq, content(stream, seq))).collect()
}

#[test]
fn each_stream_has_its_own_order_and_numbers_over_openings() {
    let dir = scratch();
    let mut next = [0_u64; 5];
    for round in 0..6_u64 {
        let log = open(dir.path());
        for step in 0..200_u64 {
            let stream = u32::try_from((step * 7 + round) % 5).expect("small");
            let seq = &mut next[stream as usize];
            let appended = log.stream(id(stream)).append(&content(stream, *seq)).expect("appends");
            assert_eq!(appended.seq, *seq);
            *seq += 1;
            if step % 50 == 0 {
                log.append_commit(b"a record of the log itself").expect("commits");
            }
        }
        log.commit(log.appended_lsn()).expect("commits");
        for stream in 0..5 {
            assert_eq!(read(&log, stream), expected(stream, 0..next[stream as usize]), "round {round}");
            assert_eq!(log.stream(id(stream)).next_seq(), next[stream as usize]);
        }
        assert_eq!(log.streams(), (0..5).map(id).collect::<Vec<_>>());
        if round % 2 == 0 { log.close().expect("closes") } else { drop(log) }
    }
    let log = open(dir.path());
    let own =
        log.read(Lsn::ZERO).expect("reads").filter(|record| record.as_ref().expect("reads").stream.is_none());
    assert_eq!(own.count(), 6 * 4, "a reader of the log shows them with those of the streams");
}

#[test]
fn a_transaction_over_streams_is_there_as_a_whole_and_large_records_are_numbered_too() {
    let (dir, log) = new_log(options());
    let large = vec![3; 20_000];
    for seq in 0..20_u64 {
        log.transaction::<Error>(|transaction| {
            transaction.append_to(id(1), &content(1, seq))?;
            transaction.append(b"plain")?;
            transaction.append_to(id(2), &large)?;
            transaction.append_to(id(1), b"second")?;
            Ok(())
        })
        .expect("appends");
        let appended = log.stream(id(3)).append_commit(&large).expect("commits");
        assert_eq!(appended.seq, seq);
    }
    drop(log);
    let log = open(dir.path());
    let first = read(&log, 1);
    assert_eq!(first.len(), 40);
    for (number, (seq, payload)) in (0_u64..).zip(first) {
        let expected = if number % 2 == 0 { content(1, number / 2) } else { b"second".to_vec() };
        assert_eq!((seq, payload), (number, expected));
    }
    for stream in [2, 3] {
        assert!(read(&log, stream).iter().all(|(_, payload)| *payload == large));
        assert_eq!(read(&log, stream).len(), 20);
    }
}

#[test]
fn a_stream_is_trimmed_cut_and_removed_and_says_what_it_refuses() {
    let (dir, log) = new_log(options());
    let stream = log.stream(id(7));
    for seq in 0..100 {
        stream.append(&content(7, seq)).expect("appends");
    }
    log.commit(log.appended_lsn()).expect("commits");
    let mut reader = stream.read(10).expect("reads");
    assert!(matches!(stream.trim(101), Err(Error::StreamEnd { seq: 101, next: 100, .. })));
    // A wrong subtraction in a caller does not remove the stream.
    assert!(matches!(stream.trim(u64::MAX), Err(Error::StreamEnd { seq: u64::MAX, next: 100, .. })));
    assert!(matches!(log.stream(id(8)).trim(u64::MAX), Err(Error::StreamEnd { next: 0, .. })));
    assert_eq!((stream.first_seq(), stream.next_seq()), (0, 100));
    log.commit(stream.trim(40).expect("trims")).expect("commits");
    assert!(matches!(reader.next_record(), Err(Error::StreamTrimmed { seq: 10, first: 40, .. })));
    assert!(matches!(stream.read(39), Err(Error::StreamTrimmed { first: 40, .. })));
    assert!(matches!(stream.read(101), Err(Error::StreamEnd { next: 100, .. })));
    assert!(matches!(stream.truncate(39), Err(Error::StreamTrimmed { first: 40, .. })));
    let mut ahead = stream.read(50).expect("reads");
    assert_eq!(ahead.next_record().expect("reads").expect("is there").stream.expect("is").seq, 50);
    log.commit(stream.truncate(60).expect("cuts")).expect("commits");
    assert_eq!(stream.append_commit(b"another 60").expect("commits").seq, 60);
    let rest: Vec<_> = std::iter::from_fn(|| ahead.next_record().expect("reads"))
        .map(|record| record.payload.to_vec())
        .collect();
    let expected: Vec<_> = (51..60).map(|seq| content(7, seq)).chain([b"another 60".to_vec()]).collect();
    assert_eq!(rest, expected, "a reader never shows what was cut before it came there");
    assert_eq!(stream.get(60).expect("reads").payload[..], b"another 60"[..]);
    assert!(matches!(stream.get(61), Err(Error::StreamEnd { seq: 61, .. })));
    drop(log);
    let log = open(dir.path());
    let stream = log.stream(id(7));
    assert_eq!((stream.first_seq(), stream.next_seq()), (40, 61));
    assert_eq!(read(&log, 7).last(), Some(&(60, b"another 60".to_vec())));
    log.commit(stream.trim(61).expect("trims")).expect("commits");
    log.close().expect("closes");
    let log = open(dir.path());
    assert_eq!(log.stream(id(7)).append_commit(b"x").expect("commits").seq, 61, "its numbers go on");
    log.commit(log.stream(id(7)).remove().expect("removes")).expect("commits");
    assert!(log.streams().is_empty());
    assert_eq!(log.stream(id(7)).append_commit(b"x").expect("commits").seq, 0, "it begins anew");
}

/// Also in a new log whose streams only transactions write.
#[test]
fn a_stream_that_lags_does_not_hold_the_disk() {
    for by_transactions in [false, true] {
        let (dir, log) = new_log(options());
        let append = |stream: u32, payload: &[u8]| {
            if by_transactions {
                log.transaction::<Error>(|transaction| transaction.append_to(id(stream), payload))
            } else {
                log.stream(id(stream)).append(payload).map(|appended| appended.end)
            }
            .expect("appends")
        };
        for seq in 0..10 {
            append(1, &content(1, seq));
        }
        // A stream without records, whose next number must not be forgotten.
        append(2, b"x");
        log.stream(id(2)).trim(1).expect("trims");
        let mut most = 0;
        for seq in 0..6000_u64 {
            let end = append(3, &content(3, seq));
            if seq % 100 == 99 {
                log.commit(end).expect("commits");
                log.stream(id(3)).trim(seq - 50).expect("trims");
                most = most.max(log.stats().segments);
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let stats = log.stats();
        assert!(stats.segments_started > 15, "{} segments", stats.segments_started);
        assert!(most <= 12, "the log took {most} segments, by transactions: {by_transactions}");
        assert!(stats.rewritten_records >= 10, "{} records were rewritten", stats.rewritten_records);
        assert!(stats.rewritten_bytes < stats.bytes_written / 3, "{} bytes", stats.rewritten_bytes);
        assert_eq!(read(&log, 1), expected(1, 0..10));
        drop(log);
        let log = open(dir.path());
        assert_eq!(read(&log, 1), expected(1, 0..10));
        assert_eq!(log.stream(id(2)).append_commit(b"y").expect("commits").seq, 1);
        assert_eq!(read(&log, 3).last().map(|(seq, _)| *seq), Some(5999));
    }
}

/// Records of one batch, which a reader has in memory when the last ones are cut.
#[test]
fn a_reader_shows_nothing_that_was_cut_before_it_came_there() {
    let (_dir, log) = new_log(options());
    let ends: Vec<_> = (0..4_u8).map(|number| log.append(&[number]).expect("appends")).collect();
    log.commit(log.appended_lsn()).expect("commits");
    let mut reader = log.read(Lsn::ZERO).expect("reads");
    let mut follower = log.follow(Lsn::ZERO).expect("follows");
    let mut polled = log.follow(Lsn::ZERO).expect("follows");
    let mut next = || {
        let records = [
            reader.next_record(),
            follower.try_next_record(),
            futures_lite::future::block_on(polled.next_record_async()),
        ];
        records.map(|record| record.expect("reads").expect("is there").payload[0])
    };
    assert_eq!(next(), [0; 3]);
    log.truncate_after(ends[1].end).expect("cuts");
    assert_eq!(next(), [1; 3]);
    log.truncate_after(ends[0].end).expect("cuts");
    log.append_commit(&[4]).expect("commits");
    assert_eq!(next(), [4; 3]);
}

#[test]
fn an_idle_stream_takes_little_memory() {
    let (dir, log) = new_log(options().segment_bytes(8 << 20));
    let streams = 20_000;
    for stream in 0..streams {
        log.stream(id(stream)).append(b"one record").expect("appends");
    }
    log.commit(log.appended_lsn()).expect("commits");
    let stats = log.stats();
    assert_eq!(stats.streams, u64::from(streams));
    let each = stats.stream_memory_bytes / stats.streams;
    assert!(each <= 512, "{each} bytes a stream");
    log.close().expect("closes");
    let log = open(dir.path());
    assert_eq!(log.stats().streams, u64::from(streams));
}

#[test]
fn a_follower_of_a_stream_sees_its_records_and_ends_with_the_log() {
    for polled in [false, true] {
        let (_dir, log) = new_log(options());
        let mut follower = log.stream(id(9)).follow(0).expect("follows");
        std::thread::scope(|scope| {
            let seen = scope.spawn(move || {
                let (task, mut seen) = (Task::new(), Vec::new());
                loop {
                    // Polled again only when it was woken: a lost wake-up is noticed.
                    let record = if polled {
                        wait(std::future::poll_fn(|context| follower.poll_next_record(context)), &task)
                    } else {
                        follower.next_record()
                    };
                    let Some(record) = record.expect("follows") else { return seen };
                    seen.push(record.payload.to_vec());
                }
            });
            for seq in 0..300 {
                log.stream(id(9)).append(&content(9, seq)).expect("appends");
                log.stream(id(8)).append_commit(b"of another").expect("commits");
            }
            log.close().expect("closes");
            let expected: Vec<_> = (0..300).map(|seq| content(9, seq)).collect();
            assert_eq!(seen.join().expect("ends"), expected, "polled: {polled}");
        });
    }
}

/// Writers that append to, trim and cut their own streams while readers read them and segments are rewritten.
#[test]
fn streams_hold_while_they_are_written_trimmed_cut_and_read() {
    let (dir, log) = new_log(options());
    let stop = AtomicBool::new(false);
    let ends = std::thread::scope(|scope| {
        let (log, stop) = (&log, &stop);
        let writers: Vec<_> = (0..4_u32)
            .map(|stream| {
                scope.spawn(move || {
                    let own = log.stream(id(stream));
                    let (mut first, mut next) = (0, 0);
                    for step in 0..1500_u64 {
                        let end = own.append(&content(stream, next)).expect("appends").end;
                        next += 1;
                        match step % 97 {
                            13 => log.commit(end).expect("commits"),
                            40 if stream > 0 => {
                                first = next - (next - first) / 2;
                                own.trim(first).expect("trims");
                            }
                            70 => {
                                next -= (next - first).min(3);
                                own.truncate(next).expect("cuts");
                            }
                            _ => {}
                        }
                    }
                    (first, next)
                })
            })
            .collect();
        let readers: Vec<_> = (0..4_u32)
            .map(|stream| {
                scope.spawn(move || {
                    let own = log.stream(id(stream));
                    while !stop.load(Ordering::Relaxed) {
                        let reader = match own.read(own.first_seq()) {
                            Ok(reader) => reader,
                            Err(Error::StreamTrimmed { .. } | Error::StreamEnd { .. }) => continue,
                            Err(error) => panic!("{error}"),
                        };
                        for record in reader {
                            match record {
                                Ok(record) => {
                                    let seq = record.stream.expect("is of a stream").seq;
                                    assert_eq!(record.payload[..], content(stream, seq)[..]);
                                }
                                // It was overtaken by a trim, or what it had read was cut.
                                Err(Error::StreamTrimmed { .. } | Error::StreamEnd { .. }) => break,
                                Err(error) => panic!("{error}"),
                            }
                        }
                    }
                })
            })
            .collect();
        let ends: BTreeMap<u32, _> =
            (0..).zip(writers.into_iter().map(|writer| writer.join().expect("ends"))).collect();
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("ends");
        }
        ends
    });
    log.commit(log.appended_lsn()).expect("commits");
    let judge = |log: &Log| {
        for (stream, (first, next)) in &ends {
            assert_eq!(read(log, *stream), expected(*stream, *first..*next), "stream {stream}");
        }
    };
    judge(&log);
    drop(log);
    judge(&open(dir.path()));
    assert!(verify(dir.path()).expect("verifies").damage.is_empty());
}

/// The untagged records of a log, as every way to read shows them.
fn plain(log: &Log) -> Vec<Vec<u8>> {
    let read = payloads(log);
    let (mut backwards, mut end) = (Vec::new(), log.durable_lsn());
    while let Some(record) = log.read_before(end).expect("reads") {
        assert_eq!(log.read_at(record.lsn).expect("reads").payload[..], record.payload[..]);
        end = record.lsn;
        backwards.insert(0, record.payload.to_vec());
    }
    assert_eq!(backwards, read);
    let mut follower = log.follow(log.first_lsn()).expect("follows");
    assert_eq!(payloads_of(std::iter::from_fn(|| follower.try_next_record().transpose())), read);
    read
}

#[test]
fn the_tail_of_the_log_is_cut_for_every_reader_over_openings_backups_and_salvage() {
    let dir = scratch();
    let mut model: Vec<(Vec<u8>, Lsn)> = Vec::new();
    let mut number = 0_u32;
    for round in 0..8_u32 {
        let log = open(dir.path());
        for step in 0..120_u32 {
            let payload = [&number.to_le_bytes()[..], &vec![7; (step as usize * 37) % 900]].concat();
            let end = log.append(&payload).expect("appends").end;
            model.push((payload, end));
            number += 1;
            if step % 40 == 17 {
                let left = model.len() - (step as usize + round as usize) % 30;
                model.truncate(left);
                let at = model.last().map_or(Lsn::ZERO, |(_, end)| *end);
                log.commit(log.truncate_after(at).expect("cuts")).expect("commits");
            }
        }
        log.commit(log.appended_lsn()).expect("commits");
        let expected: Vec<_> = model.iter().map(|(payload, _)| payload.clone()).collect();
        assert_eq!(plain(&log), expected, "round {round}");
        if round % 3 == 0 {
            log.close().expect("closes");
        } else {
            drop(log);
        }
        let view = View::open(dir.path()).expect("looks");
        assert_eq!(payloads_of(view.read(view.first_lsn()).expect("reads")), expected);
    }
    let expected: Vec<_> = model.iter().map(|(payload, _)| payload.clone()).collect();
    let copies = scratch();
    backup(dir.path(), copies.path().join("backup")).expect("copies");
    assert_eq!(plain(&open(&copies.path().join("backup"))), expected);
    salvage(dir.path(), copies.path().join("salvaged"), options()).expect("salvages");
    assert_eq!(plain(&open(&copies.path().join("salvaged"))), expected);
    let log = open(dir.path());
    let (past, before) = (Lsn::new(log.appended_lsn().get() + 1), log.first_lsn());
    assert!(matches!(log.truncate_after(past), Err(Error::BeyondEnd { .. })));
    log.trim(model[model.len() / 2].1).expect("trims");
    assert!(matches!(log.truncate_after(before), Err(Error::Trimmed { .. })));
    assert_eq!(log.truncate_after(log.appended_lsn()).expect("cuts nothing"), log.appended_lsn());
}

#[test]
fn a_view_that_is_renewed_steps_over_what_was_cut_meanwhile() {
    let (dir, log) = new_log(options());
    let first = log.append_commit(b"one").expect("commits").end;
    log.append_commit(b"two").expect("commits");
    log.append_commit(b"three").expect("commits");
    let mut view = View::open(dir.path()).expect("looks");
    log.commit(log.truncate_after(first).expect("cuts")).expect("commits");
    log.append_commit(b"four").expect("commits");
    log.append_commit(b"five").expect("commits");
    while view.end_lsn() < log.durable_lsn() {
        view.renew().expect("looks");
    }
    assert_eq!(
        payloads_of(view.read(Lsn::ZERO).expect("reads")),
        [b"one".to_vec(), b"four".to_vec(), b"five".to_vec()]
    );
}

/// Changes one byte of a record in the batch that starts at `lsn`.
fn damage_batch(dir: &Path, lsn: u64) {
    use seawall::format::{BATCH_HEADER_BYTES, BatchHeader};
    for path in segments(dir) {
        let bytes = std::fs::read(&path).expect("reads");
        let starts = |at: &usize| {
            let decoded = BatchHeader::decode(&bytes[*at..]);
            decoded.is_ok_and(|(header, _)| header.records > 0 && header.lsn.get() == lsn)
        };
        if let Some(at) = (512..bytes.len() - 512).step_by(512).find(starts) {
            return change(&path, |bytes| bytes[at + BATCH_HEADER_BYTES + 2] ^= 1);
        }
    }
    panic!("a batch starts at LSN {lsn}");
}

/// A log whose streams and records without one were cut, each record in a batch of its own, over several segments; and where
/// the batches of the two cuts begin, and that of record 6 of the stream.
fn cut_log(dir: &Path) -> [u64; 3] {
    let log = Log::open(dir, options().idle_mark(Duration::from_mins(10))).expect("opens");
    let stream = log.stream(id(1));
    for seq in 0..9 {
        stream.append_commit(&content(1, seq)).expect("commits");
    }
    let first = log.append_commit(b"old 0").expect("commits").end;
    log.append_commit(b"old 1").expect("commits");
    let committed = |end: seawall::Result<Lsn>| {
        let end = end.expect("cuts");
        log.commit(end).expect("commits");
        end.get() - 16
    };
    let cuts = [committed(stream.truncate(5)), committed(log.truncate_after(first))];
    let mut at = 0;
    for seq in 5..8 {
        at = if seq == 6 { log.durable_lsn().get() } else { at };
        stream.append_commit(&content(2, seq)).expect("commits");
    }
    for _ in 0..40 {
        log.append_commit(&[b'.'; 4000]).expect("commits");
    }
    log.close().expect("closes");
    [cuts[0], cuts[1], at]
}

#[test]
fn what_proves_a_cut_is_used_when_the_record_of_it_is_lost() {
    let expected: Vec<_> = (0..8).map(|seq| (seq, content(if seq < 5 { 1 } else { 2 }, seq))).collect();
    for hit in 0..3 {
        let dir = scratch();
        let (log, saved) = (dir.path().join("log"), dir.path().join("saved"));
        let at = cut_log(&log)[hit];
        damage_batch(&log, at);
        assert_eq!(verify(&log).expect("verifies").damage.len(), 1);
        assert!(matches!(Log::open(&log, options()), Err(Error::Corrupt(_))));
        salvage(&log, &saved, options()).expect("salvages");
        for _ in 0..2 {
            let salvaged = open(&saved);
            let stream = salvaged.stream(id(1));
            if hit < 2 {
                assert_eq!(read(&salvaged, 1), expected, "{hit}");
            } else {
                let records: Vec<_> = stream.read(0).expect("reads").collect();
                assert!(matches!(records.last(), Some(Err(Error::StreamGap { seq: 6, next: 7, .. }))));
                assert_eq!(records.len(), 7, "what lies before the gap is read");
            }
            assert_eq!((stream.first_seq(), stream.next_seq()), (0, 8));
            let plain: Vec<_> = salvaged.read(Lsn::ZERO).expect("reads").flatten().collect();
            let old = plain.iter().filter(|record| record.payload.starts_with(b"old")).count();
            assert_eq!(old, 1, "{hit}");
        }
    }
}

/// How many of the records of a stream can be read in an open log in which the batch between them is damaged.
#[cfg(feature = "mutants")]
fn read_around_damage() -> usize {
    let (dir, log) = new_log(options().idle_mark(Duration::from_mins(10)));
    let stream = log.stream(id(1));
    stream.append_commit(&content(1, 0)).expect("commits");
    let at = log.durable_lsn();
    log.append_commit(b"without a stream").expect("commits");
    stream.append_commit(&content(1, 1)).expect("commits");
    damage_batch(dir.path(), at.get());
    assert!(matches!(log.read_at(at), Err(Error::Corrupt(_))));
    (0..2).filter(|seq| stream.get(*seq).is_ok_and(|record| *record.payload == content(1, *seq))).count()
}

#[test]
#[cfg(feature = "mutants")]
fn a_damaged_batch_costs_no_record_of_a_stream_behind_it() {
    use seawall::mutant::{Mutant, set};
    for (mutant, found) in [(Mutant::AcceptOtherOffset, 2), (Mutant::DamageEndsIndex, 1)] {
        set(Some(mutant));
        let read = read_around_damage();
        set(None);
        assert_eq!(read, found, "{mutant:?}");
    }
}

#[test]
fn streams_are_salvaged_and_backed_up_with_their_numbers() {
    let (dir, log) = new_log(options());
    for seq in 0..50 {
        log.stream(id(1)).append(&content(1, seq)).expect("appends");
        log.stream(id(2)).append_commit(&content(2, seq)).expect("commits");
    }
    log.stream(id(1)).trim(20).expect("trims");
    log.stream(id(2)).truncate(30).expect("cuts");
    log.close().expect("closes");
    let copies = scratch();
    let [salvaged, backed_up] = ["saved", "copied"].map(|name| copies.path().join(name));
    salvage(dir.path(), &salvaged, options()).expect("salvages");
    backup(dir.path(), &backed_up).expect("copies");
    for copy in [salvaged, backed_up] {
        let log = open(&copy);
        assert_eq!(read(&log, 1), expected(1, 20..50));
        assert_eq!(read(&log, 2), expected(2, 0..30));
    }
}

/// The records that a stream still hands out to a reader that stood after `records` of ten when `change` was made, then three more
/// were appended.
fn behind(records: usize, change: impl Fn(&Log)) -> (Vec<u64>, Option<Error>) {
    let (_dir, log) = new_log(options());
    let stream = log.stream(id(1));
    let append = |count: u64| {
        for seq in 0..count {
            stream.append_commit(&content(1, seq)).expect("commits");
        }
    };
    append(10);
    let mut follower = stream.follow(0).expect("follows");
    for _ in 0..records {
        follower.next_record().expect("reads").expect("is open");
    }
    change(&log);
    append(3);
    let mut seen = Vec::new();
    loop {
        match follower.try_next_record() {
            Ok(Some(record)) => seen.push(record.stream.expect("is of a stream").seq),
            Ok(None) => return (seen, None),
            Err(error) => {
                assert!(follower.try_next_record().is_err(), "it stays so");
                return (seen, Some(error));
            }
        }
    }
}

type OnLog<'a> = &'a dyn Fn(&Log);

#[test]
fn a_reader_of_a_stream_names_cuts_and_removals() {
    let cut = |seq| {
        move |log: &Log| {
            log.stream(id(1)).truncate(seq).expect("cuts");
        }
    };
    let in_transaction = |log: &Log| {
        let cut = |tx: &mut Transaction| tx.truncate(id(1), 4);
        log.transaction::<Error>(cut).expect("cuts");
    };
    let twice = |log: &Log| (cut(3)(log), cut(3)(log)).0;
    let removed = |log: &Log| {
        log.stream(id(1)).remove().expect("removes");
    };
    let rows: [(usize, OnLog<'_>, &[u64], Option<u64>); 7] = [
        (5, &cut(5), &[5, 6, 7], None),
        (5, &cut(8), &[5, 6, 7, 8, 9, 10], None),
        (5, &cut(4), &[], Some(4)),
        (10, &in_transaction, &[], Some(4)),
        (9, &twice, &[], Some(3)),
        (5, &removed, &[], Some(0)),
        (0, &removed, &[0, 1, 2], None),
    ];
    for (at, (records, change, seen, goes_on)) in rows.into_iter().enumerate() {
        let (handed_out, ended) = behind(records, change);
        assert_eq!(handed_out, seen, "row {at}");
        let as_said = match (goes_on, &ended) {
            (None, None) => true,
            (Some(goes_on), Some(Error::StreamEnd { next, .. })) => *next == goes_on,
            _ => false,
        };
        assert!(as_said, "row {at}: {ended:?}");
    }
}

#[test]
fn a_stream_is_read_to_the_end_that_it_had_or_fails() {
    let (_dir, log) = new_log(options());
    let stream = log.stream(id(1));
    for seq in 0..10 {
        stream.append_commit(&content(1, seq)).expect("commits");
    }
    stream.append(b"not durable").expect("appends");
    let (mut reader, mut cut) = (stream.read(2).expect("reads"), stream.read(2).expect("reads"));
    assert_eq!((reader.end_seq(), reader.is_at_end()), (10, false));
    let seqs: Vec<u64> =
        reader.by_ref().map(|record| record.expect("reads").stream.expect("is").seq).collect();
    assert_eq!(seqs, (2..10).collect::<Vec<_>>());
    assert!(reader.next_record().expect("looks").is_none() && !reader.is_at_end(), "not yet");
    log.commit(log.appended_lsn()).expect("commits");
    assert!(reader.next().is_none(), "the iterator ends where it ended");
    assert_eq!(&*reader.next_record().expect("reads").expect("is durable").payload, b"not durable");
    assert!(reader.next_record().expect("looks").is_none() && reader.is_at_end(), "the end");
    let mut plain = log.read(log.first_lsn()).expect("reads");
    log.append(b"of no stream").expect("appends");
    while plain.next_record().expect("reads").is_some() {}
    assert!(!plain.is_at_end());
    log.commit(log.appended_lsn()).expect("commits");
    assert!(plain.next_record().expect("reads").is_some() && plain.is_at_end());
    // One that comes to a cut of its stream is told that the rest is gone.
    assert!(cut.by_ref().take(3).all(|record| record.is_ok()));
    stream.truncate(7).expect("cuts");
    let rest: Vec<_> = cut.collect();
    assert_eq!(rest.len(), 3, "{rest:?}");
    assert!(matches!(rest[2], Err(Error::StreamEnd { seq: 7, next: 7, .. })), "{rest:?}");
}

type Wrong<'a> = &'a dyn Fn(&mut Transaction) -> seawall::Result<()>;

#[test]
fn a_transaction_trims_cuts_and_removes_with_what_it_appends() {
    let (dir, log) = new_log(options());
    for stream in 0..200 {
        for seq in 0..5 {
            log.stream(id(stream)).append(&content(stream, seq)).expect("appends");
        }
    }
    log.commit(log.appended_lsn()).expect("commits");
    let state = |log: &Log| -> Vec<_> {
        let bounds = |id| (log.stream(id).first_seq(), log.stream(id).next_seq());
        log.streams().into_iter().map(|id| (id.get(), bounds(id))).collect()
    };
    // What is refused leaves nothing, also of what stood in front of it.
    let before = (state(&log), log.appended_lsn());
    let wrong: [(Wrong<'_>, &str); 6] = [
        (&|tx| tx.trim(id(1), 6), "stream_end"),
        (&|tx| tx.trim(id(1), u64::MAX), "stream_end"),
        (&|tx| tx.truncate(id(1), u64::MAX), "stream_end"),
        (&|tx| tx.trim(id(1), 3).and_then(|()| tx.truncate(id(1), 2)), "stream_trimmed"),
        (&|tx| tx.truncate(id(1), 2).and_then(|()| tx.trim(id(1), 3)), "stream_end"),
        (&|tx| tx.remove(id(1)).and_then(|()| tx.trim(id(1), 1)), "stream_end"),
    ];
    for (at, (wrong, name)) in wrong.iter().enumerate() {
        let refused = log.transaction::<Error>(|tx| {
            tx.trim(id(0), 3)?;
            tx.append_to(id(0), b"never there")?;
            wrong(tx)
        });
        assert_eq!(refused.expect_err("is refused").name(), *name, "{at}");
        assert_eq!((state(&log), log.appended_lsn()), before, "{at}");
    }
    // A snapshot and the trim of what it replaces; many streams; numbers that were appended in the same transaction.
    let end = log.transaction::<Error>(|tx| {
        let snapshot = tx.append_to(id(0), &content(0, 5)).and_then(|()| tx.trim(id(0), 5));
        snapshot.and_then(|()| tx.trim(id(0), 2))?;
        tx.append_to(id(1), b"cut at once")?;
        tx.truncate(id(1), 3)?;
        tx.append_to(id(1), &content(1, 3))?;
        tx.remove(id(2)).and_then(|()| tx.append_to(id(2), &content(2, 0)))?;
        (3..200).try_for_each(|stream| tx.trim(id(stream), 4))?;
        tx.trim(id(900), 0).and_then(|()| tx.truncate(id(901), 0)).and_then(|()| tx.remove(id(902)))
    });
    let mut after: Vec<_> = (0..200).map(|stream| (stream, (4, 5))).collect();
    (after[0].1, after[1].1, after[2].1) = ((5, 6), (0, 4), (0, 1));
    assert_eq!(state(&log), after);
    drop(log);
    // It was not committed: all of it is gone, or none if a batch of it was written.
    let log = open(dir.path());
    let found = state(&log);
    assert!(found == before.0 || found == after, "{found:?}");
    drop(log);
    let _ = end.expect("is appended");
    let log = open(dir.path());
    let trims = |tx: &mut Transaction| (3..200).try_for_each(|stream| tx.trim(id(stream), 5));
    log.commit(log.transaction::<Error>(trims).expect("is appended")).expect("commits");
    let batches = log.stats().batches;
    assert!(batches < 5, "{batches} batches for the trims of 197 streams");
    for stream in 3..200 {
        assert_eq!((log.stream(id(stream)).first_seq(), log.stream(id(stream)).next_seq()), (5, 5));
    }
    let now = state(&log);
    drop(log);
    assert_eq!(state(&open(dir.path())), now);
}

/// A stream of small records that is never trimmed, beside one that is written as fast as it can be, in large pieces.
#[test]
fn a_stream_that_lags_behind_a_fast_one_keeps_the_log_within_its_bound() {
    const SEGMENT: u64 = 64 << 10;
    let (_dir, log) = new_log(options());
    let lagging = log.stream(id(1));
    let records = 8000;
    for _ in 0..records {
        lagging.append(&[1; 20]).expect("appends");
    }
    log.commit(log.appended_lsn()).expect("commits");
    let fast = log.stream(id(2));
    let (began, mut most, mut needed) = (log.stats().segments_started, 0, 0);
    while log.stats().segments_started < began + 180 {
        for _ in 0..15 {
            fast.append(&[2; 6000]).expect("appends");
        }
        let appended = fast.append(&[2; 6000]).expect("appends");
        log.commit(appended.end).expect("commits");
        let stats = log.stats();
        (most, needed) = (stats.segments.max(most), stats.stream_bytes.max(needed));
        fast.trim(appended.seq).expect("trims");
    }
    let stats = log.stats();
    // What is being written, and what was let go and is removed just now.
    let bound = 4 * needed.div_ceil(SEGMENT) + 8 + 20;
    assert!(most <= bound, "{most} segments, {bound} are the bound: {stats:?}");
    assert!(stats.rewrite_stalls > 0 && stats.rewritten_records >= records, "{stats:?}");
    assert_eq!(lagging.read(0).expect("reads").flatten().count() as u64, records);
}

/// Copies by the log, and trims, make room for records: they must not wait for the memory that such records hold while they wait for room.
#[test]
fn copies_and_trims_wait_for_no_memory_of_records_that_wait_for_them() {
    copies_and_trims_wait_for_no_memory(Duration::from_secs(10));
}

fn copies_and_trims_wait_for_no_memory(limit: Duration) {
    const TRIMMED: u32 = 1000;
    let (_dir, faults, log) = new_faulty(options());
    let large = vec![3; 60_000];
    let (lagging, fast) = (log.stream(id(1)), log.stream(id(2)));
    for stream in 100..100 + TRIMMED {
        log.stream(id(stream)).append(b"x").expect("appends");
    }
    for _ in 0..6 {
        lagging.append(&large[..20_000]).expect("appends");
    }
    log.commit(log.appended_lsn()).expect("commits");
    faults.hold_copies(true);
    std::thread::scope(|scope| {
        let _goes_on = Released(&faults);
        let copies = |least: u64, what: &str| {
            until_in(limit, what, || {
                let came = faults.copies() >= least;
                // What the oldest segment holds is copied once enough segments follow it.
                if let Some(appended) = fast.append_no_wait(&[2; 3000]).ok().filter(|_| !came) {
                    log.commit(appended.end).and_then(|()| fast.trim(appended.seq)).expect("goes on");
                }
                came
            });
        };
        let (faults, before) = (&faults, faults.copies());
        // With these two the memory is taken.
        for stream in [3, 4] {
            let (log, large) = (&log, &large);
            scope.spawn(move || log.stream(id(stream)).append(large).expect("appends"));
        }
        copies(before + 2, "there is memory for both");
        copies(before + 3, "a copy waits for memory");
        let in_time = scope.spawn(move || {
            let in_time = comes(limit, || faults.copies() >= before + 4) && faults.copies() == before + 4;
            faults.hold_copies(false);
            in_time
        });
        let trims = |tx: &mut Transaction| (100..100 + TRIMMED).try_for_each(|stream| tx.trim(id(stream), 1));
        log.transaction::<Error>(trims).expect("trims");
        assert!(in_time.join().expect("looks"), "trims wait for memory");
    });
    log.commit(log.appended_lsn()).expect("commits");
    assert_eq!(lagging.read(0).expect("reads").flatten().count(), 6);
    assert_eq!(log.stream(id(100)).first_seq(), 1);
}

#[cfg(feature = "mutants")]
#[test]
fn the_mistakes_of_readers_and_of_lagging_streams_are_found() {
    use seawall::mutant::{Mutant, finds};
    let rows: [(Mutant, fn()); 4] = [
        (Mutant::RoomWaitsForMemory, || copies_and_trims_wait_for_no_memory(Duration::from_secs(3))),
        (Mutant::LagUnbounded, a_stream_that_lags_behind_a_fast_one_keeps_the_log_within_its_bound),
        (Mutant::StreamGoesOnBehindCut, a_reader_of_a_stream_names_cuts_and_removals),
        (Mutant::StreamReadEndsEarly, a_stream_is_read_to_the_end_that_it_had_or_fails),
    ];
    for (mutant, test) in rows {
        assert!(finds(mutant, test), "{mutant:?}");
    }
}
