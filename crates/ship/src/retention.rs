//! Removes the oldest segments of an archive, which no restore within the retention needs.
//!
//! ```text
//! messages/  1 … 37 │ 38 … 90 …       1 starts/38: what the chain is in front of position 38, created once
//!                   └ a segment       2 messages 1 … 37 are removed
//!                     begins here     3 older starts are removed
//! ```
//!
//! A retention reads the manifest of each segment that is no younger than what is kept, the messages of one segment, and the message that
//! the archive then begins with. Without manifests, or if one states what is not there, it reads everything.
//!
//! Whole segments go, and only those that the log itself had trimmed: the records from the first LSN of the log on must be there for
//! a rebuild. A removal that was interrupted is finished by the next one.
//!
//! A name that was removed is free again. A writer that has slept since would take it for the end of the chain, and create
//! it again: so a position before a start is never the end of the chain, and readers ignore what is created there.
//!
//! Invariants: nothing is removed before the start that takes its place is stored, and before the first message that is kept was found to
//! follow it; no message after it is missing; the newest segment stays.

use crate::archive::{Archive, MESSAGES, STARTS, Store, message_name, start_name};
use crate::destination::{Destination as _, Keep, Removed};
use crate::error::{Error, Result};
use crate::manifest::{Manifest, begins_segment, manifest_name};
use crate::message::{Chain, Header, Kind, Verdict};
use crate::note::Note;
use seawall::{Lsn, RebuildTo, SealedCheck};
use seawall_sys::clock::unix_us;
use seawall_sys::planted;
use std::time::Duration;

/// The parts of a message that was cut.
#[derive(Default)]
struct Parts(Vec<u8>);

impl Parts {
    /// Checks the batches of a message, or of its parts once the last one is there.
    fn add(&mut self, header: &Header, payload: &[u8], check: &mut SealedCheck) -> Result<()> {
        let (part, parts) = header.part;
        match header.kind {
            Kind::Epoch => self.0.clear(),
            Kind::Batches if parts == 1 => check.check(payload)?,
            Kind::Batches => {
                self.0.extend_from_slice(payload);
                if part + 1 == parts {
                    check.check(&std::mem::take(&mut self.0))?;
                }
            }
        }
        Ok(())
    }
}

impl<S: Store> Archive<S> {
    /// Removes what `keep` does not name; only says what that is with `dry_run`.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Damaged`] if the chain is broken, [`Error::Log`] if its batches are: nothing is removed then.
    pub fn retain_only(&mut self, keep: &Keep, dry_run: bool) -> Result<Removed> {
        let begin = self.start()?;
        let keep = &Keep { since_us: keep.since_us.min(self.since_us(&begin, keep.age)?), ..*keep };
        let until = RebuildTo { lsn: Lsn::MAX, time_us: keep.since_us };
        let found = self.first_by_manifests(&begin, &until, keep.segments)?;
        let all_read = found.is_none();
        let new = found.map_or_else(|| self.first_kept(&begin, keep), |found| Ok(Some(found)))?;
        let new = new.filter(|new| new.position > begin.position);
        let kept = new.clone().unwrap_or_else(|| begin.clone());
        let all = self.positions(MESSAGES, "")?;
        let (gone, stays): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|position| *position <= kept.position);
        for (position, there) in (kept.position + 1..).zip(&stays) {
            if *there != position {
                let what = format!("it is missing, but message {there} exists");
                return Err(Error::Damaged { position, what });
            }
        }
        let left_over = gone.iter().filter(|position| **position <= begin.position).count() as u64;
        let removed = Removed {
            objects: gone.len() as u64,
            left_over,
            all_read,
            first: kept.lsn,
            position: kept.position,
        };
        if dry_run {
            return Ok(removed);
        }
        let put = |archive: &mut Self| {
            let Some(chain) = new.clone() else { return Ok(()) };
            let name = start_name(chain.position);
            let address = archive.store().address();
            let note = Note { address, identity: None, owner: [0; 16], chain, former: None };
            archive.store().create(&name, note.text().as_bytes()).map(drop)
        };
        planted!(RetainBeforeStart(self, &gone));
        put(self)?;
        for position in gone {
            self.store().remove(&message_name(position))?;
        }
        for position in self.manifest_positions(0)?.into_iter().filter(|position| *position < kept.position) {
            self.store().remove(&manifest_name(position))?;
        }
        self.remove_packs(kept.position)?;
        for position in self.positions(STARTS, "")?.into_iter().rev().skip(1) {
            self.store().remove(&start_name(position))?;
        }
        Ok(removed)
    }

    /// From when on everything of the last `age` is.
    fn since_us(&mut self, begin: &Chain, age: Option<Duration>) -> Result<u64> {
        let Some(age) = age else { return Ok(u64::MAX) };
        let mut position = self.last()?;
        let mut newest = unix_us();
        while position > begin.position {
            let bytes = self.store().get(&message_name(position), None)?.unwrap_or_default();
            match Header::open(&bytes) {
                Ok((header, _)) if header.made_us() > 0 => {
                    newest = planted!(RetainByClockAlone(newest), newest.min(header.made_us()));
                    break;
                }
                _ => position -= 1,
            }
        }
        Ok(newest.saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX)))
    }

    /// What the chain is before the first segment that a rebuild to `until` needs, and that has this many closed ones after it, by the manifests:
    /// `begin` if that is the first one of all, `None` if they do not say.
    pub(crate) fn first_by_manifests(
        &mut self,
        begin: &Chain,
        until: &RebuildTo,
        segments: usize,
    ) -> Result<Option<Chain>> {
        let positions = self.manifest_positions(begin.position)?;
        let mut started: Vec<Manifest> = Vec::new();
        let mut latest_us = 0;
        for position in &positions {
            let Some(Ok(manifest)) = self.manifest(*position)? else { return Ok(None) };
            // A message that was made while a clock was slow is no older than the one before it.
            latest_us = manifest.time_us.max(latest_us);
            if latest_us > until.time_us || manifest.lsn >= until.lsn {
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

    /// What the log still had at `until`, by the messages after the newest segment that began before it.
    fn first_behind(&mut self, newest: &Manifest, begin: Lsn, until: &RebuildTo) -> Result<Lsn> {
        let (mut chain, mut check, mut parts) = (newest.chain(), SealedCheck::new(), Parts::default());
        while let Some(bytes) = self.store().get(&message_name(chain.position + 1), None)? {
            let Verdict::Next(header, payload) = chain.take(&bytes)? else { continue };
            if header.made_us() > until.time_us || header.end > until.lsn {
                break;
            }
            parts.add(&header, &payload, &mut check)?;
        }
        Ok(planted!(RetainUntrimmed(chain.lsn), check.first().max(begin)))
    }

    /// Reads the chain to its end; what it is before the first segment that is kept, `None` if everything is.
    fn first_kept(&mut self, begin: &Chain, keep: &Keep) -> Result<Option<Chain>> {
        let (mut chain, mut check, mut parts) = (begin.clone(), SealedCheck::new(), Parts::default());
        // Where segments begin with an object: the chain before it, and the LSN.
        let mut segments: Vec<(Chain, Lsn)> = Vec::new();
        // What the log still had at that time, and how many of the segments were started then.
        let (mut first, mut started, mut is_later) = (chain.lsn, 0, false);
        while let Some(bytes) = self.store().get(&message_name(chain.position + 1), None)? {
            let before = chain.clone();
            let Verdict::Next(header, payload) = chain.take(&bytes)? else { continue };
            if begins_segment(&header, &payload) {
                segments.push((before, header.lsn));
            }
            parts.add(&header, &payload, &mut check)?;
            // An epoch has no time: it is of that of the batches before it.
            is_later |= header.made_us() > keep.since_us;
            if !is_later {
                first = planted!(RetainUntrimmed(chain.lsn), check.first().max(begin.lsn));
                started = segments.len();
            }
        }
        // The newest one is not closed.
        let most = segments.len().saturating_sub(1 + keep.segments).min(started.saturating_sub(1));
        // Before the first one lies no whole segment.
        let kept = segments.into_iter().take(most + 1).skip(1).rev().find(|(_, lsn)| *lsn <= first);
        Ok(kept.map(|(chain, _)| chain))
    }

    /// What a start lies after is never the end of the chain.
    ///
    /// # Errors
    /// [`Error::Removed`] if `position` was removed.
    pub(crate) fn refuse_removed(&mut self, position: u64) -> Result<()> {
        let start = self.start()?.position;
        if planted!(RetainFenceIgnored, start < position) {
            return Ok(());
        }
        Err(Error::Removed { position, start, address: self.store().address().clone() })
    }
}
