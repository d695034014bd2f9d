//! What the tests share: directories and options of small logs, waits, wakers, faults, children, and the files of a log.

use std::future::Future;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
#[cfg(unix)]
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use seawall::faults::Faults;
use seawall::{Log, Options, Record, StreamId};
use seawall_sys::clock::monotonic_ns;

/// What must happen happens within this, also on a machine that has other things to do.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);
/// In front of what a shell is to run, with nothing to do before.
#[cfg(unix)]
pub(crate) const PLAIN: &str = "exec";
/// What a child is to do.
#[cfg(unix)]
const ORDERS: &str = "SEAWALL_TEST_ORDERS";

/// A directory on the file system of the build, removed at the end.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the file system of the build")
}

/// Without idle marks: they would be commits of their own, and come at moments of their own.
pub(crate) fn small() -> Options {
    let options = Options::default().segment_bytes(256 << 10).batch_bytes(16 << 10).memory_bytes(128 << 10);
    options.idle_mark(Duration::from_mins(10))
}

/// The smallest segments, a few batches in memory.
pub(crate) fn tiny() -> Options {
    Options::default().segment_bytes(64 << 10).batch_bytes(8 << 10).memory_bytes(64 << 10)
}

/// A new log in a folder of its own.
pub(crate) fn new_log(options: Options) -> (tempfile::TempDir, Log) {
    let dir = scratch();
    let log = Log::open(dir.path(), options).expect("opens");
    (dir, log)
}

/// The same with faults.
pub(crate) fn new_faulty(options: Options) -> (tempfile::TempDir, Arc<Faults>, Log) {
    let (faults, options) = faulty(options);
    let (dir, log) = new_log(options);
    (dir, faults, log)
}

/// Faults, and these options with them.
pub(crate) fn faulty(options: Options) -> (Arc<Faults>, Options) {
    let faults = Arc::new(Faults::default());
    (Arc::clone(&faults), options.faults(faults))
}

/// Lets the disk go on when a test ends or fails, otherwise the log could not end.
pub(crate) struct Released<'a>(pub(crate) &'a Faults);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.hang_commits(false);
        self.0.hang_reads(false);
        self.0.hold_copies(false);
    }
}

/// Ends the threads beside a test when it ends or fails: a scope waits for them.
pub(crate) struct Stops<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn id(number: u32) -> StreamId {
    StreamId::new(number).expect("is small")
}

/// The payloads of records that are all sound.
pub(crate) fn payloads_of(records: impl Iterator<Item = seawall::Result<Record>>) -> Vec<Vec<u8>> {
    records.map(|record| record.expect("is sound").payload.to_vec()).collect()
}

pub(crate) fn payloads(log: &Log) -> Vec<Vec<u8>> {
    payloads_of(log.read(log.first_lsn()).expect("reads"))
}

/// How many records a log has, all of them sound.
pub(crate) fn count(log: &Log) -> usize {
    let records = log.read(log.first_lsn()).expect("reads");
    records.inspect(|record| assert!(record.is_ok(), "{record:?}")).count()
}

/// Whether it holds within `limit`; what wakes this thread ends a wait early.
pub(crate) fn comes(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let began_ns = monotonic_ns();
    while !holds() {
        if Duration::from_nanos(monotonic_ns() - began_ns) >= limit {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    true
}

pub(crate) fn until_in(limit: Duration, what: &str, holds: impl FnMut() -> bool) {
    assert!(comes(limit, holds), "{what}, within {limit:?}");
}

pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    until_in(LIMIT, what, holds);
}

pub(crate) fn until_prepared(log: &Log) {
    until("the next segment is prepared", || log.is_prepared());
}

/// Counts its wake-ups, and unparks the thread that made it.
pub(crate) struct Task(AtomicU64, std::thread::Thread);

impl Task {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(0), std::thread::current()))
    }

    pub(crate) fn woken(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.unpark();
    }
}

pub(crate) fn poll<F: Future + Unpin>(future: &mut F, task: &Arc<Task>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(task))))
}

/// Polls the future only when its own waker was called since `seen` calls: a lost wake-up is noticed here.
pub(crate) fn woken<F: Future + Unpin>(future: &mut F, task: &Arc<Task>, mut seen: u64) -> F::Output {
    loop {
        until("a future is woken", || task.woken() > seen);
        seen = task.woken();
        if let Poll::Ready(ready) = poll(future, task) {
            return ready;
        }
    }
}

/// The same after a first poll.
pub(crate) fn wait<F: Future + Unpin>(mut future: F, task: &Arc<Task>) -> F::Output {
    let seen = task.woken();
    match poll(&mut future, task) {
        Poll::Ready(ready) => ready,
        Poll::Pending => woken(&mut future, task, seen),
    }
}

/// This program again, started by a shell after `before`, to run one test that does what its [`orders`] say.
#[cfg(unix)]
pub(crate) fn child(before: &str, test: &str, orders: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!(r#"{before} "$0" "$@""#)]);
    shell.arg(std::env::current_exe().expect("has a path"));
    // With a single thread the harness would begin a line before the test prints its own.
    shell.args(["--exact", test, "--nocapture", "--test-threads=2"]).env(ORDERS, orders);
    shell
}

/// What the test that runs in a child is to do; nothing unless [`child`] started it.
#[cfg(unix)]
pub(crate) fn orders() -> Option<String> {
    std::env::var(ORDERS).ok()
}

/// The segments of a log, prepared ones included, in order.
pub(crate) fn segments(dir: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir).expect("lists").map(|entry| entry.expect("an entry").path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "seg");
    let mut segments: Vec<_> = paths.filter(is_segment).collect();
    segments.sort();
    segments
}

pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("lists").map(|entry| entry.expect("an entry")) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copies");
    }
}

pub(crate) fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).expect("reads");
    change(&mut bytes);
    std::fs::write(path, bytes).expect("writes");
}

/// Changes one bit of the segment in which `needle` lies, where it begins.
pub(crate) fn flip(dir: &Path, needle: &[u8]) {
    for path in segments(dir) {
        // The log prepares and removes segments meanwhile.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        if let Some(at) = bytes.windows(needle.len()).position(|bytes| bytes == needle) {
            let mut file = std::fs::File::options().write(true).open(&path).expect("opens");
            file.seek(SeekFrom::Start(at as u64)).expect("seeks");
            return file.write_all(&[bytes[at] ^ 1]).expect("writes");
        }
    }
    panic!("it is nowhere");
}

/// Files of the log in `dir` that this process holds open and that have no name any more.
#[cfg(target_os = "linux")]
pub(crate) fn nameless(dir: &Path) -> usize {
    let home = dir.canonicalize().expect("is there");
    let open = std::fs::read_dir("/proc/self/fd").expect("lists").flatten();
    let files = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    files.filter(|file| file.starts_with(&home) && file.to_string_lossy().ends_with("(deleted)")).count()
}
