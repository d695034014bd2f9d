//! Tests that every reported change is there after closing, dropping, rotation and trimming.

use std::path::Path;

use openraft09::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft09::{RaftLogReader, Vote};
use seawall::{Log, Options, StreamId};
use seawall_openraft::v09::{self, LogStore};
use seawall_openraft::{BadRecord, Error, Groups};

use crate::old::{Entry, Types, append, entry, id};
use crate::scratch::{self, run, scratch};

fn open(dir: &Path) -> LogStore<Types> {
    scratch::open(dir, 1 << 10).store(3).expect("is understood")
}

async fn all(store: &mut LogStore<Types>) -> Vec<Entry> {
    store.try_get_log_entries(..).await.expect("reads")
}

/// Appends, votes, cuts off, appends again, commits and purges; then what must be there.
async fn history(store: &mut LogStore<Types>) {
    store.save_vote(&Vote::new(1, 1)).await.expect("is durable");
    append(store, 1, 1..60).await;
    store.save_vote(&Vote::new_committed(2, 2)).await.expect("is durable");
    store.truncate(id(1, 41)).await.expect("is durable");
    store.save_committed(Some(id(1, 40))).await.expect("is kept");
    append(store, 2, 41..50).await;
    store.purge(id(1, 30)).await.expect("is durable");
}

async fn check_history(store: &mut LogStore<Types>, opened_again: bool) {
    let vote = if opened_again { Vote::new(2, 2) } else { Vote::new_committed(2, 2) };
    assert_eq!(store.read_vote().await.expect("reads"), Some(vote));
    assert_eq!(store.read_committed().await.expect("reads"), Some(id(1, 40)));
    let state = store.get_log_state().await.expect("reads");
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(id(1, 30)), Some(id(2, 49))));
    let expected: Vec<_> =
        (31..41).map(|index| entry(1, index)).chain((41..50).map(|index| entry(2, index))).collect();
    assert_eq!(all(store).await, expected);
    let some = store.try_get_log_entries(39..=42).await.expect("reads");
    assert_eq!(some, [entry(1, 39), entry(1, 40), entry(2, 41), entry(2, 42)]);
}

#[test]
fn a_closed_and_a_dropped_store_come_back_as_they_were() {
    run(async {
        for close in [true, false] {
            let dir = scratch();
            let mut store = open(dir.path());
            history(&mut store).await;
            check_history(&mut store, false).await;
            if close {
                store.close().expect("closes");
            } else {
                drop(store);
            }
            let mut store = open(dir.path());
            check_history(&mut store, true).await;
            append(&mut store, 2, 50..52).await;
            drop(store);
            assert_eq!(all(&mut open(dir.path())).await.last(), Some(&entry(2, 51)));
        }
    });
}

#[test]
fn a_purged_log_gives_its_space_back_and_keeps_vote_and_end() {
    run(async {
        let dir = scratch();
        let mut store = open(dir.path());
        store.save_vote(&Vote::new(7, 3)).await.expect("is durable");
        for round in 0..100 {
            append(&mut store, 7, round * 50..(round + 1) * 50).await;
            store.purge(id(7, round * 50 + 40)).await.expect("is durable");
        }
        assert!(store.log().first_lsn().get() > 0);
        store.purge(id(7, 4999)).await.expect("is durable");
        assert!(all(&mut store).await.is_empty());
        store.close().expect("closes");
        let bytes: u64 = std::fs::read_dir(dir.path())
            .expect("lists")
            .map(|file| file.and_then(|file| file.metadata()).expect("is a file").len())
            .sum();
        assert!(bytes < 10 * (64 << 10), "{bytes} bytes are left of 5000 entries");
        let mut store = open(dir.path());
        assert_eq!(store.read_vote().await.expect("reads"), Some(Vote::new(7, 3)));
        let state = store.get_log_state().await.expect("reads");
        assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(id(7, 4999)), Some(id(7, 4999))));
        append(&mut store, 8, 5000..5001).await;
        assert_eq!(all(&mut store).await, [entry(8, 5000)]);
    });
}

#[test]
fn a_hole_is_refused_and_leaves_nothing() {
    run(async {
        let dir = scratch();
        let mut store = open(dir.path());
        append(&mut store, 1, 0..3).await;
        assert!(store.blocking_append([entry(1, 4)]).await.is_err());
        assert!(store.blocking_append([entry(1, 2)]).await.is_err());
        append(&mut store, 1, 3..4).await;
        drop(store);
        assert_eq!(all(&mut open(dir.path())).await.len(), 4);
    });
}

#[test]
fn records_of_someone_else_are_refused() {
    let dir = scratch();
    let log = Log::open(dir.path(), Options::default()).expect("opens");
    for stream in [0, 3] {
        log.stream(StreamId::new(stream).expect("is one")).append_commit(b"some record").expect("commits");
    }
    log.close().expect("closes");
    let groups = Groups::open(dir.path(), Options::default()).expect("opens");
    assert_eq!(groups.ids(), [0, 1]);
    for (group, stream) in [(0, 0), (1, 3)] {
        let refused = groups.store::<v09::Types<Types>>(group);
        let Err(Error::Record { stream: found, source: BadRecord::Kind(b's'), .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(found.get(), stream);
    }
    groups.close().expect("nothing is left in use");
}

#[test]
fn a_store_in_use_is_not_closed() {
    run(async {
        let dir = scratch();
        let mut store = open(dir.path());
        let reader = store.get_log_reader().await;
        assert!(matches!(store.close(), Err(Error::InUse)));
        drop(reader);
        open(dir.path());
    });
}

/// Old entries are read by a thread of their own: on a runtime of one thread other tasks go on until they are there, and the
/// store can be closed as soon as they are.
#[test]
fn reading_old_entries_leaves_the_runtime_to_others() {
    let dir = scratch();
    let mut store = open(dir.path());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let entries = runtime.block_on(async {
        append(&mut store, 1, 1..200).await;
        let mut reader = store.get_log_reader().await;
        let read = tokio::spawn(async move { reader.try_get_log_entries(1..3).await.expect("reads") });
        let others = tokio::spawn(async { 7 });
        assert_eq!(others.await.expect("runs"), 7);
        read.await.expect("ends")
    });
    assert_eq!(entries, [entry(1, 1), entry(1, 2)]);
    store.close().expect("nobody holds the log any more");
}
