//! Tests the log under executors: a hundred thousand tasks of tokio and of smol on little memory, futures that are dropped,
//! wakers that panic, deadlines on a disk that hangs, and a close that is awaited.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::fixture::{LIMIT, Released, Task, count, faulty, new_faulty, new_log, poll, scratch, until, wait};
use seawall::faults::Faults;
use seawall::{AppendFuture, CloseFuture, Error, Log, Lsn, OnFull, Options, Tail};

const TASKS: u64 = 100_000;
/// A deadline that is over before a disk that hangs goes on.
const SHORT: Duration = Duration::from_millis(5);
fn small() -> Options {
    Options::default()
        .segment_bytes(1 << 20)
        .batch_bytes(64 << 10)
        .memory_bytes(256 << 10)
        .idle_mark(Duration::from_mins(10))
}

/// Counts the polls of the future in it.
struct Counted<F>(F, Arc<AtomicU64>);

impl<F: Future + Unpin> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll(context)
    }
}

/// What each of the tasks does: of every five, one gives its first try up.
async fn append_and_commit(log: Arc<Log>, number: u64, polls: Arc<AtomicU64>) {
    let record = [&number.to_le_bytes()[..], &[7; 192]].concat();
    if number.is_multiple_of(5) {
        let given_up = vec![0; 200];
        let mut append = log.append_async(&given_up);
        let appended = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut append).poll(context))).await;
        assert!(!matches!(appended, Poll::Ready(Err(_))));
    }
    let end = Counted(log.append_async(&record), Arc::clone(&polls)).await.expect("appends").end;
    assert_eq!(Counted(log.commit_async(end), polls).await.expect("commits"), end);
    assert!(log.durable_lsn() >= end);
}

/// Every record is there once, and no task was polled for those of all others.
fn judge(log: &Log, polls: &AtomicU64) {
    let mut seen = vec![0_u8; usize::try_from(TASKS).expect("is small")];
    for record in log.read(Lsn::ZERO).expect("reads") {
        let payload = record.expect("is sound").payload;
        let number = u64::from_le_bytes(payload[..8].try_into().expect("eight bytes"));
        if payload[8] == 7 {
            seen[usize::try_from(number).expect("is small")] += 1;
        }
    }
    assert!(seen.iter().all(|times| *times == 1), "a record is lost or there twice");
    let polls = polls.load(Ordering::Relaxed);
    println!("{polls} polls of {TASKS} appends and commits, {} waits for room", log.stats().stalls);
    assert!(polls < 20 * TASKS, "{polls} polls: tasks are woken in vain");
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks to their ends on two threads.
type Executor = fn(Vec<Work>);

fn tokio(work: Vec<Work>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("starts");
    runtime.block_on(async {
        let tasks: Vec<_> = work.into_iter().map(tokio::spawn).collect();
        for task in tasks {
            task.await.expect("ends");
        }
    });
}

fn smol(work: Vec<Work>) {
    let executor = async_executor::Executor::new();
    let mut tasks: Vec<_> = work.into_iter().map(|work| executor.spawn(work)).collect();
    let half = tasks.split_off(tasks.len() / 2);
    std::thread::scope(|scope| {
        for tasks in [tasks, half] {
            let executor = &executor;
            let all = async {
                for task in tasks {
                    task.await;
                }
            };
            scope.spawn(move || futures_lite::future::block_on(executor.run(all)));
        }
    });
}

fn a_hundred_thousand_tasks(executor: Executor) {
    let dir = scratch();
    let log = Arc::new(Log::open(dir.path(), small()).expect("opens"));
    let polls = Arc::new(AtomicU64::new(0));
    let work = |number| -> Work { Box::pin(append_and_commit(Arc::clone(&log), number, Arc::clone(&polls))) };
    executor((0..TASKS).map(work).collect());
    judge(&log, &polls);
    let closed = Arc::clone(&log);
    executor(vec![Box::pin(async move { closed.close_async().await.expect("closes") })]);
    drop(log);
    assert_eq!(Log::open(dir.path(), small()).expect("opens").opened().tail, Tail::Clean);
}

#[test]
fn a_hundred_thousand_tasks_of_tokio_append_and_commit() {
    a_hundred_thousand_tasks(tokio);
}

#[test]
fn a_hundred_thousand_tasks_of_smol_append_and_commit() {
    a_hundred_thousand_tasks(smol);
}

/// A log on a disk that hangs, whose memory is full.
fn full(log: &Log, faults: &Faults, record: &[u8]) -> u64 {
    faults.hang_commits(true);
    for accepted in 0.. {
        assert!(accepted < 100_000, "the memory never fills");
        if matches!(log.append_no_wait(record), Err(Error::WouldBlock)) {
            // What could go is on its way, and what is left of the memory is full.
            until("nothing is written", || faults.hanging_commits() > 0);
            if matches!(log.append_no_wait(record), Err(Error::WouldBlock)) {
                return accepted;
            }
        }
    }
    0
}

#[test]
fn a_dropped_append_appended_nothing_and_keeps_nobody_waiting() {
    let (_dir, faults, log) = new_faulty(small());
    let _released = Released(&faults);
    let record = [1; 1000];
    let before = log.stats().records;
    full(&log, &faults, &record);
    let accepted = log.stats().records - before;
    let kept = [2; 1000];
    let given_up = [3; 1000];
    let mut waiting: Vec<(AppendFuture<'_>, Arc<Task>, bool)> = (0..3000)
        .map(|number| {
            let kept_one = number % 3 == 0;
            (log.append_async(if kept_one { &kept } else { &given_up }), Task::new(), kept_one)
        })
        .collect();
    for (append, task, _) in &mut waiting {
        assert!(poll(append, task).is_pending());
    }
    assert_eq!(log.stats().stalls, 3000, "each waits once");
    // Every third is dropped while the disk hangs, every third when it goes on, woken or not.
    let mut left = Vec::new();
    for (number, (append, task, kept_one)) in waiting.into_iter().enumerate() {
        if number % 3 != 1 {
            left.push((append, task, kept_one));
        }
    }
    faults.hang_commits(false);
    until("none of them was woken", || left.iter().any(|(_, task, _)| task.woken() > 0));
    let mut ends = Vec::new();
    for (append, task, kept_one) in left {
        if kept_one {
            ends.push(wait(append, &task).expect("appends").end);
        }
    }
    assert!(ends.is_sorted(), "they were not served in line");
    log.commit(log.appended_lsn()).expect("commits");
    let read = |of: u8| {
        let records = log.read(Lsn::ZERO).expect("reads").map(|record| record.expect("is sound"));
        records.filter(|record| record.payload[0] == of).count() as u64
    };
    assert_eq!((read(1), read(2), read(3)), (accepted, 1000, 0));
}

/// Records that fill a batch of their own, between small ones, on memory for two of them.
#[test]
fn large_records_wait_in_line_as_well() {
    let (_dir, faults, log) = new_faulty(small());
    let _released = Released(&faults);
    full(&log, &faults, &[1; 1000]);
    let (small, large) = ([2; 1000], vec![3; 100_000]);
    let mut waiting: Vec<(AppendFuture<'_>, Arc<Task>)> = (0..200)
        .map(|number| (log.append_async(if number % 10 == 9 { &large } else { &small }), Task::new()))
        .collect();
    for (append, task) in &mut waiting {
        assert!(poll(append, task).is_pending());
    }
    faults.hang_commits(false);
    for (append, task) in waiting {
        wait(append, &task).expect("appends");
    }
    log.commit(log.appended_lsn()).expect("commits");
    let records = log.read(Lsn::ZERO).expect("reads").map(|record| record.expect("is sound"));
    assert_eq!(records.filter(|record| record.payload[0] == 3).count(), 20);
}

/// A log at its cap has no segment for a large record of a stream, which has held the memory that an append in line needs.
#[test]
fn an_append_in_line_gets_the_memory_that_a_stream_held_in_vain() {
    const PIECE: usize = 32 << 10;
    let (taken, wanted) = (vec![1; 12 * PIECE], vec![2; 3 * PIECE]);
    let capped = |full| small().memory_bytes(400 << 10).disk_bytes_max(8 << 20).on_full(full);
    // So many pieces the cap allows; the log under test has room for half a dozen more, which is too little for `taken`.
    let (_dir, log) = new_log(capped(OnFull::Error));
    let piece = vec![0; PIECE];
    let pieces = (0..1000).take_while(|_| log.append_commit(&piece).is_ok()).count();
    drop(log);
    let (_dir, faults, log) = new_faulty(capped(OnFull::Wait));
    for _ in 0..pieces - 6 {
        log.append_commit(&piece).expect("commits");
    }
    faults.hold_copies(true);
    let stream = log.stream(seawall::StreamId::new(1).expect("is small"));
    std::thread::scope(|scope| {
        let tried = scope.spawn(|| stream.append_no_wait(&taken));
        until("the memory is not taken", || faults.copies() == 1);
        let (mut append, woken) = (log.append_async(&wanted), Task::new());
        assert!(poll(&mut append, &woken).is_pending(), "there is memory for both");
        faults.hold_copies(false);
        assert!(matches!(tried.join().expect("ends"), Err(Error::WouldBlock)), "there is a segment for it");
        until("the append in line is not woken", || woken.woken() > 0);
        assert!(poll(&mut append, &woken).is_ready());
    });
}

#[test]
fn a_full_disk_is_reported_to_appends_in_line_and_passes() {
    let (_dir, faults, log) = new_faulty(small().segment_bytes(128 << 10).batch_bytes(16 << 10));
    faults.set_full(true);
    let record = [1; 1000];
    let mut accepted = 0;
    let refused = loop {
        match wait(log.append_async(&record), &Task::new()) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 100_000, "the disk is never full");
    };
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    faults.set_full(false);
    let mut tries = 0;
    while let Err(error) = wait(log.append_async(&record), &Task::new()) {
        // What was tried before there was space again may still be reported.
        assert!(matches!(error, Error::DiskFull { .. }) && tries < 3, "{error}");
        tries += 1;
    }
    log.commit(log.appended_lsn()).expect("commits");
    assert_eq!(log.read(Lsn::ZERO).expect("reads").count(), accepted + 1);
}

#[test]
fn an_append_that_cannot_be_served_says_why() {
    let (_dir, faults, log) = new_faulty(small().record_bytes_max(10_000));
    let _released = Released(&faults);
    let refused = wait(log.append_async(&[0; 10_001]), &Task::new());
    assert!(matches!(refused, Err(Error::TooLong { bytes: 10_001, bytes_max: 10_000 })));
    full(&log, &faults, &[1; 1000]);
    let (mut append, waiting) = (log.append_async(&[2; 1000]), Task::new());
    assert!(poll(&mut append, &waiting).is_pending());
    faults.fail_commit(faults.commits());
    faults.hang_commits(false);
    assert!(matches!(wait(append, &waiting), Err(Error::Failed { .. })));
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a mistake of the application");
    }
}

#[test]
fn wakers_that_panic_harm_no_append_no_commit_no_follower_and_no_close() {
    let (dir, faults, log) = new_faulty(small());
    let _released = Released(&faults);
    let panics = Waker::from(Arc::new(Panics));
    let mut follower = log.follow(Lsn::ZERO).expect("follows");
    assert!(follower.poll_next_record(&mut Context::from_waker(&panics)).is_pending());
    full(&log, &faults, &[1; 1000]);
    let mut bad = log.append_async(&[3; 1000]);
    assert!(Pin::new(&mut bad).poll(&mut Context::from_waker(&panics)).is_pending());
    let (mut append, sound) = (log.append_async(&[2; 1000]), Task::new());
    assert!(poll(&mut append, &sound).is_pending());
    faults.hang_commits(false);
    // The first one was woken, and will not look: it is dropped at last.
    std::thread::sleep(SHORT);
    drop(bad);
    let end = wait(append, &sound).expect("appends").end;
    log.commit(end).expect("commits");
    let _ = follower.poll_next_record(&mut Context::from_waker(&panics));
    assert!(matches!(follower.next_record_timeout(LIMIT), Ok(Some(_))));
    let before = log.stats().records;
    for _ in 0..50 {
        let mut bad = log.commit_async(log.append(b"one").expect("appends").end);
        let _ = Pin::new(&mut bad).poll(&mut Context::from_waker(&panics));
        let end = log.append(b"two").expect("appends").end;
        wait(log.commit_async(end), &Task::new()).expect("commits");
        assert!(log.durable_lsn() >= end);
    }
    let mut close = log.close_async();
    let _ = Pin::new(&mut close).poll(&mut Context::from_waker(&panics));
    assert!(wait(log.close_async(), &Task::new()).is_ok());
    drop((follower, log));
    let log = Log::open(dir.path(), small()).expect("opens");
    assert_eq!((log.opened().tail, count(&log) as u64), (Tail::Clean, before + 100));
}

#[test]
fn a_commit_whose_time_is_over_says_so() {
    let (_dir, faults, log) = new_faulty(small());
    let _released = Released(&faults);
    let end = log.append(b"record").expect("appends").end;
    faults.hang_commits(true);
    let late = log.commit_async(end).wait_timeout(SHORT);
    // Whatever a test finds, the disk goes on, otherwise the log could not end.
    let (durable, mut again) = (log.durable_lsn(), log.commit_async(end));
    let later = again.wait_timeout(SHORT);
    faults.hang_commits(false);
    let third = again.wait_timeout(LIMIT);
    assert!(matches!(late, Err(Error::TimedOut { lsn, timeout: SHORT }) if lsn == end), "{late:?}");
    assert!(late.expect_err("is late").to_string().contains("may still become durable"));
    assert!(durable < end && matches!(later, Err(Error::TimedOut { .. })));
    assert_eq!(third.expect("the disk has gone on"), end);
    assert!(log.durable_lsn() >= end);
    assert!(matches!(
        log.commit_async(end.saturating_add(1)).wait_timeout(LIMIT),
        Err(Error::BeyondEnd { .. })
    ));
    log.commit_async(end).wait_timeout(Duration::ZERO).expect("is durable already");
}

/// A leader is inside the system call when others come with deadlines, and a second batch hangs after it.
#[test]
fn deadlines_pass_while_a_leader_hangs() {
    let (_dir, faults, log) = new_faulty(small());
    let _released = Released(&faults);
    faults.hang_commits(true);
    std::thread::scope(|scope| {
        let leader = scope.spawn(|| log.append_commit(b"leads"));
        until("no thread leads", || faults.hanging_commits() == 1);
        let late: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let end = log.append(b"waits").expect("there is memory").end;
                    (log.commit_async(end).wait_timeout(SHORT), end)
                })
            })
            .map(|waiter| waiter.join().expect("ends"))
            .collect();
        faults.hang_commits(false);
        for (result, end) in late {
            assert!(matches!(result, Err(Error::TimedOut { .. })), "{result:?}");
            log.commit_async(end).wait_timeout(LIMIT).expect("the disk has gone on");
        }
        leader.join().expect("ends").expect("commits");
    });
}

#[test]
fn a_close_is_awaited_until_the_disk_has_the_mark() {
    let (dir, faults, log) = new_faulty(small());
    let _released = Released(&faults);
    let end = log.append(b"record").expect("appends").end;
    faults.hang_commits(true);
    let (mut close, first) = (log.close_async(), Task::new());
    until("nothing is written", || faults.hanging_commits() > 0);
    let early = poll(&mut close, &first);
    faults.hang_commits(false);
    let closed = if early.is_ready() { Ok(()) } else { wait(close, &first) };
    // The handle is still there, the lock is not. Opening waits for it, whatever the future said.
    assert_eq!(Log::open(dir.path(), small()).expect("opens").opened().tail, Tail::Clean);
    assert!(early.is_pending(), "closed before the mark is written");
    closed.expect("closes");
    assert!(log.durable_lsn() >= end);
    assert!(matches!(log.append(b"more"), Err(Error::Closed)));
    assert!(matches!(log.read(Lsn::ZERO), Err(Error::Closed)));
    assert!(wait(log.close_async(), &Task::new()).is_ok(), "every future of it ends with its result");
    assert!(matches!(log.close(), Err(Error::Closed)));
}

#[test]
fn what_waits_when_a_log_is_closed_ends() {
    let (dir, faults, log) = new_faulty(small());
    let _released = Released(&faults);
    full(&log, &faults, &[1; 1000]);
    let accepted = log.stats().records;
    let end = log.appended_lsn();
    let record = [2; 1000];
    let mut appends: Vec<(AppendFuture<'_>, Arc<Task>)> =
        (0..1000).map(|_| (log.append_async(&record), Task::new())).collect();
    let mut follower = log.follow(Lsn::ZERO).expect("follows");
    let (mut commit, committed) = (log.commit_async(end), Task::new());
    assert!(poll(&mut commit, &committed).is_pending());
    for (append, task) in &mut appends {
        assert!(poll(append, task).is_pending());
    }
    let following = Task::new();
    assert!(poll(&mut follower.next_record_async(), &following).is_pending());
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| log.append(&record));
        let (close, closed) = (log.close_async(), Task::new());
        for (append, task) in appends {
            assert!(matches!(wait(append, &task), Err(Error::Closed)));
        }
        let blocked = blocked.join().expect("ends");
        assert!(matches!(blocked, Err(Error::Closed)), "{blocked:?}");
        faults.hang_commits(false);
        wait(close, &closed).expect("closes");
    });
    assert_eq!(wait(commit, &committed).expect("was appended before"), end);
    let mut count = 0;
    while wait(follower.next_record_async(), &following).expect("is sound").is_some() {
        count += 1;
    }
    assert_eq!(count, accepted);
    drop((follower, log));
    let log = Log::open(dir.path(), small()).expect("opens");
    assert_eq!((log.opened().tail, log.durable_lsn()), (Tail::Clean, end));
}

#[test]
fn a_close_that_nobody_waits_for_closes() {
    for round in 0..30_u64 {
        let (dir, log) = new_log(small());
        log.append(b"record").expect("appends");
        let mut close: Option<CloseFuture> = Some(log.close_async());
        if round % 3 == 0 {
            let _ = close.as_mut().map(|close| poll(close, &Task::new()));
        }
        if round % 2 == 0 {
            close = None;
        }
        drop(log);
        drop(close);
        // Opening in this process waits for it.
        let log = Log::open(dir.path(), small()).expect("opens");
        assert_eq!(log.opened().tail, Tail::Clean, "round {round}");
        assert_eq!(log.read(Lsn::ZERO).expect("reads").count(), 1);
    }
}

#[test]
fn a_close_that_fails_says_so() {
    let (dir, faults, log) = new_faulty(small());
    let _released = Released(&faults);
    log.append(b"record").expect("appends");
    faults.fail_commit(faults.commits());
    assert!(matches!(wait(log.close_async(), &Task::new()), Err(Error::Failed { .. })));
    drop(log);
    assert_ne!(Log::open(dir.path(), small()).expect("opens").opened().tail, Tail::Clean);
}

#[test]
fn a_stall_is_seen_while_it_lasts() {
    let dir = scratch();
    let (faults, options) = faulty(small());
    let called = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&called);
    let options = options.stall_threshold(SHORT).on_stall(move |stall| {
        assert!(stall.lasted >= SHORT && stall.appended > stall.durable);
        counted.fetch_add(1, Ordering::SeqCst);
        panic!("a mistake of the application");
    });
    let log = Log::open(dir.path(), options).expect("opens");
    let _released = Released(&faults);
    let calls = || called.load(Ordering::SeqCst);
    for _ in 0..3 {
        let before = calls();
        faults.hang_commits(true);
        std::thread::scope(|scope| {
            let committer = scope.spawn(|| log.append_commit(b"record"));
            until("no stall is reported", || calls() > before);
            let stats = log.stats();
            assert!(stats.stalled_for.is_some_and(|stalled| stalled >= SHORT), "{stats:?}");
            // A second batch that hangs with the first one is the same stall, however long it lasts.
            let end = log.append(b"more").expect("there is memory").end;
            drop(log.commit_async(end));
            std::thread::sleep(4 * SHORT);
            assert_eq!((calls(), log.stats().stalls_seen), (before + 1, before + 1));
            faults.hang_commits(false);
            committer.join().expect("ends").expect("commits");
        });
        log.commit(log.appended_lsn()).expect("commits");
        assert_eq!(log.stats().stalled_for, None, "nothing is in flight");
        // A disk that is slow by itself may have been reported meanwhile: both count the same.
        until("a call is not counted", || calls() == log.stats().stalls_seen);
    }
    log.close().expect("closes");
}

#[test]
fn a_poll_of_a_follower_does_not_wait_for_the_disk_and_a_dropped_future_loses_nothing() {
    let (_dir, faults, log) = new_faulty(small());
    let _released = Released(&faults);
    for number in 0..500_u64 {
        log.append(&number.to_le_bytes()).expect("appends");
        if number % 50 == 49 {
            log.commit(log.appended_lsn()).expect("commits");
        }
    }
    faults.hang_reads(true);
    let (mut follower, follows) = (log.follow(Lsn::ZERO).expect("follows"), Task::new());
    for _ in 0..3 {
        assert!(poll(&mut follower.next_record_async(), &follows).is_pending(), "nothing is read yet");
        let late = follower.next_record_timeout(SHORT);
        assert!(matches!(late, Err(Error::TimedOut { lsn: Lsn::ZERO, .. })), "{late:?}");
    }
    faults.hang_reads(false);
    let mut read = Vec::new();
    while read.len() < 500 {
        let seen = follows.woken();
        // Each future is dropped after one poll.
        let polled = poll(&mut follower.next_record_async(), &follows);
        let record = match polled {
            Poll::Ready(record) => record,
            Poll::Pending if read.len() % 100 == 50 => follower.next_record(),
            Poll::Pending => {
                until("the follower was not woken", || follows.woken() > seen);
                continue;
            }
        };
        let payload = record.expect("is sound").expect("is there").payload;
        read.push(u64::from_le_bytes(payload[..].try_into().expect("eight bytes")));
    }
    assert!(read.iter().copied().eq(0..500));
    assert!(poll(&mut follower.next_record_async(), &follows).is_pending());
    let late = follower.next_record_timeout(SHORT);
    assert!(matches!(late, Err(Error::TimedOut { lsn, .. }) if lsn == log.durable_lsn()), "{late:?}");
    // A follower may go while its reader is away, and may outlive the log.
    log.append_commit(b"last").expect("commits");
    faults.hang_reads(true);
    assert!(poll(&mut follower.next_record_async(), &follows).is_pending(), "its reader is away");
    faults.hang_reads(false);
    drop(log);
    let last = follower.next_record_timeout(LIMIT).expect("is sound").expect("is there");
    assert_eq!(last.payload[..], *b"last");
    assert!(matches!(follower.next_record_timeout(LIMIT), Ok(None)));
}

#[cfg(feature = "stream")]
mod streams {
    use super::{Arc, Context, Executor, Log, Lsn, Pin, Poll, Work, scratch, small, smol, tokio};
    use futures_lite::StreamExt;

    async fn count(log: Arc<Log>, records: u64) {
        let mut stream = log.follow(Lsn::ZERO).expect("follows");
        drop(log);
        let mut count = 0;
        while let Some(record) = stream.next().await {
            let payload = record.expect("is sound").payload;
            assert_eq!(payload[..], u64::to_le_bytes(count));
            count += 1;
        }
        let ended = Pin::new(&mut stream).poll_next(&mut Context::from_waker(std::task::Waker::noop()));
        assert!(matches!(ended, Poll::Ready(None)), "a stream that has ended stays so");
        assert_eq!(count, records);
    }

    async fn write(log: Arc<Log>, records: u64) {
        for number in 0..records {
            let end = log.append_async(&number.to_le_bytes()).await.expect("appends").end;
            if number % 7 == 0 {
                log.commit_async(end).await.expect("commits");
            }
        }
        log.close_async().await.expect("closes");
    }

    #[test]
    fn followers_are_streams_of_tokio_and_smol() {
        for executor in [tokio as Executor, smol] {
            let dir = scratch();
            let log = Arc::new(Log::open(dir.path(), small()).expect("opens"));
            let follower = |_| -> Work { Box::pin(count(Arc::clone(&log), 5000)) };
            let mut work: Vec<Work> = (0..4).map(follower).collect();
            work.push(Box::pin(write(Arc::clone(&log), 5000)));
            executor(work);
        }
    }
}

#[cfg(feature = "mutants")]
#[test]
fn planted_mistakes_are_found() {
    use seawall::mutant::{Mutant, finds};
    assert!(finds(Mutant::DeadlineIsSuccess, a_commit_whose_time_is_over_says_so));
    assert!(finds(Mutant::CloseBeforeMark, a_close_is_awaited_until_the_disk_has_the_mark));
}
