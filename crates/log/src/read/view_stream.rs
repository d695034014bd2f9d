//! Reads and follows one stream of a log without the writer's lock, from any process.
//!
//! ```text
//!   view ──► tagged records of the stream up to the view's end ──► where its records are ──► records
//!              ▲                                                                  
//!   follower ──┘ those that were added since, when more is durable
//! ```
//!
//! Invariants: what the stream has follows from the same records, applied by the same function, as in the writing process; nothing
//! past the end of the view is looked at, so that everything shown is durable; a follower that was overtaken by a trim or whose
//! place was cut says so, and skips nothing.

use std::sync::Arc;

use seawall_sys::planted;

use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::{SegmentHeader, Tag, TagKind};
use crate::lsn::Lsn;
use crate::read::reader::{Files, Record, RecordScan};
use crate::read::stream::{check_seq, places_from};
use crate::read::view::{View, ViewedSegments};
use crate::read::view_follower::{LiveView, ViewFollower, Viewed};
use crate::recovery::replay::replay_stream;
use crate::storage::os_disk::OsDisk;
use crate::stream::StreamId;
use crate::stream::state::TaggedState;

/// One read of records, in bytes.
const READ_BYTES: usize = 256 << 10;
/// How often a look is repeated while the log is trimmed.
const LOOKS_MAX: u32 = 64;

/// One stream of a [`View`]: see [`View::stream`].
#[derive(Clone)]
pub struct ViewStream {
    view: View,
    segments: Vec<SegmentHeader>,
    id: StreamId,
    state: TaggedState,
    /// Where the replay ended.
    at: Option<Cursor>,
    end: Lsn,
    /// Everything before this was looked at, by this stream or the view that it is of.
    seen: Lsn,
    /// The lowest number at which the stream was cut since a reader asked; `None` if it was not.
    cut: Option<u64>,
}

impl View {
    /// One stream of the log, with its trims and cuts, as of [`View::end_lsn`], or a moment
    /// later if segments were trimmed meanwhile. Reads the records of streams from the oldest segment that has any.
    ///
    /// # Errors
    /// As [`View::open`].
    pub fn stream(&self, id: StreamId) -> Result<ViewStream> {
        ViewStream::new(self.clone(), id)
    }
}

impl std::fmt::Debug for ViewStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ViewStream");
        shown.field("dir", &self.view.dir()).field("stream", &self.id).field("end", &self.end);
        shown.finish_non_exhaustive()
    }
}

impl ViewStream {
    pub(crate) fn new(view: View, id: StreamId) -> Result<Self> {
        let (segments, end) = (view.headers().to_vec(), view.end_lsn());
        let mut stream = Self {
            view,
            segments,
            id,
            state: TaggedState::default(),
            at: None,
            end,
            seen: Lsn::ZERO,
            cut: None,
        };
        stream.look_again_while_trimmed(|stream| {
            // What a failed attempt took in may have been cut by what was trimmed since. Nobody has read any of it.
            (stream.state, stream.at, stream.seen) = (TaggedState::default(), None, Lsn::ZERO);
            stream.replay()
        })?;
        Ok(stream)
    }

    /// Refuses to continue if the log was trimmed past what was looked at before: a cut may have gone with it.
    fn check_seen(&self) -> Result<()> {
        let (seen, first) = (self.seen, self.segments.first().map_or(Lsn::ZERO, |oldest| oldest.first_lsn));
        if planted!(ViewStreamSkipsTrimmed, Lsn::ZERO < seen && seen < first) {
            return Err(Error::Trimmed { lsn: seen, first });
        }
        Ok(())
    }

    /// Applies what was added up to the end.
    ///
    /// # Errors
    /// As [`ViewStream::check_seen`].
    fn replay(&mut self) -> Result<()> {
        self.check_seen()?;
        let (id, seen, cut) = (self.id.get(), self.seen, &mut self.cut);
        let concerns = |tag: &Tag, lsn: Lsn| {
            let removes = tag.removes();
            let concerns = tag.stream == id && !matches!(tag.kind, TagKind::LogCut | TagKind::LogCuts);
            // What is read again has cuts that readers have long seen.
            if concerns && lsn >= seen && (removes || tag.kind == TagKind::StreamCut) {
                let number = if removes { 0 } else { tag.number };
                *cut = Some(cut.map_or(number, |lowest| lowest.min(number)));
            }
            concerns
        };
        let disk = &mut OsDisk::read_only(Arc::clone(&self.view.dir));
        let at = replay_stream(disk, &self.segments, self.at.clone(), self.end, concerns, &mut self.state);
        self.at = at.map_err(|error| error.in_dir(self.view.dir()))?;
        self.seen = self.end;
        Ok(())
    }

    /// Does `work`; where it fails and the log was trimmed meanwhile, does it again with the segments that are left.
    fn look_again_while_trimmed<T>(&mut self, mut work: impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        let mut done = work(self);
        for _ in 0..LOOKS_MAX {
            let Err(Error::Io { .. } | Error::Corrupt(_) | Error::Trimmed { .. }) = &done else {
                return done;
            };
            let now = View::open_in(&self.view.dir)?;
            if now.first_lsn() <= self.segments.first().map_or(Lsn::ZERO, |oldest| oldest.first_lsn) {
                return done;
            }
            (self.segments, self.end, self.at) = (now.headers().to_vec(), self.end.max(now.end_lsn()), None);
            self.view = now;
            done = self.replay().and_then(|()| work(self));
        }
        done
    }

    /// Which stream it is.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// The sequence number of the first record that is left; that of the next record if there is none.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.state.streams.get(self.id).map_or(0, |state| state.first)
    }

    /// The sequence number that the next record gets.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.state.streams.next_number(self.id)
    }

    /// Reads the records from sequence number `from` on, to the end of the view.
    ///
    /// # Errors
    /// [`Error::StreamTrimmed`], [`Error::StreamEnd`] past the next record.
    pub fn read(&self, from: u64) -> Result<ViewStreamReader> {
        self.check(from)?;
        let stream = Self { cut: None, ..self.clone() };
        Ok(ViewStreamReader { stream, next: from, scan: None, ended: false })
    }

    /// As [`ViewStream::read`], but waits for more at the end, as [`View::follow`] does.
    ///
    /// # Errors
    /// As [`ViewStream::read`], and those of [`View::follow`].
    pub fn follow(&self, from: u64) -> Result<ViewStreamFollower> {
        Ok(ViewFollower::new(self.view.clone(), self.read(from)?))
    }

    fn check(&self, seq: u64) -> Result<()> {
        check_seq(self.id, seq, (self.first_seq(), self.next_seq()))
    }

    /// The record `seq`, if it is there; `scan` continues where the last one was found.
    fn record(&mut self, seq: u64, scan: &mut Option<Scan>) -> Result<Option<Record>> {
        self.check(seq)?;
        let places = places_from(&self.state.streams, (self.id, seq), 1, Lsn::MAX)?;
        let Some(place) = places.first().copied() else { return Ok(None) };
        let mut records = match scan.take() {
            // A record that was rewritten lies after the one that follows it.
            Some(records) if records.place() <= place.lsn => records,
            _ => self.scan_from(place.lsn)?,
        };
        while let Some(record) = records.next(|| self.end)? {
            if record.lsn == place.lsn {
                *scan = Some(records);
                return Ok(Some(record));
            }
        }
        Err(Error::NoRecord { lsn: place.lsn })
    }

    /// The number of the newest segment.
    fn newest(&self) -> u64 {
        self.segments.last().map_or(0, |header| header.number)
    }

    fn shared_segments(&self) -> Arc<ViewedSegments> {
        Arc::new(ViewedSegments { headers: self.segments.clone(), cuts: None })
    }

    fn scan_from(&self, lsn: Lsn) -> Result<Scan> {
        let segment = self.segments.iter().rev().find(|header| header.first_lsn <= lsn);
        let first = self.segments.first().map_or(Lsn::ZERO, |oldest| oldest.first_lsn);
        let segment = *segment.ok_or(Error::Trimmed { lsn, first })?;
        let files = Files::new(Arc::clone(&self.view.dir), self.shared_segments());
        let (mut records, sought) = RecordScan::new(files, (segment, READ_BYTES), lsn, self.end);
        records.shows_copies = true;
        sought.map(|()| records)
    }
}

type Scan = RecordScan<Arc<ViewedSegments>>;

/// Reads the records of a [`ViewStream`] in order, and ends at its end or after the first error.
pub struct ViewStreamReader {
    stream: ViewStream,
    next: u64,
    scan: Option<Scan>,
    ended: bool,
}

impl std::fmt::Debug for ViewStreamReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ViewStreamReader");
        shown.field("stream", &self.stream).field("next", &self.next).finish_non_exhaustive()
    }
}

impl ViewStreamReader {
    /// The sequence number of the record that it hands out next.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next
    }

    fn next_record(&mut self) -> Result<Option<Record>> {
        let (seq, scan) = (self.next, &mut self.scan);
        let found = self.stream.look_again_while_trimmed(|stream| {
            let found = stream.record(seq, scan);
            if found.is_err() {
                *scan = None;
            }
            found
        })?;
        self.next += u64::from(found.is_some());
        Ok(found)
    }
}

impl Iterator for ViewStreamReader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_record().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl std::iter::FusedIterator for ViewStreamReader {}

/// Reads the durable records of a stream as they come, in any process: see [`ViewStream::follow`].
pub type ViewStreamFollower = ViewFollower<ViewStreamReader>;

impl ViewStreamFollower {
    /// The sequence number of the record that it hands out next.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.records.next
    }
}

impl Viewed for ViewStreamReader {
    fn next_now(&mut self, log: &mut LiveView) -> Result<Option<Record>> {
        loop {
            self.check_cut()?;
            if let Some(record) = self.next_record()? {
                return Ok(Some(record));
            }
            if log.end <= self.stream.end {
                log.look(self.stream.newest())?;
            }
            if log.end <= self.stream.end {
                return Ok(None);
            }
            self.take_more(log)?;
        }
    }

    /// The end of what it has looked at.
    fn lsn(&self) -> Lsn {
        self.stream.end
    }
}

impl ViewStreamReader {
    /// Takes in what has become durable since.
    fn take_more(&mut self, log: &LiveView) -> Result<()> {
        let stream = &mut self.stream;
        let newest = stream.newest();
        stream.segments.extend(log.segments.headers.iter().filter(|header| header.number > newest));
        stream.end = log.end;
        if let Some(scan) = &mut self.scan {
            scan.files.segments = stream.shared_segments();
        }
        stream.look_again_while_trimmed(ViewStream::replay)
    }

    /// Refuses to continue after a cut before the place that it has reached. One that lies after is of no concern: what is read
    /// there from now on follows it.
    fn check_cut(&mut self) -> Result<()> {
        let (stream, seq) = (&mut self.stream, self.next);
        stream.check_seen()?;
        let cut = planted!(ViewStreamGoesOnBehindCut, stream.cut);
        stream.cut = cut.filter(|next| planted!(ViewStreamKeepsCut, *next < seq));
        match stream.cut {
            Some(next) if next < seq => Err(Error::StreamEnd { stream: stream.id, seq, next }),
            _ => Ok(()),
        }
    }
}
