//! Tests many Raft groups on one log, and readers beside appends, purges and truncations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use openraft09::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft09::{RaftLogReader, Vote};
use seawall::StreamId;
use seawall_openraft::v09::{self, LogStore};
use seawall_openraft::{Error, Groups};

use crate::old::{Types, append, entry, id};
use crate::scratch::{open, run, scratch};

fn store(groups: &Groups, group: u32) -> LogStore<Types> {
    groups.store(group).expect("opens")
}

/// One life of a group: what it does depends on its number, so that the groups differ.
async fn live(mut store: LogStore<Types>, group: u64, life: u64) {
    let term = life + 1;
    store.save_vote(&Vote::new(term, group)).await.expect("is durable");
    let next = store.get_log_state().await.expect("reads").last_log_id.map_or(group, |last| last.index + 1);
    for start in (next..next + 30).step_by(3) {
        append(&mut store, term, start..start + 3).await;
        store.save_committed(Some(id(term, start))).await.expect("is kept");
    }
    if group.is_multiple_of(3) {
        // A new leader whose log differs in the last entries.
        store.truncate(id(term, next + 25)).await.expect("is durable");
        append(&mut store, term + 100, next + 25..next + 30).await;
    }
    if group.is_multiple_of(2) {
        store.purge(id(term, next + 10)).await.expect("is durable");
    }
}

async fn check(mut store: LogStore<Types>, group: u64, lives: u64) {
    let (next, last) = (group + 30 * (lives - 1), group + 30 * lives - 1);
    let last_term = if group.is_multiple_of(3) { lives + 100 } else { lives };
    assert_eq!(store.read_vote().await.expect("reads"), Some(Vote::new(lives, group)));
    assert_eq!(store.read_committed().await.expect("reads"), Some(id(lives, next + 27)));
    let state = store.get_log_state().await.expect("reads");
    assert_eq!(state.last_log_id, Some(id(last_term, last)));
    assert_eq!(state.last_purged_log_id, group.is_multiple_of(2).then(|| id(lives, next + 10)));
    let entries = store.try_get_log_entries(..).await.expect("reads");
    let first = if group.is_multiple_of(2) { next + 11 } else { group };
    assert_eq!(entries.len() as u64, last + 1 - first);
    for (index, found) in (first..).zip(entries) {
        let life = (index - group) / 30;
        let cut = group.is_multiple_of(3) && (index - group) % 30 >= 25;
        assert_eq!(found, entry(life + if cut { 101 } else { 1 }, index));
    }
}

#[test]
fn fifty_groups_share_one_log_and_come_back_after_each_crash() {
    const GROUPS: u32 = 50;
    let dir = scratch();
    for lives in 1..=4 {
        let groups = open(dir.path(), 4 << 10);
        run(async {
            let tasks: Vec<_> = (0..GROUPS)
                .map(|group| tokio::spawn(live(store(&groups, group), group.into(), lives - 1)))
                .collect();
            for task in tasks {
                task.await.expect("ends");
            }
        });
        // Each append was reported durable, and none had a flush of its own.
        let (flushes, commits) = (groups.log().stats().batches, u64::from(GROUPS) * 12);
        assert!(flushes < commits, "{flushes} batches for {commits} commits");
        // What is committed in the sense of Raft is kept with the next flush, which the last group may lack.
        groups.log().commit(groups.log().appended_lsn()).expect("is durable");
        // Without closing, as a kill would end it.
        drop(groups);
        let groups = open(dir.path(), 4 << 10);
        assert_eq!(groups.ids(), (0..GROUPS).collect::<Vec<_>>());
        run(async {
            for group in 0..GROUPS {
                check(store(&groups, group), group.into(), lives).await;
            }
        });
        groups.close().expect("nothing is left in use");
    }
}

#[test]
fn a_group_has_one_user_and_is_removed_as_a_whole() {
    let dir = scratch();
    let groups = open(dir.path(), 0);
    let mut kept = store(&groups, 1);
    assert!(matches!(groups.store::<v09::Types<Types>>(1), Err(Error::GroupInUse { group: 1 })));
    assert!(matches!(groups.remove(1), Err(Error::GroupInUse { group: 1 })));
    assert!(matches!(groups.store::<v09::Types<Types>>(1 << 23), Err(Error::NoGroup { .. })));
    let mut gone = store(&groups, 2);
    run(async {
        append(&mut kept, 1, 1..5).await;
        append(&mut gone, 1, 1..5).await;
        gone.save_vote(&Vote::new(9, 9)).await.expect("is durable");
    });
    drop((kept, gone));
    groups.remove(2).expect("is durable");
    assert_eq!(groups.ids(), [1]);
    drop(groups);
    let groups = open(dir.path(), 0);
    run(async {
        let mut anew = store(&groups, 2);
        assert_eq!(anew.read_vote().await.expect("reads"), None);
        assert_eq!(anew.get_log_state().await.expect("reads").last_log_id, None);
        append(&mut anew, 5, 7..9).await;
        assert_eq!(anew.try_get_log_entries(..).await.expect("reads"), [entry(5, 7), entry(5, 8)]);
        assert_eq!(store(&groups, 1).try_get_log_entries(..).await.expect("reads").len(), 4);
    });
}

#[test]
fn a_log_may_begin_anywhere_whenever_it_is_empty() {
    let dir = scratch();
    let groups = open(dir.path(), 0);
    run(async {
        let mut log = store(&groups, 0);
        append(&mut log, 1, 7..9).await;
        log.truncate(id(1, 7)).await.expect("is durable");
        append(&mut log, 1, 0..3).await;
        log.truncate(id(1, 0)).await.expect("is durable");
        log.purge(id(4, 1000)).await.expect("is durable");
        append(&mut log, 4, 1001..1004).await;
        // A snapshot from afar covers more than there is.
        log.purge(id(4, 2000)).await.expect("is durable");
        drop(log);
        let mut log = store(&groups, 0);
        assert_eq!(log.get_log_state().await.expect("reads").last_log_id, Some(id(4, 2000)));
        log.purge(id(4, 5000)).await.expect("is durable");
        append(&mut log, 5, 5001..5003).await;
        drop(log);
        let found = store(&groups, 0).try_get_log_entries(..).await.expect("reads");
        assert_eq!(found, [entry(5, 5001), entry(5, 5002)]);
    });
}

#[test]
fn what_someone_else_does_to_the_entries_is_noticed() {
    let dir = scratch();
    let groups = open(dir.path(), 0);
    let mut log = store(&groups, 0);
    run(append(&mut log, 1, 0..3));
    // Now the first ones are not kept in memory any more.
    run(append(&mut log, 1, 3..4));
    let entries = groups.log().stream(StreamId::new(0).expect("is one"));
    entries.trim(2).expect("trims");
    assert!(run(log.try_get_log_entries(0..3)).is_err());
    entries.append_commit(b"x").expect("commits");
    assert!(run(log.blocking_append([entry(1, 4)])).is_err());
    drop(log);
    assert!(matches!(groups.store::<v09::Types<Types>>(0), Err(Error::Missing { index: 0 })));
}

/// A follower that lags reads pieces of the log of a leader that appends, and that purges what the follower has and
/// sometimes what it has not. Nothing is skipped but what was purged, and nothing else stops.
#[test]
fn a_follower_that_lags_reads_beside_appends_and_purges() {
    const END: u64 = 6000;
    let dir = scratch();
    let groups = open(dir.path(), 2 << 10);
    let mut leader = store(&groups, 4);
    let mut reader = leader.reader();
    // Up to where the follower has come, and how far the log is purged.
    let (read, purged) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (theirs, theirs_purged) = (Arc::clone(&read), Arc::clone(&purged));
    run(async {
        let follower = tokio::spawn(async move {
            let (mut next, mut skipped) = (0, 0);
            while next < END {
                let upto = theirs_purged.load(Ordering::Acquire);
                let entries = reader.limited_get_log_entries(next, next + 200).await.expect("reads");
                let Some(first) = entries.first().map(|entry| entry.log_id.index) else {
                    // All of them were purged, or there are none yet.
                    next = next.max(upto);
                    tokio::task::yield_now().await;
                    continue;
                };
                assert!(
                    first == next || first <= theirs_purged.load(Ordering::Acquire),
                    "{first} for {next}"
                );
                skipped += first - next;
                for (index, found) in (first..).zip(entries) {
                    assert_eq!(found, entry(1, index));
                    next = index + 1;
                }
                theirs.store(next, Ordering::Release);
            }
            skipped
        });
        // Another one always wants everything that is there.
        let mut reader = leader.reader();
        let all = tokio::spawn(async move {
            let (mut last, mut reads) = (0, 0);
            while last < END - 1 {
                let entries = reader.try_get_log_entries(..).await.expect("reads");
                for (index, found) in (entries.first().map_or(0, |first| first.log_id.index)..).zip(entries) {
                    assert_eq!(found, entry(1, index));
                    last = index;
                }
                reads += 1;
                tokio::task::yield_now().await;
            }
            reads
        });
        for start in (0..END).step_by(20) {
            append(&mut leader, 1, start..start + 20).await;
            if start % 60 == 40 {
                let seen = read.load(Ordering::Acquire);
                let upto = if start % 1200 == 1180 { start } else { seen.min(start).saturating_sub(1) };
                if upto > purged.load(Ordering::Acquire) {
                    // Stated before, so that the follower knows of it when it finds them gone.
                    purged.store(upto + 1, Ordering::Release);
                    leader.purge(id(1, upto)).await.expect("is durable");
                }
            }
        }
        assert!(all.await.expect("ends") > 10);
        let skipped = follower.await.expect("ends");
        assert!(skipped < END / 2, "{skipped} entries were purged before they were read");
    });
}

/// What is read beside truncations are the entries of one moment: old ones never stand behind new ones.
#[test]
fn a_read_beside_truncations_shows_one_moment() {
    let dir = scratch();
    let groups = open(dir.path(), 0);
    let mut log = store(&groups, 4);
    let done = Arc::new(AtomicU64::new(0));
    run(async {
        append(&mut log, 1, 0..100).await;
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (mut reader, done) = (log.reader(), Arc::clone(&done));
                tokio::spawn(async move {
                    let mut reads = 0_u64;
                    while done.load(Ordering::Acquire) == 0 {
                        let entries = reader.try_get_log_entries(40..200).await.expect("reads");
                        let terms = entries.iter().map(|entry| entry.log_id.leader_id.term);
                        assert!(terms.is_sorted(), "entries of two moments");
                        for (index, found) in (40..).zip(entries) {
                            assert_eq!(found, entry(found.log_id.leader_id.term, index));
                        }
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        for term in 2..150 {
            let from = 50 + term * 7 % 40;
            log.truncate(id(1, from)).await.expect("is durable");
            append(&mut log, term, from..100).await;
        }
        done.store(1, Ordering::Release);
        for reader in readers {
            assert!(reader.await.expect("ends") > 0);
        }
    });
}
