//! Tests that an idle log marks and trims what was acknowledged, whatever else was appended and never committed.

use std::path::Path;
use std::time::Duration;

use crate::fixture::{flip, new_log, scratch, segments, tiny, until};
use seawall::{Error, Log, Lsn, Options, View};

fn options() -> Options {
    tiny().idle_mark(Duration::from_millis(1))
}

fn view(dir: &Path) -> View {
    View::open(dir).expect("can be looked at")
}

/// A record that is found again in the file.
fn record(i: u8) -> Vec<u8> {
    vec![0x80 | i; 1000]
}

/// Copies the segments and flips one bit of the record `lost` there.
fn rotten_copy(dir: &Path, lost: &[u8]) -> tempfile::TempDir {
    let copy = scratch();
    for path in segments(dir) {
        match std::fs::copy(&path, copy.path().join(path.file_name().expect("a name"))) {
            // A trimmed segment that the log has just recycled.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => drop(copied.expect("copies")),
        }
    }
    flip(copy.path(), lost);
    copy
}

/// What the log itself proves durable: a view would take the word of the writer's page.
fn witnessed(dir: &Path) -> Lsn {
    seawall::verify(dir).map_or(Lsn::ZERO, |report| report.witnessed)
}

/// Again and again in one log, so that the last commit ends in every block of a segment, the very last one included,
/// where the mark needs the next segment.
#[test]
fn what_was_acknowledged_is_marked_and_trimmed_whatever_waits_behind_it() {
    for waiting in [&[][..], &[10], &[10, 3000], &[6000]] {
        let (dir, log) = new_log(options());
        for round in 1..=18_u8 {
            log.append_commit(&record(round)).expect("commits");
            let acknowledged = log.durable_lsn();
            for bytes in waiting {
                log.append(&vec![7; *bytes]).expect("appends");
            }
            let what = format!("round {round}, {waiting:?} waiting");
            until(&what, || witnessed(dir.path()) >= acknowledged);
            let rotten = rotten_copy(dir.path(), &record(round));
            // Reported at once, or where it is read if the mark had to go to the next segment.
            let opened = Log::open(rotten.path(), options());
            let read = opened.and_then(|log| log.read(log.first_lsn())?.collect::<seawall::Result<Vec<_>>>());
            assert!(matches!(read, Err(Error::Corrupt(_))), "{what}: cut off in silence");
            log.trim(acknowledged).expect("trims");
            until(&what, || view(dir.path()).first_lsn() == acknowledged);
            log.commit(log.appended_lsn()).expect("commits");
            let rest: Vec<usize> = log
                .read(acknowledged)
                .expect("reads")
                .map(|found| found.expect("is sound").payload.len())
                .collect();
            assert_eq!(rest, waiting, "{what}");
        }
    }
}

/// An idle log writes one mark and then sleeps, however much waits after it.
#[test]
fn an_idle_log_does_not_go_on_writing() {
    let (dir, log) = new_log(options());
    for _ in 0..3 {
        log.append_commit(&record(1)).expect("commits");
        log.append(&record(2)).expect("appends");
        let acknowledged = log.durable_lsn();
        until("marked", || witnessed(dir.path()) >= acknowledged);
        let batches = log.stats().batches;
        std::thread::sleep(Duration::from_millis(50));
        // The batch that waits may have gone where no mark had a place in front of it; its own mark follows.
        assert!(log.stats().batches <= batches + 1, "{batches} and then {:?}", log.stats());
    }
}
