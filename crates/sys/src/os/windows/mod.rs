//! Windows: opens rows of the method table as positional writes, a mapping or overlapped writes.
//!
//! Invariants: the open flags come from the row alone; every handle shares reading, writing and deleting, so that
//! several segment writers can hold one journal open.

mod call;
#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) mod directory;
pub(crate) mod inspect;
mod map;
mod ntdll;
mod overlapped;
mod positional;
mod storage;
pub(crate) mod store;
mod volume;
mod wine;

#[cfg(feature = "testing")]
pub use crate::os::fallback::mistakes;
pub(crate) use crate::os::fallback::{
    WRITE_VECTOR, counters, crash_memory, fork, layout, local_socket, memory, raw_device, residency, rings,
    scratch, shared_memory, signal, thread,
};
pub(crate) use atomic_wait as wait;

use crate::commit::{OpenError, SyncCall, Target};
use crate::directory::Directory;
use crate::flush::Flush;
use crate::method::{Cache, Method, OpenSync, Sync, System, Write};
use crate::os::mapping::Map;
use crate::{CommitHandle, Error};
use std::fs::{File, OpenOptions};
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;
use windows_sys::Win32::Foundation::{ERROR_CRC, ERROR_IO_DEVICE};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_NO_BUFFERING, FILE_FLAG_OVERLAPPED, FILE_FLAG_WRITE_THROUGH, FILE_SHARE_DELETE,
    FILE_SHARE_READ, FILE_SHARE_WRITE,
};

pub(crate) const SYSTEM: System = System::Windows;

/// The error numbers by which a device reports that it failed.
pub(crate) const DEVICE_ERRORS: &[i32] = &[ERROR_IO_DEVICE.cast_signed(), ERROR_CRC.cast_signed()];

pub(crate) const SYNC_CALLS: &[(Flush, SyncCall)] = &[(Flush::Fsync, call::FLUSH)];

pub(crate) fn open(
    method: &'static Method,
    target: &Target,
    directory: Option<&Directory>,
) -> Result<Box<dyn CommitHandle>, OpenError> {
    let file = open_journal(method, target, directory)?;
    match method.write {
        Write::Positional => Ok(Box::new(positional::open(file, method, target)?)),
        Write::Mapped if method.sync == Sync::FlushFileBuffers => {
            Ok(Box::new(Map::<map::View>::open(file, target)?))
        }
        Write::Mapped => {
            Err(OpenError::unavailable(format!("{:?} does not go with a mapping on Windows", method.sync)))
        }
        Write::Overlapped => Ok(Box::new(overlapped::open(file, method.sync, target)?)),
        Write::Flagged(_) | Write::Ring { .. } => {
            Err(OpenError::unavailable("pwritev2 and io_uring are Linux'"))
        }
    }
}

/// Opens the existing journal by `CreateFileW` with the row's flags.
fn open_journal(method: &Method, target: &Target, directory: Option<&Directory>) -> Result<File, OpenError> {
    let cache = match method.cache {
        Cache::Direct => FILE_FLAG_NO_BUFFERING,
        Cache::Buffered => 0,
        Cache::NoCache => return Err(OpenError::unavailable("F_NOCACHE is macOS'")),
    };
    let sync = match method.open_sync {
        OpenSync::None => 0,
        OpenSync::WriteThrough => FILE_FLAG_WRITE_THROUGH,
        OpenSync::Data | OpenSync::Full => {
            return Err(OpenError::unavailable("O_DSYNC and O_SYNC are POSIX'"));
        }
    };
    let overlapped = if method.write == Write::Overlapped { FILE_FLAG_OVERLAPPED } else { 0 };
    Ok(target.file(directory, (cache | sync | overlapped).cast_signed())?)
}

/// Opens the journal with extra flags; it must exist.
pub(crate) fn open_file(path: &Path, flags: i32) -> crate::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
        .custom_flags(flags.cast_unsigned())
        .open(path);
    file.map_err(|error| Error::new("CreateFileW", path, error))
}

/// Opens a file to flush it, which needs the right to write.
pub(crate) fn open_to_sync(path: &Path) -> std::io::Result<File> {
    File::options().read(true).write(true).open(path)
}

/// Windows' raw disks are opened by other rules than files; the rows have not been taught them.
pub(crate) fn is_block_device(_: &std::fs::Metadata) -> bool {
    false
}
