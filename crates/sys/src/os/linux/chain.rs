//! Orders the `io_uring` requests of one batch and interprets their completions.
//!
//! ```text
//!   RingLinkedFdatasync  write → write → fdatasync → write → fdatasync     one submission, linked
//!   RWF_DSYNC            write → write → write                             one submission, linked
//!   RingFdatasync        write, write | fdatasync | write | fdatasync      a submission for each part
//! ```
//!
//! It has no ring and no file, so that every answer of a kernel can be tested.
//!
//! Invariants:
//! * a step is done when its own completion says so in full: a write by its count, a sync by 0;
//! * a short write breaks the link: the kernel cancels what follows, and what was not done is submitted again, from
//!   the rest of that write on;
//! * an error of any step, wherever it stands, ends the batch: it is never covered by a second try that succeeds.

use crate::commit::Piece;
use crate::method::Sync;
use std::io;

/// The most steps of one batch: three pieces, a sync behind each, and some to spare.
pub(super) const STEPS_MAX: usize = 8;
/// How often in a row the kernel may answer "again" to the same step.
const AGAIN_MAX: u32 = 1 << 16;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Write piece `piece` from its byte `done` on.
    Write { piece: usize, done: usize, bytes: usize },
    /// fdatasync.
    Sync,
}

impl Step {
    /// Its name in errors.
    pub(super) fn operation(self) -> &'static str {
        match self {
            Self::Write { .. } => "io_uring write",
            Self::Sync => "io_uring fdatasync",
        }
    }
}

/// The requests of one batch, and how far they are.
#[derive(Debug)]
pub(super) struct Chain {
    steps: [Step; STEPS_MAX],
    count: usize,
    at: usize,
    linked: bool,
    again: u32,
}

/// A step that failed, and with what.
pub(super) type Failure = (&'static str, io::Error);

impl Chain {
    /// The requests that write `pieces` by a row whose sync is `sync`.
    ///
    /// # Errors
    /// `InvalidInput` if there are too many.
    pub(super) fn new(pieces: &[Piece<'_>], sync: Sync) -> Result<Self, Failure> {
        let linked = sync != Sync::RingFdatasync;
        let by_sync = matches!(sync, Sync::RingFdatasync | Sync::RingLinkedFdatasync);
        let mut chain = Self { steps: [Step::Sync; STEPS_MAX], count: 0, at: 0, linked, again: 0 };
        for (index, piece) in pieces.iter().enumerate() {
            if !piece.bytes.is_empty() {
                chain.push(Step::Write { piece: index, done: 0, bytes: piece.bytes.len() })?;
            }
            if piece.durable && by_sync {
                chain.push(Step::Sync)?;
            }
        }
        Ok(chain)
    }

    /// A sync alone.
    pub(super) fn sync() -> Self {
        Self { steps: [Step::Sync; STEPS_MAX], count: 1, at: 0, linked: false, again: 0 }
    }

    fn push(&mut self, step: Step) -> Result<(), Failure> {
        let room = self.steps.get_mut(self.count);
        *room.ok_or_else(|| (step.operation(), io::ErrorKind::InvalidInput.into()))? = step;
        self.count += 1;
        Ok(())
    }

    /// What is to be submitted together now; nothing if everything is done.
    pub(super) fn due(&self) -> &[Step] {
        let left = &self.steps[self.at..self.count];
        if self.linked {
            return left;
        }
        match left.iter().position(|step| *step == Step::Sync) {
            Some(0) => &left[..1],
            Some(sync) => &left[..sync],
            None => left,
        }
    }

    /// Whether each step of [`Chain::due`] must wait for the one before it.
    pub(super) fn is_linked(&self) -> bool {
        self.linked
    }

    /// Takes the results of the steps that were due, in their order.
    ///
    /// # Errors
    /// The first failure among them.
    pub(super) fn take(&mut self, results: &[i32]) -> Result<(), Failure> {
        let harmless = |result: i32| {
            result >= 0 || [libc::EINTR, libc::EAGAIN, libc::ECANCELED].contains(&result.saturating_neg())
        };
        let steps = &mut self.steps[self.at..self.count];
        for (step, result) in steps.iter().zip(results) {
            if !harmless(*result) {
                return Err((step.operation(), io::Error::from_raw_os_error(-result)));
            }
        }
        let mut moved = false;
        for (step, result) in steps.iter_mut().zip(results) {
            let operation = step.operation();
            match (step, *result) {
                (Step::Write { .. }, 0) => {
                    let nothing = io::Error::new(io::ErrorKind::WriteZero, "the system wrote nothing");
                    return Err((operation, nothing));
                }
                (Step::Write { done, bytes, .. }, written) if written > 0 => {
                    moved = true;
                    *done = done.saturating_add(usize::try_from(written).unwrap_or(0)).min(*bytes);
                    if *done < *bytes {
                        break;
                    }
                }
                (Step::Sync, 0) => moved = true,
                // A sync that counts something, or a cancelled step behind others that are all done: no kernel should.
                (Step::Sync, positive) if positive > 0 => {
                    return Err((operation, io::Error::from_raw_os_error(libc::EIO)));
                }
                (_, result) if result == -libc::ECANCELED => {
                    return Err((operation, io::Error::from_raw_os_error(libc::ECANCELED)));
                }
                _ => break,
            }
            self.at += 1;
        }
        self.again = if moved { 0 } else { self.again + 1 };
        if self.again > AGAIN_MAX {
            return Err(("io_uring write", io::Error::from_raw_os_error(libc::EAGAIN)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{AGAIN_MAX, Chain, Step};
    use crate::commit::Piece;
    use crate::method::Sync;
    use std::io;

    static BYTES: [u8; 4096] = [0; 4096];

    fn piece(offset: u64, durable: bool) -> Piece<'static> {
        Piece { offset, bytes: &BYTES, buffer: None, durable }
    }

    fn three_pieces() -> [Piece<'static>; 3] {
        [piece(0, false), piece(1 << 20, true), piece(4096, true)]
    }

    fn write(piece: usize, done: usize) -> Step {
        Step::Write { piece, done, bytes: 4096 }
    }

    fn errno(taken: Result<(), super::Failure>) -> Option<i32> {
        taken.expect_err("is an error").1.raw_os_error()
    }

    #[test]
    fn a_linked_batch_is_one_submission() {
        let mut chain = Chain::new(&three_pieces(), Sync::RingLinkedFdatasync).expect("fits");
        assert_eq!(chain.due(), [write(0, 0), write(1, 0), Step::Sync, write(2, 0), Step::Sync]);
        chain.take(&[4096, 4096, 0, 4096, 0]).expect("succeeds");
        assert!(chain.due().is_empty());
        let mut chain = Chain::new(&three_pieces(), Sync::None).expect("fits");
        assert_eq!(chain.due(), [write(0, 0), write(1, 0), write(2, 0)]);
        assert!(chain.is_linked(), "the batch must not become durable before the header");
        chain.take(&[4096, 4096, 4096]).expect("succeeds");
        assert!(chain.due().is_empty());
    }

    #[test]
    fn an_unlinked_batch_waits_before_each_sync_and_behind_it() {
        let mut chain = Chain::new(&three_pieces(), Sync::RingFdatasync).expect("fits");
        for (due, results) in [
            (&[write(0, 0), write(1, 0)][..], &[4096, 4096][..]),
            (&[Step::Sync], &[0]),
            (&[write(2, 0)], &[4096]),
            (&[Step::Sync], &[0]),
        ] {
            assert_eq!(chain.due(), due);
            chain.take(results).expect("succeeds");
        }
        assert!(chain.due().is_empty());
    }

    #[test]
    fn a_short_write_breaks_the_link_and_is_taken_up_where_it_stopped() {
        let mut chain = Chain::new(&three_pieces(), Sync::RingLinkedFdatasync).expect("fits");
        let cancelled = -libc::ECANCELED;
        chain.take(&[4096, 512, cancelled, cancelled, cancelled]).expect("goes on");
        assert_eq!(chain.due(), [write(1, 512), Step::Sync, write(2, 0), Step::Sync]);
        chain.take(&[1024, cancelled, cancelled, cancelled]).expect("goes on");
        assert_eq!(chain.due(), [write(1, 1536), Step::Sync, write(2, 0), Step::Sync]);
        chain.take(&[2560, 0, 4096, 0]).expect("succeeds");
        assert!(chain.due().is_empty());
    }

    #[test]
    fn what_was_interrupted_is_asked_again_but_not_for_ever() {
        for again in [libc::EINTR, libc::EAGAIN] {
            let mut chain = Chain::new(&[piece(0, true)], Sync::RingLinkedFdatasync).expect("fits");
            chain.take(&[-again, -libc::ECANCELED]).expect("goes on");
            assert_eq!(chain.due(), [write(0, 0), Step::Sync]);
            chain.take(&[4096, -again]).expect("goes on");
            assert_eq!(chain.due(), [Step::Sync]);
            let mut taken = Ok(());
            for _ in 0..=AGAIN_MAX {
                taken = taken.and_then(|()| chain.take(&[-again]));
            }
            assert_eq!(errno(taken), Some(libc::EAGAIN));
        }
    }

    #[test]
    fn an_error_anywhere_ends_the_batch_with_its_call() {
        for (results, operation) in [
            ([-libc::EIO, -libc::ECANCELED, -libc::ECANCELED, -libc::ECANCELED, -libc::ECANCELED], "write"),
            ([4096, 4096, -libc::EIO, -libc::ECANCELED, -libc::ECANCELED], "fdatasync"),
            ([4096, 4096, 0, 4096, -libc::EIO], "fdatasync"),
            // Behind a short write: a second try must not cover it.
            ([4096, 512, -libc::ECANCELED, -libc::ECANCELED, -libc::EIO], "fdatasync"),
        ] {
            let mut chain = Chain::new(&three_pieces(), Sync::RingLinkedFdatasync).expect("fits");
            let (call, error) = chain.take(&results).expect_err("is an error");
            assert_eq!((call, error.raw_os_error()), (&*format!("io_uring {operation}"), Some(libc::EIO)));
        }
    }

    #[test]
    fn answers_that_no_kernel_should_give_are_errors() {
        let linked = || Chain::new(&[piece(0, true)], Sync::RingLinkedFdatasync).expect("fits");
        assert_eq!(errno(linked().take(&[4096, -libc::ECANCELED])), Some(libc::ECANCELED));
        assert_eq!(errno(linked().take(&[4096, 7])), Some(libc::EIO));
        let nothing = linked().take(&[0, -libc::ECANCELED]).expect_err("is an error").1;
        assert_eq!(nothing.kind(), io::ErrorKind::WriteZero);
        assert!(Chain::new(&[piece(0, true); 5], Sync::RingLinkedFdatasync).is_err(), "ten steps");
    }
}
