//! One stream of a log: appending to it, reading and following it, trimming and cutting it.
//!
//! A [`Stream`] is a name for a stream of an open log and costs nothing. Where the records of a stream lie is known in
//! memory, so a reader reads those and no others, each with the blocks that it lies in.
//!
//! Invariants: a record is shown only when it is durable; a record that is being rewritten is read where it was until the
//! copy is durable; a reader that was overtaken by a trim, or whose place was cut, says so, and skips nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use seawall_sys::directory::Directory;
use seawall_sys::planted;

use crate::commit::group::Group;
use crate::commit::stream_cuts::CutWatch;
use crate::error::{Error, Result};
use crate::format::{Tag, TagKind};
use crate::log::Log;
use crate::lsn::Lsn;
use crate::read::follower::{Followed, Follower};
use crate::read::index::{RecordIndex, Wanted};
use crate::read::reader::Record;
use crate::stream::StreamId;
use crate::stream::places::RecordPlace;
use crate::stream::table::StreamTable;

/// Records whose places a reader looks up at once, in the end: it begins with one, which may be all that is read.
const PLACES_MAX: usize = 64;
/// How often a place is looked up again because the record was rewritten meanwhile.
const LOOKS_MAX: u32 = 16;

/// A record that was appended to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamAppend {
    /// Its sequence number in the stream.
    pub seq: u64,
    /// Where it begins in the log: what [`Log::read_at`] takes.
    pub start: Lsn,
    /// Where it ends in the log: what [`Log::commit`] takes.
    pub end: Lsn,
}

/// One stream of an open log: see [`Log::stream`].
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    log: &'a Log,
    id: StreamId,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(log: &'a Log, id: StreamId) -> Self {
        Self { log, id }
    }

    /// Which stream it is.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Appends a record to the stream. It is not durable yet: [`Log::commit`] its end. Waits as [`Log::append`] does.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append(&self, record: &[u8]) -> Result<StreamAppend> {
        self.log.append_to_stream::<true>(self.id, record)
    }

    /// As [`Stream::append`], but returns [`Error::WouldBlock`] where that would wait.
    ///
    /// # Errors
    /// As [`Log::append_no_wait`].
    pub fn append_no_wait(&self, record: &[u8]) -> Result<StreamAppend> {
        self.log.append_to_stream::<false>(self.id, record)
    }

    /// As [`Stream::append`], but waits for nothing: see [`Log::try_append`]. The first record of an open log that goes
    /// to any stream is refused so too.
    ///
    /// # Errors
    /// As [`Log::try_append`].
    pub fn try_append(&self, record: &[u8]) -> Result<StreamAppend> {
        self.log.try_append_to_stream(self.id, record)
    }

    /// Appends a record and returns when it is durable.
    ///
    /// # Errors
    /// As [`Log::append_commit`].
    pub fn append_commit(&self, record: &[u8]) -> Result<StreamAppend> {
        let appended = self.append(record)?;
        self.log.commit(appended.end)?;
        Ok(appended)
    }

    /// The sequence number of the first record that is left; that of the next record if there is none.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.bounds().0
    }

    /// The sequence number that the next record gets.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.bounds().1
    }

    fn bounds(&self) -> (u64, u64) {
        self.log.group.core().tagged.streams.bounds(self.id).unwrap_or_default()
    }

    /// Reads the durable record of this sequence number, in a few microseconds if the page cache has it.
    ///
    /// # Errors
    /// [`Error::StreamTrimmed`], [`Error::StreamEnd`] if there is no durable record of that number yet, [`Error::Corrupt`],
    /// [`Error::Io`], [`Error::Forked`].
    pub fn get(&self, seq: u64) -> Result<Record> {
        let mut reader = self.reader(seq, false)?;
        reader.next_record()?.ok_or_else(|| {
            let next = self.next_seq();
            Error::StreamEnd { stream: self.id, seq, next: next.min(seq) }
        })
    }

    /// Reads durable records of the stream from sequence number `from` on, also while the log is written to.
    ///
    /// # Errors
    /// [`Error::StreamTrimmed`], [`Error::StreamEnd`] past the next record, [`Error::Forked`].
    pub fn read(&self, from: u64) -> Result<StreamReader> {
        self.reader(from, true)
    }

    /// Reads from there on; one that hands out a single record need not `watch` for cuts.
    fn reader(&self, from: u64, watches: bool) -> Result<StreamReader> {
        let group = &self.log.group;
        group.status.check_readable()?;
        let core = group.core();
        let (first, next) = core.tagged.streams.bounds(self.id).unwrap_or_default();
        let end = if watches { core.tagged.streams.durable_end(self.id, core.acknowledged()) } else { next };
        let cut = watches.then(|| group.stream_cuts.watch(self.id));
        drop(core);
        check_seq(self.id, from, (first, next))?;
        let (group, dir, index) = self.log.shared();
        Ok(StreamReader {
            group,
            dir,
            index,
            id: self.id,
            next: from,
            end: end.max(from),
            cut,
            places: VecDeque::new(),
            at_once: 1,
            cuts: 0,
            ended: false,
        })
    }

    /// As [`Stream::read`], but waits for more at the end.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn follow(&self, from: u64) -> Result<StreamFollower> {
        self.read(from).map(|reader| Follower::new(Arc::clone(&reader.group), reader))
    }

    /// Trims the records before `seq`. Takes effect at once; durable when everything before the returned LSN is. The disk
    /// gets back what no other stream needs.
    ///
    /// # Errors
    /// [`Error::StreamEnd`] past the next record; as [`Log::append`].
    pub fn trim(&self, seq: u64) -> Result<Lsn> {
        self.change(TagKind::StreamTrim, seq)
    }

    /// Cuts off the record of sequence number `seq` and all after it: the next record gets that number. Takes effect at
    /// once for this process; durable when everything before the returned LSN is, so that a crash before that may bring
    /// the records back.
    ///
    /// A reader or follower that has handed out records which are cut off afterwards does not take them back: it ends with
    /// [`Error::StreamEnd`], which names the number at which the stream continues.
    ///
    /// # Errors
    /// [`Error::StreamTrimmed`] before the first record, [`Error::StreamEnd`] past the next one; as [`Log::append`].
    pub fn truncate(&self, seq: u64) -> Result<Lsn> {
        self.change(TagKind::StreamCut, seq)
    }

    /// Removes the stream with all its records; one of the same id that is written to later starts with number 0.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn remove(&self) -> Result<Lsn> {
        self.append_change(Tag::removal(self.id.get()))
    }

    /// Moves the first or the next number to `seq`.
    fn change(&self, kind: TagKind, seq: u64) -> Result<Lsn> {
        let tag = Tag { kind, stream: self.id.get(), number: seq };
        // A caller's number, perhaps a wrong subtraction, never removes the stream.
        if tag.removes() {
            return Err(Error::StreamEnd { stream: self.id, seq, next: self.next_seq() });
        }
        self.append_change(tag)
    }

    fn append_change(&self, tag: Tag) -> Result<Lsn> {
        let group = &self.log.group;
        let (end, core) = group.accept(|core| core.change_stream(&tag))?;
        group.note_stream_changes(&[tag]);
        let holds = core.tagged.streams.holds();
        drop(core);
        if holds {
            self.log.note_held()?;
        }
        Ok(end)
    }
}

/// Reads the durable records of a stream in order.
///
/// As an iterator it returns exactly the records that were durable when it was made, up to [`StreamReader::end_seq`], and ends after
/// the first error: a stream that was cut or removed meanwhile ends it with [`Error::StreamEnd`], never silently.
/// [`StreamReader::next_record`] continues whenever it is called.
pub struct StreamReader {
    group: Arc<Group>,
    dir: Arc<Directory>,
    index: Arc<RecordIndex>,
    id: StreamId,
    next: u64,
    /// Where the iterator ends.
    end: u64,
    cut: Option<CutWatch>,
    /// Where the next records are, as far as that was looked up.
    places: VecDeque<RecordPlace>,
    /// How many are looked up the next time.
    at_once: usize,
    /// How many cuts and trims there had been then.
    cuts: u64,
    ended: bool,
}

impl std::fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("StreamReader");
        shown.field("dir", &self.dir.path()).field("stream", &self.id).field("next", &self.next);
        shown.finish_non_exhaustive()
    }
}

impl StreamReader {
    /// The sequence number of the record that it hands out next.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next
    }

    /// The number after the last record that was durable when the reader was made: where it ends as an iterator.
    #[must_use]
    pub fn end_seq(&self) -> u64 {
        self.end
    }

    /// Whether it has handed out all that was appended to the stream: if not, [`StreamReader::next_record`] returns `None` because the
    /// next record is not durable yet.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.next >= self.group.core().tagged.streams.next_number(self.id)
    }

    /// The next durable record, or `None` if there is none yet, which [`StreamReader::is_at_end`] tells apart from the end; a later call may
    /// find more.
    ///
    /// # Errors
    /// [`Error::StreamTrimmed`] if the stream was trimmed past this reader; [`Error::StreamEnd`] if records that it has handed out were cut,
    /// with the number at which the stream continues, which a new reader takes; [`Error::StreamGap`], [`Error::Corrupt`] with the place of
    /// damaged data, [`Error::Io`].
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        let mut looks = 0;
        loop {
            if self.cuts != self.group.stream_changes() {
                self.places.clear();
            }
            if self.places.is_empty() {
                self.look_up()?;
            }
            let Some(place) = self.places.front() else { return Ok(None) };
            let read = self.index.read(&self.group, &self.dir, Wanted::StartsAt(place.lsn));
            let wanted =
                |record: &Record| record.stream.is_some_and(|at| (at.stream, at.seq) == (self.id, self.next));
            match read {
                Ok(read) if wanted(&read.record) => {
                    self.places.pop_front();
                    self.next += 1;
                    return Ok(Some(read.record));
                }
                // It was rewritten and its segment is gone, or the stream was cut there: it is looked up again.
                Ok(_) | Err(Error::Trimmed { .. } | Error::NoRecord { .. }) if looks < LOOKS_MAX => {
                    looks += 1;
                    self.places.clear();
                }
                Ok(read) => return Err(Error::NoRecord { lsn: read.record.lsn }),
                Err(error) => return Err(error),
            }
        }
    }

    /// Looks up where the next records are that are durable.
    fn look_up(&mut self) -> Result<()> {
        let cut = self.cut.as_ref();
        let (cuts, places) = durable_places(&self.group, (self.id, cut), self.next, self.at_once)?;
        self.cuts = cuts;
        self.places.extend(places);
        self.at_once = (self.at_once * 2).min(PLACES_MAX);
        Ok(())
    }
}

/// Where the next records of a stream are that are durable, `count` at most; and how many cuts and trims there had been then. Refuses
/// to continue where it was cut before the next one.
pub(crate) fn durable_places(
    group: &Group,
    (id, cut): (StreamId, Option<&CutWatch>),
    next: u64,
    count: usize,
) -> Result<(u64, Vec<RecordPlace>)> {
    let early = planted!(DurableSeenBefore(group), None);
    let core = group.core();
    // Both under the core lock, under which they change: a copy is acknowledged and where the record was is forgotten at once.
    let (cuts, durable) = (group.stream_changes(), early.unwrap_or_else(|| core.acknowledged()));
    if let Some(goes_on) = cut.and_then(|cut| cut.look(next)) {
        return Err(Error::StreamEnd { stream: id, seq: next, next: goes_on });
    }
    let Some((first, _)) = core.tagged.streams.bounds(id) else { return Ok((cuts, Vec::new())) };
    check_seq(id, next, (first, u64::MAX))?;
    Ok((cuts, places_from(&core.tagged.streams, (id, next), count, durable)?))
}

/// Refuses a number at which a stream has nothing: trimmed, or after the next record.
pub(crate) fn check_seq(stream: StreamId, seq: u64, (first, next): (u64, u64)) -> Result<()> {
    if seq < first {
        return Err(Error::StreamTrimmed { stream, seq, first });
    }
    if seq > next { Err(Error::StreamEnd { stream, seq, next }) } else { Ok(()) }
}

/// Where the records of a stream from `seq` on are that can be read when everything before `durable` is durable, `count` at most.
/// Refuses to continue where a salvaged log lacks the next one.
pub(crate) fn places_from(
    streams: &StreamTable,
    (stream, seq): (StreamId, u64),
    count: usize,
    durable: Lsn,
) -> Result<Vec<RecordPlace>> {
    let places = streams.readable(stream, seq, count, durable);
    if places.is_empty()
        && let Some(state) = streams.get(stream)
    {
        let next = state.places.range(seq, 1).first().map_or(state.next, |(number, _)| *number);
        if next > seq {
            return Err(Error::StreamGap { stream, seq, next });
        }
    }
    Ok(places)
}

impl Iterator for StreamReader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended || self.next >= planted!(StreamReadEndsEarly, self.end) {
            return None;
        }
        let next = self.next_record().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        let cut = Error::StreamEnd { stream: self.id, seq: self.next, next: self.next };
        next.or(planted!(StreamReadEndsEarly, Some(Err(cut))))
    }
}

impl std::iter::FusedIterator for StreamReader {}

/// Reads the durable records of a stream as they come.
pub type StreamFollower = Follower<StreamReader>;

impl StreamFollower {
    /// The sequence number of the record that it hands out next.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.records.next
    }
}

impl Followed for StreamReader {
    fn next_now(&mut self) -> Result<Option<Record>> {
        self.next_record()
    }

    fn at(&self) -> Lsn {
        self.group.durable()
    }
}
