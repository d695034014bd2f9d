//! One log as the write-ahead log of one database: opened, fenced and trimmed.

use std::path::Path as Dir;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, SystemTime};

use seawall::{Durability, Error as LogError, Log, Lsn, Options, View};
use seawall_sys::clock::unix_us;
use slatedb::wal::{WalError, WalFileRange, WalGc, WriterInit, WriterInitResult, WriterManifest};
use tokio::sync::RwLock;

use crate::claim::{Claimant, Claims, origin};
use crate::error::Error;
use crate::reader::{apart, batches, bounds};
use crate::record::{encode, id};
use crate::writer::{Progress, Writer};

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
    takes_over: bool,
}

/// What the writers of a log share.
pub(crate) struct Shared {
    pub(crate) log: Log,
    /// The epoch that may append. Who appends holds it for reading.
    pub(crate) turn: RwLock<u64>,
    /// The newest writer, which is notified of commits.
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
        let (turn, writer) = (RwLock::new(0), Mutex::default());
        let shared = Arc::new(Self { log, turn, writer });
        shared.log.watch(Waker::from(Arc::new(Told(Arc::downgrade(&shared)))));
        Ok(shared)
    }

    /// From now on `writer` is notified of commits.
    pub(crate) fn watch(&self, writer: &Arc<Progress>) {
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(writer);
    }

    /// Makes everything durable, and appends records without rows until new ones get WAL file IDs above `replay_after`; returns the end.
    fn fill_up(&self, replay_after: u64) -> Result<Lsn, Error> {
        let mut end = self.log.appended_lsn();
        while end.get() < replay_after {
            let left = usize::try_from(replay_after - end.get()).unwrap_or(FILLER_BYTES).min(FILLER_BYTES);
            let filler = [encode(&[])?, vec![0; left]].concat();
            end = self.log.append(&filler)?.end;
        }
        self.log.commit(end)?;
        Ok(end)
    }
}

impl Wal {
    pub(crate) fn new(shared: Arc<Shared>, claims: Claims) -> Self {
        Self { shared, claims, takes_over: false }
    }

    /// Opens the database with this log though another log was its newest: after a restore from an archive, on another machine. Rows that
    /// only that log has are lost, unless SlateDB has flushed them; `seawall log rebuild` says how far the restored log goes.
    #[must_use]
    pub fn take_over(mut self) -> Self {
        self.takes_over = true;
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
}

#[async_trait::async_trait]
impl WriterInit for Wal {
    async fn fence_and_init(&self, manifest: &mut WriterManifest) -> Result<WriterInitResult, WalError> {
        let (epoch, replay_after) = (manifest.epoch(), manifest.replay_after_wal_id());
        // Appends of earlier writers are over when this has the turn, and later ones begin when it is given back.
        let mut turn = self.shared.turn.write().await;
        if *turn >= epoch {
            return Err(WalError::Fenced);
        }
        let (end, dir) = (self.shared.log.appended_lsn(), self.shared.log.dir());
        let path = dir.to_path_buf();
        let made = move || {
            let made = origin(&path);
            let failed = |source| LogError::Io { operation: "make the origin of", path, source };
            Ok(made.map_err(failed)?)
        };
        let origin = apart(made).await?;
        if end.get() < replay_after && !self.takes_over {
            return Err(Error::Behind { dir: dir.to_path_buf(), end, replay_after }.into());
        }
        let claimant = Claimant { epoch, dir, origin: &origin, has_records: end > Lsn::ZERO };
        self.claims.make(&claimant, self.takes_over).await?;
        *turn = epoch;
        let shared = Arc::clone(&self.shared);
        let durable = apart(move || shared.fill_up(replay_after)).await?;
        self.claims.forget(epoch).await;
        let replay_iterator = batches(dir, replay_after.saturating_add(1), Some(id(durable))).await?;
        let wal_writer = Box::new(Writer::new(Arc::clone(&self.shared), epoch, durable));
        Ok(WriterInitResult { replay_iterator, wal_writer })
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
            let old = shared.log.lsn_at(SystemTime::UNIX_EPOCH + old)?;
            let to = Lsn::new(first.saturating_sub(1)).min(old);
            if to > shared.log.first_lsn() {
                shared.log.trim(to)?;
            }
            Ok(())
        })
        .await
    }
}
