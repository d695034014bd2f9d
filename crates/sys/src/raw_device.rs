//! Opens a raw block device exclusively for overwriting, if it is unused: [`RawDevice`].
//!
//! ```text
//!   refused if any of these has        the device   its partitions   the disk it is a partition of
//!   a mounted file system              x            x                x
//!   active swap                        x            x                x
//!   a holder (dm, md, bcache)          x            x                x
//!   a loop device on top               x            x                x
//!   an exclusive opener (EBUSY)        x            x                x
//! ```
//!
//! Invariants: nothing is written here; the exclusive descriptor is held as long as the [`RawDevice`] lives, so that
//! nothing can be mounted from the device meanwhile; a system that cannot report the users of a device refuses
//! every device.

use crate::error::{Error, Result};
use crate::{inspect, os};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes at the start of a device that are looked at for signatures.
const LOOKED_AT_BYTES: usize = 256 << 10;

/// A block device that is not in use, held exclusively.
#[derive(Debug)]
pub struct RawDevice {
    path: PathBuf,
    file: File,
    bytes: u64,
    description: String,
    contents: Vec<&'static str>,
}

impl RawDevice {
    /// Opens the block device `path` exclusively, for reading and writing, unless anything uses it.
    ///
    /// # Errors
    /// It is no block device, it is in use (the error names its users and mount points), or a call failed.
    pub fn open(path: &Path) -> Result<Self> {
        if !inspect::is_block_device(path)? {
            return Err(refused(
                path,
                "not a block device: name one, or leave the option away and name a folder",
            ));
        }
        let uses = os::raw_device::uses(path)?;
        if !uses.is_empty() {
            return Err(refused(
                path,
                &format!("in use, and overwriting it would destroy data: {}", uses.join("; ")),
            ));
        }
        let file = os::raw_device::open_exclusively(path)?;
        let bytes = os::raw_device::bytes(&file, path)?;
        let contents = signatures(&os::raw_device::start(&file, path, LOOKED_AT_BYTES)?);
        Ok(Self {
            path: path.to_path_buf(),
            description: os::raw_device::description(path),
            file,
            bytes,
            contents,
        })
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The exclusive descriptor.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Another handle of the same exclusive descriptor.
    ///
    /// # Errors
    /// The failed call.
    pub fn try_clone(&self) -> Result<Self> {
        let file = self.file.try_clone().map_err(|error| Error::new("dup", &self.path, error))?;
        let (path, description, contents) =
            (self.path.clone(), self.description.clone(), self.contents.clone());
        Ok(Self { path, file, bytes: self.bytes, description, contents })
    }

    /// What it is, in words: model and serial number, where the system reports them.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What is on it, as far as its first 256 KiB show: file systems, swap, volume managers, partition tables.
    #[must_use]
    pub fn contents(&self) -> &[&'static str] {
        &self.contents
    }
}

fn refused(path: &Path, why: &str) -> Error {
    Error::new("open", path, io::Error::new(io::ErrorKind::ResourceBusy, why.to_owned()))
}

/// A signature: what it shows, where it is, and its bytes.
type Signature = (&'static str, usize, &'static [u8]);

#[rustfmt::skip]
const SIGNATURES: [Signature; 22] = [
    ("ext2, ext3 or ext4",     1024 + 56,    &[0x53, 0xEF]),
    ("xfs",                    0,            b"XFSB"),
    ("btrfs",                  0x1_0040,     b"_BHRfS_M"),
    ("swap",                   4096 - 10,    b"SWAPSPACE2"),
    ("swap",                   0x1_0000 - 10, b"SWAPSPACE2"),
    ("LVM physical volume",    0,            b"LABELONE"),
    ("LVM physical volume",    512,          b"LABELONE"),
    ("LVM physical volume",    1024,         b"LABELONE"),
    ("LVM physical volume",    1536,         b"LABELONE"),
    ("LUKS",                   0,            b"LUKS\xBA\xBE"),
    ("md RAID member",         0,            &[0xFC, 0x4E, 0x2B, 0xA9]),
    ("md RAID member",         4096,         &[0xFC, 0x4E, 0x2B, 0xA9]),
    ("GPT partition table",    512,          b"EFI PART"),
    ("GPT partition table",    4096,         b"EFI PART"),
    ("NTFS",                   3,            b"NTFS    "),
    ("exFAT",                  3,            b"EXFAT   "),
    ("FAT",                    82,           b"FAT32   "),
    ("FAT",                    54,           b"FAT1"),
    ("f2fs",                   1024,         &[0x10, 0x20, 0xF5, 0xF2]),
    ("squashfs",               0,            b"hsqs"),
    ("bcache",                 4096 + 24,    &[0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA]),
    ("ZFS pool member",        0x2_0000,     &[0x0C, 0xB1, 0xBA, 0x00, 0, 0, 0, 0]),
];

/// What the first bytes of a device show.
fn signatures(start: &[u8]) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    for (name, at, bytes) in SIGNATURES {
        if start.get(at..at + bytes.len()) == Some(bytes) && !found.contains(&name) {
            found.push(name);
        }
    }
    // The signature of a boot sector alone is FAT's and NTFS's too.
    let has_entry = start.get(446..510).is_some_and(|entries| entries.chunks(16).any(|entry| entry[4] != 0));
    if found.is_empty() && has_entry && start.get(510..512) == Some(&[0x55, 0xAA]) {
        found.push("MBR partition table");
    }
    if found.is_empty() && start.iter().any(|byte| *byte != 0) {
        found.push("data of an unknown kind");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_found_where_it_is_and_zeros_are_nothing() {
        for (name, at, bytes) in SIGNATURES {
            let mut start = vec![0; LOOKED_AT_BYTES];
            start[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(signatures(&start), [name]);
            assert_eq!(signatures(&start[..at]), Vec::<&str>::new(), "a device too small for it");
        }
        assert_eq!(signatures(&vec![0; LOOKED_AT_BYTES]), Vec::<&str>::new());
        assert_eq!(signatures(&[7; 4096]), ["data of an unknown kind"]);
        let mut mbr = vec![0; 512];
        (mbr[450], mbr[510], mbr[511]) = (0x83, 0x55, 0xAA);
        assert_eq!(signatures(&mbr), ["MBR partition table"]);
    }

    #[test]
    fn a_file_is_no_device() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let refusal = RawDevice::open(file.path()).expect_err("no device").to_string();
        assert!(refusal.contains("not a block device"), "{refusal}");
    }
}
