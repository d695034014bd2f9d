//! Creates the objects of an archive on a thread of its own, so that the next message is made meanwhile.
//!
//! Invariant: everything else that is asked of the archive waits until that thread is done, so that it sees what was stored.

use crate::archive::{Archive, Store};
use crate::destination::{Answer, Destination};
use crate::error::{Error, Result};
use crate::failure::Facts;
use crate::message::Chain;
use crate::retention::{Keep, Removed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// An archive that answers later.
pub(crate) struct Upload<S> {
    archive: Arc<Mutex<Archive<S>>>,
    facts: Facts,
    address: String,
    creating: Option<JoinHandle<()>>,
}

impl<S: Store + 'static> Upload<S> {
    pub(crate) fn new(archive: Archive<S>) -> Self {
        let (facts, address) = (archive.facts().clone(), archive.address());
        Self { archive: Arc::new(Mutex::new(archive)), facts, address, creating: None }
    }

    /// Does `work` with the archive when no object is being created.
    fn with<T>(&mut self, work: impl FnOnce(&mut Archive<S>) -> Result<T>) -> Result<T> {
        if let Some(creating) = self.creating.take()
            && creating.join().is_err()
        {
            let panicked = std::io::Error::other("the thread that creates objects panicked");
            return Err(Error::unavailable("an object was not created, or no answer came", panicked));
        }
        work(&mut self.archive.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S> Drop for Upload<S> {
    fn drop(&mut self) {
        // Nothing is created behind the end of its writer.
        if let Some(creating) = self.creating.take()
            && creating.join().is_err()
        {
            tracing::error!("the thread that creates objects panicked");
        }
    }
}

impl<S: Store + 'static> Destination for Upload<S> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn append(&mut self, position: u64, bytes: Arc<[u8]>, answer: Answer) {
        let archive = Arc::clone(&self.archive);
        let create = move || {
            let mut archive = archive.lock().unwrap_or_else(PoisonError::into_inner);
            archive.append(position, bytes, answer);
        };
        // The answer is unknown, because it is dropped, if one before it panicked or there is no thread.
        let begun = self.with(|_| {
            let named = std::thread::Builder::new().name("seawall-upload".to_owned());
            named.spawn(create).map_err(|source| Error::unavailable("cannot start a thread", source))
        });
        match begun {
            Ok(creating) => self.creating = Some(creating),
            Err(error) => tracing::warn!(%error, position, "an object was not created"),
        }
    }

    fn read(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        self.with(|archive| archive.read(position))
    }

    fn begin(&mut self) -> Result<Chain> {
        self.with(Archive::begin)
    }

    fn last(&mut self) -> Result<u64> {
        self.with(Archive::last)
    }

    fn retain(&mut self, keep: &Keep, dry_run: bool) -> Result<Removed> {
        self.with(|archive| archive.retain(keep, dry_run))
    }

    fn read_on(&mut self, position: u64, visit: &mut dyn FnMut(u64, &[u8]) -> Result<bool>) -> Result<u64> {
        self.with(|archive| archive.read_on(position, visit))
    }
}
