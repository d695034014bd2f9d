//! The log's public interface: open, append, commit, read, follow, trim and close.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Once};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use seawall_sys::directory::Directory;
use seawall_sys::durability::Class;
use seawall_sys::shared_memory::{SharedMemory, boot_id};

use crate::commit::ending::{self, HandedOver, Resources};
use crate::commit::group::Group;
use crate::commit::process_crash::{CrashMemory, MemoryPlan};
use crate::commit::segment_writers::SegmentWriters;
use crate::commit::state::{Core, CoreConfig};
use crate::commit::stats::Stats;
use crate::commit::sync::{Mutex, MutexGuard, lock};
use crate::commit::transaction::{Finished, Transaction};
use crate::commit::{maintenance_thread, writer_thread};
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
use crate::method::select::{Selected, permit};
use crate::options::Options;
use crate::read::index::{RecordIndex, Wanted};
use crate::read::pin::{Pins, ReadPin};
use crate::read::reader::{Follower, Reader, Record, check_within};
use crate::read::rewrite::Rewriter;
use crate::read::stream::{Stream, StreamAppend};
use crate::recovery::sector_size::explain;
use crate::recovery::tail::Tail;
use crate::recovery::{self, Plan, Recovered};
use crate::repair::backup::{Backup, backup_of};
use crate::segment::inventory::SegmentInventory;
use crate::storage::os_disk::OsDisk;
use crate::stream::StreamId;
use crate::stream::state::Numbering;

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
    /// The engine that runs it.
    pub engine: &'static str,
    /// Why another engine was refused, if one was and the portable one took over.
    pub engine_refused: Option<String>,
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
/// locked a moment longer. Nothing acknowledged is lost either way.
///
/// # fork(2)
///
/// A process that is forked off must not use the log: appending, committing, trimming, reading and closing fail there with
/// [`Error::Forked`], and dropping it does nothing. The parent is not affected, and what it closes can
/// be opened again while the child lives. Started programs (`std::process::Command`) inherit nothing. A child made by
/// clone(2) alone, without the C library, is not noticed: it must not touch the log at all.
pub struct Log {
    group: Arc<Group>,
    dir: Arc<Directory>,
    record_bytes_max: usize,
    opened: Opened,
    threads: Mutex<Vec<JoinHandle<()>>>,
    staged_memory: Mutex<Vec<Vec<u8>>>,
    pins: Pins,
    /// Where single records are.
    index: Arc<RecordIndex>,
    /// Whether the thread that rewrites what streams need was started.
    rewrites: Once,
    /// Held as long as the log is open.
    lock: Arc<Lock>,
    /// What the maintenance thread releases where the thread that drops the log must not wait.
    handed_over: HandedOver,
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

/// An identity that no other log has, from the keys that the standard library gives each process.
fn new_id() -> LogId {
    use std::hash::{BuildHasher, RandomState};
    let mut id = [0; 16];
    for half in id.chunks_mut(8) {
        half.copy_from_slice(&RandomState::new().hash_one(seawall_sys::clock::monotonic_ns()).to_le_bytes());
    }
    LogId(id)
}

/// The identity of a new log.
#[cfg_attr(not(feature = "simulation"), expect(unused_variables, reason = "only tests set it"))]
fn identity(options: &Options) -> LogId {
    #[cfg(feature = "simulation")]
    if let Some(id) = options.log_id {
        return id;
    }
    new_id()
}

impl Log {
    /// Opens the log in `dir`: takes the exclusive lock, finds out what is durable and makes the log ready.
    ///
    /// # Errors
    /// [`Error::Locked`] if another writer holds it, [`Error::Corrupt`] if acknowledged data is damaged,
    /// [`Error::InvalidOption`], [`Error::NewerFormat`], [`Error::ForeignSegment`], [`Error::NotALog`] if there is none
    /// and none is to be made, [`Error::BlocksTooSmall`] for this disk, [`Error::DiskFull`], [`Error::Io`].
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
        let plan = Plan {
            new_id: identity(&options),
            block_bytes: options.block_bytes,
            segment_bytes: options.segment_bytes,
            read_bytes: 1 << 20,
            dsync: false,
            class: options.durability,
            create: options.create,
        };
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
        let core = Core::with(config, recovered.resume.clone(), buffers);
        let Selected { works, rows, refused } =
            permitted.select(&held, &options, recovered.block_bytes, &core.buffers())?;
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
        writers.open(place.segment, place.data_end + u64::from(recovered.block_bytes))?;
        for spare in &recovered.resume.spares {
            writers.open(spare.number, spare.bytes)?;
        }
        let opened = Opened {
            tail: recovered.tail,
            first: recovered.resume.trim,
            end: recovered.resume.end,
            segments: recovered.segments.len(),
            epoch: recovered.epoch,
            method: method.id,
            engine: method.engine().name(),
            engine_refused: refused,
            foreign_files: recovered.foreign_files.clone(),
            left_in_memory: LeftInMemory::Nothing,
        };
        let memory = CrashMemory::new(memory_plan(&held, &config, &options));
        let group = Arc::new(start(config, core, &recovered, writers, &options).with_memory(memory));
        let mut log = Self {
            group,
            dir: held,
            record_bytes_max: options.record_bytes_max,
            opened,
            threads: Mutex::default(),
            staged_memory: Mutex::default(),
            pins: Pins::default(),
            index: Arc::default(),
            rewrites: Once::new(),
            lock: Arc::new(lock),
            handed_over: HandedOver::default(),
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
    fn take_over(&mut self, mut left: Left<SharedMemory>) -> Result<()> {
        let append = |records: &[u8], count| {
            let mut records = records.to_vec();
            self.accept_encoded(&mut records, (count, Numbering::Kept))
        };
        let end = self.group.core().appended();
        self.group.core().set_taking_over(true);
        // In full, in a log of any class, as everything that an opening serves.
        let taken = left.take_over(end, append, |end| self.group.commit(end, AckLevel::Full))?;
        self.group.core().set_taking_over(false);
        let removed = self.dir.remove(MEMORY_FILE);
        removed.map_err(|source| Error::io("remove", self.dir.path().join(MEMORY_FILE), source))?;
        (self.opened.left_in_memory, self.opened.end) = (taken, self.group.durable());
        self.opened.segments = self.group.housekeeping().inventory().segments().len();
        Ok(())
    }

    fn spawn(&self, mut disk: OsDisk, options: &Options) -> Result<()> {
        let failed = |source| Error::io("start a thread for", self.dir.path(), source);
        let (group, idle) = (Arc::clone(&self.group), options.idle_mark);
        let writer = std::thread::Builder::new().name("seawall-writer".to_owned());
        let writer = writer.spawn(move || writer_thread::run(&group, idle)).map_err(failed)?;
        self.group.threads().set_writer(writer.thread().clone());
        lock(&self.threads).push(writer);
        let (group, handed_over) = (Arc::clone(&self.group), Arc::clone(&self.handed_over));
        let maintenance = std::thread::Builder::new().name("seawall-segment".to_owned());
        let run = move || {
            maintenance_thread::run(&group, &mut disk);
            drop(disk);
            ending::finish_handed_over(&group, &handed_over);
        };
        let maintenance = maintenance.spawn(run).map_err(failed)?;
        self.group.threads().set_maintenance(maintenance.thread().clone());
        lock(&self.threads).push(maintenance);
        Ok(())
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
    /// [`Error::TooLong`], [`Error::DiskFull`] (nothing was written and the log stays open), [`Error::Failed`],
    /// [`Error::Closed`].
    #[inline]
    pub fn append(&self, record: &[u8]) -> Result<Lsn> {
        self.accept_record::<true>(record).map(|(lsn, _)| lsn)
    }

    /// As [`Log::append`], but returns [`Error::WouldBlock`] where that would wait: nothing was accepted, and what is lacking
    /// has been requested, so that a later call finds it. A task of an async executor appends with this and, when it is
    /// refused, awaits the [`Commit`] of what it has appended so far, or comes back later.
    ///
    /// It takes the log's short internal lock, as `append` does, and never waits for the disk.
    ///
    /// # Errors
    /// As [`Log::append`], and [`Error::WouldBlock`] when the memory is full or no prepared segment has room.
    pub fn try_append(&self, record: &[u8]) -> Result<Lsn> {
        self.accept_record::<false>(record).map(|(lsn, _)| lsn)
    }

    #[inline]
    fn accept_record<const WAIT: bool>(&self, record: &[u8]) -> Result<(Lsn, MutexGuard<'_, Core>)> {
        self.check_length(record.len())?;
        if Core::is_large(self.group.config(), BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + record.len()) {
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
        accept_large::<WAIT>(&self.group, parts, count, |_| true)
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
        let (end, core) = self.accept_large::<WAIT>([&head, record], (1, Numbering::Next))?;
        let seq = core.tagged().streams.next_number(stream).saturating_sub(1);
        Ok(StreamAppend { seq, end })
    }

    /// Returns when everything before `lsn` is durable.
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
    /// On Linux, `ProcessCrash` in a log that promises more writes nothing: the records are copied into memory that outlives the
    /// process, and the next opening makes them durable; see [`Options::crash_memory_bytes`] and [`crate::guarantees`]. The
    /// first such commit makes that memory, which takes some milliseconds.
    ///
    /// # Errors
    /// As [`Log::commit`], and [`Error::BeyondPromise`] if `class` is more than the log was opened to promise.
    pub fn commit_as(&self, lsn: Lsn, class: Class) -> Result<()> {
        self.group.commit(lsn, self.group.serve(lsn, class)?)
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

    /// Appends the records that `work` appends, all or none of them: after a crash either all are there or none. Returns the end of the last one; not durable yet.
    ///
    /// # Errors
    /// What `work` returned, in which case nothing was appended; otherwise as [`Log::append`].
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
        Ok(self.accept_transaction(&mut open.transaction)?)
    }

    /// Appends a transaction whose records are complete.
    fn accept_transaction(&self, open: &mut Transaction) -> Result<Lsn> {
        if open.is_empty() {
            return Ok(self.group.core().appended());
        }
        // Others append meanwhile: what can be done before the core is locked is done here.
        let (count, numbering) = (open.len(), open.numbering());
        let accepted = match open.finish() {
            Finished::InBuffer { buf, used, sum } => {
                self.group.accept(|core| core.adopt(buf, used, (count, numbering), sum))
            }
            Finished::Apart(records) => return self.accept_encoded(records, (count, numbering)),
        };
        accepted.map(|(lsn, _)| lsn)
    }

    /// Appends a transaction of encoded records.
    fn accept_encoded(&self, records: &mut [u8], count: (u32, Numbering)) -> Result<Lsn> {
        let large = Core::is_large(self.group.config(), BATCH_HEADER_BYTES + records.len());
        let accepted = if large {
            self.accept_large::<true>([&[], records], count)
        } else {
            self.group.accept(|core| core.append_encoded(records, count.0, count.1))
        };
        accepted.map(|(lsn, _)| lsn)
    }

    /// A future that is ready when everything before `lsn` is durable. Needs no runtime; the write is in flight or
    /// will be, whether the future is polled or not. Dropping the future at any point is safe: no other one loses its
    /// wake-up, and the records become durable all the same.
    pub fn commit_async(&self, lsn: Lsn) -> Commit {
        self.commit_async_in(lsn, self.group.config().own())
    }

    fn commit_async_in(&self, lsn: Lsn, level: AckLevel) -> Commit {
        if self.group.reached(level) < lsn && self.group.status().is_owner_process() {
            self.group.request(lsn, level);
        }
        Commit { group: Arc::clone(&self.group), lsn, level }
    }

    /// As [`Log::commit_async`], for what is to outlive `class` only: see [`Log::commit_as`].
    ///
    /// # Errors
    /// [`Error::BeyondPromise`] if `class` is more than the log was opened to promise.
    pub fn commit_async_as(&self, lsn: Lsn, class: Class) -> Result<Commit> {
        // Why a log that has ended serves nothing, the future returns.
        let level = self.group.serve(lsn, class).or_else(|_| self.group.level(class))?;
        Ok(self.commit_async_in(lsn, level))
    }

    /// Reads durable records from the first one at or behind `from`; also while the log is written to.
    ///
    /// Sequential readers prefetch the next piece on a thread of their own, and bypass the page cache for uncached parts
    /// (Linux). So reading an old log evicts nothing from the cache, and reading it twice reads the disk twice.
    ///
    /// # Errors
    /// [`Error::Trimmed`], [`Error::BeyondEnd`], [`Error::Corrupt`], [`Error::Io`].
    pub fn read(&self, from: Lsn) -> Result<Reader> {
        self.group.status().check_process()?;
        Reader::new(Arc::clone(&self.group), Arc::clone(&self.dir), from)
    }

    /// Reads the durable record that starts at `lsn`: where the record before it ended, which is what its append returned.
    ///
    /// The first read in a segment walks through it once, and what became durable since is added as it is needed; then a
    /// record is read with the blocks that it lies in, each checked. That index takes 0.44 % of what it covers (in batches
    /// of one block of 4 KiB) and at most 128 MiB and 64 descriptors for a log; what was used least goes first.
    ///
    /// # Errors
    /// [`Error::NoRecord`] if none starts there, [`Error::Trimmed`], [`Error::BeyondEnd`] if it is not durable,
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn read_at(&self, lsn: Lsn) -> Result<Record> {
        self.group.status().check_process()?;
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
        self.group.status().check_process()?;
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
    /// inside a transaction leaves its first records.
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

    /// Starts the thread that rewrites what streams need, once.
    fn start_rewriter(&self) -> Result<()> {
        let mut failed = None;
        self.rewrites.call_once(|| {
            let (group, dir, index) = self.shared();
            let rewriter = Rewriter { group, dir, index };
            let spawned =
                std::thread::Builder::new().name("seawall-rewrite".to_owned()).spawn(move || rewriter.run());
            match spawned {
                Ok(thread) => {
                    self.group.threads().set_rewriter(thread.thread().clone());
                    lock(&self.threads).push(thread);
                }
                Err(source) => failed = Some(Error::io("start a thread for", self.dir.path(), source)),
            }
        });
        failed.map_or(Ok(()), Err)
    }

    /// As [`Log::read`], but waits for more at the end.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn follow(&self, from: Lsn) -> Result<Follower> {
        self.read(from).map(Follower::new)
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
        check_within(&self.group.core(), lsn)?;
        Ok(self.pins.pin(&mut held, lsn))
    }

    /// Trims everything before `lsn`, as far as it is durable and no [`Log::pin`] holds it; returns the first LSN that is left. Whole segments
    /// before it are recycled, once that first LSN is durable itself.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] past the end of what was appended, [`Error::Failed`], [`Error::Closed`].
    pub fn trim(&self, lsn: Lsn) -> Result<Lsn> {
        let _span = tracing::debug_span!("trim", %lsn).entered();
        self.group.status().check_process()?;
        if let Some(failed) = self.group.status().failed() {
            return Err(failed);
        }
        if self.group.status().is_closed() {
            return Err(Error::Closed);
        }
        let held = self.pins.held();
        let mut core = self.group.core();
        let end = core.appended();
        if lsn > end {
            return Err(Error::BeyondEnd { lsn, end });
        }
        let first = core.set_trim(held.bound(lsn));
        drop((core, held));
        self.index.trimmed(&self.group, first);
        // The next batch or, in an idle log, the next mark makes it durable.
        self.group.threads().note_activity();
        self.group.threads().wake_sleeping_writer();
        Ok(first)
    }

    /// Copies the log into the folder `to`, which opens as the same log with the same LSNs: everything that is durable when
    /// this is called. Other threads append, commit and trim meanwhile. See [`crate::backup()`], which does the same to the
    /// log of another process.
    ///
    /// # Errors
    /// As [`crate::backup()`], and [`Error::Forked`].
    pub fn checkpoint(&self, to: impl AsRef<Path>) -> Result<Backup> {
        self.group.status().check_process()?;
        backup_of(&self.dir, to.as_ref(), &|| self.durable_lsn())
    }

    /// The end of what is durable.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.group.durable()
    }

    /// The end of what outlives `class`: never before [`Log::durable_lsn`], and past it after [`Log::commit_as`]. For a
    /// class above what the log promises there is no such end, and [`Log::durable_lsn`] is returned.
    #[must_use]
    pub fn safe_lsn(&self, class: Class) -> Lsn {
        // What lies in crash memory has reached the lowest level only.
        let lowest = (class == Class::ProcessCrash).then_some(AckLevel::Process);
        let level = lowest.map_or_else(|| self.group.level(class), Ok);
        level.map_or_else(|_| self.group.durable(), |level| self.group.reached(level))
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
        let Opened { method, engine, engine_refused, .. } = &self.opened;
        let pinned = self.pins.held().lowest();
        Stats { pinned, method, engine, engine_refused: engine_refused.clone(), ..self.group.stats() }
    }

    /// Commits everything, writes the close mark and releases the log, also if a process that was forked off lives on.
    ///
    /// # Errors
    /// [`Error::Failed`] if something could not be made durable, [`Error::Forked`].
    pub fn close(self) -> Result<()> {
        let _span = tracing::info_span!("close", dir = %self.dir.path().display()).entered();
        self.group.status().check_process()?;
        self.group.status().close();
        let sealed = match self.group.status().failed() {
            Some(failed) => Err(failed),
            None => self.group.close_log(),
        };
        if sealed.is_ok() {
            self.group.memory().remove();
        }
        self.stop();
        sealed
    }

    fn stop(&self) {
        if !self.group.status().is_owner_process() {
            // The threads are the parent's, and so are the locks and the directory.
            self.threads.try_lock().into_iter().for_each(|mut threads| {
                threads.drain(..).for_each(std::mem::forget);
            });
            return;
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        // It has been ended already if it was closed.
        if !self.group.status().is_stopping() {
            let resources = Resources { threads, lock: Arc::clone(&self.lock) };
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

/// Accepts records that fill a batch of their own, if they are `wanted` when they get their place. They are copied and
/// added to the checksum before the core is locked, because every other append would wait for that.
pub(crate) fn accept_large<'a, const WAIT: bool>(
    group: &'a Group,
    parts: [&[u8]; 2],
    count: (u32, Numbering),
    wanted: impl Fn(&Core) -> bool,
) -> Result<(Lsn, MutexGuard<'a, Core>)> {
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
    let accepted = group.accept_or::<WAIT>(|core| {
        if wanted(core) { core.adopt(&mut buf, used, count, sum) } else { Ok(core.appended()) }
    });
    let accepted = accepted.map(|(end, mut core)| {
        if let Some(unused) = buf.take() {
            core.give_back(unused);
        }
        (end, core)
    });
    if let Some(unused) = buf {
        group.core().give_back(unused);
    }
    // An append that waits for this memory could request nothing before: only now the batch can be written.
    group.waiters().append_gate().open();
    accepted
}

/// The memory that an earlier opening left in the directory. A foreign file of that name is no such memory.
fn look_for_memory(dir: &Directory) -> Result<Option<Left<SharedMemory>>> {
    let found = match SharedMemory::open_in(dir, MEMORY_FILE) {
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
    if config.own() == AckLevel::Process {
        return Err("the log promises no more than to outlive the process");
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
    core: Core,
    recovered: &Recovered,
    writers: SegmentWriters,
    options: &Options,
) -> Group {
    let headers = recovered.segments.iter().copied();
    let spares = options.spares..=options.spares + KEPT_MAX;
    let inventory = SegmentInventory::new(headers, recovered.next_number, options.segment_bytes, spares);
    #[cfg_attr(not(feature = "simulation"), expect(unused_mut, reason = "only tests change it"))]
    let mut chain = recovered.chain;
    #[cfg(feature = "simulation")]
    if options.log_id.is_some() {
        // A log whose identity a test chose has the same bytes whenever it is written.
        chain.at(1 << 62);
    }
    Group::new(config, core, chain, writers, inventory)
}

/// Ready when everything before one LSN is durable, or has reached the requested class; see [`Log::commit_async`] and
/// [`Log::commit_async_as`].
#[must_use = "a commit that is not waited for may fail unseen"]
pub struct Commit {
    group: Arc<Group>,
    lsn: Lsn,
    level: AckLevel,
}

impl std::fmt::Debug for Commit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commit").field("lsn", &self.lsn).field("level", &self.level).finish_non_exhaustive()
    }
}

impl Commit {
    /// The LSN that it waits for.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Whether it is ready now: whether everything before its LSN has reached the requested class.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.group.reached(self.level) >= self.lsn
    }

    /// Waits for it, without a runtime. The caller writes the batch itself if no other thread does, as in
    /// [`Log::commit`]: a thread that keeps many commits outstanding and waits for the oldest need not be woken for each.
    ///
    /// # Errors
    /// As [`Log::commit`].
    pub fn wait(self) -> Result<Lsn> {
        self.group.commit(self.lsn, self.level).map(|()| self.lsn)
    }

    fn look(&self) -> Option<Result<Lsn>> {
        if self.is_durable() {
            return Some(Ok(self.lsn));
        }
        self.group.status().ended().map(Err)
    }
}

impl Future for Commit {
    type Output = Result<Lsn>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(ready) = self.look() {
            return Poll::Ready(ready);
        }
        let end = self.group.core().appended();
        if self.lsn > end {
            return Poll::Ready(Err(Error::BeyondEnd { lsn: self.lsn, end }));
        }
        self.group.waiters().add_waker(self.level, self.lsn, context.waker());
        // It may have become durable between the first look and the registration.
        if let Some(ready) = self.look() {
            Poll::Ready(ready)
        } else {
            self.group.request(self.lsn, self.level);
            Poll::Pending
        }
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
        let free = || log.group.core().buffers().len();
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
