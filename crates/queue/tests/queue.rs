//! What a queue does in one process, by several handles: the first owns the log, the others ask it by its socket.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall::faults::Faults;
use seawall_queue::{Error, Message, Options, Queue};

const NOW: Option<Duration> = Some(Duration::ZERO);
const SOON: Option<Duration> = Some(Duration::from_secs(20));

fn open(dir: &Path) -> Queue {
    open_as(dir, &Options::default())
}

fn open_as(dir: &Path, options: &Options) -> Queue {
    let log = options.log.clone().segment_bytes(1 << 20);
    Queue::open(dir, Options { log, ..options.clone() }).expect("opens")
}

/// Two handles: of the owner, and of another "process".
fn both(dir: &Path, options: &Options) -> [Queue; 2] {
    let handles = [open_as(dir, options), open_as(dir, options)];
    assert_eq!(handles.each_ref().map(Queue::is_owner), [true, false]);
    handles
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| std::str::from_utf8(message.body()).expect("text")).collect()
}

/// Takes what waits, and acknowledges it.
fn drain(queue: &Queue) -> Vec<String> {
    let messages = queue.get_many(u32::MAX, NOW).expect("gets");
    let found = bodies(&messages).into_iter().map(str::to_owned).collect();
    queue.ack_many(messages).expect("acknowledges");
    found
}

fn each_handle(test: impl Fn(&Queue, &Queue)) {
    for swapped in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let [one, other] = both(&dir.path().join("jobs"), &Options::default());
        if swapped { test(&other, &one) } else { test(&one, &other) }
    }
}

#[test]
fn messages_come_in_order_to_any_handle_and_go_when_they_are_acknowledged() {
    each_handle(|one, other| {
        assert_eq!(one.put(b"a").expect("puts"), 0);
        let more = other.put_many(vec![b"b".to_vec(), b"c".to_vec()], Duration::ZERO).expect("puts");
        assert_eq!(more, 1..3);
        assert_eq!(other.put_many(Vec::new(), Duration::ZERO).expect("puts nothing"), 3..3);
        let peeked = one.peek(2).expect("peeks");
        assert_eq!(peeked.iter().map(|it| (it.id, it.attempts)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
        let first = other.get(NOW).expect("gets");
        assert_eq!((first.id(), first.attempt(), first.body()), (0, 1, &b"a"[..]));
        assert_eq!(drain(one), ["b", "c"]);
        let stats = other.stats().expect("counts");
        assert_eq!((stats.waiting, stats.out, stats.handles), (0, 1, 2));
        first.ack().expect("acknowledges");
        assert_eq!(other.stats().expect("counts").out, 0);
        assert!(matches!(one.get(NOW), Err(Error::TimedOut { .. })));
    });
}

#[test]
fn what_comes_back_waits_behind_the_others_and_is_counted() {
    each_handle(|one, other| {
        for body in [b"a", b"b", b"c"] {
            one.put(body).expect("puts");
        }
        let first = other.get(NOW).expect("gets");
        one.put(b"d").expect("puts");
        first.nack(Duration::ZERO).expect("gives back");
        one.put(b"e").expect("puts");
        let all = other.get_many(9, NOW).expect("gets");
        assert_eq!(bodies(&all), ["b", "c", "d", "a", "e"]);
        assert_eq!(all.iter().map(Message::attempt).collect::<Vec<_>>(), [1, 1, 1, 2, 1]);
        assert_eq!(all[3].id(), 0);
        // Dropped messages come back as well.
        drop(all);
        assert_eq!(drain(other).len(), 5);
    });
}

#[test]
fn a_message_that_is_not_acknowledged_in_time_comes_again_and_a_late_consumer_gives_nothing_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { redeliver_after: Some(Duration::from_millis(20)), ..Options::default() };
    let [owner, other] = both(&dir.path().join("jobs"), &options);
    owner.put(b"a").expect("puts");
    let late = other.get(NOW).expect("gets");
    let again = owner.get(SOON).expect("comes again");
    assert_eq!((late.attempt(), again.attempt()), (1, 2));
    late.nack(Duration::ZERO).expect("gives back");
    let third = owner.get(SOON).expect("comes when its own time is over");
    assert_eq!(third.attempt(), 3);
    // Acknowledged is final, whoever has it, and can be said again.
    owner.ack_many([&again]).expect("acknowledges");
    again.ack().expect("acknowledges");
    again.nack(Duration::ZERO).expect("gives nothing back");
    drop(third);
    assert!(matches!(other.get(Some(Duration::from_millis(60))), Err(Error::TimedOut { .. })));
}

#[test]
fn a_message_that_fails_too_often_becomes_a_dead_letter_and_lets_others_through() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("jobs");
    let options = Options { max_attempts: 2, ..Options::default() };
    let [owner, other] = both(&path, &options);
    owner.put_many(vec![b"poison".to_vec(), b"good".to_vec()], Duration::ZERO).expect("puts");
    let mut done = Vec::new();
    while let Ok(message) = other.get(NOW) {
        if message.body() == b"poison" {
            message.nack(Duration::ZERO).expect("gives back");
        } else {
            done.push(message.body().to_vec());
            message.ack().expect("acknowledges");
        }
    }
    assert_eq!(done, [b"good"]);
    for queue in [&owner, &other] {
        let dead = queue.dead_letters(9).expect("lists");
        assert_eq!(
            dead.iter().map(|it| (it.id, it.attempts, &it.body[..])).collect::<Vec<_>>(),
            [(0, 2, &b"poison"[..])]
        );
    }
    assert_eq!(other.retry_dead_letters().expect("retries"), 1);
    assert_eq!(other.stats().expect("counts").dead, 0);
    let again = owner.get(NOW).expect("gets");
    assert_eq!((again.id(), again.attempt(), again.body()), (2, 1, &b"poison"[..]));
    drop(again);
    drop(owner.get(NOW).expect("gets"));
    // It is there after reopening as well.
    drop((owner, other));
    let queue = open_as(&path, &options);
    assert!(matches!(queue.get(NOW), Err(Error::TimedOut { .. })));
    assert_eq!(queue.dead_letters(9).expect("lists").len(), 1);
    assert_eq!(queue.drop_dead_letters().expect("drops"), 1);
    assert_eq!(queue.drop_dead_letters().expect("drops"), 0);
    assert!(queue.dead_letters(9).expect("lists").is_empty());
}

#[test]
fn delays_hold_in_this_process_and_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("jobs");
    let day = Duration::from_hours(24);
    let queue = open(&path);
    queue.put_many(vec![b"tomorrow".to_vec()], day).expect("puts");
    queue.put_many(vec![b"soon".to_vec()], Duration::from_secs(1)).expect("puts");
    queue.put(b"now").expect("puts");
    assert_eq!(drain(&queue), ["now"]);
    let soon = queue.get(SOON).expect("gets");
    assert_eq!((soon.body(), soon.attempt()), (&b"soon"[..], 1));
    soon.nack(day).expect("gives back");
    assert_eq!(queue.stats().expect("counts").delayed, 2);
    queue.close().expect("closes");
    for _ in 0..2 {
        let queue = open(&path);
        assert!(matches!(queue.get(NOW), Err(Error::TimedOut { .. })));
        assert_eq!(queue.stats().expect("counts").delayed, 2);
        drop(queue);
    }
    let queue = open(&path);
    assert_eq!(queue.purge().expect("purges"), 2);
    assert_eq!(
        queue.stats().expect("counts"),
        open(&path).stats().map(|stats| seawall_queue::Stats { handles: 1, ..stats }).expect("counts")
    );
}

#[test]
fn consumers_that_wait_share_what_comes_in_their_order() {
    each_handle(|one, other| {
        let mut calls: VecDeque<_> = (0..4).map(|at| [one, other][at % 2].get_async(9, None)).collect();
        // They are all in line: a request of each handle is answered after its own.
        for queue in [one, other] {
            queue.stats().expect("counts");
        }
        let puts = (0..8).map(|number: u8| vec![number]).collect();
        one.put_many(puts, Duration::ZERO).expect("puts");
        let mut seen = HashSet::new();
        while let Some(mut call) = calls.pop_front() {
            let got = call.wait(SOON).expect("in time").expect("gets");
            assert_eq!(got.len(), 2);
            seen.extend(got.iter().map(Message::id));
            for message in got {
                message.ack().expect("acknowledges");
            }
        }
        assert_eq!(seen, (0..8).collect());
    });
}

#[test]
fn a_call_that_is_dropped_takes_no_message() {
    each_handle(|one, other| {
        for _ in 0..3 {
            drop(one.get_async(1, None));
        }
        // What one handle asks is done in its order.
        one.stats().expect("counts");
        other.put(b"a").expect("puts");
        let message = other.get(SOON).expect("gets");
        assert_eq!((message.body(), message.attempt()), (&b"a"[..], 1));
        message.ack().expect("acknowledges");
    });
}

#[test]
fn when_the_owner_closes_another_handle_owns_the_queue_and_nothing_is_lost_or_twice() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("jobs");
    let [owner, other] = both(&path, &Options::default());
    let third = open(&path);
    let mut held = other.get_async(1, SOON);
    owner.put(b"held").expect("puts");
    let held = held.wait(None).expect("waits").expect("gets").remove(0);
    let lost = owner
        .put_many(vec![b"of the owner".to_vec()], Duration::ZERO)
        .and_then(|_| owner.get(NOW))
        .expect("gets");
    let mut puts: Vec<_> =
        (0..50_u8).map(|number| other.put_async(vec![vec![number]], Duration::ZERO)).collect();
    owner.close().expect("closes");
    for put in &mut puts {
        put.wait(SOON).expect("in time").expect("puts");
    }
    assert!(matches!(owner.put(b""), Err(Error::Closed)));
    assert!(matches!(lost.ack(), Err(Error::Closed)));
    let mut found = Vec::new();
    while found.len() < 51 {
        let message = third.get(SOON).expect("gets");
        found.push(message.body().to_vec());
        message.ack().expect("acknowledges");
    }
    let (of_owner, mut rest): (Vec<_>, Vec<_>) = found.into_iter().partition(|body| body.len() > 1);
    assert_eq!(of_owner, [b"of the owner"]);
    rest.sort();
    assert_eq!(rest, (0..50_u8).map(|number| vec![number]).collect::<Vec<_>>());
    assert_eq!([&other, &third].map(Queue::is_owner).iter().filter(|owns| **owns).count(), 1);
    // What is out at a handle that lives on stays out.
    assert_eq!(third.stats().expect("counts").out, 1);
    held.ack().expect("acknowledges");
    assert!(matches!(third.get(NOW), Err(Error::TimedOut { .. })));
    assert_eq!(third.stats().expect("counts").handles, 2);
}

#[test]
fn what_is_acknowledged_gives_its_disk_back_also_behind_a_delayed_message() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("jobs");
    let queue = open(&path);
    queue.put_many(vec![b"next year".to_vec()], Duration::from_hours(24 * 365)).expect("puts");
    let body = vec![7; 1_000];
    for _ in 0..200 {
        queue.put_many(vec![body.clone(); 100], Duration::ZERO).expect("puts");
        let messages = queue.get_many(100, NOW).expect("gets");
        assert_eq!(messages.len(), 100);
        queue.ack_many(messages).expect("acknowledges");
    }
    let bytes: u64 = std::fs::read_dir(&path)
        .expect("lists")
        .map(|entry| entry.and_then(|entry| entry.metadata()).expect("is there").len())
        .sum();
    assert!(bytes < 17 << 20, "{bytes} bytes for a message of 9, after 20,000 of 1,000");
    drop(queue);
    let queue = open(&path);
    assert_eq!(queue.stats().expect("counts").delayed, 1);
    assert_eq!(queue.peek(9).expect("peeks"), []);
    assert_eq!(queue.purge().expect("purges"), 1);
}

#[test]
fn large_messages_that_are_gone_give_their_disk_back_as_soon() {
    let dir = tempfile::tempdir().expect("a directory");
    let queue = open(dir.path());
    for _ in 0..60 {
        queue.put(&vec![7; 1_000_000]).expect("puts");
        queue.get(NOW).and_then(|message| message.ack()).expect("acknowledges");
    }
    let files = std::fs::read_dir(dir.path()).expect("lists");
    let bytes: u64 = files.map(|file| file.and_then(|file| file.metadata()).expect("is there").len()).sum();
    assert!(bytes < 30 << 20, "{bytes} bytes for an empty queue, through which 60 MB went");
}

#[test]
fn another_log_and_a_message_that_never_was_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = seawall::Log::open(dir.path().join("log"), seawall::Options::default()).expect("opens");
    log.append_commit(b"a record").expect("appends");
    log.close().expect("closes");
    let refused = Queue::open(dir.path().join("log"), Options::default());
    assert!(matches!(refused, Err(Error::NotAQueue { .. })));
    // A log that another writer has, which is not a queue.
    let _held = seawall::Log::open(dir.path().join("log"), seawall::Options::default()).expect("opens");
    let options = Options { answer_within: Duration::from_millis(100), ..Options::default() };
    assert!(matches!(Queue::open(dir.path().join("log"), options), Err(Error::NoAnswer { .. })));
}

#[test]
fn messages_of_other_queues_are_acknowledged_in_theirs() {
    let dir = tempfile::tempdir().expect("a directory");
    let [one, other] = ["one", "other"].map(|name| open(&dir.path().join(name)));
    for queue in [&one, &other] {
        queue.put(b"a").expect("puts");
    }
    let [of_one, of_other] = [&one, &other].map(|queue| queue.get(NOW).expect("gets"));
    one.ack_many(vec![of_other]).expect("acknowledges");
    assert_eq!([&one, &other].map(|queue| queue.stats().expect("counts").out), [1, 0]);
    drop(of_one);
    assert_eq!(drain(&one), ["a"]);
}

#[test]
fn a_purge_holds_when_the_queue_is_opened_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let queue = open(dir.path());
    queue.put_many(vec![Vec::new(); 3], Duration::ZERO).expect("puts");
    assert_eq!(queue.purge().expect("purges"), 3);
    drop(queue);
    let queue = open(dir.path());
    assert_eq!(queue.stats().expect("counts").waiting, 0);
    assert_eq!(queue.put(b"a").expect("puts"), 3);
    assert_eq!(drain(&queue), ["a"]);
}

#[test]
fn the_time_of_a_message_that_is_out_ends_under_another_owner_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { redeliver_after: Some(Duration::from_millis(100)), ..Options::default() };
    let [owner, other] = both(dir.path(), &options);
    owner.put_many(vec![b"a".to_vec(), b"b".to_vec()], Duration::ZERO).expect("puts");
    let third = open_as(dir.path(), &options);
    let held = [other.get(NOW).expect("gets"), third.get(NOW).expect("gets")];
    drop(owner);
    for _ in &held {
        let again = other.get(SOON).expect("comes again");
        assert_eq!(again.attempt(), 2);
        again.ack().expect("acknowledges");
    }
}

#[test]
fn an_owner_whose_directory_was_replaced_closes() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("jobs");
    let queue = open(&path);
    std::fs::rename(&path, dir.path().join("old")).expect("moves");
    let next = open(&path);
    assert!(next.is_owner());
    let (done, closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(queue.close().is_ok()));
    assert!(closed.recv_timeout(Duration::from_secs(20)).expect("closes"));
}

#[test]
fn an_answer_has_as_many_empty_messages_as_their_mark_has_room_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = seawall::Options::default().record_bytes_max(5 << 20);
    let queue = open_as(dir.path(), &Options { log, ..Options::default() });
    for _ in 0..4 {
        queue.put_many(vec![Vec::new(); 50_000], Duration::ZERO).expect("puts");
    }
    let first = queue.get_many(u32::MAX, NOW).expect("gets");
    let rest = queue.get_many(u32::MAX, NOW).expect("gets");
    assert_eq!(first.len() + rest.len(), 200_000);
}

#[test]
fn a_state_that_no_transaction_has_room_for_keeps_no_message_from_being_acknowledged() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = seawall::Options::default().record_bytes_max(8_000);
    let options = Options { log, ..Options::default() };
    let queue = open_as(dir.path(), &options);
    for _ in 0..10 {
        queue.put_many(vec![Vec::new(); 100], Duration::from_hours(1)).expect("puts");
    }
    for _ in 0..200 {
        queue.put_many(vec![Vec::new(); 50], Duration::ZERO).expect("puts");
        let messages = queue.get_many(50, NOW).expect("gets");
        assert_eq!(messages.len(), 50);
        queue.ack_many(messages).expect("acknowledges");
    }
    queue.close().expect("closes");
    let stats = open_as(dir.path(), &options).stats().expect("counts");
    assert_eq!((stats.waiting, stats.delayed), (0, 1_000));
}

/// Puts a message as soon as the log that failed is let go.
fn put_in_the_end(queue: &Queue, body: &[u8]) {
    for _ in 0..2_000 {
        match queue.put(body) {
            Ok(_) => return,
            Err(error) => assert_eq!(error.name(), "failed", "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nobody opens the log again");
}

/// A consumer that waits when the owner's log fails gets its error at that owner, and waits for the next owner elsewhere.
#[test]
fn consumers_outlive_an_owner_whose_log_fails() {
    let dir = tempfile::tempdir().expect("a directory");
    let faults = Arc::new(Faults::default());
    let mut options = Options::default();
    options.log = options.log.faults(Arc::clone(&faults)).idle_mark(Duration::from_hours(1));
    let [owner, other] = both(&dir.path().join("jobs"), &options);
    let mut waiting = [&owner, &other].map(|queue| queue.get_async(1, None));
    for queue in [&owner, &other] {
        queue.stats().expect("both wait now");
    }
    faults.fail_commit(faults.commits());
    assert_eq!(owner.put(b"lost").expect_err("is not stored").name(), "failed");
    let refused = waiting[0].wait(SOON).expect("ends").expect_err("the log has failed");
    assert_eq!(refused.name(), "failed");
    put_in_the_end(&owner, b"a");
    let got = waiting[1].wait(SOON).expect("goes on").expect("gets");
    assert!(["a", "lost"].contains(&bodies(&got)[0]));
}

/// What can be put can become a dead letter, and what cannot is refused.
#[test]
fn the_longest_message_can_be_buried() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = seawall::Options::default().record_bytes_max(8_000);
    let queue = open_as(dir.path(), &Options { log, max_attempts: 1, ..Options::default() });
    for length in (7_993..12_200).step_by(60) {
        let refused = queue.put(&vec![7; length]).expect_err("is too long");
        assert_eq!(refused.name(), "too_long", "{length}: {refused}");
    }
    queue.put(&[7; 7_992]).expect("puts");
    queue.get(NOW).and_then(|message| message.nack(Duration::ZERO)).expect("fails");
    assert_eq!(queue.dead_letters(9).expect("lists").len(), 1);
}

/// A consumer gave its message back with a long delay, the message is moved after many others, and then it turns out to be done.
#[test]
fn a_late_acknowledgement_finds_a_message_that_was_moved() {
    for reopened in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let [owner, other] = both(&dir.path().join("jobs"), &Options::default());
        owner.put(b"late").expect("puts");
        let late = other.get(SOON).expect("gets");
        late.nack(Duration::from_hours(24)).expect("gives back");
        for _ in 0..80 {
            other.put_many(vec![Vec::new(); 100], Duration::ZERO).expect("puts");
            assert_eq!(drain(&other).len(), 100);
        }
        other.put(b"in line").expect("puts");
        if reopened {
            owner.close().expect("closes");
        }
        assert_eq!(other.stats().expect("counts").delayed, 1);
        late.ack().expect("acknowledges");
        late.ack().expect("acknowledges again");
        let stats = other.stats().expect("counts");
        assert_eq!((stats.delayed, stats.waiting), (0, 1), "reopened: {reopened}");
        assert_eq!(drain(&other), ["in line"]);
        other.put(b"next").expect("puts");
        assert_eq!(drain(&other), ["next"]);
    }
}

/// What is too long for the log is that in every process.
#[test]
fn an_error_is_of_one_kind_in_every_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = seawall::Options::default().record_bytes_max(8_000);
    for queue in both(dir.path(), &Options { log, ..Options::default() }) {
        let refused = queue.put(&vec![0; 100_000]).expect_err("is too long");
        assert!(
            matches!(refused, Error::Log(seawall::Error::TooLong { bytes_max: 8_000, .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn what_the_disk_refuses_is_not_answered_as_durable() {
    for (of_owner, acks) in [(true, false), (true, true), (false, false), (false, true)] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("jobs");
        let faults = Arc::new(Faults::default());
        let mut options = Options::default();
        // Nothing but what is asked for writes a batch.
        options.log = options.log.faults(Arc::clone(&faults)).idle_mark(Duration::from_hours(1));
        let [owner, other] = both(&path, &options);
        let queue = if of_owner { &owner } else { &other };
        queue.put(b"a").expect("puts");
        let message = queue.get(SOON).expect("gets");
        faults.fail_commit(faults.commits());
        let done = if acks { message.ack() } else { queue.put(b"b").map(drop) };
        let failed = done.expect_err("was not stored");
        assert_eq!(failed.name(), "failed", "{failed}");
        drop(message);
        // Without being closed, both go on over the log, which one of them has opened again.
        for queue in [&owner, &other] {
            put_in_the_end(queue, b"c");
        }
        assert_eq!([&owner, &other].map(Queue::is_owner).iter().filter(|owns| **owns).count(), 1);
        drop((owner, other));
        let queue = open(&path);
        let mut left = Vec::new();
        while !bodies(&left).contains(&"a") {
            left.push(queue.get(SOON).expect("it was never acknowledged, and comes again"));
        }
    }
}
