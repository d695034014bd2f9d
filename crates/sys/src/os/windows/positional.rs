//! Windows: runs the rows that write by `WriteFile` at an offset, with any flush behind.
//!
//! Invariants: all rows share one write loop; the flush is chosen once, at open.

use super::call;
use super::ntdll::Flush;
use crate::CommitHandle;
use crate::commit::{OpenError, Target, read_into_cache, write_all};
use crate::error::{Error, Result};
use crate::method::{Method, Sync};
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

pub(super) struct Positional {
    file: File,
    path: PathBuf,
    sync: Syncing,
    /// Whether writes into the cache cover only part of a page, which then must be there.
    partial_pages: bool,
}

enum Syncing {
    None,
    FlushFileBuffers,
    Nt(Flush),
}

pub(super) fn open(
    file: File,
    method: &Method,
    target: &Target,
) -> std::result::Result<Positional, OpenError> {
    let sync = match method.sync {
        Sync::None => Syncing::None,
        Sync::FlushFileBuffers => Syncing::FlushFileBuffers,
        Sync::NtFlush(kind) => Syncing::Nt(Flush::find(kind, &file)?),
        other => return Err(OpenError::unavailable(format!("{other:?} is not Windows'"))),
    };
    let partial_pages = target.fills_part_of_pages(method);
    Ok(Positional { file, path: target.path.clone(), sync, partial_pages })
}

impl CommitHandle for Positional {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        write_all("WriteFile", &self.path, offset, bytes, |offset, bytes| {
            call::write_at(&self.file, offset, bytes)
        })
    }

    fn sync(&mut self) -> Result<()> {
        match self.sync {
            Syncing::None => Ok(()),
            Syncing::FlushFileBuffers => call::FLUSH.run(&self.file, &self.path),
            Syncing::Nt(flush) => {
                flush.run(&self.file).map_err(|error| Error::new("NtFlushBuffersFileEx", &self.path, error))
            }
        }
    }

    fn warm(&mut self, range: Range<u64>) -> Result<()> {
        if self.partial_pages { read_into_cache("ReadFile", &self.file, &self.path, range) } else { Ok(()) }
    }
}
