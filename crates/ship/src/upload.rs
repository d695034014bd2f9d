//! Creates the objects of an archive on a separate thread, while the next message is being made.
//!
//! Invariant: everything else that is asked of the archive waits until that thread is done, so that it sees what was stored.

use crate::archive::{Archive, Store};
use crate::destination::{Answer, Compacted, Destination, Follower, Identity, Keep, Removed};
use crate::error::{Error, Result};
use crate::failure::Facts;
use crate::manifest::Index;
use crate::message::Chain;
use seawall::RebuildTo;
use seawall_sys::clock::monotonic_ns;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an object that is being created is waited for at the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// An archive that answers later.
pub(crate) struct Upload<S> {
    archive: Arc<Mutex<Archive<S>>>,
    facts: Facts,
    address: String,
    folder: Option<PathBuf>,
    creating: Option<JoinHandle<()>>,
}

impl<S: Store + 'static> Upload<S> {
    pub(crate) fn new(archive: Archive<S>) -> Self {
        let (facts, address, folder) = (archive.facts().clone(), archive.address(), archive.folder());
        Self { archive: Arc::new(Mutex::new(archive)), facts, address, folder, creating: None }
    }

    /// Does `work` with the archive when no object is being created.
    fn with<T>(&mut self, work: impl FnOnce(&mut Archive<S>) -> Result<T>) -> Result<T> {
        self.finish()?;
        work(&mut self.archive.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S> Upload<S> {
    /// Waits for the object that is being created.
    fn finish(&mut self) -> Result<()> {
        let created = self.creating.take().map_or(Ok(()), JoinHandle::join);
        created.map_err(|_| {
            let panicked = std::io::Error::other("the thread that creates objects panicked");
            Error::unavailable("an object was not created, or no answer came", panicked)
        })
    }
}

impl<S> Drop for Upload<S> {
    fn drop(&mut self) {
        // What hangs for longer is left to its own end: for the next writer it is a message that comes late.
        let begun_ns = monotonic_ns();
        while self.creating.as_ref().is_some_and(|creating| !creating.is_finished())
            && Duration::from_nanos(monotonic_ns() - begun_ns) < PATIENCE
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

// Every method that an archive has: a default of the trait would hide its answer.
impl<S: Store + 'static> Destination for Upload<S> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn identity(&mut self) -> Result<Identity> {
        self.with(Archive::identity)
    }

    fn prepare(&mut self) -> Result<()> {
        self.with(Archive::prepare)
    }

    fn folder(&self) -> Option<PathBuf> {
        self.folder.clone()
    }

    fn head(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        self.with(|archive| archive.head(position))
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

    fn begin_untrimmed(&mut self, until: &RebuildTo) -> Result<Option<Chain>> {
        self.with(|archive| archive.begin_untrimmed(until))
    }

    fn index(&mut self) -> Result<Index> {
        self.with(Archive::index)
    }

    fn retain(&mut self, keep: &Keep, dry_run: bool) -> Result<Removed> {
        self.with(|archive| archive.retain(keep, dry_run))
    }

    fn record_progress(&mut self, follower: &Follower) -> Result<bool> {
        self.with(|archive| archive.record_progress(follower))
    }

    fn followers(&mut self) -> Result<Vec<Follower>> {
        self.with(Archive::followers)
    }

    fn compact(&mut self, dry_run: bool) -> Result<Compacted> {
        self.with(|archive| archive.compact(dry_run))
    }

    fn read_on(&mut self, position: u64, visit: &mut dyn FnMut(u64, &[u8]) -> Result<bool>) -> Result<u64> {
        self.with(|archive| archive.read_on(position, visit))
    }
}

#[cfg(test)]
mod tests {
    use super::Upload;
    use crate::archive::{Archive, ArchiveSettings, Store};
    use crate::destination::Destination as _;
    use crate::error::Result;
    use crate::writer::Outcome;
    use std::sync::mpsc;

    /// Keeps names, each when it is let.
    struct Gate(mpsc::Receiver<()>, Vec<String>);

    impl Store for Gate {
        fn name(&self) -> (String, bool) {
            ("a gate".to_owned(), true)
        }

        fn address(&self) -> String {
            "gate:".to_owned()
        }

        fn create(&mut self, name: &str, _: &[u8]) -> Result<bool> {
            self.0.recv().expect("is let");
            self.1.push(name.to_owned());
            Ok(true)
        }

        fn get(&mut self, _: &str, _: Option<usize>) -> Result<Option<Vec<u8>>> {
            Ok(None)
        }

        fn list(&mut self, prefix: &str, after: &str) -> Result<Vec<String>> {
            let named = self.1.iter().filter(|name| name.starts_with(prefix) && name.as_str() > after);
            Ok(named.cloned().collect())
        }

        fn remove(&mut self, _: &str) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_append_returns_before_its_object_is_there_and_everything_else_after() {
        let (let_it, gate) = mpsc::channel();
        let (told, answers) = mpsc::channel();
        let mut upload = Upload::new(Archive::new(Gate(gate, Vec::new()), ArchiveSettings::default()));
        for position in 1..=3 {
            let told = told.clone();
            upload.append(
                position,
                [7].into(),
                Box::new(move |outcome| told.send(outcome).expect("is heard")),
            );
            assert!(answers.try_recv().is_err(), "nothing was let in yet");
            let_it.send(()).expect("waits");
            assert_eq!(upload.last().expect("lists"), position);
            assert_eq!(answers.try_recv(), Ok(Outcome::Stored));
        }
    }
}
