//! Unix systems hold a directory by a descriptor, from which every name is looked up.
//!
//! Invariants: no descriptor is inherited by programs that are started; what a signal interrupts is called again, each call by
//! itself, so that many signals do not begin a long list again; `O_NONBLOCK` is there while a file is opened, so
//! that a FIFO does not block, and is gone afterwards, because `io_uring` would give up writes that had to wait.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{opened, repeat};
use crate::commit::again;
use crate::directory::{Create, Entry, Locking, OpenHow, Permissions, not_regular};

#[derive(Debug)]
pub(crate) struct Handle(File);

/// How a directory is opened to be listed, locked and synced.
const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// How it is opened to reach what is in it: where the system can, without the right to list it.
#[cfg(target_os = "linux")]
const REACH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const REACH: OFlags = LIST;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

pub(crate) fn open(path: &Path) -> io::Result<Handle> {
    opened(|| rustix::fs::openat(CWD, path, LIST, Mode::empty())).map(Handle)
}

/// Opens the directory at which a path begins.
pub(crate) fn start(path: &Path) -> io::Result<Handle> {
    opened(|| rustix::fs::openat(CWD, path, REACH, Mode::empty())).map(Handle)
}

pub(crate) fn make(path: &Path, permissions: Permissions) -> io::Result<()> {
    repeat(|| rustix::fs::mkdirat(CWD, path, mode(permissions.directory_mode())))
}

fn mode(bits: u32) -> Mode {
    #[allow(clippy::useless_conversion, reason = "16 bits on macOS")]
    Mode::from_bits_retain(bits.try_into().unwrap_or(0o700))
}

/// One name, which is no path.
fn one(name: &(impl AsRef<OsStr> + ?Sized)) -> io::Result<&OsStr> {
    let name = name.as_ref();
    let is_odd = name.as_bytes().iter().any(|byte| matches!(byte, b'/' | 0));
    if is_odd { Err(io::ErrorKind::InvalidFilename.into()) } else { Ok(name) }
}

/// Whether a link of this owner in the directory may be followed: nobody but this user and root can have made it.
fn follows(directory: &Metadata, link_owner: u32) -> bool {
    let (user, mode) = (geteuid().as_raw(), directory.mode());
    let own = |owner: u32| owner == user || owner == 0;
    // Many systems give every user a group of their own, but none but root is in root's.
    let others = if user == 0 { GROUP_WRITES | OTHERS_WRITE } else { OTHERS_WRITE };
    own(directory.uid()) && (mode & others == 0 || (mode & STICKY != 0 && own(link_owner)))
}

/// The flag that keeps a link from being followed, or none if it is one that may be.
fn no_follow(handle: &Handle, name: &OsStr) -> io::Result<OFlags> {
    let stat = handle.stat(name)?;
    if kind(&stat) != FileType::Symlink {
        return Ok(OFlags::NOFOLLOW);
    }
    if follows(&handle.metadata()?, stat.st_uid) {
        return Ok(OFlags::empty());
    }
    let name = name.to_string_lossy();
    Err(io::Error::other(format!(
        "{name} is a link in a folder in which another user can put one: name what it leads to"
    )))
}

pub(crate) fn enter(handle: &Handle, _: &Path, name: &OsStr) -> io::Result<Handle> {
    let name = one(name)?;
    handle.open(name, REACH | no_follow(handle, name)?, Mode::empty()).map(Handle)
}

pub(crate) fn make_in(handle: &Handle, _: &Path, name: &OsStr, permissions: Permissions) -> io::Result<()> {
    let name = one(name)?;
    repeat(|| rustix::fs::mkdirat(&handle.0, name, mode(permissions.directory_mode())))
}

/// Removes a directory in it, which must be empty.
pub(crate) fn remove_directory(handle: &Handle, _: &Path, name: &OsStr) -> io::Result<()> {
    let name = one(name)?;
    repeat(|| rustix::fs::unlinkat(&handle.0, name, AtFlags::REMOVEDIR))
}

/// Opens for writing what is there, of whatever kind, and without waiting for a reader of a pipe; whether it was
/// reached by a link.
pub(crate) fn open_existing(handle: &Handle, _: &Path, name: &str) -> io::Result<(File, bool)> {
    let name = one(name)?;
    let link = no_follow(handle, name)?;
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | link;
    let file = handle.open(name, flags, Mode::empty())?;
    block(&file)?;
    let metadata = metadata(&file)?;
    if metadata.is_file() && metadata.nlink() > 1 && !follows(&handle.metadata()?, metadata.uid()) {
        return Err(io::Error::other(
            "it has another name too, and another user can have given it this one: name another file",
        ));
    }
    Ok((file, link.is_empty()))
}

pub(crate) fn is_own(handle: &Handle) -> io::Result<bool> {
    Ok(handle.metadata()?.uid() == geteuid().as_raw())
}

/// Why root should keep nothing in it.
pub(crate) fn refusal_for_root(handle: &Handle) -> io::Result<Option<String>> {
    let metadata = handle.metadata()?;
    let (owner, mode) = (metadata.uid(), metadata.mode());
    Ok(if !geteuid().is_root() {
        None
    } else if owner != 0 {
        Some(format!("it belongs to user {owner}, who could replace what root keeps in it"))
    } else if mode & (GROUP_WRITES | OTHERS_WRITE) != 0 && mode & STICKY == 0 {
        Some("other users can write to it, and could replace what root keeps in it".to_owned())
    } else {
        None
    })
}

impl Handle {
    fn metadata(&self) -> io::Result<Metadata> {
        metadata(&self.0)
    }

    /// What a name stands for, links not followed.
    fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        repeat(|| rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW))
    }

    fn open(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<File> {
        opened(|| rustix::fs::openat(&self.0, name, flags, mode))
    }
}

fn metadata(file: &File) -> io::Result<Metadata> {
    again(|| file.metadata())
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn regular(kind: FileType) -> io::Result<()> {
    Err(not_regular(match kind {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::BlockDevice | FileType::CharacterDevice => "a device",
        FileType::Unknown => "something else",
    }))
}

pub(crate) fn open_with(handle: &Handle, _: &Path, name: &str, how: OpenHow) -> io::Result<File> {
    let name = one(name)?;
    let (create, permissions) = match how.create {
        Create::No => (OFlags::empty(), None),
        Create::Missing(permissions) => (OFlags::CREATE, Some(permissions)),
        Create::New(permissions) => (OFlags::CREATE | OFlags::EXCL, Some(permissions)),
    };
    // Looked at first, because opening alone does something to some devices.
    if !matches!(how.create, Create::New(_)) {
        match handle.stat(name) {
            Ok(stat) => regular(kind(&stat))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let access = if how.write { OFlags::RDWR } else { OFlags::RDONLY };
    let fixed = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = access | create | fixed | OFlags::from_bits_retain(how.flags.cast_unsigned());
    let file = handle.open(name, flags, mode(permissions.map_or(0, Permissions::file_mode)))?;
    regular(kind(&repeat(|| rustix::fs::fstat(&file))?))?;
    block(&file)?;
    Ok(file)
}

/// Takes `O_NONBLOCK` away.
fn block(file: &File) -> io::Result<()> {
    let flags = repeat(|| fcntl_getfl(file))?;
    repeat(|| fcntl_setfl(file, flags - OFlags::NONBLOCK))
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
    match handle.stat(one(name)?) {
        Ok(named) => Ok((named.st_dev as u64, named.st_ino as u64) == (opened.dev(), opened.ino())),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) fn list(handle: &Handle, _: &Path) -> io::Result<Vec<Entry>> {
    // It has a descriptor of its own, because the place of a stream belongs to the open directory.
    let own = handle.open(OsStr::new("."), LIST, Mode::empty())?;
    let mut entries = Vec::new();
    for entry in Dir::new(own)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match handle.stat(OsStr::from_bytes(name.to_bytes())) {
            Ok(stat) => {
                let bytes = u64::try_from(stat.st_size).unwrap_or(0);
                entries.extend(name.to_str().ok().map(|name| Entry { name: name.to_owned(), bytes }));
            }
            // A name may be renamed or removed by a writer before its turn comes.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(entries)
}

#[cfg(not(target_os = "illumos"))]
pub(crate) fn rename_new(handle: &Handle, _: &Path, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (one(from)?, one(to)?);
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    let renamed = repeat(|| rustix::fs::renameat_with(&handle.0, from, &handle.0, to, flags));
    renamed.map_err(|error| match Errno::from_io_error(&error) {
        // The call or its flag is unknown to the kernel or to the file system.
        Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => io::ErrorKind::Unsupported.into(),
        _ => error,
    })
}

/// illumos has no rename that leaves alone what is there.
#[cfg(target_os = "illumos")]
pub(crate) fn rename_new(_: &Handle, _: &Path, _: &str, _: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn link(handle: &Handle, _: &Path, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (one(from)?, one(to)?);
    let linked = repeat(|| rustix::fs::linkat(&handle.0, from, &handle.0, to, AtFlags::empty()));
    linked.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::NOSYS | Errno::NOTSUP) => io::Error::new(
            io::ErrorKind::Unsupported,
            "this file system can neither rename a file without replacing another one nor link it",
        ),
        _ => error,
    })
}

pub(crate) fn replace(handle: &Handle, _: &Path, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (one(from)?, one(to)?);
    repeat(|| rustix::fs::renameat(&handle.0, from, &handle.0, to))
}

pub(crate) fn remove(handle: &Handle, _: &Path, name: &str) -> io::Result<()> {
    let name = one(name)?;
    repeat(|| rustix::fs::unlinkat(&handle.0, name, AtFlags::empty()))
}

pub(crate) fn is_directory(handle: &Handle, _: &Path, name: &str) -> bool {
    let stat = one(name).and_then(|name| handle.stat(name));
    stat.is_ok_and(|stat| kind(&stat) == FileType::Directory)
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
        Err(TryLockError::Error(error)) => match Errno::from_io_error(&error) {
            Some(Errno::BADF | Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(Locking::Unavailable),
            _ if error.kind() == io::ErrorKind::Unsupported => Ok(Locking::Unavailable),
            _ => Err(error),
        },
    }
}

pub(crate) fn unlock(handle: &Handle) -> io::Result<()> {
    again(|| handle.0.unlock())
}

pub(crate) fn network_file_system(handle: &Handle, _: &Path) -> io::Result<Option<&'static str>> {
    again(|| crate::os::inspect::network_file_system(&handle.0))
}
