//! Reads for followers that are polled, on a thread of the log, because a task must not wait for the disk.
//!
//! A follower lends its reader to the thread, which reads one batch with it and gives it back. All followers of a log share
//! one thread, started when the first of them needs it; it ends when the log and all of them are gone.
//!
//! Invariants: a reader that is lent comes back, with what it read or the error that it met; the borrower's last waker is
//! called then; a follower that is dropped leaves its reader to the thread, because dropping one may wait for what it reads
//! ahead.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Waker};

use crate::commit::sync::{Mutex, lock};
use crate::commit::waiters::wake;
use crate::error::Result;
use crate::read::reader::Reader;

/// A reader and the result of its read.
type Returned = (Reader, Result<()>);

/// A reader that was lent.
#[derive(Debug)]
pub(crate) struct Loan(Arc<Mutex<Loaned>>);

#[derive(Debug, Default)]
struct Loaned {
    ended: bool,
    /// `None` until it has ended, and if the thread panicked with it.
    returned: Option<Returned>,
    waker: Option<Waker>,
    /// The follower is gone: the reader is dropped where it is.
    abandoned: bool,
}

impl Loan {
    /// The follower goes. Returns the reader if it is back already; otherwise the thread drops it.
    pub(crate) fn abandon(&self) -> Option<Reader> {
        let mut loaned = lock(&self.0);
        loaned.abandoned = true;
        loaned.returned.take().map(|(reader, _)| reader)
    }

    /// The reader when it is back; `None` if it is lost.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Returned>> {
        let waker = context.waker().clone();
        let mut loaned = lock(&self.0);
        if loaned.ended {
            return Poll::Ready(loaned.returned.take());
        }
        let replaced = loaned.waker.replace(waker);
        // Dropped after the lock: a waker may own anything, even the follower.
        drop(loaned);
        drop(replaced);
        Poll::Pending
    }
}

/// One read. Whatever becomes of it, the follower is woken.
struct Job {
    reader: Option<Reader>,
    returned: Option<Returned>,
    loaned: Arc<Mutex<Loaned>>,
}

impl Job {
    fn run(mut self) {
        let abandoned = lock(&self.loaned).abandoned;
        if let Some(mut reader) = self.reader.take().filter(|_| !abandoned) {
            let read = reader.read_batch();
            self.returned = Some((reader, read));
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let mut loaned = lock(&self.loaned);
        loaned.ended = true;
        if !loaned.abandoned {
            loaned.returned = self.returned.take();
        }
        let waker = loaned.waker.take();
        drop(loaned);
        waker.into_iter().for_each(wake);
    }
}

/// The thread that reads for the followers of one log.
#[derive(Debug, Default)]
pub(crate) struct FollowThread {
    jobs: Mutex<Option<Sender<Job>>>,
}

impl FollowThread {
    /// Has the thread drop the reader, if it runs.
    pub(crate) fn discard(&self, reader: Reader) {
        let loaned = Arc::new(Mutex::new(Loaned { abandoned: true, ..Loaned::default() }));
        let jobs = lock(&self.jobs).clone();
        let job = Job { reader: Some(reader), returned: None, loaned };
        if let Some(jobs) = jobs {
            let _ = jobs.send(job);
        }
    }

    /// Lends the reader to the thread, which reads one batch with it. Leaves it where it is if no thread can be started.
    pub(crate) fn lend(&self, reader: &mut Option<Reader>) -> io::Result<Loan> {
        let mut jobs = lock(&self.jobs);
        let sender = match &*jobs {
            Some(sender) => sender,
            None => jobs.insert(start()?),
        };
        let loaned = Arc::default();
        let job = Job { reader: reader.take(), returned: None, loaned: Arc::clone(&loaned) };
        // It receives as long as there is a sender. A job that it does not take reports that itself.
        let _ = sender.send(job);
        Ok(Loan(loaned))
    }
}

fn start() -> io::Result<Sender<Job>> {
    let (jobs, received) = channel::<Job>();
    let work = move || {
        for job in received {
            // A reader that panics is lost to its follower alone.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run()));
        }
    };
    std::thread::Builder::new().name("seawall-follow".to_owned()).spawn(work)?;
    Ok(jobs)
}
