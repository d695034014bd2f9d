//! Windows: finds the volume of a path and describes its file system.
//!
//! Invariant: under Wine the file system's name and flags are ignored, because Wine reports `NTFS` for everything
//! that it does not recognise as FAT or a CD; and a root is never taken for a folder, because Wine's `Z:` is all of
//! the host's mounts.

use super::call::{check, narrow, wide};
use super::storage::Disk;
use super::wine::Mount;
use crate::durability::{Medium, WeakCalls};
use crate::error::{Error, Result};
use crate::inspect::FileSystem;
use std::path::{Path, PathBuf};
use windows_sys::Win32::Storage::FileSystem::{
    GetDiskFreeSpaceExW, GetDiskFreeSpaceW, GetDriveTypeW, GetVolumeInformationW,
    GetVolumeNameForVolumeMountPointW, GetVolumePathNameW,
};
use windows_sys::Win32::System::SystemServices::{
    FILE_DAX_VOLUME, FILE_READ_ONLY_VOLUME, FILE_SUPPORTS_BLOCK_REFCOUNTING, FILE_SUPPORTS_INTEGRITY_STREAMS,
    FILE_SUPPORTS_SPARSE_FILES, FILE_VOLUME_IS_COMPRESSED,
};
use windows_sys::Win32::System::WindowsProgramming::{DRIVE_RAMDISK, DRIVE_REMOTE};

/// The flags of `GetVolumeInformationW` that matter to a journal, in words.
const FLAGS: [(u32, &str); 6] = [
    (FILE_READ_ONLY_VOLUME, "read-only"),
    (FILE_VOLUME_IS_COMPRESSED, "compressed"),
    (FILE_SUPPORTS_SPARSE_FILES, "sparse-files"),
    (FILE_SUPPORTS_INTEGRITY_STREAMS, "integrity-streams"),
    (FILE_SUPPORTS_BLOCK_REFCOUNTING, "block-cloning"),
    (FILE_DAX_VOLUME, "dax"),
];

pub(super) struct Volume {
    /// The folder that was asked for, after symbolic links.
    pub(super) folder: PathBuf,
    /// Where it is mounted, with a backslash at the end: `C:\`, `\\server\share\`, a folder.
    pub(super) root: PathBuf,
    /// Its name for devices (`\\?\Volume{…}` or `\\.\C:`); `None` for what is on no disk of this machine.
    pub(super) device: Option<String>,
}

/// The volume that `path` is on, after symbolic links and mounted folders.
pub(super) fn of(path: &Path) -> Result<Volume> {
    // A volume without a letter has no final path in letters: then the path as given must do.
    std::fs::metadata(path).map_err(|error| Error::new("GetFileAttributesExW", path, error))?;
    let real = std::fs::canonicalize(path).map(|real| without_prefix(&real));
    let real = match real {
        Ok(real) => real,
        Err(_) => std::path::absolute(path).map_err(|error| Error::new("GetFullPathNameW", path, error))?,
    };
    let mut root = vec![0; wide(&real).len().max(264) + 1];
    let units_max = u32::try_from(root.len()).unwrap_or(u32::MAX);
    // SAFETY: the path is zero-terminated, and the buffer's length is passed with it.
    check(unsafe { GetVolumePathNameW(wide(&real).as_ptr(), root.as_mut_ptr(), units_max) })
        .map_err(|error| Error::new("GetVolumePathNameW", path, error))?;
    // The other calls want a backslash at the end, which Wine leaves out.
    let root = PathBuf::from(narrow(&root)).join("");
    let device = device(&root);
    Ok(Volume { folder: real, root, device })
}

/// `\\?\C:\x` as `C:\x` and `\\?\UNC\s\x` as `\\s\x`, because the volume calls want them so.
fn without_prefix(path: &Path) -> PathBuf {
    let Some(text) = path.to_str() else { return path.to_path_buf() };
    match text.strip_prefix(r"\\?\") {
        Some(rest) if rest.starts_with(r"UNC\") => PathBuf::from(format!(r"\\{}", &rest[4..])),
        Some(rest) if rest.as_bytes().get(1) == Some(&b':') => PathBuf::from(rest),
        _ => path.to_path_buf(),
    }
}

fn device(root: &Path) -> Option<String> {
    let mut name = [0; 64];
    // SAFETY: the root is zero-terminated and ends in a backslash, and the buffer's length is passed with it.
    let named =
        check(unsafe { GetVolumeNameForVolumeMountPointW(wide(root).as_ptr(), name.as_mut_ptr(), 64) });
    if named.is_ok() {
        return Some(narrow(&name).trim_end_matches('\\').to_owned());
    }
    let drive = root.to_str()?.strip_suffix('\\')?;
    (drive.len() == 2 && drive.ends_with(':')).then(|| format!(r"\\.\{drive}"))
}

impl Volume {
    /// The file system, as Windows reports it.
    pub(super) fn file_system(&self, disks: &[Disk]) -> Result<FileSystem> {
        let (kind, flags) = self.information()?;
        let (free_bytes, total_bytes) = self.space()?;
        Ok(FileSystem {
            // ReFS writes file data to new blocks only in files with integrity streams, and which file will be
            // one is decided at its making: the careful answer is that all are.
            copy_on_write: kind == "ReFS",
            shares_extents: kind == "ReFS",
            weak_calls: WeakCalls::default(),
            synchronous: false,
            kind,
            source: self.device.clone().unwrap_or_else(|| self.root.display().to_string()),
            options: FLAGS
                .iter()
                .filter(|(bit, _)| flags & bit != 0)
                .map(|(_, name)| (*name).to_owned())
                .collect(),
            medium: self.medium(disks),
            read_only: flags & FILE_READ_ONLY_VOLUME != 0,
            block_bytes: self.cluster_bytes()?,
            free_bytes,
            total_bytes,
        })
    }

    /// The file system under Wine: the host's where it shows, and sizes only where it does not.
    pub(super) fn file_system_under_wine(&self, mount: Option<&Mount>) -> Result<FileSystem> {
        let (free_bytes, total_bytes) = self.space()?;
        Ok(FileSystem {
            kind: mount.map_or_else(|| "unknown (hidden by Wine)".to_owned(), |mount| mount.kind.clone()),
            source: mount.map_or_else(|| self.root.display().to_string(), |mount| mount.source.clone()),
            options: mount.map_or_else(Vec::new, |mount| mount.options.clone()),
            medium: mount.map_or(Medium::Unknown, Mount::medium),
            copy_on_write: mount.is_some_and(Mount::copies_on_write),
            shares_extents: mount.is_some_and(Mount::copies_on_write),
            weak_calls: WeakCalls::default(),
            synchronous: false,
            read_only: mount.is_some_and(|mount| mount.options.iter().any(|option| option == "ro")),
            block_bytes: self.cluster_bytes()?,
            free_bytes,
            total_bytes,
        })
    }

    fn medium(&self, disks: &[Disk]) -> Medium {
        // SAFETY: the root is zero-terminated and ends in a backslash.
        match unsafe { GetDriveTypeW(wide(&self.root).as_ptr()) } {
            DRIVE_REMOTE => Medium::Server,
            DRIVE_RAMDISK => Medium::Memory,
            _ if disks.is_empty() => Medium::Unknown,
            _ => Medium::Block,
        }
    }

    /// Its name and flags.
    fn information(&self) -> Result<(String, u32)> {
        let mut kind = [0; 64];
        let mut flags = 0;
        let none = std::ptr::null_mut();
        // SAFETY: the root is zero-terminated and ends in a backslash; the buffer's length is passed with it,
        // and what is not wanted is null.
        let done = check(unsafe {
            GetVolumeInformationW(
                wide(&self.root).as_ptr(),
                none,
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                &raw mut flags,
                kind.as_mut_ptr(),
                64,
            )
        });
        done.map_err(|error| Error::new("GetVolumeInformationW", &self.root, error))?;
        Ok((narrow(&kind), flags))
    }

    /// Bytes free to this user, and in all.
    fn space(&self) -> Result<(u64, u64)> {
        // A server's share is taken only with a backslash at the end.
        let folder = wide(&self.folder.join(""));
        let (mut free, mut total) = (0, 0);
        // SAFETY: the path is zero-terminated, the pointers are to live locals, and what is not wanted is null.
        let done = check(unsafe {
            GetDiskFreeSpaceExW(folder.as_ptr(), &raw mut free, &raw mut total, std::ptr::null_mut())
        });
        done.map_err(|error| Error::new("GetDiskFreeSpaceExW", &self.folder, error))?;
        Ok((free, total))
    }

    fn cluster_bytes(&self) -> Result<u64> {
        let [mut sectors, mut sector_bytes, mut free, mut total] = [0; 4];
        // SAFETY: the root is zero-terminated and ends in a backslash; the pointers are to live locals.
        let done = check(unsafe {
            GetDiskFreeSpaceW(
                wide(&self.root).as_ptr(),
                &raw mut sectors,
                &raw mut sector_bytes,
                &raw mut free,
                &raw mut total,
            )
        });
        done.map_err(|error| Error::new("GetDiskFreeSpaceW", &self.root, error))?;
        Ok(u64::from(sectors) * u64::from(sector_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_go_and_other_paths_stay() {
        for (given, expected) in [
            (r"\\?\C:\a\b", r"C:\a\b"),
            (r"\\?\UNC\server\share\a", r"\\server\share\a"),
            (r"\\?\Volume{0}\a", r"\\?\Volume{0}\a"),
            (r"D:\a", r"D:\a"),
        ] {
            assert_eq!(without_prefix(Path::new(given)), Path::new(expected));
        }
    }
}
