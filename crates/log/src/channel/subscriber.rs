//! The follower's side: finds the page of the writer that holds a log, reads it and sleeps on it.
//!
//! Invariants: everything in the page is untrusted; a page that does not speak for this log, or that cannot wake this
//! process, is refused with a reason.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use seawall_sys::directory::Directory;
use seawall_sys::planted;
use seawall_sys::shared_memory::{self, SharedFile};

use crate::channel::words::{Field, FollowerWords, Published, look, sleep_past};
use crate::channel::{HEADER_BYTES, Owner, PAGE_BYTES, at, named};
use crate::format::LogId;

/// How often a number is read until it was the same twice.
const READS_MAX: u32 = 100;

/// A writer's page.
#[derive(Debug)]
pub(crate) struct Subscriber {
    file: SharedFile,
    name: String,
    /// The next tag to sleep by; where it begins no other follower is.
    tag: AtomicU32,
}

/// Whose page it is, if it is one.
pub(crate) fn owner(file: &SharedFile) -> io::Result<Option<Owner>> {
    let mut header = [0; HEADER_BYTES];
    file.read(0, &mut header)?;
    Ok(Owner::decode(&header))
}

impl Subscriber {
    /// Opens the page of the writer of the log in `dir`, whose newest batch is of `epoch`.
    ///
    /// # Errors
    /// Why there is none that wakes this process.
    pub(crate) fn connect(dir: &Directory, log_id: LogId, epoch: u64) -> Result<Self, String> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| format!("{what}: {error}")
        };
        let (name, lock) =
            named(dir).map_err(failed("LOCK"))?.ok_or("the writer shares no memory with followers")?;
        let folder = shared_memory::folder().map_err(failed("shared memory"))?;
        let file = SharedFile::open(&folder, &name, PAGE_BYTES);
        let what = format!("the writer's page {}", folder.path().join(&name).display());
        let file = file.map_err(failed(&what))?;
        let boot = shared_memory::boot_id().map_err(failed("the boot's identity"))?;
        let lock_id = shared_memory::identity(&lock).map_err(failed("LOCK"))?;
        let expected = Owner { log_id, epoch, boot, lock: lock_id };
        // Names in that folder are free to everyone once they are removed.
        if !file.has_owner_of(&lock).map_err(failed(&what))? {
            return Err(format!("{what}: another user made it"));
        }
        let found = owner(&file).map_err(failed(&what))?;
        let refusal = found.map_or(Some("it is no page of a log"), |owner| {
            planted!(BelieveStaleChannel, owner.refusal(&expected))
        });
        if let Some(refusal) = refusal {
            return Err(format!("{what}: {refusal}"));
        }
        let tag = AtomicU32::new(u32::from_le_bytes(LogId::random().0[..4].try_into().unwrap_or_default()));
        let subscriber = Self { file, name, tag };
        if subscriber.file.is_writable() || subscriber.number(super::ALWAYS).map_err(failed(&what))? == 1 {
            Ok(subscriber)
        } else {
            Err(format!("{what}: this user may not say there that it sleeps"))
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether `LOCK` still names this page.
    pub(crate) fn is_named(&self, dir: &Directory) -> bool {
        matches!(named(dir), Ok(Some((name, _))) if name == self.name)
    }

    /// What the page says now.
    pub(crate) fn look(&self) -> io::Result<Published> {
        look(self)
    }

    /// Sleeps until the page says something else than `seen`, at most for `limit`. May return early.
    pub(crate) fn sleep_past(&self, seen: Published, limit: Duration) -> io::Result<()> {
        sleep_past(self, seen, self.tag.fetch_add(1, Ordering::Relaxed), limit)
    }

    fn number(&self, at: usize) -> io::Result<u64> {
        let read = || {
            let mut bytes = [0; 8];
            self.file.read(at as u64, &mut bytes).map(|()| u64::from_le_bytes(bytes))
        };
        // The system need not copy a number at once: half of it may be new. A number that is read so twice is whole,
        // because each byte of the second read is as new as every byte of the first.
        let mut before = read()?;
        for _ in 0..READS_MAX {
            let now = read()?;
            if now == before {
                return Ok(now);
            }
            before = now;
        }
        Err(io::Error::other("it changes faster than it is read"))
    }
}

impl FollowerWords for Subscriber {
    fn load(&self, field: Field) -> io::Result<u64> {
        self.number(at(field))
    }

    fn word(&self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.file.read(super::WORD as u64, &mut bytes).map(|()| u32::from_le_bytes(bytes))
    }

    fn set_word(&self, word: u32) -> io::Result<bool> {
        if self.file.is_writable() {
            self.file.write(super::WORD as u64, &word.to_le_bytes())?;
        }
        Ok(self.file.is_writable())
    }

    fn sleep(&self, word: u32, limit: Duration) {
        // The kernel compares the word as this processor holds it.
        self.file.wait(super::WORD, word.to_le(), limit);
    }
}
