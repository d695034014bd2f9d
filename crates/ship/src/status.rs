//! Reports what a folder knows of its log's destinations, and what a destination contains, without writing anything.
//!
//! ```text
//! folder of a log:      HOLD-ship-… of each destination ─► owner, epoch, acknowledged, how far the log is ahead of it
//!                       NOTE-ship-… of each service ─► what it is doing, its last error
//! folder of a standby:  REBUILDING ─► what it follows, up to where it is saved
//! destination:          its first and last messages ─► identity, epoch, owner, from which LSN to which one
//! ```
//!
//! Invariant: what a folder says is as old as its last note, at most a second while a log is shipped: never ahead of what is true.

use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::guess;
use crate::message::{Chain, Header, Owner, hash};
use crate::note::{Note, hex};
use crate::shipping::AtRisk;
use seawall::{LogId, Lsn, View};
use seawall_sys::clock::unix_us;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the names of notes on destinations begin with, in a log's folder.
const HOLDS: &str = "HOLD-ship-";
/// The prefix of the names of the files in which services record their state.
const NOTES: &str = "NOTE-ship-";
/// The marker of a standby.
const STANDBY: &str = "REBUILDING";

/// The state of a log at one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shipped {
    /// The note.
    pub note: Note,
    /// The lag: how far the log is ahead of what the note knows to be acknowledged.
    pub lag: AtRisk,
    /// The last report of the service that ships it there, if any.
    pub said: Option<Said>,
}

/// A service's report in the log's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The address that it ships to, without a password.
    pub to: String,
    /// Its state: `works`, `waits`, `fails` or `ended`.
    pub state: String,
    /// The time of the report, seconds since 1970.
    pub unix_s: u64,
    /// The last error, and when it came, seconds since 1970.
    pub last_error: Option<(u64, String)>,
}

impl Said {
    fn text(&self) -> String {
        let Self { to, state, unix_s, last_error } = self;
        let line = |text: &str| text.replace(['\n', '\r'], " ");
        let error =
            last_error.iter().fold(String::new(), |_, (at, why)| format!("error {at} {}\n", line(why)));
        format!("to {}\nstate {} {unix_s}\n{error}", line(to), line(state))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let (state, unix_s) = value("state")?.split_once(' ')?;
        let error = value("error").and_then(|error| error.split_once(' '));
        Some(Self {
            to: value("to")?.to_owned(),
            state: state.to_owned(),
            unix_s: unix_s.parse().ok()?,
            last_error: error.and_then(|(at, why)| Some((at.parse().ok()?, why.to_owned()))),
        })
    }

    /// Writes it to the folder `dir` of the log. The previous report is replaced atomically, or overwritten on a full disk: otherwise
    /// it would say for ever that all is well.
    ///
    /// # Errors
    /// Of the file system: nothing depends on it.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        let name = format!("{NOTES}{}", hex(&hash(self.to.as_bytes())[..8]));
        let (staging, path, text) = (dir.join(format!("{name}.new")), dir.join(name), self.text());
        let replaced = std::fs::write(&staging, &text).and_then(|()| std::fs::rename(&staging, &path));
        replaced.or_else(|_| {
            let mut file = std::fs::OpenOptions::new().write(true).open(&path)?;
            file.write_all(text.as_bytes())?;
            file.set_len(text.len() as u64)
        })
    }

    /// Whether it is about the destination at `address`.
    fn is_of(&self, address: &str) -> bool {
        let plain = |address: &str| {
            let path =
                address.strip_prefix("folder:").or_else(|| (!address.contains("://")).then_some(address));
            match path {
                Some(path) => {
                    std::path::absolute(path).map(|path| path.display().to_string()).unwrap_or_default()
                }
                None => address.trim_end_matches('/').to_owned(),
            }
        };
        plain(&self.to) == plain(address)
    }
}

/// What a folder is, and its state.
#[derive(Debug)]
#[non_exhaustive]
pub enum Folder {
    /// A log and its destinations.
    Log {
        /// The log.
        view: Box<View>,
        /// Its state at each destination.
        shipped: Vec<Shipped>,
        /// Services that have not started to ship it.
        waiting: Vec<Said>,
    },
    /// A standby.
    Standby {
        /// Its source and the saved progress; `None` before the first save.
        note: Option<Box<Note>>,
        /// How long ago it was saved.
        saved: Duration,
    },
}

/// The state of the folder `dir`.
///
/// # Errors
/// [`Error::Log`] if it is neither a log nor a standby, [`Error::Unfit`] if a note cannot be parsed.
pub fn of_folder(dir: &Path) -> Result<Folder> {
    let marker = dir.join(STANDBY);
    if let Ok(text) = std::fs::read_to_string(&marker) {
        let changed = std::fs::metadata(&marker).and_then(|marker| marker.modified());
        let saved = changed.ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
        let note = text.split_once('\n').and_then(|(_, note)| Note::parse(note)).map(Box::new);
        return Ok(Folder::Standby { note, saved });
    }
    let view = View::open(dir)?;
    let notes = texts(dir, HOLDS)?.into_iter().map(|(path, text)| {
        let note = text.split_once('\n').and_then(|(_, note)| Note::parse(note));
        note.ok_or_else(|| Error::unfit(format!("{} cannot be parsed", path.display())))
    });
    let mut said: Vec<Said> = texts(dir, NOTES)?.iter().filter_map(|(_, text)| Said::parse(text)).collect();
    let mut shipped = Vec::new();
    for note in notes {
        let note = note?;
        let lag = lag(&view, note.chain.lsn)?;
        let about = said.iter().position(|said| said.is_of(&note.address));
        let said = about.map(|at| said.swap_remove(at));
        shipped.push(Shipped { note, lag, said });
    }
    shipped.sort_by(|one, other| one.note.address.cmp(&other.note.address));
    Ok(Folder::Log { view: Box::new(view), shipped, waiting: said })
}

/// The texts of the files in `dir` whose names begin so.
fn texts(dir: &Path, begin: &str) -> Result<Vec<(PathBuf, String)>> {
    let entries = std::fs::read_dir(dir).map_err(|source| unread(dir, source))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| unread(dir, source))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(begin) && !name.contains(".new") {
            let path = entry.path();
            let text = std::fs::read_to_string(&path).map_err(|source| unread(&path, source))?;
            found.push((path, text));
        }
    }
    Ok(found)
}

fn unread(path: &Path, source: std::io::Error) -> Error {
    Error::unavailable(format!("cannot read {}", path.display()), source)
}

/// How much of the log is after `lsn`.
///
/// # Errors
/// [`Error::Log`], also if no batch begins there: the log is not the one that was shipped.
pub fn lag(view: &View, lsn: Lsn) -> Result<AtRisk> {
    let mut follower = view.follow_sealed(lsn)?;
    let (mut risk, mut oldest_us) = (AtRisk::default(), None);
    while let Some(batch) = follower.next_batch(Duration::ZERO)? {
        risk.records += u64::from(batch.records);
        oldest_us = oldest_us.or(Some(batch.time_us).filter(|us| batch.records > 0 && *us > 0));
    }
    risk.bytes = follower.lsn().since(lsn);
    risk.time = Duration::from_micros(oldest_us.map_or(0, |us| unix_us().saturating_sub(us)));
    Ok(risk)
}

/// The content of a destination, by its first and last messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// The log.
    pub log_id: LogId,
    /// Its first LSN.
    pub first: Lsn,
    /// Where it ends.
    pub end: Lsn,
    /// Its last position.
    pub position: u64,
    /// The last epoch.
    pub epoch: u64,
    /// The writer that took it.
    pub owner: Owner,
    /// When the latest batch was gathered, microseconds since 1970; `None` if only epochs were seen.
    pub time_us: Option<u64>,
}

impl Held {
    /// The age of the latest batch; `None` if its time is in the future.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.time_us.map(|us| Duration::from_micros(unix_us().saturating_sub(us)))
    }
}

/// The content of `from`; `None` if it contains no log.
///
/// # Errors
/// As [`Destination::read`]; [`Error::Damaged`] if its last messages are invalid.
pub fn of_destination(from: &mut dyn Destination) -> Result<Option<Held>> {
    let begin = from.begin()?;
    let Some(end) = guess::end(from)? else {
        if from.last()? > begin.position {
            let what = "its last messages are invalid: a drill says which".to_owned();
            return Err(Error::Damaged { position: from.last()?, what });
        }
        return Ok(None);
    };
    let Some(log_id) = end.log_id else { return Ok(None) };
    let first = first_lsn(from, &begin)?.unwrap_or(end.lsn);
    let time_us = latest_us(from, &begin, end.position)?;
    let Chain { lsn, position, epoch, owner, .. } = end;
    Ok(Some(Held { log_id, first, end: lsn, position, epoch, owner, time_us }))
}

/// The first LSN that is there after the chain `begin`.
pub(crate) fn first_lsn(from: &mut dyn Destination, begin: &Chain) -> Result<Option<Lsn>> {
    if begin.number > 0 {
        return Ok(Some(begin.lsn));
    }
    let bytes = from.read(begin.position + 1)?;
    Ok(bytes.and_then(|bytes| Header::open(&bytes).ok().map(|(header, _)| header.lsn)))
}

/// When the latest batch was gathered, of the last few messages: an epoch has no time.
fn latest_us(from: &mut dyn Destination, begin: &Chain, last: u64) -> Result<Option<u64>> {
    const LOOKED_AT: usize = 8;
    for position in (begin.position + 1..=last).rev().take(LOOKED_AT) {
        let bytes = from.read(position)?;
        let header = bytes.as_ref().and_then(|bytes| Header::open(bytes).ok());
        if let Some((header, _)) = header.filter(|(header, _)| header.time_us > 0) {
            return Ok(Some(header.time_us));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::Said;

    #[test]
    fn what_a_service_says_is_read_as_it_was_written() {
        let last_error = Some((7, "no answer (reset): twice".to_owned()));
        let said = Said { to: "s3://b/a b".to_owned(), state: "fails".to_owned(), unix_s: 99, last_error };
        assert_eq!(Said::parse(&said.text()), Some(said.clone()));
        assert!(said.is_of("s3://b/a b/") && !said.is_of("s3://b/a"));
        let well = Said { last_error: None, ..said };
        assert_eq!(Said::parse(&well.text()), Some(well));
        assert_eq!(Said::parse("to x\nstate works\n"), None);
        let forged = Said { to: "x\nstate ended 1".to_owned(), state: "works".to_owned(), ..Said::default() };
        assert_eq!(Said::parse(&forged.text()).map(|said| said.state), Some("works".to_owned()));
    }
}
