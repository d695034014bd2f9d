//! Tests appends that do not wait, and commits as futures: many at once, and dropped before they are ready.

use std::sync::Arc;

use crate::fixture::{Task, new_log, poll, small, wait};
use seawall::{CommitFuture, Error, Lsn, Options};

#[test]
fn an_append_that_would_wait_is_refused_and_a_later_one_finds_room() {
    for bytes in [20 << 10, 200 << 10] {
        let (_dir, log) = new_log(small());
        let (mut accepted, mut refused) = (Vec::new(), 0_u64);
        let record = |number: u64| {
            let mut record = vec![7; bytes];
            record[..8].copy_from_slice(&number.to_le_bytes());
            record
        };
        // Nobody commits: what is refused requests by itself that memory and segments come free.
        while accepted.len() < 100 || refused == 0 {
            assert!(accepted.len() < 50_000, "the memory never fills");
            let before = log.appended_lsn();
            match log.append_no_wait(&record(accepted.len() as u64)) {
                Ok(end) => accepted.push(end),
                Err(Error::WouldBlock) => {
                    assert_eq!(log.appended_lsn(), before, "a refused record has a place");
                    refused += 1;
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(log.stats().stalls, 0, "an append waited");
        log.commit(accepted.last().expect("some").end).expect("commits");
        let mut count = 0;
        for (read, at) in log.read(Lsn::ZERO).expect("reads").zip(&accepted) {
            let read = read.expect("sound");
            assert_eq!((read.end, &read.payload[..8]), (at.end, &u64::to_le_bytes(count)[..]));
            count += 1;
        }
        assert_eq!(count, accepted.len() as u64);
        assert_eq!(log.stats().records, count, "a refused record was counted");
    }
}

#[test]
fn dropped_commits_take_no_wake_up_from_others() {
    let (_dir, log) = new_log(small());
    for round in 0..200 {
        let end = log.append(b"record").expect("appends").end;
        // Several tasks wait for one LSN; some are dropped unpolled, some polled, one is polled by two tasks in turn.
        let mut commits: Vec<(CommitFuture, Arc<Task>)> =
            (0..6).map(|_| (log.commit_async(end), Task::new())).collect();
        let other = Task::new();
        for (index, (commit, task)) in commits.iter_mut().enumerate().skip(1) {
            let _ = poll(commit, task);
            if index == 2 {
                let _ = poll(commit, &other);
            }
        }
        let kept = commits.split_off(3 + round % 2);
        drop(commits);
        for (commit, task) in kept {
            assert_eq!(wait(commit, &task).expect("commits"), end);
        }
        assert!(log.durable_lsn() >= end);
    }
    let end = log.append(b"left alone").expect("appends").end;
    drop(log.commit_async(end));
    log.commit(end).expect("commits");
}

#[test]
fn a_hundred_thousand_commits_wait_at_once() {
    let (_dir, log) = new_log(Options::default().segment_bytes(16 << 20));
    let waiting: Vec<(CommitFuture, Arc<Task>)> = (0..100_000_u64)
        .map(|number| {
            let end = log.append(&number.to_le_bytes()).expect("appends").end;
            let (mut commit, task) = (log.commit_async(end), Task::new());
            let _ = poll(&mut commit, &task);
            (commit, task)
        })
        .collect();
    let end = log.appended_lsn();
    let mut last = Lsn::ZERO;
    for (number, (commit, task)) in waiting.into_iter().enumerate() {
        // Every third is given up.
        if number % 3 != 0 {
            let lsn = commit.lsn();
            assert_eq!(wait(commit, &task).expect("commits"), lsn);
            assert!(log.durable_lsn() >= lsn);
            last = lsn;
        }
    }
    assert!(last <= end && log.durable_lsn() >= last);
}
