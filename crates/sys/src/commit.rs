//! Opens a row of the method table as a [`CommitHandle`], which writes and syncs; one loop drives any of them.
//!
//! ```text
//!   loop { commit.write(offset, bytes)?; commit.sync()?; }
//! ```
//!
//! When `sync` has returned, the transaction is as durable as the method's class says.
//!
//! Invariants:
//! * what short writes, `EINTR` and errors mean is decided in [`crate::completion`] and nowhere else;
//! * a method that cannot run here is refused by [`open`] with a reason; nothing is substituted;
//! * after an error the handle is finished: what it wrote is in an unknown state, and a second sync that
//!   succeeds would prove nothing (the kernel reports a failed write-back once).

use crate::completion::{Answer, BatchProgress, Failure, Step, SubmitOrder};
use crate::directory::{Create, Directory, OpenHow};
use crate::error::{Error, Result};
use crate::method::Method;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What a method is opened on.
#[derive(Debug, Clone)]
pub struct Target {
    /// The journal file, which exists, or a raw block device.
    pub path: PathBuf,
    /// Bytes of the journal that may be written; a mapping covers exactly these.
    pub journal_bytes: u64,
    /// Bytes of the largest write; registered buffers are made this large.
    pub write_bytes: usize,
}

impl Target {
    /// Opens its file for reading and writing with further flags of the system: in `directory`, or by its path.
    ///
    /// # Errors
    /// `open`, the path and the system's error.
    pub(crate) fn file(&self, directory: Option<&Directory>, flags: i32) -> Result<File> {
        let Some(directory) = directory else { return crate::os::open_file(&self.path, flags) };
        let name = self.path.file_name().and_then(std::ffi::OsStr::to_str);
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename));
        let how = OpenHow { write: true, create: Create::No, flags };
        name.and_then(|name| directory.open_with(name, how))
            .map_err(|error| Error::new("open", &self.path, error))
    }

    /// Whether writes by `method` cover only part of a page of the cache, which then must be there. Reading around the
    /// cache would bring nothing into it.
    #[cfg(any(target_os = "linux", windows))]
    pub(crate) fn fills_part_of_pages(&self, method: &Method) -> bool {
        method.cache != crate::method::Cache::Direct && !self.write_bytes.is_multiple_of(4096)
    }
}

/// Memory that an engine may register: it is written from again and again.
#[derive(Debug, Clone, Copy)]
pub struct NumberedBuffer<'a> {
    /// Its number, counted from 0. Memory under one number stays where it is until [`crate::engine::EngineContext::forget`].
    pub number: u16,
    /// All of it.
    pub memory: &'a [u8],
}

/// One write of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct BatchWrite<'a> {
    /// Where in the file, in bytes.
    pub offset: u64,
    /// What.
    pub bytes: &'a [u8],
    /// In which numbered buffer the bytes lie, if in any.
    pub buffer: Option<NumberedBuffer<'a>>,
    /// Whether this and every piece before it must be durable before the next one is begun.
    pub durable: bool,
}

/// A journal held open by one commit method, for one thread.
pub trait CommitHandle: Send {
    /// Writes all of `bytes` at `offset` (a position in the file, bytes).
    ///
    /// # Errors
    /// The failed call, the file and the system's error. The journal must not be written to again.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes what was written as durable as the method can. Does nothing for methods whose write did so.
    ///
    /// # Errors
    /// The failed call, the file and the system's error. The journal must not be written to again.
    fn sync(&mut self) -> Result<()>;

    /// Writes the pieces of a batch in their order, and makes them durable where they say so. Methods that can hand
    /// all of it to the kernel at once do so.
    ///
    /// # Errors
    /// As [`CommitHandle::write`].
    fn write_batch(&mut self, pieces: &[BatchWrite<'_>]) -> Result<()> {
        let lengths = pieces.iter().map(|piece| (piece.bytes.len(), piece.durable));
        let error_of = |failure: Failure| Error::new("write", "a batch", failure.error);
        let mut batch = BatchProgress::new(lengths, SubmitOrder::OneByOne, true).map_err(error_of)?;
        while let Some(step) = batch.due().first().copied() {
            let (result, bytes) = match step {
                Step::Write { piece, done, bytes } => {
                    let BatchWrite { offset, bytes: all, .. } = pieces[piece];
                    (self.write(offset + done as u64, &all[done..]), bytes - done)
                }
                Step::Sync => (self.sync(), 0),
            };
            let answer = result.as_ref().map_or_else(Answer::of_error, |()| Answer::Done(bytes));
            let taken = batch.take(&[answer]);
            taken.map_err(|failure| result.err().unwrap_or_else(|| error_of(failure)))?;
        }
        Ok(())
    }

    /// Memory of the method's own that it writes from, if it has such (a registered buffer): a transaction
    /// built there is spared a copy. As long as [`Target::write_bytes`].
    fn staging(&mut self) -> Option<&mut [u8]> {
        None
    }

    /// Writes the first `len` bytes of [`CommitHandle::staging`] at `offset`.
    ///
    /// # Errors
    /// As [`CommitHandle::write`]; `Unsupported` for a method without such memory.
    fn write_staged(&mut self, offset: u64, len: usize) -> Result<()> {
        let _ = (offset, len);
        Err(Error::new("write", "staging", io::ErrorKind::Unsupported.into()))
    }

    /// Brings the part of the journal at `range` into memory if this method's writes would otherwise read it
    /// first (a mapping, or buffered writes of part of a page), so that reading is not taken for committing.
    ///
    /// # Errors
    /// The failed call, the file and the system's error.
    fn warm(&mut self, range: Range<u64>) -> Result<()> {
        let _ = range;
        Ok(())
    }
}

/// Why a method cannot run here, in words that end up after `n/a:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why [`open`] gave no [`CommitHandle`].
#[derive(Debug)]
pub enum OpenError {
    /// The system, file system or device lacks the method.
    Unavailable(Unavailable),
    /// The method exists but a call failed.
    Failed(Error),
}

impl OpenError {
    /// An [`OpenError::Unavailable`] with its reason.
    #[must_use]
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable(Unavailable(reason.into()))
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(reason) => write!(f, "not available: {reason}"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

/// Opens `target` by `method`: by its path, or, with a `directory`, by its last name in that, which must be a regular file's; the
/// rest of the path is for messages then. A success does not prove that the method works (`O_DIRECT` opens fine where it
/// cannot write): see [`prove`].
///
/// # Errors
/// [`OpenError::Unavailable`] with a reason if this system, file system or device lacks the method;
/// [`OpenError::Failed`] if a call failed for another reason, such as a missing file.
pub fn open(
    method: &'static Method,
    target: &Target,
    directory: Option<&Directory>,
) -> std::result::Result<Box<dyn CommitHandle>, OpenError> {
    if method.system != crate::os::SYSTEM {
        return Err(OpenError::unavailable(format!("it needs {:?}", method.system)));
    }
    if method.needs_alignment() && !target.write_bytes.is_multiple_of(512) {
        return Err(OpenError::unavailable(format!(
            "writes around the cache must be multiples of the disk's logical block, 512 bytes or 4,096, and {} is not",
            target.write_bytes
        )));
    }
    crate::os::open(method, target, directory)
}

/// Proves that `method` works on the file system of `scratch`, opened as [`open`] does, by one real write and sync at its start,
/// which overwrites what is there.
///
/// # Errors
/// As [`open`]; a write or sync that the system calls invalid or unsupported is [`OpenError::Unavailable`].
pub fn prove(
    method: &'static Method,
    scratch: &Target,
    directory: Option<&Directory>,
) -> std::result::Result<(), OpenError> {
    let mut commit = open(method, scratch, directory)?;
    let bytes = crate::buffer::Aligned::zeroed(scratch.write_bytes);
    let proof = commit.write(0, bytes.as_slice()).and_then(|()| commit.sync());
    proof.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => {
            let needs = if method.since.starts_with("any") {
                String::new()
            } else {
                format!("; it needs {}", method.since)
            };
            let (operation, why) = (error.operation(), error.source_text());
            OpenError::unavailable(format!("{operation} was refused here ({why}){needs}"))
        }
        _ => OpenError::Failed(error),
    })
}

/// Writes all of `bytes` at `offset` by repeating `call`, which writes some of the bytes it is given and
/// returns how many, as pwrite(2) does.
pub(crate) fn write_all(
    operation: &'static str,
    path: &Path,
    offset: u64,
    bytes: &[u8],
    mut call: impl FnMut(u64, &[u8]) -> io::Result<usize>,
) -> Result<()> {
    let mut batch = BatchProgress::write(bytes.len());
    while let Some(Step::Write { done, .. }) = batch.due().first().copied() {
        let result = call(offset + done as u64, &bytes[done..]);
        let taken = batch.take(&[Answer::of_call(&result)]);
        taken.map_err(|failure| Error::new(operation, path, result.err().unwrap_or(failure.error)))?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SyncCall {
    pub(crate) name: &'static str,
    pub(crate) call: fn(&File) -> io::Result<()>,
}

impl SyncCall {
    pub(crate) fn run(self, file: &File, path: &Path) -> Result<()> {
        uninterrupted(self.name, path, || (self.call)(file))
    }
}

/// Reads `range` of `file` by `operation`, so that it is in the page cache.
#[allow(dead_code, reason = "macOS and illumos warm nothing")]
pub(crate) fn read_into_cache(
    operation: &'static str,
    file: &File,
    path: &Path,
    range: Range<u64>,
) -> Result<()> {
    let mut chunk = vec![0; 1 << 20];
    let mut offset = range.start;
    while offset < range.end {
        match crate::os::store::read_at(file, offset, &mut chunk) {
            Ok(0) => break,
            Ok(read) => offset += read as u64,
            Err(error) => return Err(Error::new(operation, path, error)),
        }
    }
    Ok(())
}

/// Makes `unsynced`, empty after a sync, cover `written` too, so that a sync of a range leaves out no write before it.
#[allow(dead_code, reason = "macOS and illumos sync no ranges")]
pub(crate) fn extend(unsynced: &mut Range<u64>, written: Range<u64>) {
    *unsynced = if unsynced.is_empty() {
        written
    } else {
        unsynced.start.min(written.start)..unsynced.end.max(written.end)
    };
}

/// Repeats `call` while a signal interrupts it. Most calls on files are never interrupted on a local disk, and each may be on a
/// file system that asks another machine or process.
pub(crate) fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The same.
pub(crate) fn uninterrupted(
    operation: &'static str,
    path: &Path,
    call: impl FnMut() -> io::Result<()>,
) -> Result<()> {
    again(call).map_err(|error| Error::new(operation, path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(answers: &[io::Result<usize>]) -> (Result<()>, Vec<(u64, usize)>) {
        let mut calls = Vec::new();
        let mut answers = answers.iter();
        let result = write_all("pwrite", Path::new("journal"), 100, &[7; 10], |offset, bytes| {
            calls.push((offset, bytes.len()));
            match answers.next().expect("no more calls than answers") {
                Ok(written) => Ok(*written),
                Err(error) => Err(error.kind().into()),
            }
        });
        (result, calls)
    }

    #[test]
    fn a_short_write_is_continued_where_it_stopped() {
        let (result, calls) = run(&[Ok(3), Ok(6), Ok(1)]);
        assert!(result.is_ok());
        assert_eq!(calls, [(100, 10), (103, 7), (109, 1)]);
    }

    #[test]
    fn a_sync_of_a_range_covers_every_write_since_the_last() {
        let mut unsynced = 0..0;
        extend(&mut unsynced, 8192..12_288);
        extend(&mut unsynced, 12_288..16_384);
        extend(&mut unsynced, 4096..4100);
        assert_eq!(std::mem::take(&mut unsynced), 4096..16_384);
        extend(&mut unsynced, 0..512);
        assert_eq!(unsynced, 0..512);
    }

    #[test]
    fn an_interrupted_write_is_repeated() {
        let (result, calls) = run(&[Err(io::ErrorKind::Interrupted.into()), Ok(10)]);
        assert!(result.is_ok());
        assert_eq!(calls, [(100, 10), (100, 10)]);
    }

    #[test]
    fn errors_and_empty_writes_end_it_with_their_cause() {
        let (result, calls) = run(&[Ok(4), Err(io::ErrorKind::StorageFull.into())]);
        let error = result.expect_err("a full disk is an error");
        assert_eq!((error.kind(), error.operation()), (io::ErrorKind::StorageFull, "pwrite"));
        assert_eq!(calls.len(), 2);
        let (result, _) = run(&[Ok(0)]);
        assert_eq!(result.expect_err("no progress is an error").kind(), io::ErrorKind::WriteZero);
    }
}
