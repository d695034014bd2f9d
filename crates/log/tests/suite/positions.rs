//! Tests where records begin and end, and where the log was at a time.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use crate::fixture::{id, new_log, scratch, tiny};
use seawall::{Log, Lsn, Options};

fn options() -> Options {
    tiny().block_bytes(512)
}

#[test]
fn an_append_says_where_its_record_begins_and_ends() {
    let (_dir, log) = new_log(options());
    let mut last = Lsn::ZERO;
    let stream = log.stream(id(1));
    for length in [0, 1, 700, 20_000, 3] {
        let record = vec![7; length];
        let appends: [&dyn Fn() -> seawall::Result<Range<Lsn>>; 4] = [
            &|| log.append(&record),
            &|| log.append_commit(&record),
            &|| futures_lite::future::block_on(log.append_async(&record)),
            &|| stream.append(&record).map(|appended| appended.start..appended.end),
        ];
        for append in appends {
            let range = append().expect("appends");
            assert_eq!(range.start, last);
            log.commit(range.end).expect("commits");
            let read = log.read_at(range.start).expect("reads");
            assert_eq!((read.lsn, read.end, read.payload.len()), (range.start, range.end, length));
            last = range.end;
        }
    }
}

#[test]
fn the_log_is_found_at_a_time_over_segments_openings_and_trims() {
    let dir = scratch();
    let mut marks: Vec<(SystemTime, Lsn)> = Vec::new();
    let mut now = SystemTime::UNIX_EPOCH;
    for _ in 0..3 {
        let log = Log::open(dir.path(), options()).expect("opens");
        for step in 0..60_u8 {
            let begins = log.append(&[step; 2000]).expect("appends").start;
            log.commit(log.appended_lsn()).expect("commits");
            if step % 7 == 0 {
                // A time between two batches.
                std::thread::sleep(Duration::from_millis(3));
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the test compares with the clock that batches have"
                )]
                let read = SystemTime::now();
                now = read;
                std::thread::sleep(Duration::from_millis(3));
                marks.push((now, log.appended_lsn()));
                assert!(log.lsn_at(now).expect("is found") >= begins);
            }
        }
        for (time, lsn) in &marks {
            assert_eq!(log.lsn_at(*time).expect("is found"), *lsn, "what came behind it comes first");
        }
        assert_eq!(log.lsn_at(SystemTime::UNIX_EPOCH).expect("is found"), log.first_lsn());
        assert_eq!(log.lsn_at(now + Duration::from_hours(1)).expect("is found"), log.durable_lsn());
    }
    let log = Log::open(dir.path(), options()).expect("opens");
    let (time, lsn) = marks[marks.len() / 2];
    log.trim(marks[marks.len() - 2].1).expect("trims");
    assert_eq!(log.lsn_at(time).expect("is found"), log.first_lsn());
    assert!(log.first_lsn() > lsn);
}
