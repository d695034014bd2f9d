//! Reads the write batches of a log, in any process: of a range, or as they come.
//!
//! What waits for the disk or for a writer runs on threads of the runtime that may block.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall::{Error as LogError, Lsn, Record, View, ViewFollower, ViewReader};
use slatedb::wal::{WalError, WalFileRange, WalIterator, WalReader, WalRows};
use tokio::task::JoinHandle;

use crate::error::Error;
use crate::record::{Batch, id};

/// So many bytes of records are handed out at once.
const ROWS_BYTES: u64 = 1 << 20;
/// How long a thread waits for a new record: so long it may outlive its iterator.
const WAIT: Duration = Duration::from_millis(500);

/// Reads the log of a database whose writer may be this process, another one, or none.
#[derive(Clone, Debug)]
pub struct Reader {
    dir: PathBuf,
}

impl Reader {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }
}

/// The durable batches of a range.
struct Batches {
    /// `None` at the end.
    source: Option<Box<Source>>,
    /// The thread that reads. It outlives a call of [`WalIterator::next`] that is given up, so that no row is lost with that.
    reading: Option<JoinHandle<Read>>,
    /// The first WAL file ID that is not wanted.
    end: Option<u64>,
}

/// What a thread has read, and the source for the next one.
type Read = (Box<Source>, Result<Option<WalRows>, Error>);

#[expect(clippy::large_enum_variant, reason = "one for an iterator, in a box")]
enum Source {
    Read(ViewReader),
    Follow(ViewFollower),
}

impl Source {
    /// The next record; `None` at the end, or if none came for a while.
    fn next(&mut self) -> Result<Option<Record>, LogError> {
        match self {
            Self::Read(reader) => reader.next().transpose(),
            Self::Follow(follower) => match follower.next_record_timeout(WAIT) {
                Err(LogError::TimedOut { .. }) => Ok(None),
                next => next,
            },
        }
    }

    /// Those of the next records that are below `end`, some at a time.
    fn rows(&mut self, end: Option<u64>) -> Result<Option<WalRows>, Error> {
        let (mut found, mut bytes) = (WalRows { rows: Vec::new(), last_consumed_wal_file_id: 0 }, 0);
        while bytes < ROWS_BYTES {
            // What has been found is not kept waiting for more.
            let next = match self {
                Self::Follow(follower) if bytes > 0 => follower.try_next_record(),
                _ => self.next(),
            };
            let Some(record) = next? else { break };
            if end.is_some_and(|end| id(record.lsn) >= end) {
                break;
            }
            found.rows.extend(Batch::decode(record.lsn, &record.payload)?.rows());
            found.last_consumed_wal_file_id = id(record.lsn);
            bytes += record.end.since(record.lsn);
        }
        Ok((bytes > 0).then_some(found))
    }
}

/// Runs what may wait on a thread that may.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, WalError> {
    Ok(tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Reader))?)
}

/// The durable batches in `dir` from the file ID `start` on and before `end`; without `end` it waits for more.
pub(crate) async fn batches(
    dir: &Path,
    start: u64,
    end: Option<u64>,
) -> Result<Box<dyn WalIterator>, WalError> {
    let (dir, from) = (dir.to_path_buf(), Lsn::new(start.saturating_sub(1)));
    let source = apart(move || {
        let view = View::open(dir)?;
        Ok(match end {
            // What is wanted may begin where the log ends.
            Some(_) if from >= view.end_lsn() => None,
            Some(_) => Some(Box::new(Source::Read(view.read(from)?))),
            None => Some(Box::new(Source::Follow(view.follow(from)?))),
        })
    });
    Ok(Box::new(Batches { source: source.await?, reading: None, end }))
}

#[async_trait::async_trait]
impl WalIterator for Batches {
    async fn next(&mut self) -> Result<Option<WalRows>, WalError> {
        loop {
            let end = self.end;
            let reading = match (&mut self.reading, self.source.take()) {
                (Some(reading), _) => reading,
                (None, None) => return Ok(None),
                (None, Some(mut source)) => self.reading.insert(tokio::task::spawn_blocking(move || {
                    let found = source.rows(end);
                    (source, found)
                })),
            };
            let read = reading.await;
            self.reading = None;
            let (source, found) = read.map_err(|_| Error::Reader)?;
            let found = found?;
            let waits = matches!(*source, Source::Follow(_));
            self.source = (waits || found.is_some()).then_some(source);
            if found.is_some() || !waits {
                return Ok(found);
            }
        }
    }
}

/// The range as its first ID and the first one after it.
pub(crate) fn bounds(range: &WalFileRange) -> (u64, Option<u64>) {
    let start = match range.0 {
        Bound::Included(start) => start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.1 {
        Bound::Included(end) => Some(end.saturating_add(1)),
        Bound::Excluded(end) => Some(end),
        Bound::Unbounded => None,
    };
    (start, end)
}

#[async_trait::async_trait]
impl WalReader for Reader {
    async fn iterator(&self, range: WalFileRange) -> Result<Box<dyn WalIterator>, WalError> {
        let (start, end) = bounds(&range);
        batches(&self.dir, start, end).await
    }

    async fn last_wal_file_id(&self, replay_after_wal_id: u64) -> Result<u64, WalError> {
        let dir = self.dir.clone();
        let end = apart(move || Ok(View::open(dir)?.end_lsn())).await?;
        Ok(end.get().max(replay_after_wal_id))
    }
}
