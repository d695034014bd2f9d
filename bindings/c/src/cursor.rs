//! Reading: cursors over a log, a stream or a view, and single records.
//!
//! Invariants: the bytes that a cursor hands out stay until its next call; a record that is read by itself owns its bytes.

use std::ffi::c_void;
use std::sync::Mutex;
use std::time::Duration;

use seawall::{Log as Inner, Lsn, Payload};
use seawall_sys::fork::Home;

use crate::codes::SEAWALL_RECORD;
use crate::error::{Failure, Result, call, quiet};
use crate::log::{Log, SEAWALL_NO_STREAM, check, inner};
use crate::pointers::{free, give, handle, into_handle, made, take};

/// The record is the last one of its transaction.
pub const SEAWALL_ENDS_TRANSACTION: u32 = 1;

/// One durable record.
#[repr(C)]
#[derive(Debug)]
pub struct Record {
    /// The LSN where it starts.
    pub lsn: u64,
    /// The LSN where it ends, exclusive: what appending it returned.
    pub end: u64,
    /// Its bytes; never NULL if there is a record.
    pub data: *const u8,
    /// How many.
    pub bytes: u64,
    /// Its number in its stream, 0 without one.
    pub seq: u64,
    /// Its stream, or `SEAWALL_NO_STREAM`.
    pub stream: u32,
    /// `SEAWALL_ENDS_TRANSACTION`, or 0.
    pub flags: u32,
    /// What `seawall_record_free` frees; NULL if the bytes belong to a cursor.
    pub memory: *mut c_void,
}

impl Record {
    /// No record.
    pub(crate) fn none() -> Self {
        let (data, memory) = (std::ptr::null(), std::ptr::null_mut());
        Self { lsn: 0, end: 0, data, bytes: 0, seq: 0, stream: SEAWALL_NO_STREAM, flags: 0, memory }
    }

    /// `record`, whose payload the caller keeps where it is.
    fn of(record: &seawall::Record) -> Self {
        Self {
            lsn: record.lsn.get(),
            end: record.end.get(),
            data: record.payload.as_ptr(),
            bytes: record.payload.len() as u64,
            seq: record.stream.map_or(0, |at| at.seq),
            stream: record.stream.map_or(SEAWALL_NO_STREAM, |at| at.stream.get()),
            flags: if record.ends_transaction { SEAWALL_ENDS_TRANSACTION } else { 0 },
            memory: std::ptr::null_mut(),
        }
    }
}

/// `record` with memory of its own.
fn own_record(record: seawall::Record) -> Record {
    // The bytes lie after the payload, which may move.
    let shown = Record::of(&record);
    let memory: *mut Payload = into_handle(record.payload);
    Record { memory: memory.cast(), ..shown }
}

/// Runs a call that gives a record, with memory of its own, which `find` finds in a log.
///
/// # Safety
/// Both pointers are as the header asks.
pub(crate) unsafe fn found(
    record: *mut Record,
    log: *const Log,
    find: impl FnOnce(&Inner) -> Result<Option<seawall::Record>>,
) -> i32 {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { give(record, Record::none(), "record is NULL") }?;
        // SAFETY: as the caller says.
        let Some(read) = find(unsafe { inner(log) }?)? else { return Ok(0) };
        // SAFETY: as the caller says.
        unsafe { give(record, own_record(read), "record is NULL") }?;
        Ok(SEAWALL_RECORD)
    })
}

/// The next record of what a cursor reads: of now, within a limit, or without end.
pub(crate) type Source = Box<dyn FnMut(Option<Duration>) -> seawall::Result<Option<seawall::Record>>>;

/// The [`Source`] that is a follower, of whichever kind.
macro_rules! source {
    ($follower:expr) => {{
        let mut follower = $follower;
        let source: $crate::cursor::Source = Box::new(move |limit| match limit {
            Some(std::time::Duration::ZERO) => follower.try_next_record(),
            None => follower.next_record(),
            Some(limit) => follower.next_record_timeout(limit),
        });
        source
    }};
}
pub(crate) use source;

/// Hands out records one after the other.
pub struct Cursor {
    home: Home,
    reading: Mutex<Reading>,
}

struct Reading {
    source: Source,
    /// The record that was handed out last.
    last: Option<seawall::Record>,
}

impl Cursor {
    pub(crate) fn new(source: Source) -> Self {
        Self { home: Home::here(), reading: Mutex::new(Reading { source, last: None }) }
    }

    fn next(&self, timeout_ns: i64) -> Result<Option<Record>> {
        check(self.home)?;
        let mut reading = match self.reading.try_lock() {
            Ok(reading) => reading,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return Err(Failure::Busy),
        };
        reading.last = None;
        let limit = u64::try_from(timeout_ns).ok().map(Duration::from_nanos);
        let found = (reading.source)(limit)?;
        Ok(found.map(|found| Record::of(reading.last.insert(found))))
    }
}

/// Reads the durable records of the log, and of its streams, from the first one at or after `lsn`, and waits for more at the end: see
/// `seawall_cursor_next`. `*cursor` becomes the handle, or NULL if the call fails. Reads the disk.
///
/// Errors: `SEAWALL_TRIMMED`, `SEAWALL_BEYOND_END`, `SEAWALL_CORRUPT`, `SEAWALL_IO`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_read(log: *mut Log, lsn: u64, cursor: *mut *mut Cursor) -> i32 {
    let follow = || {
        // SAFETY: as the header asks.
        let log = unsafe { inner(log) }?;
        Ok(Cursor::new(source!(log.follow(Lsn::new(lsn))?)))
    };
    // SAFETY: as the header asks.
    unsafe { made(cursor, "cursor is NULL", follow) }
}

/// Hands out the next durable record: returns `SEAWALL_RECORD` (1), and `*record` is it, or 0 if there is none. `record->data` belongs to
/// the cursor and stays until the next call with it, or `seawall_cursor_free`; that the log is closed or freed does not matter.
///
/// Waits for a record for at most `timeout_ns` nanoseconds, without end if that is negative. With 0 it does not wait, and 0 says that
/// there is none now. Otherwise 0 says that there will be none: the log was closed, or the writer of a view has ended (see
/// `seawall_view_read`); a timeout is `SEAWALL_TIMED_OUT`, and a later call goes on where it stopped. Reads the disk: that nothing
/// interrupts, but of a log and with a timeout above 0 a thread of the log does it.
///
/// A cursor is for one thread at a time: a second one gets `SEAWALL_BUSY`.
///
/// Errors: `SEAWALL_TIMED_OUT`; `SEAWALL_TRIMMED` and `SEAWALL_STREAM_TRIMMED` if a trim has overtaken the cursor: make a new one at
/// `limit` of the error; of a stream of a view `SEAWALL_STREAM_END` if records that it has handed out were cut off, or the stream was
/// removed: it goes on at `limit`; `SEAWALL_STREAM_GAP`, `SEAWALL_CORRUPT`, `SEAWALL_OTHER_LOG`, `SEAWALL_IO`; `SEAWALL_FAILED` when the log has failed and
/// everything durable was handed out; `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_cursor_next(
    cursor: *mut Cursor,
    timeout_ns: i64,
    record: *mut Record,
) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        unsafe { give(record, Record::none(), "record is NULL") }?;
        // SAFETY: as the header asks.
        let cursor = unsafe { handle(cursor.cast_const(), "cursor is NULL") }?;
        let Some(found) = cursor.next(timeout_ns)? else { return Ok(0) };
        // SAFETY: as the header asks.
        unsafe { give(record, found, "record is NULL") }?;
        Ok(SEAWALL_RECORD)
    })
}

/// Frees a cursor, and what it handed out; NULL is fine. No other thread may be in a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_cursor_free(cursor: *mut Cursor) {
    // SAFETY: as the header asks.
    unsafe { free(cursor) }
}

/// Reads the durable record that starts at `lsn`, where the record before it ended, and returns `SEAWALL_RECORD` (1). `*record` is to be freed by
/// `seawall_record_free`. Reads the disk.
///
/// Errors: `SEAWALL_NO_RECORD`, `SEAWALL_TRIMMED`, `SEAWALL_BEYOND_END` if it is not durable, `SEAWALL_CORRUPT`, `SEAWALL_IO`, `SEAWALL_CLOSED`,
/// `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_read_at(log: *const Log, lsn: u64, record: *mut Record) -> i32 {
    // SAFETY: as the header asks.
    unsafe { found(record, log, |log| Ok(Some(log.read_at(Lsn::new(lsn))?))) }
}

/// Reads the durable record that ends at `lsn`, so, one after the other, the log backwards: returns `SEAWALL_RECORD` (1), or 0 at the
/// first LSN that is left. Otherwise as `seawall_log_read_at`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_read_before(log: *const Log, lsn: u64, record: *mut Record) -> i32 {
    // SAFETY: as the header asks.
    unsafe { found(record, log, |log| Ok(log.read_before(Lsn::new(lsn))?)) }
}

/// Frees the bytes of a record and makes it none; NULL, none, and records of cursors are fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_record_free(record: *mut Record) {
    quiet((), || {
        // SAFETY: as the header asks.
        let Some(record) = (unsafe { record.as_mut() }) else { return };
        let memory: *mut Payload = std::mem::replace(record, Record::none()).memory.cast();
        // SAFETY: it is null or what `own_record` made, and the record that named it is gone.
        drop(unsafe { take(memory) });
    });
}
