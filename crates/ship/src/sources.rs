//! Reads a log from several destinations at once, checks each, and falls back on the others where one is damaged or ends.
//!
//! ```text
//! destination ─► thread: its chain ─► pieces ─┐
//! destination ─► thread: its chain ─► pieces ─┼─► the same piece of all that have it: equal, byte by byte ─► once ─► log
//! destination ─► thread: its chain ─► damaged ┘   the longest one decides where the log ends
//! ```
//!
//! Messages differ from place to place, pieces of the log do not: they are put in order by where they lie in the segments.
//!
//! A rebuild reads all of them to their ends and proves what it wrote; then it takes the right to write at every place, in the order of the
//! addresses, from the writer alone that was seen there: of two rebuilds at once one gets the right everywhere. Where a chain is damaged the
//! place is reported, and its writer is refused where the last messages show the end.
//!
//! Invariants: two sources that hold different batches at one place end everything; a source of another log as well; what was wrong
//! with any source is returned, also if the others made up for it; memory is bounded by four parcels a source, and by the messages that are read ahead.

use crate::beside::Beside;
use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::guess;
use crate::manifest::Indexed;
use crate::message::Owner;
use crate::note::random;
use crate::restore::{Drill, Intake, Progress, Read, Rebuilt, claim, empty, lacks, noted, take_term_from};
use seawall::{LogId, Lsn, Rebuild, RebuildTo, SealedCheck};
use seawall_sys::planted;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

/// Parcels of a source that wait to be compared.
const WAITING: usize = 2;

/// A fault of one source.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// Its address.
    pub address: String,
    /// The fault and its place.
    pub error: Error,
    /// Whether its writer was fenced all the same, at the end that its last messages show.
    pub is_taken: bool,
}

/// The result of reading several sources.
#[derive(Clone, Debug)]
pub struct Joined<T> {
    /// The outcome; each source supplied what the others lacked.
    pub outcome: T,
    /// The faults of sources.
    pub wrong: Vec<Wrong>,
}

/// What of the pieces of a source is new to a log that holds some of them already.
#[derive(Default)]
pub(crate) struct Fresh(Option<SealedCheck>);

impl Fresh {
    /// Some of what comes may be there.
    pub(crate) fn after_others() -> Self {
        Self(Some(SealedCheck::new()))
    }

    /// The part of `pieces` that comes after what `held` has.
    ///
    /// # Errors
    /// [`Error::Log`] if they are invalid, [`Error::Diverged`] if the source holds something else at the same place.
    pub(crate) fn of<'a>(&mut self, pieces: &'a [u8], held: &SealedCheck) -> Result<&'a [u8]> {
        let Some(check) = &mut self.0 else { return Ok(pieces) };
        let mut rest = pieces;
        while !rest.is_empty() {
            let before = rest;
            check.take(&mut rest)?;
            if let (Some(here), Some(there)) = (held.log_id(), check.log_id())
                && here != there
            {
                let what = format!("the folder holds another log, {there}");
                return Err(Error::Diverged { lsn: held.lsn(), what });
            }
            if check.place() > held.place() {
                check.check(rest)?;
                return Ok(before);
            }
            if check.place() == held.place() && check.link() != held.link() {
                return Err(diverged(held.lsn(), "the copies of the log"));
            }
        }
        Ok(rest)
    }
}

fn diverged(lsn: Lsn, who: &str) -> Error {
    Error::Diverged { lsn, what: format!("{who} hold different batches at that LSN") }
}

/// One source.
struct Source {
    destination: Box<dyn Destination>,
    intake: Intake,
    check: SealedCheck,
    wrong: Option<Error>,
    /// Its chain is damaged, and the right to write was taken all the same.
    is_taken: bool,
}

/// Several places that hold the same log.
pub struct Sources(Vec<Source>);

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|source| source.destination.address())).finish()
    }
}

/// What comes from the thread of a source.
struct Feed {
    parcels: Receiver<Vec<u8>>,
    parcel: Vec<u8>,
    /// The piece that is next in it, and where it ends in the log.
    piece: Range<usize>,
    place: Option<(u64, u64)>,
    has_begun: bool,
    check: SealedCheck,
    wrong: Option<Error>,
}

impl Feed {
    /// Has the next piece in front, unless the source has ended.
    fn fill(&mut self) {
        if self.place.is_some() || self.wrong.is_some() {
            return;
        }
        while self.piece.end == self.parcel.len() {
            let Ok(parcel) = self.parcels.recv() else { return };
            (self.parcel, self.piece) = (parcel, 0..0);
        }
        let start = self.piece.end;
        let mut rest = &self.parcel[start..];
        match self.check.take(&mut rest) {
            Ok(piece) => {
                self.piece = start..start + piece.len();
                self.place = Some(self.check.place());
            }
            Err(error) => self.wrong = Some(error.into()),
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.parcel[self.piece.clone()]
    }
}

impl Sources {
    /// The log that all of these hold.
    ///
    /// # Errors
    /// [`Error::Option`] if one is named twice or there is none, [`Error::Unavailable`].
    pub fn new(destinations: Vec<Box<dyn Destination>>) -> Result<Self> {
        let mut sources = Vec::new();
        for mut destination in destinations {
            let chain = destination.begin()?;
            let intake = Intake::new(chain, destination.as_ref());
            sources.push(Source {
                destination,
                intake,
                check: SealedCheck::new(),
                wrong: None,
                is_taken: false,
            });
        }
        // Everyone takes the right in this order, so that one gets it everywhere.
        sources.sort_by_key(|source| source.destination.address());
        let twice =
            sources.windows(2).any(|pair| pair[0].destination.address() == pair[1].destination.address());
        if sources.is_empty() || twice {
            let reason = "must name at least one source, and each once".to_owned();
            return Err(Error::Option { option: "from", reason });
        }
        Ok(Self(sources))
    }

    /// Reads all of them to their ends, or until `sink` wants no more: it gets every piece once, in order.
    fn read(&mut self, sink: &mut dyn FnMut(&[u8]) -> Result<bool>) -> Result<()> {
        let addresses: Vec<String> = self.0.iter().map(|source| source.destination.address()).collect();
        let merged = std::thread::scope(|scope| {
            let mut feeds = Vec::new();
            for source in &mut self.0 {
                let (sender, parcels) = sync_channel(WAITING);
                let check = source.check.clone();
                let (parcel, piece) = (Vec::new(), 0..0);
                feeds.push(Feed {
                    parcels,
                    parcel,
                    piece,
                    place: None,
                    has_begun: false,
                    check,
                    wrong: None,
                });
                let Source { destination, intake, wrong, .. } = source;
                scope.spawn(move || {
                    let mut send = |pieces: &[u8]| Ok(sender.send(pieces.to_vec()).is_ok());
                    *wrong = intake.read_all(destination.as_mut(), &mut send).err();
                });
            }
            let merged = merge(&mut feeds, &addresses, sink);
            // A reader that still sends finds its feed closed, and ends.
            merged.map(|()| feeds.into_iter().map(|feed| (feed.check, feed.wrong)).collect::<Vec<_>>())
        });
        for (source, (check, wrong)) in self.0.iter_mut().zip(merged?) {
            source.check = check;
            source.wrong = source.wrong.take().or(wrong);
            if source.wrong.is_none() && source.intake.chain.log_id.is_none() {
                source.wrong = Some(empty(source.destination.as_ref()));
            }
        }
        // Nothing is left to fall back to.
        let first = || self.0.iter().find_map(|source| source.wrong.clone());
        if self.0.iter().all(|source| source.wrong.is_some()) { first().map_or(Ok(()), Err) } else { Ok(()) }
    }

    fn wrong(&self) -> Vec<Wrong> {
        let wrong = |source: &Source| {
            let (address, is_taken) = (source.destination.address(), source.is_taken);
            Some(Wrong { address, error: source.wrong.clone()?, is_taken })
        };
        self.0.iter().filter_map(wrong).collect()
    }

    /// What was wrong with a source, rather than that what it lacks is missing.
    fn blame(&self, error: Error) -> Error {
        self.0.iter().find_map(|source| source.wrong.clone()).unwrap_or(error)
    }

    fn total(&self) -> Read {
        let mut total = Read::default();
        for Source { intake: Intake { read, .. }, .. } in &self.0 {
            total.messages += read.messages;
            total.ignored += read.ignored;
            total.strays += read.strays;
            total.bytes += read.bytes;
            total.time = total.time.max(read.time);
        }
        total
    }

    /// One that is away, or holds another log, ends it before anything is read.
    fn look(&mut self) -> Result<()> {
        let look = |source: &mut Source| guess::end(source.destination.as_mut());
        let ends = self.0.iter_mut().map(look).collect::<Result<Vec<_>>>()?;
        let known = self.0.iter().zip(&ends).filter_map(|(source, end)| Some((source, end.as_ref()?)));
        let logs = known.filter_map(|(source, end)| Some((source.destination.address(), end.log_id?)));
        same_log(&logs.collect::<Vec<_>>())
    }

    /// Takes the right to write for `owner` at each place, and reads what is left there into `rebuild`.
    fn claim(&mut self, owner: Owner, rebuild: &mut Rebuild) -> Result<u64> {
        // It may be sound, and its writer would continue.
        let passing = self.0.iter().find_map(|source| source.wrong.clone().filter(Error::is_passing));
        if let Some(passing) = passing {
            return Err(passing);
        }
        let writers: Vec<Owner> = self.0.iter().map(|source| source.intake.chain.owner).collect();
        let mut highest = 0;
        for source in &mut self.0 {
            let Source { destination, intake, check, is_taken, wrong } = source;
            if wrong.is_some() {
                *is_taken = take_damaged(destination.as_mut(), owner)?;
                continue;
            }
            let mut fresh = Fresh(Some(check.clone()));
            let mut sink = |pieces: &[u8]| Ok(rebuild.push(fresh.of(pieces, rebuild.progress())?)?);
            intake.until = u64::MAX;
            let note = claim(destination.as_mut(), intake, (owner, Some(&writers)), &mut sink)?;
            note.write(rebuild.folder())?;
            highest = highest.max(note.chain.term);
        }
        Ok(highest)
    }
}

/// Takes the right to write where the last messages of a damaged chain show its end; whether it was.
fn take_damaged(from: &mut dyn Destination, owner: Owner) -> Result<bool> {
    let Some(end) = guess::end(from)? else { return Ok(false) };
    let writers = [end.owner];
    match take_term_from(from, owner, end, &writers) {
        Ok(_) => Ok(true),
        Err(Error::Damaged { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the sources at these addresses hold one log.
fn same_log(sources: &[(String, LogId)]) -> Result<()> {
    let differs = |(_, here): &&(String, LogId)| *here != sources[0].1;
    let Some((other, here)) = sources.iter().find(differs) else { return Ok(()) };
    let (one, known) = &sources[0];
    Err(Error::unfit(format!("{other} holds another log ({here}) than {one} ({known}): omit one of them")))
}

/// Every piece once, in order, to `sink`; all that have it must have the same.
fn merge(
    feeds: &mut [Feed],
    addresses: &[String],
    sink: &mut dyn FnMut(&[u8]) -> Result<bool>,
) -> Result<()> {
    let mut log: Option<(String, LogId)> = None;
    loop {
        feeds.iter_mut().for_each(Feed::fill);
        for (at, feed) in feeds.iter().enumerate().filter(|(_, feed)| feed.place.is_some()) {
            let Some(here) = feed.check.log_id() else { continue };
            let here = (addresses[at].clone(), here);
            same_log(&[log.get_or_insert_with(|| here.clone()).clone(), here])?;
        }
        let Some(place) = feeds.iter().filter_map(|feed| feed.place).min() else { return Ok(()) };
        let at_place = |(_, feed): &(usize, &Feed)| feed.place == Some(place);
        let Some((first, chosen)) = feeds.iter().enumerate().find(at_place) else { return Ok(()) };
        let differs = |(_, feed): &(usize, &Feed)| match feed.place {
            Some(here) if here == place => feed.bytes() != chosen.bytes(),
            // It had everything up to here, and continues elsewhere.
            Some(_) => feed.has_begun,
            None => false,
        };
        let other = planted!(SourcesNotCompared, feeds.iter().enumerate().find(differs));
        if let Some((other, _)) = other {
            let who = format!("{} and {}", addresses[first], addresses[other]);
            return Err(diverged(chosen.check.lsn(), &who));
        }
        if !sink(chosen.bytes())? {
            return Ok(());
        }
        for feed in feeds.iter_mut().filter(|feed| feed.place == Some(place)) {
            (feed.place, feed.has_begun) = (None, true);
        }
    }
}

/// Rebuilds the log in the folder `to`, which must not be there or be empty, from all of `sources`, and takes over from its old writer at
/// each: after the reading, as [`crate::restore::rebuild`] does.
///
/// # Errors
/// As [`crate::restore::rebuild`]; [`Error::Diverged`] if sources hold different batches, [`Error::Unfit`] if they hold different logs,
/// [`Error::Unavailable`] if one cannot be read: its writer could not be refused.
pub fn rebuild(
    mut sources: Sources,
    to: impl AsRef<Path>,
    progress: Progress<'_>,
) -> Result<Joined<Rebuilt>> {
    let mut rebuild = Rebuild::begin(to.as_ref(), RebuildTo::default())?;
    let owner = random()?;
    sources.look()?;
    sources.fill(&mut rebuild, progress)?;
    let proven = rebuild.prove().map_err(|error| sources.blame(error.into()));
    planted!(SourcesTakenUnproven, proven?);
    let term = sources.claim(owner, &mut rebuild)?;
    let report = rebuild.finish().map_err(|error| sources.blame(error.into()))?;
    let outcome = Rebuilt { report, read: sources.total(), term: Some(term) };
    Ok(Joined { outcome, wrong: sources.wrong() })
}

impl Sources {
    fn fill(&mut self, rebuild: &mut Rebuild, progress: Progress<'_>) -> Result<()> {
        let mut bytes = 0;
        let mut failed = None;
        let read = self.read(&mut |piece| {
            bytes += piece.len() as u64;
            match rebuild.push(piece) {
                Ok(more) => {
                    progress(rebuild.progress().lsn(), bytes);
                    Ok(more)
                }
                // Why the piece before this one is missing is known when the sources have ended.
                Err(error) => {
                    failed = Some(error);
                    Ok(false)
                }
            }
        });
        read?;
        failed.map_or(Ok(()), |error| Err(self.blame(error.into())))
    }
}

/// Rebuilds the log up to a position or a time from all of `sources`, and leaves its writer be.
///
/// # Errors
/// As [`rebuild`] and [`crate::restore::copy`].
pub fn copy(
    mut sources: Sources,
    to: impl AsRef<Path>,
    until: RebuildTo,
    progress: Progress<'_>,
) -> Result<Joined<Rebuilt>> {
    let mut rebuild = Rebuild::begin(to.as_ref(), until)?;
    sources.fill(&mut rebuild, progress)?;
    let report = rebuild.finish().map_err(|error| sources.blame(error.into()))?;
    let outcome = Rebuilt { report, read: sources.total(), term: None };
    Ok(Joined { outcome, wrong: sources.wrong() })
}

/// Reads all of `sources` as a rebuild would, and compares them; with `dir`, the log that is shipped there, also that nothing is
/// missing from any that it knows to be acknowledged.
///
/// # Errors
/// As [`rebuild`].
pub fn drill(mut sources: Sources, dir: Option<&Path>, progress: Progress<'_>) -> Result<Joined<Drill>> {
    // Before the reading, so that they are not newer than what is read.
    let note = |source: &mut Source| dir.map(|dir| noted(dir, source.destination.as_mut())).transpose();
    let notes = sources.0.iter_mut().map(note).collect::<Result<Vec<_>>>()?;
    let mut indexes = Vec::new();
    for source in &mut sources.0 {
        source.intake.segments = Some(Vec::new());
        indexes.push((source.intake.chain.position, source.destination.index()));
    }
    let mut check = SealedCheck::new();
    let (mut bytes, mut failed) = (0, None);
    // The same log lies beside all of them.
    let first = notes.first().and_then(Option::as_ref);
    let begin = sources.0.iter().map(|source| source.intake.chain.lsn).min().unwrap_or_default();
    let mut beside = dir.zip(first).map(|(dir, note)| Beside::open(dir, note, begin)).transpose()?;
    sources.read(&mut |piece| {
        bytes += piece.len() as u64;
        failed = check.check(piece).err();
        if let Some(beside) = beside.as_mut().filter(|_| failed.is_none()) {
            beside.step(check.lsn(), check.link())?;
        }
        progress(check.lsn(), bytes);
        Ok(failed.is_none())
    })?;
    if let Some(error) = failed {
        return Err(sources.blame(error.into()));
    }
    let mut between = None;
    for (source, note) in sources.0.iter_mut().zip(&notes) {
        let lost = note.as_ref().filter(|note| lacks(&source.intake.chain, &note.chain));
        if let Some(note) = lost.filter(|_| source.wrong.is_none()) {
            source.wrong = Some(Error::Lost { position: note.chain.position });
        }
    }
    let mut manifests = Indexed::default();
    for (source, (begin, index)) in
        sources.0.iter_mut().zip(indexes).filter(|(source, _)| source.wrong.is_none())
    {
        let found = source.intake.segments.take().unwrap_or_default();
        match index.and_then(|index| index.hold_against(&found, begin)) {
            Ok(Indexed { sound, lacking }) => {
                manifests.sound += sound;
                manifests.lacking += lacking;
            }
            Err(error) => source.wrong = Some(error),
        }
    }
    let first = sources.0.iter().find(|source| source.wrong.is_none());
    if let (Some(beside), Some(source), Some(Some(note))) = (beside, first, notes.first()) {
        between = Some(beside.end(&source.intake.chain, note)?);
    }
    let log_id = first.and_then(|source| source.intake.chain.log_id);
    let Some(log_id) = log_id else { return Err(sources.blame(Error::unfit("no source is valid"))) };
    let term = sources.0.iter().map(|source| source.intake.chain.term).max().unwrap_or_default();
    let outcome = Drill {
        log_id,
        first: check.first(),
        end: check.lsn(),
        records: check.records(),
        time_us: check.time_us(),
        term,
        manifests,
        between,
        read: sources.total(),
    };
    Ok(Joined { outcome, wrong: sources.wrong() })
}
