//! Linux: reports cached bytes of a file by cachestat(2) (since 6.5) or mincore(2) on a mapping.

use crate::commit::again;
use crate::error::{Error, Result};
use crate::os::unix::check;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `__NR_cachestat`, the same number on every architecture.
const CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

const _: () = assert!(size_of::<Pages>() == 40 && size_of::<Range>() == 16);

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

fn pages(file: &File, offset: u64, length: u64) -> std::io::Result<Pages> {
    let range = Range { offset, length };
    let mut stat = Pages::default();
    // SAFETY: both structures are live, of the layout that the kernel wants, and the second is writable.
    let code = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0_u32) };
    if code == 0 { Ok(stat) } else { Err(std::io::Error::last_os_error()) }
}

pub(crate) fn dirty_bytes(file: &File) -> Option<u64> {
    // Of other file systems the page cache is not the whole truth: overlayfs keeps pages elsewhere, tmpfs and FUSE tag none.
    const TELLING: [u32; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010];
    if !TELLING.contains(&super::inspect::magic_of(file).ok()?) {
        return None;
    }
    pages(file, 0, 0).ok().map(|pages| (pages.dirty + pages.writeback) * page_bytes())
}

pub(crate) fn cached_bytes(file: &File, path: &Path, offset: u64, length: u64) -> Result<Option<u64>> {
    let error = match pages(file, offset, length) {
        Ok(pages) => return Ok(Some(pages.cached * page_bytes())),
        Err(error) => error,
    };
    match error.raw_os_error() {
        // EPERM is how a seccomp filter refuses a call that it does not know.
        Some(libc::ENOSYS | libc::EPERM | libc::EOPNOTSUPP) => by_mincore(file, path, offset, length),
        _ => Err(Error::new("cachestat", path, error)),
    }
}

/// The same question to mincore(2), a byte a page.
pub(crate) fn by_mincore(file: &File, path: &Path, offset: u64, length: u64) -> Result<Option<u64>> {
    let page = page_bytes();
    let file_bytes = again(|| file.metadata()).map_err(|error| Error::new("fstat", path, error))?.len();
    let end = if length == 0 { file_bytes } else { file_bytes.min(offset.saturating_add(length)) };
    let from = offset / page * page;
    let wanted = (usize::try_from(end.saturating_sub(from)), libc::off_t::try_from(from));
    let (Ok(bytes), Ok(from)) = wanted else { return Ok(None) };
    if offset >= end {
        return Ok(Some(0));
    }
    // SAFETY: a new mapping at an address of the kernel's choice, of an open file; it is never read through.
    let base = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), from)
    };
    if base == libc::MAP_FAILED {
        return Err(Error::last_os("mmap", path));
    }
    let mut pages = vec![0_u8; bytes.div_ceil(usize::try_from(page).unwrap_or(4096))];
    // SAFETY: the mapping is `bytes` long, and the vector has a byte for each of its pages.
    let answer = check(unsafe { libc::mincore(base, bytes, pages.as_mut_ptr()) });
    // SAFETY: the mapping was made above with this length, and nothing refers to it any more.
    let _ = unsafe { libc::munmap(base, bytes) };
    answer.map_err(|error| Error::new("mincore", path, error))?;
    let cached = pages.iter().filter(|page| **page & 1 == 1).count() as u64;
    Ok(Some(cached * page))
}

pub(crate) fn available_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
