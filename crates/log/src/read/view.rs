//! Read-only view of a log, without taking the writer's lock.
//!
//! While a writer holds the log, a [`View`] shows what is durable at that moment, as the writer's page of shared memory says.
//! Where there is no page, it shows what the log itself proves durable: everything that some later batch or mark names
//! durable. That is all but the last batch, and after a few idle milliseconds all of it. A log
//! without a writer is shown to the end that opening would find, which is made durable first; where the viewing
//! process may not do that (Windows refuses a sync to a process that may only read), to the end that is known to be
//! durable. Where it cannot be known whether there is a writer, there may be one.
//!
//! Invariant: a writer that starts, renames and removes segments meanwhile makes no look fail: a failed look is
//! repeated, and only an error that occurs while the directory is unchanged is reported.

use std::io::ErrorKind;
use std::mem::{Discriminant, discriminant};
use std::path::Path;
use std::sync::Arc;

use seawall_sys::Engine;
use seawall_sys::directory::Directory;
use seawall_sys::durability::Durability;
use seawall_sys::planted;

use crate::channel::subscriber::Subscriber;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::{LogId, SegmentHeader, segment_name};
use crate::lock::{is_held, open_dir};
use crate::lsn::Lsn;
use crate::method::evidence::Evidence;
use crate::read::changes::{Names, Watch, peek};
use crate::read::reader::{Files, Record, RecordScan, SegmentLookup};
use crate::read::sealed::SealedFollower;
use crate::read::view_follower::{ViewFollower, ViewRecords};
use crate::recovery::directory::{damage, forget_cached, open_cold, scan_directory, split_members};
use crate::recovery::replay::replay_cuts;
use crate::recovery::tail::{Tail, Window, check_orphans, judge, walk};
use crate::storage::disk::{DirEntry, Disk, FileId, sync};
use crate::storage::os_disk::OsDisk;
use crate::stream::cuts::CutList;

/// One read, in bytes.
const READ_BYTES: usize = 1 << 20;

/// One read of batches that were added since the last look, in bytes.
const MORE_BYTES: usize = 64 << 10;

/// The most looks that are taken while the names change: a writer that starts a segment during each of this many has
/// segments of a few batches.
const LOOKS_MAX: u32 = 64;

/// What a writer may change during a look: the started and the other segments. Where they cannot be read, the variant of
/// the error, and the files.
type Fingerprint = std::result::Result<(Vec<u64>, Vec<u64>), (Discriminant<Error>, Vec<DirEntry>)>;

fn fingerprint<D: Disk>(disk: &mut D) -> Fingerprint {
    match scan_directory(disk) {
        Ok(found) => {
            let started = found.started.iter().map(|header| header.number).collect();
            Ok((started, found.unstarted.iter().map(|spare| spare.number).collect()))
        }
        Err(error) => Err((discriminant(&error), disk.list().unwrap_or_default())),
    }
}

/// Repeats `look` until the result is acceptable to `content`, or the segments did not change meanwhile.
pub(crate) fn undisturbed<T>(
    dir: &Arc<Directory>,
    mut look: impl FnMut(&mut OsDisk) -> Result<T>,
    content: impl Fn(&T) -> bool,
) -> Result<T> {
    let mut disk = OsDisk::read_only(Arc::clone(dir));
    let seen = look(&mut disk);
    if seen.as_ref().is_ok_and(&content) {
        return seen;
    }
    let mut looks = 1;
    loop {
        let before = fingerprint(&mut disk);
        let seen = look(&mut disk);
        looks += 1;
        let fine = seen.as_ref().is_ok_and(&content);
        if fine || looks >= LOOKS_MAX || fingerprint(&mut disk) == before {
            return seen;
        }
    }
}

/// A look at a log at one moment.
#[derive(Clone)]
pub struct View {
    pub(crate) dir: Arc<Directory>,
    segments: Arc<ViewedSegments>,
    first: Lsn,
    end: Lsn,
    tail: Option<Tail>,
    writer: Option<bool>,
    watch: Watch,
    /// How many batches of the last segment say what is cut, and up to where that was looked at: `Lsn::MAX` if none is after that.
    cuts: Option<(u64, Lsn)>,
}

/// The segments of a view, oldest first, and what is cut off the log.
#[derive(Debug)]
pub(crate) struct ViewedSegments {
    pub(crate) headers: Vec<SegmentHeader>,
    pub(crate) cuts: Option<Arc<CutList>>,
}

impl SegmentLookup for ViewedSegments {
    fn successor(&self, number: u64) -> Option<SegmentHeader> {
        self.headers.iter().find(|header| header.number > number).copied()
    }

    fn cuts(&self) -> Option<Arc<CutList>> {
        self.cuts.clone()
    }

    fn cut_changes(&self) -> u64 {
        0
    }
}

/// Makes durable what a writer that has ended left in its last segment: what is shown must never disappear. Earlier
/// segments were durable before it started that one. Returns whether this process is permitted to do so.
fn sync_end<D: Disk>(disk: &mut D, name: &str, file: FileId) -> Result<bool> {
    match sync(disk, name, file) {
        Ok(()) => {
            forget_cached(disk, file);
            Ok(true)
        }
        Err(Error::Io { source, .. })
            if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

impl View {
    /// Looks at the log in `dir`.
    ///
    /// # Errors
    /// [`Error::NotALog`], [`Error::Corrupt`], [`Error::NewerFormat`], [`Error::ForeignSegment`], [`Error::Io`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        Self::open_in(&open_dir(dir)?).map_err(|error| error.in_dir(dir))
    }

    pub(crate) fn open_in(dir: &Arc<Directory>) -> Result<Self> {
        // Everything that was durable before the look lies in segments that it finds. What became durable during it may not, and is not
        // looked for: a fast writer would be chased.
        let look = |disk: &mut OsDisk| {
            let mut view = Self::look(disk)?;
            let is_whole = view.take_page(disk)?;
            Ok((view, is_whole))
        };
        loop {
            let (view, is_whole) = undisturbed(dir, look, |_| true)?;
            if is_whole {
                return Ok(view);
            }
        }
    }

    /// Shows what the writer's page says is durable, as far as the last segment holds it. Returns `false` if the writer has ended since
    /// the look began: a page goes after the lock, and what it said is not known any more.
    fn take_page(&mut self, disk: &mut OsDisk) -> Result<bool> {
        let published = planted!(ViewIgnoresPage, self.published());
        let ended = || Ok(self.may_be_written() && is_held(&self.dir)? == Some(false));
        if published.is_none() && planted!(ViewMissesEnd, ended())? {
            return Ok(false);
        }
        let durable = published.unwrap_or(Lsn::ZERO);
        if durable > self.watch.cursor.lsn {
            self.walk_on(disk)?;
        }
        // Only whole batches that were found valid are shown, whatever the page says.
        self.end = self.end.max(durable.min(self.watch.cursor.lsn));
        self.look_at_cuts(disk)?;
        Ok(true)
    }

    /// What the writer's page says is durable.
    fn published(&self) -> Option<Lsn> {
        if !self.may_be_written() {
            return None;
        }
        let page = Subscriber::connect(&self.dir, self.log_id(), self.newest_epoch()).ok()?;
        page.look().ok().map(|published| Lsn::new(published.durable))
    }

    /// Finds out what is cut by the records that the view shows. A cut after its end is not durable yet: what it cuts is there until
    /// then, and again if that is lost.
    fn look_at_cuts(&mut self, disk: &mut OsDisk) -> Result<()> {
        let cursor = &self.watch.cursor;
        let until = planted!(ViewCutsAhead(cursor.lsn), self.end);
        let is_known = |(count, to)| count == cursor.cuts && (to == Lsn::MAX || to == until);
        if self.cuts.is_some_and(is_known) {
            return Ok(());
        }
        let headers = self.segments.headers.clone();
        let cuts = replay_cuts(disk, &mut Window::new(READ_BYTES), &headers, (cursor, until))?;
        let cuts = (!cuts.is_empty()).then(|| Arc::new(cuts));
        let is_whole = cursor.cuts == 0 || until == cursor.lsn;
        self.cuts = Some((cursor.cuts, if is_whole { Lsn::MAX } else { until }));
        self.segments = Arc::new(ViewedSegments { headers, cuts });
        Ok(())
    }

    fn look(disk: &mut OsDisk) -> Result<Self> {
        let writer = is_held(&disk.dir)?;
        // If there may be a writer, there is one: its unfinished batch would look like damage.
        let written = writer != Some(false);
        let names = Names::of(disk);
        let found = scan_directory(disk)?;
        let Some(last) = found.started.last().copied() else {
            check_orphans(disk, &mut Window::new(READ_BYTES), &found.unstarted)?;
            return Err(Error::NotALog { path: ".".into() });
        };
        let (members, _) = split_members(&found.started)?;
        let name = segment_name(last.number);
        let file = open_cold(disk, &name)?;
        // A log that is being written has a tail that is not finished; one that is not is judged as at opening.
        let window = &mut Window::new(READ_BYTES);
        let find_end = |disk: &mut OsDisk, window: &mut Window| {
            if written {
                let mut cursor = Cursor::start(last);
                walk(disk, window, file, &mut cursor)?;
                Ok((cursor, None))
            } else {
                let judged = judge(disk, window, file, last, &found.unstarted)?;
                let tail = judged.tail();
                Ok((judged.cursor, Some(tail)))
            }
        };
        let (mut cursor, mut tail) = find_end(disk, window)?;
        let mut end = cursor.acknowledged;
        if !written && cursor.lsn > end && sync_end(disk, &name, file)? {
            *window = Window::new(READ_BYTES);
            (cursor, tail) = find_end(disk, window)?;
            end = cursor.lsn;
        }
        let oldest = members.first().map_or(last, |header| *header);
        if oldest.first_lsn > cursor.trim {
            // Trimmed between the listing and the read of the end, then the look is repeated; or really missing.
            let what = format!("segment {} before this one is missing", oldest.previous);
            return Err(damage(oldest.number, 0, cursor.trim, what));
        }
        let broken = peek(disk, window, file, &cursor)?;
        disk.close(file);
        let segments = Arc::new(ViewedSegments { headers: members, cuts: None });
        let (dir, first) = (Arc::clone(&disk.dir), cursor.trim);
        let watch = Watch::new(cursor, broken, &found.unstarted, names);
        Ok(Self { dir, segments, first, end, tail, writer, watch, cuts: None })
    }

    /// Brings the view up to date, reading only new batches where possible; returns whether anything may have changed. While
    /// nothing changes, a call reads two blocks, for a log of any size.
    ///
    /// # Errors
    /// As [`View::open`]; then the view stays as it was.
    pub fn renew(&mut self) -> Result<bool> {
        let path = self.dir.path().to_path_buf();
        let at_home = self.dir.is_at_its_path();
        if !at_home.map_err(|source| Error::io("look at", &path, source))? {
            *self = Self::open(&path)?;
            return Ok(true);
        }
        self.renew_in_place().map_err(|error| error.in_dir(&path))
    }

    /// As [`View::renew`], in the directory that it holds, wherever that is.
    pub(crate) fn renew_in_place(&mut self) -> Result<bool> {
        let mut disk = OsDisk::read_only(Arc::clone(&self.dir));
        let anew = self.watch.has_other_segments(&mut disk);
        let more = anew || self.watch.has_more(&mut disk, self.may_be_written());
        // A writer that ends leaves its last batch to be synced by the view.
        if !more && !self.may_be_written() {
            return Ok(false);
        }
        let writer = is_held(&self.dir)?;
        if anew || writer == Some(false) {
            *self = Self::open_in(&self.dir)?;
            return Ok(true);
        }
        let end = self.end;
        let walked = if more { self.walk_on(&mut disk) } else { Ok(()) };
        // Segments that it reads may be trimmed meanwhile, and the writer may end.
        if !walked.and_then(|()| self.take_page(&mut disk)).unwrap_or(false) {
            *self = Self::open_in(&self.dir)?;
        } else if more {
            (self.writer, self.tail) = (writer, None);
        }
        Ok(more || self.end > end)
    }

    /// Continues where the walk through the last segment stopped, while there may be a writer.
    fn walk_on(&mut self, disk: &mut OsDisk) -> Result<()> {
        let file = open_cold(disk, &segment_name(self.watch.cursor.segment.number))?;
        walk(disk, &mut Window::new(MORE_BYTES), file, &mut self.watch.cursor)?;
        self.first = self.watch.cursor.trim;
        self.end = self.end.max(self.watch.cursor.acknowledged);
        Ok(())
    }

    /// The identity of the log.
    #[must_use]
    pub fn log_id(&self) -> LogId {
        self.segments.headers.last().map(|header| header.log_id).unwrap_or_default()
    }

    /// The absolute path of the log's directory when it was opened.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The first LSN that is left.
    #[must_use]
    pub fn first_lsn(&self) -> Lsn {
        self.first
    }

    /// The end of what is known to be durable.
    #[must_use]
    pub fn end_lsn(&self) -> Lsn {
        self.end
    }

    /// Whether a writer held the log when it was looked at; `None` if that is unknown, because this process may not
    /// open the lock file. Then the log is shown as if there were one: up to what is known to be durable.
    #[must_use]
    pub fn has_writer(&self) -> Option<bool> {
        self.writer
    }

    fn may_be_written(&self) -> bool {
        self.writer != Some(false)
    }

    /// How the log ended, and which acknowledged records its class allowed to be lost; `None` while a writer
    /// holds it.
    #[must_use]
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// What acknowledged records of the log outlive, as its last opening requested.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.segments.headers.last().map_or(Durability::PowerLoss, |header| header.class)
    }

    /// The headers of the segments, oldest first.
    pub(crate) fn headers(&self) -> &[SegmentHeader] {
        &self.segments.headers
    }

    /// Segments of the log.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments.headers.len()
    }

    /// The commit method that a probe found for this log and that is used unless another one is named, with its engine;
    /// `None` if none was needed so far.
    ///
    /// # Errors
    /// [`Error::Io`] if the file `METHOD` is there and cannot be read.
    pub fn method(&self) -> Result<Option<(&'static str, Engine)>> {
        Ok(crate::method::select::remembered(&self.dir)?.map(|method| (method.id, method.engine())))
    }

    /// What the devices' counters said to the class of this log since its file system was mounted; `None` if no writer has looked
    /// since then.
    ///
    /// # Errors
    /// [`Error::Io`] if the file `METHOD` or the directory cannot be read.
    pub fn evidence(&self) -> Result<Option<Evidence>> {
        crate::method::select::remembered_evidence(&self.dir, self.durability())
    }

    /// Reads from the first record at or after `from` to the end of the view.
    ///
    /// # Errors
    /// [`Error::Trimmed`], also from the reader if the log is trimmed past it meanwhile, [`Error::BeyondEnd`],
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn read(&self, from: Lsn) -> Result<ViewReader> {
        if from > self.end {
            return Err(Error::BeyondEnd { lsn: from, end: self.end });
        }
        let records = self.scan(from)?;
        Ok(ViewReader { records, end: self.end, ended: false })
    }

    /// Follows the log from the first record at or after `from`, which may not be there yet, also across writers that end
    /// and others that begin. On Linux a writer of this machine wakes a follower of any process as soon as a commit is
    /// durable: [`ViewFollower::polls`] says where it does not, and what the follower then does.
    ///
    /// # Errors
    /// [`Error::Trimmed`], [`Error::Corrupt`], [`Error::Io`].
    pub fn follow(&self, from: Lsn) -> Result<ViewFollower> {
        Ok(ViewFollower::new(self.clone(), ViewRecords::new(self.scan(from)?)))
    }

    /// Follows the log batch by batch, as the batches lie on the disk: from `from` on, where a batch ends or the log begins. With
    /// what comes from here another place holds the same log, bit by bit; [`crate::Rebuild`] makes it there.
    ///
    /// # Errors
    /// [`Error::NoBatch`] if no batch ends at `from`, [`Error::BeyondEnd`], [`Error::Trimmed`], [`Error::Corrupt`], [`Error::Io`].
    pub fn follow_sealed(&self, from: Lsn) -> Result<SealedFollower> {
        SealedFollower::new(self.clone(), from)
    }

    /// Where the oldest segment that is left begins: the first place for [`View::follow_sealed`].
    #[must_use]
    pub fn first_sealed(&self) -> Lsn {
        self.segments.headers.first().map_or(Lsn::ZERO, |header| header.first_lsn)
    }

    /// Begins at `from`, where a batch must end, or at the end of the view if that comes first; at the first batch that is left, if
    /// `from` is its LSN.
    pub(crate) fn scan_sealed(&self, from: Lsn) -> Result<RecordScan<Arc<ViewedSegments>>> {
        let headers = &self.segments.headers;
        let first = headers.first().ok_or_else(|| Error::NotALog { path: self.dir.path().to_path_buf() })?;
        if from < first.first_lsn {
            return Err(Error::Trimmed { lsn: from, first: first.first_lsn });
        }
        // Not the segment that begins there: marks after the batch that ends there may be before that.
        let segment = headers.iter().rev().find(|header| header.first_lsn < from).unwrap_or(first);
        self.scan_in(*segment, from)
    }

    /// Begins with the first record at or after `from`.
    pub(crate) fn scan(&self, from: Lsn) -> Result<RecordScan<Arc<ViewedSegments>>> {
        if from < self.first {
            return Err(Error::Trimmed { lsn: from, first: self.first });
        }
        let segment = self.segments.headers.iter().rev().find(|header| header.first_lsn <= from);
        let segment = *segment.ok_or_else(|| Error::NotALog { path: self.dir.path().to_path_buf() })?;
        self.scan_in(segment, from)
    }

    fn scan_in(&self, segment: SegmentHeader, from: Lsn) -> Result<RecordScan<Arc<ViewedSegments>>> {
        let files = Files::new(Arc::clone(&self.dir), Arc::clone(&self.segments));
        let (records, sought) = RecordScan::new(files, (segment, READ_BYTES), from, self.end);
        sought.map_err(|error| explain(&records, error))?;
        Ok(records)
    }

    /// When the newest batch was gathered by the clock of its writer, microseconds since 1970; no later batch says an earlier time. 0 if the
    /// newest segment has none yet.
    #[must_use]
    pub fn time_us(&self) -> u64 {
        self.watch.cursor.time_us
    }

    /// The headers of the segments, oldest first, for a reader to keep.
    pub(crate) fn segments_shared(&self) -> Arc<ViewedSegments> {
        Arc::clone(&self.segments)
    }

    pub(crate) fn newest_epoch(&self) -> u64 {
        self.watch.cursor.epoch
    }
}

/// Reads the records of a [`View`] in order; ends after the last one and after the first error.
pub struct ViewReader {
    records: RecordScan<Arc<ViewedSegments>>,
    end: Lsn,
    ended: bool,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("View");
        shown.field("dir", &self.dir.path()).field("segments", &self.segments.headers.len());
        shown.field("first", &self.first).field("end", &self.end).field("writer", &self.writer);
        shown.finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ViewReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ViewReader");
        self.records.show(&mut shown);
        shown.field("end", &self.end).finish_non_exhaustive()
    }
}

/// Reports a segment that was trimmed during the read as trimmed: it is missing or looks damaged, and is neither.
fn explain(records: &RecordScan<Arc<ViewedSegments>>, error: Error) -> Error {
    let (lsn, dir) = (records.at(), &records.files.dir);
    match View::open_in(dir) {
        Ok(now) if lsn < now.first => Error::Trimmed { lsn, first: now.first },
        _ => error.in_dir(dir.path()),
    }
}

impl Iterator for ViewReader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.records.next(|| self.end).map_err(|error| explain(&self.records, error)).transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl std::iter::FusedIterator for ViewReader {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::View;
    use crate::{Log, Lsn, MethodChoice, Options};
    use std::path::Path;

    const SEGMENT_BYTES: u64 = 16 << 20;

    fn open(dir: &Path) -> Log {
        let options = Options::default().segment_bytes(SEGMENT_BYTES);
        Log::open(dir, options.method(MethodChoice::Named("buffered+fdatasync".to_owned()))).expect("opens")
    }

    fn fill(log: &Log, records: u32, byte: u8) -> Lsn {
        let mut last = Lsn::ZERO;
        for _ in 0..records {
            last = log.append(&vec![byte; 64 << 10]).expect("appends").end;
        }
        log.commit(last).expect("commits");
        last
    }

    /// Bytes that this thread has read.
    #[cfg(target_os = "linux")]
    fn bytes_read() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").expect("is there");
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("is listed");
        line.parse().expect("is a number")
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn looks_at_a_log_in_which_nothing_happens_read_next_to_nothing() {
        let dir = tempfile::tempdir().expect("makes a directory");
        let log = open(dir.path());
        fill(&log, 128, 1);
        let written = View::open(dir.path()).expect("looks");
        let count = |mut view: View| {
            let before = bytes_read();
            for _ in 0..20 {
                view.renew().expect("looks");
            }
            bytes_read() - before
        };
        let read = count(written);
        // The mark that the log writes when it is idle, and a file that it prepares, may each cost one look at all.
        assert!(read < 3 * (9 << 20), "with a writer: {read}");
        log.close().expect("closes");
        let read = count(View::open(dir.path()).expect("looks"));
        assert!(read < 1 << 20, "without a writer: {read}");
    }

    #[test]
    fn a_view_that_is_renewed_shows_everything_once() {
        let dir = tempfile::tempdir().expect("makes a directory");
        let mut view = {
            open(dir.path()).close().expect("closes");
            View::open(dir.path()).expect("looks")
        };
        let (mut seen, mut from, mut end) = (Vec::new(), Lsn::ZERO, Lsn::ZERO);
        let mut read_on = |view: &View, seen: &mut Vec<u8>| {
            for record in view.read(from).expect("reads").map(|record| record.expect("is intact")) {
                from = record.end;
                seen.push(record.payload[0]);
            }
        };
        // Some openings end in the same segment, some need others; the last one of each is a closed log.
        for (byte, records) in [(1, 1), (2, 100), (3, 3), (4, 300), (5, 700), (6, 1)] {
            let log = open(dir.path());
            for _ in 0..records {
                end = fill(&log, 1, byte);
                view.renew().expect("looks");
                read_on(&view, &mut seen);
            }
            log.close().expect("closes");
            view.renew().expect("looks");
            read_on(&view, &mut seen);
            assert_eq!((view.end_lsn(), view.may_be_written()), (end, false), "{byte}");
            let expected = std::iter::repeat_n(byte, records);
            assert!(seen.drain(..).eq(expected), "{byte}");
        }
        let log = open(dir.path());
        let first = log.trim(end).expect("trims");
        log.close().expect("closes");
        view.renew().expect("looks");
        assert_eq!((view.first_lsn(), view.end_lsn()), (first, end));
    }
}
