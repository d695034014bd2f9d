//! Windows holds a directory by the absolute path that it had when it was opened.
//!
//! NTFS journals names itself and offers no sync and no lock of a directory. There is no need of a lock: a lock file
//! that is open cannot be removed or renamed, because it is opened without `FILE_SHARE_DELETE`.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use windows_sys::Win32::Storage::FileSystem::{
    FILE_SHARE_READ, FILE_SHARE_WRITE, GetDriveTypeW, GetVolumePathNameW, MoveFileExW,
};
use windows_sys::Win32::System::WindowsProgramming::DRIVE_REMOTE;

use super::call::{check, wide};
use crate::directory::{Create, Entry, Locking, OpenHow, Permissions, not_regular};

/// Nothing is held: the path does.
#[derive(Debug)]
pub(crate) struct Handle;

pub(crate) fn open(path: &Path) -> io::Result<Handle> {
    let is_directory = std::fs::metadata(path)?.is_dir();
    if is_directory { Ok(Handle) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

pub(crate) fn make(path: &Path, _: Permissions) -> io::Result<()> {
    std::fs::create_dir(path)
}

pub(crate) fn start(path: &Path) -> io::Result<Handle> {
    open(path)
}

pub(crate) fn enter(_: &Handle, directory: &Path, name: &OsStr) -> io::Result<Handle> {
    open(&directory.join(name))
}

pub(crate) fn make_in(
    _: &Handle,
    directory: &Path,
    name: &OsStr,
    permissions: Permissions,
) -> io::Result<()> {
    make(&directory.join(name), permissions)
}

pub(crate) fn remove_directory(_: &Handle, directory: &Path, name: &OsStr) -> io::Result<()> {
    std::fs::remove_dir(directory.join(name))
}

/// Opens for writing what is there; whether it was reached by a link.
pub(crate) fn open_existing(_: &Handle, directory: &Path, name: &str) -> io::Result<(File, bool)> {
    let path = within(directory, name)?;
    let file = OpenOptions::new().write(true).open(&path)?;
    Ok((file, path.is_symlink()))
}

/// Whether this user made it: names are not guarded by their owners here.
#[expect(clippy::unnecessary_wraps, reason = "other systems look, and may fail")]
pub(crate) fn is_own(_: &Handle) -> io::Result<bool> {
    Ok(true)
}

/// There is no root here.
#[expect(clippy::unnecessary_wraps, reason = "other systems look, and may fail")]
pub(crate) fn refusal_for_root(_: &Handle) -> io::Result<Option<String>> {
    Ok(None)
}

/// The path of a name, which must be one name and not a path itself.
fn within(directory: &Path, name: &str) -> io::Result<PathBuf> {
    if name.contains(['/', '\\', ':']) {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    Ok(directory.join(name))
}

pub(crate) fn open_with(_: &Handle, directory: &Path, name: &str, how: OpenHow) -> io::Result<File> {
    let path = within(directory, name)?;
    if !matches!(how.create, Create::New(_)) {
        match std::fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => return Err(not_regular("a symbolic link")),
            Ok(metadata) if metadata.is_dir() => return Err(not_regular("a directory")),
            Ok(metadata) if !metadata.is_file() => return Err(not_regular("something else")),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let mut options = OpenOptions::new();
    options.read(true).write(how.write).custom_flags(how.flags.cast_unsigned());
    match how.create {
        Create::No => {}
        Create::Missing(_) => {
            options.create(true).truncate(false).share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE);
        }
        Create::New(_) => {
            options.create_new(true);
        }
    }
    options.open(path)
}

pub(crate) fn is_at(_: &Handle, path: &Path) -> io::Result<bool> {
    Ok(path.is_dir())
}

pub(crate) fn is_named(_: &Handle, _: &str, _: &File) -> io::Result<bool> {
    Ok(true)
}

pub(crate) fn list(_: &Handle, directory: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let bytes = match entry.metadata() {
            Ok(metadata) => metadata.len(),
            // A name may be renamed or removed by a writer before its turn comes.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if let Ok(name) = entry.file_name().into_string() {
            entries.push(Entry { name, bytes });
        }
    }
    Ok(entries)
}

pub(crate) fn rename_new(_: &Handle, directory: &Path, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (wide(&within(directory, from)?), wide(&within(directory, to)?));
    // SAFETY: both paths are zero-terminated and outlive the call. Without a flag nothing is replaced.
    check(unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), 0) })
}

pub(crate) fn link(_: &Handle, directory: &Path, from: &str, to: &str) -> io::Result<()> {
    std::fs::hard_link(within(directory, from)?, within(directory, to)?)
}

pub(crate) fn replace(_: &Handle, directory: &Path, from: &str, to: &str) -> io::Result<()> {
    std::fs::rename(within(directory, from)?, within(directory, to)?)
}

pub(crate) fn remove(_: &Handle, directory: &Path, name: &str) -> io::Result<()> {
    std::fs::remove_file(within(directory, name)?)
}

pub(crate) fn is_directory(_: &Handle, directory: &Path, name: &str) -> bool {
    let found = within(directory, name).and_then(std::fs::symlink_metadata);
    found.is_ok_and(|found| found.is_dir())
}

pub(crate) fn sync(_: &Handle) -> io::Result<()> {
    Ok(())
}

pub(crate) fn try_lock(_: &Handle, _: bool) -> io::Result<Locking> {
    Ok(Locking::Unavailable)
}

pub(crate) fn unlock(_: &Handle) -> io::Result<()> {
    Ok(())
}

pub(crate) fn network_file_system(_: &Handle, path: &Path) -> io::Result<Option<&'static str>> {
    let path = wide(path);
    let mut root = vec![0; path.len().max(264) + 1];
    let units_max = u32::try_from(root.len()).unwrap_or(u32::MAX);
    // SAFETY: the path is zero-terminated, and the buffer's length is passed with it.
    check(unsafe { GetVolumePathNameW(path.as_ptr(), root.as_mut_ptr(), units_max) })?;
    // SAFETY: the root is zero-terminated.
    let kind = unsafe { GetDriveTypeW(root.as_ptr()) };
    Ok((kind == DRIVE_REMOTE).then_some("a network drive"))
}
