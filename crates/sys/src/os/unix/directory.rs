//! Unix systems hold a directory by a descriptor, from which every name is looked up.
//!
//! Invariants: no descriptor is inherited by programs that are started; what a signal interrupts is called again, each call by
//! itself, so that many signals do not begin a long list anew; `O_NONBLOCK` is there while a file is opened, so
//! that a FIFO does not block, and is gone afterwards, because `io_uring` would give up writes that had to wait.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd as _, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::{opened, repeat};
use crate::commit::again;
use crate::directory::{Create, Entry, Locking, OpenHow, Permissions, not_regular};
use crate::os::system::descriptor;

#[derive(Debug)]
pub(crate) struct Handle(File);

pub(crate) fn open(path: &Path) -> io::Result<Handle> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC);
    super::open_with(&options, path).map(Handle)
}

pub(crate) fn make(path: &Path, permissions: Permissions) -> io::Result<()> {
    again(|| DirBuilder::new().mode(permissions.directory_mode()).create(path))
}

fn c_name(name: impl AsRef<OsStr>) -> io::Result<CString> {
    let name = name.as_ref().as_bytes();
    if name.contains(&b'/') {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    CString::new(name).map_err(|_| io::ErrorKind::InvalidFilename.into())
}

/// How a directory is opened to reach what is in it: where the system can, without the right to list it.
#[cfg(target_os = "linux")]
const REACH: libc::c_int = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const REACH: libc::c_int = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

fn user() -> u32 {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::geteuid() }
}

/// Opens the directory at which a path begins.
pub(crate) fn start(path: &Path) -> io::Result<Handle> {
    super::open_with(OpenOptions::new().read(true).custom_flags(REACH), path).map(Handle)
}

/// Whether a link of this owner in the directory may be followed: nobody but this user and root can have made it.
fn follows(directory: &Metadata, link_owner: u32) -> bool {
    let (user, mode) = (user(), directory.mode());
    let own = |owner: u32| owner == user || owner == 0;
    // Many systems give every user a group of their own, but none but root is in root's.
    let others = if user == 0 { GROUP_WRITES | OTHERS_WRITE } else { OTHERS_WRITE };
    own(directory.uid()) && (mode & others == 0 || (mode & STICKY != 0 && own(link_owner)))
}

/// The flag that keeps a link from being followed, or 0 if it is one that may be.
fn no_follow(handle: &Handle, name: &CStr) -> io::Result<libc::c_int> {
    let stat = handle.stat(name)?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFLNK {
        return Ok(libc::O_NOFOLLOW);
    }
    if follows(&handle.metadata()?, stat.st_uid) {
        return Ok(0);
    }
    let name = name.to_string_lossy();
    Err(io::Error::other(format!(
        "{name} is a link in a folder in which another user can put one: name what it leads to"
    )))
}

pub(crate) fn enter(handle: &Handle, _: &Path, name: &OsStr) -> io::Result<Handle> {
    let name = c_name(name)?;
    let flags = REACH | no_follow(handle, &name)?;
    // SAFETY: the name is zero-terminated and outlives the call.
    opened(|| unsafe { libc::openat(handle.fd(), name.as_ptr(), flags) }).map(Handle)
}

pub(crate) fn make_in(handle: &Handle, _: &Path, name: &OsStr, permissions: Permissions) -> io::Result<()> {
    let name = c_name(name)?;
    let mode = permissions.directory_mode();
    #[cfg_attr(target_os = "linux", allow(clippy::useless_conversion, reason = "16 bits on macOS"))]
    let mode = libc::mode_t::try_from(mode).unwrap_or(0o700);
    // SAFETY: the name is zero-terminated and outlives the call.
    repeat(|| unsafe { libc::mkdirat(handle.fd(), name.as_ptr(), mode) }).map(drop)
}

/// Removes a directory in it, which must be empty.
pub(crate) fn remove_directory(handle: &Handle, _: &Path, name: &OsStr) -> io::Result<()> {
    let name = c_name(name)?;
    // SAFETY: the name is zero-terminated and outlives the call.
    repeat(|| unsafe { libc::unlinkat(handle.fd(), name.as_ptr(), libc::AT_REMOVEDIR) }).map(drop)
}

/// Opens for writing what is there, of whatever kind, and without waiting for a reader of a pipe; whether it was
/// reached by a link.
pub(crate) fn open_existing(handle: &Handle, _: &Path, name: &str) -> io::Result<(File, bool)> {
    let name = c_name(name)?;
    let link = no_follow(handle, &name)?;
    let flags = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC | link;
    // SAFETY: the name is zero-terminated and outlives the call.
    let file = opened(|| unsafe { libc::openat(handle.fd(), name.as_ptr(), flags) })?;
    block(&file)?;
    let metadata = metadata(&file)?;
    if metadata.is_file() && metadata.nlink() > 1 && !follows(&handle.metadata()?, metadata.uid()) {
        return Err(io::Error::other(
            "it has another name too, and another user can have given it this one: name another file",
        ));
    }
    Ok((file, link == 0))
}

pub(crate) fn is_own(handle: &Handle) -> io::Result<bool> {
    Ok(handle.metadata()?.uid() == user())
}

/// Why root should keep nothing in it.
pub(crate) fn refusal_for_root(handle: &Handle) -> io::Result<Option<String>> {
    let metadata = handle.metadata()?;
    let (owner, mode) = (metadata.uid(), metadata.mode());
    Ok(if user() != 0 {
        None
    } else if owner != 0 {
        Some(format!("it belongs to user {owner}, who could replace what root keeps in it"))
    } else if mode & (GROUP_WRITES | OTHERS_WRITE) != 0 && mode & STICKY == 0 {
        Some("other users can write to it, and could replace what root keeps in it".to_owned())
    } else {
        None
    })
}

pub(crate) fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let (one, other) = (metadata(one)?, metadata(other)?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

impl Handle {
    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn metadata(&self) -> io::Result<Metadata> {
        metadata(&self.0)
    }

    /// What a name stands for, links not followed.
    fn stat(&self, name: &CStr) -> io::Result<libc::stat> {
        // SAFETY: a structure of integers, for which zeros are valid.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: the name is zero-terminated and the structure writable; both outlive the call.
        repeat(|| unsafe { libc::fstatat(self.fd(), name.as_ptr(), &raw mut stat, flags) })?;
        Ok(stat)
    }
}

fn metadata(file: &File) -> io::Result<Metadata> {
    again(|| file.metadata())
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

pub(crate) fn open_with(handle: &Handle, _: &Path, name: &str, how: OpenHow) -> io::Result<File> {
    let name = c_name(name)?;
    let (create, permissions) = match how.create {
        Create::No => (0, None),
        Create::Missing(permissions) => (libc::O_CREAT, Some(permissions)),
        Create::New(permissions) => (libc::O_CREAT | libc::O_EXCL, Some(permissions)),
    };
    // Looked at first, because opening alone does something to some devices.
    if !matches!(how.create, Create::New(_)) {
        match handle.stat(&name) {
            Ok(stat) => regular(stat.st_mode)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let access = if how.write { libc::O_RDWR } else { libc::O_RDONLY };
    let flags = access | create | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC | how.flags;
    let mode = libc::c_uint::from(permissions.map_or(0, Permissions::file_mode));
    // SAFETY: the name is zero-terminated and outlives the call.
    let file = opened(|| unsafe { libc::openat(handle.fd(), name.as_ptr(), flags, mode) })?;
    let metadata = metadata(&file)?;
    #[cfg_attr(target_os = "linux", allow(clippy::useless_conversion, reason = "16 bits on macOS"))]
    let mode = libc::mode_t::try_from(metadata.mode()).unwrap_or(0);
    regular(mode)?;
    block(&file)?;
    Ok(file)
}

/// Takes `O_NONBLOCK` away.
fn block(file: &File) -> io::Result<()> {
    // SAFETY: takes integers only; a stale descriptor is an error, not undefined behaviour.
    let flags = repeat(|| unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: as above.
    repeat(|| unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) }).map(drop)
}

pub(crate) fn is_at(handle: &Handle, path: &Path) -> io::Result<bool> {
    match again(|| std::fs::metadata(path)) {
        Ok(there) => handle.metadata().map(|here| (here.dev(), here.ino()) == (there.dev(), there.ino())),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "these are signed on some systems")]
pub(crate) fn is_named(handle: &Handle, name: &str, file: &File) -> io::Result<bool> {
    let opened = metadata(file)?;
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

pub(crate) fn list(handle: &Handle, _: &Path) -> io::Result<Vec<Entry>> {
    // An own descriptor, because the place of a stream belongs to the open directory.
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the name is zero-terminated and static.
    let own = opened(|| unsafe { libc::openat(handle.fd(), c".".as_ptr(), flags) })?;
    // SAFETY: a descriptor of a directory, which the stream takes over if there is one.
    let open = || match unsafe { libc::fdopendir(own.as_raw_fd()) } {
        null if null.is_null() => Err(io::Error::last_os_error()),
        stream => Ok(stream),
    };
    let stream = again(open)?;
    let (stream, _) = (Stream(stream), own.into_raw_fd());
    let mut entries = Vec::new();
    // SAFETY: has no preconditions.
    let errno = unsafe { descriptor::errno_location() };
    loop {
        // SAFETY: the address of this thread's own error number; readdir(3) leaves it at 0 at the end of the stream.
        unsafe { errno.write(0) };
        // SAFETY: the stream is open and used by this thread alone.
        let entry = unsafe { libc::readdir(stream.0) };
        if entry.is_null() {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(0) => return Ok(entries),
                Some(libc::EINTR) => continue,
                _ => return Err(error),
            }
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

pub(crate) fn rename_new(handle: &Handle, _: &Path, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (c_name(from)?, c_name(to)?);
    again(|| descriptor::rename_new(handle.fd(), &from, &to)).map_err(|error| match error.raw_os_error() {
        // The call or its flag is unknown to the kernel or to the file system.
        Some(libc::EINVAL | libc::ENOSYS | libc::ENOTSUP) => io::ErrorKind::Unsupported.into(),
        _ => error,
    })
}

pub(crate) fn link(handle: &Handle, _: &Path, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (c_name(from)?, c_name(to)?);
    // SAFETY: both names are zero-terminated and outlive the call.
    let linked = repeat(|| unsafe { libc::linkat(handle.fd(), from.as_ptr(), handle.fd(), to.as_ptr(), 0) });
    linked.map(drop).map_err(|error| match error.raw_os_error() {
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
    repeat(|| unsafe { libc::renameat(handle.fd(), from.as_ptr(), handle.fd(), to.as_ptr()) }).map(drop)
}

pub(crate) fn remove(handle: &Handle, _: &Path, name: &str) -> io::Result<()> {
    let name = c_name(name)?;
    // SAFETY: the name is zero-terminated and outlives the call.
    repeat(|| unsafe { libc::unlinkat(handle.fd(), name.as_ptr(), 0) }).map(drop)
}

pub(crate) fn is_directory(handle: &Handle, _: &Path, name: &str) -> bool {
    let stat = c_name(name).and_then(|name| handle.stat(&name));
    stat.is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

pub(crate) fn sync(handle: &Handle) -> io::Result<()> {
    handle.0.sync_all()
}

pub(crate) fn try_lock(handle: &Handle, shared: bool) -> io::Result<Locking> {
    let mut tried = Ok(());
    again(|| {
        tried = if shared { handle.0.try_lock_shared() } else { handle.0.try_lock() };
        match &tried {
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {
                Err(error.kind().into())
            }
            _ => Ok(()),
        }
    })?;
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
    again(|| handle.0.unlock())
}

pub(crate) fn network_file_system(handle: &Handle, _: &Path) -> io::Result<Option<&'static str>> {
    again(|| descriptor::network_file_system(handle.fd()))
}
