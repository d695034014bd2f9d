//! Asks an owner of a queue that is stopped. No other test may run in this one: the owner, which is forked off, would hold its locks.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use seawall_queue::{Error, Options, Queue};
use seawall_sys::clock::monotonic_ns;
use seawall_sys::fork::Child;
use seawall_sys::local_socket::LocalSocket;

const SOON: Option<Duration> = Some(Duration::from_secs(20));
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

fn signal(process: &Path, signal: &str) {
    let pid = std::fs::read_to_string(process).expect("reads");
    assert!(Command::new("kill").args([signal, &pid]).status().expect("runs").success());
}

/// Ends the owner also when the test fails.
struct Killed<'a>(&'a Path);

impl Drop for Killed<'_> {
    fn drop(&mut self) {
        signal(self.0, "-KILL");
    }
}

fn since(began_ns: u64) -> Duration {
    Duration::from_nanos(monotonic_ns() - began_ns)
}

/// How long `work` takes, which must end.
fn time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> (T, Duration) {
    let (sender, done) = std::sync::mpsc::channel();
    let began = monotonic_ns();
    std::thread::spawn(move || sender.send(work()));
    (done.recv_timeout(Duration::from_mins(1)).expect("ends"), since(began))
}

#[test]
fn nobody_waits_for_an_owner_that_is_stopped_for_longer_than_asked() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, process) = (dir.path().join("jobs"), dir.path().join("pid"));
    let options = Options { answer_within: ANSWER_WITHIN, ..Options::default() };
    let owner = Child::run(|| {
        let _queue = Queue::open(&path, Options::default()).expect("opens");
        std::fs::write(dir.path().join("new"), std::process::id().to_string()).expect("writes");
        std::fs::rename(dir.path().join("new"), &process).expect("renames");
        loop {
            std::thread::park();
        }
    });
    while !process.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let killed = Killed(&process);
    let queue = Queue::open(&path, options.clone()).expect("opens");
    queue.put(b"first").expect("puts");
    let message = queue.get(SOON).expect("gets");

    signal(&process, "-STOP");
    let began = monotonic_ns();
    let body = vec![7; 1 << 20];
    let mut puts: Vec<_> = (0..3).map(|_| queue.put_async(vec![body.clone()], Duration::ZERO)).collect();
    drop((message, queue.get_async(1, None)));
    assert!(since(began) < ANSWER_WITHIN, "{:?} for what waits for nobody", since(began));
    signal(&process, "-CONT");
    for put in &mut puts {
        put.wait(SOON).expect("in time").expect("puts");
    }
    let mut again = Vec::new();
    while again.len() < 4 {
        again.extend(queue.get_many(9, SOON).expect("gets"));
    }
    let mut found: Vec<_> = again.iter().map(|message| message.body().len()).collect();
    found.sort_unstable();
    assert_eq!(found, [5, 1 << 20, 1 << 20, 1 << 20]);

    signal(&process, "-STOP");
    let (queue, waited) = time(move || {
        let body = vec![7; 1 << 20];
        assert!(matches!(queue.put_many(vec![body; 3], Duration::ZERO), Err(Error::NoAnswer { .. })));
        queue
    });
    assert!(waited < 2 * ANSWER_WITHIN, "{waited:?} for an answer");
    // More do not find room to be accepted.
    while LocalSocket::connect(&path, "queue.socket", Duration::from_millis(1)).is_ok() {}
    let opened = path.clone();
    let (refused, waited) = time(move || Queue::open(&opened, options).map(drop));
    assert!(matches!(refused, Err(Error::NoAnswer { .. })), "{refused:?}");
    assert!(waited < 2 * ANSWER_WITHIN, "{waited:?} to open it");
    drop(again);

    drop(killed);
    owner.and_then(Child::wait).expect("ends");
    let put = queue.put(b"last");
    assert!(put.is_ok(), "{put:?}");
    assert!(queue.is_owner());
}
