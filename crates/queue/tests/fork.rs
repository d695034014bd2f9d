//! Forks processes that use a queue. No other test may run in this one: a child would hold its locks.
#![cfg(unix)]

use std::path::Path;
use std::time::Duration;

use seawall_queue::{Options, Queue};
use seawall_sys::fork::Child;

#[test]
fn processes_that_one_forked_off_are_told_apart() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("jobs");
    let [opened, over] = ["opened", "over"].map(|name| dir.path().join(name));
    let wait_for = |file: &Path| {
        for _ in 0..2_000 {
            if file.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let owner = Queue::open(&path, Options::default()).expect("opens");
    owner.put(b"a").expect("puts");
    let first = Child::run(|| {
        let queue = Queue::open(&path, Options::default()).expect("opens");
        let message = queue.get(Some(Duration::from_secs(20))).expect("gets");
        wait_for(&opened);
        let attempt = u8::try_from(message.attempt()).expect("is small");
        // It ends as if it was killed.
        std::mem::forget((message, queue));
        attempt
    });
    let second = Child::run(|| {
        let queue = Queue::open(&path, Options::default()).expect("opens");
        std::fs::write(&opened, b"").expect("writes");
        wait_for(&over);
        u8::from(queue.is_owner())
    });
    assert_eq!(first.and_then(Child::wait).expect("ends"), Some(1));
    // The first one is gone, and the second one never had it.
    assert_eq!(owner.get(Some(Duration::from_secs(20))).expect("comes back").attempt(), 2);
    std::fs::write(&over, b"").expect("writes");
    assert_eq!(second.and_then(Child::wait).expect("ends"), Some(0));
}
