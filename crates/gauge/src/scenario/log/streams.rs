//! Writers of the rows with streams: those of one log with many streams, and, to compare them with, as many logs.
//!
//! Invariants: no two threads commit to the same stream; every stream has had records before it is measured, and is trimmed
//! with the others; a log apart runs on space that was written before.

use super::contest::{Opening, SEGMENT_BYTES, Writers, seawall};
use crate::testbed::real::{Fault, Writer, rest};
use seawall::{Log, Lsn, Options, StreamId};
use std::sync::Arc;

const APART_BYTES_MIN: u64 = 4 << 20;
/// A separate log is warmed with this many segments' worth of bytes: more than all its files hold.
const APART_WARM_UP: u64 = 6;

pub(super) fn stream(number: u32) -> Result<StreamId, Fault> {
    StreamId::new(number).ok_or_else(|| format!("{number} is no stream").into())
}

struct StreamWriter {
    log: Arc<Log>,
    own: Vec<StreamId>,
    next: usize,
    /// What it trims: one of the writers trims for all, because the space is only free when all are trimmed.
    trims: Vec<StreamId>,
}

/// A writer for each thread, on a log that has the streams.
pub(super) fn writers_of_streams(log: &Arc<Log>, opening: &Opening<'_>) -> Result<Writers, Fault> {
    let all = (1..=opening.streams).map(stream).collect::<Result<Vec<_>, _>>()?;
    let mut end = Lsn::ZERO;
    for stream in &all {
        end = log.stream(*stream).append(&[0; 8])?.end;
    }
    log.commit(end)?;
    let writer = |thread: usize| -> Box<dyn Writer> {
        let own = all.iter().copied().skip(thread).step_by(opening.threads).collect();
        let trims = if thread == 0 { all.clone() } else { Vec::new() };
        Box::new(StreamWriter { log: Arc::clone(log), own, next: 0, trims })
    };
    Ok((0..opening.threads).map(writer).collect())
}

impl Writer for StreamWriter {
    #[inline]
    fn put(&mut self, record: &[u8]) -> Result<(), Fault> {
        let stream = self.own[self.next];
        self.next = if self.next + 1 == self.own.len() { 0 } else { self.next + 1 };
        self.log.stream(stream).append_commit(record)?;
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), Fault> {
        if self.trims.is_empty() {
            return Ok(());
        }
        for stream in &self.trims {
            let stream = self.log.stream(*stream);
            stream.trim(stream.next_seq())?;
        }
        self.log.commit(self.log.appended_lsn())?;
        self.log.trim(self.log.durable_lsn())?;
        // Some segments stay: the log does not rewrite what idle streams need of its last few.
        Ok(rest(&self.log, false)?)
    }

    fn log(&self) -> Option<&Arc<Log>> {
        Some(&self.log)
    }
}

/// Commits to a log of its own. It is no log that speaks for all: what the log counts is not read.
struct Apart(Arc<Log>);

pub(super) fn logs_apart(opening: &Opening<'_>) -> Result<Writers, Fault> {
    let bytes = (u64::from(SEGMENT_BYTES) / opening.threads.max(1) as u64).max(APART_BYTES_MIN);
    let record = seawall_sys::buffer::Aligned::incompressible(256 << 10, 7);
    let open = |thread: usize| -> Result<Box<dyn Writer>, Fault> {
        let folder = opening.folder.join(format!("log-{thread}"));
        let log = seawall(&Opening { folder: &folder, ..*opening }, Options::default().segment_bytes(bytes))?;
        let mut writer = Apart(log);
        for _ in 0..APART_WARM_UP {
            for _ in 0..bytes / record.as_slice().len() as u64 {
                writer.put(record.as_slice())?;
            }
            writer.tidy()?;
        }
        Ok(Box::new(writer))
    };
    (0..opening.threads).map(open).collect()
}

impl Writer for Apart {
    #[inline]
    fn put(&mut self, record: &[u8]) -> Result<(), Fault> {
        self.0.put(record)
    }

    fn tidy(&mut self) -> Result<(), Fault> {
        self.0.tidy()
    }
}
