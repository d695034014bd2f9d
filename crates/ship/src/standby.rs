//! Follows a shipped log with a copy on another machine, and promotes the copy.
//!
//! ```text
//! standby:   destination ─► checked, written, synced ─► DIR, marked REBUILDING: no log yet ─► saved every second ─┐
//!                 ▲                                                                                              │
//!                 └──────── goes on where it was saved, after any end ◄──────────────────────────────────────────┘
//! takeover:  read on to the end ─► sync, read back, verify ─► take the epoch: the old writer is refused from now on
//!            ─► read what it had still added ─► the note on the destination ─► remove REBUILDING: DIR is the log
//! ```
//!
//! A standby takes over only from the writer that it followed. If another one took the epoch first, it fails with
//! [`crate::Error::Replaced`]: of several at once exactly one wins, and the others must follow the new writer first.
//!
//! The old writer learns it at the destination alone: its next request is refused. Its log stays open to its program.
//!
//! Invariants: DIR is a log only once it holds everything before the epoch; what was saved is synced and never written again; after
//! a write that failed nothing is saved, and the next start continues from the last save.

use crate::destination::{Destination, Follower, Identity};
use crate::error::Result;
use crate::intake::{Intake, claim};
use crate::message::Owner;
use crate::note::{Note, random};
use crate::restore::{Fresh, Progress, Rebuilt};
use seawall::{Lsn, Rebuild};
use seawall_sys::clock::{monotonic_ns, unix_seconds};
use seawall_sys::planted;
use std::path::Path;
use std::time::Duration;

/// How often it is saved while messages come.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// The first and the longest wait after a poll that finds nothing: each wait is twice the one before.
const IDLE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// A folder that follows a log with a copy.
pub struct Standby {
    rebuild: Rebuild,
    intake: Intake,
    fresh: Fresh,
    address: String,
    identity: Option<String>,
    /// Its owner id once it takes over: saved from the beginning, so that an interrupted take-over is not mistaken for another's.
    owner: Owner,
    saved: u64,
    saved_ns: u64,
    idle: Duration,
}

impl std::fmt::Debug for Standby {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standby").field("lsn", &self.lsn()).finish_non_exhaustive()
    }
}

impl Standby {
    /// Starts a copy of `from` in the folder `dir`, or continues an existing one.
    ///
    /// # Errors
    /// [`crate::Error::Log`] if the folder holds something else, or what it holds is damaged; [`crate::Error::Unavailable`].
    pub fn open(dir: impl AsRef<Path>, from: &mut dyn Destination) -> Result<Self> {
        Self::follow(dir.as_ref(), from, true)
    }

    fn follow(dir: &Path, from: &mut dyn Destination, make: bool) -> Result<Self> {
        let (rebuild, note) = Rebuild::follow(dir, make)?;
        let (address, mark) = (from.address(), from.identity()?);
        let identity = if let Identity::Is(mark) = mark { Some(mark) } else { None };
        let known = Note::parse(&note);
        let owner = known.as_ref().map_or_else(random, |note| Ok(note.owner))?;
        let held = rebuild.progress();
        let fits = |note: &Note| {
            let other = note.identity.is_some() && identity.is_some() && note.identity != identity;
            note.address == address
                && !other
                && (note.chain.lsn, note.chain.link) == (held.lsn(), held.link())
        };
        let goes_on = known.filter(fits);
        let is_new = goes_on.is_none();
        let (chain, fresh) = match goes_on {
            Some(note) => (note.chain, Fresh::default()),
            None if held.log_id().is_none() => (from.begin()?, Fresh::default()),
            // Another place that the same log is shipped to.
            None => (from.begin()?, Fresh::after_others()),
        };
        let (saved, saved_ns, intake) = (chain.position, monotonic_ns(), Intake::new(chain, from));
        let mut standby =
            Self { rebuild, intake, fresh, address, identity, owner, saved, saved_ns, idle: Duration::ZERO };
        if is_new {
            standby.put()?;
        }
        Ok(standby)
    }

    /// Where the copy ends.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.rebuild.progress().lsn()
    }

    /// Its progress, as recorded at its destination.
    #[must_use]
    pub fn follower(&self) -> Follower {
        Follower { owner: self.owner, position: self.intake.chain.position, unix_s: unix_seconds() }
    }

    /// The last epoch that was read.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.intake.chain.epoch
    }

    /// Reads everything available; returns whether there was anything.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`]: what was read before is kept, and a later call continues; [`crate::Error::Damaged`], [`crate::Error::Log`].
    pub fn read(&mut self, from: &mut dyn Destination, progress: Progress<'_>) -> Result<bool> {
        self.read_while(from, &|| true, progress)
    }

    /// As [`Standby::read`], and ends early, between two messages, when `goes_on` says no.
    ///
    /// # Errors
    /// As [`Standby::read`].
    pub fn read_while(
        &mut self,
        from: &mut dyn Destination,
        goes_on: &dyn Fn() -> bool,
        progress: Progress<'_>,
    ) -> Result<bool> {
        let before = self.intake.chain.position;
        // Until something comes: also while it is away.
        self.idle = (self.idle * 2).clamp(IDLE.0, IDLE.1);
        let Self { rebuild, intake, fresh, .. } = self;
        let mut bytes = 0;
        let read = intake.read_all(from, &mut |pieces, _| {
            bytes += pieces.len() as u64;
            let more = rebuild.push(fresh.of(pieces, rebuild.progress())?)?;
            progress(rebuild.progress().lsn(), bytes);
            Ok(more && goes_on())
        });
        let came = self.intake.chain.position > before;
        if came {
            self.idle = Duration::ZERO;
        }
        read.map(|_| came)
    }

    /// How long to wait before the next [`Standby::read`]: not at all while messages come, then longer each time, up to a second.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// Saves what came if it is time, or `now`.
    ///
    /// # Errors
    /// [`crate::Error::Log`].
    pub fn save(&mut self, now: bool) -> Result<()> {
        let chain = &self.intake.chain;
        let is_due = now || Duration::from_nanos(monotonic_ns() - self.saved_ns) >= SAVE_EVERY;
        // A message of which parts are missing is read again from its beginning.
        if !is_due || chain.position == self.saved || chain.is_open() {
            return Ok(());
        }
        self.put()
    }

    fn put(&mut self) -> Result<()> {
        let chain = self.intake.chain.clone();
        let position = chain.position;
        let (address, identity) = (self.address.clone(), self.identity.clone());
        let note = Note { address, identity, owner: self.owner, chain, former: None };
        self.saved_ns = monotonic_ns();
        self.rebuild.save(&note.text())?;
        self.saved = position;
        Ok(())
    }

    /// Fences the writer that was followed, and makes the folder the log; the epoch is also taken at `others`,
    /// other destinations of the same log, after `from`. All standbys that may take over must follow the same destination.
    ///
    /// # Errors
    /// [`crate::Error::Replaced`] if another one took over first, [`crate::Error::Unfit`] if nothing was followed yet, [`crate::Error::Damaged`],
    /// [`crate::Error::Unavailable`], [`crate::Error::Log`]. The folder then stays a standby.
    pub fn take_over(
        mut self,
        from: &mut dyn Destination,
        others: &mut [Box<dyn Destination>],
        progress: Progress<'_>,
    ) -> Result<Rebuilt> {
        let followed = self.intake.chain.epoch;
        let writer = [self.intake.chain.owner];
        let writer = (followed > 0).then_some(&writer[..]);
        self.read(from, progress)?;
        // If another one took the epoch, that is not saved: a retry would take over from that one, which was never followed.
        let is_same =
            |owner: Owner| owner == self.owner || writer.is_none_or(|writer| writer.contains(&owner));
        if planted!(StandbyFollowsWinner, is_same(self.intake.chain.owner)) {
            self.save(true)?;
        }
        // Before the epoch is taken: an invalid copy must fence no writer.
        self.rebuild.prove()?;
        let Self { mut rebuild, mut intake, mut fresh, owner, .. } = self;
        let mut sink = |pieces: &[u8], _| Ok(rebuild.push(fresh.of(pieces, rebuild.progress())?)?);
        let note = claim(from, &mut intake, (owner, writer), &mut sink)?;
        // Before it is a log, so that no log exists that took the epoch and does not know it.
        note.write(rebuild.folder())?;
        for other in others {
            let chain = other.begin()?;
            let (mut intake, mut fresh) = (Intake::new(chain, other.as_ref()), Fresh::after_others());
            let mut sink = |pieces: &[u8], _| Ok(rebuild.push(fresh.of(pieces, rebuild.progress())?)?);
            intake.read_all(other.as_mut(), &mut sink)?;
            let writer = [intake.chain.owner];
            let writer = (intake.chain.epoch > 0).then_some(&writer[..]);
            claim(other.as_mut(), &mut intake, (owner, writer), &mut sink)?.write(rebuild.folder())?;
        }
        let report = rebuild.finish()?;
        Ok(Rebuilt { report, read: intake.read, epoch: Some(note.chain.epoch) })
    }
}

/// Promotes the standby in the folder `dir`, which followed `from`, and fences the old writer at `others` too.
///
/// # Errors
/// As [`Standby::open`] and [`Standby::take_over`]; [`crate::Error::Log`] if the folder is not that of a standby.
pub fn take_over(
    dir: impl AsRef<Path>,
    from: &mut dyn Destination,
    others: &mut [Box<dyn Destination>],
    progress: Progress<'_>,
) -> Result<Rebuilt> {
    Standby::follow(dir.as_ref(), from, false)?.take_over(from, others, progress)
}
