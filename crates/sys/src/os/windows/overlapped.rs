//! Windows: runs the overlapped rows by `WriteFile` and `GetOverlappedResult`.
//!
//! `WriteFile` may return before the write is done; `GetOverlappedResult` waits on the request's own event.
//!
//! Invariants: * what the system reads and writes (the bytes and the `OVERLAPPED`) lives on the heap and is owned by
//! this value; it is leaked, not freed, if the request might still be in flight when the value is dropped; * at most
//! one request is in flight, and `write` returns only when it has completed; * each completion's count is checked
//! against the length, by the same loop as everywhere.

use super::call::{self, check};
use crate::CommitHandle;
use crate::buffer::Aligned;
use crate::commit::{OpenError, Target, write_all};
use crate::error::{Error, Result};
use crate::method::Sync;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::PathBuf;
use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, STATUS_PENDING};
use windows_sys::Win32::Storage::FileSystem::WriteFile;
use windows_sys::Win32::System::IO::{GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Threading::CreateEventW;

pub(super) struct Overlapped {
    request: Request,
    buffer: ManuallyDrop<Aligned>,
    path: PathBuf,
    flush: bool,
}

/// The one request, the event that its completion sets, and the file that it is for.
struct Request {
    file: File,
    event: ManuallyDrop<OwnedHandle>,
    /// What the system fills in; from `Box::into_raw`, so that no Rust reference to it exists meanwhile.
    state: *mut OVERLAPPED,
    in_flight: bool,
}

// SAFETY: the state belongs to this value alone and is used through `&mut self` only.
unsafe impl Send for Request {}

pub(super) fn open(file: File, sync: Sync, target: &Target) -> std::result::Result<Overlapped, OpenError> {
    let flush = match sync {
        Sync::None => false,
        Sync::FlushFileBuffers => true,
        other => return Err(OpenError::unavailable(format!("{other:?} does not go with overlapped writes"))),
    };
    let path = target.path.clone();
    let buffer = ManuallyDrop::new(Aligned::zeroed(target.write_bytes));
    let request = Request::new(file).map_err(|error| Error::new("CreateEventW", &path, error))?;
    Ok(Overlapped { request, buffer, path, flush })
}

impl Request {
    fn new(file: File) -> io::Result<Self> {
        // SAFETY: no attributes and no name are passed; a manual-reset event, not set.
        let event = unsafe { CreateEventW(std::ptr::null(), 1, 0, std::ptr::null()) };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a handle that was just made and that nothing else owns.
        let event = ManuallyDrop::new(unsafe { OwnedHandle::from_raw_handle(event) });
        Ok(Self { file, event, state: Box::into_raw(Box::default()), in_flight: false })
    }

    /// Writes some of `bytes`, which must outlive the request: they are part of the owned buffer.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let state = OVERLAPPED { hEvent: self.event.as_raw_handle(), ..call::at(offset) };
        // SAFETY: the state is live, and no request is in flight, so that nothing else uses it.
        unsafe { self.state.write(state) };
        self.in_flight = true;
        // SAFETY: the bytes lie in the owned buffer and the state on the heap; both outlive the request, see
        // the invariants. No count is asked for, as an overlapped handle wants it.
        let queued = check(unsafe {
            WriteFile(
                self.file.as_raw_handle(),
                bytes.as_ptr(),
                call::count(bytes),
                std::ptr::null_mut(),
                self.state,
            )
        });
        if let Err(error) = queued
            && error.raw_os_error() != Some(ERROR_IO_PENDING.cast_signed())
        {
            self.in_flight = false;
            return Err(error);
        }
        let mut written = 0;
        // SAFETY: the handle and the state are those of the request that was just made.
        let done =
            check(unsafe { GetOverlappedResult(self.file.as_raw_handle(), self.state, &raw mut written, 1) });
        self.in_flight = self.is_pending();
        done.map(|()| written as usize)
    }

    /// Whether the system has not completed the request (the macro `HasOverlappedIoCompleted`).
    fn is_pending(&self) -> bool {
        // SAFETY: the state is live; only the address of its field is formed.
        let status = unsafe { &raw const (*self.state).Internal };
        // SAFETY: the field is live and a plain integer; volatile, because the system may write it.
        let status = unsafe { status.read_volatile() };
        status == STATUS_PENDING.cast_unsigned() as usize
    }
}

impl CommitHandle for Overlapped {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let Self { request, buffer, path, .. } = self;
        if request.in_flight {
            return Err(Error::new("WriteFile", path, io::ErrorKind::InvalidInput.into()));
        }
        write_all("WriteFile", path, offset, bytes, |offset, bytes| {
            // What is longer than the buffer goes in several requests.
            let part = bytes.len().min(buffer.as_slice().len());
            buffer.as_mut_slice()[..part].copy_from_slice(&bytes[..part]);
            request.write(offset, &buffer.as_slice()[..part])
        })
    }

    fn sync(&mut self) -> Result<()> {
        if !self.flush {
            return Ok(());
        }
        call::FLUSH.run(&self.request.file, &self.path)
    }
}

impl Drop for Overlapped {
    fn drop(&mut self) {
        if self.request.in_flight {
            return;
        }
        // SAFETY: dropped once, here; no request refers to the buffer any more.
        unsafe { ManuallyDrop::drop(&mut self.buffer) };
        // SAFETY: dropped once, here; no request refers to the event any more.
        unsafe { ManuallyDrop::drop(&mut self.request.event) };
        // SAFETY: made by `Box::into_raw`, freed once, here; no request refers to it any more.
        drop(unsafe { Box::from_raw(self.request.state) });
    }
}
