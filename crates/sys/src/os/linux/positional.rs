//! Linux: runs the rows that write by `pwrite` or `pwritev2`, with any sync behind.
//!
//! Invariant: all rows share one write loop; the sync is chosen once, at open.

use super::call;
use crate::CommitHandle;
use crate::commit::{OpenError, SyncCall, Target, extend, read_into_cache, uninterrupted, write_all};
use crate::error::{Error, Result};
use crate::method::{Method, Sync};
use crate::os::unix::{FSYNC, open_file};
use rustix::io::ReadWriteFlags;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

pub(super) struct Positional {
    file: File,
    path: PathBuf,
    flags: ReadWriteFlags,
    sync: Syncing,
    /// From the first to the last byte written since the last sync, for calls that sync a range.
    unsynced: Range<u64>,
    /// Whether writes into the cache cover only part of a page, which then must be there.
    partial_pages: bool,
}

enum Syncing {
    None,
    /// On the journal's own descriptor.
    Same(SyncCall),
    /// On a second descriptor.
    Other(File, SyncCall),
    /// What was written since the last sync only.
    Range,
    /// In a thread that does nothing else.
    Thread(Option<Helper>),
}

/// A thread that syncs on demand.
struct Helper {
    demand: SyncSender<()>,
    done: Receiver<Result<()>>,
    thread: JoinHandle<()>,
}

pub(super) fn open(
    file: File,
    flags: ReadWriteFlags,
    method: &Method,
    target: &Target,
) -> std::result::Result<Positional, OpenError> {
    let sync = match method.sync {
        Sync::None => Syncing::None,
        Sync::Fsync => Syncing::Same(FSYNC),
        Sync::Fdatasync => Syncing::Same(call::FDATASYNC),
        Sync::Syncfs => Syncing::Same(call::SYNCFS),
        Sync::SyncFileRange => Syncing::Range,
        Sync::FdatasyncOtherDescriptor => {
            Syncing::Other(open_file(&target.path, libc::O_CLOEXEC)?, call::FDATASYNC)
        }
        Sync::FdatasyncOtherThread => Syncing::Thread(Some(Helper::start(&file, target)?)),
        other => return Err(OpenError::unavailable(format!("{other:?} does not go with pwrite on Linux"))),
    };
    let partial_pages = target.fills_part_of_pages(method);
    Ok(Positional { file, path: target.path.clone(), flags, sync, unsynced: 0..0, partial_pages })
}

impl CommitHandle for Positional {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let operation = if self.flags.is_empty() { "pwrite" } else { "pwritev2" };
        extend(&mut self.unsynced, offset..offset + bytes.len() as u64);
        write_all(operation, &self.path, offset, bytes, |offset, bytes| {
            call::write_at(&self.file, offset, bytes, self.flags)
        })
    }

    fn sync(&mut self) -> Result<()> {
        match &self.sync {
            Syncing::None => Ok(()),
            Syncing::Same(sync) => sync.run(&self.file, &self.path),
            Syncing::Other(file, sync) => sync.run(file, &self.path),
            Syncing::Range => {
                let Range { start, end } = std::mem::take(&mut self.unsynced);
                // A length of 0 would mean to the end of the file.
                if start == end {
                    return Ok(());
                }
                uninterrupted("sync_file_range", &self.path, || {
                    call::sync_file_range(&self.file, start, end - start)
                })
            }
            Syncing::Thread(helper) => helper.as_ref().map_or(Ok(()), |helper| helper.sync(&self.path)),
        }
    }

    fn warm(&mut self, range: Range<u64>) -> Result<()> {
        if self.partial_pages { read_into_cache("pread", &self.file, &self.path, range) } else { Ok(()) }
    }
}

impl Helper {
    fn start(file: &File, target: &Target) -> Result<Self> {
        let file = file.try_clone().map_err(|error| Error::new("dup", &target.path, error))?;
        let path = target.path.clone();
        let (demand, demands) = sync_channel::<()>(1);
        let (answer, done) = sync_channel(1);
        let run = move || {
            while demands.recv().is_ok() {
                if answer.send(call::FDATASYNC.run(&file, &path)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("seawall-sync".to_owned())
            .spawn(run)
            .map_err(|error| Error::new("clone", &target.path, error))?;
        Ok(Self { demand, done, thread })
    }

    fn sync(&self, path: &std::path::Path) -> Result<()> {
        let gone = || Error::new("fdatasync", path, std::io::ErrorKind::BrokenPipe.into());
        self.demand.send(()).map_err(|_| gone())?;
        self.done.recv().map_err(|_| gone())?
    }
}

impl Drop for Positional {
    fn drop(&mut self) {
        if let Syncing::Thread(helper) = &mut self.sync
            && let Some(Helper { demand, done, thread }) = helper.take()
        {
            drop(demand);
            drop(done);
            // The thread ends when its channel closes; a panic in it has already been printed.
            let _ = thread.join();
        }
    }
}
