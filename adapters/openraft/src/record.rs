//! Encodes Raft entries and state as records of two streams.
//!
//! ```text
//! +--------+-------------------------+
//! | kind   | value, by postcard      |
//! | 1 byte |                         |
//! +--------+-------------------------+
//!
//! stream 2g     of group g, its entries: entry `base + n` is record n
//!   kind 1      entry     a log entry
//! stream 2g+1   of group g, its state: the last record is what holds
//!   kind 2      state     vote, committed and purged log id, base: all four
//! ```
//!
//! Invariant: a kind never changes its meaning; a new meaning gets a new kind, so that an older library refuses it
//! rather than misread it.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::error::{BadRecord, Error, Result};
use crate::types::RaftTypes;

const ENTRY: u8 = 1;
const STATE: u8 = 2;

/// What Raft wants kept besides its entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State<L, V> {
    pub(crate) vote: Option<V>,
    /// The last log id known to be committed.
    pub(crate) committed: Option<L>,
    /// The last log id that was purged.
    pub(crate) purged: Option<L>,
    /// The index of the entry that is, or would be, record 0; modulo 2^64.
    pub(crate) base: u64,
}

/// The state of a group of these types.
pub(crate) type StateOf<R> = State<<R as RaftTypes>::LogId, <R as RaftTypes>::Vote>;

impl<L, V> Default for State<L, V> {
    fn default() -> Self {
        Self { vote: None, committed: None, purged: None, base: 0 }
    }
}

fn encode(kind: u8, value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_extend(value, vec![kind]).map_err(Error::Encode)
}

pub(crate) fn encode_entry<R: RaftTypes>(entry: &R::Entry) -> Result<Vec<u8>> {
    encode(ENTRY, entry)
}

pub(crate) fn encode_state<L: Serialize, V: Serialize>(state: &State<L, V>) -> Result<Vec<u8>> {
    encode(STATE, state)
}

/// Decodes a record of this kind; every byte must belong to it.
fn decode<T: DeserializeOwned>(kind: u8, record: &[u8]) -> Result<T, BadRecord> {
    let (found, bytes) = record.split_first().ok_or(BadRecord::Empty)?;
    if *found != kind {
        return Err(BadRecord::Kind(*found));
    }
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(BadRecord::LeftOver(rest.len())),
        Err(error) => Err(BadRecord::Value(error)),
    }
}

/// Decodes entry `index`.
pub(crate) fn decode_entry<R: RaftTypes>(record: &[u8], index: u64) -> Result<R::Entry, BadRecord> {
    let entry = decode(ENTRY, record)?;
    let found = R::index(&R::log_id(&entry));
    if found == index { Ok(entry) } else { Err(BadRecord::Index { index, found }) }
}

pub(crate) fn decode_state<R: RaftTypes>(record: &[u8]) -> Result<StateOf<R>, BadRecord> {
    decode(STATE, record)
}

#[cfg(test)]
mod tests {
    use super::{RaftTypes, State, decode_entry, decode_state, encode, encode_entry, encode_state};

    struct Types;

    impl RaftTypes for Types {
        type LogId = u64;
        type Vote = String;
        type Entry = (u64, String);

        fn log_id(entry: &Self::Entry) -> u64 {
            entry.0
        }

        fn index(log_id: &u64) -> u64 {
            *log_id
        }

        fn uncommitted(vote: &String) -> String {
            vote.clone()
        }
    }

    #[test]
    fn a_record_of_another_origin_is_refused() {
        let kept = State { vote: Some("vote".to_owned()), purged: Some(7), base: u64::MAX, committed: None };
        let good = encode_state(&kept).expect("encodes");
        assert_eq!(decode_state::<Types>(&good).expect("decodes"), kept);
        for bad in [
            &[][..],
            &good[..good.len() - 1],
            &[&good[..], &[0]].concat(),
            &encode(9, &0_u8).expect("encodes"),
        ] {
            assert!(decode_state::<Types>(bad).is_err());
        }
        let good = encode_entry::<Types>(&(5, "entry".to_owned())).expect("encodes");
        assert_eq!(decode_entry::<Types>(&good, 5).expect("decodes").1, "entry");
        assert!(decode_entry::<Types>(&good, 6).is_err());
        assert!(decode_state::<Types>(&good).is_err());
    }
}
