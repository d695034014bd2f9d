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
use crate::format::{FileRole, file_role};
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

/// What a [`ViewFollower`] reads.
pub trait Viewed {
    /// The next record before the end of `log`, which looks for more if there is none.
    fn next_now(&mut self, log: &mut LiveView) -> Result<Option<Record>>;

    /// Where the next record starts, or lies after.
    fn lsn(&self) -> Lsn;
}

/// Follows a log, or a stream of it ([`ViewStreamFollower`](crate::ViewStreamFollower)), without the log's lock: see [`View::follow`].
pub struct ViewFollower<R = ViewRecords> {
    log: LiveView,
    pub(crate) records: R,
    ends_with_writer: bool,
}

impl<R: std::fmt::Debug> std::fmt::Debug for ViewFollower<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ViewFollower");
        shown.field("records", &self.records).field("end", &self.log.end).field("looks", &self.log.looks);
        shown.finish_non_exhaustive()
    }
}

impl<R: Viewed> ViewFollower<R> {
    /// Hands out what `records` finds in the log of `view` and what comes after that.
    pub(crate) fn new(view: View, records: R) -> Self {
        Self { log: LiveView::new(view), records, ends_with_writer: false }
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
    ///
    /// Of a stream also [`Error::StreamTrimmed`] if it was trimmed past this follower; [`Error::StreamEnd`] if records that it has
    /// handed out were cut, with the number at which the stream continues: a new follower takes that. `Trimmed` then says that the
    /// log was trimmed past what it has looked at, where a cut may have been.
    pub fn try_next_record(&mut self) -> Result<Option<Record>> {
        self.records.next_now(&mut self.log)
    }

    /// The next durable record; waits for it. `None` only at the end of the last writer, if that was chosen by
    /// [`ViewFollower::ends_with_writer`].
    ///
    /// # Errors
    /// As [`ViewFollower::try_next_record`].
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        self.wait_until(u64::MAX, R::next_now)
    }

    /// As [`ViewFollower::next_record`], but waits for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when the time is over, and as [`ViewFollower::try_next_record`].
    pub fn next_record_timeout(&mut self, timeout: Duration) -> Result<Option<Record>> {
        let found = self.wait_until(until_ns(timeout), R::next_now)?;
        let in_time = found.is_some() || self.has_ended();
        if in_time { Ok(found) } else { Err(Error::TimedOut { lsn: self.lsn(), timeout }) }
    }

    /// Where the next record that it returns starts, or lies after.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.records.lsn()
    }

    /// Whether there was no writer when it looked last.
    #[must_use]
    pub fn has_no_writer(&self) -> bool {
        self.log.has_no_writer()
    }

    /// Why it looks at the disk again and again while there is a writer, if it does; `None` if the writer wakes it, or if
    /// there is none.
    #[must_use]
    pub fn polls(&self) -> Option<&str> {
        if let Source::Disk(reason) = &self.log.source { Some(reason) } else { None }
    }

    /// How often it has looked for more. While nothing happens, that is once a second if [`ViewFollower::polls`] is `None`
    /// and there is a writer; and once for each call of [`ViewFollower::try_next_record`] and
    /// [`ViewFollower::next_record_timeout`].
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.log.looks
    }

    fn has_ended(&self) -> bool {
        self.ends_with_writer && self.has_no_writer()
    }

    fn wait_until<T>(
        &mut self,
        until_ns: u64,
        next: impl Fn(&mut R, &mut LiveView) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            let found = next(&mut self.records, &mut self.log)?;
            if found.is_some() || self.has_ended() {
                return Ok(found);
            }
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return Ok(None);
            }
            self.log.sleep(Duration::from_nanos(left_ns));
        }
    }
}

impl ViewFollower {
    /// Goes on after what was trimmed, after [`Error::Trimmed`]: with the first record that is left; returns its LSN.
    ///
    /// # Errors
    /// As [`ViewFollower::try_next_record`]; a trim that overtakes it again is `Trimmed` again.
    pub fn skip_trimmed(&mut self) -> Result<Lsn> {
        let at = self.lsn();
        self.log.look_anew().map_err(|error| error.in_dir(self.log.view.dir()))?;
        let from = at.max(self.log.view.first_lsn());
        self.records.scan = self.log.view.scan(from)?;
        Ok(from)
    }

    /// The next batch as it lies on the disk; waits for it at most for `limit`. A follower hands out either batches or records.
    pub(crate) fn next_sealed(&mut self, limit: Duration) -> Result<Option<SealedBatch>> {
        self.wait_until(until_ns(limit), |records, log| records.next(log, RecordScan::next_sealed))
    }

    /// Where the next batch lies, and what it is linked to.
    pub(crate) fn cursor(&self) -> &Cursor {
        self.records.scan.cursor()
    }

    /// The end of what it knows to be durable.
    pub(crate) fn known_end(&self) -> Lsn {
        self.log.end
    }
}

/// When a wait that begins now is over.
fn until_ns(timeout: Duration) -> u64 {
    monotonic_ns().saturating_add(nanoseconds(timeout))
}

/// The records of a log, in any process.
pub struct ViewRecords {
    scan: RecordScan<Arc<ViewedSegments>>,
    /// Where reading failed last, and was tried again.
    failed_at: Option<Lsn>,
}

impl std::fmt::Debug for ViewRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ViewRecords");
        self.scan.show(&mut shown);
        shown.finish_non_exhaustive()
    }
}

impl Viewed for ViewRecords {
    fn next_now(&mut self, log: &mut LiveView) -> Result<Option<Record>> {
        self.next(log, |scan, end| scan.next(|| end))
    }

    fn lsn(&self) -> Lsn {
        self.scan.place()
    }
}

impl ViewRecords {
    /// What `scan` finds.
    pub(crate) fn new(scan: RecordScan<Arc<ViewedSegments>>) -> Self {
        Self { scan, failed_at: None }
    }

    /// What `next` finds before the end, which is looked for if there is nothing.
    fn next<T>(
        &mut self,
        log: &mut LiveView,
        next: impl Fn(&mut RecordScan<Arc<ViewedSegments>>, Lsn) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            match next(&mut self.scan, log.end) {
                Ok(Some(found)) => {
                    self.failed_at = None;
                    return Ok(Some(found));
                }
                Ok(None) => {
                    let more = log.look(self.scan.segment());
                    self.adopt(log);
                    if !more? {
                        return Ok(None);
                    }
                }
                Err(error) => self.go_on_after(error, log)?,
            }
        }
    }

    /// Continues in the segments of `log`.
    fn adopt(&mut self, log: &LiveView) {
        if !Arc::ptr_eq(&self.scan.files.dir, &log.view.dir) {
            self.scan.files.dir = Arc::clone(&log.view.dir);
            self.scan.forget();
        }
        self.scan.files.segments = Arc::clone(&log.segments);
    }

    /// Decides what a failed read means: the log was trimmed past it, segments changed meanwhile, the page claims more than
    /// the log holds, or the log is damaged.
    fn go_on_after(&mut self, error: Error, log: &mut LiveView) -> Result<()> {
        let (lsn, again) = (self.scan.at(), self.failed_at);
        let dir = log.view.dir().to_path_buf();
        let Ok(now) = View::open_in(&log.view.dir) else { return Err(error.in_dir(&dir)) };
        if lsn < now.first_lsn() {
            return Err(Error::Trimmed { lsn, first: now.first_lsn() });
        }
        if again == Some(lsn) && lsn < now.end_lsn() {
            return Err(error.in_dir(&dir));
        }
        self.failed_at = Some(lsn);
        self.scan.forget();
        log.view = now;
        if lsn <= log.view.end_lsn() {
            // The segment that it read may have been replaced by another one that begins at the same LSN.
            self.scan = log.view.scan(lsn)?;
        }
        // Nothing past what the log itself proves is read again, unless a page says so.
        log.end = lsn.max(log.view.end_lsn());
        log.adopt();
        self.adopt(log);
        if again == Some(lsn) {
            let reason = format!("the writer's page claims more than the log has after LSN {lsn}: {error}");
            tracing::warn!(dir = %dir.display(), reason);
            if let Source::Page(page, _) = &log.source {
                log.refused = Some((page.name().to_owned(), reason));
                log.connect();
            }
        }
        Ok(())
    }
}

/// A view of a log that keeps up with it.
pub struct LiveView {
    view: View,
    pub(crate) segments: Arc<ViewedSegments>,
    /// Records before this are shown.
    pub(crate) end: Lsn,
    source: Source,
    /// How many cuts its page counted when the segments were looked at last.
    cuts: u64,
    /// That count had changed: it may be ahead of what was durable then.
    cuts_changed: bool,
    /// When to look whether the writer lives.
    check_at_ns: u64,
    /// The page that `LOCK` named before the last look at the directory: each writer leaves another name there.
    left: Option<String>,
    /// A page that is not believed any more, and why.
    refused: Option<(String, String)>,
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

impl LiveView {
    fn new(view: View) -> Self {
        let (segments, end) = (view.segments_shared(), view.end_lsn());
        let mut log = Self {
            view,
            segments,
            end,
            source: Source::Ended,
            cuts: 0,
            cuts_changed: false,
            check_at_ns: 0,
            left: None,
            refused: None,
            looks: 0,
        };
        log.connect();
        log
    }

    fn has_no_writer(&self) -> bool {
        matches!(self.source, Source::Ended)
    }

    /// Looks for more; returns whether there may be some. Segments before `reads`, which is being read, are forgotten where others
    /// are added.
    pub(crate) fn look(&mut self, reads: u64) -> Result<bool> {
        self.look_now(reads).map_err(|error| error.in_dir(self.view.dir()))
    }

    fn look_now(&mut self, reads: u64) -> Result<bool> {
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
                self.view = View::open_in(&self.view.dir)?;
                self.segments = self.view.segments_shared();
                self.cuts = published.cuts;
            }
            if self.newest() < published.segment {
                self.add_segments(reads)?;
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
        let lives = page.is_named(&self.view.dir) && is_held(&self.view.dir)? != Some(false);
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
        let dir = &self.view.dir;
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
        named(&self.view.dir).ok().flatten().map(|(name, _)| name)
    }

    /// Looks at the whole directory.
    fn look_anew(&mut self) -> Result<bool> {
        let before = self.end;
        self.left = self.named();
        self.view = View::open_in(&self.view.dir)?;
        self.adopt();
        Ok(self.end > before)
    }

    /// Continues to the end of the view, in its segments.
    fn adopt(&mut self) {
        self.segments = self.view.segments_shared();
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
        let page = Subscriber::connect(&view.dir, view.log_id(), view.newest_epoch());
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
        self.segments.headers.last().map_or(0, |header| header.number)
    }

    /// Adds the segments that were started since, and forgets those before the one that is being read.
    fn add_segments(&mut self, reads: u64) -> Result<()> {
        let mut disk = OsDisk::read_only(Arc::clone(&self.view.dir));
        let read = self.segments.headers.iter().filter(|header| header.number >= reads);
        let mut segments: Vec<_> = read.copied().collect();
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
        let cuts = self.segments.cuts.clone();
        self.segments = Arc::new(ViewedSegments { headers: segments, cuts });
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
