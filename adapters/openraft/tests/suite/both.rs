//! Tests that one Openraft reads what the other has written, and what only the traits of 0.10 have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use futures_util::StreamExt;
use openraft09::storage::{RaftLogStorage as _, RaftLogStorageExt as _};
use openraft09::{BasicNode, CommittedLeaderId, EntryPayload, Membership, Vote};
use openraft010::RaftLogReader as _;
use openraft010::entry::RaftEntry as _;
use openraft010::storage::{IOFlushed, RaftLogStorage as _, RaftLogStorageExt as _};
use openraft010::type_config::alias::{EntryOf, LogIdOf};
use openraft010::vote::RaftLeaderIdExt as _;
#[cfg(feature = "mutants")]
use seawall::mutant::{Mutant, finds};
use seawall::{Log, Options};
use seawall_openraft::{Groups, v09, v010};

use crate::kv010::Types;
use crate::old;
use crate::scratch::{self, run, scratch};

fn open(dir: &Path) -> Groups {
    scratch::open(dir, 1 << 10)
}

fn id(term: u64, index: u64) -> LogIdOf<Types> {
    LogIdOf::<Types>::new(<Types as openraft010::RaftTypeConfig>::LeaderId::new_committed(term, 3), index)
}

fn entry(term: u64, index: u64) -> EntryOf<Types> {
    EntryOf::<Types>::new_normal(id(term, index), format!("{term}/{index}").repeat(40))
}

#[test]
fn openraft_0_10_goes_on_with_a_log_of_0_9() {
    let dir = scratch();
    let groups = open(dir.path());
    let old_id = |term, index| openraft09::LogId::new(CommittedLeaderId::new(term, 3), index);
    run(async {
        let mut store: v09::LogStore<old::Types> = groups.store(0).expect("opens");
        let nodes: BTreeMap<_, _> =
            (1..4).map(|node| (node, BasicNode::new(format!("node {node}")))).collect();
        let membership = Membership::new(vec![BTreeSet::from([1, 2]), BTreeSet::from([2, 3])], nodes);
        let payloads = [
            EntryPayload::Membership(membership),
            EntryPayload::Blank,
            EntryPayload::Normal("some data".to_owned()),
        ];
        let entries = (0..).zip(payloads);
        let entries = entries.map(|(index, payload)| openraft09::Entry { log_id: old_id(2, index), payload });
        store.blocking_append(entries).await.expect("is durable");
        store.save_vote(&Vote::new_committed(2, 3)).await.expect("is durable");
        store.save_committed(Some(old_id(2, 1))).await.expect("is kept");
    });
    groups.close().expect("closes");
    let groups = open(dir.path());
    run(async {
        let mut store: v010::LogStore<Types> = groups.store(0).expect("opens");
        let vote = openraft010::Vote::new(2, 3);
        assert_eq!(store.get_log_reader().await.read_vote().await.expect("reads"), Some(vote));
        assert_eq!(store.read_committed().await.expect("reads"), Some(id(2, 1)));
        store.blocking_append([entry(3, 3)]).await.expect("is durable");
        let entries = store.reader().try_get_log_entries(..).await.expect("reads");
        let joint = entries[0].get_membership().expect("is one");
        assert_eq!(joint.get_joint_config(), &[BTreeSet::from([1, 2]), BTreeSet::from([2, 3])]);
        assert_eq!(joint.get_node(&3).map(|node| node.addr.as_str()), Some("node 3"));
        assert_eq!(entries[1], EntryOf::<Types>::new_blank(id(2, 1)));
        assert_eq!(entries[2], EntryOf::<Types>::new_normal(id(2, 2), "some data".to_owned()));
        assert_eq!(entries[3], entry(3, 3));
    });
    groups.close().expect("closes");
    let groups = open(dir.path());
    run(async {
        use openraft09::RaftLogReader as _;
        let mut store: v09::LogStore<old::Types> = groups.store(0).expect("opens");
        assert_eq!(store.try_get_log_entries(..).await.expect("reads").len(), 4);
    });
}

#[test]
fn a_conflict_is_cut_off_and_long_logs_are_read_in_pieces() {
    const ENTRIES: u64 = 9000;
    let dir = scratch();
    let groups = open(dir.path());
    run(async {
        let mut store: v010::LogStore<Types> = groups.store(5).expect("opens");
        store.blocking_append((0..ENTRIES).map(|index| entry(1, index))).await.expect("is durable");
        store.truncate_after(Some(id(1, ENTRIES - 11))).await.expect("is durable");
        store
            .blocking_append((ENTRIES - 10..ENTRIES).map(|index| entry(2, index)))
            .await
            .expect("is durable");
        drop(store);
        let mut store: v010::LogStore<Types> = groups.store(5).expect("opens");
        let mut reader = store.get_log_reader().await;
        let piece = reader.limited_get_log_entries(0, ENTRIES).await.expect("reads");
        assert!(!piece.is_empty() && piece.len() < 8000, "{} entries at once", piece.len());
        let mut index = 10;
        let mut entries = reader.entries_stream(10..).await;
        while let Some(found) = entries.next().await {
            assert_eq!(found.expect("reads"), entry(if index < ENTRIES - 10 { 1 } else { 2 }, index));
            index += 1;
        }
        assert_eq!(index, ENTRIES);
        drop(entries);
        store.truncate_after(None).await.expect("is durable");
        assert_eq!(store.get_log_state().await.expect("reads").last_log_id, None);
    });
}

/// More than the log's memory holds is appended on a runtime of one thread: other tasks go on while that waits for the disk.
#[test]
fn appending_more_than_the_memory_holds_leaves_the_runtime_to_others() {
    const ENTRIES: u64 = 20_000;
    let dir = scratch();
    let groups = open(dir.path());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut store: v010::LogStore<Types> = groups.store(5).expect("opens");
        let others = tokio::spawn(async {});
        let entries = (0..ENTRIES).map(|index| entry(1, index));
        store.append(entries, IOFlushed::noop()).await.expect("is accepted");
        assert!(others.is_finished(), "the runtime stood still");
        store.blocking_append([entry(1, ENTRIES)]).await.expect("becomes durable");
        assert_eq!(store.reader().try_get_log_entries(..).await.expect("reads").len() as u64, ENTRIES + 1);
    });
}

/// Of either version, however the log was closed: a node that starts has to be elected before it gives log ids again, because
/// entries that it gave some and sent may be gone.
fn no_term_goes_on() {
    for close in [true, false] {
        let dir = scratch();
        let end = |groups: Groups| if close { groups.close().expect("closes") } else { drop(groups) };
        let groups = open(dir.path());
        run(async {
            let mut store: v09::LogStore<old::Types> = groups.store(0).expect("opens");
            store.save_vote(&Vote::new_committed(7, 1)).await.expect("is durable");
            let mut store: v010::LogStore<Types> = groups.store(1).expect("opens");
            store.save_vote(&openraft010::Vote::new_committed(7, 1)).await.expect("is durable");
            store.blocking_append([entry(7, 0)]).await.expect("is durable");
        });
        end(groups);
        // An opening that used neither group, and one by other means: they prove nothing about the groups.
        end(open(dir.path()));
        Log::open(dir.path(), Options::default()).and_then(Log::close).expect("closes");
        let groups = open(dir.path());
        run(async {
            let mut store: v09::LogStore<old::Types> = groups.store(0).expect("opens");
            assert_eq!(store.read_vote().await.expect("reads"), Some(Vote::new(7, 1)));
            // Again in the same process, where nothing can be missing.
            drop(store);
            let mut store: v09::LogStore<old::Types> = groups.store(0).expect("opens");
            assert_eq!(store.read_vote().await.expect("reads"), Some(Vote::new(7, 1)));
            let store: v010::LogStore<Types> = groups.store(1).expect("opens");
            let vote = openraft010::RaftLogReader::read_vote(&mut store.reader()).await.expect("reads");
            assert_eq!(vote, Some(openraft010::Vote::new(7, 1)));
        });
        groups.close().expect("closes");
    }
}

#[test]
fn a_node_that_starts_has_to_be_elected() {
    no_term_goes_on();
    #[cfg(feature = "mutants")]
    assert!(finds(Mutant::RaftTermGoesOn, no_term_goes_on));
}
