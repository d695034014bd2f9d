//! Linux: reserves, zeroes, evicts from the cache and maps out a file's blocks (FIEMAP).
//!
//! FIEMAP is described in `Documentation/filesystems/fiemap.rst` of the kernel. The reply is a header followed by
//! extents:
//!
//! ```text
//!   fm_start u64 | fm_length u64 | fm_flags u32 | fm_mapped_extents u32 | fm_extent_count u32 | reserved u32
//!   fe_logical u64 | fe_physical u64 | fe_length u64 | reserved [u64; 2] | fe_flags u32 | reserved [u32; 3]
//! ```

use crate::commit::{OpenError, uninterrupted};
use crate::error::{Error, Result};
use crate::journal::Layout;
use crate::os::unix::check;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `FALLOC_FL_WRITE_ZEROES` of `linux/falloc.h`, Linux 6.17.
const WRITE_ZEROES: FallocateFlags = FallocateFlags::from_bits_retain(0x80);

/// Reserves blocks that read as zeros and are marked unwritten: fallocate(2) with mode 0.
pub(crate) fn reserve(file: &File, path: &Path, bytes: u64) -> std::result::Result<(), OpenError> {
    allocate(file, path, FallocateFlags::empty(), bytes, "this file system cannot reserve blocks (fallocate)")
}

pub(crate) fn write_zeroes(file: &File, path: &Path, bytes: u64) -> std::result::Result<(), OpenError> {
    let reason = "FALLOC_FL_WRITE_ZEROES needs Linux 6.17, a file system with it, and a device that zeroes blocks itself";
    allocate(file, path, WRITE_ZEROES, bytes, reason)
}

fn allocate(
    file: &File,
    path: &Path,
    mode: FallocateFlags,
    bytes: u64,
    lacking: &str,
) -> std::result::Result<(), OpenError> {
    let result = uninterrupted("fallocate", path, || Ok(fallocate(file, mode, 0, bytes)?));
    result.map_err(|error| match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => OpenError::unavailable(lacking),
        _ => OpenError::Failed(error),
    })
}

pub(crate) fn drop_cache(file: &File, path: &Path) -> Result<()> {
    fadvise(file, 0, None, Advice::DontNeed).map_err(|error| Error::new("posix_fadvise", path, error.into()))
}

const EXTENTS: usize = 256;
const FIEMAP_EXTENT_LAST: u32 = 0x1;
const FIEMAP_EXTENT_DELALLOC: u32 = 0x4;
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;
/// `_IOWR('f', 11, struct fiemap)`.
///
/// glibc takes requests as `unsigned long`, musl as `int`: the same 32 bits.
#[allow(
    clippy::cast_possible_wrap,
    clippy::cast_lossless,
    reason = "32 bits of a request, whatever the C library"
)]
const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;

#[repr(C)]
#[derive(Clone, Copy)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

const _: () = assert!(size_of::<Extent>() == 56);
const _: () = assert!(size_of::<Fiemap>() == 32 + 56 * EXTENTS);

/// The extents of the file, added up by kind; `None` if the file system has no FIEMAP (tmpfs, most FUSE).
pub(crate) fn layout(file: &File, path: &Path) -> Result<Option<Layout>> {
    let mut layout = Layout::default();
    let mut start = 0;
    loop {
        let extent =
            Extent { logical: 0, physical: 0, length: 0, reserved64: [0; 2], flags: 0, reserved: [0; 3] };
        let mut map = Box::new(Fiemap {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped_extents: 0,
            extent_count: 256,
            reserved: 0,
            extents: [extent; EXTENTS],
        });
        let answer = uninterrupted("ioctl(FS_IOC_FIEMAP)", path, || {
            // SAFETY: the request's structure is laid out as the kernel wants it, with room for the number of
            // extents that it names.
            check(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut *map) })
        });
        match answer {
            Ok(()) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY)) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let mapped = &map.extents[..(map.mapped_extents as usize).min(EXTENTS)];
        for extent in mapped {
            add(&mut layout, extent);
        }
        match mapped.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 => start = last.logical + last.length,
            _ => return Ok(Some(layout)),
        }
    }
}

fn add(layout: &mut Layout, extent: &Extent) {
    layout.extents += 1;
    if extent.flags & FIEMAP_EXTENT_UNWRITTEN != 0 {
        layout.unwritten_bytes += extent.length;
    } else if extent.flags & FIEMAP_EXTENT_DELALLOC != 0 {
        layout.delayed_bytes += extent.length;
    } else {
        layout.written_bytes += extent.length;
    }
}
