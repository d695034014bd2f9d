//! Defines the victim's records and marks, and keeps the ledger outside of the victim.
//!
//! Every record follows from the seed, the life and the LSN where it starts, so the harness knows what was issued
//! without the victim's help, and a record of an abandoned life never looks like one of the next. The victim reports
//! by marks, one line each, made through the recorder:
//!
//! ```text
//! opened LIFE LSN    recovery returned the log up to here
//! acked LSN          everything before this was acknowledged
//! trim LSN           about to trim everything before this
//! exposed LSN        the harness itself recovered the log and read it up to here
//! LSN                as "acked", in the form of `seawall log append`
//! ```

use seawall::Lsn;
use seawall::oracle::{Issued, Ledger};
use seawall::sim::outside::record_bytes;
use seawall::sim::rng::{Rng, mix};

/// A bit in the number of a life whose transactions are single records.
pub(crate) const SINGLES: u64 = 1 << 32;

/// The records of the transaction that starts at `start`; the command line knows [`SINGLES`] only.
pub(crate) fn transaction(seed: u64, life: u64, start: Lsn) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(mix(seed ^ mix(life) ^ mix(start.get() << 1)));
    let records = if life & SINGLES == 0 && rng.one_in(6) { 2 + rng.index(3) } else { 1 };
    (0..records).map(|_| payload(&mut rng)).collect()
}

fn payload(rng: &mut Rng) -> Vec<u8> {
    let length = match rng.below(12) {
        0 => 0,
        1..=8 => rng.index(300),
        9 | 10 => rng.index(3000),
        _ => rng.index(9000),
    };
    rng.bytes(length)
}

/// Where the transaction with these records ends.
pub(crate) fn end_of(start: Lsn, records: &[Vec<u8>]) -> Lsn {
    records.iter().fold(start, |lsn, payload| lsn.saturating_add(record_bytes(payload.len())))
}

/// A line of the victim that is no mark.
#[derive(Debug, thiserror::Error)]
#[error("the victim wrote {0:?}, which is no mark")]
pub(crate) struct UnknownMark(String);

/// The ledger as the marks build it.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    seed: u64,
    /// Transactions that one life issues at most.
    transactions: u64,
    pub(crate) ledger: Ledger,
}

impl Timeline {
    /// Before the first life.
    pub(crate) fn new(seed: u64, transactions: u64) -> Self {
        Self { seed, transactions, ledger: Ledger::default() }
    }

    /// A life begins with the log up to `end`.
    fn opened(&mut self, life: u64, end: Lsn) {
        self.ledger.exposed(end);
        let mut start = end;
        for _ in 0..self.transactions {
            let records = transaction(self.seed, life, start);
            let last = records.len() - 1;
            for (i, payload) in records.into_iter().enumerate() {
                let end = start.saturating_add(record_bytes(payload.len()));
                self.ledger.issued.push(Issued {
                    start,
                    end,
                    ends_transaction: i == last,
                    tagged: false,
                    payload,
                });
                start = end;
            }
        }
    }

    pub(crate) fn mark(&mut self, text: &str) -> Result<(), UnknownMark> {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let (verb, mut words) = match first.parse::<u64>() {
            Ok(_) => ("acked", text.split_whitespace()),
            Err(_) => (first, words),
        };
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        match (verb, number(), number()) {
            ("opened", Some(life), Some(lsn)) => self.opened(life, Lsn::new(lsn)),
            ("acked", Some(lsn), None) => {
                self.ledger.acknowledged = self.ledger.acknowledged.max(Lsn::new(lsn));
            }
            ("exposed", Some(lsn), None) => self.ledger.exposed(Lsn::new(lsn)),
            ("trim", Some(lsn), None) => self.ledger.trimmed = self.ledger.trimmed.max(Lsn::new(lsn)),
            _ => return Err(UnknownMark(text.to_owned())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Timeline, end_of, transaction};
    use seawall::Lsn;

    #[test]
    fn lives_write_different_records_and_the_ledger_knows_them_all() {
        let start = Lsn::new(77);
        assert_ne!(transaction(1, 1, start), transaction(1, 2, start));
        let mut timeline = Timeline::new(1, 3);
        assert!(timeline.mark("opened 1 0").is_ok() && timeline.mark("acked 5").is_ok());
        assert!(timeline.mark("acked").is_err() && timeline.mark("done 1").is_err());
        let first = transaction(1, 1, Lsn::ZERO);
        let issued = &timeline.ledger.issued;
        assert_eq!(issued[first.len() - 1].end, end_of(Lsn::ZERO, &first));
        assert_eq!(timeline.ledger.acknowledged, Lsn::new(5));
    }
}
