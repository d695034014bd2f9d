//! Judges after every crash test whether the recovered log kept its promises.
//!
//! Every layer of crash testing uses this judge. Its inputs are a ledger kept outside of the tested code (records
//! issued, records acknowledged, trims requested, damage injected) and the records that the log returns after
//! recovery:
//!
//! 1. What was acknowledged is there, byte for byte; what was acknowledged as outliving the process or a crash of the
//!    system only, if no more than that happened and no operation had failed. What may be gone and is, and of which the
//!    disk still says that it had been acknowledged, is reported.
//! 2. What is there is an exact prefix of what was issued, from the trim point on: no hole, no reorder, no duplicate.
//! 3. Nothing is there that was never issued, nor anything of an abandoned timeline.
//! 4. Records that an opening returned count as acknowledged from then on.
//! 5. Without injected damage opening succeeds.
//! 6. With damage it succeeds in full or names the place; silent shortening only after the last witness.
//! 7. A transaction is whole or absent.
//! 8. Memory that outlived the process is believed only by the log that stored there, in the same boot, once.

use crate::error::Error;
use crate::format::Tag;
use crate::lsn::Lsn;
use crate::read::reader::Record;

/// One record as it was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Where it starts.
    pub start: Lsn,
    /// Where it ends.
    pub end: Lsn,
    /// Whether its transaction ends with it.
    pub ends_transaction: bool,
    /// Whether its bytes begin with a tag.
    pub tagged: bool,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// Where a durable statement about the durable LSN lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The segment.
    pub segment: u64,
    /// The first byte of the batch in the segment.
    pub offset: u64,
    /// The first byte after it.
    pub end: u64,
    /// The durable LSN that it states.
    pub says: Lsn,
}

/// What is known outside of the log.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// What was issued, in order.
    pub issued: Vec<Issued>,
    /// Everything before this was acknowledged or handed out.
    pub acknowledged: Lsn,
    /// Everything before this was acknowledged as outliving the end of the process, and may be lost with the power.
    pub written: Lsn,
    /// Everything before this was acknowledged as outliving a crash of the system, and may be lost with the power.
    pub crash_proof: Lsn,
    /// The highest LSN that a trim requested.
    pub trimmed: Lsn,
    /// What was written about the durable LSN.
    pub witnesses: Vec<Witness>,
    /// The trims of streams that a log at its cap has noted apart, and the LSN at which they hold.
    pub held: Option<(Lsn, Vec<Tag>)>,
    /// Those that it was about to note since: any of them may be what the disk has.
    pub holding: Vec<(Lsn, Vec<Tag>)>,
}

impl Ledger {
    /// Everything from `end` on was lost and may be issued again in another life.
    pub fn exposed(&mut self, end: Lsn) {
        self.exposed_behind(end, end);
    }

    /// The same where the segments ended at `found`, and what lies after was taken from memory: it is durable, and nothing
    /// says so yet.
    pub fn exposed_behind(&mut self, found: Lsn, end: Lsn) {
        self.issued.retain(|record| record.end <= end);
        self.acknowledged = self.acknowledged.max(end);
        self.written = self.acknowledged;
        self.crash_proof = self.acknowledged;
        // A new segment says so in both copies of its header; after a clean close two marks do.
        self.witnesses.push(Witness { segment: u64::MAX, offset: 0, end: 0, says: found });
    }

    /// What must be there when the process ended and the machine continued.
    #[must_use]
    pub fn due_after_kill(&self) -> Lsn {
        self.written.max(self.acknowledged)
    }

    /// What must be there when the system crashed and the power stayed on.
    #[must_use]
    pub fn due_after_crash(&self) -> Lsn {
        self.crash_proof.max(self.acknowledged)
    }

    /// The ledger as it counts when the power went: what was promised to outlive less is not due.
    #[must_use]
    pub fn after_power_loss(&self) -> Self {
        Self { written: self.acknowledged, crash_proof: self.acknowledged, ..self.clone() }
    }

    /// What must be there when bytes in several places were damaged, each given as segment, first byte and end: what only
    /// they witnessed may be lost in silence.
    #[must_use]
    pub fn without_witnesses(&self, places: &[(u64, u64, u64)]) -> Lsn {
        let intact = self.witnesses.iter().filter(|witness| {
            let hit = |&&(segment, from, to): &&(u64, u64, u64)| {
                witness.segment == segment && witness.end > from && witness.offset < to
            };
            !places.iter().any(|place| hit(&place))
        });
        intact.map(|witness| witness.says).max().unwrap_or(Lsn::ZERO).min(self.acknowledged)
    }
}

/// How the log broke its word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Acknowledged records are missing at the end.
    Lost {
        /// Everything before this had been acknowledged.
        acknowledged: Lsn,
        /// The log ends here.
        end: Lsn,
    },
    /// Records before the first one handed out are missing.
    Gap {
        /// The first record handed out.
        first: Lsn,
        /// The log may start here at the latest.
        trimmed: Lsn,
    },
    /// A record was handed out that was never issued, not there, or with other bytes.
    Phantom {
        /// Where.
        lsn: Lsn,
    },
    /// The log ends inside a transaction.
    HalfTransaction {
        /// Where it ends.
        end: Lsn,
    },
    /// The log says it ends elsewhere than its records do.
    WrongEnd {
        /// Where its records end.
        records: Lsn,
        /// Where it says it ends.
        end: Lsn,
    },
    /// Opening or reading failed though nothing had been damaged, or failed otherwise than by naming the damage.
    Refused {
        /// The error's text.
        error: String,
    },
    /// Something was acknowledged after a failure.
    AcknowledgedAfterFailure {
        /// Up to here.
        lsn: Lsn,
    },
    /// Recovering twice gave different logs.
    NotIdempotent,
    /// Memory of another boot, log or opening was believed.
    Believed,
    /// An idle log came to rest and left no witness of what it had acknowledged, so that damage to it goes unnoticed.
    Unmarked {
        /// Everything before this had been acknowledged.
        acknowledged: Lsn,
        /// Everything before this has a witness.
        witnessed: Lsn,
    },
    /// A log that came to rest, or was closed, has forgotten a trim.
    TrimForgotten {
        /// The requested LSN.
        requested: Lsn,
        /// Where the log starts.
        found: Lsn,
    },
    /// The log was said to be closed, and the next opening does not find it closed.
    NotClosed,
    /// A record waits for a segment that no thread will prepare.
    Stuck {
        /// The size that is needed, in bytes.
        bytes: u64,
    },
    /// The streams, or what is cut off the log, are not what the records before its end make of them.
    WrongStreams {
        /// Where the log ends.
        end: Lsn,
        /// What differs.
        what: String,
    },
    /// A log takes more of the disk than it may.
    OverCap {
        /// What it takes, in bytes.
        bytes: u64,
        /// What it may take, in bytes.
        cap: u64,
    },
    /// The rules of a log trimmed what a pin holds.
    PinPassed {
        /// The pin.
        pin: Lsn,
        /// Where the log starts.
        first: Lsn,
    },
    /// Something acknowledged is gone, as it may be, and the opening did not say so, or said something else.
    Concealed {
        /// The log ends here.
        end: Lsn,
        /// What is left on the disk says that everything before this had been acknowledged.
        acknowledged: Lsn,
    },
}

impl Violation {
    /// Opening or reading failed with `error`, which nothing explains.
    #[must_use]
    pub fn refused(error: &Error) -> Self {
        Self::Refused { error: error.to_string() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lost { acknowledged, end } => {
                write!(f, "acknowledged up to LSN {acknowledged}, recovered up to {end}")
            }
            Self::Gap { first, trimmed } => {
                write!(f, "the log starts at LSN {first}, trimmed was no more than {trimmed}")
            }
            Self::Phantom { lsn } => write!(f, "the record at LSN {lsn} was never issued like that"),
            Self::HalfTransaction { end } => write!(f, "the log ends inside a transaction, at LSN {end}"),
            Self::WrongEnd { records, end } => {
                write!(f, "the records end at LSN {records}, the log says {end}")
            }
            Self::Refused { error } => write!(f, "refused: {error}"),
            Self::AcknowledgedAfterFailure { lsn } => write!(f, "acknowledged LSN {lsn} after a failure"),
            Self::Believed => f.write_str("believed memory of another boot, log or opening"),
            Self::NotIdempotent => f.write_str("recovering twice gave different logs"),
            Self::Unmarked { acknowledged, witnessed } => {
                write!(f, "acknowledged up to LSN {acknowledged}, idle and marked up to {witnessed}")
            }
            Self::TrimForgotten { requested, found } => {
                write!(f, "trimmed up to LSN {requested}, and at rest it starts at {found}")
            }
            Self::NotClosed => f.write_str("said to be closed, and not found closed"),
            Self::Stuck { bytes } => write!(f, "a record waits for ever for a segment of {bytes} bytes"),
            Self::WrongStreams { end, what } => write!(f, "at its end, LSN {end}, {what}"),
            Self::OverCap { bytes, cap } => write!(f, "the log takes {bytes} bytes of at most {cap}"),
            Self::PinPassed { pin, first } => {
                write!(f, "a pin holds LSN {pin}, and the log was trimmed up to {first}")
            }
            Self::Concealed { end, acknowledged } => {
                write!(
                    f,
                    "the log ends at LSN {end} and does not say that LSN {acknowledged} was acknowledged"
                )
            }
        }
    }
}

impl std::error::Error for Violation {}

/// Holds what one opening hands out against the ledger.
#[derive(Debug)]
pub struct Judge<'a> {
    ledger: &'a Ledger,
    must_have: Lsn,
    next: Option<usize>,
    end: Option<Lsn>,
}

impl<'a> Judge<'a> {
    /// Everything that was acknowledged must be there.
    #[must_use]
    pub fn new(ledger: &'a Ledger) -> Self {
        Self::lenient(ledger, ledger.acknowledged)
    }

    /// Only what lies before `must_have` must be there.
    #[must_use]
    pub fn lenient(ledger: &'a Ledger, must_have: Lsn) -> Self {
        Self { ledger, must_have, next: None, end: None }
    }

    /// Takes in the next record.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn record(&mut self, lsn: Lsn, payload: &[u8]) -> Result<(), Violation> {
        let issued = &self.ledger.issued;
        let index = match self.next {
            Some(index) => index,
            None if lsn > self.ledger.trimmed => {
                return Err(Violation::Gap { first: lsn, trimmed: self.ledger.trimmed });
            }
            None => issued.partition_point(|record| record.start < lsn),
        };
        let record = issued.get(index).filter(|record| record.start == lsn && record.payload == payload);
        let record = record.ok_or(Violation::Phantom { lsn })?;
        self.next = Some(index + 1);
        self.end = Some(record.end);
        Ok(())
    }

    /// Takes in the end of the log.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn finish(self, end: Lsn) -> Result<(), Violation> {
        if end < self.must_have {
            return Err(Violation::Lost { acknowledged: self.must_have, end });
        }
        match self.end {
            Some(records) if records != end => return Err(Violation::WrongEnd { records, end }),
            None if end > self.ledger.trimmed => {
                return Err(Violation::Gap { first: end, trimmed: self.ledger.trimmed });
            }
            _ => {}
        }
        let last = self.next.and_then(|next| self.ledger.issued.get(next.wrapping_sub(1)));
        if last.is_some_and(|record| !record.ends_transaction) {
            return Err(Violation::HalfTransaction { end });
        }
        Ok(())
    }
}

/// Judges the records that an open log or a view returned, and where that says it ends. No error is expected.
///
/// # Errors
/// The broken promise.
pub fn judge_records(
    ledger: &Ledger,
    records: impl IntoIterator<Item = crate::Result<Record>>,
    end: Lsn,
) -> Result<(), Violation> {
    let mut judge = Judge::new(ledger);
    for record in records {
        let record = record.map_err(|error| Violation::refused(&error))?;
        judge.record(record.lsn, &record.payload)?;
    }
    judge.finish(end)
}

/// Judges an opening or a read that failed.
///
/// # Errors
/// The violation, unless something had been `damaged` and the error names the place.
pub fn judge_refusal(error: &Error, damaged: bool) -> Result<(), Violation> {
    // A segment that waits to be started and is damaged may look like a foreign file.
    if damaged && matches!(error, Error::Corrupt(_) | Error::ForeignFile { .. }) {
        return Ok(());
    }
    Err(Violation::refused(error))
}

#[cfg(test)]
mod tests {
    use super::{Issued, Judge, Ledger, Violation};
    use crate::lsn::Lsn;

    fn ledger() -> Ledger {
        let record = |start: u64, end: u64, ends_transaction: bool, byte: u8| Issued {
            start: Lsn::new(start),
            end: Lsn::new(end),
            ends_transaction,
            tagged: false,
            payload: vec![byte],
        };
        let issued = vec![record(0, 5, true, 1), record(5, 10, false, 2), record(10, 15, true, 3)];
        Ledger { issued, acknowledged: Lsn::new(5), ..Ledger::default() }
    }

    fn judge(records: &[(u64, u8)], end: u64) -> Result<(), Violation> {
        let ledger = ledger();
        let mut judge = Judge::new(&ledger);
        for (lsn, byte) in records {
            judge.record(Lsn::new(*lsn), &[*byte])?;
        }
        judge.finish(Lsn::new(end))
    }

    #[test]
    fn every_kind_of_violation_is_distinguished() {
        assert_eq!(judge(&[(0, 1)], 5), Ok(()));
        assert_eq!(judge(&[(0, 1), (5, 2), (10, 3)], 15), Ok(()));
        assert!(matches!(judge(&[], 0), Err(Violation::Lost { .. })));
        assert!(matches!(judge(&[(5, 2), (10, 3)], 15), Err(Violation::Gap { .. })));
        assert!(matches!(judge(&[(0, 9)], 5), Err(Violation::Phantom { .. })));
        assert!(matches!(judge(&[(0, 1), (10, 3)], 15), Err(Violation::Phantom { .. })));
        assert!(matches!(judge(&[(0, 1), (0, 1)], 5), Err(Violation::Phantom { .. })));
        assert!(matches!(judge(&[(0, 1), (5, 2)], 10), Err(Violation::HalfTransaction { .. })));
        assert!(matches!(judge(&[(0, 1)], 15), Err(Violation::WrongEnd { .. })));
    }
}
