//! Keeps a copy of a log that grows with it on another machine, and takes over from the log's writer.
//!
//! ```text
//! standby:   destination ─► checked, written, synced ─► DIR, marked REBUILDING: no log yet ─► saved every second ─┐
//!                 ▲                                                                                              │
//!                 └──────── goes on where it was saved, after any end ◄──────────────────────────────────────────┘
//! takeover:  read on to the end ─► take the term: the old writer is refused from now on ─► read what it had still added
//!            ─► sync, read back, verify ─► the note on the destination ─► remove REBUILDING: DIR is the log
//! ```
//!
//! Who takes over takes from the writer that it followed. If another one took the right to write first, it fails with
//! [`Error::Replaced`]: of several that try at once exactly one becomes the writer, and whoever comes behind that has to follow the new
//! writer first.
//!
//! Invariants: DIR is a log only once it holds everything in front of the term; what was saved is synced and never written again.

use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::message::{Chain, Owner};
use crate::note::{Note, random};
use crate::restore::{Intake, Progress, Rebuilt, empty, take_term};
use crate::sources::Fresh;
use crate::writer::{Bounds, Ground, Identity, Writer};
use seawall::{Lsn, Rebuild};
use seawall_sys::clock::monotonic_ns;
use seawall_sys::planted;
use std::path::Path;
use std::time::Duration;

/// How often it is saved while messages come.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// A folder in which a copy of a log grows.
pub struct Standby {
    rebuild: Rebuild,
    intake: Intake,
    fresh: Fresh,
    address: String,
    /// Who it is once it takes over: saved from the beginning, so that a take-over that was interrupted is not taken for another's.
    owner: Owner,
    saved: u64,
    saved_ns: u64,
}

impl std::fmt::Debug for Standby {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standby").field("lsn", &self.lsn()).finish_non_exhaustive()
    }
}

impl Standby {
    /// Begins a copy in the folder `dir`, or goes on with the one that is there, from `from`.
    ///
    /// # Errors
    /// [`Error::Log`] if the folder holds something else, or what it holds is damaged; [`Error::Unavailable`].
    pub fn open(dir: impl AsRef<Path>, from: &mut dyn Destination) -> Result<Self> {
        Self::follow(dir.as_ref(), from, true)
    }

    fn follow(dir: &Path, from: &mut dyn Destination, make: bool) -> Result<Self> {
        let (rebuild, note) = Rebuild::follow(dir, make)?;
        let address = from.address();
        let known = Note::parse(&note);
        let owner = known.as_ref().map_or_else(random, |note| Ok(note.owner))?;
        let held = rebuild.progress();
        let fits = |note: &Note| {
            note.address == address && (note.chain.lsn, note.chain.link) == (held.lsn(), held.link())
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
        let mut standby = Self { rebuild, intake, fresh, address, owner, saved, saved_ns };
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

    /// The last term that was read.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.intake.chain.term
    }

    /// Reads everything that is there now; returns whether anything was.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: what was read before is kept, and a later call goes on; [`Error::Damaged`], [`Error::Log`].
    pub fn read(&mut self, from: &mut dyn Destination, progress: Progress<'_>) -> Result<bool> {
        let before = self.intake.chain.position;
        let Self { rebuild, intake, fresh, .. } = self;
        let mut bytes = 0;
        let read = intake.read_all(from, &mut |pieces| {
            bytes += pieces.len() as u64;
            let more = rebuild.push(fresh.of(pieces, rebuild.progress())?)?;
            progress(rebuild.progress().lsn(), bytes);
            Ok(more)
        });
        read?;
        Ok(self.intake.chain.position > before)
    }

    /// Saves what came if it is time, or `now`.
    ///
    /// # Errors
    /// [`Error::Log`].
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
        (self.saved, self.saved_ns) = (chain.position, monotonic_ns());
        let note = Note { address: self.address.clone(), owner: self.owner, chain };
        Ok(self.rebuild.save(&note.text())?)
    }

    /// Takes over from the writer that was followed, and makes the folder the log; the right to write is taken at `others` as well,
    /// where the same log is shipped to, behind `from`. All who may take over follow the same destination.
    ///
    /// # Errors
    /// [`Error::Replaced`] if another one took over first, [`Error::Unfit`] if nothing was followed yet, [`Error::Damaged`],
    /// [`Error::Unavailable`], [`Error::Log`]. The folder stays what it is then.
    pub fn take_over(
        mut self,
        from: &mut dyn Destination,
        others: &mut [Box<dyn Destination>],
        progress: Progress<'_>,
    ) -> Result<Rebuilt> {
        let followed = self.intake.chain.term;
        let writer = (followed > 0).then_some(self.intake.chain.owner);
        self.read(from, progress)?;
        let Self { mut rebuild, mut intake, mut fresh, owner, .. } = self;
        let mut sink = |pieces: &[u8]| Ok(rebuild.push(fresh.of(pieces, rebuild.progress())?)?);
        let note = claim(from, &mut intake, (owner, writer), &mut sink)?;
        // Before it is a log, so that there is none that took the right and does not know.
        note.write(rebuild.folder())?;
        for other in others {
            let chain = other.begin()?;
            let (mut intake, mut fresh) = (Intake::new(chain, other.as_ref()), Fresh::after_others());
            let mut sink = |pieces: &[u8]| Ok(rebuild.push(fresh.of(pieces, rebuild.progress())?)?);
            intake.read_all(other.as_mut(), &mut sink)?;
            let writer = (intake.chain.term > 0).then_some(intake.chain.owner);
            claim(other.as_mut(), &mut intake, (owner, writer), &mut sink)?.write(rebuild.folder())?;
        }
        let report = rebuild.finish()?;
        Ok(Rebuilt { report, read: intake.read, term: Some(note.chain.term) })
    }
}

/// Takes over with the standby in the folder `dir`, which followed `from`, also at `others`.
///
/// # Errors
/// As [`Standby::open`] and [`Standby::take_over`]; [`Error::Log`] if the folder is not that of a standby.
pub fn take_over(
    dir: impl AsRef<Path>,
    from: &mut dyn Destination,
    others: &mut [Box<dyn Destination>],
    progress: Progress<'_>,
) -> Result<Rebuilt> {
    Standby::follow(dir.as_ref(), from, false)?.take_over(from, others, progress)
}

/// Takes the right to write behind what `intake` has read for `owner`, from `writer` alone if one is named; `sink` gets what
/// comes before it.
pub(crate) fn claim(
    from: &mut dyn Destination,
    intake: &mut Intake,
    (owner, writer): (Owner, Option<Owner>),
    sink: &mut dyn FnMut(&[u8]) -> Result<bool>,
) -> Result<Note> {
    let Some(log_id) = intake.chain.log_id else { return Err(empty(from)) };
    let mine = |chain: &Chain| {
        let other = writer.is_some_and(|writer| chain.owner != writer) && chain.owner != owner;
        if planted!(StandbyTakesFromAnyone, false, other) {
            Err(Error::Replaced { term: chain.term })
        } else {
            Ok(())
        }
    };
    mine(&intake.chain)?;
    let base = (intake.chain.lsn, intake.chain.link);
    let me = Identity { log_id, owner, nonce: random()?, ground: Ground::TakeOver, base };
    let facts = from.facts().clone();
    let bounds = Bounds { message_bytes_max: facts.message_bytes_max, in_flight_max: 1, queue_bytes_max: 1 };
    let mut taker = Writer::new(me, bounds, intake.chain.clone());
    take_term(&mut taker, from, &mut |position, bytes| {
        if position == intake.chain.position + 1 {
            intake.take(bytes, sink)?;
        }
        mine(&intake.chain)
    })?;
    let chain = taker.known().clone();
    while intake.chain.position < chain.position {
        let position = intake.chain.position + 1;
        let missing = || Error::Damaged { position, what: "it is missing".to_owned() };
        let bytes = from.read(position)?.ok_or_else(missing)?;
        intake.take(&bytes, sink)?;
    }
    Ok(Note { address: from.address(), owner, chain })
}
