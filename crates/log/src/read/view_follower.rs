//! Follows a log from any process: keeps its place, and sleeps until the writer wakes it.
//!
//! | the log has | the follower shows what is durable by | it looks again |
//! | --- | --- | --- |
//! | a writer that shares a page | the page, at once | when it is woken; every second, whether that writer lives |
//! | a writer that shares none | what the log itself proves, as a [`View`] | every 50 ms |
//! | no writer | what opening would find, as a [`View`] | every 50 ms, at the lock and the name in `LOCK` |
//!
//! Invariants: records come in order, each once, and each out of a batch that was found valid, whatever the page says;
//! what was shown is durable, so that no later writer takes it back; a page that claims more than the log holds is not
//! read again.

use std::sync::Arc;
use std::time::Duration;

use seawall_sys::clock::{monotonic_ns, nanoseconds};
use seawall_sys::planted;

use crate::channel::named;
use crate::channel::subscriber::Subscriber;
use crate::channel::words::Published;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::{FileRole, SegmentHeader, file_role};
use crate::lock::is_held;
use crate::lsn::Lsn;
use crate::read::reader::{Record, RecordScan};
use crate::read::sealed::SealedBatch;
use crate::read::view::{View, ViewedSegments};
use crate::recovery::directory::{in_segment, read_header};
use crate::segment::Spare;
use crate::storage::disk::Disk;
use crate::storage::os_disk::OsDisk;

/// How often it looks where nothing wakes it.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often it looks whether the writer lives that is to wake it.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Follows a log without its lock: see [`View::follow`].
pub struct ViewFollower {
    view: View,
    records: RecordScan<Arc<ViewedSegments>>,
    /// Records before this are shown.
    end: Lsn,
    source: Source,
    /// How many cuts its page counted when the segments were looked at last.
    cuts: u64,
    /// That count had changed: it may be ahead of what was durable then.
    cuts_changed: bool,
    ends_with_writer: bool,
    /// When to look whether the writer lives.
    check_at_ns: u64,
    /// The page that `LOCK` named before the last look at the directory: each writer leaves another name there.
    left: Option<String>,
    /// A page that is not believed any more, and why.
    refused: Option<(String, String)>,
    /// Where reading failed last, and was tried again.
    failed_at: Option<Lsn>,
    looks: u64,
}

/// Where it learns what is durable.
enum Source {
    /// From the page of the writer, and what that said last.
    Page(Subscriber, Published),
    /// From the disk, for this reason.
    Disk(String),
    /// There is no writer.
    Ended,
}

impl std::fmt::Debug for ViewFollower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ViewFollower");
        self.records.show(&mut shown);
        shown.field("end", &self.end).field("looks", &self.looks).finish_non_exhaustive()
    }
}

/// When a wait that begins now is over.
pub(crate) fn until_ns(timeout: Duration) -> u64 {
    monotonic_ns().saturating_add(nanoseconds(timeout))
}

impl ViewFollower {
    pub(crate) fn new(view: View, from: Lsn) -> Result<Self> {
        let records = view.scan(from)?;
        Ok(Self::with(view, records))
    }

    /// Hands out what `records` finds.
    pub(crate) fn with(view: View, records: RecordScan<Arc<ViewedSegments>>) -> Self {
        let source = Source::Ended;
        let end = view.end_lsn();
        let mut follower = Self {
            view,
            records,
            end,
            source,
            cuts: 0,
            cuts_changed: false,
            ends_with_writer: false,
            check_at_ns: 0,
            left: None,
            refused: None,
            failed_at: None,
            looks: 0,
        };
        follower.connect();
        follower
    }

    /// Whether [`ViewFollower::next_record`] ends with `None` once there is no writer and every record was returned. Default:
    /// no, it waits for the next writer.
    #[must_use]
    pub fn ends_with_writer(mut self, ends: bool) -> Self {
        self.ends_with_writer = ends;
        self
    }

    /// The next durable record if there is one now.
    ///
    /// # Errors
    /// [`Error::Trimmed`] if the log was trimmed past this follower, with the first LSN that is left:
    /// [`ViewFollower::skip_trimmed`] continues there; [`Error::Corrupt`], [`Error::OtherLog`], [`Error::Io`]. After any other error than
    /// `Trimmed` a later call retries.
    pub fn try_next_record(&mut self) -> Result<Option<Record>> {
        self.poll(|records, end| records.next(|| end))
    }

    /// What `next` finds before the end, which is looked for if there is nothing.
    fn poll<T>(
        &mut self,
        next: impl Fn(&mut RecordScan<Arc<ViewedSegments>>, Lsn) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            match next(&mut self.records, self.end) {
                Ok(Some(found)) => {
                    self.failed_at = None;
                    return Ok(Some(found));
                }
                Ok(None) => {
                    if !self.look().map_err(|error| error.in_dir(self.view.dir()))? {
                        return Ok(None);
                    }
                }
                Err(error) => self.go_on_after(error)?,
            }
        }
    }

    /// The next durable record; waits for it. `None` only at the end of the last writer, if that was chosen by
    /// [`ViewFollower::ends_with_writer`].
    ///
    /// # Errors
    /// As [`ViewFollower::try_next_record`].
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        self.wait_until(u64::MAX, Self::try_next_record)
    }

    /// As [`ViewFollower::next_record`], but waits for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when the time is over, and as [`ViewFollower::try_next_record`].
    pub fn next_record_timeout(&mut self, timeout: Duration) -> Result<Option<Record>> {
        let found = self.wait_until(until_ns(timeout), Self::try_next_record)?;
        self.in_time(found, self.lsn(), timeout)
    }

    /// What was found at `lsn` within `timeout`: nothing is an error, but after the last writer where it was to end there.
    pub(crate) fn in_time<T>(&self, found: Option<T>, lsn: Lsn, timeout: Duration) -> Result<Option<T>> {
        if found.is_some() || self.has_ended() { Ok(found) } else { Err(Error::TimedOut { lsn, timeout }) }
    }

    fn has_ended(&self) -> bool {
        self.ends_with_writer && self.has_no_writer()
    }

    /// The next batch as it lies on the disk; waits for it at most for `limit`. A follower hands out either batches or records.
    pub(crate) fn next_sealed(&mut self, limit: Duration) -> Result<Option<SealedBatch>> {
        let poll = |follower: &mut Self| follower.poll(RecordScan::next_sealed);
        self.wait_until(until_ns(limit), poll)
    }

    /// Where the next batch lies, and what it is linked to.
    pub(crate) fn cursor(&self) -> &Cursor {
        self.records.cursor()
    }

    /// The end of what it knows to be durable.
    pub(crate) fn known_end(&self) -> Lsn {
        self.end
    }

    /// Waits until more than `end` is durable, at most until then; returns whether more is.
    pub(crate) fn wait_past(&mut self, end: Lsn, until_ns: u64) -> Result<bool> {
        let more = |follower: &mut Self| {
            if follower.end <= end {
                follower.look().map_err(|error| error.in_dir(follower.view.dir()))?;
            }
            Ok((follower.end > end).then_some(()))
        };
        self.wait_until(until_ns, more).map(|more| more.is_some())
    }

    /// The segments that it knows, oldest first.
    pub(crate) fn segments(&self) -> &[SegmentHeader] {
        &self.records.files.segments.headers
    }

    fn wait_until<T>(
        &mut self,
        until_ns: u64,
        mut poll: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            let found = poll(self)?;
            let now = monotonic_ns();
            if found.is_some() || now >= until_ns || self.has_ended() {
                return Ok(found);
            }
            self.sleep(Duration::from_nanos(until_ns - now));
        }
    }

    /// Goes on after what was trimmed, after [`Error::Trimmed`]: with the first record that is left; returns its LSN.
    ///
    /// # Errors
    /// As [`ViewFollower::try_next_record`]; a trim that overtakes it again is `Trimmed` again.
    pub fn skip_trimmed(&mut self) -> Result<Lsn> {
        let at = self.lsn();
        self.look_anew().map_err(|error| error.in_dir(self.view.dir()))?;
        let from = at.max(self.view.first_lsn());
        self.records = self.view.scan(from)?;
        Ok(from)
    }

    /// Where the next record that it returns starts, or lies after.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.records.place()
    }

    /// Whether there was no writer when it looked last.
    #[must_use]
    pub fn has_no_writer(&self) -> bool {
        matches!(self.source, Source::Ended)
    }

    /// Why it looks at the disk again and again while there is a writer, if it does; `None` if the writer wakes it, or if
    /// there is none.
    #[must_use]
    pub fn polls(&self) -> Option<&str> {
        if let Source::Disk(reason) = &self.source { Some(reason) } else { None }
    }

    /// How often it has looked for more. While nothing happens, that is once a second if [`ViewFollower::polls`] is `None`
    /// and there is a writer; and once for each call of [`ViewFollower::try_next_record`] and
    /// [`ViewFollower::next_record_timeout`].
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// Looks for more; returns whether there may be some.
    fn look(&mut self) -> Result<bool> {
        self.looks += 1;
        let due = monotonic_ns() >= self.check_at_ns;
        let Source::Page(page, last) = &mut self.source else { return self.look_at_disk(due) };
        let Ok(published) = page.look() else { return self.look_anew() };
        *last = published;
        if published.ended {
            return self.look_anew();
        }
        let durable = Lsn::new(published.durable);
        if durable > self.end {
            let changed = self.cuts != published.cuts;
            if planted!(FollowerMissesCuts, changed || self.cuts_changed) {
                // What was cut before this end must not be shown, though it lies before it. A cut that is counted before the durable
                // LSN has moved is seen when it has.
                self.cuts_changed = changed;
                self.view = View::open_in(self.view.directory())?;
                self.records.files.segments = self.view.segments_shared();
                self.cuts = published.cuts;
            }
            if self.newest() < published.segment {
                self.add_segments()?;
            }
            self.end = durable;
            return Ok(true);
        }
        // The count may be ahead of the durable LSN: it is looked at with that.
        planted!(CutsNotedUnseen(&mut self.cuts, published.cuts));
        if !due {
            return Ok(false);
        }
        self.check_at_ns = monotonic_ns().saturating_add(nanoseconds(CHECK_EVERY));
        let lives = page.is_named(self.view.directory()) && is_held(self.view.directory())? != Some(false);
        if lives { Ok(false) } else { self.look_anew() }
    }

    /// The same without a page.
    fn look_at_disk(&mut self, due: bool) -> Result<bool> {
        let idle = self.has_no_writer();
        if idle && self.is_left_alone(due)? {
            return Ok(false);
        }
        let (log_id, before) = (self.view.log_id(), self.end);
        self.left = self.named();
        // A log without a writer may have been moved away, and another one put there.
        if idle {
            self.view.renew()?
        } else {
            self.view.renew_in_place()?
        };
        if self.view.log_id() != log_id {
            return Err(Error::OtherLog { path: self.view.dir().to_path_buf() });
        }
        self.adopt();
        Ok(self.end > before)
    }

    /// Whether no writer has come since the last look at the directory.
    fn is_left_alone(&mut self, due: bool) -> Result<bool> {
        let dir = self.view.directory();
        if is_held(dir)? != Some(false) || self.named() != self.left {
            return Ok(false);
        }
        if !due {
            return Ok(true);
        }
        let at_home = dir.is_at_its_path().map_err(|source| Error::io("look at", ".", source))?;
        self.check_at_ns = monotonic_ns().saturating_add(nanoseconds(CHECK_EVERY));
        // Without a name there a writer may have come and gone.
        Ok(at_home && self.left.is_some())
    }

    fn named(&self) -> Option<String> {
        named(self.view.directory()).ok().flatten().map(|(name, _)| name)
    }

    /// Looks at the whole directory.
    fn look_anew(&mut self) -> Result<bool> {
        let before = self.end;
        self.left = self.named();
        self.view = View::open_in(self.view.directory())?;
        self.adopt();
        Ok(self.end > before)
    }

    /// Continues to the end of the view, in its segments.
    fn adopt(&mut self) {
        if !Arc::ptr_eq(&self.records.files.dir, self.view.directory()) {
            self.records.files.dir = Arc::clone(self.view.directory());
            self.records.forget();
        }
        self.records.files.segments = self.view.segments_shared();
        self.end = self.end.max(self.view.end_lsn());
        self.connect();
    }

    /// Finds out where it learns from now on what is durable.
    fn connect(&mut self) {
        self.check_at_ns = monotonic_ns().saturating_add(nanoseconds(CHECK_EVERY));
        self.cuts = 0;
        if self.view.has_writer() == Some(false) {
            self.source = Source::Ended;
            return;
        }
        let (view, refused) = (&self.view, &self.refused);
        let page = Subscriber::connect(view.directory(), view.log_id(), view.newest_epoch());
        self.source = match page {
            Ok(page) => match refused.as_ref().filter(|(name, _)| name == page.name()) {
                Some((_, reason)) => Source::Disk(reason.clone()),
                None => Source::Page(page, Published::default()),
            },
            Err(reason) => Source::Disk(reason),
        };
    }

    /// The number of the newest segment that it knows.
    fn newest(&self) -> u64 {
        self.records.files.segments.headers.last().map_or(0, |header| header.number)
    }

    /// Adds the segments that were started since, and forgets those before the one that is being read.
    fn add_segments(&mut self) -> Result<()> {
        let mut disk = OsDisk::read_only(Arc::clone(self.view.directory()));
        let reads = self.records.segment();
        let mut segments: Vec<_> = self
            .records
            .files
            .segments
            .headers
            .iter()
            .filter(|header| header.number >= reads)
            .copied()
            .collect();
        let entries = disk.list().map_err(|source| Error::io("list", ".", source))?;
        let after = self.newest();
        let later = |name: &str| match file_role(name) {
            Some(FileRole::Segment(number)) => (number > after).then_some(number),
            _ => None,
        };
        let mut spares: Vec<Spare> = entries
            .iter()
            .filter_map(|entry| later(&entry.name).map(|number| Spare { number, bytes: entry.bytes }))
            .collect();
        spares.sort_by_key(|spare| spare.number);
        for spare in spares {
            let header =
                in_segment(&mut disk, spare.number, |disk, (_, file)| read_header(disk, file, spare));
            // Renamed or removed meanwhile: reading finds out what that means.
            let Ok(Some(header)) = header else { break };
            segments.push(header);
        }
        let cuts = self.records.files.segments.cuts.clone();
        self.records.files.segments = Arc::new(ViewedSegments { headers: segments, cuts });
        Ok(())
    }

    /// Decides what a failed read means: the log was trimmed past it, segments changed meanwhile, the page claims more than
    /// the log holds, or the log is damaged.
    fn go_on_after(&mut self, error: Error) -> Result<()> {
        let (lsn, again) = (self.records.at(), self.failed_at);
        let dir = self.view.dir().to_path_buf();
        let Ok(now) = View::open_in(self.view.directory()) else { return Err(error.in_dir(&dir)) };
        if lsn < now.first_lsn() {
            return Err(Error::Trimmed { lsn, first: now.first_lsn() });
        }
        if again == Some(lsn) && lsn < now.end_lsn() {
            return Err(error.in_dir(&dir));
        }
        self.failed_at = Some(lsn);
        self.records.forget();
        self.view = now;
        if lsn <= self.view.end_lsn() {
            // The segment that it read may have been replaced by another one that begins at the same LSN.
            self.records = self.view.scan(lsn)?;
        }
        // Nothing past what the log itself proves is read again, unless a page says so.
        self.end = lsn.max(self.view.end_lsn());
        self.adopt();
        if again == Some(lsn) {
            let reason = format!("the writer's page claims more than the log has after LSN {lsn}: {error}");
            tracing::warn!(dir = %dir.display(), reason);
            if let Source::Page(page, _) = &self.source {
                self.refused = Some((page.name().to_owned(), reason));
                self.connect();
            }
        }
        Ok(())
    }

    /// Sleeps until there may be more, at most for `limit`.
    fn sleep(&self, limit: Duration) {
        let Source::Page(page, seen) = &self.source else {
            return std::thread::sleep(limit.min(LOOK_EVERY));
        };
        let check = Duration::from_nanos(self.check_at_ns.saturating_sub(monotonic_ns()));
        if page.sleep_past(*seen, limit.min(check)).is_err() {
            std::thread::sleep(limit.min(LOOK_EVERY));
        }
    }
}
