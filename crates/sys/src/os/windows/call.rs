//! Windows: makes the write and flush calls and turns their return codes into results.
//!
//! Invariant: every call's return code passes through [`check`], and `GetLastError` is read at once.

use crate::commit::SyncCall;
use std::fs::File;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use windows_sys::Win32::Storage::FileSystem::{FlushFileBuffers, WriteFile};
use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0};
use windows_sys::core::BOOL;

/// The most that one `WriteFile` is given: its count is a `u32`, and what is left must stay aligned.
const WRITE_BYTES_MAX: u32 = 1 << 30;

/// Turns a Win32 `BOOL` into a result.
pub(super) fn check(succeeded: BOOL) -> io::Result<()> {
    if succeeded == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The count that `WriteFile` takes for `bytes`.
pub(super) fn count(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(WRITE_BYTES_MAX).min(WRITE_BYTES_MAX)
}

/// An `OVERLAPPED` that names `offset`, without an event.
pub(super) fn at(offset: u64) -> OVERLAPPED {
    let position = OVERLAPPED_0_0 { Offset: low(offset), OffsetHigh: high(offset) };
    OVERLAPPED { Anonymous: OVERLAPPED_0 { Anonymous: position }, ..OVERLAPPED::default() }
}

#[expect(clippy::cast_possible_truncation, reason = "the other half goes into another field")]
pub(super) fn low(value: u64) -> u32 {
    value as u32
}

pub(super) fn high(value: u64) -> u32 {
    low(value >> 32)
}

/// `WriteFile` at `offset` on a synchronous handle: the `OVERLAPPED` gives the position, and the call returns
/// when the write is done.
pub(super) fn write_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    let mut position = at(offset);
    // SAFETY: the pointer and count are those of a live slice, which the call only reads; the other two are
    // live locals that a synchronous handle does not use after the call.
    check(unsafe {
        WriteFile(file.as_raw_handle(), bytes.as_ptr(), count(bytes), &raw mut written, &raw mut position)
    })?;
    Ok(written as usize)
}

pub(super) const FLUSH: SyncCall = SyncCall {
    name: "FlushFileBuffers",
    // SAFETY: the handle is open for as long as `file` is borrowed.
    call: |file| check(unsafe { FlushFileBuffers(file.as_raw_handle()) }),
};

pub(super) fn wide(path: &Path) -> Vec<u16> {
    path.as_os_str().encode_wide().chain([0]).collect()
}

/// The text in `buffer` up to its terminating zero.
pub(super) fn narrow(buffer: &[u16]) -> String {
    let end = buffer.iter().position(|unit| *unit == 0).unwrap_or(buffer.len());
    String::from_utf16_lossy(&buffer[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_split_into_its_halves() {
        let offset = 0x0000_0012_3456_7000;
        assert_eq!((high(offset), low(offset)), (0x12, 0x3456_7000));
    }

    #[test]
    fn a_count_stays_aligned_however_large_the_rest() {
        assert_eq!(count(&[0; 5]), 5);
        assert!(WRITE_BYTES_MAX.is_multiple_of(4096));
    }
}
