//! Defines a stream of records that is reproducible from its run and number alone.
//!
//! A stream is a journal written by one commit method, or a Seawall log. Its records follow from the run, the stream
//! and their number; where each lies follows from its number too:
//!
//! ```text
//!   journal: a ring of slots          record s lies in slot s mod slots
//!   log:     lengths repeat every 8 records, transactions with them
//!            record s starts at LSN (s / 8) * bytes of 8 records + the bytes of those before it among its 8
//! ```

use seawall::RECORD_HEADER_BYTES;
use seawall_sys::durability::Durability;

use crate::record::{HEAD_BYTES, Name, SECTOR_BYTES, encode, is_length};

/// Records after which lengths and transactions of a log repeat.
const PERIOD: u64 = 8;
/// The length of each of the eight, in eighths of the nominal one.
const EIGHTHS: [usize; 8] = [8, 4, 8, 2, 16, 8, 1, 3];
/// Whether a transaction ends with each of the eight.
const ENDS: [bool; 8] = [true, true, false, true, true, false, false, true];

/// What a stream is written through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamKind {
    /// A journal, by one commit method.
    Journal,
    /// A Seawall log.
    Log,
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stream {
    pub(crate) number: u16,
    pub(crate) kind: StreamKind,
    /// What an acknowledged record is promised to outlive.
    pub(crate) class: Durability,
    /// Bytes of a record, the nominal ones of a log.
    pub(crate) record_bytes: u32,
    /// Bytes of the journal; of a log, what it keeps before it trims.
    pub(crate) journal_bytes: u64,
    /// The commit method's id; for a log, `log` or `log:` and the id.
    #[serde(deserialize_with = "crate::message::method")]
    pub(crate) method: String,
}

impl Stream {
    /// The file or directory that it is kept in.
    pub(crate) fn file_name(&self) -> String {
        let method = self.method.replace(':', "-");
        match self.kind {
            StreamKind::Journal => format!("{:02}-{method}.journal", self.number),
            StreamKind::Log => format!("{:02}-{method}", self.number),
        }
    }

    pub(crate) fn slots(&self) -> u64 {
        self.journal_bytes / u64::from(self.record_bytes.max(1))
    }

    /// The number in its records.
    pub(crate) fn name(&self, run: u64, sequence: u64) -> Name {
        Name { run, stream: self.number, sequence }
    }

    /// Bytes of a record of a log.
    pub(crate) fn log_record_bytes(&self, sequence: u64) -> usize {
        let bytes = self.record_bytes as usize * EIGHTHS[index(sequence)] / 8;
        if is_length(bytes) {
            bytes
        } else if bytes < HEAD_BYTES {
            HEAD_BYTES
        } else {
            bytes - bytes % SECTOR_BYTES
        }
    }

    /// The record of a log.
    pub(crate) fn log_record(&self, run: u64, sequence: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.log_record_bytes(sequence)];
        encode(self.name(run, sequence), &mut bytes);
        bytes
    }

    /// Bytes that eight records take in the log.
    fn period_bytes(&self) -> u64 {
        (0..PERIOD).map(|sequence| self.taken(sequence)).sum()
    }

    fn taken(&self, sequence: u64) -> u64 {
        (self.log_record_bytes(sequence) + RECORD_HEADER_BYTES) as u64
    }

    /// Where a record of a log starts.
    pub(crate) fn lsn(&self, sequence: u64) -> u64 {
        let before: u64 = (0..sequence % PERIOD).map(|sequence| self.taken(sequence)).sum();
        (sequence / PERIOD) * self.period_bytes() + before
    }

    /// The last record that starts at or before `lsn`.
    pub(crate) fn sequence_at(&self, lsn: u64) -> u64 {
        let mut sequence = lsn / self.period_bytes() * PERIOD;
        while self.lsn(sequence + 1) <= lsn {
            sequence += 1;
        }
        sequence
    }
}

#[cfg(test)]
impl Stream {
    /// A stream of class power loss.
    pub(crate) fn sample(number: u16, kind: StreamKind) -> Self {
        let (record_bytes, journal_bytes) = (4096, 1 << 20);
        Self {
            number,
            kind,
            class: Durability::PowerLoss,
            record_bytes,
            journal_bytes,
            method: "log".to_owned(),
        }
    }
}

fn index(sequence: u64) -> usize {
    usize::try_from(sequence % PERIOD).unwrap_or_default()
}

/// Whether a transaction of a log ends with this record.
pub(crate) fn ends_transaction(sequence: u64) -> bool {
    ENDS[index(sequence)]
}

#[cfg(test)]
mod tests {
    use super::{Stream, StreamKind, ends_transaction};
    use crate::record::is_length;

    fn log(record_bytes: u32) -> Stream {
        Stream { record_bytes, ..Stream::sample(1, StreamKind::Log) }
    }

    #[test]
    fn places_in_the_log_add_up_and_are_found_again() {
        for bytes in [32, 100, 512, 2300, 4096, 65_536] {
            let log = log(bytes);
            let mut lsn = 0;
            for sequence in 0..100 {
                assert!(is_length(log.log_record_bytes(sequence)), "{bytes}, {sequence}");
                assert_eq!(log.lsn(sequence), lsn);
                assert_eq!(log.sequence_at(lsn), sequence);
                let taken = log.log_record(7, sequence).len() as u64 + 4;
                assert_eq!(log.sequence_at(lsn + taken - 1), sequence);
                lsn += taken;
            }
        }
    }

    #[test]
    fn transactions_are_of_one_two_and_three_records() {
        let mut lengths = Vec::new();
        let mut length = 0;
        for sequence in 0..8 {
            length += 1;
            if ends_transaction(sequence) {
                lengths.push(length);
                length = 0;
            }
        }
        assert_eq!((lengths, length), (vec![1, 1, 2, 1, 3], 0));
    }
}
