//! Stores the progress at a destination in a hold on the log, so that shipping continues where it stopped.
//!
//! The hold keeps the log from the last acknowledged message on: the next writer finds there that its log is the one that was
//! shipped. Its note is lines of text: the address, what tells the destination from others of that address (since there are such
//! lines), the owner, how far the chain was read, and where its last message lies.
//!
//! A destination whose mark a hold knows is the same one by whatever address it is reached.
//!
//! Invariant: a note may be out of date, never ahead: an old one has the next writer read more, and the log keep more.

use crate::destination::{Destination, Identity};
use crate::error::{Error, Result};
use crate::message::{Chain, Owner, hash};
use seawall::{Hold, LogId, Lsn};
use std::fmt::Write as _;
use std::path::Path;

/// The progress of a log at a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The destination.
    pub address: String,
    /// Its identity, if known.
    pub identity: Option<String>,
    /// The directory's owner id there.
    pub owner: Owner,
    /// The chain up to a whole message that is stored.
    pub chain: Chain,
    /// The hold that it was read from, if that names another address: it is removed when this one is written.
    pub(crate) former: Option<String>,
}

/// The bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

/// The name of the hold for a destination.
#[must_use]
pub fn hold_name(address: &str) -> String {
    format!("ship-{}", hex(&hash(address.as_bytes())[..8]))
}

impl Note {
    /// A note on `destination`.
    ///
    /// # Errors
    /// As [`Destination::read`].
    pub fn new(destination: &mut dyn Destination, owner: Owner, chain: Chain) -> Result<Self> {
        let (address, mark) = (destination.address(), destination.identity()?);
        let identity = if let Identity::Is(mark) = mark { Some(mark) } else { None };
        Ok(Self { address, identity, owner, chain, former: None })
    }

    /// All valid notes of the log in `dir`, each with the name of its hold.
    pub(crate) fn all(dir: &Path) -> Vec<(String, Self)> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let names =
            entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix("HOLD-")?.to_owned()));
        let read = |name: String| {
            let note = Self::parse(&Hold::read(dir, &name).ok()??.note)?;
            Some((name, note))
        };
        names.filter_map(read).collect()
    }

    /// The same note for `destination`, under a new address.
    pub(crate) fn moved(self, name: String, destination: &dyn Destination) -> Self {
        Self { address: destination.address(), former: Some(name), ..self }
    }

    /// The note of the log in `dir` on `destination`, if there is one: by its address or its identity.
    ///
    /// # Errors
    /// [`Error::Log`], [`Error::Unfit`] if the note cannot be parsed, [`Error::Other`] if it names another destination at the same
    /// address.
    pub fn read(dir: &Path, destination: &mut dyn Destination) -> Result<Option<Self>> {
        let (address, found) = (destination.address(), destination.identity()?);
        let name = hold_name(&address);
        let Some(hold) = Hold::read(dir, &name)? else {
            let Identity::Is(found) = found else { return Ok(None) };
            let known = Self::all(dir).into_iter().find(|(_, note)| note.identity.as_ref() == Some(&found));
            return Ok(known.map(|(name, note)| note.moved(name, destination)));
        };
        let unfit = || {
            let path = dir.join(format!("HOLD-{name}"));
            Error::unfit(format!(
                "{} cannot be parsed: remove it, and name a new destination",
                path.display()
            ))
        };
        let note = Self::parse(&hold.note).filter(|note| note.address == address).ok_or_else(unfit)?;
        match (note.identity, found) {
            (Some(known), found @ (Identity::Is(_) | Identity::Missing))
                if found != Identity::Is(known.clone()) =>
            {
                Err(Error::Other { address, known, found: found.text().unwrap_or_default() })
            }
            (_, Identity::Is(found)) => Ok(Some(Self { identity: Some(found), ..note })),
            (known, _) => Ok(Some(Self { identity: known, ..note })),
        }
    }

    /// Makes the note durable.
    ///
    /// # Errors
    /// [`Error::Log`].
    pub fn write(&self, dir: &Path) -> Result<()> {
        let hold = Hold { lsn: self.chain.needed, note: self.text() };
        hold.write(dir, &hold_name(&self.address))?;
        Ok(self.former.iter().try_for_each(|former| Hold::remove(dir, former))?)
    }

    /// Its text form.
    pub(crate) fn text(&self) -> String {
        let Chain { position, number, last, epoch, owner, log_id, lsn, link, needed, .. } = &self.chain;
        let log_id = log_id.map_or_else(|| "-".to_owned(), |log_id| log_id.to_string());
        let identity = self.identity.iter().fold(String::new(), |_, identity| format!("at {identity}\n"));
        format!(
            "to {}\n{identity}owner {}\nchain {position} {number} {} {epoch} {} {log_id} {lsn} {link} {needed}\nlast {}\n",
            self.address,
            hex(&self.owner),
            hex(last),
            hex(owner),
            self.chain.last_at,
        )
    }

    /// Parses [`Note::text`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let words: Vec<&str> = value("chain")?.split(' ').collect();
        let [position, number, last, epoch, owner, log_id, lsn, link, needed] = words[..] else {
            return None;
        };
        let log_id = if log_id == "-" { None } else { Some(LogId(unhex(log_id)?)) };
        let to_lsn = |text: &str| text.parse().ok().map(Lsn::new);
        let mut chain = Chain { position: position.parse().ok()?, ..Chain::default() };
        (chain.number, chain.last) = (number.parse().ok()?, unhex(last)?);
        // Those of earlier versions do not say it.
        chain.last_at = value("last").map_or(Some(0), |last| last.parse().ok())?;
        (chain.epoch, chain.owner, chain.log_id) = (epoch.parse().ok()?, unhex(owner)?, log_id);
        (chain.lsn, chain.link, chain.needed) = (to_lsn(lsn)?, link.parse().ok()?, to_lsn(needed)?);
        let (address, identity) = (value("to")?.to_owned(), value("at").map(str::to_owned));
        Some(Self { address, identity, owner: unhex(value("owner")?)?, chain, former: None })
    }
}

/// Random bytes, unique to this caller.
///
/// # Errors
/// [`Error::Unavailable`] if the system gives none.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        let source = std::io::Error::other(error.to_string());
        Error::unavailable("the system gives no random bytes", source)
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Note, hex};
    use crate::message::Chain;
    use seawall::{LogId, Lsn};

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let mut chain =
            Chain { position: 7, number: 6, last: [0xAB; 32], last_at: 6, epoch: 3, ..Chain::default() };
        (chain.owner, chain.log_id) = ([1; 16], Some(LogId([2; 16])));
        (chain.lsn, chain.link, chain.needed) = (Lsn::new(99), 5, Lsn::new(44));
        let address = "folder /a b".to_owned();
        let note = Note { address, identity: None, owner: [0xCD; 16], chain, former: None };
        assert_eq!(Note::parse(&note.text()), Some(note.clone()));
        let identity = Some("created 2026-11-25 at noon".to_owned());
        let new = Note { chain: Chain::default(), identity, ..note.clone() };
        assert_eq!(Note::parse(&new.text()), Some(new));
        for line in 0..3 {
            let text = note.text();
            let kept = text.lines().enumerate().filter(|(at, _)| *at != line);
            let cut = kept.fold(String::new(), |cut, (_, line)| cut + line + "\n");
            assert_eq!(Note::parse(&cut), None, "{cut}");
        }
        assert_eq!(hex(&[0, 255]), "00ff");
    }
}
