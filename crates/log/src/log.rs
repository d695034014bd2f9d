//! The log's public interface: open, append, commit, read, follow, trim and close.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, SystemTime};

use seawall_sys::crash_memory::{CrashMapping, boot_id};
use seawall_sys::directory::Directory;
use seawall_sys::durability::Class;
use seawall_sys::planted;

use crate::commit::append_future::AppendFuture;
use crate::commit::close_future::{CloseFuture, Closing};
use crate::commit::commit_future::CommitFuture;
use crate::commit::ending::{self, HandedOver, Resources};
use crate::commit::group::Group;
use crate::commit::process_crash::{CrashMemory, MemoryPlan};
use crate::commit::segment_writers::SegmentWriters;
use crate::commit::state::{Core, CoreConfig, Refusal};
use crate::commit::stats::Stats;
use crate::commit::sync::{Mutex, MutexGuard, lock};
use crate::commit::transaction::{Finished, Transaction};
use crate::commit::{maintenance_thread, stall_watch, writer_thread};
use crate::crash_memory::left::{Left, LeftInMemory};
use crate::crash_memory::{MEMORY_FILE, is_own};
use crate::error::{Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::checksum::crc32c;
use crate::format::{
    BATCH_HEADER_BYTES, LogId, RECORD_HEADER_BYTES, TAG_BYTES, Tag, TagKind, record_header, tagged_header,
};
use crate::lock::{Lock, make_dir, open_dir, refuse_network};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::method::evidence::Evidence;
use crate::method::select::{MethodOrigin, Selected, permit};
use crate::options::Options;
use crate::read::follow_thread::FollowThread;
use crate::read::follower::Follower;
use crate::read::index::{RecordIndex, Wanted};
use crate::read::pin::{Pins, ReadPin};
use crate::read::reader::{Reader, Record, check_within};
use crate::read::retained::Retained;
use crate::read::rewrite::Rewriter;
use crate::read::stream::{Stream, StreamAppend};
use crate::read::time::lsn_at;
use crate::read::trim::Trim;
use crate::recovery::held_trims;
use crate::recovery::sector_size::explain;
use crate::recovery::tail::Tail;
use crate::recovery::{self, Plan, Recovered};
use crate::repair::backup::{Backup, backup_of};
use crate::segment::inventory::SegmentInventory;
use crate::segment::retention::Now;
use crate::storage::os_disk::OsDisk;
use crate::stream::StreamId;
use crate::stream::state::{HeldTrims, Numbering};

/// The most trimmed segments that are kept for reuse, beyond the configured spares.
const KEPT_MAX: usize = 16;

/// What opening found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened {
    /// How the log had ended.
    pub tail: Tail,
    /// The first LSN that is left.
    pub first: Lsn,
    /// The end of the log.
    pub end: Lsn,
    /// Segments in the log.
    pub segments: usize,
    /// How often the log has been opened, this time included.
    pub epoch: u64,
    /// The row of the method table that commits go through.
    pub method: &'static str,
    /// Where that row comes from: logs of one process on one disk share one probe.
    pub method_origin: MethodOrigin,
    /// The engine that runs it.
    pub engine: &'static str,
    /// Why another engine was refused, if one was and the portable one took over.
    pub engine_refused: Option<String>,
    /// What the devices' counters say to the class: the log does not open where they contradict it.
    pub evidence: Evidence,
    /// Why followers in other processes look at the disk again and again, instead of being woken, if they do: see
    /// [`crate::View::follow`].
    pub channel_refused: Option<String>,
    /// Foreign files in the directory.
    pub foreign_files: Vec<String>,
    /// What commits that are to outlive the process only had left in memory: see [`Log::commit_as`].
    pub left_in_memory: LeftInMemory,
}

/// A transaction log in one directory, opened for writing.
///
/// Shared between threads by reference or in an [`Arc`]. Dropping it commits nothing: records that were appended and
/// not committed are gone. [`Log::close`] commits everything and leaves a mark that says so.
///
/// Dropping waits for the threads of the log and for batches that are being written. Where the last handle goes with a
/// waker, on a thread that is just writing a batch, it must not wait: a thread of the log then does the rest. The same
/// process opens the directory again without noticing, because [`Log::open`] waits for that; another one may find it
/// locked a moment longer. Nothing acknowledged is lost either way. A task awaits [`Log::close_async`] first: dropping then
/// waits for nothing.
///
/// # fork(2)
///
/// A process that is forked off must not use the log: appending, committing, trimming, reading and closing fail there with
/// [`Error::Forked`], and dropping it does nothing. The parent is not affected, and what it closes can
/// be opened again while the child lives. Started programs (`std::process::Command`) inherit nothing. A child made by
/// clone(2) alone, without the C library, is not noticed: it must not touch the log at all.
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
    /// Held while the thread that rewrites what streams need is started.
    starts_rewriter: Mutex<()>,
    /// Reads for followers that are polled.
    follow_thread: Arc<FollowThread>,
    /// What the maintenance thread releases where the thread that drops the log must not wait.
    handed_over: HandedOver,
    closing: Arc<Closing>,
    /// Writes the trims that a log at its cap holds back, and how many it has written.
    held_trims: Mutex<(OsDisk, u64)>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Log");
        shown.field("dir", &self.dir.path()).field("method", &self.opened.method);
        shown
            .field("durable", &self.group.durable())
            .field("failed", &self.group.status().failed().is_some());
        shown.finish_non_exhaustive()
    }
}

/// The identity of a new log.
#[cfg_attr(not(feature = "simulation"), expect(unused_variables, reason = "only tests set it"))]
fn identity(options: &Options) -> LogId {
    #[cfg(feature = "simulation")]
    if let Some(id) = options.log_id {
        return id;
    }
    LogId::random()
}

/// How the log is recovered.
fn plan(options: &Options) -> Plan {
    Plan {
        new_id: identity(options),
        block_bytes: options.block_bytes,
        segment_bytes: options.segment_bytes,
        read_bytes: 1 << 20,
        dsync: false,
        class: options.durability,
        create: options.create,
        disk_bytes_max: options.disk_bytes_max,
    }
}

impl Log {
    /// Opens the log in `dir`: takes the exclusive lock, finds out what is durable and makes the log ready.
    ///
    /// # Errors
    /// [`Error::Locked`] if another writer holds it, [`Error::Corrupt`] if acknowledged data is damaged,
    /// [`Error::InvalidOption`], [`Error::NewerFormat`], [`Error::ForeignSegment`], [`Error::NotALog`] if there is none
    /// and none is to be made, [`Error::BlocksTooSmall`] for this disk, [`Error::DiskFull`], [`Error::DiskCap`],
    /// [`Error::Io`].
    #[expect(clippy::needless_pass_by_value, reason = "one set of options opens one log")]
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        options.check()?;
        let dir = dir.as_ref();
        let _span = tracing::info_span!("open", dir = %dir.display()).entered();
        make_dir(dir, &options)?;
        let held = open_dir(dir)?;
        refuse_network(&held, &options)?;
        let lock = Lock::take(&held, &options)?;
        let mut disk = OsDisk::new(Arc::clone(&held), options.permissions);
        #[cfg(feature = "simulation")]
        if options.cached_reads {
            disk.access = seawall_sys::store::Access::Cached;
        }
        let plan = plan(&options);
        // Before any file is made, so that a refusal leaves nothing behind.
        let permitted = permit(dir, &options)?;
        let mut left = look_for_memory(&held)?;
        let bind = |log_id, epoch| {
            if let Some(left) = &mut left {
                left.bind(log_id, epoch);
            }
        };
        let recovered =
            tracing::debug_span!("recover").in_scope(|| recovery::recover_with(&mut disk, &plan, bind));
        let recovered = recovered.map_err(|error| error.in_dir(dir));
        let recovered = recovered.map_err(|error| explain(error, dir, Some(options.block_bytes)))?;
        let config =
            recovery::config(&recovered, options.batch_bytes, options.memory_bytes, options.in_flight_max);
        let buffers = Core::take_buffers(&config);
        let buffers = buffers.map_err(|source| Error::io("get memory for", dir, source))?;
        let Selected { works, origin, rows, refused, evidence } =
            permitted.select(&held, &options, recovered.block_bytes, &buffers)?;
        let core = Core::with(config, recovered.resume.clone(), buffers);
        let method = works.method();
        #[cfg_attr(not(feature = "simulation"), expect(unused_mut, reason = "only tests change it"))]
        let mut writers =
            SegmentWriters::new(Arc::clone(&held), works, rows, options.in_flight_max, options.batch_bytes);
        #[cfg(feature = "simulation")]
        {
            writers.faults.clone_from(&options.faults);
            disk.faults.clone_from(&options.faults);
        }
        let place = recovered.resume.place;
        writers.open(place.segment, (place.offset, place.data_end + u64::from(recovered.block_bytes)))?;
        for spare in &recovered.resume.spares {
            writers.open(spare.number, (0, spare.bytes))?;
        }
        let memory = CrashMemory::new(memory_plan(&held, &config, &options));
        let group = Arc::new(start(config, core, &recovered, writers, &options).with_memory(memory));
        group.show_evidence(&evidence);
        let shared = lock.share((config.log_id, recovered.epoch), (recovered.resume.end, place.segment));
        let channel_refused = match shared {
            Ok(publisher) => {
                group.publish_to(publisher);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        let opened = Opened {
            tail: recovered.tail,
            first: recovered.resume.trim,
            end: recovered.resume.end,
            segments: recovered.segments.len(),
            epoch: recovered.epoch,
            method: method.id,
            method_origin: origin,
            engine: method.engine().name(),
            engine_refused: refused,
            evidence,
            channel_refused,
            foreign_files: recovered.foreign_files.clone(),
            left_in_memory: LeftInMemory::Nothing,
        };
        let pins = Pins::new(group.core().pins().clone());
        if let Err(error) = pins.look(&held) {
            tracing::warn!(%error, "nothing is trimmed");
        }
        let mut log = Self {
            group,
            dir: Arc::clone(&held),
            record_bytes_max: options.record_bytes_max,
            opened,
            resources: Mutex::new(Some(Resources { threads: Vec::new(), lock })),
            staged_memory: Mutex::default(),
            pins,
            index: Arc::default(),
            starts_rewriter: Mutex::default(),
            follow_thread: Arc::default(),
            handed_over: HandedOver::default(),
            closing: Arc::default(),
            held_trims: Mutex::new((OsDisk::new(Arc::clone(&held), options.permissions), 0)),
        };
        log.spawn(disk, &options)?;
        if let Some(left) = left {
            log.take_over(left)?;
        }
        if log.group.core().tagged().streams_from != 0 {
            log.start_rewriter()?;
        }
        tracing::info!(dir = %dir.display(), opened = ?log.opened, "opened");
        Ok(log)
    }

    /// Takes what commits that are to outlive the process only left in memory, and makes it durable before anything is served.
    fn take_over(&mut self, mut left: Left<CrashMapping>) -> Result<()> {
        let append = |records: &[u8], count| {
            let mut records = records.to_vec();
            self.accept_encoded(&mut records, (count, Numbering::Kept), &[])
        };
        let end = self.group.core().appended();
        self.group.core().set_taking_over(true);
        // In full, in a log of any class, as everything that an opening serves.
        let taken = left.take_over(end, append, |end| self.group.commit(end, AckLevel::Full))?;
        let mut core = self.group.core();
        core.set_taking_over(false);
        // Readers of this opening see no cut that is not published.
        if planted!(MemoryCutsUnseen, false, !core.tagged().cuts.is_empty()) {
            self.group.publish_cuts(&core);
        }
        drop(core);
        let removed = self.dir.remove(MEMORY_FILE);
        removed.map_err(|source| Error::io("remove", self.dir.path().join(MEMORY_FILE), source))?;
        (self.opened.left_in_memory, self.opened.end) = (taken, self.group.durable());
        self.opened.segments = self.group.housekeeping().inventory().segments().len();
        Ok(())
    }

    fn spawn(&self, mut disk: OsDisk, options: &Options) -> Result<()> {
        let failed = |source| Error::io("start a thread for", self.dir.path(), source);
        let keep = |thread| self.keep(thread);
        let shared = || (Arc::clone(&self.group), Arc::clone(&self.closing), Arc::clone(&self.handed_over));
        let (group, closing, handed_over) = shared();
        let idle = options.idle_mark;
        let writer = std::thread::Builder::new().name("seawall-writer".to_owned());
        let run = move || writer_thread::run(&group, idle, &closing, &handed_over);
        self.group.threads().set_writer(keep(writer.spawn(run).map_err(failed)?));
        let (group, closing, handed_over) = shared();
        let maintenance = std::thread::Builder::new().name("seawall-segment".to_owned());
        let full = options.on_full;
        let mut retained = Retained {
            rules: options.retention,
            group: Arc::clone(&self.group),
            dir: Arc::clone(&self.dir),
            pins: self.pins.clone(),
            index: Arc::clone(&self.index),
            oldest: None,
            newest_us: BTreeMap::new(),
            now: Now::default(),
        };
        let run = move || {
            maintenance_thread::run(&group, &mut disk, (|| retained.trim(), full));
            drop(retained);
            drop(disk);
            ending::finish_handed_over(&group, &handed_over, &closing);
        };
        let maintenance = keep(maintenance.spawn(run).map_err(failed)?);
        self.pins.wakes(maintenance.clone());
        self.group.threads().set_maintenance(maintenance);
        if let Some(threshold) = options.stall_threshold {
            let (group, on_stall) = (Arc::clone(&self.group), options.on_stall.clone());
            let watch = std::thread::Builder::new().name("seawall-watch".to_owned());
            let run = move || stall_watch::watch(&group, threshold, on_stall.as_ref());
            self.group.stalls().set_watcher(keep(watch.spawn(run).map_err(failed)?));
        }
        Ok(())
    }

    /// Has the end of the log wait for a thread; returns its handle.
    fn keep(&self, thread: JoinHandle<()>) -> Thread {
        let handle = thread.thread().clone();
        if let Some(held) = &mut *lock(&self.resources) {
            held.threads.push(thread);
        }
        handle
    }

    /// What opening found.
    #[must_use]
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The directory of the log: its absolute path when the log was opened. The log holds the directory itself, and goes
    /// on in it wherever it is moved and whatever the process's working directory is (on Windows: as long as it is there).
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn check_length(&self, bytes: usize) -> Result<()> {
        if bytes > self.record_bytes_max { Err(self.too_long(bytes)) } else { Ok(()) }
    }

    fn too_long(&self, bytes: usize) -> Error {
        Error::TooLong { bytes: bytes as u64, bytes_max: self.record_bytes_max as u64 }
    }

    /// Copies a record into memory and gives it its place. It is not durable yet: see [`Log::commit`]. Waits only
    /// when the memory is full or no prepared segment is left.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::DiskFull`] and [`Error::DiskCap`] (nothing was written and the log stays open),
    /// [`Error::Failed`], [`Error::Closed`], [`Error::Forked`].
    #[inline]
    pub fn append(&self, record: &[u8]) -> Result<Lsn> {
        self.accept_record::<true>(record).map(|(lsn, _)| lsn)
    }

    /// As [`Log::append`], and returns where the record begins, which [`Log::read_at`] takes, and where it ends, exclusive.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_range(&self, record: &[u8]) -> Result<Range<Lsn>> {
        let end = self.append(record)?;
        // It lies in one piece, with its header in front.
        let begin = Lsn::new(end.get() - (RECORD_HEADER_BYTES + record.len()) as u64);
        Ok(begin..end)
    }

    /// As [`Log::append`], but returns [`Error::WouldBlock`] where that would wait: nothing was accepted, and what is lacking
    /// has been requested, so that a later call finds it. A task of an async executor appends with this and, when it is
    /// refused, awaits the [`CommitFuture`] of what it has appended so far, or comes back later.
    ///
    /// It takes the log's short internal lock, as `append` does, and never waits for the disk.
    ///
    /// # Errors
    /// As [`Log::append`], and [`Error::WouldBlock`] when the memory is full or no prepared segment has room.
    pub fn append_no_wait(&self, record: &[u8]) -> Result<Lsn> {
        let tried = self.try_in_line(record);
        if tried.is_err() && self.is_large(record) {
            self.pass_on_memory();
        }
        tried
    }

    /// As [`Log::append_no_wait`], but returns [`Error::WouldBlock`] also where another thread is in the log just now, and for a record
    /// that fills a batch of its own; what is lacking is not requested. It copies the record and waits for nothing, a lock
    /// included; the only system call that it may make wakes a thread. For callers that hold up others while they are in
    /// here, such as a critical call of a virtual machine: on `WouldBlock` they leave that state and call [`Log::append`].
    ///
    /// # Errors
    /// As [`Log::append_no_wait`].
    #[inline]
    pub fn try_append(&self, record: &[u8]) -> Result<Lsn> {
        self.check_length(record.len())?;
        if self.is_large(record) {
            return Err(Error::WouldBlock);
        }
        self.group.accept_unless_busy(|core| core.append(record))
    }

    /// The memory that a large record held in vain may have been refused to the first future in line.
    fn pass_on_memory(&self) {
        self.group.waiters().appends().wake_up_to(0);
    }

    /// As [`Log::append_no_wait`], for a future that is in line itself.
    pub(crate) fn try_in_line(&self, record: &[u8]) -> Result<Lsn> {
        self.accept_record::<false>(record).map(|(lsn, _)| lsn)
    }

    /// Whether the record fills a batch of its own.
    #[inline]
    pub(crate) fn is_large(&self, record: &[u8]) -> bool {
        Core::is_large(self.group.config(), BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + record.len())
    }

    /// As [`Log::append`], as a future: it appends the record as soon as there is memory and a segment for it, and blocks no
    /// thread until then. Needs no runtime. Futures that wait are served in the order in which they came, as long as they
    /// are polled; callers of [`Log::append`] do not stand in that line.
    ///
    /// Dropping the future before it is ready is safe: nothing of the record was appended, and another one takes its turn.
    /// Like `append` it takes the log's short internal lock and copies the record, in the poll that returns its LSN.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_async<'a>(&'a self, record: &'a [u8]) -> AppendFuture<'a> {
        AppendFuture::new(self, record)
    }

    #[inline]
    fn accept_record<const WAIT: bool>(&self, record: &[u8]) -> Result<(Lsn, MutexGuard<'_, Core>)> {
        self.check_length(record.len())?;
        if self.is_large(record) {
            let head = record_header(record.len(), false).ok_or_else(|| self.too_long(record.len()))?;
            return self.accept_large::<WAIT>([&head, record], (1, Numbering::Untagged));
        }
        self.group.accept_or::<WAIT>(|core| core.append(record))
    }

    fn accept_large<const WAIT: bool>(
        &self,
        parts: [&[u8]; 2],
        count: (u32, Numbering),
    ) -> Result<(Lsn, MutexGuard<'_, Core>)> {
        let lsn = accept_large::<WAIT>(&self.group, parts, |core, large| {
            core.adopt(large.buf, large.used, count, large.sum)
        })?;
        Ok((lsn, self.group.core()))
    }

    pub(crate) fn append_to_stream_unless_busy(
        &self,
        stream: StreamId,
        record: &[u8],
    ) -> Result<StreamAppend> {
        self.check_length(record.len())?;
        let used = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + TAG_BYTES + record.len();
        if Core::is_large(self.group.config(), used) || !self.group.threads().has_rewriter() {
            return Err(Error::WouldBlock);
        }
        let (end, seq) = self.group.accept_unless_busy(|core| core.append_to(stream, record))?;
        Ok(StreamAppend { seq, end })
    }

    pub(crate) fn append_to_stream<const WAIT: bool>(
        &self,
        stream: StreamId,
        record: &[u8],
    ) -> Result<StreamAppend> {
        self.check_length(record.len())?;
        self.start_rewriter()?;
        let used = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + TAG_BYTES + record.len();
        if !Core::is_large(self.group.config(), used) {
            let mut seq = 0;
            let accepted = self.group.accept_or::<WAIT>(|core| {
                let (end, number) = core.append_to(stream, record)?;
                seq = number;
                Ok(end)
            });
            return accepted.map(|(end, _)| StreamAppend { seq, end });
        }
        let tag = Tag { kind: TagKind::Data, stream: stream.get(), number: 0 };
        let head = tagged_header(record.len(), false, &tag).ok_or_else(|| self.too_long(record.len()))?;
        let mut seq = 0;
        let end = accept_large::<WAIT>(&self.group, [&head, record], |core, large| {
            seq = core.tagged().streams.next_number(stream);
            core.adopt(large.buf, large.used, (1, Numbering::Next), large.sum)
        });
        if !WAIT && end.is_err() {
            self.pass_on_memory();
        }
        end.map(|end| StreamAppend { seq, end })
    }

    /// Returns when everything before `lsn` is durable: [`Log::durable_lsn`] covers it, and readers, followers and views of every process
    /// show it. Those read segments, so a log that was opened for [`ProcessCrash`](crate::Durability::ProcessCrash) writes for each such
    /// commit, without a sync. Where nobody is to read the records at once, [`Log::commit_as`] of that class is the faster commit: it
    /// copies them into memory, in a log of any class.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] if nothing was appended there, [`Error::Failed`] if a write or sync failed.
    pub fn commit(&self, lsn: Lsn) -> Result<()> {
        self.group.commit(lsn, self.group.config().own())
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
    pub fn commit_as(&self, lsn: Lsn, class: Class) -> Result<()> {
        if self.group.outlives(lsn, class)? {
            return Ok(());
        }
        self.group.commit(lsn, self.group.level(class)?)
    }

    /// As [`Log::commit`], but waits for at most `timeout`. The caller never writes the batch itself, because nothing could
    /// interrupt it in the system call: a thread of the log does. That costs a hand-over between threads, which a commit without
    /// a deadline saves.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when the time is over: what was appended may still become durable, see there. Otherwise as
    /// [`Log::commit`].
    pub fn commit_timeout(&self, lsn: Lsn, timeout: Duration) -> Result<()> {
        self.commit_async(lsn).wait_timeout(timeout).map(|_| ())
    }

    /// Appends a record and returns when it is durable.
    ///
    /// # Errors
    /// As [`Log::append`] and [`Log::commit`].
    pub fn append_commit(&self, record: &[u8]) -> Result<Lsn> {
        let (lsn, core) = self.accept_record::<true>(record)?;
        self.group.commit_and_wait(core, lsn, self.group.config().own())?;
        Ok(lsn)
    }

    /// Appends the records that `work` appends, and trims, cuts and removes streams as it says, all or nothing of it; not durable yet:
    /// [`Log::commit`] the LSN that it returns, the end of the last record. After a crash either all is there or none.
    ///
    /// # Errors
    /// What `work` returned, in which case nothing was appended; otherwise as [`Log::append`], and as [`Transaction::trim`] and
    /// [`Transaction::truncate`] say.
    pub fn transaction<E: From<Error>>(
        &self,
        work: impl FnOnce(&mut Transaction) -> std::result::Result<(), E>,
    ) -> std::result::Result<Lsn, E> {
        self.group.status().check_process()?;
        let staged = lock(&self.staged_memory).pop().unwrap_or_default();
        let lent = self.group.core().lend();
        let transaction = Transaction::new(staged, lent, self.record_bytes_max);
        let mut open = OpenTransaction { log: self, transaction };
        work(&mut open.transaction)?;
        if open.transaction.numbering() != Numbering::Untagged {
            self.start_rewriter()?;
        }
        Ok(self.accept_transaction(&mut open.transaction)?)
    }

    /// Appends a transaction whose records are complete.
    fn accept_transaction(&self, open: &mut Transaction) -> Result<Lsn> {
        if open.is_empty() {
            return Ok(self.group.core().appended());
        }
        // Others append meanwhile: what can be done before the core is locked is done here.
        let (count, numbering, changes) = (open.len(), open.numbering(), open.take_changes());
        let accepted = match open.finish() {
            Finished::InBuffer { buf, used, sum } => self.group.accept(|core| {
                let accepted = core.adopt(buf, used, (count, numbering), sum);
                accepted.inspect(|_| self.group.note_stream_changes(&changes))
            }),
            Finished::Apart(records) => return self.accept_encoded(records, (count, numbering), &changes),
        };
        accepted.map(|(lsn, _)| lsn)
    }

    /// Appends a transaction of encoded records, which changes streams so.
    fn accept_encoded(&self, records: &mut [u8], count: (u32, Numbering), changes: &[Tag]) -> Result<Lsn> {
        let noted = |accepted: std::result::Result<Lsn, Refusal>| {
            accepted.inspect(|_| self.group.note_stream_changes(changes))
        };
        if Core::is_large(self.group.config(), BATCH_HEADER_BYTES + records.len()) {
            return accept_large::<true>(&self.group, [&[], records], |core, large| {
                noted(core.adopt(large.buf, large.used, count, large.sum))
            });
        }
        let accepted = self.group.accept(|core| noted(core.append_encoded(records, count.0, count.1)));
        accepted.map(|(lsn, _)| lsn)
    }

    /// A future that is ready when everything before `lsn` is durable. Needs no runtime; the write is in flight or
    /// will be, whether the future is polled or not. Dropping the future at any point is safe: no other one loses its
    /// wake-up, and the records become durable all the same.
    pub fn commit_async(&self, lsn: Lsn) -> CommitFuture {
        CommitFuture::request(&self.group, lsn, self.group.config().own())
    }

    /// Wakes `waker` for as long as the log is open whenever more may be durable, at least once for each group of commits, and
    /// when the log fails or is closed: for an event loop that waits for all of it by one registration. It is woken by a thread that
    /// must not wait. A log has one such waker; returns `false`, and changes nothing, if it has it already.
    pub fn watch(&self, waker: Waker) -> bool {
        self.group.waiters().watch(waker)
    }

    /// As [`Log::commit_async`], for what is to outlive `class` only: see [`Log::commit_as`].
    ///
    /// # Errors
    /// [`Error::BeyondPromise`] if `class` is more than the log was opened to promise.
    pub fn commit_async_as(&self, lsn: Lsn, class: Class) -> Result<CommitFuture> {
        // Why a log that has ended serves nothing, the future returns.
        let level = self.group.level(class)?;
        let outlives = self.group.outlives(lsn, class).unwrap_or(false);
        Ok(if outlives {
            CommitFuture::done(&self.group, lsn, level)
        } else {
            CommitFuture::request(&self.group, lsn, level)
        })
    }

    /// Reads durable records from the first one at or behind `from`; also while the log is written to.
    ///
    /// Sequential readers prefetch the next piece on a thread of their own, and bypass the page cache for uncached parts
    /// (Linux). So reading an old log evicts nothing from the cache, and reading it twice reads the disk twice.
    ///
    /// # Errors
    /// [`Error::Trimmed`], [`Error::BeyondEnd`], [`Error::Corrupt`], [`Error::Io`], and [`Error::Closed`] after
    /// [`Log::close_async`].
    pub fn read(&self, from: Lsn) -> Result<Reader> {
        self.group.status().check_readable()?;
        Reader::new(Arc::clone(&self.group), Arc::clone(&self.dir), from)
    }

    /// Reads the durable record that starts at `lsn`: where the record before it ended, which is what its append returned.
    ///
    /// The first read in a segment walks through it once, and what became durable since is added as it is needed; then a
    /// record is read with the blocks that it lies in, each checked. That index takes 0.44 % of what it covers (in batches
    /// of one block of 4 KiB) and at most 128 MiB and 384 descriptors for a log; what was used least goes first.
    ///
    /// # Errors
    /// [`Error::NoRecord`] if none starts there, [`Error::Trimmed`], [`Error::BeyondEnd`] if it is not durable,
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn read_at(&self, lsn: Lsn) -> Result<Record> {
        self.group.status().check_readable()?;
        let read = self.index.read(&self.group, &self.dir, Wanted::StartsAt(lsn))?;
        if read.is_shown(self.group.cuts().as_deref()) {
            Ok(read.record)
        } else {
            Err(Error::NoRecord { lsn })
        }
    }

    /// Reads the durable record that ends at `end`, `None` at the first LSN that is left; so, one after the other, the log
    /// backwards. Costs as much as [`Log::read_at`].
    ///
    /// # Errors
    /// As [`Log::read_at`].
    pub fn read_before(&self, end: Lsn) -> Result<Option<Record>> {
        self.group.status().check_readable()?;
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

    /// The LSN of the first record that was appended at or after `time`, by the clock of the machine then, in steps of a
    /// batch; [`Log::durable_lsn`] if there is none. A clock that was set back counts as one that stood still, and batches of
    /// unknown time count as the oldest.
    ///
    /// # Errors
    /// [`Error::Trimmed`] if the log was trimmed meanwhile, [`Error::Corrupt`], [`Error::Io`], [`Error::Closed`].
    pub fn lsn_at(&self, time: SystemTime) -> Result<Lsn> {
        self.group.status().check_readable()?;
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        lsn_at(&self.group, &self.dir, u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    /// One stream of the log: an ordered sequence of records with its own reader, follower, trim and tail. All streams
    /// share the log's writer, its segments and its flushes; a transaction may append to several
    /// ([`Transaction::append_to`]). A stream is there as soon as a record is appended to it.
    ///
    /// [`Log::trim`] and [`Log::truncate_after`] concern the records that belong to no stream; those of streams go with
    /// [`Stream::trim`], [`Stream::truncate`] and [`Stream::remove`]. A segment goes when neither needs it.
    #[must_use]
    pub fn stream(&self, id: StreamId) -> Stream<'_> {
        Stream::new(self, id)
    }

    /// The streams that the log has, in order of their numbers.
    #[must_use]
    pub fn streams(&self) -> Vec<StreamId> {
        let mut ids: Vec<_> = self.group.core().tagged().streams.ids().collect();
        ids.sort();
        ids
    }

    /// Cuts off the tail: every record that belongs to no stream and starts at or behind `lsn`. What is appended
    /// afterwards follows at the end: LSNs are not used twice, and a reader steps over what is cut. Takes effect at once for
    /// this process; durable when everything before the returned LSN is, so that a crash before that may bring the records back.
    ///
    /// A reader or follower that has handed out records which are cut off afterwards does not take them back. A cut
    /// inside a transaction leaves its first records. At the cap of the disk ([`Options::disk_bytes_max`]) it waits or is
    /// refused as an append is.
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

    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// What readers share with the log.
    pub(crate) fn shared(&self) -> (Arc<Group>, Arc<Directory>, Arc<RecordIndex>) {
        (Arc::clone(&self.group), Arc::clone(&self.dir), Arc::clone(&self.index))
    }

    /// Makes durable, in a file of its own, what a log at its cap has no block for: trims of streams that let no segment go.
    pub(crate) fn note_held(&self) -> Result<()> {
        let mut noted = lock(&self.held_trims);
        let core = self.group.core();
        let (changes, at) = (core.tagged().streams.held_changes(), core.appended());
        let held = HeldTrims { at, tags: core.tagged().streams.held(None) };
        drop(core);
        if changes == noted.1 || held.tags.is_empty() {
            return Ok(());
        }
        self.group.commit(at, self.group.config().own())?;
        let written = held_trims::write(&mut noted.0, self.group.config().log_id, &held);
        written.map_err(|error| error.in_dir(self.dir.path()))?;
        noted.1 = changes;
        Ok(())
    }

    /// Starts the thread that rewrites what streams need, once; where that fails, a later call tries again.
    fn start_rewriter(&self) -> Result<()> {
        let threads = self.group.threads();
        if threads.has_rewriter() {
            return Ok(());
        }
        let _starts = lock(&self.starts_rewriter);
        if threads.has_rewriter() {
            return Ok(());
        }
        let failed = |source| Error::io("start a thread for", self.dir.path(), source);
        #[cfg(feature = "simulation")]
        if let Some(faults) = &self.group.writers().faults {
            faults.spawn().map_err(failed)?;
        }
        let (group, dir, index) = self.shared();
        let rewriter = Rewriter { group, dir, index };
        let thread = std::thread::Builder::new().name("seawall-rewrite".to_owned());
        let thread = self.keep(thread.spawn(move || rewriter.run()).map_err(failed)?);
        #[cfg(feature = "simulation")]
        if let Some(faults) = &self.group.writers().faults {
            faults.spawned();
        }
        threads.set_rewriter(thread);
        // A log that ends meanwhile found no thread to wake, and that may have looked before and sleep.
        threads.wake_rewriter();
        Ok(())
    }

    /// As [`Log::read`], but waits for more at the end: a thread does, or a task that polls. Finding the first record reads
    /// the disk, here as in `read`: of the segment that `from` lies in, the headers of the batches before it.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn follow(&self, from: Lsn) -> Result<Follower> {
        let reader = self.read(from)?;
        Ok(Follower::new(reader, Arc::clone(&self.follow_thread), from))
    }

    /// Holds everything from `lsn` on, which must not be trimmed yet, until the pin is dropped: for a reader that is slow, or
    /// that comes back later. [`Log::trim`] goes no further than the lowest pin, which [`Stats::pinned`] shows. A pin lives in
    /// this process alone, and holds nothing once the log is closed.
    ///
    /// # Errors
    /// [`Error::Trimmed`], [`Error::BeyondEnd`] past the end of what was appended, [`Error::Forked`].
    pub fn pin(&self, lsn: Lsn) -> Result<ReadPin> {
        self.group.status().check_process()?;
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
    /// In a log with streams it goes no further than the first segment that a stream needs, and on by itself when that is needed
    /// no more; what it could not trim is not remembered when the log is opened again.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] past the end of what was appended, [`Error::Failed`], [`Error::Closed`], and [`Error::Io`] where the holds
    /// in the directory cannot be read, as without a free descriptor: nothing is trimmed then.
    pub fn trim(&self, lsn: Lsn) -> Result<Lsn> {
        let _span = tracing::debug_span!("trim", %lsn).entered();
        self.group.status().check_process()?;
        if let Some(failed) = self.group.status().failed() {
            return Err(failed);
        }
        if self.group.status().is_closed() {
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
        self.group.status().check_readable()?;
        backup_of(&self.dir, to.as_ref(), &|| self.durable_lsn())
    }

    /// The end of what is durable.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.group.durable()
    }

    /// Where [`Log::durable_lsn`] is kept: a word that only grows, to be read by an atomic load with acquire ordering. It is
    /// there as long as this log, its readers, followers and commits are, and is for callers in other languages, which spare
    /// themselves the call; nothing may be stored there.
    #[cfg(not(loom))]
    #[doc(hidden)]
    #[must_use]
    pub fn durable_word(&self) -> *const u64 {
        self.group.waiters().durable_word()
    }

    /// The end of what outlives `class`: never before [`Log::durable_lsn`], and past it after [`Log::commit_as`]. For a
    /// class above what the log promises there is no such end, and [`Log::durable_lsn`] is returned.
    #[must_use]
    pub fn safe_lsn(&self, class: Class) -> Lsn {
        // What lies in crash memory has reached the lowest level only.
        if class == Class::ProcessCrash {
            return self.group.waiters().reached(AckLevel::Process);
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

    /// Whether the next segment is prepared, so that the next rotation will not have to wait.
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

    /// Commits everything, writes the close mark and releases the log, also if a process that was forked off lives on.
    ///
    /// # Errors
    /// [`Error::Failed`] if something could not be made durable, [`Error::Forked`], and [`Error::Closed`] after
    /// [`Log::close_async`], whose future says when that is done.
    pub fn close(self) -> Result<()> {
        let _span = tracing::info_span!("close", dir = %self.dir.path().display()).entered();
        self.group.status().check_process()?;
        if self.group.status().is_closed() {
            return Err(Error::Closed);
        }
        self.group.status().close();
        let sealed = match self.group.status().failed() {
            Some(failed) => Err(failed),
            None => self.group.close_log(),
        };
        self.stop();
        sealed
    }

    /// As [`Log::close`], done by the threads of the log and awaited as a future, through any handle of the log. Needs no
    /// runtime.
    ///
    /// It begins with this call, whether the future is polled or dropped: from now on appends are refused with
    /// [`Error::Closed`], those that wait included, and so is reading once the lock is released; commits of what was
    /// appended are served; followers end. The process must live until the future is ready, otherwise the log is left as by
    /// a crash. The first call closes the log, and every future of it ends with the same result.
    ///
    /// # Errors
    /// The future returns [`Error::Failed`] if something could not be made durable, [`Error::Forked`].
    pub fn close_async(&self) -> CloseFuture {
        let status = self.group.status();
        let resources = if status.is_owner_process() { lock(&self.resources).take() } else { None };
        if let Some(resources) = resources {
            tracing::debug!(dir = %self.dir.path().display(), "closing");
            self.closing.order(&self.group, resources);
        }
        CloseFuture::new(&self.group, &self.closing)
    }

    fn stop(&self) {
        if !self.group.status().is_owner_process() {
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

/// A transaction under assembly. However that ends, also by a panic, its memory goes back to the log.
struct OpenTransaction<'a> {
    log: &'a Log,
    transaction: Transaction,
}

impl Drop for OpenTransaction<'_> {
    fn drop(&mut self) {
        let (mut staged, bufs) = self.transaction.take_memory();
        for buf in bufs.into_iter().flatten() {
            self.log.group.core().give_back(buf);
        }
        staged.clear();
        if staged.capacity() <= 4 << 20 {
            lock(&self.log.staged_memory).push(staged);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Records that fill a batch of their own, in its buffer.
pub(crate) struct Large<'a> {
    /// The buffer; what is left in it goes back.
    pub(crate) buf: &'a mut Option<AlignedBuf>,
    /// Bytes used, header room included.
    pub(crate) used: usize,
    /// The checksum of the records.
    pub(crate) sum: u32,
}

/// Has `adopt` accept records that fill a batch of their own. They are copied and added to the checksum before the core is
/// locked, because every other append would wait for that.
pub(crate) fn accept_large<const WAIT: bool>(
    group: &Group,
    parts: [&[u8]; 2],
    mut adopt: impl FnMut(&mut Core, Large<'_>) -> std::result::Result<Lsn, Refusal>,
) -> Result<Lsn> {
    let used = BATCH_HEADER_BYTES + parts[0].len() + parts[1].len();
    let capacity = used.next_multiple_of(group.config().block_bytes.into());
    drop(group.accept_or::<WAIT>(|core| core.admit_large(capacity))?);
    let mut buf = AlignedBuf::zeroed(capacity);
    let (head, body) = buf.bytes_mut()[BATCH_HEADER_BYTES..used].split_at_mut(parts[0].len());
    head.copy_from_slice(parts[0]);
    body.copy_from_slice(parts[1]);
    let sum = crc32c(&buf.bytes()[BATCH_HEADER_BYTES..used]);
    #[cfg(feature = "simulation")]
    if let Some(faults) = &group.writers().faults {
        faults.copied();
    }
    let mut buf = Some(buf);
    let accepted = group.accept_or::<WAIT>(|core| adopt(core, Large { buf: &mut buf, used, sum }));
    // An append that waits for this memory could request nothing before: only now the batch can be written. A waker may
    // append itself, so the core is released for it.
    let lsn = accepted.map(|(lsn, core)| {
        drop(core);
        lsn
    });
    if let Some(unused) = buf {
        group.core().give_back(unused);
    }
    let waiters = group.waiters();
    if WAIT || lsn.is_ok() {
        waiters.room_for_appends(group.config().batch_bytes);
    } else {
        // It may be in line itself: see `AppendQueue::poll`.
        waiters.append_gate().open();
    }
    lsn
}

/// The memory that an earlier opening left in the directory. A foreign file of that name is no such memory.
fn look_for_memory(dir: &Directory) -> Result<Option<Left<CrashMapping>>> {
    let found = match CrashMapping::open_in(dir, MEMORY_FILE) {
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => None,
        found => found.map_err(|source| Error::io("map", dir.path().join(MEMORY_FILE), source))?,
    };
    Ok(found.filter(is_own).map(|memory| Left::look(memory, boot_id().ok())))
}

/// The memory of a log that may have it, or why it has none.
fn memory_plan(
    dir: &Arc<Directory>,
    config: &CoreConfig,
    options: &Options,
) -> std::result::Result<MemoryPlan, &'static str> {
    if options.crash_memory_bytes == 0 {
        return Err("Options::crash_memory_bytes turned it off");
    }
    if options.network_file_system && !matches!(dir.network_file_system(), Ok(None)) {
        return Err("the log lies on a network file system");
    }
    Ok(MemoryPlan {
        dir: Arc::clone(dir),
        permissions: options.permissions,
        bytes: options.crash_memory_bytes,
        log_id: config.log_id,
        epoch: config.epoch,
    })
}

fn start(
    config: CoreConfig,
    mut core: Core,
    recovered: &Recovered,
    writers: SegmentWriters,
    options: &Options,
) -> Group {
    let headers = recovered.segments.iter().copied();
    let spares = options.spares..=options.spares + KEPT_MAX;
    let inventory = SegmentInventory::new(headers, recovered.next_number, options.segment_bytes, spares)
        .capped(&recovered.resume.spares, options.disk_bytes_max);
    core.set_rooms(inventory.cap().rooms());
    #[cfg_attr(not(feature = "simulation"), expect(unused_mut, reason = "only tests change it"))]
    let mut chain = recovered.chain;
    #[cfg(feature = "simulation")]
    if options.log_id.is_some() {
        // A log whose identity a test chose has the same bytes whenever it is written.
        chain.at(1 << 62);
    }
    let bounded = options.disk_bytes_max.is_some() || options.retention.is_set();
    Group::new(config, core, chain, writers, inventory).watched(options.stall_threshold).bounded(bounded)
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
        let free = || log.group.core().free_buffers().len();
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
