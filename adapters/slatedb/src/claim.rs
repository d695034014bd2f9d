//! Has each writer name its log in the object store, so that a log that is no longer the newest is not replayed.
//!
//! A log is local, and a database can be opened elsewhere: with a log that was restored from an archive. The log that was left behind
//! lacks what was written since. So each writer puts an object beside the database before its first write:
//!
//! ```text
//! <database>/seawall-wal/<epoch, 20 digits> = <origin of the log, 32 hex digits> <its directory>
//! ```
//!
//! SlateDB gives each writer an epoch of its own. A log is the newest if it holds the epoch of the newest claim below, or if that claim
//! is its own: it has the same origin, a random number in the log's directory that no backup and no archive copies. A
//! writer that sees a claim above its own is fenced.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path as Dir;
use std::sync::Arc;

use slatedb::object_store::path::Path;
use slatedb::object_store::{self, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use slatedb::wal::WalError;

use crate::error::Error;

/// The claims of the writers of one database.
#[derive(Clone, Debug)]
pub(crate) struct Claims {
    store: Arc<dyn ObjectStore>,
    folder: Path,
}

/// What a writer is, and has.
pub(crate) struct Claimant<'a> {
    pub(crate) epoch: u64,
    pub(crate) origin: &'a str,
    pub(crate) dir: &'a Dir,
    /// The epoch of the last record of its log, 0 if there is none.
    pub(crate) newest: u64,
    /// What other logs have and this one has not is given up.
    pub(crate) accept_loss: bool,
}

impl Claims {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, database: &Path) -> Self {
        Self { store, folder: database.clone().join("seawall-wal") }
    }

    fn claim(&self, epoch: u64) -> Path {
        self.folder.clone().join(format!("{epoch:020}"))
    }

    /// Claims the database. After that every writer of an earlier epoch that has not begun is fenced.
    pub(crate) async fn make(&self, claimant: &Claimant<'_>) -> Result<(), WalError> {
        // A log that may not claim leaves no claim behind: that would keep the right one out.
        self.check(claimant).await?;
        let claim = self.claim(claimant.epoch);
        let text = format!("{} {}", claimant.origin, claimant.dir.display());
        let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&claim, text.into(), create).await {
            Err(object_store::Error::AlreadyExists { .. }) => return Err(WalError::Fenced),
            put => drop(put.map_err(Error::Store)?),
        }
        // Whoever claims below from now on sees this claim. Those who did between the look and the claim are seen now.
        let checked = self.check(claimant).await;
        if checked.is_err() {
            self.store.delete(&claim).await.map_err(Error::Store)?;
        }
        checked
    }

    async fn check(&self, claimant: &Claimant<'_>) -> Result<(), WalError> {
        let epochs = self.epochs().await?;
        if epochs.iter().any(|epoch| *epoch > claimant.epoch) {
            return Err(WalError::Fenced);
        }
        let Some(epoch) = epochs.into_iter().filter(|epoch| *epoch < claimant.epoch).max() else {
            return Ok(());
        };
        if claimant.accept_loss || claimant.newest >= epoch {
            return Ok(());
        }
        let object = self.store.get(&self.claim(epoch)).await.map_err(Error::Store)?;
        let bytes = object.bytes().await.map_err(Error::Store)?;
        let text = String::from_utf8_lossy(&bytes);
        let (origin, other) = text.split_once(' ').unwrap_or((&text, "?"));
        if origin == claimant.origin {
            return Ok(());
        }
        Err(Error::Stale { dir: claimant.dir.to_path_buf(), epoch, other: other.to_owned() }.into())
    }

    /// Removes the claims below `epoch`.
    pub(crate) async fn forget(&self, epoch: u64) -> Result<(), WalError> {
        for old in self.epochs().await?.into_iter().filter(|old| *old < epoch) {
            match self.store.delete(&self.claim(old)).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(Error::Store(error).into()),
            }
        }
        Ok(())
    }

    async fn epochs(&self) -> Result<Vec<u64>, WalError> {
        let listed = self.store.list_with_delimiter(Some(&self.folder)).await.map_err(Error::Store)?;
        let names = listed.objects.iter().filter_map(|object| object.location.filename()?.parse().ok());
        Ok(names.collect())
    }
}

/// The origin of the log in `dir`; a log without one gets one, which is durable when this returns.
pub(crate) fn origin(dir: &Dir) -> std::io::Result<String> {
    let path = dir.join("origin.slatedb");
    match fs::read_to_string(&path) {
        Ok(origin) if origin.len() == 32 => return Ok(origin),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        // A crash may leave an empty one, before anything was claimed with it.
        _ => {}
    }
    let origin = format!("{:032x}", fastrand::u128(..));
    let mut file = File::create(&path)?;
    file.write_all(origin.as_bytes())?;
    file.sync_all()?;
    File::open(dir)?.sync_all()?;
    Ok(origin)
}
