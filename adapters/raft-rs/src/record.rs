//! Encodes entries and state as records of two streams.
//!
//! ```text
//! stream 2g     of group g, its entries
//!   +---+------+----------+----------+----------------+---------+------+
//!   | 4 | type | term     | index    | context length | context | data |     little endian, bytes: 1, 1, 8, 8, 8, …
//!   +---+------+----------+----------+----------------+---------+------+
//! stream 2g+1   of group g, its state: the last record is what holds
//!   +---+----------+----------+----------+-----------------+------------+
//!   | 5 | term     | vote     | commit   | compacted index | its term   |    bytes: 1, then 8 each
//!   +---+----------+----------+----------+-----------------+------------+
//! ```
//!
//! Invariant: a kind, the first byte, never changes its meaning; 1 and 2 are those of `seawall-openraft`, so that neither reads the other's.

use raft::eraftpb::{Entry, EntryType};

const ENTRY: u8 = 4;
const STATE: u8 = 5;

/// What Raft wants kept besides its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) term: u64,
    pub(crate) vote: u64,
    pub(crate) commit: u64,
    /// The last entry that was compacted or is in an installed snapshot: index and term.
    pub(crate) cut: (u64, u64),
}

impl State {
    /// As it is when a snapshot is installed that ends in `cut`.
    pub(crate) fn installed(self, cut: (u64, u64)) -> Self {
        Self { term: self.term.max(cut.1), commit: self.commit.max(cut.0), cut, ..self }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut record = vec![STATE];
        for number in [self.term, self.vote, self.commit, self.cut.0, self.cut.1] {
            record.extend_from_slice(&number.to_le_bytes());
        }
        record
    }

    /// The state in a record, `None` if it is none.
    pub(crate) fn decode(record: &[u8]) -> Option<Self> {
        let mut rest = record.strip_prefix(&[STATE])?;
        let mut numbers = [0; 5];
        for number in &mut numbers {
            *number = take(&mut rest)?;
        }
        let [term, vote, commit, index, of] = numbers;
        rest.is_empty().then_some(Self { term, vote, commit, cut: (index, of) })
    }
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let (number, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u64::from_le_bytes(*number))
}

pub(crate) fn encode(entry: &Entry) -> Vec<u8> {
    let kind = match entry.get_entry_type() {
        EntryType::EntryNormal => 0,
        EntryType::EntryConfChange => 1,
        EntryType::EntryConfChangeV2 => 2,
    };
    let mut record = vec![ENTRY, kind];
    for number in [entry.term, entry.index, entry.context.len() as u64] {
        record.extend_from_slice(&number.to_le_bytes());
    }
    record.extend_from_slice(&entry.context);
    record.extend_from_slice(&entry.data);
    record
}

/// Entry `index` in a record, `None` if it is not that.
pub(crate) fn decode(record: &[u8], index: u64) -> Option<Entry> {
    let (kind, mut rest) = record.strip_prefix(&[ENTRY])?.split_first()?;
    let mut entry = Entry::default();
    entry.set_entry_type(match kind {
        0 => EntryType::EntryNormal,
        1 => EntryType::EntryConfChange,
        2 => EntryType::EntryConfChangeV2,
        _ => return None,
    });
    entry.term = take(&mut rest)?;
    entry.index = take(&mut rest)?;
    let context = usize::try_from(take(&mut rest)?).ok()?;
    let (context, data) = rest.split_at_checked(context)?;
    entry.context = context.to_vec().into();
    entry.data = data.to_vec().into();
    (entry.index == index).then_some(entry)
}
