//! Restores a log from the destinations that hold it and fences its old writer, restores a copy, or drills: reads and checks everything,
//! and writes nothing.
//!
//! ```text
//! rebuild:  read all up to the end, into TO.partial ─► sync, read back, verify ─► take an epoch: the old writer is refused from now on
//!           ─► read what it had still added ─► TO, with a note on the destination
//! copy:     read up to an LSN or a time, into TO: a log that cannot be shipped to the destination
//! drill:    read to the end, check everything
//!
//! several destinations are checked against each other, and fall back on the others where one is damaged or ends:
//!
//! destination ─► thread: its chain ─► pieces ─┐
//! destination ─► thread: its chain ─► pieces ─┼─► the same piece of all that have it: equal, byte by byte ─► once ─► log
//! destination ─► thread: its chain ─► damaged ┘   the longest one decides where the log ends
//! ```
//!
//! Messages differ from place to place, pieces of the log do not: they are put in order by where they lie in the segments.
//!
//! A rebuild reads all of them to their ends and proves what it wrote; then it takes an epoch at every place, in the order of the
//! addresses, from the writer alone that was seen there: of two rebuilds at once one gets the right everywhere. Where a chain is damaged the
//! place is reported, and its writer is refused where the last messages show the end.
//!
//! Invariants: two sources that hold different batches at one place end everything; a source of another log as well; what was wrong
//! with any source is returned, also if the others made up for it; a rebuild that fails before it takes an epoch fences no writer; memory
//! is bounded by four parcels a source, and by the messages that are read ahead.

use crate::beside::{Beside, Between};
use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::guess;
pub use crate::intake::Read;
use crate::intake::{Intake, Sink, claim, empty, noted};
use crate::manifest::Indexed;
use crate::message::{Chain, Owner};
use crate::note::random;
use crate::status::first_lsn;
use seawall::{LogId, Lsn, Rebuild, RebuildTo, Report, SealedCheck};
use seawall_sys::planted;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

/// Parcels of a source that wait to be compared.
const WAITING: usize = 2;

/// The result of a restore.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rebuilt {
    /// What [`seawall::verify`] says of the log.
    pub report: Report,
    /// What was read for it.
    pub read: Read,
    /// The epoch that was taken; none for a copy.
    pub epoch: Option<u64>,
}

/// The result of a drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drill {
    /// Which log.
    pub log_id: LogId,
    /// The first LSN that the log had.
    pub first: Lsn,
    /// Where the destination ends.
    pub end: Lsn,
    /// Whole records.
    pub records: u64,
    /// When the last batch was gathered, microseconds since 1970.
    pub time_us: u64,
    /// The last epoch.
    pub epoch: u64,
    /// The state of an archive's manifests.
    pub manifests: Indexed,
    /// How the log compares, if it was named.
    pub between: Option<Between>,
    /// What was read.
    pub read: Read,
}

/// Called with the LSN and the bytes that were read so far.
pub type Progress<'a> = &'a mut dyn FnMut(Lsn, u64);

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
struct Source<'a> {
    destination: &'a mut dyn Destination,
    intake: Intake,
    check: SealedCheck,
    wrong: Option<Error>,
    /// Its chain is damaged, and the right to write was taken all the same.
    is_taken: bool,
}

/// The places that hold a log: one, or several that hold the same one.
pub struct Sources<'a>(Vec<Source<'a>>);

impl std::fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|source| source.destination.address())).finish()
    }
}

/// What comes from the thread of a source.
struct Feed {
    parcels: Receiver<(Vec<u8>, u64)>,
    parcel: Vec<u8>,
    /// When it was sent, 0 if that is not known.
    sent_us: u64,
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
            let Ok((parcel, sent_us)) = self.parcels.recv() else { return };
            (self.parcel, self.sent_us, self.piece) = (parcel, sent_us, 0..0);
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

impl<'a> Sources<'a> {
    /// The log that all of these hold.
    ///
    /// # Errors
    /// [`Error::Option`] if one is named twice or there is none, [`Error::Unavailable`].
    pub fn new(destinations: impl IntoIterator<Item = &'a mut dyn Destination>) -> Result<Self> {
        let mut sources = Vec::new();
        for destination in destinations {
            let intake = Intake::new(destination.begin()?, destination);
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

    /// Skips the history that the log itself had trimmed: reads each source from the segment on at which the log began at `until`. Returns
    /// whether all of them say where that is; one that does not is read from its beginning.
    ///
    /// # Errors
    /// As [`Destination::read`].
    pub fn skip_trimmed(&mut self, until: &RebuildTo) -> Result<bool> {
        let mut all = true;
        for Source { destination, intake, .. } in &mut self.0 {
            match destination.begin_untrimmed(until)? {
                Some(begin) => *intake = Intake::new(begin, *destination),
                None => all = false,
            }
        }
        Ok(all)
    }

    /// From which LSN to which one the longest of them holds the log, as their first and last messages show it: about what is read. Skips
    /// one that cannot be read: the read itself reports it.
    pub fn extent(&mut self) -> Option<Range<Lsn>> {
        let extents = self.0.iter_mut().filter_map(|Source { destination, intake, .. }| {
            let end = guess::end(*destination).ok()??;
            Some(first_lsn(*destination, &intake.chain).ok()??..end.lsn)
        });
        extents.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end))
    }

    /// Reads all of them to their ends, or until `sink` wants no more: it gets every piece once, in order, and when that was sent.
    fn read(&mut self, sink: Sink<'_>) -> Result<()> {
        if let [Source { destination, intake, .. }] = &mut self.0[..] {
            // Nothing is there to compare it with.
            intake.read_all(*destination, sink)?;
            return if intake.chain.log_id.is_some() { Ok(()) } else { Err(empty(*destination)) };
        }
        let addresses: Vec<String> = self.0.iter().map(|source| source.destination.address()).collect();
        let merged = std::thread::scope(|scope| {
            let mut feeds = Vec::new();
            for source in &mut self.0 {
                let (sender, parcels) = sync_channel(WAITING);
                let check = source.check.clone();
                let (parcel, sent_us, piece) = (Vec::new(), 0, 0..0);
                feeds.push(Feed {
                    parcels,
                    parcel,
                    sent_us,
                    piece,
                    place: None,
                    has_begun: false,
                    check,
                    wrong: None,
                });
                let Source { destination, intake, wrong, .. } = source;
                scope.spawn(move || {
                    let mut send =
                        |pieces: &[u8], sent_us: u64| Ok(sender.send((pieces.to_vec(), sent_us)).is_ok());
                    *wrong = intake.read_all(*destination, &mut send).err();
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
                source.wrong = Some(empty(source.destination));
            }
        }
        // Nothing is left to fall back to.
        let first = || self.0.iter().find_map(|source| source.wrong.clone());
        if self.0.iter().all(|source| source.wrong.is_some()) { first().map_or(Ok(()), Err) } else { Ok(()) }
    }

    fn wrong(&self) -> Vec<Wrong> {
        let wrong = |source: &Source<'_>| {
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
        let look = |source: &mut Source<'_>| guess::end(source.destination);
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
        let is_only = self.0.len() == 1;
        let mut highest = 0;
        for source in &mut self.0 {
            let Source { destination, intake, check, is_taken, wrong } = source;
            if wrong.is_some() {
                *is_taken = take_damaged(*destination, owner)?;
                continue;
            }
            let mut fresh = Fresh((!is_only).then(|| check.clone()));
            let mut sink = |pieces: &[u8], _| Ok(rebuild.push(fresh.of(pieces, rebuild.progress())?)?);
            intake.until = u64::MAX;
            let note = claim(*destination, intake, (owner, Some(&writers)), &mut sink)?;
            note.write(rebuild.folder())?;
            highest = highest.max(note.chain.epoch);
        }
        Ok(highest)
    }
}

/// Takes the right to write where the last messages of a damaged chain show its end; whether it was.
fn take_damaged(from: &mut dyn Destination, owner: Owner) -> Result<bool> {
    let Some(end) = guess::end(from)? else { return Ok(false) };
    let writers = [end.owner];
    let mut intake = Intake::new(end, from);
    match claim(from, &mut intake, (owner, Some(&writers)), &mut |_, _| Ok(true)) {
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
fn merge(feeds: &mut [Feed], addresses: &[String], sink: Sink<'_>) -> Result<()> {
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
        if !sink(chosen.bytes(), chosen.sent_us)? {
            return Ok(());
        }
        for feed in feeds.iter_mut().filter(|feed| feed.place == Some(place)) {
            (feed.place, feed.has_begun) = (None, true);
        }
    }
}

/// Restores the log in the folder `to`, which must be missing or empty, and fences its old writer at each of `sources`.
///
/// The epoch is taken when everything up to the end was read, written, and read back, which fences the old writer. A
/// restore that fails before does not fence it.
///
/// # Errors
/// [`Error::Damaged`] with the message that is missing or invalid; [`Error::Replaced`] if another one took over at the same time;
/// [`Error::Diverged`] if sources hold different batches, [`Error::Unfit`] if they hold different logs or none, [`Error::Unavailable`] if
/// one cannot be read: its writer could not be refused; [`Error::Log`].
pub fn rebuild(
    mut sources: Sources<'_>,
    to: impl AsRef<Path>,
    progress: Progress<'_>,
) -> Result<Joined<Rebuilt>> {
    let mut rebuild = Rebuild::begin(to.as_ref(), RebuildTo::default())?;
    let owner = random()?;
    if sources.0.len() > 1 {
        sources.look()?;
    }
    let filled = sources.fill(&mut rebuild, progress);
    let proven = filled.and_then(|()| rebuild.prove().map_err(|error| sources.blame(error.into())));
    planted!(RebuildTakesUnproven, proven?);
    let epoch = sources.claim(owner, &mut rebuild)?;
    let report = rebuild.finish().map_err(|error| sources.blame(error.into()))?;
    let outcome = Rebuilt { report, read: sources.total(), epoch: Some(epoch) };
    Ok(Joined { outcome, wrong: sources.wrong() })
}

impl Sources<'_> {
    fn fill(&mut self, rebuild: &mut Rebuild, progress: Progress<'_>) -> Result<()> {
        let mut bytes = 0;
        let mut failed = None;
        let read = self.read(&mut |pieces, sent_us| {
            bytes += pieces.len() as u64;
            match rebuild.push_sent(pieces, sent_us) {
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
        failed.map_or(Ok(()), |error| Err(self.blame(error.into())))?;
        // There may be an epoch, and no batch.
        let is_empty = rebuild.progress().log_id().is_none();
        if is_empty { Err(self.blame(empty(self.0[0].destination))) } else { Ok(()) }
    }

    /// Where the longest of them ends.
    fn end(&self) -> Lsn {
        self.0.iter().map(|source| source.intake.chain.lsn).max().unwrap_or_default()
    }
}

/// Restores a copy of the log up to a position or a time in the folder `to`, and does not fence its writer: the copy cannot be shipped to
/// the same destinations.
///
/// # Errors
/// As [`rebuild`].
pub fn copy(
    mut sources: Sources<'_>,
    to: impl AsRef<Path>,
    until: RebuildTo,
    progress: Progress<'_>,
) -> Result<Joined<Rebuilt>> {
    let mut rebuild = Rebuild::begin(to.as_ref(), until)?;
    sources.fill(&mut rebuild, progress)?;
    let reached = rebuild.progress().lsn();
    if until.lsn < Lsn::MAX && reached < until.lsn && sources.end() < until.lsn {
        let addresses: Vec<_> = sources.0.iter().map(|source| source.destination.address()).collect();
        let what = format!("{} ends at LSN {reached}, before LSN {}", addresses.join(", "), until.lsn);
        return Err(sources.blame(Error::unfit(what)));
    }
    let report = rebuild.finish().map_err(|error| sources.blame(error.into()))?;
    let outcome = Rebuilt { report, read: sources.total(), epoch: None };
    Ok(Joined { outcome, wrong: sources.wrong() })
}

/// Reads and checks everything as a restore would, and compares the sources; with `dir`, the shipped log, also that everything it knows to
/// be acknowledged is there.
///
/// # Errors
/// As [`rebuild`]; [`Error::Lost`] if something acknowledged is missing, [`Error::Other`]; [`Error::Manifest`] if only a manifest is not
/// sound; [`Error::Forked`].
pub fn drill(mut sources: Sources<'_>, dir: Option<&Path>, progress: Progress<'_>) -> Result<Joined<Drill>> {
    // Before the reading, so that they are not newer than what is read.
    let note = |source: &mut Source<'_>| dir.map(|dir| noted(dir, source.destination)).transpose();
    let notes = sources.0.iter_mut().map(note).collect::<Result<Vec<_>>>()?;
    let mut indexes = Vec::new();
    for (Source { destination, intake, .. }, note) in sources.0.iter_mut().zip(&notes) {
        intake.segments = Some(Vec::new());
        intake.known = note.as_ref().map_or(0, |note| note.chain.position);
        indexes.push((intake.chain.position, destination.index()));
    }
    let mut check = SealedCheck::new();
    let (mut bytes, mut failed) = (0, None);
    // The same log lies beside all of them.
    let first = notes.first().and_then(Option::as_ref);
    let begin = sources.0.iter().map(|source| source.intake.chain.lsn).min().unwrap_or_default();
    let mut beside = dir.zip(first).map(|(dir, note)| Beside::open(dir, note, begin)).transpose()?;
    sources.read(&mut |mut pieces, _| {
        bytes += pieces.len() as u64;
        while !pieces.is_empty() {
            if let Err(error) = check.take(&mut pieces) {
                failed = Some(error);
                return Ok(false);
            }
            if let Some(beside) = &mut beside {
                beside.step(check.lsn(), check.link())?;
            }
        }
        progress(check.lsn(), bytes);
        Ok(true)
    })?;
    if let Some(error) = failed {
        return Err(sources.blame(error.into()));
    }
    if let [only] = &mut sources.0[..] {
        only.check = check.clone();
    }
    let mut manifests = Indexed::default();
    for ((source, (begin, index)), note) in sources.0.iter_mut().zip(indexes).zip(&notes) {
        let Source { intake, check, wrong: wrong @ None, .. } = source else { continue };
        let checked = note.as_ref().map_or(Ok(()), |note| intake.holds(&note.chain));
        let checked = checked.and_then(|()| ends_as_stated(check, &intake.chain));
        let found = intake.segments.take().unwrap_or_default();
        match checked.and_then(|()| index?.hold_against(&found, begin)) {
            Ok(Indexed { sound, lacking }) => {
                manifests.sound += sound;
                manifests.lacking += lacking;
            }
            Err(error) => *wrong = Some(error),
        }
    }
    let Some(first) = sources.0.iter().find(|source| source.wrong.is_none()) else {
        return Err(sources.blame(Error::unfit("no source is valid")));
    };
    let epoch = sources.0.iter().map(|source| source.intake.chain.epoch).max().unwrap_or_default();
    let is_replaced = sources.0.iter().zip(&notes).any(|(source, note)| {
        let owner = source.intake.chain.owner;
        source.wrong.is_none() && note.as_ref().is_some_and(|note| note.owner != owner)
    });
    let between = beside.map(|beside| beside.end(epoch, is_replaced)).transpose()?;
    let outcome = Drill {
        log_id: first.intake.chain.log_id.ok_or_else(|| empty(first.destination))?,
        first: check.first(),
        end: sources.end(),
        records: check.records(),
        time_us: check.time_us(),
        epoch,
        manifests,
        between,
        read: sources.total(),
    };
    Ok(Joined { outcome, wrong: sources.wrong() })
}

/// Whether the batches of a source end where its messages say.
fn ends_as_stated(check: &SealedCheck, chain: &Chain) -> Result<()> {
    if check.batches() == 0 || (check.lsn(), check.link()) == (chain.lsn, chain.link) {
        return Ok(());
    }
    let what = format!("its batches end at LSN {}, but its messages state {}", check.lsn(), chain.lsn);
    Err(Error::Damaged { position: chain.position, what })
}
