//! Tests commits that name a failure: watermarks, policies, refusals, futures.

use std::time::Duration;

use crate::common::{LIMIT, Memory, folders, options, rebuild, scratch};
use seawall::{Durability, Lsn};
use seawall_ship::destination::Destination;
use seawall_ship::shipping::Settings;
use seawall_ship::{Error, Failure, Policy, ShippedLog};
use seawall_sys::wait::block_on;

fn open(dir: &std::path::Path, class: Durability, to: &[&Memory]) -> ShippedLog {
    let destinations = to.iter().map(|one| -> Box<dyn Destination> { Box::new((*one).clone()) }).collect();
    ShippedLog::open(dir, options(), class, destinations, Settings::default()).expect("opens")
}

#[test]
fn each_failure_has_its_watermark() {
    let dir = scratch();
    let memory = Memory::new("a");
    let log = open(dir.path(), Durability::PowerLoss, &[&memory]);
    let first = log.log().append(b"one").expect("appends").end;
    log.commit_as(first, Failure::Machine).expect("is acknowledged");
    assert!(Failure::ALL[..5].iter().all(|failure| log.lsn_surviving(*failure) >= first));
    memory.with(|weather| weather.away = true);
    let second = log.log().append(b"two").expect("appends").end;
    // The log's own commit outlives these.
    for failure in [Failure::Process, Failure::System, Failure::PowerHere, Failure::PowerEverywhere] {
        log.commit_as(second, failure).expect("commits");
        assert!(log.lsn_surviving(failure) >= second, "{failure:?}");
    }
    assert_eq!(log.lsn_surviving(Failure::Machine), first);
    assert_eq!(log.at_risk(Failure::PowerHere).expect("looks").records, 0);
    let risk = log.at_risk(Failure::Machine).expect("looks");
    assert_eq!((risk.records, risk.bytes), (1, second.since(first)));
    assert_eq!(log.lsn_surviving(Failure::Site), Lsn::ZERO);
    let refused = log.commit_as(second, Failure::Site);
    assert!(
        matches!(&refused, Err(Error::BeyondPromise { failure: Failure::Site, why }) if why.contains("off-site"))
    );
    memory.with(|weather| weather.away = false);
    log.commit_as(second, Failure::Machine).expect("is acknowledged");
    log.close(LIMIT).expect("closes");
}

#[test]
fn a_log_that_is_shipped_nowhere_refuses_what_it_cannot_promise() {
    let dir = scratch();
    let log = open(dir.path(), Durability::PowerLoss, &[]);
    let end = log.log().append(b"one").expect("appends").end;
    let refused = log.commit_as(end, Failure::Machine).expect_err("there is one copy").to_string();
    assert!(refused.contains("machine") && refused.contains("no destination"), "{refused}");
    assert!(log.commit_async_as(end, Failure::Machine).is_err());
    log.commit_as(end, Failure::PowerEverywhere).expect("its own commit outlives that");
}

#[test]
fn policies_wait_go_on_within_bounds_or_fail() {
    let dir = scratch();
    let memory = Memory::new("a");
    let commit = |log: &ShippedLog| {
        let end = log.log().append(b"record").expect("appends").end;
        (end, log.commit_as(end, Failure::Machine))
    };
    let log = open(dir.path(), Durability::PowerLoss, &[&memory]);
    commit(&log).1.expect("is acknowledged");
    memory.with(|weather| weather.away = true);
    let log = log.policy(Policy::FailAfter(Duration::from_millis(50)));
    let (late, failed) = commit(&log);
    assert!(matches!(failed, Err(Error::TimedOut { lsn }) if lsn == late), "{failed:?}");
    assert!(log.log().durable_lsn() >= late, "it is durable here");
    let bound = Policy::GoOnWithin { records: 5, time: Duration::from_hours(1) };
    let log = log.policy(bound);
    for _ in 0..4 {
        commit(&log).1.expect("within the bound");
    }
    let bound_reached = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| commit(&log).1);
        std::thread::sleep(Duration::from_millis(200));
        let waits = !waiting.is_finished();
        memory.with(|weather| weather.away = false);
        waiting.join().expect("ends").expect("is acknowledged");
        waits
    });
    assert!(bound_reached, "the sixth record at risk waits");
    let log = log.policy(Policy::Block);
    commit(&log).1.expect("is acknowledged");
    assert_eq!(log.at_risk(Failure::Machine).expect("looks").records, 0);
}

/// Whichever had come furthest: one that is away, or has ended, keeps no commit waiting.
#[test]
fn a_commit_waits_for_the_first_destination_that_has_it() {
    let (_dir, [from, again, other]) = folders(["log", "again", "other"]);
    let memories = [Memory::new("a"), Memory::new("b")];
    let log = open(&from, Durability::PowerLoss, &[&memories[0], &memories[1]]);
    let log = log.policy(Policy::FailAfter(Duration::from_secs(20)));
    for away in &memories {
        away.with(|weather| weather.away = true);
        let end = log.log().append(b"one").expect("appends").end;
        log.commit_as(end, Failure::Machine).expect("the other one has it");
        let end = log.log().append(b"two").expect("appends").end;
        block_on(log.commit_async_as(end, Failure::Machine).expect("is promised")).expect("has it");
        away.with(|weather| weather.away = false);
        for ship in log.ships() {
            ship.wait(end, LIMIT).expect("both have it");
        }
    }
    let commit = || {
        let end = log.log().append(b"three").expect("appends").end;
        log.commit_as(end, Failure::Machine)
    };
    rebuild(&mut memories[0].clone(), &again).expect("takes one of them");
    commit().expect("the other one goes on");
    rebuild(&mut memories[1].clone(), &other).expect("takes the other one");
    let replaced = commit();
    assert!(matches!(replaced, Err(Error::Replaced { .. })), "{replaced:?}");
}

#[test]
fn a_future_is_ready_when_both_are_done() {
    let dir = scratch();
    let memory = Memory::new("a");
    let log = open(dir.path(), Durability::PowerLoss, &[&memory]);
    let end = log.log().append(b"one").expect("appends").end;
    let future = log.commit_async_as(end, Failure::Machine).expect("is promised");
    block_on(future).expect("is acknowledged");
    assert!(log.lsn_surviving(Failure::Machine) >= end);
    let end = log.log().append(b"two").expect("appends").end;
    block_on(log.commit_async_as(end, Failure::PowerHere).expect("is promised")).expect("commits");
    assert!(log.log().durable_lsn() >= end);
}
