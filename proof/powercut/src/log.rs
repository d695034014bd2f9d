//! Judges a log after a power cut by the real recovery and the oracle.
//!
//! The log is recovered by the real code and judged by the oracle of all crash tests, [`seawall::oracle`]; the counts
//! are made separately, from the records themselves. A log that refuses to open is counted by `verify`, which reads
//! every batch.
//!
//! Invariant: an error of the system is no verdict; damage is.

use std::path::Path;

use seawall::oracle::{Issued, Judge, Ledger, Violation, judge_refusal};
use seawall::{Durability, Log, Lsn};

use crate::error::{Error, Result};
use crate::journal::Held;
use crate::record::is_exactly;
use crate::stream::{Stream, ends_transaction};
use crate::verdict::Counts;
use crate::writer::log_options;

/// What a log may hold at most, in bytes: what it keeps, what it trims late, and room for what the judge keeps.
const LEFT_BYTES_MAX: u64 = 1 << 30;

/// Recovers and judges the log in `dir`; everything before record `trimmed` may be gone.
pub(crate) fn judge(stream: &Stream, held: Held, trimmed: u64, dir: &Path) -> Result<Counts> {
    let expected = held.acknowledged.saturating_sub(trimmed);
    let mut counts = Counts { expected, ..Counts::default() };
    let options = || log_options(stream).create(false).durability(Durability::ProcessCrash);
    let log = match Log::open(dir, options()) {
        Ok(log) => log,
        Err(seawall::Error::NotALog { .. }) => {
            counts.lost = expected;
            counts.wrong(|| "the log is gone".to_owned());
            return Ok(counts);
        }
        Err(error) => {
            refusal(&mut counts, dir, error)?;
            return Ok(counts);
        }
    };
    let (first, end) = (log.first_lsn(), log.durable_lsn());
    let violation = read(stream, held, trimmed, &log, &mut counts)?;
    if let Some(violation) = violation {
        counts.wrong(|| violation.to_string());
    }
    drop(log);
    // What an opening handed out is there at the next one.
    match Log::open(dir, options()) {
        Ok(again) if (again.first_lsn(), again.durable_lsn()) == (first, end) => {}
        Ok(_) => counts.wrong(|| Violation::NotIdempotent.to_string()),
        Err(error) => counts.wrong(|| format!("{}: {error}", Violation::NotIdempotent)),
    }
    Ok(counts)
}

/// What is left of a log that does not open.
fn refusal(counts: &mut Counts, dir: &Path, error: seawall::Error) -> Result<()> {
    use seawall::Error as E;
    if !matches!(error, E::Corrupt(_) | E::ForeignSegment { .. } | E::NewerFormat { .. }) {
        return Err(Error::Log(error));
    }
    // No test damaged it.
    if let Err(violation) = judge_refusal(&error, false) {
        counts.wrong(|| violation.to_string());
    }
    if let Ok(report) = seawall::verify(dir) {
        counts.torn = (report.damage.len() as u64).min(counts.expected);
        counts.intact = report.records.min(counts.expected - counts.torn);
    }
    counts.lost = counts.expected - counts.intact - counts.torn;
    Ok(())
}

/// Everything that was or may have been issued from the first record left on.
fn issued(stream: &Stream, held: Held, first: Lsn) -> Result<Ledger> {
    let from = stream.sequence_at(first.get());
    let to = held.acknowledged + held.window;
    let left = stream.lsn(to).saturating_sub(stream.lsn(from));
    if left > LEFT_BYTES_MAX {
        return Err(Error::Request(format!(
            "the log holds {left} bytes, more than {LEFT_BYTES_MAX} are not judged"
        )));
    }
    let issued = (from..to).map(|sequence| Issued {
        start: Lsn::new(stream.lsn(sequence)),
        end: Lsn::new(stream.lsn(sequence + 1)),
        ends_transaction: ends_transaction(sequence),
        tagged: false,
        payload: stream.log_record(held.run, sequence),
    });
    Ok(Ledger { issued: issued.collect(), ..Ledger::default() })
}

/// Reads all that is left and lets the oracle judge it.
fn read(
    stream: &Stream,
    held: Held,
    trimmed: u64,
    log: &Log,
    counts: &mut Counts,
) -> Result<Option<Violation>> {
    let mut ledger = issued(stream, held, log.first_lsn())?;
    ledger.acknowledged = Lsn::new(stream.lsn(held.acknowledged));
    ledger.trimmed = Lsn::new(stream.lsn(trimmed));
    let mut judge = Judge::new(&ledger);
    let mut violation = None;
    let mut found = Found { next: trimmed, ..Found::default() };
    for record in log.read(log.first_lsn())? {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                violation = violation.or(judge_refusal(&error, false).err());
                break;
            }
        };
        if violation.is_none() {
            violation = judge.record(record.lsn, &record.payload).err();
        }
        found.record(stream, held, record.lsn, &record.payload);
    }
    if violation.is_none() {
        violation = judge.finish(log.durable_lsn()).err();
    }
    counts.intact = found.intact;
    counts.phantom = found.phantom;
    counts.lost = counts.expected - counts.intact;
    counts.reordered = found.holes.min(counts.lost);
    Ok(violation)
}

/// What was counted among the records that are left.
#[derive(Default)]
struct Found {
    /// The next record that must be there.
    next: u64,
    intact: u64,
    holes: u64,
    phantom: u64,
    scratch: Vec<u8>,
}

impl Found {
    fn record(&mut self, stream: &Stream, held: Held, lsn: Lsn, payload: &[u8]) {
        let sequence = stream.sequence_at(lsn.get());
        let in_place = stream.lsn(sequence) == lsn.get();
        let exact = is_exactly(stream.name(held.run, sequence), payload, &mut self.scratch);
        if !in_place || !exact || sequence >= held.acknowledged + held.window {
            self.phantom += 1;
            return;
        }
        if sequence < self.next {
            // Trimmed, and its segment is still there.
            return;
        }
        self.holes += sequence.min(held.acknowledged).saturating_sub(self.next);
        self.next = sequence + 1;
        self.intact += u64::from(sequence < held.acknowledged);
    }
}

#[cfg(test)]
mod tests {
    use super::judge;
    use crate::journal::Held;
    use crate::stream::{Stream, StreamKind, ends_transaction};
    use crate::test_folder;
    use crate::verdict::Counts;
    use crate::writer::log_options;
    use seawall::{Error, Log, Lsn};
    use std::path::Path;

    const RUN: u64 = 5;

    fn stream() -> Stream {
        let method = "log:buffered+fdatasync".to_owned();
        Stream { record_bytes: 512, method, ..Stream::sample(0, StreamKind::Log) }
    }

    /// Writes these records, those of a transaction together, each transaction committed.
    fn write(dir: &Path, records: impl Iterator<Item = u64>) -> Log {
        let log = Log::open(dir, log_options(&stream())).expect("opens");
        let mut together = Vec::new();
        for sequence in records {
            together.push(stream().log_record(RUN, sequence));
            if ends_transaction(sequence) {
                let end = log.transaction::<Error>(|tx| together.drain(..).try_for_each(|r| tx.append(&r)));
                log.commit(end.expect("appends")).expect("commits");
            }
        }
        log
    }

    fn judged(dir: &Path, acknowledged: u64, trimmed: u64) -> Counts {
        let held = Held { run: RUN, acknowledged, window: 8 };
        judge(&stream(), held, trimmed, dir).expect("is judged")
    }

    #[test]
    fn a_log_with_everything_acknowledged_keeps_its_word_trimmed_or_not() {
        let dir = test_folder();
        let log = write(dir.path(), 0..64);
        drop(log);
        let counts = judged(dir.path(), 60, 0);
        assert_eq!(counts, Counts { expected: 60, intact: 60, ..Counts::default() });
        let log = Log::open(dir.path(), log_options(&stream())).expect("opens");
        log.trim(Lsn::new(stream().lsn(32))).expect("trims");
        log.close().expect("closes");
        let counts = judged(dir.path(), 64, 32);
        assert_eq!(counts, Counts { expected: 32, intact: 32, ..Counts::default() });
        let counts = judged(dir.path(), 64, 24);
        assert_eq!((counts.lost, counts.intact), (8, 32), "trimmed further than was asked for: {counts:?}");
        assert!(counts.first.expect("is named").contains("starts at"));
    }

    #[test]
    fn a_log_that_lost_its_end_is_convicted_by_the_oracle_with_the_count() {
        let dir = test_folder();
        drop(write(dir.path(), 0..64));
        let counts = judged(dir.path(), 72, 0);
        assert_eq!((counts.expected, counts.intact, counts.lost, counts.reordered), (72, 64, 8, 0));
        assert!(counts.first.expect("is named").starts_with("acknowledged up to"));
        let counts =
            judge(&stream(), Held { run: RUN, acknowledged: 9, window: 8 }, 0, &dir.path().join("none"));
        assert_eq!(counts.expect("is judged").lost, 9);
    }

    #[test]
    fn records_of_another_run_and_records_never_issued_are_phantoms() {
        let dir = test_folder();
        drop(write(dir.path(), 0..64));
        let held = Held { run: RUN + 1, acknowledged: 64, window: 8 };
        let counts = judge(&stream(), held, 0, dir.path()).expect("is judged");
        assert_eq!((counts.phantom, counts.lost), (64, 64));
        let counts = judged(dir.path(), 40, 0);
        assert_eq!((counts.phantom, counts.intact), (16, 40), "64 records, 48 were issued");
    }

    #[test]
    fn damage_to_what_was_acknowledged_is_a_verdict_and_no_error() {
        let dir = test_folder();
        write(dir.path(), 0..64).close().expect("closes");
        let segment = dir.path().join("00000000000000000001.seg");
        let mut bytes = std::fs::read(&segment).expect("reads");
        let record = stream().log_record(RUN, 24);
        let at = bytes.windows(record.len()).position(|window| window == record).expect("is there");
        bytes[at + 40] ^= 1;
        std::fs::write(&segment, bytes).expect("writes");
        let counts = judged(dir.path(), 64, 0);
        assert_eq!(counts.torn, 1, "{counts:?}");
        assert!(counts.first.is_some() && counts.intact < 64);
    }
}
