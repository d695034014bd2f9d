//! Names the types of Raft that the store keeps, so that one store serves several versions of Openraft.

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};

/// The types of one Raft configuration in one version of Openraft: `v09::Types` or `v010::Types`.
pub trait RaftTypes: Send + Sync + 'static {
    /// Identifies an entry.
    type LogId: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What a node has voted for.
    type Vote: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// An entry of the Raft log.
    type Entry: Serialize + DeserializeOwned + Send + 'static;

    /// The log id of an entry.
    fn log_id(entry: &Self::Entry) -> Self::LogId;

    /// The index in a log id.
    fn index(log_id: &Self::LogId) -> u64;

    /// The vote for the same leader, without the word that a quorum granted it.
    fn uncommitted(vote: &Self::Vote) -> Self::Vote;
}
