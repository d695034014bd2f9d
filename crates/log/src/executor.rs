//! Executes the write and sync jobs of a batch on a [`Disk`] that completes operations later; used by the simulator.
//!
//! Each job has one [`Execution`]: it first syncs the sync debt that the job has to pay; it submits a write; if the
//! write is not durable by itself and must be, it submits a sync after the write was reaped; then the next write. A
//! short write is continued where it stopped. Any error ends the job for good.

use std::io;

use crate::asked::Grade;
use crate::disk::{Completion, Disk, FileId, Op, Token};
use crate::mutant::{self, Mutant};
use crate::seal::{Job, Write};

/// How a job ends.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Not yet.
    Pending,
    /// Everything is durable.
    Done,
    /// Something failed; what is on disk is unknown.
    Failed(#[allow(dead_code, reason = "kept for whoever prints it")] io::Error),
}

#[derive(Debug)]
struct Waiting {
    token: Token,
    write: usize,
    from: usize,
}

/// One job under way.
#[derive(Debug)]
pub(crate) struct Execution {
    job: Job,
    file: FileId,
    dsync: bool,
    /// Which of the job's writes is under way.
    at: usize,
    waiting: Vec<Waiting>,
    sync: Option<Token>,
    /// The sync of what was written in a weaker grade before.
    settling: Option<Token>,
}

impl Execution {
    /// Submits the first writes of `job` to `file`, or first a sync of `settle`, the file of the segment that the job
    /// settles. With `dsync` each write is durable on completion, otherwise a sync follows, unless a weaker grade will
    /// do.
    pub(crate) fn start<D: Disk>(
        disk: &mut D,
        job: Job,
        (file, settle): (FileId, Option<FileId>),
        dsync: bool,
    ) -> Self {
        let weak = job.grade != Grade::Full;
        let settle = settle.filter(|_| job.settles_first(!dsync).is_some());
        let (dsync, waiting) = (dsync && !weak, Vec::new());
        let mut execution = Self { job, file, dsync, at: 0, waiting, sync: None, settling: None };
        if let Some(file) = settle {
            execution.settling = Some(disk.submit(Op::Sync { file }));
            return execution;
        }
        if mutant::on(Mutant::StartWithTheBatch) {
            while execution.write(execution.at + 1).is_some() {
                execution.submit(disk);
                execution.at += 1;
            }
        }
        execution.submit(disk);
        execution
    }

    /// The job.
    pub(crate) fn into_job(self) -> Job {
        self.job
    }

    fn write(&self, number: usize) -> Option<Write<'_>> {
        self.job.writes().nth(number)
    }

    fn submit<D: Disk>(&mut self, disk: &mut D) {
        self.submit_write(disk, self.at, 0);
        if mutant::on(Mutant::SyncBesideWrites) && !self.dsync {
            self.sync = Some(disk.submit(Op::Sync { file: self.file }));
        }
    }

    fn submit_write<D: Disk>(&mut self, disk: &mut D, write: usize, from: usize) {
        let Some(whole) = self.write(write) else { return };
        let offset = whole.offset + from as u64;
        let op = Op::Write { file: self.file, offset, buf: &whole.bytes[from..], dsync: self.dsync };
        let token = disk.submit(op);
        self.waiting.push(Waiting { token, write, from });
    }

    /// Whether this job submitted `token`.
    pub(crate) fn owns(&self, token: Token) -> bool {
        self.sync == Some(token)
            || self.settling == Some(token)
            || self.waiting.iter().any(|waiting| waiting.token == token)
    }

    /// Takes in one completion.
    pub(crate) fn completed<D: Disk>(&mut self, disk: &mut D, completion: Completion) -> Outcome {
        let Completion { token, result } = completion;
        if self.settling == Some(token) {
            self.settling = None;
            return match result {
                Err(error) if !mutant::on(Mutant::SettleErrorIgnored) => Outcome::Failed(error),
                _ if self.write(self.at).is_none() => Outcome::Done,
                _ => {
                    self.submit(disk);
                    Outcome::Pending
                }
            };
        }
        if self.sync == Some(token) {
            self.sync = None;
            return match result {
                Err(_) if mutant::on(Mutant::SyncRetried) => {
                    self.sync = Some(disk.submit(Op::Sync { file: self.file }));
                    Outcome::Pending
                }
                Err(error) if !mutant::on(Mutant::SyncErrorIgnored) => Outcome::Failed(error),
                _ if !self.waiting.is_empty() => Outcome::Pending,
                _ => self.write_ended(disk),
            };
        }
        let Some(at) = self.waiting.iter().position(|waiting| waiting.token == token) else {
            return Outcome::Pending;
        };
        let Waiting { write, from, .. } = self.waiting.swap_remove(at);
        let wanted = self.write(write).map_or(0, |whole| whole.bytes.len());
        match result {
            Ok(0) => return Outcome::Failed(io::ErrorKind::WriteZero.into()),
            Ok(written) if from + written < wanted && !mutant::on(Mutant::ShortWriteIgnored) => {
                self.submit_write(disk, write, from + written);
                return Outcome::Pending;
            }
            Err(error) if !mutant::on(Mutant::WriteErrorIgnored) => return Outcome::Failed(error),
            _ => {}
        }
        if !self.waiting.is_empty() || self.sync.is_some() {
            return Outcome::Pending;
        }
        let weak = self.job.grade != Grade::Full;
        if self.dsync || weak || mutant::on(Mutant::NoSync) || mutant::on(Mutant::SyncBesideWrites) {
            return self.write_ended(disk);
        }
        self.sync = Some(disk.submit(Op::Sync { file: self.file }));
        Outcome::Pending
    }

    fn write_ended<D: Disk>(&mut self, disk: &mut D) -> Outcome {
        self.at += 1;
        if self.write(self.at).is_none() {
            return Outcome::Done;
        }
        self.submit(disk);
        Outcome::Pending
    }
}
