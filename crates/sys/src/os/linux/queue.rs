//! Submits requests to an `io_uring` and waits until the kernel no longer uses their memory.
//!
//! Invariants: * [`Queue::run`] returns only when the kernel is done with everything that it took: also when a call
//! failed, in which case the completions are awaited by polling the ring's memory, without another call; * after a
//! failed call the queue is finished: requests that the kernel had not taken are never taken, because the ring is not
//! entered again.

use crate::commit::{BatchWrite, NumberedBuffer, OpenError, Unavailable, again};
use crate::completion::{Answer, BatchProgress, Failure, STEPS_MAX, Step, SubmitOrder};
use crate::error::{Error, Result};
use crate::method::{RingPoll, Sync};
use crate::os::unix::take_low_descriptors;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::ReadWriteFlags;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

/// How often a queue whose call failed looks for the completions that are still to come.
const LOOK_AGAIN: Duration = Duration::from_micros(100);
const DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

/// The place for a file is empty.
const NO_FILE: i32 = -1;

/// The memory of `bytes` as the kernel wants it described; nothing for none.
fn vector(bytes: &[u8]) -> libc::iovec {
    let base = if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr() };
    libc::iovec { iov_base: base.cast_mut().cast(), iov_len: bytes.len() }
}

pub(super) struct Queue {
    uring: IoUring,
    finished: bool,
    /// Which of the places for buffers hold one.
    registered: Vec<bool>,
}

/// What a row says about its requests.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) rw_flags: ReadWriteFlags,
    pub(super) registered: bool,
    pub(super) poll: RingPoll,
    pub(super) sync: Sync,
}

/// The file that requests are for; with a registered row it stands in place 0 of the ring's table.
#[derive(Clone, Copy)]
pub(super) struct Journal<'a> {
    pub(super) file: &'a File,
    pub(super) path: &'a Path,
}

/// Why the kernel gave no ring, in words that name the remedy; nothing if it is a failure of another kind.
fn refusal(errno: i32, disabled: Option<&str>) -> Option<String> {
    let reason = match (errno, disabled) {
        (libc::ENOSYS, _) => {
            "this kernel has no io_uring, or a seccomp profile (as containers have) hides it: allow \
             io_uring_setup, io_uring_enter and io_uring_register there"
        }
        (libc::EPERM | libc::EACCES, Some("2")) => {
            "io_uring is forbidden: the sysctl kernel.io_uring_disabled is 2, set it to 0"
        }
        (libc::EPERM | libc::EACCES, Some("1")) => {
            "io_uring is forbidden: the sysctl kernel.io_uring_disabled is 1, set it to 0 or join the group of \
             kernel.io_uring_group"
        }
        (libc::EPERM | libc::EACCES, _) => {
            "io_uring is forbidden by a seccomp profile, as containers have: allow io_uring_setup, io_uring_enter and \
             io_uring_register there"
        }
        (libc::EINVAL, _) => "this kernel's io_uring lacks the ring flags",
        (libc::ENOMEM, _) => "no locked memory left for a ring: raise RLIMIT_MEMLOCK",
        _ => return None,
    };
    Some(reason.to_owned())
}

/// Sorts the answer of `io_uring_setup(2)` into reasons and failures.
fn refused(path: &Path, error: io::Error) -> OpenError {
    let disabled = std::fs::read_to_string(DISABLED).ok();
    let reason = error.raw_os_error().and_then(|errno| refusal(errno, disabled.as_deref().map(str::trim)));
    match reason {
        Some(reason) => OpenError::Unavailable(Unavailable(reason)),
        None => OpenError::Failed(Error::new("io_uring_setup", path, error)),
    }
}

impl Queue {
    /// A ring that learns of completions as `poll` says; `path` is for errors.
    pub(super) fn new(path: &Path, poll: RingPoll) -> std::result::Result<Self, OpenError> {
        let mut builder = IoUring::builder();
        match poll {
            RingPoll::Interrupt => {}
            RingPoll::Submission => {
                builder.setup_sqpoll(1000);
            }
            RingPoll::Completion => {
                builder.setup_iopoll();
            }
        }
        let entries = u32::try_from(STEPS_MAX).unwrap_or(8);
        take_low_descriptors();
        let uring = again(|| builder.build(entries)).map_err(|error| refused(path, error))?;
        Ok(Self { uring, finished: false, registered: Vec::new() })
    }

    /// Registers one buffer, in place 0, and room for one file. The kernel pins the pages: they outlive even being freed, so
    /// that this is never unsound, but a buffer that was freed is no longer the one that is registered.
    pub(super) fn register_only(&mut self, buffer: &[u8]) -> io::Result<()> {
        // SAFETY: the vector describes live memory while the call pins it; later the kernel reads the pinned pages,
        // which stay what they are even if the memory is given back.
        again(|| unsafe { self.uring.submitter().register_buffers(&[vector(buffer)]) })?;
        self.registered = vec![true];
        again(|| self.uring.submitter().register_files(&[NO_FILE]))
    }

    /// Makes empty slots for `buffers` buffers and one file.
    pub(super) fn make_places(&mut self, buffers: usize) -> io::Result<()> {
        let (empty, tags) = (vec![vector(&[]); buffers], vec![0; buffers]);
        // SAFETY: these vectors describe no memory at all.
        again(|| unsafe { self.uring.submitter().register_buffers2(&empty, &tags) })?;
        self.registered = vec![false; buffers];
        again(|| self.uring.submitter().register_files(&[NO_FILE]))
    }

    /// Registers a buffer in its place, if it is not there yet.
    pub(super) fn register(&mut self, buffer: NumberedBuffer<'_>) -> io::Result<()> {
        let place = usize::from(buffer.number);
        if self.registered.get(place) == Some(&false) {
            self.fill(buffer.number, buffer.memory)?;
            self.registered[place] = true;
        }
        Ok(())
    }

    /// Empties the place of a buffer that no request uses.
    pub(super) fn forget(&mut self, number: u16) -> io::Result<()> {
        let place = usize::from(number);
        if self.registered.get(place) == Some(&true) {
            self.fill(number, &[])?;
            self.registered[place] = false;
        }
        Ok(())
    }

    fn fill(&self, number: u16, memory: &[u8]) -> io::Result<()> {
        // SAFETY: as in `register_only`; an empty vector empties the place.
        again(|| unsafe {
            self.uring.submitter().register_buffers_update(number.into(), &[vector(memory)], None)
        })
    }

    pub(super) fn place(&self, file: Option<&File>) -> io::Result<()> {
        let descriptor = file.map_or(NO_FILE, AsRawFd::as_raw_fd);
        again(|| self.uring.submitter().register_files_update(0, &[descriptor])).map(drop)
    }

    /// Whether the kernel may yet take a request that it was not asked to take: only a polling ring does so.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Writes `pieces` and makes them durable as the row says.
    pub(super) fn write_batch(
        &mut self,
        journal: Journal<'_>,
        settings: Settings,
        pieces: &[BatchWrite<'_>],
    ) -> Result<()> {
        let (order, sync) = match settings.sync {
            Sync::RingFdatasync => (SubmitOrder::Grouped, true),
            Sync::RingLinkedFdatasync => (SubmitOrder::Linked, true),
            _ => (SubmitOrder::Linked, false),
        };
        let lengths = pieces.iter().map(|piece| (piece.bytes.len(), piece.durable));
        let batch = BatchProgress::new(lengths, order, sync).map_err(|failure| failed(journal, failure))?;
        self.drive(journal, settings, pieces, batch)
    }

    pub(super) fn sync(&mut self, journal: Journal<'_>, settings: Settings) -> Result<()> {
        self.drive(journal, settings, &[], BatchProgress::sync())
    }

    fn drive(
        &mut self,
        journal: Journal<'_>,
        settings: Settings,
        pieces: &[BatchWrite<'_>],
        mut batch: BatchProgress,
    ) -> Result<()> {
        while !batch.due().is_empty() {
            let count = batch.due().len();
            self.push(journal, settings, pieces, &batch)?;
            let mut results = [0; STEPS_MAX];
            let ran = self.run(&mut results[..count]);
            ran.map_err(|error| Error::new("io_uring_enter", journal.path, error))?;
            let answers = results.map(answer);
            batch.take(&answers[..count]).map_err(|failure| failed(journal, failure))?;
        }
        Ok(())
    }

    /// Puts what is due into the ring; all of it or nothing, or the queue is finished.
    fn push(
        &mut self,
        journal: Journal<'_>,
        settings: Settings,
        pieces: &[BatchWrite<'_>],
        batch: &BatchProgress,
    ) -> Result<()> {
        let due = batch.due();
        for (index, step) in due.iter().enumerate() {
            let linked = batch.is_linked() && index + 1 < due.len();
            let link = if linked { squeue::Flags::IO_LINK } else { squeue::Flags::empty() };
            let pushed =
                entry(*step, journal.file, (settings, &self.registered), pieces).is_some_and(|entry| {
                    let entry = entry.flags(link).user_data(index as u64);
                    // SAFETY: the entry refers to `pieces` and `journal`, which are borrowed until `drive` returns, and
                    // that returns only when the kernel is done with it: see the invariants.
                    unsafe { self.uring.submission().push(&entry) }.is_ok()
                });
            if !pushed {
                self.finished = true;
                return Err(Error::new(operation(*step), journal.path, io::ErrorKind::InvalidInput.into()));
            }
        }
        Ok(())
    }

    /// Submits what was pushed and gives the result of each.
    fn run(&mut self, results: &mut [i32]) -> io::Result<()> {
        if self.finished {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the ring failed earlier"));
        }
        let mut reaped = 0;
        while reaped < results.len() {
            match self.uring.submit_and_wait(results.len() - reaped) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nothing was taken for want of memory, or what has completed must be reaped first.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                Err(error) => {
                    self.finished = true;
                    let taken = results.len() - self.uring.submission().len();
                    while reaped < taken {
                        reaped += self.reap(results);
                        std::thread::sleep(LOOK_AGAIN);
                    }
                    return Err(error);
                }
            }
            reaped += self.reap(results);
        }
        Ok(())
    }

    fn reap(&mut self, results: &mut [i32]) -> usize {
        let mut reaped = 0;
        for completion in self.uring.completion() {
            let index = usize::try_from(completion.user_data()).unwrap_or(usize::MAX);
            if let Some(result) = results.get_mut(index) {
                *result = completion.result();
                reaped += 1;
            }
        }
        reaped
    }
}

fn answer(result: i32) -> Answer {
    match result.saturating_neg() {
        libc::EINTR | libc::EAGAIN => Answer::Again,
        libc::ECANCELED => Answer::Cancelled,
        errno if result < 0 => Answer::Failed(errno),
        _ => Answer::Done(usize::try_from(result).unwrap_or(0)),
    }
}

fn operation(step: Step) -> &'static str {
    match step {
        Step::Write { .. } => "io_uring write",
        Step::Sync => "io_uring fdatasync",
    }
}

fn failed(journal: Journal<'_>, failure: Failure) -> Error {
    Error::new(operation(failure.step), journal.path, failure.error)
}

/// The request for one step; nothing if the step lies outside its piece.
fn entry(
    step: Step,
    file: &File,
    (settings, registered): (Settings, &[bool]),
    pieces: &[BatchWrite<'_>],
) -> Option<squeue::Entry> {
    let fd = types::Fd(file.as_raw_fd());
    let Step::Write { piece, done, .. } = step else {
        let flags = types::FsyncFlags::DATASYNC;
        return Some(if settings.registered {
            opcode::Fsync::new(types::Fixed(0)).flags(flags).build()
        } else {
            opcode::Fsync::new(fd).flags(flags).build()
        });
    };
    let piece = pieces.get(piece)?;
    let rest = piece.bytes.get(done..)?;
    // Bytes that do not fit into a request go in several: the kernel would cut them too.
    let len = u32::try_from(rest.len()).unwrap_or(1 << 30);
    let (address, offset, flags) =
        (rest.as_ptr(), piece.offset + done as u64, settings.rw_flags.bits().cast_signed());
    let fixed = types::Fixed(0);
    let registered = |number: &u16| registered.get(usize::from(*number)) == Some(&true);
    Some(match piece.buffer.map(|buffer| buffer.number).filter(registered) {
        Some(buffer) if settings.registered => {
            opcode::WriteFixed::new(fixed, address, len, buffer).offset(offset).rw_flags(flags).build()
        }
        None if settings.registered => {
            opcode::Write::new(fixed, address, len).offset(offset).rw_flags(flags).build()
        }
        _ => opcode::Write::new(fd, address, len).offset(offset).rw_flags(flags).build(),
    })
}

#[cfg(test)]
mod tests {
    use super::{answer, refusal};
    use crate::completion::Answer;

    #[test]
    fn a_completion_is_a_count_or_a_negated_error() {
        for (result, meaning) in [
            (0, Answer::Done(0)),
            (4096, Answer::Done(4096)),
            (-libc::EINTR, Answer::Again),
            (-libc::EAGAIN, Answer::Again),
            (-libc::ECANCELED, Answer::Cancelled),
            (-libc::EIO, Answer::Failed(libc::EIO)),
        ] {
            assert_eq!(answer(result), meaning);
        }
    }

    #[test]
    fn every_refusal_names_its_remedy_and_other_errors_are_failures() {
        for (errno, disabled, remedy) in [
            (libc::ENOSYS, None, "allow io_uring_setup"),
            (libc::EPERM, Some("2"), "kernel.io_uring_disabled is 2, set it to 0"),
            (libc::EPERM, Some("1"), "kernel.io_uring_group"),
            (libc::EPERM, Some("0"), "allow io_uring_setup"),
            (libc::EACCES, None, "allow io_uring_setup"),
            (libc::ENOMEM, Some("0"), "raise RLIMIT_MEMLOCK"),
        ] {
            let reason = refusal(errno, disabled).expect("is a reason");
            assert!(reason.contains(remedy), "{errno}: {reason}");
        }
        assert_eq!(refusal(libc::EMFILE, Some("0")), None);
    }
}
