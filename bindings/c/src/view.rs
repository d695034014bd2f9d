//! A log that any process may be writing, looked at without its lock.

use std::ffi::c_char;
use std::sync::Mutex;

use seawall::{Lsn, View as Inner};
use seawall_sys::fork::Home;

use crate::cursor::{Cursor, Source, source};
use crate::error::{Failure, Result, call};
use crate::log::{SEAWALL_TAIL_WRITTEN, check, stream_id, tail_numbers};
use crate::options::class_number;
use crate::pointers::{free, give_if_wanted, give_prefix, handle, made, path};

/// A look at a log at one moment.
pub struct View {
    home: Home,
    view: Mutex<Inner>,
}

/// What a view shows. Fields may be added at the end.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ViewState {
    /// The identity of the log.
    pub log_id: [u8; 16],
    /// The first LSN that is left.
    pub first: u64,
    /// The end of what is known to be durable.
    pub end: u64,
    /// Segments of the log.
    pub segments: u64,
    /// If `tail` is `SEAWALL_TAIL_LOST`, the LSN of the first record that is gone.
    pub lost_from: u64,
    /// Everything before this had been acknowledged then.
    pub lost_to: u64,
    /// How the log ended: `SEAWALL_TAIL_...`, `SEAWALL_TAIL_WRITTEN` while a writer holds it.
    pub tail: i32,
    /// Whether a writer holds the log: 1 or 0; -1 if that is unknown, because this process may not open the lock file.
    pub writer: i32,
    /// What acknowledged records of the log outlive.
    pub durability: i32,
    /// Always 0.
    pub reserved: i32,
}

/// The view behind a handle.
///
/// # Safety
/// As the header asks of every handle.
unsafe fn locked<'a>(view: *const View) -> Result<std::sync::MutexGuard<'a, Inner>> {
    // SAFETY: as the caller says.
    let view = unsafe { handle(view, "view is NULL") }?;
    check(view.home)?;
    Ok(view.view.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Looks at the log in the directory `dir`, which any process may be writing, or none; takes no lock and keeps no writer out. `*view`
/// becomes the handle, or NULL if the call fails. Reads the disk.
///
/// Errors: `SEAWALL_NOT_A_LOG`, `SEAWALL_CORRUPT`, `SEAWALL_NEWER_FORMAT`, `SEAWALL_OLDER_FORMAT`, `SEAWALL_FOREIGN_SEGMENT`, `SEAWALL_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_view_open(dir: *const c_char, view: *mut *mut View) -> i32 {
    let open = || {
        // SAFETY: as the header asks.
        let dir = unsafe { path(dir) }?;
        Ok(View { home: Home::here(), view: Mutex::new(Inner::open(dir)?) })
    };
    // SAFETY: as the header asks.
    unsafe { made(view, "view is NULL", open) }
}

/// Brings a view up to date; returns 1 if anything may have changed, 0 if not. Threads that call at once take turns.
///
/// Errors: as `seawall_view_open`; the view stays as it was. `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_view_renew(view: *mut View) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let mut view = unsafe { locked(view) }?;
        Ok(view.renew()?.into())
    })
}

/// Writes into `*state`, a structure of `bytes` bytes (pass `sizeof`), what the view shows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_view_get_state(view: *const View, state: *mut ViewState, bytes: u64) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let view = unsafe { locked(view) }?;
        let (tail, lost_from, lost_to) = view.tail().map_or((SEAWALL_TAIL_WRITTEN, 0, 0), tail_numbers);
        let shown = ViewState {
            log_id: view.log_id().0,
            first: view.first_lsn().get(),
            end: view.end_lsn().get(),
            segments: view.segments() as u64,
            lost_from,
            lost_to,
            tail,
            writer: view.has_writer().map_or(-1, i32::from),
            durability: class_number(view.durability()),
            reserved: 0,
        };
        // SAFETY: as the header asks; the structure has no padding.
        unsafe { give_prefix(state, bytes, &shown) }?;
        Ok(0)
    })
}

/// Reads the log of a view from the first record at or after `lsn`, which may not be there yet, and waits for more, also across
/// writers that end and others that begin: see `seawall_cursor_next`. On Linux a writer wakes it as soon as a commit is durable. It
/// goes on past the end that the view shows, and does not need the view any more.
///
/// With `ends_with_writer` 1 the cursor ends, and `seawall_cursor_next` returns 0, once there is no writer and everything was handed
/// out; with 0 it waits for the next writer. `*cursor` becomes the handle, or NULL if the call fails.
///
/// Errors: `SEAWALL_TRIMMED`, `SEAWALL_CORRUPT`, `SEAWALL_IO`, `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_view_read(
    view: *mut View,
    lsn: u64,
    ends_with_writer: i32,
    cursor: *mut *mut Cursor,
) -> i32 {
    let source = |view: &Inner, ends| Ok(source!(view.follow(Lsn::new(lsn))?.ends_with_writer(ends)));
    // SAFETY: as the header asks.
    unsafe { read(view, ends_with_writer, cursor, source) }
}

/// The numbers of the first record that is left in a stream and of the next one that it gets, as `seawall_stream_bounds`, where the log
/// ended that the view shows. Either pointer may be NULL. Reads the records of streams from the disk.
///
/// Errors: `SEAWALL_INVALID_ARGUMENT` if there is no such stream number; as `seawall_view_open`; `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_view_stream_bounds(
    view: *const View,
    stream_number: u32,
    first: *mut u64,
    next: *mut u64,
) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let view = unsafe { locked(view) }?;
        let stream = view.stream(stream_id(stream_number)?)?;
        // SAFETY: as the header asks.
        unsafe { give_if_wanted(first, stream.first_seq()) };
        // SAFETY: as the header asks.
        unsafe { give_if_wanted(next, stream.next_seq()) };
        Ok(0)
    })
}

/// Reads a stream of the log of a view from the record number `seq` on, and waits for more, as `seawall_view_read` does; with trims and
/// cuts, also those that come later: see `seawall_cursor_next`. `*cursor` becomes the handle, or NULL if the call fails. Reads the records
/// of streams from the disk.
///
/// Errors: `SEAWALL_STREAM_TRIMMED`, `SEAWALL_STREAM_END` past the next record that the view shows, `SEAWALL_INVALID_ARGUMENT`; as
/// `seawall_view_open`; `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_view_stream_read(
    view: *mut View,
    stream_number: u32,
    seq: u64,
    ends_with_writer: i32,
    cursor: *mut *mut Cursor,
) -> i32 {
    let source = |view: &Inner, ends| {
        let follower = view.stream(stream_id(stream_number)?)?.follow(seq)?.ends_with_writer(ends);
        Ok(source!(follower))
    };
    // SAFETY: as the header asks.
    unsafe { read(view, ends_with_writer, cursor, source) }
}

/// Makes the cursor over what `source` follows of a view.
///
/// # Safety
/// `view` and `cursor` are as the header asks.
unsafe fn read(
    view: *const View,
    ends_with_writer: i32,
    cursor: *mut *mut Cursor,
    source: impl FnOnce(&Inner, bool) -> Result<Source>,
) -> i32 {
    let follow = || {
        let ends = match ends_with_writer {
            0 => false,
            1 => true,
            _ => return Err(Failure::Argument("ends_with_writer is neither 0 nor 1")),
        };
        // SAFETY: as the caller says.
        let view = unsafe { locked(view) }?;
        Ok(Cursor::new(source(&view, ends)?))
    };
    // SAFETY: as the caller says.
    unsafe { made(cursor, "cursor is NULL", follow) }
}

/// Frees a view; NULL is fine. Its cursors live on. No other thread may be in a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_view_free(view: *mut View) {
    // SAFETY: as the header asks.
    unsafe { free(view) }
}
