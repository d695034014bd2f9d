//! The logs of the databases below one directory: opened, copied for clones, removed.

use std::collections::HashMap;
use std::fs;
use std::path::{Path as Dir, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use seawall::{Error as LogError, Log, Lsn, Options, Record, View};
use seawall_sys::store::sync_directory;
use slatedb::VersionedManifest;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::wal::{WalAdmin, WalError, WalFileRange, WalGc};

use crate::claim::Claims;
use crate::error::Error;
use crate::reader::{Reader, apart, batches};
use crate::record::id;
use crate::wal::{Shared, Wal};

/// The logs of the databases of one object store, each in a directory below a root on the local disk: `db` of the database at `db`,
/// `tenant%%db` of that at `tenant/db`.
#[derive(Clone)]
pub struct Wals {
    root: PathBuf,
    options: Options,
    store: Arc<dyn ObjectStore>,
    open: Arc<Mutex<HashMap<Path, Weak<Shared>>>>,
}

impl std::fmt::Debug for Wals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wals").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Wals {
    /// Logs below `root`, opened with `options`, of databases in `store`. Opens nothing yet.
    #[must_use]
    pub fn new(root: impl AsRef<Dir>, options: Options, store: Arc<dyn ObjectStore>) -> Self {
        Self { root: root.as_ref().to_path_buf(), options, store, open: Arc::default() }
    }

    /// The log of the database at `path`, opened or created. A second call shares it. Open it before [`slatedb::DbBuilder::build`]:
    /// where another process has it, nothing of that process's database is fenced.
    ///
    /// # Errors
    /// [`Error::Log`]: as [`Log::open`].
    pub fn wal(&self, path: impl Into<Path>) -> Result<Wal, Error> {
        let path = path.into();
        let claims = Claims::new(Arc::clone(&self.store), &path);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, shared| shared.strong_count() > 0);
        if let Some(shared) = open.get(&path).and_then(Weak::upgrade) {
            return Ok(Wal::new(shared, claims));
        }
        let dir = self.dir(&path);
        let shared = Shared::open(&dir, self.options.clone())?;
        open.insert(path, Arc::downgrade(&shared));
        Ok(Wal::new(shared, claims))
    }

    /// A reader of the log of the database at `path`, for [`slatedb::DbReaderBuilder::with_wal_reader`], whichever process writes it.
    #[must_use]
    pub fn reader(&self, path: impl Into<Path>) -> Reader {
        Reader::new(self.dir(&path.into()))
    }

    /// Where the log of the database at `path` is: no directory of one lies in that of another. A `%` in a path has two digits after it.
    fn dir(&self, path: &Path) -> PathBuf {
        self.root.join(path.as_ref().replace('/', "%%"))
    }

    /// As [`Wals::wal`], but creates none.
    fn existing(&self, path: &Path) -> Result<Option<Wal>, Error> {
        let wals = Self { options: self.options.clone().create(false), ..self.clone() };
        match wals.wal(path.clone()) {
            Ok(wal) => Ok(Some(wal)),
            Err(Error::Log(LogError::NotALog { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Collects the garbage of a log that is opened for it, if it is not open.
struct Collector {
    wals: Wals,
    path: Path,
}

#[async_trait::async_trait]
impl WalGc for Collector {
    async fn collect(
        &self,
        referenced_ranges: Vec<WalFileRange>,
        min_age: Duration,
        dry_run: bool,
    ) -> Result<(), WalError> {
        let (wals, path) = (self.wals.clone(), self.path.clone());
        match apart(move || wals.existing(&path)).await? {
            Some(wal) => wal.collect(referenced_ranges, min_age, dry_run).await,
            None => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl WalAdmin for Wals {
    fn garbage_collector(&self, path: &Path) -> Arc<dyn WalGc> {
        Arc::new(Collector { wals: self.clone(), path: path.clone() })
    }

    async fn delete_wal(&self, path: &Path, dry_run: bool) -> Result<Vec<String>, WalError> {
        let (wals, path) = (self.clone(), path.clone());
        apart(move || {
            let dir = wals.dir(&path);
            // Opened, so that the log of a writer is not removed under it.
            let log = match Log::open(&dir, wals.options.clone().create(false)) {
                Err(LogError::NotALog { .. }) => return Ok(Vec::new()),
                opened => opened?,
            };
            if !dry_run {
                log.close()?;
                let failed = |source| LogError::Io { operation: "remove", path: dir.clone(), source };
                fs::remove_dir_all(&dir).map_err(failed)?;
            }
            Ok(vec![dir.display().to_string()])
        })
        .await
    }

    async fn is_empty(&self, path: &Path, after: u64, last: u64) -> Result<bool, WalError> {
        let dir = self.dir(path);
        if after >= last {
            return Ok(true);
        }
        let mut rows = batches(&dir, after.saturating_add(1), Some(last.saturating_add(1))).await?;
        while let Some(found) = rows.next().await? {
            if !found.rows.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn clone_wal(
        &self,
        from_path: &Path,
        from_manifest: VersionedManifest,
        to_path: &Path,
    ) -> Result<(u64, u64), WalError> {
        let (from, to) = (self.dir(from_path), self.dir(to_path));
        let rows = (from_manifest.replay_after_wal_id(), from_manifest.next_wal_sst_id());
        let options = self.options.clone();
        apart(move || copy(&from, rows, &to, options)).await
    }
}

/// Copies the records after the WAL file ID `after` and before `next` into a new log, in one step: a copy that was cut short is begun again.
/// Returns the ID after which the rows of the new log are replayed, and its last one.
fn copy(from: &Dir, (after, next): (u64, u64), to: &Dir, options: Options) -> Result<(u64, u64), Error> {
    let failed = |source| LogError::Io { operation: "copy the log to", path: to.to_path_buf(), source };
    let view = View::open(from)?;
    let is_wanted =
        |record: &Result<Record, LogError>| record.as_ref().map_or(true, |record| id(record.lsn) < next);
    let records = view.read(Lsn::new(after))?.take_while(is_wanted);
    if to.exists() {
        // A copy that was finished, or another log.
        let exists = || Error::Exists { dir: to.to_path_buf() };
        let copy = View::open(to)?;
        let mut copied =
            copy.read(Lsn::ZERO)?.map(|record| record.map(|record| record.payload.to_vec()).ok());
        for record in records {
            if copied.next() != Some(Some(record?.payload.to_vec())) {
                return Err(exists());
            }
        }
        let is_longer = copied.next().is_some();
        return if is_longer { Err(exists()) } else { Ok((0, copy.end_lsn().get())) };
    }
    let mut partial = to.as_os_str().to_owned();
    partial.push("%partial");
    let partial = PathBuf::from(partial);
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(failed)?;
    }
    let log = Log::open(&partial, options.create(true))?;
    let mut end = Lsn::ZERO;
    for record in records {
        end = log.append(&record?.payload)?.end;
    }
    log.close()?;
    fs::rename(&partial, to).map_err(failed)?;
    sync_directory(to.parent().unwrap_or(to)).map_err(|error| failed(error.into_source()))?;
    Ok((0, end.get()))
}
