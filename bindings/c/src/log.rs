//! A log that this process writes: open, append, commit, read positions, trim, close.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, SystemTime};

use seawall::{Evidence, LeftInMemory, Log as Inner, Lsn, MethodOrigin, StreamId, Tail, Transaction};
use seawall_sys::fork::Home;
use seawall_sys::signal::Signal;

use crate::error::{Failure, Result, Returned, c_path, call, number, quiet};
use crate::options::{Options, class};
use crate::pointers::{Kept, Texts, free, handle, items, made, path, slice, take};

/// A log that this process writes.
pub struct Log {
    inner: Inner,
    home: Home,
    opened: Opened,
    /// What the log raises, once it was asked for.
    notify: Mutex<Option<Arc<Signal>>>,
    /// What `opened` points to.
    _texts: Texts,
    _names: Kept<*const c_char>,
}

/// There was no log.
pub const SEAWALL_TAIL_NEW: i32 = 0;
/// It had been closed.
pub const SEAWALL_TAIL_CLEAN: i32 = 1;
/// It had not been closed. What was being written when it ended is lost unless it arrived whole.
pub const SEAWALL_TAIL_TORN: i32 = 2;
/// Records that had been acknowledged are gone, by an event that the log's durability class does not cover.
pub const SEAWALL_TAIL_LOST: i32 = 3;
/// It is being written.
pub const SEAWALL_TAIL_WRITTEN: i32 = 4;

/// The tail as a number, and what is lost.
pub(crate) fn tail_numbers(tail: Tail) -> (i32, u64, u64) {
    match tail {
        Tail::New => (SEAWALL_TAIL_NEW, 0, 0),
        Tail::Clean => (SEAWALL_TAIL_CLEAN, 0, 0),
        Tail::Lost { from, to } => (SEAWALL_TAIL_LOST, from.get(), to.get()),
        // A tail that this interface does not know was not clean.
        _ => (SEAWALL_TAIL_TORN, 0, 0),
    }
}

/// The devices' counters do not show whether the commit method flushes what the log's class needs: the class rests on the word of system
/// and device alone. `evidence_because` says why.
pub const SEAWALL_EVIDENCE_NOT_CONFIRMED: i32 = 0;
/// Each commit that was watched flushed every volatile cache below.
pub const SEAWALL_EVIDENCE_CONFIRMED: i32 = 1;
/// No flush is needed: the log promises less than power loss, or no device has a volatile cache.
pub const SEAWALL_EVIDENCE_NOT_NEEDED: i32 = 2;

/// What opening found. Fields may be added at the end.
#[repr(C)]
#[derive(Debug)]
pub struct Opened {
    /// How the log had ended: `SEAWALL_TAIL_...`.
    pub tail: i32,
    /// Where the commit method comes from: 0 it was named, 1 the directory remembers it, 2 another log of this process found it,
    /// 3 a probe just now.
    pub method_origin: i32,
    /// What commits that outlive the process only had left in memory: 0 nothing, 1 records that are durable now, 2 memory that is
    /// not believed.
    pub left_in_memory: i32,
    /// Entries of `foreign_file_names`.
    pub foreign_files: u32,
    /// If `tail` is `SEAWALL_TAIL_LOST`, the LSN of the first record that is gone.
    pub lost_from: u64,
    /// Everything before this had been acknowledged then.
    pub lost_to: u64,
    /// The first LSN that is left.
    pub first: u64,
    /// The end of the log.
    pub end: u64,
    /// Segments in the log.
    pub segments: u64,
    /// How often the log has been opened, this time included.
    pub epoch: u64,
    /// Records that `left_in_memory` gave.
    pub left_records: u64,
    /// The absolute path of the directory.
    pub dir: *const c_char,
    /// The commit method.
    pub method: *const c_char,
    /// The engine that runs it.
    pub engine: *const c_char,
    /// Why another engine was refused and the portable one took over; NULL if none was.
    pub engine_refused: *const c_char,
    /// Why followers in other processes look at the disk again and again instead of being woken; NULL if they are woken.
    pub channel_refused: *const c_char,
    /// Why what was left in memory is not believed; NULL if it is.
    pub left_reason: *const c_char,
    /// Foreign files in the directory.
    pub foreign_file_names: *const *const c_char,
    /// What the devices' counters say to the class of the log: `SEAWALL_EVIDENCE_...`.
    pub evidence: i32,
    /// Always 0.
    pub reserved: i32,
    /// Why it is not confirmed; NULL otherwise.
    pub evidence_because: *const c_char,
}

/// Raises a signal for as long as that belongs to its log, however long the log's waker lives.
struct Raise(Weak<Signal>);

impl Wake for Raise {
    fn wake(self: Arc<Self>) {
        if let Some(signal) = self.0.upgrade() {
            signal.raise();
        }
    }
}

impl Log {
    fn new(log: Inner) -> Self {
        let mut texts = Texts::default();
        let found = log.opened();
        let names = texts.keep_all(&found.foreign_files);
        let (tail, lost_from, lost_to) = tail_numbers(found.tail);
        let (left_in_memory, left_records, left_reason) = match found.left_in_memory {
            LeftInMemory::Taken { records } => (1, records, None),
            LeftInMemory::Worthless { reason } => (2, 0, Some(reason)),
            _ => (0, 0, None),
        };
        let (evidence, because) = match &found.evidence {
            Evidence::NotNeeded => (SEAWALL_EVIDENCE_NOT_NEEDED, None),
            Evidence::Confirmed => (SEAWALL_EVIDENCE_CONFIRMED, None),
            // Also one that this interface does not know.
            other => (SEAWALL_EVIDENCE_NOT_CONFIRMED, Some(other.why().unwrap_or("unknown"))),
        };
        let opened = Opened {
            tail,
            method_origin: match found.method_origin {
                MethodOrigin::Named => 0,
                MethodOrigin::Remembered => 1,
                MethodOrigin::Shared => 2,
                MethodOrigin::Probed => 3,
                _ => -1,
            },
            left_in_memory,
            foreign_files: u32::try_from(names.len()).unwrap_or(u32::MAX),
            lost_from,
            lost_to,
            first: found.first.get(),
            end: found.end.get(),
            segments: found.segments as u64,
            epoch: found.epoch,
            left_records,
            dir: texts.keep(c_path(log.dir())),
            method: texts.keep_some(Some(found.method)),
            engine: texts.keep_some(Some(found.engine)),
            engine_refused: texts.keep_some(found.engine_refused.as_deref()),
            channel_refused: texts.keep_some(found.channel_refused.as_deref()),
            left_reason: texts.keep_some(left_reason),
            foreign_file_names: names.as_ptr(),
            evidence,
            reserved: 0,
            evidence_because: texts.keep_some(because),
        };
        let notify = Mutex::default();
        Self { inner: log, home: Home::here(), opened, notify, _texts: texts, _names: names }
    }
}

/// Fails in a process that was forked off: locks may be held there for ever.
#[inline]
pub(crate) fn check(home: Home) -> Result<()> {
    if home.is_here() { Ok(()) } else { Err(seawall::Error::Forked.into()) }
}

/// The log behind a handle.
///
/// # Safety
/// As the header asks of every handle.
#[inline]
pub(crate) unsafe fn inner<'a>(log: *const Log) -> Result<&'a Inner> {
    // SAFETY: as the caller says.
    let log = unsafe { handle(log, "log is NULL") }?;
    check(log.home)?;
    Ok(&log.inner)
}

/// Runs a call with the log behind a handle.
///
/// # Safety
/// As [`inner`].
#[inline]
pub(crate) unsafe fn with<T: Returned>(log: *const Log, work: impl FnOnce(&Inner) -> Result<T>) -> T {
    // SAFETY: as the caller says.
    call(|| work(unsafe { inner(log) }?))
}

/// The same with a record that the caller hands in.
///
/// # Safety
/// As [`inner`] and [`slice()`].
#[inline]
pub(crate) unsafe fn with_record<T: Returned>(
    log: *const Log,
    data: *const c_void,
    bytes: u64,
    work: impl FnOnce(&Inner, &[u8]) -> Result<T>,
) -> T {
    // SAFETY: as the caller says.
    let work = |log: &Inner| work(log, unsafe { slice(data, bytes) }?);
    // SAFETY: as the caller says.
    unsafe { with(log, work) }
}

/// Opens the log in the directory `dir` for writing: locks it, finds out what is durable and makes the log ready. Without a log
/// there it makes one.
///
/// `options` may be NULL for the defaults and is only read. `*log` becomes a handle, to be closed by `seawall_log_close` and freed
/// by `seawall_log_free`, or NULL if the call fails. Waits for the disk: recovery, and a probe when the log is new.
///
/// Errors: `SEAWALL_LOCKED`, `SEAWALL_CORRUPT`, `SEAWALL_INVALID_OPTION`, `SEAWALL_NOT_A_LOG` without the option `create`,
/// `SEAWALL_NEWER_FORMAT`, `SEAWALL_OLDER_FORMAT`, `SEAWALL_FOREIGN_SEGMENT`, `SEAWALL_BLOCKS_TOO_SMALL`, `SEAWALL_DISK_FULL`,
/// `SEAWALL_DISK_CAP`, `SEAWALL_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_open(
    dir: *const c_char,
    options: *const Options,
    log: *mut *mut Log,
) -> i32 {
    let open = || {
        // SAFETY: as the header asks.
        let dir = unsafe { path(dir) }?;
        // SAFETY: as the header asks.
        let options = unsafe { options.as_ref() }.map(Options::get).unwrap_or_default();
        Ok(Log::new(Inner::open(dir, options)?))
    };
    // SAFETY: as the header asks.
    unsafe { made(log, "log is NULL", open) }
}

/// What opening found. It belongs to the log and stays until `seawall_log_free`. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_opened(log: *const Log) -> *const Opened {
    // SAFETY: as the header asks.
    unsafe { log.as_ref() }.map_or(std::ptr::null(), |log| &raw const log.opened)
}

/// Appends a record of `bytes` bytes, which is copied, and returns the LSN of its end; in memory, in order, not yet durable: see
/// `seawall_log_commit`. `data` may be NULL if `bytes` is 0. Waits only when the memory for records is full or no prepared segment
/// is left.
///
/// Errors: `SEAWALL_TOO_LONG`, `SEAWALL_DISK_FULL` and `SEAWALL_DISK_CAP` (nothing was written, the log stays open), `SEAWALL_FAILED`,
/// `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_append(log: *mut Log, data: *const c_void, bytes: u64) -> i64 {
    // SAFETY: as the header asks.
    unsafe { with_record(log, data, bytes, |log, record| number(log.append(record)?.end.get())) }
}

/// As `seawall_log_append`, but returns `SEAWALL_WOULD_BLOCK`, with nothing accepted, wherever that would wait or take long: when the
/// memory is full, no prepared segment has room, another thread is in the log just now, or the record fills a batch of its
/// own. Then call `seawall_log_append`.
///
/// It copies the record, at most `batch_bytes`, and takes no lock that it would have to wait for; the only system call that it may make
/// wakes a thread. So it may be called where waiting harms others: from a critical downcall of a Java virtual machine, or an event
/// loop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_try_append(log: *mut Log, data: *const c_void, bytes: u64) -> i64 {
    // SAFETY: as the header asks.
    unsafe { with_record(log, data, bytes, |log, record| number(log.try_append(record)?.end.get())) }
}

/// Appends a record and returns the LSN of its end when it is durable. Concurrent callers share one write. Appending waits as
/// `seawall_log_append`; after that it waits for at most `timeout_ns` nanoseconds, without end if that is negative, as
/// `seawall_log_commit`.
///
/// Errors: as `seawall_log_append` and `seawall_log_commit`. With `SEAWALL_TIMED_OUT` the record was appended, `at` of the error is the
/// LSN of its end, and it may become durable at any time: do not append it again, but wait for it by `seawall_log_commit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_append_commit(
    log: *mut Log,
    data: *const c_void,
    bytes: u64,
    timeout_ns: i64,
) -> i64 {
    let append = |log: &Inner, record: &[u8]| {
        let end = match u64::try_from(timeout_ns) {
            Ok(timeout) => {
                let end = log.append(record)?.end;
                log.commit_async(end).wait_timeout(Duration::from_nanos(timeout))?
            }
            Err(_) => log.append_commit(record)?.end,
        };
        number(end.get())
    };
    // SAFETY: as the header asks.
    unsafe { with_record(log, data, bytes, append) }
}

/// The stream of a record that belongs to none: it is one of the log itself.
pub const SEAWALL_NO_STREAM: u32 = 0xffff_ffff;

/// A part that appends a record.
pub const SEAWALL_PART_APPEND: u32 = 0;
/// A part that does what `seawall_stream_trim` does.
pub const SEAWALL_PART_TRIM: u32 = 1;
/// A part that does what `seawall_stream_truncate` does.
pub const SEAWALL_PART_TRUNCATE: u32 = 2;
/// A part that does what `seawall_stream_remove` does.
pub const SEAWALL_PART_REMOVE: u32 = 3;

/// One part of a transaction: a record, or what happens to a stream.
#[repr(C)]
#[derive(Debug)]
pub struct Part {
    /// The bytes of a record; may be NULL if there are none. NULL in every other part.
    pub data: *const c_void,
    /// How many bytes; of `SEAWALL_PART_TRIM` and `SEAWALL_PART_TRUNCATE` the sequence number, of `SEAWALL_PART_REMOVE` 0.
    pub bytes: u64,
    /// The stream; of a record possibly `SEAWALL_NO_STREAM`.
    pub stream: u32,
    /// `SEAWALL_PART_...`; 0 is a record.
    pub kind: u32,
}

/// The stream of this number.
pub(crate) fn stream_id(stream: u32) -> Result<StreamId> {
    StreamId::new(stream).ok_or(Failure::Argument("the number of the stream is 2^24 or more"))
}

/// Adds a part to a transaction.
///
/// # Safety
/// `part.data` is as [`slice()`] asks.
unsafe fn add(transaction: &mut Transaction, part: &Part) -> Result<()> {
    match (part.kind, part.bytes) {
        (SEAWALL_PART_APPEND, bytes) => {
            // SAFETY: as the caller says.
            let record = unsafe { slice(part.data, bytes) }?;
            if part.stream == SEAWALL_NO_STREAM {
                transaction.append(record)?;
            } else {
                transaction.append_to(stream_id(part.stream)?, record)?;
            }
        }
        _ if !part.data.is_null() => {
            return Err(Failure::Argument("a part that is no record has data: pass NULL"));
        }
        (SEAWALL_PART_TRIM, seq) => transaction.trim(stream_id(part.stream)?, seq)?,
        (SEAWALL_PART_TRUNCATE, seq) => transaction.truncate(stream_id(part.stream)?, seq)?,
        (SEAWALL_PART_REMOVE, 0) => transaction.remove(stream_id(part.stream)?)?,
        (SEAWALL_PART_REMOVE, _) => {
            return Err(Failure::Argument("a removal has no sequence number: pass 0 bytes"));
        }
        _ => return Err(Failure::Argument("there is no such part: pass one of SEAWALL_PART_...")),
    }
    Ok(())
}

/// Appends `count` records and trims, truncates and removes streams, in the order of the parts, all or none of it: after a crash
/// either all is there or nothing. Returns the LSN of its end; not yet durable. Without parts it returns the end of the log. Waits as
/// `seawall_log_append`.
///
/// Errors: as `seawall_log_append`, `seawall_stream_trim` and `seawall_stream_truncate`; nothing was done then. `SEAWALL_TOO_LONG` if
/// all together are longer than `record_bytes_max`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_transaction(log: *mut Log, parts: *const Part, count: u64) -> i64 {
    call(|| {
        // SAFETY: as the header asks.
        let log = unsafe { inner(log) }?;
        // SAFETY: as the header asks.
        let parts = unsafe { items(parts, count) }?;
        let end = log.transaction::<Failure>(|transaction| {
            // SAFETY: as the header asks.
            parts.iter().try_for_each(|part| unsafe { add(transaction, part) })
        })?;
        number(end.get())
    })
}

/// Returns when everything before `lsn` outlives the class `durability`: 0 for what the log promises, or a lower one, which is
/// cheaper: `SEAWALL_PROCESS_CRASH`, `SEAWALL_SYSTEM_CRASH`, `SEAWALL_POWER_LOSS`. Records of a lower class are shown by readers only once
/// they are durable, which they become with the next commit of the log's own class, when the log is idle, or when it is closed.
///
/// Waits for at most `timeout_ns` nanoseconds, without end if that is negative. With 0 it requests the commit and returns at once:
/// `SEAWALL_TIMED_OUT` if it is not done yet, and the write goes on. Without a timeout the calling thread writes the batch itself if
/// no other one does; with one, a thread of the log does, which has to be woken.
///
/// Errors: `SEAWALL_TIMED_OUT` (nothing was cancelled), `SEAWALL_BEYOND_END` if nothing was appended there, `SEAWALL_BEYOND_PROMISE`,
/// `SEAWALL_FAILED`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_commit(
    log: *mut Log,
    lsn: u64,
    durability: i32,
    timeout_ns: i64,
) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let log = unsafe { inner(log) }?;
        let (lsn, class) = (Lsn::new(lsn), class(durability)?);
        match (class, u64::try_from(timeout_ns).ok().map(Duration::from_nanos)) {
            (None, None) => log.commit(lsn)?,
            (Some(class), None) => log.commit_as(lsn, class)?,
            (None, Some(timeout)) => {
                log.commit_async(lsn).wait_timeout(timeout)?;
            }
            (Some(class), Some(timeout)) => {
                log.commit_async_as(lsn, class)?.wait_timeout(timeout)?;
            }
        }
        Ok(0)
    })
}

/// The first LSN that is left.
pub const SEAWALL_LSN_FIRST: i32 = 0;
/// The end of what was appended.
pub const SEAWALL_LSN_APPENDED: i32 = 1;
/// The end of what is durable: outlives what the log promises.
pub const SEAWALL_LSN_DURABLE: i32 = 2;
/// The end of what outlives the end of the process.
pub const SEAWALL_LSN_PROCESS_CRASH: i32 = 3;
/// The end of what outlives a crash of the system.
pub const SEAWALL_LSN_SYSTEM_CRASH: i32 = 4;

/// A position of the log: `which` is one of `SEAWALL_LSN_...`. Never waits for the disk. Of a log that was closed, the last one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_lsn(log: *const Log, which: i32) -> i64 {
    call(|| {
        // SAFETY: as the header asks.
        let log = unsafe { inner(log) }?;
        let lsn = match which {
            SEAWALL_LSN_DURABLE => log.durable_lsn(),
            SEAWALL_LSN_FIRST => log.first_lsn(),
            SEAWALL_LSN_APPENDED => log.appended_lsn(),
            SEAWALL_LSN_PROCESS_CRASH => log.lsn_surviving(seawall::Durability::ProcessCrash),
            SEAWALL_LSN_SYSTEM_CRASH => log.lsn_surviving(seawall::Durability::SystemCrash),
            _ => return Err(Failure::Argument("there is no such position: pass one of SEAWALL_LSN_...")),
        };
        number(lsn.get())
    })
}

/// Where the end of what is durable is kept: a word that only grows, to be read without a call, by an atomic load with acquire
/// ordering. Valid until `seawall_log_free`; never to be written. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_durable_word(log: *const Log) -> *const u64 {
    // SAFETY: as the header asks.
    unsafe { log.as_ref() }.map_or(std::ptr::null(), |log| log.inner.durable_word())
}

/// A descriptor for `poll()`, epoll, kqueue and event loops over them. It is readable when more may be durable than at the last read, and
/// so when a cursor of this log may have a record, or a stream of it; when the log failed or was closed; and at first.
///
/// When it is readable, read up to 8 bytes, and look only then: at `seawall_log_lsn` or the word of `seawall_log_durable_word`, and at
/// each cursor, by `seawall_cursor_next` with a timeout of 0 until that returns no record. It stays readable until it is read, however
/// much becomes durable meanwhile: it counts nothing, and the bytes mean nothing. What becomes durable after the read makes it readable
/// again. Reading it never waits: without a byte it fails with EAGAIN. A log that nobody commits to becomes durable by itself only
/// when it is idle: what an event loop waits for it requests by `seawall_log_commit` with a timeout of 0.
///
/// Every call returns the same descriptor, from 3 on and closed by `exec()`. It belongs to the log and is closed by `seawall_log_free`,
/// not by `seawall_log_close`; for a runtime that closes what it is given, pass a `dup()`. A process that was forked off shares it and
/// must not read it. Cursors of views are not seen by it.
///
/// Errors: `SEAWALL_IO` if the system gives no descriptor, and always on Windows, where a thread waits in `seawall_cursor_next` or
/// `seawall_log_commit`; `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_notify_fd(log: *mut Log) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let inner = unsafe { inner(log) }?;
        // SAFETY: as the header asks.
        let log = unsafe { handle(log.cast_const(), "log is NULL") }?;
        let mut notify = log.notify.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signal) = &*notify {
            return Ok(signal.descriptor());
        }
        let made = Signal::new().map_err(|source| {
            let path = inner.dir().to_path_buf();
            seawall::Error::Io { operation: "make a descriptor to wait for the log in", path, source }
        })?;
        let signal = notify.insert(Arc::new(made));
        inner.watch(Waker::from(Arc::new(Raise(Arc::downgrade(signal)))));
        // What became durable before the log was watched.
        signal.raise();
        Ok(signal.descriptor())
    })
}

/// The LSN of the first record that was appended at or after `unix_us`, microseconds since 1970 by the clock of then; the end of what
/// is durable if there is none. Reads the disk.
///
/// Errors: `SEAWALL_TRIMMED`, `SEAWALL_CORRUPT`, `SEAWALL_IO`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_lsn_at(log: *const Log, unix_us: u64) -> i64 {
    call(|| {
        // SAFETY: as the header asks.
        let log = unsafe { inner(log) }?;
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(unix_us));
        let time = time.ok_or(Failure::Argument("the time is past what this system can tell"))?;
        number(log.lsn_at(time)?.get())
    })
}

/// Trims everything before `lsn`, as far as it is durable and no pin or stream holds it; returns the first LSN that is left. Whole
/// segments are recycled.
///
/// Errors: `SEAWALL_BEYOND_END`, `SEAWALL_FAILED`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_trim(log: *mut Log, lsn: u64) -> i64 {
    // SAFETY: as the header asks.
    unsafe { with(log, |log| number(log.trim(Lsn::new(lsn))?.get())) }
}

/// Cuts off every record that belongs to no stream and starts at or after `lsn`. Takes effect at once; durable when everything
/// before the returned LSN is. LSNs are not used twice.
///
/// Errors: `SEAWALL_TRIMMED`, `SEAWALL_BEYOND_END`; as `seawall_log_append`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_truncate_after(log: *mut Log, lsn: u64) -> i64 {
    // SAFETY: as the header asks.
    unsafe { with(log, |log| number(log.truncate_after(Lsn::new(lsn))?.get())) }
}

/// Holds records against trims, as long as it is not freed.
pub struct Pin {
    held: seawall::ReadPin,
    home: Home,
}

/// Holds everything from `lsn` on, so that no trim takes it, until `seawall_pin_free` or the close of the log. `*pin` becomes the
/// handle, or NULL if the call fails.
///
/// Errors: `SEAWALL_TRIMMED`, `SEAWALL_BEYOND_END`, `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_pin(log: *mut Log, lsn: u64, pin: *mut *mut Pin) -> i32 {
    // SAFETY: as the header asks.
    let hold = || Ok(Pin { held: unsafe { inner(log) }?.pin(Lsn::new(lsn))?, home: Home::here() });
    // SAFETY: as the header asks.
    unsafe { made(pin, "pin is NULL", hold) }
}

/// Lets go what a pin holds; NULL is fine. Before or after the log is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_pin_free(pin: *mut Pin) {
    quiet((), || {
        // SAFETY: as the header asks.
        if let Some(pin) = unsafe { take(pin) } {
            let Pin { held, home } = *pin;
            if home.is_here() {
                drop(held);
            } else {
                // The pin is the parent's, and its lock may be held for ever here.
                std::mem::forget(held);
            }
        }
    });
}

/// Commits everything, writes the mark that says so and releases the log for other writers. Other threads may be in calls with the
/// log: appends end with `SEAWALL_CLOSED`, commits of what was appended are served, followers end. Afterwards every call with the
/// handle is defined, and those that need an open log return `SEAWALL_CLOSED`; a second close returns what the first did.
///
/// Waits for the disk, without end if that does not answer. Errors: `SEAWALL_FAILED` if something could not be made durable,
/// `SEAWALL_FORKED`; the log is released in either case but the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_close(log: *mut Log) -> i32 {
    // SAFETY: as the header asks.
    unsafe { with(log, |log| Ok(log.close_async().wait().map(|()| 0)?)) }
}

/// Frees the handle; NULL is fine. No other thread may be in a call with it or use it afterwards. Cursors, records and pins of the
/// log live on. Without `seawall_log_close` before it, the log ends as by a crash: records that were not committed are gone, all
/// that was acknowledged is there.
///
/// In a process that was forked off it frees memory and touches nothing of the parent's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_free(log: *mut Log) {
    // SAFETY: as the header asks.
    unsafe { free(log) }
}
