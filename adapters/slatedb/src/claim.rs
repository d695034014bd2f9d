//! Has each writer name its log in the object store, so that a log that is no longer the newest is not replayed.
//!
//! A log is local, and a database can be opened elsewhere: with a log that was restored from an archive. The log that was left behind
//! lacks what was written since, and the restored one may lack what was not archived. So each writer puts an object beside the database
//! before its first write:
//!
//! ```text
//! <database>/seawall-wal/<epoch, 20 digits> = <origin of the log, 32 hex digits> <its directory>
//! ```
//!
//! SlateDB gives each writer an epoch of its own. A log is the newest if the newest claim below is its own: if it has the same origin, a
//! random number in the log's directory that no archive has. A writer that sees a claim above its own is fenced.
//! A claim that another writer makes between a look and the claim is no harm: SlateDB looks at its manifest again, where that writer is
//! fenced, before it writes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path as Dir;
use std::sync::Arc;

use seawall_sys::store::sync_directory;
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
    pub(crate) dir: &'a Dir,
    /// The origin of its log, and whether it is new.
    pub(crate) origin: &'a (String, bool),
    /// Whether its log has records.
    pub(crate) has_records: bool,
}

impl Claims {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, database: &Path) -> Self {
        Self { store, folder: database.clone().join("seawall-wal") }
    }

    fn claim(&self, epoch: u64) -> Path {
        self.folder.clone().join(format!("{epoch:020}"))
    }

    /// Claims the database; unless it `takes_over`, only with the newest log. After that every writer of an earlier epoch that has not
    /// begun is fenced.
    pub(crate) async fn make(&self, claimant: &Claimant<'_>, takes_over: bool) -> Result<(), WalError> {
        // A log that may not claim leaves no claim behind: that would keep the right one out.
        self.check(claimant, takes_over).await?;
        let claim = self.claim(claimant.epoch);
        let text = format!("{} {}", claimant.origin.0, claimant.dir.display());
        let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&claim, text.clone().into(), create).await {
            // Put by a request that was repeated because its answer was lost.
            Err(object_store::Error::AlreadyExists { .. }) if self.text(claimant.epoch).await? == text => {}
            Err(object_store::Error::AlreadyExists { .. }) => return Err(WalError::Fenced),
            put => drop(put.map_err(Error::Store)?),
        }
        // Whoever claims below from now on sees this claim. Those who did between the look and the claim are seen now.
        let checked = self.check(claimant, takes_over).await;
        if checked.is_err() {
            // What is wrong matters more than a claim that stays.
            drop(self.store.delete(&claim).await);
        }
        checked
    }

    async fn check(&self, claimant: &Claimant<'_>, takes_over: bool) -> Result<(), WalError> {
        let epochs = self.epochs().await?;
        if epochs.iter().any(|epoch| *epoch > claimant.epoch) {
            return Err(WalError::Fenced);
        }
        if takes_over {
            return Ok(());
        }
        let (dir, (origin, is_new)) = (claimant.dir.to_path_buf(), claimant.origin);
        let Some(epoch) = epochs.into_iter().filter(|epoch| *epoch < claimant.epoch).max() else {
            // A new origin has what was copied for a clone.
            let is_foreign = claimant.has_records && !is_new;
            return if is_foreign { Err(Error::OtherDatabase { dir }.into()) } else { Ok(()) };
        };
        let text = self.text(epoch).await?;
        let (other, other_dir) = text.split_once(' ').unwrap_or((&text, "?"));
        if other == origin {
            Ok(())
        } else {
            Err(Error::OtherLog { dir, epoch, other: other_dir.to_owned() }.into())
        }
    }

    async fn text(&self, epoch: u64) -> Result<String, WalError> {
        let object = self.store.get(&self.claim(epoch)).await.map_err(Error::Store)?;
        let bytes = object.bytes().await.map_err(Error::Store)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Removes the claims below `epoch`. One that stays changes nothing.
    pub(crate) async fn forget(&self, epoch: u64) {
        for old in self.epochs().await.unwrap_or_default().into_iter().filter(|old| *old < epoch) {
            drop(self.store.delete(&self.claim(old)).await);
        }
    }

    async fn epochs(&self) -> Result<Vec<u64>, WalError> {
        let listed = self.store.list_with_delimiter(Some(&self.folder)).await.map_err(Error::Store)?;
        let names = listed.objects.iter().filter_map(|object| object.location.filename()?.parse().ok());
        Ok(names.collect())
    }
}

/// The origin of the log in `dir`, and whether it got one now, which is durable when this returns.
pub(crate) fn origin(dir: &Dir) -> std::io::Result<(String, bool)> {
    let path = dir.join("origin.slatedb");
    match fs::read_to_string(&path) {
        Ok(origin) if origin.len() == 32 => return Ok((origin, false)),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        // A crash may leave an empty one, before anything was claimed with it.
        _ => {}
    }
    let origin = format!("{:032x}", fastrand::u128(..));
    let mut file = File::create(&path)?;
    file.write_all(origin.as_bytes())?;
    file.sync_all()?;
    sync_directory(dir).map_err(seawall_sys::Error::into_source)?;
    Ok((origin, true))
}
