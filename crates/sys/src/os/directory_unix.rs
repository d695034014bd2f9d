//! Unix systems hold a directory by a descriptor, from which every name is looked up.
//!
//! Invariants: no descriptor is inherited by programs that are started; `O_NONBLOCK` is there while a file is opened, so
//! that a FIFO makes nobody wait, and is gone afterwards, because `io_uring` would give up writes that had to wait.

use std::ffi::{CStr, CString};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd as _, RawFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::unix::check;
use crate::directory::{Entry, Locking, Make, Permissions, Wish, not_regular};

/// The descriptor.
#[derive(Debug)]
pub(crate) struct Handle(File);

pub(crate) fn open(path: &Path) -> io::Result<Handle> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC).open(path).map(Handle)
}

pub(crate) fn make(path: &Path, permissions: Permissions) -> io::Result<()> {
    DirBuilder::new().mode(permissions.directory_mode()).create(path)
}

fn c_name(name: &str) -> io::Result<CString> {
    if name.contains('/') {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    CString::new(name).map_err(|_| io::ErrorKind::InvalidFilename.into())
}

impl Handle {
    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// What a name stands for, links not followed.
    fn stat(&self, name: &CStr) -> io::Result<libc::stat> {
        // SAFETY: a structure of integers, for which zeros are valid.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: the name is zero-terminated and the structure writable; both outlive the call.
        check(unsafe { libc::fstatat(self.fd(), name.as_ptr(), &raw mut stat, flags) })?;
        Ok(stat)
    }
}

/// What a mode stands for, in words; `None` for a regular file.
fn kind(mode: libc::mode_t) -> Option<&'static str> {
    Some(match mode & libc::S_IFMT {
        libc::S_IFREG => return None,
        libc::S_IFDIR => "a directory",
        libc::S_IFLNK => "a symbolic link",
        libc::S_IFIFO => "a FIFO",
        libc::S_IFSOCK => "a socket",
        libc::S_IFBLK | libc::S_IFCHR => "a device",
        _ => "something else",
    })
}

fn regular(mode: libc::mode_t) -> io::Result<()> {
    kind(mode).map_or(Ok(()), |kind| Err(not_regular(kind)))
}

pub(crate) fn wish(handle: &Handle, _: &Path, name: &str, wish: Wish) -> io::Result<File> {
    let name = c_name(name)?;
    let (make, permissions) = match wish.make {
        Make::No => (0, None),
        Make::Missing(permissions) => (libc::O_CREAT, Some(permissions)),
        Make::New(permissions) => (libc::O_CREAT | libc::O_EXCL, Some(permissions)),
    };
    // Looked at first, because opening alone does something to some devices.
    if !matches!(wish.make, Make::New(_)) {
        match handle.stat(&name) {
            Ok(stat) => regular(stat.st_mode)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let access = if wish.write { libc::O_RDWR } else { libc::O_RDONLY };
    let flags = access | make | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC | wish.flags;
    let mode = libc::c_uint::from(permissions.map_or(0, Permissions::file_mode));
    // SAFETY: the name is zero-terminated and outlives the call.
    let fd = unsafe { libc::openat(handle.fd(), name.as_ptr(), flags, mode) };
    check(fd)?;
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    let file = unsafe { File::from_raw_fd(fd) };
    let metadata = file.metadata()?;
    #[cfg_attr(target_os = "linux", allow(clippy::useless_conversion, reason = "16 bits on macOS"))]
    let mode = libc::mode_t::try_from(metadata.mode()).unwrap_or(0);
    regular(mode)?;
    block(&file)?;
    Ok(file)
}

/// Takes `O_NONBLOCK` away.
fn block(file: &File) -> io::Result<()> {
    // SAFETY: takes integers only; a stale descriptor is an error, not undefined behaviour.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    check(flags)?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) })
}

pub(crate) fn is_at(handle: &Handle, path: &Path) -> io::Result<bool> {
    match std::fs::metadata(path) {
        Ok(there) => handle.0.metadata().map(|here| (here.dev(), here.ino()) == (there.dev(), there.ino())),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "these are signed on some systems")]
pub(crate) fn is_named(handle: &Handle, name: &str, file: &File) -> io::Result<bool> {
    let opened = file.metadata()?;
    match handle.stat(&c_name(name)?) {
        Ok(named) => Ok((named.st_dev as u64, named.st_ino as u64) == (opened.dev(), opened.ino())),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A stream of names, closed when it is dropped.
struct Stream(*mut libc::DIR);

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: opened by fdopendir, closed once, here.
        let _ = unsafe { libc::closedir(self.0) };
    }
}

/// The calling thread's error number.
fn errno() -> *mut libc::c_int {
    #[cfg(target_os = "linux")]
    // SAFETY: has no preconditions.
    return unsafe { libc::__errno_location() };
    #[cfg(target_os = "macos")]
    // SAFETY: has no preconditions.
    return unsafe { libc::__error() };
    #[cfg(target_os = "illumos")]
    // SAFETY: has no preconditions.
    return unsafe { libc::___errno() };
}

pub(crate) fn list(handle: &Handle, _: &Path) -> io::Result<Vec<Entry>> {
    // An own descriptor, because the place of a stream belongs to the open directory.
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the name is zero-terminated and static.
    let fd = unsafe { libc::openat(handle.fd(), c".".as_ptr(), flags) };
    check(fd)?;
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    let own = unsafe { File::from_raw_fd(fd) };
    // SAFETY: a descriptor of a directory, which the stream takes over if there is one.
    let stream = unsafe { libc::fdopendir(own.as_raw_fd()) };
    if stream.is_null() {
        return Err(io::Error::last_os_error());
    }
    let (stream, _) = (Stream(stream), own.into_raw_fd());
    let mut entries = Vec::new();
    loop {
        // SAFETY: the address of this thread's own error number, which only a 0 tells from the end of the stream.
        unsafe { errno().write(0) };
        // SAFETY: the stream is open and used by this thread alone.
        let entry = unsafe { libc::readdir(stream.0) };
        if entry.is_null() {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(0) { Ok(entries) } else { Err(error) };
        }
        // SAFETY: a live entry; only the address of its field is formed.
        let name = unsafe { &raw const (*entry).d_name };
        // SAFETY: the name is zero-terminated and lives until the next call on the stream.
        let name = unsafe { CStr::from_ptr(name.cast()) };
        if name == c"." || name == c".." {
            continue;
        }
        match handle.stat(name) {
            Ok(stat) => {
                let bytes = u64::try_from(stat.st_size).unwrap_or(0);
                entries.extend(name.to_str().ok().map(|name| Entry { name: name.to_owned(), bytes }));
            }
            // A name may be renamed or removed by a writer before its turn comes.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether an error says that the call or its flag is unknown to the kernel or to the file system.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::ENOTSUP))
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(crate) fn rename_new(handle: &Handle, _: &Path, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (c_name(from)?, c_name(to)?);
    #[cfg(target_os = "linux")]
    // By number: older C libraries have no such function.
    // SAFETY: both names are zero-terminated and outlive the call.
    let code = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            handle.fd(),
            from.as_ptr(),
            handle.fd(),
            to.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    #[cfg(target_os = "macos")]
    // SAFETY: both names are zero-terminated and outlive the call.
    let code = unsafe {
        libc::renameatx_np(handle.fd(), from.as_ptr(), handle.fd(), to.as_ptr(), libc::RENAME_EXCL)
    };
    check(if code == 0 { 0 } else { -1 })
        .map_err(|error| if is_unknown(&error) { io::ErrorKind::Unsupported.into() } else { error })
}

/// illumos has no rename that leaves alone what is there.
#[cfg(target_os = "illumos")]
pub(crate) fn rename_new(_: &Handle, _: &Path, _: &str, _: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn link(handle: &Handle, _: &Path, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (c_name(from)?, c_name(to)?);
    // SAFETY: both names are zero-terminated and outlive the call.
    let code = unsafe { libc::linkat(handle.fd(), from.as_ptr(), handle.fd(), to.as_ptr(), 0) };
    check(code).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS | libc::ENOTSUP) => io::Error::new(
            io::ErrorKind::Unsupported,
            "this file system can neither rename a file without replacing another one nor link it",
        ),
        _ => error,
    })
}

pub(crate) fn replace(handle: &Handle, _: &Path, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (c_name(from)?, c_name(to)?);
    // SAFETY: both names are zero-terminated and outlive the call.
    check(unsafe { libc::renameat(handle.fd(), from.as_ptr(), handle.fd(), to.as_ptr()) })
}

pub(crate) fn remove(handle: &Handle, _: &Path, name: &str) -> io::Result<()> {
    let name = c_name(name)?;
    // SAFETY: the name is zero-terminated and outlives the call.
    check(unsafe { libc::unlinkat(handle.fd(), name.as_ptr(), 0) })
}

pub(crate) fn sync(handle: &Handle) -> io::Result<()> {
    handle.0.sync_all()
}

pub(crate) fn try_lock(handle: &Handle, shared: bool) -> io::Result<Locking> {
    let tried = if shared { handle.0.try_lock_shared() } else { handle.0.try_lock() };
    match tried {
        Ok(()) => Ok(Locking::Taken),
        Err(TryLockError::WouldBlock) => Ok(Locking::Held),
        // NFS makes a lock of a range of it, for which a directory cannot be opened.
        Err(TryLockError::Error(error))
            if error.kind() == io::ErrorKind::Unsupported
                || matches!(
                    error.raw_os_error(),
                    Some(libc::EBADF | libc::EINVAL | libc::ENOSYS | libc::ENOTSUP)
                ) =>
        {
            Ok(Locking::Unavailable)
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

pub(crate) fn unlock(handle: &Handle) -> io::Result<()> {
    handle.0.unlock()
}

/// Magic numbers of statfs(2) that stand for a file system whose files lie with another machine, as in `linux/magic.h`
/// and the file systems' own sources.
#[cfg(target_os = "linux")]
const NETWORK: [(u32, &str); 14] = [
    (0x0000_6969, "NFS"),
    (0x0000_517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB"),
    (0x0102_1997, "9p"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0000_564C, "NCP"),
    (0x00C3_6400, "Ceph"),
    (0x0BD0_0BD0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x786F_4256, "a folder shared by VirtualBox"),
];

#[cfg(target_os = "linux")]
fn network_by_magic(magic: u32) -> Option<&'static str> {
    NETWORK.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

#[cfg(target_os = "linux")]
pub(crate) fn network_file_system(handle: &Handle, _: &Path) -> io::Result<Option<&'static str>> {
    // SAFETY: a structure of integers, for which zeros are valid.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is writable and outlives the call.
    check(unsafe { libc::fstatfs(handle.fd(), &raw mut stat) })?;
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the number has 32 bits, some systems extend its sign"
    )]
    #[allow(clippy::cast_sign_loss, reason = "as above")]
    let magic = stat.f_type as u32;
    Ok(network_by_magic(magic))
}

#[cfg(target_os = "macos")]
pub(crate) fn network_file_system(handle: &Handle, _: &Path) -> io::Result<Option<&'static str>> {
    // SAFETY: a structure of integers, for which zeros are valid.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is writable and outlives the call.
    check(unsafe { libc::fstatfs(handle.fd(), &raw mut stat) })?;
    let local = stat.f_flags & u32::try_from(libc::MNT_LOCAL).unwrap_or(0) != 0;
    Ok((!local).then_some("a network file system"))
}

#[cfg(target_os = "illumos")]
pub(crate) fn network_file_system(handle: &Handle, _: &Path) -> io::Result<Option<&'static str>> {
    // SAFETY: a structure of integers, for which zeros are valid.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is writable and outlives the call.
    check(unsafe { libc::fstatvfs(handle.fd(), &raw mut stat) })?;
    let name: Vec<u8> =
        stat.f_basetype.iter().map(|letter| letter.cast_unsigned()).take_while(|byte| *byte != 0).collect();
    Ok(match name.as_slice() {
        b"nfs" | b"nfs3" | b"nfs4" => Some("NFS"),
        b"smbfs" => Some("SMB"),
        _ => None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{NETWORK, network_by_magic};

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        for (at, (magic, name)) in NETWORK.iter().enumerate() {
            assert_eq!(network_by_magic(*magic), Some(*name));
            assert!(NETWORK[at + 1..].iter().all(|(other, _)| other != magic), "{magic:#x}");
        }
        // ext4, xfs, btrfs, tmpfs, f2fs, zfs, overlay.
        for local in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0xF2F5_2010, 0x2FC1_2FC1, 0x794C_7630] {
            assert_eq!(network_by_magic(local), None, "{local:#x}");
        }
    }
}
