//! Linux: maps out a file's blocks (FIEMAP).
//!
//! FIEMAP is described in `Documentation/filesystems/fiemap.rst` of the kernel. The reply is a header followed by
//! extents:
//!
//! ```text
//!   fm_start u64 | fm_length u64 | fm_flags u32 | fm_mapped_extents u32 | fm_extent_count u32 | reserved u32
//!   fe_logical u64 | fe_physical u64 | fe_length u64 | reserved [u64; 2] | fe_flags u32 | reserved [u32; 3]
//! ```

use crate::commit::uninterrupted;
use crate::error::Result;
use crate::layout::Layout;
use crate::os::unix::check;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

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
