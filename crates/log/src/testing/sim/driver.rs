//! Submits and reaps one batch on a simulated disk that completes operations later.
//!
//! [`seawall_sys::completion`] decides what is submitted when and what the completions mean, as it does for the
//! system's own calls and rings; this file only submits and reaps.

use std::io;

use seawall_sys::completion::{Answer, BatchProgress, Failure, Step, SubmitOrder};

use crate::commit::seal::Job;
use crate::method::ack_level::AckLevel;
use crate::storage::disk::{Completion, Disk, FileId, Op, Token};

/// How a job ends.
#[derive(Debug)]
pub(super) enum JobState {
    Pending,
    /// The batch is as durable as its level says.
    Done,
    /// Something failed; what is on disk is unknown.
    Failed(#[allow(dead_code, reason = "printed by tests")] io::Error),
}

/// A step that was submitted, and what the disk said.
#[derive(Clone, Copy, Debug)]
struct Submitted {
    step: Step,
    token: Option<Token>,
    answer: Option<Answer>,
}

/// One job in flight.
#[derive(Debug)]
pub(super) struct Execution {
    job: Job,
    file: FileId,
    dsync: bool,
    batch: BatchProgress,
    submitted: Vec<Submitted>,
    /// The sync of what was written at a relaxed level before.
    first_sync: Option<Token>,
}

impl Execution {
    /// Submits the first steps of `job` to `file`, or first a sync of `sync_first`, the file of the segment that the job
    /// syncs first. With `dsync` each write is durable on completion, otherwise syncs follow, unless a relaxed level will do.
    ///
    /// # Errors
    /// More steps than a batch may have.
    pub(super) fn start<D: Disk>(
        disk: &mut D,
        job: Job,
        (file, sync_first): (FileId, Option<FileId>),
        (dsync, order): (bool, SubmitOrder),
    ) -> Result<Self, Failure> {
        let relaxed = job.level != AckLevel::Full;
        let sync_first = sync_first.filter(|_| job.needs_sync_first(!dsync).is_some());
        let lengths: Vec<(usize, bool)> = job.writes().map(|write| (write.bytes.len(), true)).collect();
        let batch = BatchProgress::new(lengths, order, !dsync && !relaxed)?;
        let dsync = dsync && !relaxed;
        let mut execution = Self { job, file, dsync, batch, submitted: Vec::new(), first_sync: None };
        match sync_first {
            Some(file) => execution.first_sync = Some(disk.submit(Op::Sync { file })),
            None => execution.submit(disk),
        }
        Ok(execution)
    }

    pub(super) fn into_job(self) -> Job {
        self.job
    }

    /// Submits what is due: all of it, or the first step of a chain of linked ones.
    fn submit<D: Disk>(&mut self, disk: &mut D) {
        let step = |step: &Step| Submitted { step: *step, token: None, answer: None };
        self.submitted = self.batch.due().iter().map(step).collect();
        let together = if self.batch.is_linked() { 1 } else { self.submitted.len() };
        (0..together.min(self.submitted.len())).for_each(|index| self.submit_step(disk, index));
    }

    fn submit_step<D: Disk>(&mut self, disk: &mut D, index: usize) {
        let token = match self.submitted[index].step {
            Step::Sync => Some(disk.submit(Op::Sync { file: self.file })),
            Step::Write { piece, done, .. } => self.job.writes().nth(piece).map(|write| {
                let (offset, buf) = (write.offset + done as u64, &write.bytes[done..]);
                disk.submit(Op::Write { file: self.file, offset, buf, dsync: self.dsync })
            }),
        };
        self.submitted[index].token = token;
    }

    pub(super) fn owns(&self, token: Token) -> bool {
        self.first_sync == Some(token) || self.place(token).is_some()
    }

    fn place(&self, token: Token) -> Option<usize> {
        self.submitted.iter().position(|one| one.token == Some(token) && one.answer.is_none())
    }

    /// Takes in one completion.
    pub(super) fn completed<D: Disk>(&mut self, disk: &mut D, completion: Completion) -> JobState {
        let Completion { token, result } = completion;
        if self.first_sync == Some(token) {
            self.first_sync = None;
            if let Err(error) = Job::first_sync(result) {
                return JobState::Failed(error);
            }
            return self.go_on(disk);
        }
        let Some(index) = self.place(token) else { return JobState::Pending };
        let answer = Answer::of_call(&result);
        self.submitted[index].answer = Some(answer);
        if self.batch.is_linked() {
            match self.submitted.get(index + 1) {
                Some(_) if succeeded(self.submitted[index].step, answer) => self.submit_step(disk, index + 1),
                _ => self.submitted[index + 1..]
                    .iter_mut()
                    .for_each(|one| one.answer = Some(Answer::Cancelled)),
            }
        }
        let answers: Option<Vec<Answer>> = self.submitted.iter().map(|one| one.answer).collect();
        let Some(answers) = answers else { return JobState::Pending };
        match self.batch.take(&answers) {
            Err(failure) => JobState::Failed(failure.error),
            Ok(()) => self.go_on(disk),
        }
    }

    fn go_on<D: Disk>(&mut self, disk: &mut D) -> JobState {
        if self.batch.due().is_empty() {
            return JobState::Done;
        }
        self.submit(disk);
        JobState::Pending
    }
}

/// Whether the system runs the step that is linked to this one.
fn succeeded(step: Step, answer: Answer) -> bool {
    match (step, answer) {
        (Step::Write { done, bytes, .. }, Answer::Done(written)) => done + written == bytes,
        (Step::Sync, Answer::Done(0)) => true,
        _ => false,
    }
}
