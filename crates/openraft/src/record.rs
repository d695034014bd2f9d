//! Encodes Raft entries and state as records of the log.
//!
//! ```text
//! +--------+-------------------------+
//! | kind   | value, by postcard      |
//! | 1 byte |                         |
//! +--------+-------------------------+
//!
//! kind 1   entry       a log entry
//! kind 2   state       vote, committed and purged log id, all three: the last such record is what holds
//! kind 3   truncated   the log id from which on, inclusive, the entries before this record are gone
//! ```
//!
//! Invariant: a kind never changes its meaning; a new meaning gets a new kind, so that an older library refuses it
//! rather than misread it.

use openraft::{LogId, NodeId, RaftTypeConfig, Vote};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::error::{BadRecord, Error, Result};

const ENTRY: u8 = 1;
const STATE: u8 = 2;
const TRUNCATED: u8 = 3;

/// What Raft wants kept besides its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct State<N: NodeId> {
    /// The last vote.
    pub(crate) vote: Option<Vote<N>>,
    /// The last log id known to be committed.
    pub(crate) committed: Option<LogId<N>>,
    /// The last log id that was purged.
    pub(crate) purged: Option<LogId<N>>,
}

/// One record, decoded.
pub(crate) enum Stored<C: RaftTypeConfig> {
    /// A log entry.
    Entry(C::Entry),
    /// The state from here on.
    State(State<C::NodeId>),
    /// From this log id on, inclusive, the entries so far are gone.
    Truncated(LogId<C::NodeId>),
}

fn encode(kind: u8, value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_extend(value, vec![kind]).map_err(Error::Encode)
}

/// Encodes an entry.
pub(crate) fn entry<C: RaftTypeConfig>(entry: &C::Entry) -> Result<Vec<u8>> {
    encode(ENTRY, entry)
}

/// Encodes the state.
pub(crate) fn state<N: NodeId>(state: &State<N>) -> Result<Vec<u8>> {
    encode(STATE, state)
}

/// Encodes a truncation.
pub(crate) fn truncated<N: NodeId>(from: &LogId<N>) -> Result<Vec<u8>> {
    encode(TRUNCATED, from)
}

/// Decodes the value behind the kind; every byte must belong to it.
fn value<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BadRecord> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(BadRecord::LeftOver(rest.len())),
        Err(error) => Err(BadRecord::Value(error)),
    }
}

/// Decodes a record.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn decode<C: RaftTypeConfig>(record: &[u8]) -> Result<Stored<C>, BadRecord> {
    match record.split_first() {
        Some((&ENTRY, bytes)) => value(bytes).map(Stored::Entry),
        Some((&STATE, bytes)) => value(bytes).map(Stored::State),
        Some((&TRUNCATED, bytes)) => value(bytes).map(Stored::Truncated),
        Some((kind, _)) => Err(BadRecord::Kind(*kind)),
        None => Err(BadRecord::Empty),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::{State, Stored, decode, encode, state};

    openraft::declare_raft_types!(Types: D = String, R = String);

    #[test]
    fn a_record_of_another_origin_is_refused() {
        let good = state(&State::<u64>::default()).expect("encodes");
        assert!(matches!(decode::<Types>(&good), Ok(Stored::State(found)) if found == State::default()));
        assert!(decode::<Types>(&[]).is_err());
        assert!(decode::<Types>(&good[..good.len() - 1]).is_err());
        assert!(decode::<Types>(&[&good[..], &[0]].concat()).is_err());
        assert!(decode::<Types>(&encode(9, &0_u8).expect("encodes")).is_err());
    }
}
