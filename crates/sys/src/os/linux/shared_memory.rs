//! Linux: files in /dev/shm, mapped by mmap(2); a process sleeps on a word by futex(2), which other processes wake.
//!
//! Invariants: the mapping covers exactly `bytes`, of a file that was at least that long; a mapping that was made to be
//! read is never read here, only its addresses are given to the kernel, which answers `EFAULT` where the file was cut.

use crate::commit::again;
use crate::directory::Directory;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

const FOLDER: &str = "/dev/shm";

/// statfs(2)'s number for tmpfs, from `linux/magic.h`.
const TMPFS_MAGIC: u32 = 0x0102_1994;

/// The rights to read of the group and of others.
const OTHERS_READ: u32 = 0o044;

pub(crate) fn folder() -> io::Result<Directory> {
    let folder = crate::os::unix::open_to_sync(Path::new(FOLDER))?;
    if super::inspect::magic_of(&folder)? != TMPFS_MAGIC {
        let why = "/dev/shm does not lie in memory: mount a tmpfs there";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Directory::open(Path::new(FOLDER)).map_err(crate::Error::into_source)
}

pub(crate) fn identity(file: &File) -> io::Result<[u64; 2]> {
    again(|| file.metadata()).map(|metadata| [metadata.dev(), metadata.ino()])
}

pub(crate) fn have_one_owner(one: &File, other: &File) -> io::Result<bool> {
    Ok(again(|| one.metadata())?.uid() == again(|| other.metadata())?.uid())
}

/// Takes the file's memory.
pub(crate) fn fill(file: &File, bytes: usize) -> io::Result<()> {
    file.write_all_at(&vec![0; bytes], 0)
}

/// Lets those read the file who may read `like`; returns whether these are others than its owner.
pub(crate) fn set_readers(file: &File, like: &File) -> io::Result<bool> {
    let (own, like) = (again(|| file.metadata())?, again(|| like.metadata())?);
    let others = like.mode() & OTHERS_READ;
    // A group that this user is not in cannot be given the file: then the owner alone reads it.
    let is_group = own.gid() == like.gid() || std::os::unix::fs::fchown(file, None, Some(like.gid())).is_ok();
    if others == 0 || !is_group {
        return Ok(false);
    }
    file.set_permissions(Permissions::from_mode(0o600 | others))?;
    Ok(true)
}

pub(crate) fn read(file: &File, at: u64, buf: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(buf, at)
}

pub(crate) fn write(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, at)
}

#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    write: bool,
}

// SAFETY: the pages are reached by atomic accesses and by the kernel alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Maps the first `bytes` bytes of a file, shared with every process that maps it.
pub(super) fn map(file: &File, bytes: usize, write: bool) -> io::Result<NonNull<u8>> {
    let access = if write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    let (null, fd) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: a new shared mapping at an address of the kernel's choice, of an open file.
    let base = unsafe { libc::mmap(null, bytes, access, libc::MAP_SHARED, fd, 0) };
    let mapped = (base != libc::MAP_FAILED).then_some(base).and_then(|base| NonNull::new(base.cast()));
    mapped.ok_or_else(io::Error::last_os_error)
}

impl Mapping {
    /// Maps the first `bytes` bytes of `file`, which is at least as long, to be written, or for the kernel to read.
    pub(crate) fn new(file: &File, bytes: usize, write: bool) -> io::Result<Self> {
        Ok(Self { base: map(file, bytes, write)?, bytes, write })
    }

    /// The address of `bytes` bytes at `at`, a multiple of that.
    fn address(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at.is_multiple_of(bytes) && at + bytes <= self.bytes, "{at} lies in the mapping");
        self.base.as_ptr().wrapping_add(at)
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(self.write, "a mapping for the kernel");
        // SAFETY: aligned, inside the mapping, which lives as long as `self`, and reached by atomic accesses alone.
        unsafe { AtomicU32::from_ptr(self.address(at, 4).cast()) }
    }

    pub(crate) fn number(&self, at: usize) -> &AtomicU64 {
        assert!(self.write, "a mapping for the kernel");
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.address(at, 8).cast()) }
    }

    pub(crate) fn wait(&self, at: usize, value: u32, limit: Duration) {
        // As long as a `timespec` of any C library can say, whose type for seconds differs.
        let seconds = i32::try_from(limit.as_secs()).unwrap_or(i32::MAX);
        let limit = libc::timespec {
            tv_sec: seconds.into(),
            tv_nsec: libc::c_long::from(limit.subsec_nanos().cast_signed()),
        };
        let word = self.address(at, 4);
        // SAFETY: the kernel reads the word, or answers an error where it cannot; the time outlives the call.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, value, &raw const limit) };
    }

    pub(crate) fn wake(&self, at: usize) {
        let word = self.address(at, 4);
        // SAFETY: the kernel takes the address of the word and does not touch what is there.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, libc::c_int::MAX) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by mmap with this length; the references into it have the lifetime of `self`.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
