//! Removes from the beginning of an archive what no rebuild needs any more.
//!
//! ```text
//! messages/  1 … 37 │ 38 … 90 …       1 starts/38: what the chain is in front of position 38, created once
//!                   └ a segment       2 messages 1 … 37 are removed
//!                     begins here     3 older starts are removed
//! ```
//!
//! Where segments begin is read of the manifests, of each segment that is not younger than what is kept; of the messages those of one
//! segment, and the one that the archive then begins with. Without manifests, or if one states what is not there, everything is read.
//!
//! Whole segments go, and only those that the log itself had trimmed: the records from the first LSN of the log on must be there for
//! a rebuild. A removal that was interrupted is finished by the next one.
//!
//! A name that was removed is free again. A writer that has slept since would take it for the end of the chain, and create
//! it anew: so a position that a start lies behind is never the end of the chain, whoever asks, and what is created there does not count.
//!
//! Invariants: nothing is removed before the start that takes its place is stored, and before the first message that is kept was found to
//! follow it; no message behind it is missing; the newest segment stays.

use crate::archive::{Archive, MESSAGES, STARTS, Store, message_name};
use crate::error::{Error, Result};
use crate::manifest::{MANIFESTS, Manifest, begins_segment, manifest_name};
use crate::message::{Chain, Kind, Verdict};
use crate::note::Note;
use seawall::{Lsn, RebuildTo, SealedCheck};
use seawall_sys::planted;

/// What an archive keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Everything that a rebuild to any time from here on needs, microseconds since 1970.
    pub since_us: u64,
    /// At least so many closed segments.
    pub segments: usize,
}

impl Default for Keep {
    /// What a rebuild of the newest state needs.
    fn default() -> Self {
        Self { since_us: u64::MAX, segments: 0 }
    }
}

/// What a retention removed, or would remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// Objects.
    pub objects: u64,
    /// Of these, what an interrupted one had left.
    pub left_over: u64,
    /// Whether all messages were read, because no manifests say where segments begin.
    pub all_read: bool,
    /// The first LSN that can still be rebuilt.
    pub first: Lsn,
}

impl<S: Store> Archive<S> {
    /// Removes what `keep` does not name; only says what that is with `dry_run`.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Damaged`] if the chain is broken, [`Error::Log`] if its batches are: nothing is removed then.
    pub fn retain_only(&mut self, keep: &Keep, dry_run: bool) -> Result<Removed> {
        let begin = self.start()?;
        let until = RebuildTo { lsn: Lsn::MAX, time_us: keep.since_us };
        let found = self.first_by_manifests(&begin, &until, keep.segments)?;
        let all_read = found.is_none();
        let new = found.map_or_else(|| self.first_kept(&begin, keep), |found| Ok(Some(found)))?;
        let new = new.filter(|new| new.position > begin.position);
        let kept = new.as_ref().unwrap_or(&begin);
        let bound = message_name(kept.position);
        let (gone, stays): (Vec<_>, Vec<_>) =
            self.store().list(MESSAGES, "")?.into_iter().partition(|name| *name <= bound);
        for (position, name) in (kept.position + 1..).zip(&stays) {
            if *name != message_name(position) {
                let what = format!("it is missing, but {name} is there");
                return Err(Error::Damaged { position, what });
            }
        }
        let old = message_name(begin.position);
        let left_over = gone.iter().filter(|name| **name <= old).count() as u64;
        let removed = Removed { objects: gone.len() as u64, left_over, all_read, first: kept.lsn };
        if dry_run {
            return Ok(removed);
        }
        let put = |archive: &mut Self| {
            let Some(chain) = new.clone() else { return Ok(()) };
            let name = format!("{STARTS}{:020}", chain.position);
            let note = Note { address: archive.store().address(), identity: None, owner: [0; 16], chain };
            archive.store().create(&name, note.text().as_bytes()).map(drop)
        };
        planted!(RetainBeforeStart, (), put(self)?);
        for name in gone {
            self.store().remove(&name)?;
        }
        planted!(RetainBeforeStart, put(self)?);
        let oldest = manifest_name(kept.position);
        for manifest in self.store().list(MANIFESTS, "")?.into_iter().filter(|name| *name < oldest) {
            self.store().remove(&manifest)?;
        }
        for start in self.store().list(STARTS, "")?.into_iter().rev().skip(1) {
            self.store().remove(&start)?;
        }
        Ok(removed)
    }

    /// What the chain is in front of the first segment that a rebuild to `until` needs, and that has so many closed ones behind it, by the manifests:
    /// `begin` if that is the first one of all, `None` if they do not say.
    pub(crate) fn first_by_manifests(
        &mut self,
        begin: &Chain,
        until: &RebuildTo,
        segments: usize,
    ) -> Result<Option<Chain>> {
        let positions = self.manifest_positions(begin.position)?;
        let mut started: Vec<Manifest> = Vec::new();
        for position in &positions {
            let Some(Ok(manifest)) = self.manifest(*position)? else { return Ok(None) };
            if manifest.time_us > until.time_us || manifest.lsn >= until.lsn {
                break;
            }
            started.push(manifest);
        }
        // Segments that are not there would be counted for those that are kept.
        if let Some(last) = positions.last()
            && self.last_behind(*last)? == 0
        {
            return Ok(None);
        }
        let Some(newest) = started.last() else {
            return Ok((!positions.is_empty()).then(|| begin.clone()));
        };
        if !self.is_true(newest)? {
            return Ok(None);
        }
        let first = self.first_behind(newest, begin.lsn, until)?;
        let most = positions.len().saturating_sub(1 + segments).min(started.len() - 1);
        let mut able = started.into_iter().take(most + 1).skip(1).rev();
        match able.find(|manifest| manifest.lsn <= first && manifest.position > begin.position) {
            Some(kept) if !self.is_true(&kept)? => Ok(None),
            kept => Ok(Some(kept.map_or_else(|| begin.clone(), |kept| kept.chain()))),
        }
    }

    /// What the log still had at `until`, by the messages behind the newest segment that began before it.
    fn first_behind(&mut self, newest: &Manifest, begin: Lsn, until: &RebuildTo) -> Result<Lsn> {
        let (mut chain, mut check) = (newest.chain(), SealedCheck::new());
        while let Some(bytes) = self.store().get(&message_name(chain.position + 1), None)? {
            let Verdict::Next(header, payload) = chain.take(&bytes)? else { continue };
            if header.time_us > until.time_us || header.end > until.lsn {
                break;
            }
            if header.kind == Kind::Batches {
                check.check(payload)?;
            }
        }
        Ok(planted!(RetainUntrimmed, chain.lsn, check.first().max(begin)))
    }

    /// Reads the chain to its end; what it is in front of the first segment that is kept, `None` if everything is.
    fn first_kept(&mut self, begin: &Chain, keep: &Keep) -> Result<Option<Chain>> {
        let (mut chain, mut check) = (begin.clone(), SealedCheck::new());
        // Where segments begin with an object: the chain in front of it, and the LSN.
        let mut segments: Vec<(Chain, Lsn)> = Vec::new();
        // What the log still had at that time, and how many of the segments were started then.
        let (mut first, mut started, mut is_later) = (chain.lsn, 0, false);
        while let Some(bytes) = self.store().get(&message_name(chain.position + 1), None)? {
            let before = chain.clone();
            let Verdict::Next(header, payload) = chain.take(&bytes)? else { continue };
            if begins_segment(&header, payload) {
                segments.push((before, header.lsn));
            }
            if header.kind == Kind::Batches && header.part.1 == 1 {
                check.check(payload)?;
            }
            // A term has no time: it is of that of the batches before it.
            is_later |= header.time_us > keep.since_us;
            if !is_later {
                first = planted!(RetainUntrimmed, chain.lsn, check.first().max(begin.lsn));
                started = segments.len();
            }
        }
        // The newest one is not closed.
        let most = segments.len().saturating_sub(1 + keep.segments).min(started.saturating_sub(1));
        // In front of the first one lies no whole segment.
        let kept = segments.into_iter().take(most + 1).skip(1).rev().find(|(_, lsn)| *lsn <= first);
        Ok(kept.map(|(chain, _)| chain))
    }

    /// What a start lies behind is never the end of the chain.
    ///
    /// # Errors
    /// [`Error::Unfit`] if `position` was removed.
    pub(crate) fn refuse_removed(&mut self, position: u64) -> Result<()> {
        let start = self.start()?.position;
        if planted!(RetainFenceIgnored, true, start < position) {
            return Ok(());
        }
        Err(Error::unfit(format!(
            "a retention removed message {position} of {} and those up to {start}, which this reader or writer had not seen: rebuild from it, or \
             begin again",
            self.store().address()
        )))
    }
}
