//! The log without an interpreter, as `bench.py` measures it beside Python: one block, printed as commits, its nanoseconds,
//! and those of CPU that this thread took.
//!
//! `native DIR KIND BYTES SECONDS`, where KIND is `thread` (one thread that commits each record), `threads` (64 of them), or `tasks` (64
//! tasks in one thread, each awaiting its commit).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use seawall::{CommitFuture, Log, Options};
use seawall_sys::clock::monotonic_ns;
use seawall_host::thread::cpu_ns;

const WRITERS: usize = 64;

/// Which tasks were woken, and the thread that runs them.
struct Woken {
    tasks: [AtomicBool; WRITERS],
    any: AtomicBool,
    thread: std::thread::Thread,
}

struct TaskWaker(Arc<Woken>, usize);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.0.tasks[self.1].store(true, Ordering::SeqCst);
        if !self.0.any.swap(true, Ordering::SeqCst) {
            self.0.thread.unpark();
        }
    }
}

fn thread(log: &Log, record: &[u8], until_ns: u64) -> seawall::Result<u64> {
    let mut commits = 0;
    while monotonic_ns() < until_ns {
        log.append_commit(record)?;
        commits += 1;
    }
    Ok(commits)
}

fn threads(log: &Log, record: &[u8], until_ns: u64) -> seawall::Result<u64> {
    let commits = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let write = || {
            let own = thread(log, record, until_ns)?;
            commits.fetch_add(own, Ordering::Relaxed);
            Ok(())
        };
        let running: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        running.into_iter().try_for_each(|one| one.join().unwrap_or(Err(seawall::Error::Closed)))
    })?;
    Ok(commits.into_inner())
}

fn tasks(log: &Log, record: &[u8], until_ns: u64) -> seawall::Result<u64> {
    let woken = Arc::new(Woken {
        tasks: [const { AtomicBool::new(true) }; WRITERS],
        any: AtomicBool::new(true),
        thread: std::thread::current(),
    });
    let wakers: Vec<Waker> =
        (0..WRITERS).map(|task| Waker::from(Arc::new(TaskWaker(Arc::clone(&woken), task)))).collect();
    let mut pending: Vec<Option<CommitFuture>> = (0..WRITERS).map(|_| None).collect();
    let mut commits = 0;
    loop {
        while !woken.any.swap(false, Ordering::SeqCst) {
            std::thread::park();
        }
        let ended = monotonic_ns() >= until_ns;
        for (task, commit) in pending.iter_mut().enumerate() {
            if !woken.tasks[task].swap(false, Ordering::SeqCst) {
                continue;
            }
            let mut context = Context::from_waker(&wakers[task]);
            loop {
                if let Some(waiting) = commit {
                    match Pin::new(waiting).poll(&mut context) {
                        Poll::Pending => break,
                        Poll::Ready(done) => {
                            done?;
                            commits += 1;
                            *commit = None;
                        }
                    }
                }
                if ended {
                    break;
                }
                *commit = Some(log.commit_async(log.append(record)?.end));
            }
        }
        if ended && pending.iter().all(Option::is_none) {
            return Ok(commits);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, kind, bytes, seconds] = &arguments[..] else {
        return Err("native DIR KIND BYTES SECONDS".into());
    };
    let record = vec![0x5A; bytes.parse()?];
    let log = Log::open(dir, Options::default())?;
    // As the blocks of Python: some commits first, so that no segment is being prepared.
    (0..200).try_for_each(|_| log.append_commit(&record).map(drop))?;
    let began_cpu_ns = cpu_ns().unwrap_or(0);
    let began_ns = monotonic_ns();
    let length = Duration::try_from_secs_f64(seconds.parse()?)?;
    let until_ns = began_ns + u64::try_from(length.as_nanos())?;
    let commits = match kind.as_str() {
        "thread" => thread(&log, &record, until_ns)?,
        "threads" => threads(&log, &record, until_ns)?,
        "tasks" => tasks(&log, &record, until_ns)?,
        _ => return Err(format!("there is no kind {kind}").into()),
    };
    let elapsed_ns = monotonic_ns() - began_ns;
    println!("{commits} {elapsed_ns} {}", cpu_ns().unwrap_or(0) - began_cpu_ns);
    log.close()?;
    Ok(())
}
