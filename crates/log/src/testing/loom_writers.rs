//! Replaces the segment writers by file-less ones when `loom` explores the log's threads.
//!
//! It has the interface of `commit/segment_writers.rs`: a write succeeds at once, or fails if it is the one chosen to
//! fail. Compiled only with `--cfg loom`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seawall_sys::engine::EngineContext;

use crate::commit::seal::Job;
use crate::error::{Error, Result};
use crate::format::{BatchHeader, BatchKind};
use crate::method::relaxed::Rows;

/// Segment writers that write nothing.
#[derive(Debug)]
pub(crate) struct SegmentWriters {
    dir: PathBuf,
    pub(crate) rows: Rows,
    written: AtomicU64,
    fails: AtomicU64,
    closed: AtomicBool,
    #[cfg(feature = "simulation")]
    pub(crate) faults: Option<std::sync::Arc<crate::storage::faults::Faults>>,
}

impl SegmentWriters {
    pub(crate) fn new(
        dir: std::sync::Arc<seawall_sys::directory::Directory>,
        _: EngineContext,
        rows: Rows,
        _: usize,
        _: usize,
    ) -> Self {
        Self::nowhere(dir.path(), rows)
    }

    /// On no engine.
    pub(crate) fn nowhere(dir: &Path, rows: Rows) -> Self {
        Self {
            dir: dir.to_path_buf(),
            rows,
            written: AtomicU64::new(0),
            fails: AtomicU64::new(u64::MAX),
            closed: AtomicBool::new(false),
            #[cfg(feature = "simulation")]
            faults: None,
        }
    }

    /// Job number `job`, counted from 0, is to fail.
    pub(crate) fn fail(self, job: u64) -> Self {
        self.fails.store(job, Ordering::SeqCst);
        self
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn forget(&self, _: u16) -> bool {
        true
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn open(&self, _: u64, _: (u64, u64)) -> Result<()> {
        Ok(())
    }

    pub(crate) fn close_before(&self, _: u64) {}

    pub(crate) fn close(&self, _: u64) {}

    /// Whether the last batch that was written, with nothing else in flight, is a close mark.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn write(&self, job: &Job) -> Result<()> {
        // The disk is busy for a moment: other threads may run.
        crate::commit::sync::yield_now();
        let number = self.written.fetch_add(1, Ordering::SeqCst);
        if number == self.fails.load(Ordering::SeqCst) {
            return Err(Error::io("write", &self.dir, std::io::Error::from_raw_os_error(5)));
        }
        let last = job.writes().last().and_then(|write| BatchHeader::decode(write.bytes).ok());
        self.closed.store(last.is_some_and(|(header, _)| header.kind == BatchKind::Close), Ordering::SeqCst);
        Ok(())
    }
}
