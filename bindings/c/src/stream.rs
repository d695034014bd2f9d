//! The streams of a log: many ordered sequences of records that share one log, each named by a number below 2^24.

use std::ffi::c_void;

use seawall::{Log as Inner, Stream, StreamAppend};

use crate::cursor::{Cursor, Record, found, source};
use crate::error::{Result, call, number};
use crate::log::{Log, inner, stream_id, with, with_record};
use crate::pointers::{give, give_if_wanted, made};

fn stream(log: &Inner, number: u32) -> Result<Stream<'_>> {
    Ok(log.stream(stream_id(number)?))
}

/// Runs a call that appends to a stream by `append`.
///
/// # Safety
/// All pointers are as the header asks.
unsafe fn append(
    log: *const Log,
    stream_number: u32,
    data: *const c_void,
    bytes: u64,
    seq: *mut u64,
    append: impl FnOnce(Stream<'_>, &[u8]) -> seawall::Result<StreamAppend>,
) -> i64 {
    let work = |log: &Inner, record: &[u8]| {
        let appended = append(stream(log, stream_number)?, record)?;
        // SAFETY: as the caller says.
        unsafe { give_if_wanted(seq, appended.seq) };
        number(appended.end.get())
    };
    // SAFETY: as the caller says.
    unsafe { with_record(log, data, bytes, work) }
}

/// As `seawall_log_append`, to a stream, which is there with its first record. `*seq` becomes the number of the record in its stream;
/// `seq` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_stream_append(
    log: *mut Log,
    stream_number: u32,
    data: *const c_void,
    bytes: u64,
    seq: *mut u64,
) -> i64 {
    // SAFETY: as the header asks.
    unsafe { append(log, stream_number, data, bytes, seq, |stream, record| stream.append(record)) }
}

/// As `seawall_log_try_append`, to a stream. The first record of an open log that goes to any stream is refused so too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_stream_try_append(
    log: *mut Log,
    stream_number: u32,
    data: *const c_void,
    bytes: u64,
    seq: *mut u64,
) -> i64 {
    // SAFETY: as the header asks.
    unsafe { append(log, stream_number, data, bytes, seq, |stream, record| stream.try_append(record)) }
}

/// The numbers of the first record that is left in a stream and of the next one that it gets, both 0 for a stream that the log does
/// not have. Either pointer may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_stream_bounds(
    log: *const Log,
    stream_number: u32,
    first: *mut u64,
    next: *mut u64,
) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let log = unsafe { inner(log) }?;
        let stream = stream(log, stream_number)?;
        let last = stream.next_seq();
        // SAFETY: as the header asks.
        unsafe { give_if_wanted(first, stream.first_seq().min(last)) };
        // SAFETY: as the header asks.
        unsafe { give_if_wanted(next, last) };
        Ok(0)
    })
}

/// Writes the numbers of the streams that the log has into `streams`, in ascending order, at most `capacity` of them; returns how
/// many there are. `streams` may be NULL if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_stream_list(log: *const Log, streams: *mut u32, capacity: u64) -> i64 {
    call(|| {
        // SAFETY: as the header asks.
        let log = unsafe { inner(log) }?;
        let found = log.streams();
        let wanted = usize::try_from(capacity).unwrap_or(usize::MAX);
        for (at, stream) in found.iter().enumerate().take(wanted) {
            // SAFETY: within the caller's array; a null one is refused.
            unsafe { give(streams.wrapping_add(at), stream.get(), "streams is NULL and capacity is not 0") }?;
        }
        number(found.len() as u64)
    })
}

/// Reads the durable record of a stream with the number `seq` and returns `SEAWALL_RECORD` (1); `*record` is to be freed by `seawall_record_free`. Reads the disk.
///
/// Errors: `SEAWALL_STREAM_TRIMMED`, `SEAWALL_STREAM_END`, `SEAWALL_STREAM_GAP`, `SEAWALL_CORRUPT`, `SEAWALL_IO`, `SEAWALL_CLOSED`,
/// `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_stream_get(
    log: *const Log,
    stream_number: u32,
    seq: u64,
    record: *mut Record,
) -> i32 {
    // SAFETY: as the header asks.
    unsafe { found(record, log, |log| Ok(Some(stream(log, stream_number)?.get(seq)?))) }
}

/// Reads a stream from the record number `seq` on, and waits for more at its end: see `seawall_cursor_next`. `*cursor` becomes the
/// handle, or NULL if the call fails.
///
/// Errors: `SEAWALL_STREAM_TRIMMED`, `SEAWALL_STREAM_END` past the next record, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_stream_read(
    log: *mut Log,
    stream_number: u32,
    seq: u64,
    cursor: *mut *mut Cursor,
) -> i32 {
    let follow = || {
        // SAFETY: as the header asks.
        let log = unsafe { inner(log) }?;
        Ok(Cursor::new(source!(stream(log, stream_number)?.follow(seq)?)))
    };
    // SAFETY: as the header asks.
    unsafe { made(cursor, "cursor is NULL", follow) }
}

/// Trims the records of a stream before the number `seq`. Takes effect at once; durable when everything before the returned LSN is.
///
/// Errors: `SEAWALL_STREAM_END` past the next record; as `seawall_log_append`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_stream_trim(log: *mut Log, stream_number: u32, seq: u64) -> i64 {
    // SAFETY: as the header asks.
    unsafe { with(log, |log| number(stream(log, stream_number)?.trim(seq)?.get())) }
}

/// Cuts off the record of a stream with the number `seq` and all after it: the next record gets that number. Takes effect at once;
/// durable when everything before the returned LSN is.
///
/// Errors: `SEAWALL_STREAM_TRIMMED`, `SEAWALL_STREAM_END`; as `seawall_log_append`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_stream_truncate(log: *mut Log, stream_number: u32, seq: u64) -> i64 {
    // SAFETY: as the header asks.
    unsafe { with(log, |log| number(stream(log, stream_number)?.truncate(seq)?.get())) }
}

/// Removes a stream with all its records; one of the same number that is written to later starts with number 0. Durable when
/// everything before the returned LSN is.
///
/// Errors: as `seawall_log_append`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_stream_remove(log: *mut Log, stream_number: u32) -> i64 {
    // SAFETY: as the header asks.
    unsafe { with(log, |log| number(stream(log, stream_number)?.remove()?.get())) }
}
