//! Queues append futures that found no room, and wakes as many as now fit, first come, first served.
//!
//! ```text
//!   poll ─► anyone in line? ─ no ─► look for room ─► appended, wake the next in line
//!              └─ yes ─► take a place ─► first in line, or woken? ─ no ─► wait
//!                                            └─ yes ─► look for room ─► appended, wake the next in line
//!                                                           └─ none: it was requested ─► wait
//! ```
//!
//! Freed room wakes the first in line, up to one batch of records. A woken future is out of line until it has looked, so that a
//! task that is never polled holds up no other. Each one that appends wakes one more, until the memory is full again; each one
//! that finds no room keeps its place.
//!
//! Invariants: a future takes its place before it looks for room for the last time, and room is made before the line is
//! looked at, so one of the two sees the other; the first in line has requested what it lacks; a future that was woken and
//! goes without looking wakes the next one in its stead; adding, waking and removing one takes the logarithm of how many wait;
//! no waker is called under a lock of the log.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use crate::commit::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::commit::waiters::wake;
use crate::error::{Error, Result};
use seawall_sys::planted;

#[derive(Debug, Default)]
pub(crate) struct AppendQueue {
    line: Mutex<Line>,
    /// How many wait, changed under the lock: a log without such futures pays one look for each batch.
    waiting: AtomicU64,
}

#[derive(Debug, Default)]
struct Line {
    places: u64,
    /// By place.
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    bytes: usize,
    waker: Waker,
}

/// The place of one future in the line, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Place(Option<u64>);

impl Place {
    /// Whether the future waits, or was woken and has not looked yet.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.is_some()
    }
}

impl AppendQueue {
    /// Polls one append of `bytes` bytes: `append` tries it, and requests what is lacking if it returns
    /// [`Error::WouldBlock`]; a `large` one holds memory while it tries. `place` is kept from one poll to the next.
    pub(crate) fn poll<T>(
        &self,
        place: &mut Place,
        (bytes, large): (usize, bool),
        context: &mut Context<'_>,
        mut append: impl FnMut() -> Result<T>,
    ) -> Poll<Result<T>> {
        let mut tried = false;
        if !place.is_taken() && self.waiting.load(Ordering::Relaxed) == 0 {
            let done = append();
            if !matches!(done, Err(Error::WouldBlock)) {
                return Poll::Ready(done);
            }
            tried = true;
        }
        if self.take_place(place, bytes, context.waker()) {
            // There may have come room before the place was taken, and it will not be announced again.
            let done = planted!(AppendWaitsUnseen(), append());
            if !matches!(done, Err(Error::WouldBlock)) {
                self.leave(place);
                self.wake_up_to(0);
                return Poll::Ready(done);
            }
            tried = true;
        }
        if tried && large {
            self.wake_first_but(place);
        }
        Poll::Pending
    }

    /// Wakes the first in line, which may have been refused the memory that another one holds without using it; not that one itself,
    /// because it would try again at once and for ever.
    fn wake_first_but(&self, place: &Place) {
        let mut line = lock(&self.line);
        let other = line.waiting.first_entry().filter(|first| Some(*first.key()) != place.0);
        let due = other.map(|first| first.remove().waker);
        self.waiting.store(line.waiting.len() as u64, Ordering::SeqCst);
        drop(line);
        due.into_iter().for_each(wake);
    }

    /// Puts the future in line, or renews its waker there; returns whether it is its turn to look for room.
    fn take_place(&self, place: &mut Place, bytes: usize, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut line = lock(&self.line);
        let known = place.is_taken();
        let own = *place.0.get_or_insert_with(|| {
            line.places += 1;
            line.places
        });
        let replaced = line.waiting.insert(own, Waiting { bytes, waker });
        self.waiting.store(line.waiting.len() as u64, Ordering::SeqCst);
        let first = line.waiting.first_key_value().is_some_and(|(first, _)| *first == own);
        // Dropped after the lock: a waker may own anything, even the log.
        drop(line);
        first || (known && replaced.is_none())
    }

    /// Takes the future out of the line; returns whether it had been woken.
    fn leave(&self, place: &mut Place) -> bool {
        let Some(own) = place.0.take() else { return false };
        let mut line = lock(&self.line);
        let removed = line.waiting.remove(&own);
        self.waiting.store(line.waiting.len() as u64, Ordering::SeqCst);
        drop(line);
        removed.is_none()
    }

    /// The future goes before it has appended. One that was woken and did not look leaves room that no other one knows of.
    pub(crate) fn give_up(&self, place: &mut Place) {
        if self.leave(place) {
            planted!(AppendTurnLost, self.wake_up_to(0));
        }
    }

    /// Wakes the first in line, and those after it as long as all together have at most `bytes` bytes.
    pub(crate) fn wake_up_to(&self, bytes: usize) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut line = lock(&self.line);
        let (mut due, mut together) = (Vec::new(), 0_usize);
        while let Some(first) = line.waiting.first_entry() {
            together = together.saturating_add(first.get().bytes);
            if !due.is_empty() && together > bytes {
                break;
            }
            due.push(first.remove().waker);
        }
        self.waiting.store(line.waiting.len() as u64, Ordering::SeqCst);
        drop(line);
        due.into_iter().for_each(wake);
    }

    /// Wakes all of them, because nothing is accepted any more.
    pub(crate) fn wake_all(&self) {
        let mut line = lock(&self.line);
        let due = std::mem::take(&mut line.waiting);
        self.waiting.store(0, Ordering::SeqCst);
        drop(line);
        for waiting in due.into_values() {
            wake(waiting.waker);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use super::{AppendQueue, Place};
    use crate::error::{Error, Result};

    #[derive(Default)]
    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// One future, and how often it was woken.
    #[derive(Default)]
    struct Task {
        place: Place,
        woken: Arc<Count>,
    }

    impl Task {
        fn poll(&mut self, queue: &AppendQueue, room: &mut usize) -> Poll<Result<()>> {
            self.poll_one(queue, room, false)
        }

        fn poll_one(&mut self, queue: &AppendQueue, room: &mut usize, large: bool) -> Poll<Result<()>> {
            let waker = Waker::from(Arc::clone(&self.woken));
            queue.poll(&mut self.place, (100, large), &mut Context::from_waker(&waker), || {
                *room = room.checked_sub(100).ok_or(Error::WouldBlock)?;
                Ok(())
            })
        }

        fn woken(&self) -> u64 {
            self.woken.0.load(Ordering::SeqCst)
        }
    }

    fn line(queue: &AppendQueue, tasks: usize) -> Vec<Task> {
        let mut line: Vec<Task> = (0..tasks).map(|_| Task::default()).collect();
        for task in &mut line {
            assert!(task.poll(queue, &mut 0).is_pending());
        }
        line
    }

    #[test]
    fn the_first_in_line_are_woken_up_to_the_room_and_each_that_appends_wakes_one_more() {
        let queue = AppendQueue::default();
        let mut tasks = line(&queue, 5);
        let woken = |tasks: &[Task]| tasks.iter().map(Task::woken).collect::<Vec<_>>();
        queue.wake_up_to(250);
        assert_eq!(woken(&tasks), [1, 1, 0, 0, 0]);
        let mut room = 200;
        assert!(tasks[1].poll(&queue, &mut room).is_ready());
        assert_eq!(woken(&tasks), [1, 1, 1, 0, 0]);
        assert!(tasks[4].poll(&queue, &mut room).is_pending(), "it is not its turn");
        assert!(tasks[2].poll(&queue, &mut room).is_ready());
        assert!(tasks[0].poll(&queue, &mut room).is_pending(), "no room is left");
        queue.wake_up_to(1);
        assert_eq!(woken(&tasks), [2, 1, 1, 1, 0], "it has kept its place, in front");
        queue.wake_all();
        assert_eq!(woken(&tasks), [2, 1, 1, 1, 1]);
    }

    #[test]
    fn a_later_one_stands_behind_those_in_line_and_looks_itself_once_nobody_is() {
        let queue = AppendQueue::default();
        let mut tasks = line(&queue, 1);
        let mut later = Task::default();
        assert!(later.poll(&queue, &mut 100).is_pending(), "the first in line was passed");
        queue.wake_up_to(0);
        assert!(tasks[0].poll(&queue, &mut 100).is_ready());
        assert_eq!(later.woken(), 1);
        assert!(later.poll(&queue, &mut 100).is_ready());
        assert!(Task::default().poll(&queue, &mut 100).is_ready());
    }

    #[test]
    fn a_large_one_that_finds_no_room_wakes_the_first_and_never_itself() {
        let queue = AppendQueue::default();
        let mut large = Task::default();
        assert!(large.poll_one(&queue, &mut 0, true).is_pending());
        assert_eq!(large.woken(), 0);
        let mut behind = Task::default();
        assert!(behind.poll(&queue, &mut 0).is_pending());
        queue.wake_up_to(200);
        // The one after holds memory without using it while the first one looks.
        assert!(large.poll_one(&queue, &mut 0, true).is_pending());
        assert!(behind.poll_one(&queue, &mut 0, true).is_pending());
        assert_eq!((large.woken(), behind.woken()), (2, 1));
    }

    fn a_dropped_future_passes_its_turn_on() {
        let queue = AppendQueue::default();
        let mut tasks = line(&queue, 3);
        queue.give_up(&mut tasks[0].place);
        assert_eq!(tasks[1].woken(), 0, "it had not been woken");
        queue.wake_up_to(100);
        queue.give_up(&mut tasks[1].place);
        assert_eq!((tasks[1].woken(), tasks[2].woken()), (1, 1));
    }

    #[test]
    fn a_future_that_was_woken_and_is_dropped_passes_its_turn_on() {
        a_dropped_future_passes_its_turn_on();
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn a_lost_turn_is_found() {
        use crate::testing::mutant::{Mutant, finds};
        assert!(finds(Mutant::AppendTurnLost, a_dropped_future_passes_its_turn_on));
    }
}
