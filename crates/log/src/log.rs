//! The log's public interface: open, append, commit, read, follow, trim and close.

mod accept;
mod opening;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;
use std::time::SystemTime;

use seawall_sys::directory::Directory;
use seawall_sys::durability::Durability;

use crate::commit::append_future::AppendFuture;
use crate::commit::close_future::{CloseFuture, CloseOrder};
use crate::commit::commit_future::CommitFuture;
use crate::commit::ending::{self, HandedOver, Resources};
use crate::commit::group::Group;
use crate::commit::stats::Stats;
use crate::commit::sync::{Mutex, lock};
use crate::commit::transaction::Transaction;
use crate::error::{Error, Result};
use crate::format::{Tag, TagKind};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::options::Options;
use crate::read::follow_thread::FollowThread;
use crate::read::follower::{Follower, LogRecords};
use crate::read::index::{RecordIndex, Wanted};
use crate::read::pin::{Pins, ReadPin};
use crate::read::reader::{Reader, Record, check_within};
use crate::read::stream::Stream;
use crate::read::time::lsn_at;
use crate::read::trim::Trim;
use crate::recovery::held_trims;
use crate::repair::backup::{Backup, backup_of};
use crate::storage::os_disk::OsDisk;
use crate::stream::StreamId;
use crate::stream::state::{HeldTrims, Numbering};
use accept::{OpenTransaction, range_of};
pub use opening::Opened;

/// A transaction log in one directory, opened for writing.
///
/// Shared between threads by reference or in an [`Arc`]. Dropping it commits nothing: records that were appended and
/// not committed are lost. [`Log::close`] commits everything and writes a mark that says so.
///
/// Dropping waits for the threads of the log and for batches that are being written. A waker that drops the last handle on a
/// thread that is writing a batch must not wait: a thread of the log then finishes. [`Log::open`] in the same process
/// waits for that; another process may find the log locked a moment longer. Nothing acknowledged is lost either way. A task
/// awaits [`Log::close_async`] first: dropping then waits for nothing.
///
/// # fork(2)
///
/// A forked child must not use the log: appending, committing, trimming, reading and closing fail there with
/// [`Error::Forked`], and dropping it does nothing. The parent is not affected, and what it closes can
/// be opened again while the child lives. Started programs (`std::process::Command`) inherit nothing. A child created by
/// clone(2) alone, without the C library, is not detected: it must not touch the log at all.
pub struct Log {
    pub(crate) group: Arc<Group>,
    dir: Arc<Directory>,
    record_bytes_max: usize,
    opened: Opened,
    /// The threads, and the lock that is held as long as the log is open; `None` once it is being closed.
    resources: Mutex<Option<Resources>>,
    staged_memory: Mutex<Vec<Vec<u8>>>,
    pins: Pins,
    /// Where single records are.
    index: Arc<RecordIndex>,
    /// Held while the rewriter thread is started.
    starts_rewriter: Mutex<()>,
    /// Reads for followers that are polled.
    follow_thread: Arc<FollowThread>,
    /// What the maintenance thread releases if the thread that drops the log must not wait.
    handed_over: HandedOver,
    closing: Arc<CloseOrder>,
    /// The disk for the file of held trims of a log at its cap, and how many were written to it.
    held_trims: Mutex<(OsDisk, u64)>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Log");
        shown.field("dir", &self.dir.path()).field("method", &self.opened.method);
        shown.field("durable", &self.group.durable()).field("failed", &self.group.status.failed().is_some());
        shown.finish_non_exhaustive()
    }
}

impl Log {
    /// Opens the log in `dir`: takes the exclusive lock, recovers what is durable and prepares for appends.
    ///
    /// # Errors
    /// [`Error::Locked`] if another writer holds it, [`Error::Corrupt`] if acknowledged data is damaged,
    /// [`Error::InvalidOption`], [`Error::NewerFormat`], [`Error::ForeignSegment`], [`Error::NotALog`] if there is none
    /// and none is to be created, [`Error::BlocksTooSmall`] for this disk, [`Error::DiskFull`], [`Error::DiskCap`],
    /// [`Error::Io`].
    #[expect(clippy::needless_pass_by_value, reason = "one set of options opens one log")]
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_in(dir.as_ref(), &options)
    }

    /// What opening found.
    #[must_use]
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The directory of the log: its absolute path when the log was opened. The log holds a handle on the directory, and continues
    /// in it wherever it is moved and whatever the process's working directory is (on Windows: as long as the path exists).
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Copies a record into memory and returns where it begins, which [`Log::read_at`] takes, and where it ends, exclusive, which
    /// [`Log::commit`] takes. It is not durable yet. Waits only when the memory is full or no prepared segment is left.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::DiskFull`] and [`Error::DiskCap`] (nothing was written and the log stays open),
    /// [`Error::Failed`], [`Error::Closed`], [`Error::Forked`].
    #[inline]
    pub fn append(&self, record: &[u8]) -> Result<Range<Lsn>> {
        self.accept_record::<true>(record).map(|(end, _)| range_of(record, end))
    }

    /// As [`Log::append`], but returns [`Error::WouldBlock`] where that would wait: nothing was accepted, and the missing memory or segment
    /// has been requested, so that a later call finds it. An async task appends with this and, when it is
    /// refused, awaits the [`CommitFuture`] of what it has appended so far, or retries later.
    ///
    /// It takes the log's short internal lock, as `append` does, and never waits for the disk.
    ///
    /// # Errors
    /// As [`Log::append`], and [`Error::WouldBlock`] when the memory is full or no prepared segment has room.
    pub fn append_no_wait(&self, record: &[u8]) -> Result<Range<Lsn>> {
        let tried = self.try_in_line(record);
        if tried.is_err() && self.is_large(record) {
            self.pass_on_memory();
        }
        tried
    }

    /// As [`Log::append_no_wait`], but also returns [`Error::WouldBlock`] while another thread holds the log's lock, and for a record
    /// that needs a batch of its own; nothing is requested. It copies the record and waits for nothing, not even a
    /// lock; the only system call that it may make wakes a thread. It is for callers that block others meanwhile,
    /// such as a critical call of a virtual machine: on `WouldBlock` they leave that state and call [`Log::append`].
    ///
    /// # Errors
    /// As [`Log::append_no_wait`].
    #[inline]
    pub fn try_append(&self, record: &[u8]) -> Result<Range<Lsn>> {
        self.check_length(record.len())?;
        if self.is_large(record) {
            return Err(Error::WouldBlock);
        }
        self.group.try_accept(|core| core.append(record)).map(|end| range_of(record, end))
    }

    /// As [`Log::append`], as a future: it appends the record as soon as there is memory and a segment for it, and blocks no
    /// thread until then. Needs no runtime. Waiting futures are served in order, as long as they
    /// are polled; callers of [`Log::append`] are not part of that queue.
    ///
    /// Dropping the future before it is ready is safe: nothing of the record was appended, and the next one takes its turn.
    /// Like `append` it takes the log's short internal lock and copies the record, in the poll that returns its place.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_async<'a>(&'a self, record: &'a [u8]) -> AppendFuture<'a> {
        AppendFuture::new(self, record)
    }

    /// Returns when everything before `lsn` is durable: [`Log::durable_lsn`] covers it, and readers, followers and views of every process
    /// show it. Those read segments, so a log that was opened for [`ProcessCrash`](crate::Durability::ProcessCrash) writes for each such
    /// commit, without a sync. If nobody needs to read the records at once, [`Log::commit_as`] of that class is faster: it
    /// copies them into memory, in a log of any class.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] if nothing was appended there, [`Error::Failed`] if a write or sync failed.
    pub fn commit(&self, lsn: Lsn) -> Result<()> {
        self.group.commit(lsn, self.group.config.own())
    }

    /// Returns when everything before `lsn` outlives `class`, which may be less than the log promises and is then
    /// cheaper: the records are with the kernel (`ProcessCrash`) or with the device (`SystemCrash`). They become durable
    /// with the next commit that requests more, when a segment is full, when the log is idle ([`Options::idle_mark`]) and
    /// when it is closed; until then [`Log::durable_lsn`] does not cover them and readers do not show them. A group of
    /// commits that share one write honours its strictest member. Where no cheaper method reaches `class`, the log's
    /// own is used.
    ///
    /// On Linux, `ProcessCrash` writes nothing, in a log of any class: the records are copied into memory that outlives the
    /// process, and the next opening makes them durable; see [`Options::crash_memory_bytes`] and [`crate::guarantees`]. The
    /// first such commit makes that memory, which takes some milliseconds.
    ///
    /// # Errors
    /// As [`Log::commit`], and [`Error::BeyondPromise`] if `class` is more than the log was opened to promise.
    pub fn commit_as(&self, lsn: Lsn, class: Durability) -> Result<()> {
        if self.group.outlives(lsn, class)? {
            return Ok(());
        }
        self.group.commit(lsn, self.group.level(class)?)
    }

    /// Appends a record and returns when it is durable.
    ///
    /// # Errors
    /// As [`Log::append`] and [`Log::commit`].
    pub fn append_commit(&self, record: &[u8]) -> Result<Range<Lsn>> {
        let (end, core) = self.accept_record::<true>(record)?;
        self.group.commit_and_wait(core, end, self.group.config.own())?;
        Ok(range_of(record, end))
    }

    /// Applies what `work` appends, trims, cuts and removes as a unit; not durable yet:
    /// [`Log::commit`] the returned LSN, the end of the last record. After a crash either all of it is in the log or none.
    ///
    /// # Errors
    /// What `work` returned, in which case nothing was appended; otherwise as [`Log::append`], and as [`Transaction::trim`] and
    /// [`Transaction::truncate`] say.
    pub fn transaction<E: From<Error>>(
        &self,
        work: impl FnOnce(&mut Transaction) -> std::result::Result<(), E>,
    ) -> std::result::Result<Lsn, E> {
        self.group.status.check_process()?;
        let staged = lock(&self.staged_memory).pop().unwrap_or_default();
        let lent = self.group.core().lend();
        let transaction = Transaction::new(staged, lent, self.record_bytes_max);
        let mut open = OpenTransaction { log: self, transaction };
        work(&mut open.transaction)?;
        if open.transaction.numbering != Numbering::Untagged {
            self.start_rewriter()?;
        }
        Ok(self.accept_transaction(&mut open.transaction)?)
    }

    /// A future that is ready when everything before `lsn` is durable. Needs no runtime; the write is in flight or
    /// will be, whether the future is polled or not. Dropping the future at any point is safe: no other future loses its
    /// wake-up, and the records still become durable.
    pub fn commit_async(&self, lsn: Lsn) -> CommitFuture {
        CommitFuture::request(&self.group, lsn, self.group.config.own())
    }

    /// Wakes `waker` whenever more may be durable while the log is open, at least once for each group of commits, and
    /// when the log fails or is closed: an event loop waits for all of these by one registration. The waking thread
    /// must not wait. A log has one such waker; returns `false`, and changes nothing, if it has one already.
    pub fn watch(&self, waker: Waker) -> bool {
        self.group.waiters.watch(waker)
    }

    /// As [`Log::commit_async`], for what is to outlive `class` only: see [`Log::commit_as`].
    ///
    /// # Errors
    /// [`Error::BeyondPromise`] if `class` is more than the log was opened to promise.
    pub fn commit_async_as(&self, lsn: Lsn, class: Durability) -> Result<CommitFuture> {
        // The future returns the error of a log that has ended.
        let level = self.group.level(class)?;
        let outlives = self.group.outlives(lsn, class).unwrap_or(false);
        Ok(if outlives {
            CommitFuture::done(&self.group, lsn, level)
        } else {
            CommitFuture::request(&self.group, lsn, level)
        })
    }

    /// Reads durable records from the first one at or after `from`; also while the log is written to.
    ///
    /// Sequential readers prefetch on a separate thread, and bypass the page cache for uncached parts
    /// (Linux). So reading an old log evicts nothing from the cache, and reading it twice reads the disk twice.
    ///
    /// # Errors
    /// [`Error::Trimmed`], [`Error::BeyondEnd`], [`Error::Corrupt`], [`Error::Io`], and [`Error::Closed`] after
    /// [`Log::close_async`].
    pub fn read(&self, from: Lsn) -> Result<Reader> {
        self.group.status.check_readable()?;
        Reader::new(&self.group, &self.dir, from)
    }

    /// Reads the durable record that starts at `lsn`: the start of what its append returned.
    ///
    /// The first read in a segment scans it once and indexes it; later reads extend the index. A
    /// record is then read with the blocks that contain it, each checked. The index takes 0.44 % of what it covers (in batches
    /// of one block of 4 KiB) and at most 128 MiB and 384 descriptors for a log; the least used parts are evicted first.
    ///
    /// # Errors
    /// [`Error::NoRecord`] if none starts there, [`Error::Trimmed`], [`Error::BeyondEnd`] if it is not durable,
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn read_at(&self, lsn: Lsn) -> Result<Record> {
        self.group.status.check_readable()?;
        let read = self.index.read(&self.group, &self.dir, Wanted::StartsAt(lsn))?;
        if read.is_shown(self.group.cuts().as_deref()) {
            Ok(read.record)
        } else {
            Err(Error::NoRecord { lsn })
        }
    }

    /// Reads the durable record that ends at `end`, `None` at the first LSN that is left; repeated calls read the log
    /// backwards. Costs as much as [`Log::read_at`].
    ///
    /// # Errors
    /// As [`Log::read_at`].
    pub fn read_before(&self, end: Lsn) -> Result<Option<Record>> {
        self.group.status.check_readable()?;
        let mut end = end;
        while end != self.first_lsn() {
            let read = self.index.read(&self.group, &self.dir, Wanted::EndsAt(end))?;
            if read.is_shown(self.group.cuts().as_deref()) {
                return Ok(Some(read.record));
            }
            end = read.record.lsn;
        }
        Ok(None)
    }

    /// The LSN of the first record that was appended at or after `time`, by the clock of the machine then, to the precision of a
    /// batch; [`Log::durable_lsn`] if there is none. A clock that was set back counts as stopped, and batches of
    /// unknown time count as the oldest.
    ///
    /// # Errors
    /// [`Error::Trimmed`] if the log was trimmed meanwhile, [`Error::Corrupt`], [`Error::Io`], [`Error::Closed`].
    pub fn lsn_at(&self, time: SystemTime) -> Result<Lsn> {
        self.group.status.check_readable()?;
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        lsn_at(&self.group, &self.dir, u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    /// One stream of the log: an ordered sequence of records with its own reader, follower, trim and tail. All streams
    /// share the log's writer, its segments and its flushes; a transaction may append to several
    /// ([`Transaction::append_to`]). A stream exists as soon as a record is appended to it.
    ///
    /// [`Log::trim`] and [`Log::truncate_after`] concern the records that belong to no stream; those of streams are removed by
    /// [`Stream::trim`], [`Stream::truncate`] and [`Stream::remove`]. A segment is released when neither needs it.
    #[must_use]
    pub fn stream(&self, id: StreamId) -> Stream<'_> {
        Stream::new(self, id)
    }

    /// The streams that the log has, in order of their numbers.
    #[must_use]
    pub fn streams(&self) -> Vec<StreamId> {
        let mut ids: Vec<_> = self.group.core().tagged.streams.ids().collect();
        ids.sort();
        ids
    }

    /// Cuts off the tail: every record that belongs to no stream and starts at or after `lsn`. What is appended
    /// afterwards follows at the end: LSNs are not used twice, and a reader steps over what is cut. Takes effect at once for
    /// this process; durable when everything before the returned LSN is, so that a crash before that may bring the records back.
    ///
    /// A reader or follower that has handed out records which are cut off afterwards does not take them back. A cut
    /// inside a transaction leaves its first records. At the disk cap ([`Options::disk_bytes_max`]) it waits or is
    /// refused like an append.
    ///
    /// # Errors
    /// [`Error::Trimmed`], [`Error::BeyondEnd`] past the end of what was appended; as [`Log::append`].
    pub fn truncate_after(&self, lsn: Lsn) -> Result<Lsn> {
        let mut refused = None;
        let accepted = self.group.accept(|core| {
            let end = core.appended();
            refused = check_within(core, lsn).err();
            if refused.is_some() || lsn == end {
                return Ok(end);
            }
            core.append_tagged(&Tag { kind: TagKind::LogCut, stream: 0, number: lsn.get() }, &[])
        });
        let (end, core) = accepted?;
        if let Some(refused) = refused {
            return Err(refused);
        }
        self.group.publish_cuts(&core);
        Ok(end)
    }

    /// What readers share with the log.
    pub(crate) fn shared(&self) -> (Arc<Group>, Arc<Directory>, Arc<RecordIndex>) {
        (Arc::clone(&self.group), Arc::clone(&self.dir), Arc::clone(&self.index))
    }

    /// Makes the held trims durable, in a file of their own: a log at its cap has no block for trims that free no segment.
    pub(crate) fn note_held(&self) -> Result<()> {
        let mut noted = lock(&self.held_trims);
        let core = self.group.core();
        let (changes, at) = (core.tagged.streams.held_changes, core.appended());
        let held = HeldTrims { at, tags: core.tagged.streams.held(None) };
        drop(core);
        if changes == noted.1 || held.tags.is_empty() {
            return Ok(());
        }
        self.group.commit(at, self.group.config.own())?;
        let written = held_trims::write(&mut noted.0, self.group.config.log_id, &held);
        written.map_err(|error| error.in_dir(self.dir.path()))?;
        noted.1 = changes;
        Ok(())
    }

    /// As [`Log::read`], but waits for more at the end, on a thread or by polling a task. Finding the first record reads
    /// the disk, here as in `read`: of the segment that `from` lies in, the headers of the batches before it.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn follow(&self, from: Lsn) -> Result<Follower> {
        let reader = self.read(from)?;
        let group = || Arc::clone(&self.group);
        Ok(Follower::new(group(), LogRecords::new(group(), reader, Arc::clone(&self.follow_thread), from)))
    }

    /// Holds everything from `lsn` on, which must not be trimmed yet, until the pin is dropped: for a slow reader, or one that
    /// returns later. [`Log::trim`] goes no further than the lowest pin, which [`Stats::pinned`] shows. A pin exists
    /// only in this process, and has no effect once the log is closed.
    ///
    /// # Errors
    /// [`Error::Trimmed`], [`Error::BeyondEnd`] past the end of what was appended, [`Error::Forked`].
    pub fn pin(&self, lsn: Lsn) -> Result<ReadPin> {
        self.group.status.check_process()?;
        let mut held = self.pins.held();
        // Streams move the first LSN under this lock.
        let core = self.group.core();
        check_within(&core, lsn)?;
        let pin = self.pins.pin(&mut held, lsn);
        drop(core);
        Ok(pin)
    }

    /// Trims everything before `lsn`, as far as it is durable and no [`Log::pin`] and no [`crate::Hold`] holds it; returns the first LSN that is left. Whole segments
    /// before it are recycled, once that first LSN is durable itself.
    ///
    /// In a log with streams it stops at the first segment that a stream needs, and the log trims further by itself when the segment is no
    /// longer needed; a reopened log does not remember the rest of the request.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] past the end of what was appended, [`Error::Failed`], [`Error::Closed`], and [`Error::Io`] if the holds
    /// in the directory cannot be read, such as without a free descriptor: nothing is trimmed then.
    pub fn trim(&self, lsn: Lsn) -> Result<Lsn> {
        let _span = tracing::debug_span!("trim", %lsn).entered();
        self.group.status.check_process()?;
        if let Some(failed) = self.group.status.failed() {
            return Err(failed);
        }
        if self.group.status.is_closed() {
            return Err(Error::Closed);
        }
        let trim = Trim { group: &self.group, dir: &self.dir, pins: &self.pins, index: &self.index };
        trim.to(|_, core| {
            let end = core.appended();
            if lsn > end { Err(Error::BeyondEnd { lsn, end }) } else { Ok(lsn) }
        })
    }

    /// Copies the log into the folder `to`, which opens as the same log with the same LSNs: everything that is durable when
    /// this is called. Other threads append, commit and trim meanwhile. See [`crate::backup()`], which does the same to the
    /// log of another process.
    ///
    /// # Errors
    /// As [`crate::backup()`], and [`Error::Forked`].
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Backup> {
        self.group.status.check_readable()?;
        backup_of(&self.dir, to.as_ref(), &|| self.durable_lsn())
    }

    /// The end of what is durable, at the class that the log was opened for.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.group.durable()
    }

    /// Where [`Log::durable_lsn`] is kept: a word that only grows, to be read by an atomic load with acquire ordering. It is
    /// valid as long as this log, its readers, followers and commits exist, and saves callers in other languages
    /// a call; nothing may be stored there.
    #[cfg(not(loom))]
    #[doc(hidden)]
    #[must_use]
    pub fn durable_word(&self) -> *const u64 {
        self.group.waiters.durable_word()
    }

    /// The end of what outlives `class`: never before [`Log::durable_lsn`], and past it after [`Log::commit_as`]. For a
    /// class above what the log promises there is no such end, and [`Log::durable_lsn`] is returned.
    #[must_use]
    pub fn lsn_surviving(&self, class: Durability) -> Lsn {
        // What lies in crash memory has reached the lowest level only.
        if class == Durability::ProcessCrash {
            return self.group.waiters.reached(AckLevel::Process);
        }
        self.group.level(class).map_or_else(|_| self.group.durable(), |level| self.group.reached(level))
    }

    /// The end of what was appended.
    #[must_use]
    pub fn appended_lsn(&self) -> Lsn {
        self.group.core().appended()
    }

    /// The first LSN that is left.
    #[must_use]
    pub fn first_lsn(&self) -> Lsn {
        self.group.core().trim()
    }

    /// The longest record that it accepts: [`Options::record_bytes_max`].
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        self.record_bytes_max
    }

    /// Whether the next segment is prepared, so that the next rotation does not wait.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.group.core().spares() > 0
    }

    /// What the log has done since it was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let Opened { method, engine, engine_refused, evidence, .. } = &self.opened;
        let (pinned, evidence) = (self.pins.held().lowest(), evidence.clone());
        Stats {
            pinned,
            method,
            engine,
            engine_refused: engine_refused.clone(),
            evidence,
            ..self.group.stats()
        }
    }

    /// Commits everything, writes the close mark and releases the log, even if a forked child is still running.
    ///
    /// # Errors
    /// [`Error::Failed`] if something could not be made durable, [`Error::Forked`], and [`Error::Closed`] after
    /// [`Log::close_async`], whose future says when the log is closed.
    pub fn close(self) -> Result<()> {
        let _span = tracing::info_span!("close", dir = %self.dir.path().display()).entered();
        self.group.status.check_process()?;
        if self.group.status.is_closed() {
            return Err(Error::Closed);
        }
        self.group.status.close();
        let sealed = match self.group.status.failed() {
            Some(failed) => Err(failed),
            None => self.group.close_log(),
        };
        self.stop();
        sealed
    }

    /// As [`Log::close`], done by the threads of the log and awaited as a future, through any handle of the log. Needs no
    /// runtime.
    ///
    /// Closing begins with this call, whether the future is polled or dropped: from now on appends are refused with
    /// [`Error::Closed`], waiting ones included, and reads once the lock is released; commits of what was
    /// appended still complete; followers end. The process must live until the future is ready, otherwise the log is left as after
    /// a crash. The first call closes the log, and every such future returns the same result.
    ///
    /// # Errors
    /// The future returns [`Error::Failed`] if something could not be made durable, [`Error::Forked`].
    pub fn close_async(&self) -> CloseFuture {
        let status = &self.group.status;
        let resources = if status.is_owner_process() { lock(&self.resources).take() } else { None };
        if let Some(resources) = resources {
            tracing::debug!(dir = %self.dir.path().display(), "closing");
            self.closing.order(&self.group, resources);
        }
        CloseFuture::new(&self.group, &self.closing)
    }

    fn stop(&self) {
        if !self.group.status.is_owner_process() {
            // The threads are the parent's, and so are the locks and the directory.
            for held in self.resources.try_lock().iter_mut().filter_map(|held| held.as_mut()) {
                held.threads.drain(..).for_each(std::mem::forget);
            }
            return;
        }
        // It has been ended already if it was closed.
        let resources = lock(&self.resources).take();
        if let Some(resources) = resources {
            ending::end(&self.group, resources, &self.handed_over);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Log;
    use crate::commit::sync::lock;
    use crate::options::Options;

    #[test]
    fn a_transaction_that_panics_gives_its_memory_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = Log::open(dir.path(), Options::default().batch_bytes(64 << 10).memory_bytes(1 << 20));
        let log = log.expect("opens");
        let free = || log.group.core().free.len();
        let before = free();
        for bytes in [0, 10, 20 << 10, 200 << 10] {
            let transaction = || {
                log.transaction::<crate::Error>(|transaction| {
                    transaction.append(&vec![7; bytes])?;
                    panic!("a mistake of the application")
                })
            };
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(transaction)).is_err());
            assert_eq!(free(), before, "with {bytes} bytes in it");
        }
        assert_eq!(lock(&log.staged_memory).len(), 1, "what it was staged in is taken again");
    }
}
