//! Windows: runs the rows that write by `WriteFile` at an offset, with any flush behind.
//!
//! Invariants: all rows share one write loop; the flush is chosen once, at open.

use super::call;
use super::ntdll::Flush;
use crate::Commit;
use crate::commit::{OpenError, Target, write_all};
use crate::error::{Error, Result};
use crate::method::{Method, Sync};
use std::fs::File;
use std::ops::Range;
use std::os::windows::fs::FileExt;
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

impl Commit for Positional {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        write_all("WriteFile", &self.path, offset, bytes, |offset, bytes| {
            call::write_at(&self.file, offset, bytes)
        })
    }

    fn sync(&mut self) -> Result<()> {
        match self.sync {
            Syncing::None => Ok(()),
            Syncing::FlushFileBuffers => {
                call::flush(&self.file).map_err(|error| Error::new("FlushFileBuffers", &self.path, error))
            }
            Syncing::Nt(flush) => {
                flush.run(&self.file).map_err(|error| Error::new("NtFlushBuffersFileEx", &self.path, error))
            }
        }
    }

    fn warm(&mut self, range: Range<u64>) -> Result<()> {
        if self.partial_pages {
            let mut chunk = vec![0; 1 << 20];
            let mut offset = range.start;
            while offset < range.end {
                match self.file.seek_read(&mut chunk, offset) {
                    Ok(0) => break,
                    Ok(read) => offset += read as u64,
                    Err(error) => return Err(Error::new("ReadFile", &self.path, error)),
                }
            }
        }
        Ok(())
    }
}
