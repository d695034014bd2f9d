//! Test fixture: entries of Openraft 0.9.

use std::io::Cursor;
use std::ops::Range;

use openraft09::storage::RaftLogStorageExt as _;
use openraft09::{CommittedLeaderId, EntryPayload, LogId};
use seawall_openraft::v09::LogStore;

openraft09::declare_raft_types!(pub(crate) Types: D = String, R = u64);
pub(crate) type Entry = openraft09::Entry<Types>;

pub(crate) fn id(term: u64, index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(term, 1), index)
}

pub(crate) fn entry(term: u64, index: u64) -> Entry {
    Entry { log_id: id(term, index), payload: EntryPayload::Normal(format!("{term}/{index}").repeat(20)) }
}

pub(crate) async fn append(store: &mut LogStore<Types>, term: u64, indexes: Range<u64>) {
    store.blocking_append(indexes.map(|index| entry(term, index))).await.expect("becomes durable");
}
