//! Windows: maps a view of a file and syncs its pages by flushing view and file.
//!
//! `FlushViewOfFile` only hands the range's pages to the system; `FlushFileBuffers` waits for the device.

use super::call::{FLUSH, check, high, low};
use crate::error::{Error, Result};
use crate::os::mapping::Calls;
use std::fs::File;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::ptr::{NonNull, null};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, FlushViewOfFile, MEMORY_MAPPED_VIEW_ADDRESS,
    MapViewOfFile, PAGE_READWRITE, UnmapViewOfFile,
};

/// The file under the view, to be flushed with it.
pub(super) struct View(File);

impl Calls for View {
    const SYNC: &'static str = "FlushViewOfFile";
    const WARM: &'static str = "prefault";

    fn map(file: File, path: &Path, bytes: usize) -> Result<(NonNull<u8>, Self)> {
        let (handle, high, low) = (file.as_raw_handle(), high(bytes as u64), low(bytes as u64));
        // SAFETY: no security attributes and no name are passed, and the handle is open.
        let mapping = unsafe { CreateFileMappingW(handle, null(), PAGE_READWRITE, high, low, null()) };
        if mapping.is_null() {
            return Err(Error::last_os("CreateFileMappingW", path));
        }
        // SAFETY: a handle that was just made and that nothing else owns. The view keeps the mapping alive after it is
        // closed here.
        let mapping = unsafe { OwnedHandle::from_raw_handle(mapping) };
        let access = FILE_MAP_READ | FILE_MAP_WRITE;
        // SAFETY: a new view at an address of the system's choice, of a mapping that is as long.
        let view = unsafe { MapViewOfFile(mapping.as_raw_handle(), access, 0, 0, bytes) };
        let base = NonNull::new(view.Value.cast()).ok_or_else(|| Error::last_os("MapViewOfFile", path))?;
        Ok((base, Self(file)))
    }

    fn sync(&self, path: &Path, address: *mut u8, bytes: usize) -> Result<()> {
        // A length of 0 would mean the whole view.
        if bytes > 0 {
            // SAFETY: the pages lie inside the view.
            check(unsafe { FlushViewOfFile(address.cast(), bytes) })
                .map_err(|error| Error::new(Self::SYNC, path, error))?;
        }
        FLUSH.run(&self.0, path)
    }

    /// Touches each page: `PrefetchVirtualMemory` reads ahead but leaves the faults to the first access.
    fn warm(&self, _: &Path, address: *mut u8, bytes: usize) -> Result<()> {
        for page in (0..bytes).step_by(4096) {
            // SAFETY: `page` is below `bytes`, which lie inside the view.
            std::hint::black_box(unsafe { address.wrapping_add(page).read_volatile() });
        }
        Ok(())
    }

    fn unmap(&self, base: NonNull<u8>, _: usize) {
        let view = MEMORY_MAPPED_VIEW_ADDRESS { Value: base.as_ptr().cast() };
        // SAFETY: the view was made by `map`, and nothing refers to it any more.
        let _ = unsafe { UnmapViewOfFile(view) };
    }
}
