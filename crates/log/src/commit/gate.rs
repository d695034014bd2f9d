//! Blocks and wakes committers without lost wake-ups; waking costs a system call only if a thread sleeps.
//!
//! A [`Gate`] is a word that changes with every event. A waiter reads the word, checks whether it still has to wait,
//! and then sleeps only if the word is unchanged; so no wake-up is lost.

use crate::commit::sync::{AtomicU32, Ordering, Word};

#[derive(Debug, Default)]
pub(crate) struct Gate {
    word: Word,
    sleepers: AtomicU32,
}

/// The state of the gate when a thread decided to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u32);

impl Gate {
    /// Announces a sleeper. Must be called before looking whether there is a reason to wait.
    pub(crate) fn ticket(&self) -> Ticket {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        Ticket(self.word.load(Ordering::SeqCst))
    }

    /// Sleeps unless something happened since the ticket was taken. May return early.
    pub(crate) fn wait(&self, ticket: Ticket) {
        self.word.wait(ticket.0);
        self.leave();
    }

    /// Gives a ticket back unused.
    pub(crate) fn leave(&self) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Something happened: every sleeper looks again.
    pub(crate) fn open(&self) {
        self.word.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.word.wake_all();
        }
    }

    /// Something happened that one sleeper should act on; returns whether there was one.
    pub(crate) fn open_for_one(&self) -> bool {
        self.word.fetch_add(1, Ordering::SeqCst);
        let slept = self.sleepers.load(Ordering::SeqCst) > 0;
        if slept {
            self.word.wake_one();
        }
        slept
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Gate;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn no_wake_up_is_lost() {
        for _ in 0..if cfg!(miri) { 3 } else { 200 } {
            let (gate, done) = (Gate::default(), AtomicBool::new(false));
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        loop {
                            let ticket = gate.ticket();
                            if done.load(Ordering::SeqCst) {
                                gate.leave();
                                break;
                            }
                            gate.wait(ticket);
                        }
                    });
                }
                done.store(true, Ordering::SeqCst);
                gate.open();
            });
        }
    }

    #[test]
    fn opening_an_empty_gate_wakes_no_one() {
        assert!(!Gate::default().open_for_one());
    }
}
