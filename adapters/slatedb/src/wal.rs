//! One log as the write-ahead log of one database: opened, fenced and trimmed.

use std::path::Path as Dir;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, SystemTime};

use seawall::{Durability, Error as LogError, Log, Lsn, Options, View};
use seawall_sys::clock::unix_us;
use slatedb::wal::{
    WalError, WalFileRange, WalGc, WalIterator, WalReader, WriterInit, WriterInitResult, WriterManifest,
};
use tokio::sync::RwLock;

use crate::claim::{Claimant, Claims, origin};
use crate::error::Error;
use crate::reader::{Reader, apart, batches, bounds};
use crate::record::{Batch, encode, id};
use crate::writer::{Progress, Writer};

/// Rows of so many bytes may have to be replayed before the memtable is flushed because of that.
const REPLAY_BYTES_MAX: u64 = 256 << 20;
/// The size of a record that only fills up a log.
const FILLER_BYTES: usize = 1 << 20;

/// The open log of one database. Clones share it; it is closed with the last one and the last database that uses it.
///
/// Give it to [`slatedb::DbBuilder::with_wal_writer`], and to [`slatedb::GarbageCollectorBuilder::with_wal_gc`]. A later writer of the same
/// process fences the earlier one; another process cannot open the log meanwhile.
#[derive(Clone)]
pub struct Wal {
    pub(crate) shared: Arc<Shared>,
    claims: Claims,
    accept_loss: bool,
}

/// What the writers of a log share.
pub(crate) struct Shared {
    pub(crate) log: Log,
    /// The epoch that may append. Who appends holds it for reading.
    pub(crate) turn: RwLock<u64>,
    pub(crate) replay_bytes_max: u64,
    origin: String,
    /// The newest writer, which is told of commits.
    writer: Mutex<Weak<Progress>>,
}

/// Looks for the log's threads what has become durable.
struct Told(Weak<Shared>);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        let Some(shared) = self.0.upgrade() else { return };
        let writer = shared.writer.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(writer) = writer {
            writer.look(&shared.log);
        }
    }
}

impl std::fmt::Debug for Wal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wal").field("dir", &self.shared.log.dir()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn open(dir: &Dir, options: Options) -> Result<Arc<Self>, Error> {
        let log = Log::open(dir, options)?;
        let failed =
            |source| LogError::Io { operation: "make the origin of", path: dir.to_path_buf(), source };
        let origin = origin(dir).map_err(failed)?;
        let (turn, writer) = (RwLock::new(0), Mutex::default());
        let shared = Arc::new(Self { log, turn, replay_bytes_max: REPLAY_BYTES_MAX, origin, writer });
        shared.log.watch(Waker::from(Arc::new(Told(Arc::downgrade(&shared)))));
        Ok(shared)
    }

    /// From now on `writer` is told of commits.
    pub(crate) fn watch(&self, writer: &Arc<Progress>) {
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(writer);
    }

    /// Where the last record starts, and its epoch; 0 if there is none.
    fn newest(&self) -> Result<(Lsn, u64), WalError> {
        let end = self.log.durable_lsn();
        let Some(last) = self.log.read_before(end).map_err(Error::Log)? else { return Ok((end, 0)) };
        Ok((last.lsn, Batch::decode(last.lsn, &last.payload)?.epoch))
    }

    /// Appends a record without rows, which only says which epoch writes now, and if records were lost further ones, until new rows
    /// get WAL file IDs above `replay_after`; returns the end.
    fn fence(&self, epoch: u64, replay_after: u64) -> Result<Lsn, WalError> {
        let mut end = self.log.append(&encode(epoch, &[])?).map_err(Error::Log)?.end;
        while end.get() < replay_after {
            let left = usize::try_from(replay_after - end.get()).unwrap_or(FILLER_BYTES).min(FILLER_BYTES);
            let filler = [encode(epoch, &[])?, vec![0; left]].concat();
            end = self.log.append(&filler).map_err(Error::Log)?.end;
        }
        self.log.commit(end).map_err(Error::Log)?;
        Ok(end)
    }
}

impl Wal {
    pub(crate) fn new(shared: Arc<Shared>, claims: Claims) -> Self {
        Self { shared, claims, accept_loss: false }
    }

    /// Opens the database with this log even if rows are missing in it that others wrote or that were lost with a disk: after a
    /// restore from an archive that lacked the newest records. Those rows are gone then, unless SlateDB has flushed them.
    #[must_use]
    pub fn accept_loss(mut self) -> Self {
        self.accept_loss = true;
        self
    }

    /// What an awaited write of the database outlives: the class that the log was opened for, on this machine's disk. The disk itself it
    /// does not outlive before the rows are flushed, or the log is shipped (`seawall log ship`).
    ///
    /// # Errors
    /// As [`View::open`].
    pub fn durability(&self) -> seawall::Result<Durability> {
        Ok(View::open(self.shared.log.dir())?.durability())
    }

    /// The log: its directory, positions and statistics.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    fn reader(&self) -> Reader {
        Reader::new(self.shared.log.dir().to_path_buf())
    }
}

#[async_trait::async_trait]
impl WriterInit for Wal {
    async fn fence_and_init(&self, manifest: &mut WriterManifest) -> Result<WriterInitResult, WalError> {
        let (epoch, replay_after) = (manifest.epoch(), manifest.replay_after_wal_id());
        // Appends of earlier writers are over when this has the turn.
        let mut turn = self.shared.turn.write().await;
        if *turn >= epoch {
            return Err(WalError::Fenced);
        }
        let shared = Arc::clone(&self.shared);
        let (end, newest) = apart(move || {
            let end = shared.log.appended_lsn();
            shared.log.commit(end).map_err(Error::Log)?;
            Ok((end, shared.newest()?.1))
        })
        .await?;
        let (origin, dir) = (self.shared.origin.as_str(), self.shared.log.dir());
        if end.get() < replay_after && !self.accept_loss {
            return Err(Error::Behind { dir: dir.to_path_buf(), end, replay_after }.into());
        }
        let claimant = Claimant { epoch, origin, dir, newest, accept_loss: self.accept_loss };
        self.claims.make(&claimant).await?;
        *turn = epoch;
        drop(turn);
        let shared = Arc::clone(&self.shared);
        let durable = apart(move || shared.fence(epoch, replay_after)).await?;
        self.claims.forget(epoch).await?;
        let replay_iterator = batches(dir, replay_after.saturating_add(1), Some(id(durable))).await?;
        let wal_writer = Box::new(Writer::new(Arc::clone(&self.shared), epoch, durable));
        Ok(WriterInitResult { replay_iterator, wal_writer })
    }
}

#[async_trait::async_trait]
impl WalReader for Wal {
    async fn iterator(&self, range: WalFileRange) -> Result<Box<dyn WalIterator>, WalError> {
        self.reader().iterator(range).await
    }

    async fn last_wal_file_id(&self, replay_after_wal_id: u64) -> Result<u64, WalError> {
        self.reader().last_wal_file_id(replay_after_wal_id).await
    }
}

#[async_trait::async_trait]
impl WalGc for Wal {
    async fn collect(
        &self,
        referenced_ranges: Vec<WalFileRange>,
        min_age: Duration,
        dry_run: bool,
    ) -> Result<(), WalError> {
        // All before the first one that is referenced; nothing if none is, because that says nothing of what is to come.
        let Some(first) = referenced_ranges.iter().map(|range| bounds(range).0).min() else { return Ok(()) };
        if dry_run {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        apart(move || {
            let old = Duration::from_micros(unix_us()).saturating_sub(min_age);
            let old = shared.log.lsn_at(SystemTime::UNIX_EPOCH + old).map_err(Error::Log)?;
            // The last record says who wrote the log.
            let (last, _) = shared.newest()?;
            let to = Lsn::new(first.saturating_sub(1)).min(old).min(last);
            if to > shared.log.first_lsn() {
                shared.log.trim(to).map_err(Error::Log)?;
            }
            Ok(())
        })
        .await
    }
}
