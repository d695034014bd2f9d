//! Decides the order of a batch's requests and the meaning of their completions, for calls, rings and simulator.
//!
//! ```text
//!   OneByOne   write | sync | write | sync          a submission for each step: plain calls
//!   Grouped    write, write | sync | write | sync   a submission for each part: a ring without links
//!   Linked     write → write → sync → write → sync  one submission whose steps wait for each other
//! ```
//!
//! Rows whose writes are durable by themselves have no sync steps. It has no ring, no file and no clock, so that
//! every answer of a system can be tested.
//!
//! Invariants:
//! * a step is done when its own answer says so in full: a write by its count, a sync by success;
//! * a write that was cut short is submitted again from where it stopped, together with everything after it;
//! * an error of any step, wherever it stands, ends the batch: it is never covered by a second try that succeeds.

use crate::planted;
use std::io;

/// The most steps of one batch: three pieces, a sync after each, and some to spare.
pub const STEPS_MAX: usize = 8;
/// How often in a row the system may answer "again" to the same step.
const AGAIN_MAX: u32 = 1 << 16;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write piece `piece` from its byte `done` on; it has `bytes` bytes in all.
    Write {
        /// The place of the piece in the batch.
        piece: usize,
        /// Bytes of it that are written already.
        done: usize,
        /// Its length in bytes.
        bytes: usize,
    },
    /// Make everything written before durable.
    Sync,
}

/// In which order the steps are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitOrder {
    /// Each step when the one before it is done.
    OneByOne,
    /// All writes up to the next sync together, then the sync alone; where there are no syncs, as [`SubmitOrder::OneByOne`].
    Grouped,
    /// All steps together; the system begins each when the one before it succeeded in full.
    Linked,
}

/// What the system said of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success: the bytes written, or 0 for a sync.
    Done(usize),
    /// Not begun, for a signal or want of memory: ask again.
    Again,
    /// Not begun, because a step that it was linked to did not succeed in full.
    Cancelled,
    /// Failed, with the system's error number.
    Failed(i32),
}

impl Answer {
    /// The answer of a call that is repeated when a signal interrupted it.
    #[must_use]
    pub fn of_call(result: &io::Result<usize>) -> Self {
        match result {
            Ok(bytes) => Self::Done(*bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Self::Again,
            Err(error) => Self::Failed(error.raw_os_error().unwrap_or(EIO)),
        }
    }

    pub(crate) fn of_error(error: &crate::Error) -> Self {
        Self::Failed(error.raw_os_error().unwrap_or(EIO))
    }
}

/// An error number for answers that no system should give: "input/output error" on every Unix.
const EIO: i32 = 5;

/// A step that failed, and with what. The batch, and the file, are finished.
#[derive(Debug)]
pub struct Failure {
    /// Which one.
    pub step: Step,
    /// The system's error.
    pub error: io::Error,
}

/// The steps of one batch, and how far they are.
#[derive(Debug)]
pub struct BatchProgress {
    steps: [Step; STEPS_MAX],
    count: usize,
    at: usize,
    order: SubmitOrder,
    again: u32,
}

impl BatchProgress {
    /// The steps that write pieces of the given lengths in bytes, of which some must be durable before the next one is
    /// begun; `sync` says whether that takes a sync, as it does where writes are not durable by themselves.
    ///
    /// # Errors
    /// `InvalidInput` if there are too many.
    pub fn new(
        pieces: impl IntoIterator<Item = (usize, bool)>,
        order: SubmitOrder,
        sync: bool,
    ) -> Result<Self, Failure> {
        // Without syncs between them, writes that must be durable in turn can only go one by one or linked.
        let order = if order == SubmitOrder::Grouped && !sync { SubmitOrder::OneByOne } else { order };
        let order = planted!(StartWithTheBatch(), order);
        let mut batch = Self { steps: [Step::Sync; STEPS_MAX], count: 0, at: 0, order, again: 0 };
        let sync = planted!(SkipSync, sync);
        let mut owed = false;
        for (piece, (bytes, durable)) in pieces.into_iter().enumerate() {
            if bytes > 0 {
                batch.push(Step::Write { piece, done: 0, bytes })?;
            }
            owed |= durable && sync;
            if planted!(StartWithTheBatch, owed) {
                batch.push(Step::Sync)?;
                owed = false;
            }
        }
        if owed {
            batch.push(Step::Sync)?;
        }
        Ok(batch)
    }

    /// One write of `bytes` bytes and nothing else.
    #[must_use]
    pub fn write(bytes: usize) -> Self {
        let mut batch = Self::sync();
        batch.steps[0] = Step::Write { piece: 0, done: 0, bytes };
        batch.count = usize::from(bytes > 0);
        batch
    }

    /// A sync alone.
    #[must_use]
    pub fn sync() -> Self {
        Self { steps: [Step::Sync; STEPS_MAX], count: 1, at: 0, order: SubmitOrder::OneByOne, again: 0 }
    }

    fn push(&mut self, step: Step) -> Result<(), Failure> {
        let room = self.steps.get_mut(self.count);
        *room.ok_or_else(|| Failure { step, error: io::ErrorKind::InvalidInput.into() })? = step;
        self.count += 1;
        Ok(())
    }

    /// What is to be submitted together now; nothing if everything is done.
    #[must_use]
    pub fn due(&self) -> &[Step] {
        let left = &self.steps[self.at..self.count];
        let sync = left.iter().position(|step| *step == Step::Sync);
        let count = match (self.order, sync) {
            (SubmitOrder::Linked, _) | (SubmitOrder::Grouped, None) => left.len(),
            (_, Some(0)) => 1,
            (SubmitOrder::Grouped, Some(sync)) => sync,
            (SubmitOrder::OneByOne, _) => left.len().min(1),
        };
        &left[..planted!(SyncDuringWrites(count, sync), count)]
    }

    /// Whether each step of [`BatchProgress::due`] must wait for the one before it.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        self.order == SubmitOrder::Linked
    }

    /// Takes the answers to the steps that were due, in their order.
    ///
    /// # Errors
    /// The first failure among them.
    pub fn take(&mut self, answers: &[Answer]) -> Result<(), Failure> {
        let steps = &mut self.steps[self.at..self.count];
        for (step, answer) in steps.iter().zip(answers) {
            if let Answer::Failed(errno) = answer {
                step.failed(*errno)?;
            }
        }
        let mut moved = false;
        for (step, answer) in steps.iter_mut().zip(answers) {
            match step.advance(*answer)? {
                Advance::Done => moved = true,
                Advance::Part => {
                    moved = true;
                    break;
                }
                Advance::Not => break,
            }
            self.at += 1;
        }
        self.again = if moved { 0 } else { self.again + 1 };
        match steps.first() {
            Some(step) if self.again > AGAIN_MAX => {
                Err(Failure { step: *step, error: io::ErrorKind::WouldBlock.into() })
            }
            _ => Ok(()),
        }
    }
}

pub(crate) enum Advance {
    Done,
    Part,
    Not,
}

impl Step {
    /// The step failed, which ends the batch.
    fn failed(self, errno: i32) -> Result<Advance, Failure> {
        let failed = Err(Failure { step: self, error: io::Error::from_raw_os_error(errno) });
        planted!(WriteErrorIgnored | SyncErrorIgnored | SyncRetried(self, failed), failed)
    }

    fn advance(&mut self, answer: Answer) -> Result<Advance, Failure> {
        let whole = *self;
        let fail = |error: io::Error| Err(Failure { step: whole, error });
        match (self, answer) {
            (Self::Write { .. }, Answer::Done(0)) => {
                fail(io::Error::new(io::ErrorKind::WriteZero, "the system wrote nothing"))
            }
            (Self::Write { done, bytes, .. }, Answer::Done(written)) => {
                *done = done.saturating_add(written).min(*bytes);
                let short = planted!(ShortWriteIgnored, *done < *bytes);
                Ok(if short { Advance::Part } else { Advance::Done })
            }
            (Self::Sync, Answer::Done(0)) => Ok(Advance::Done),
            // A sync that counts something, or a cancelled step after others that are all done: no system should.
            (Self::Sync, Answer::Done(_)) => fail(io::Error::from_raw_os_error(EIO)),
            (_, Answer::Cancelled) => fail(io::Error::other("cancelled behind steps that succeeded")),
            (_, Answer::Again) => Ok(Advance::Not),
            (_, Answer::Failed(errno)) => whole.failed(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AGAIN_MAX, Answer, BatchProgress, EIO, Failure, Step, SubmitOrder};
    use std::io;

    const CANCELLED: Answer = Answer::Cancelled;
    const SYNCED: Answer = Answer::Done(0);
    const WHOLE: Answer = Answer::Done(4096);

    fn batch(order: SubmitOrder, sync: bool) -> BatchProgress {
        BatchProgress::new([(4096, false), (4096, true), (4096, true)], order, sync).expect("fits")
    }

    fn one(order: SubmitOrder) -> BatchProgress {
        BatchProgress::new([(4096, true)], order, true).expect("fits")
    }

    fn write(piece: usize, done: usize) -> Step {
        Step::Write { piece, done, bytes: 4096 }
    }

    fn failure(taken: Result<(), Failure>) -> (Step, io::Error) {
        let Failure { step, error } = taken.expect_err("is an error");
        (step, error)
    }

    #[test]
    fn a_linked_batch_is_one_submission() {
        let mut linked = batch(SubmitOrder::Linked, true);
        assert_eq!(linked.due(), [write(0, 0), write(1, 0), Step::Sync, write(2, 0), Step::Sync]);
        linked.take(&[WHOLE, WHOLE, SYNCED, WHOLE, SYNCED]).expect("succeeds");
        assert!(linked.due().is_empty());
        let mut linked = batch(SubmitOrder::Linked, false);
        assert_eq!(linked.due(), [write(0, 0), write(1, 0), write(2, 0)]);
        assert!(linked.is_linked(), "the batch must not become durable before the header");
        linked.take(&[WHOLE, WHOLE, WHOLE]).expect("succeeds");
        assert!(linked.due().is_empty());
    }

    #[test]
    fn unlinked_steps_wait_before_each_sync_and_behind_it() {
        let grouped: [(&[Step], &[Answer]); 4] = [
            (&[write(0, 0), write(1, 0)], &[WHOLE, WHOLE]),
            (&[Step::Sync], &[SYNCED]),
            (&[write(2, 0)], &[WHOLE]),
            (&[Step::Sync], &[SYNCED]),
        ];
        let singly: [(&[Step], &[Answer]); 5] = [
            (&[write(0, 0)], &[WHOLE]),
            (&[write(1, 0)], &[WHOLE]),
            (&[Step::Sync], &[SYNCED]),
            (&[write(2, 0)], &[WHOLE]),
            (&[Step::Sync], &[SYNCED]),
        ];
        let mut without_syncs = batch(SubmitOrder::Grouped, false);
        assert_eq!(without_syncs.due(), [write(0, 0)], "the batch must not become durable before the header");
        without_syncs.take(&[WHOLE]).expect("succeeds");
        assert_eq!(without_syncs.due(), [write(1, 0)]);
        for (order, expected) in [(SubmitOrder::Grouped, &grouped[..]), (SubmitOrder::OneByOne, &singly[..])]
        {
            let mut unlinked = batch(order, true);
            for (due, answers) in expected {
                assert_eq!(unlinked.due(), *due);
                unlinked.take(answers).expect("succeeds");
            }
            assert!(unlinked.due().is_empty() && !unlinked.is_linked());
        }
    }

    #[test]
    fn a_short_write_breaks_the_link_and_is_taken_up_where_it_stopped() {
        let mut linked = batch(SubmitOrder::Linked, true);
        linked.take(&[WHOLE, Answer::Done(512), CANCELLED, CANCELLED, CANCELLED]).expect("goes on");
        assert_eq!(linked.due(), [write(1, 512), Step::Sync, write(2, 0), Step::Sync]);
        linked.take(&[Answer::Done(1024), CANCELLED, CANCELLED, CANCELLED]).expect("goes on");
        assert_eq!(linked.due(), [write(1, 1536), Step::Sync, write(2, 0), Step::Sync]);
        linked.take(&[Answer::Done(2560), SYNCED, WHOLE, SYNCED]).expect("succeeds");
        assert!(linked.due().is_empty());
    }

    #[test]
    fn what_was_interrupted_is_asked_again_but_not_for_ever() {
        let mut linked = one(SubmitOrder::Linked);
        linked.take(&[Answer::Again, CANCELLED]).expect("goes on");
        assert_eq!(linked.due(), [write(0, 0), Step::Sync]);
        linked.take(&[WHOLE, Answer::Again]).expect("goes on");
        assert_eq!(linked.due(), [Step::Sync]);
        let mut taken = Ok(());
        for _ in 0..=AGAIN_MAX {
            taken = taken.and_then(|()| linked.take(&[Answer::Again]));
        }
        assert_eq!(failure(taken).1.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn an_error_anywhere_ends_the_batch_with_its_step() {
        let failed = Answer::Failed(EIO);
        for (answers, step) in [
            ([failed, CANCELLED, CANCELLED, CANCELLED, CANCELLED], write(0, 0)),
            ([WHOLE, WHOLE, failed, CANCELLED, CANCELLED], Step::Sync),
            ([WHOLE, WHOLE, SYNCED, WHOLE, failed], Step::Sync),
            // After a short write: a second try must not cover it.
            ([WHOLE, Answer::Done(512), CANCELLED, CANCELLED, failed], Step::Sync),
        ] {
            let (at, error) = failure(batch(SubmitOrder::Linked, true).take(&answers));
            assert_eq!((at, error.raw_os_error()), (step, Some(EIO)));
        }
    }

    #[test]
    fn answers_that_no_system_should_give_are_errors() {
        assert_eq!(failure(one(SubmitOrder::Linked).take(&[WHOLE, CANCELLED])).0, Step::Sync);
        assert_eq!(
            failure(one(SubmitOrder::Linked).take(&[WHOLE, Answer::Done(7)])).1.raw_os_error(),
            Some(EIO)
        );
        let (_, nothing) = failure(one(SubmitOrder::Linked).take(&[SYNCED, CANCELLED]));
        assert_eq!(nothing.kind(), io::ErrorKind::WriteZero);
        assert!(BatchProgress::new([(1, true); 5], SubmitOrder::Linked, true).is_err(), "ten steps");
    }
}
