//! Encodes a write batch of SlateDB as one record of the log.
//!
//! ```text
//! record = sequence number of its rows | rows                       (postcard: varints, bytes with their length)
//! row    = key | value, merge operand or tombstone | creation time? | expiry time?
//! ```
//!
//! A record without rows only fills up a log whose newest records were lost. The WAL file ID of a record is its first LSN plus one: IDs
//! grow from 1 on, and nothing but the log counts them. An ID that stands for "everything before" is an end LSN.

use seawall::Lsn;
use serde::{Deserialize, Serialize};
use slatedb::bytes::Bytes;
use slatedb::{RowEntry, ValueDeletable};

use crate::error::Error;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Batch<'a> {
    pub(crate) seq: u64,
    #[serde(borrow)]
    rows: Vec<Row<'a>>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Row<'a> {
    key: &'a [u8],
    #[serde(borrow)]
    value: Value<'a>,
    create_ts: Option<i64>,
    expire_ts: Option<i64>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Value<'a> {
    Plain(&'a [u8]),
    Merge(&'a [u8]),
    Tombstone,
}

impl<'a> Row<'a> {
    fn of(row: &'a RowEntry) -> Self {
        Self {
            key: &row.key,
            value: match &row.value {
                ValueDeletable::Value(value) => Value::Plain(value),
                ValueDeletable::Merge(value) => Value::Merge(value),
                ValueDeletable::Tombstone => Value::Tombstone,
            },
            create_ts: row.create_ts,
            expire_ts: row.expire_ts,
        }
    }
}

/// The WAL file ID of the record that starts at `lsn`.
pub(crate) fn id(lsn: Lsn) -> u64 {
    lsn.get().saturating_add(1)
}

/// The record of rows that share one sequence number.
pub(crate) fn encode(rows: &[RowEntry]) -> Result<Vec<u8>, Error> {
    let seq = rows.first().map_or(0, |row| row.seq);
    if rows.iter().any(|row| row.seq != seq) {
        return Err(Error::SequenceNumbers);
    }
    let batch = Batch { seq, rows: rows.iter().map(Row::of).collect() };
    postcard::to_allocvec(&batch).map_err(Error::Encode)
}

impl<'a> Batch<'a> {
    /// The batch of the record that starts at `lsn`.
    pub(crate) fn decode(lsn: Lsn, record: &'a [u8]) -> Result<Self, Error> {
        match postcard::take_from_bytes::<Self>(record) {
            Ok((batch, rest)) if rest.is_empty() || batch.rows.is_empty() => Ok(batch),
            _ => Err(Error::Foreign { lsn }),
        }
    }

    /// Its rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = RowEntry> + '_ {
        self.rows.iter().map(|row| RowEntry {
            key: Bytes::copy_from_slice(row.key),
            value: match row.value {
                Value::Plain(value) => ValueDeletable::Value(Bytes::copy_from_slice(value)),
                Value::Merge(value) => ValueDeletable::Merge(Bytes::copy_from_slice(value)),
                Value::Tombstone => ValueDeletable::Tombstone,
            },
            seq: self.seq,
            create_ts: row.create_ts,
            expire_ts: row.expire_ts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, encode};
    use seawall::Lsn;
    use slatedb::bytes::Bytes;
    use slatedb::{RowEntry, ValueDeletable};

    fn row(seq: u64, value: ValueDeletable, expire_ts: Option<i64>) -> RowEntry {
        RowEntry { key: Bytes::from_static(b"key"), value, seq, create_ts: Some(-1), expire_ts }
    }

    #[test]
    fn rows_are_read_as_they_were_written_and_damage_is_an_error() {
        let bytes = Bytes::from_static(b"\0value");
        let rows = [
            row(7, ValueDeletable::Value(bytes.clone()), None),
            row(7, ValueDeletable::Merge(bytes), Some(i64::MAX)),
            row(7, ValueDeletable::Tombstone, Some(0)),
        ];
        let record = encode(&rows).expect("encodes");
        let batch = Batch::decode(Lsn::ZERO, &record).expect("decodes");
        assert_eq!(batch.seq, 7);
        assert_eq!(batch.rows().collect::<Vec<_>>(), rows);
        for bytes in 0..record.len() {
            assert!(Batch::decode(Lsn::ZERO, &record[..bytes]).is_err(), "{bytes} bytes of it");
        }
        let longer = [&record[..], b"0"].concat();
        assert!(Batch::decode(Lsn::ZERO, &longer).is_err());
        let filler = [encode(&[]).expect("encodes"), vec![0; 100]].concat();
        assert_eq!(Batch::decode(Lsn::ZERO, &filler).expect("decodes").rows().count(), 0);
    }

    #[test]
    fn rows_of_two_sequence_numbers_are_no_batch() {
        let rows = [row(1, ValueDeletable::Tombstone, None), row(2, ValueDeletable::Tombstone, None)];
        assert!(encode(&rows).is_err());
    }
}
