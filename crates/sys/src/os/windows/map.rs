//! Windows: runs the mapped row by copying into a view of the file and flushing view and file.
//!
//! `FlushViewOfFile` only hands the range's pages to the system; `FlushFileBuffers` waits for the device.
//!
//! Invariants: the view covers exactly `journal_bytes`, and the file is at least that long when it is made; no
//! reference into the view is ever formed, only raw copies, because other processes may write it. An I/O error
//! behind a page ends the process with an in-page exception, as it ends one with `SIGBUS` on Unix.

use super::call::{self, check, high, low};
use crate::Commit;
use crate::commit::{OpenError, Target};
use crate::error::{Error, Result};
use crate::method::Sync;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::PathBuf;
use std::ptr::NonNull;
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, FlushViewOfFile, MEMORY_MAPPED_VIEW_ADDRESS,
    MapViewOfFile, PAGE_READWRITE, UnmapViewOfFile,
};

const PAGE: u64 = 4096;

pub(super) struct Map {
    base: NonNull<u8>,
    bytes: usize,
    file: File,
    path: PathBuf,
    last: Range<u64>,
}

// SAFETY: the view belongs to this value alone and is used through `&mut self` only.
unsafe impl Send for Map {}

pub(super) fn open(file: File, sync: Sync, target: &Target) -> std::result::Result<Map, OpenError> {
    if sync != Sync::FlushFileBuffers {
        return Err(OpenError::unavailable(format!("{sync:?} does not go with a mapping on Windows")));
    }
    let path = target.path.clone();
    let length =
        file.metadata().map_err(|error| Error::new("GetFileInformationByHandle", &path, error))?.len();
    if length < target.journal_bytes {
        return Err(OpenError::unavailable(
            "a mapping must not extend the file: the journal must be preallocated",
        ));
    }
    let Ok(bytes) = usize::try_from(target.journal_bytes) else {
        return Err(OpenError::unavailable("the journal does not fit into the address space"));
    };
    let mapping = mapping(&file, target)?;
    // SAFETY: a new view at an address of the system's choice, of a mapping that is as long.
    let view = unsafe { MapViewOfFile(mapping.as_raw_handle(), FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, bytes) };
    // The view keeps the mapping alive after its handle is closed here.
    let base = NonNull::new(view.Value.cast()).ok_or_else(|| Error::last_os("MapViewOfFile", &path))?;
    Ok(Map { base, bytes, file, path, last: 0..0 })
}

fn mapping(file: &File, target: &Target) -> Result<OwnedHandle> {
    let (high, low) = (high(target.journal_bytes), low(target.journal_bytes));
    // SAFETY: no security attributes and no name are passed, and the handle is open.
    let mapping = unsafe {
        CreateFileMappingW(
            file.as_raw_handle(),
            std::ptr::null(),
            PAGE_READWRITE,
            high,
            low,
            std::ptr::null(),
        )
    };
    if mapping.is_null() {
        return Err(Error::last_os("CreateFileMappingW", &target.path));
    }
    // SAFETY: a handle that was just made and that nothing else owns.
    Ok(unsafe { OwnedHandle::from_raw_handle(mapping) })
}

impl Map {
    /// The address and length of the whole pages around `range`, clipped to the view.
    fn pages(&self, range: &Range<u64>) -> Option<(*mut u8, usize)> {
        let start = usize::try_from(range.start / PAGE * PAGE).ok()?;
        let end = usize::try_from(range.end).ok()?.min(self.bytes);
        let bytes = end.checked_sub(start)?;
        // `start` is below `bytes` of the view, so the address stays inside.
        Some((self.base.as_ptr().wrapping_add(start), bytes))
    }

    fn outside(&self, operation: &'static str) -> Error {
        let cause = io::Error::new(io::ErrorKind::InvalidInput, "the range lies outside the mapping");
        Error::new(operation, &self.path, cause)
    }
}

impl Commit for Map {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let start = usize::try_from(offset).map_err(|_| self.outside("copy"))?;
        let end = start.checked_add(bytes.len()).filter(|end| *end <= self.bytes);
        let Some(_) = end else { return Err(self.outside("copy")) };
        let target = self.base.as_ptr().wrapping_add(start);
        // SAFETY: `start + len` was checked to lie inside the view, and a private slice cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        self.last = offset..offset + bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let (address, bytes) = self.pages(&self.last).ok_or_else(|| self.outside("FlushViewOfFile"))?;
        // A length of 0 would mean the whole view.
        if bytes > 0 {
            // SAFETY: the pages lie inside the view that this value owns.
            check(unsafe { FlushViewOfFile(address.cast(), bytes) })
                .map_err(|error| Error::new("FlushViewOfFile", &self.path, error))?;
        }
        call::flush(&self.file).map_err(|error| Error::new("FlushFileBuffers", &self.path, error))
    }

    /// Touches each page: `PrefetchVirtualMemory` reads ahead but leaves the faults to the first access.
    fn warm(&mut self, range: Range<u64>) -> Result<()> {
        let (address, bytes) = self.pages(&range).ok_or_else(|| self.outside("prefault"))?;
        for page in (0..bytes).step_by(4096) {
            // SAFETY: `page` is below `bytes`, which lie inside the view that this value owns.
            std::hint::black_box(unsafe { address.wrapping_add(page).read_volatile() });
        }
        Ok(())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let view = MEMORY_MAPPED_VIEW_ADDRESS { Value: self.base.as_ptr().cast() };
        // SAFETY: the view was made by `open`, and nothing refers to it any more.
        let _ = unsafe { UnmapViewOfFile(view) };
    }
}
