//! Copies the intact records of a damaged log into a new log.
//!
//! [`salvage`] copies every record that `verify.rs` finds intact. It does not write to the damaged log.
//!
//! Invariant: a failure before the first record is copied leaves the target as it was; the only files removed there
//! are log files that this call created.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::{BatchHeader, RECORD_BYTES_MAX, RawRecord, Records, Tag, TagKind, file_role};
use crate::lock::open_dir;
use crate::log::Log;
use crate::lsn::Lsn;
use crate::options::Options;
use crate::recovery::directory::is_ours;
use crate::recovery::tail::Tail;
use crate::repair::verify::{Report, in_dir, walk};
use crate::storage::os_disk::OsDisk;
use crate::stream::cuts::CutList;
use seawall_sys::planted;

/// The result of [`salvage`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvaged {
    /// The damage that was found.
    pub report: Report,
    /// Records copied.
    pub records: u64,
    /// The end of the new log. LSNs are reassigned: after a gap they differ from those of the old log.
    pub end: Lsn,
    /// The ranges of LSNs in the old log that are known to have held records and were not copied.
    pub left_out: Vec<(Lsn, Lsn)>,
}

/// Copies every intact record of the log in `from` into a new log in `to`, in order; a transaction is copied whole.
///
/// The source is read first, and the target is created when there is a record to copy: a failure before that leaves the
/// target as it was. Records of any length that the format allows are copied, also beyond the bounds in `options`.
///
/// Trimmed records are not copied: the copy starts at the highest first LSN that any intact part of the log names. If the
/// newest batches and segments are damaged, the trims that only they recorded are lost with them, and records that were
/// trimmed last are copied as far as their segments still exist. If the record that cut or removed a stream is damaged, and so
/// is the first record that reused a number, records that had been taken away may stand among those that replaced them;
/// [`Salvaged::left_out`] names the lost range.
///
/// # Errors
/// As [`crate::verify`], and those of writing the new log.
pub fn salvage(from: impl AsRef<Path>, to: impl AsRef<Path>, options: Options) -> Result<Salvaged> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let options = options.record_bytes_max(RECORD_BYTES_MAX);
    options.check()?;
    let target = Target::new(to, options)?;
    let mut disk = OsDisk::read_only(open_dir(from)?);
    let mut cuts = CutList::default();
    let looked = walk(&mut disk, |header, body| {
        if header.cuts {
            note_cuts(&mut cuts, header, body);
        }
        Ok(())
    });
    let first = looked.map_err(|error| error.in_dir(from))?.first;
    let left_out = Vec::new();
    let mut copy = Copying { target, log: None, records: 0, due: first, cuts, left_out, refused: None };
    let walked = walk(&mut disk, |header, body| {
        // Separate from the failures of the source, so that each failure names its own directory.
        copy.batch(first, header, body).map_err(|error| {
            copy.refused = Some(error);
            Error::Closed
        })
    });
    let walked = match (walked, copy.refused.take()) {
        (_, Some(refused)) => Err(refused),
        (walked, None) => walked.map_err(|error| error.in_dir(from)),
    };
    let done = walked.and_then(|report| copy.finish(in_dir(report, from)));
    if done.is_err() {
        copy.give_up();
    }
    done
}

/// Takes in what a batch says of what is cut: the cuts themselves, and what each later segment states of them again.
pub(crate) fn note_cuts(cuts: &mut CutList, header: &BatchHeader, body: &[u8]) {
    for (lsn, record) in (Places { lsn: header.lsn, records: Records::new(body) }) {
        match record.tag {
            Some(Tag { kind: TagKind::LogCut, number, .. }) => cuts.cut(Lsn::new(number), lsn),
            Some(Tag { kind: TagKind::LogCuts, .. }) => {
                let stated = CutList::decode(record.payload).unwrap_or_default();
                planted!(SalvageForgetsRestatement, cuts.join(stated));
            }
            _ => {}
        }
    }
}

/// Whether a record that starts at `start` is copied from a log that begins at `first`. Cuts of the log name LSNs of the old
/// one: what they cut is left out instead.
pub(crate) fn is_copied((start, first): (Lsn, Lsn), tag: Option<&Tag>, cuts: &CutList) -> bool {
    let left = match tag.map(|tag| tag.kind) {
        None => !cuts.hides(start),
        Some(kind) => !matches!(kind, TagKind::LogCut | TagKind::LogCuts),
    };
    start >= first && left
}

/// The directory that a log is copied to.
struct Target {
    dir: PathBuf,
    options: Options,
    /// The files that were in the directory before; `None` if there was no directory.
    before: Option<HashSet<OsString>>,
    /// Directories that must be made for it, the innermost first.
    made: Vec<PathBuf>,
}

impl Target {
    /// Inspects the directory without changing it.
    fn new(dir: &Path, options: Options) -> Result<Self> {
        let made = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists());
        let made: Vec<PathBuf> = made.map(Path::to_path_buf).collect();
        let before = if made.is_empty() {
            Some(names(dir).map_err(|source| Error::io("list", dir, source))?)
        } else {
            None
        };
        let segment = |name: &OsString| name.to_str().and_then(file_role).is_some();
        if before.as_ref().is_some_and(|names| names.iter().any(segment)) {
            let reason = format!("{} holds a log already: name a new directory", dir.display());
            return Err(Error::InvalidOption { option: "to", reason });
        }
        let dir = std::path::absolute(dir).map_err(|source| Error::io("open", dir, source))?;
        Ok(Self { dir, options, before, made })
    }

    /// Creates the log.
    fn open(&self) -> Result<Log> {
        let opened = Log::open(&self.dir, self.options.clone());
        let log = opened.inspect_err(|error| {
            // A log that another process made there meanwhile must not be removed.
            if !matches!(error, Error::Locked { .. }) {
                self.restore();
            }
        })?;
        if log.opened().tail != Tail::New {
            let reason = format!("{} holds a log by now: name a new directory", self.dir.display());
            return Err(Error::InvalidOption { option: "to", reason });
        }
        Ok(log)
    }

    /// Removes the files of a log that were not there before, and the directories made for it. What cannot be removed
    /// stays: the failure that led here is the one to return.
    fn restore(&self) {
        let ours = |name: &str| is_ours(name) || file_role(name).is_some();
        for name in names(&self.dir).unwrap_or_default() {
            let before = self.before.as_ref().is_some_and(|before| before.contains(&name));
            if !before && name.to_str().is_some_and(ours) {
                let _ = std::fs::remove_file(self.dir.join(name));
            }
        }
        for dir in &self.made {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

fn names(dir: &Path) -> io::Result<HashSet<OsString>> {
    std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
}

/// The records of a batch, each with its LSN.
pub(crate) struct Places<'a> {
    pub(crate) lsn: Lsn,
    pub(crate) records: Records<'a>,
}

impl<'a> Iterator for Places<'a> {
    type Item = (Lsn, RawRecord<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.records.next()?;
        let start = self.lsn;
        self.lsn = start.saturating_add(record.bytes() as u64);
        Some((start, record))
    }
}

/// A log while it is copied.
struct Copying {
    target: Target,
    /// The new log, made with the first record.
    log: Option<Log>,
    records: u64,
    /// Where the next batch starts if nothing is missing.
    due: Lsn,
    /// What is cut off the old log.
    cuts: CutList,
    left_out: Vec<(Lsn, Lsn)>,
    /// The first failure of writing it.
    refused: Option<Error>,
}

impl Copying {
    fn log(&mut self) -> Result<&Log> {
        if self.log.is_none() {
            self.log = Some(self.target.open()?);
        }
        self.log.as_ref().ok_or(Error::Closed)
    }

    /// Copies the records of a batch that do not lie before `first`.
    fn batch(&mut self, first: Lsn, header: &BatchHeader, body: &[u8]) -> Result<()> {
        self.expect(header.lsn);
        self.due = self.due.max(header.end());
        let cuts = std::mem::take(&mut self.cuts);
        let is_left = |start, record: &RawRecord<'_>| is_copied((start, first), record.tag.as_ref(), &cuts);
        let mut records = Places { lsn: header.lsn, records: Records::new(body) };
        let mut copied = Ok(());
        while copied.is_ok() && !records.records.rest().is_empty() {
            copied = self.transaction(&mut records, is_left);
        }
        self.cuts = cuts;
        copied
    }

    /// Copies what is left of the next transaction.
    fn transaction(
        &mut self,
        records: &mut Places<'_>,
        is_left: impl Fn(Lsn, &RawRecord<'_>) -> bool,
    ) -> Result<()> {
        let mut left = Vec::new();
        for (start, record) in records {
            left.extend(is_left(start, &record).then_some(record));
            if !record.more {
                break;
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        self.log()?.transaction::<Error>(|transaction| {
            left.iter().try_for_each(|record| match &record.tag {
                Some(tag) => transaction.append_copy(tag, record.payload),
                None => transaction.append(record.payload),
            })
        })?;
        self.records += left.len() as u64;
        Ok(())
    }

    /// Notes what is missing before `lsn`.
    fn expect(&mut self, lsn: Lsn) {
        if lsn > self.due {
            self.left_out.push((self.due, lsn));
            self.due = lsn;
        }
    }

    fn finish(&mut self, report: Report) -> Result<Salvaged> {
        self.expect(report.witnessed);
        if let Tail::Lost { to, .. } = report.tail {
            self.expect(to);
        }
        let end = self.log()?.appended_lsn();
        if let Some(log) = self.log.take() {
            log.close()?;
        }
        let left_out = std::mem::take(&mut self.left_out);
        Ok(Salvaged { report, records: self.records, end, left_out })
    }

    /// Leaves the target as it was, unless something was copied.
    fn give_up(&mut self) {
        if self.log.take().is_some() && self.records == 0 {
            self.target.restore();
        }
    }
}
