//! illumos: inspects a path by statvfs(2) for the file system and mnttab(5) for its mount.
//!
//! Invariant: what belongs to a ZFS dataset and not to its mount (`sync`, `logbias`, a separate log device) is not
//! visible here: `sync=disabled` goes undetected, and a result must be judged together with `zfs get sync,logbias`.

use crate::commit::again;
use crate::durability::{Medium, WeakCalls};
use crate::error::{Error, Result};
use crate::inspect::{Device, Environment, FileSystem};
use crate::os::fallback::inspect::environment as environment_of;
pub(crate) use crate::os::fallback::inspect::{boot, mount_instance};
pub(crate) use crate::os::posix::inspect::pressure;
use crate::os::posix::inspect::system;
use crate::os::posix::text;
use crate::os::unix::check;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

const MNTTAB: &str = "/etc/mnttab";

pub(crate) fn environment(path: &Path) -> Result<Environment> {
    let file_system = file_system(path)?;
    Ok(Environment {
        memory_bytes: memory_bytes(),
        pressure: pressure(),
        devices: devices(&file_system),
        ..environment_of(system(), file_system)
    })
}

/// A line of mnttab(5): `special mount-point type options time`, apart by tabs.
struct Mount {
    source: String,
    options: Vec<String>,
}

fn file_system(path: &Path) -> Result<FileSystem> {
    let real = again(|| std::fs::canonicalize(path)).map_err(|error| Error::new("realpath", path, error))?;
    let for_c = CString::new(real.as_os_str().as_bytes())
        .map_err(|_| Error::new("realpath", path, io::ErrorKind::InvalidInput.into()))?;
    // SAFETY: all zeros is a valid `statvfs`.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is live and zero-terminated, the structure live and of the right type.
    check(unsafe { libc::statvfs(for_c.as_ptr(), &raw mut stat) })
        .map_err(|error| Error::new("statvfs", path, error))?;
    let table = std::fs::read_to_string(MNTTAB).map_err(|error| Error::new("read", MNTTAB, error))?;
    let kind = text(&stat.f_basetype);
    // A file system mounted since the table was read is in none of its lines: then the source stays unnamed.
    let mount = mount(&table, &real, &kind).unwrap_or(Mount { source: String::new(), options: Vec::new() });
    let block_bytes = stat.f_frsize;
    Ok(FileSystem {
        medium: medium(&kind),
        copy_on_write: kind == "zfs",
        shares_extents: kind == "zfs",
        weak_calls: WeakCalls::default(),
        synchronous: false,
        source: mount.source,
        options: mount.options,
        read_only: stat.f_flag & libc::ST_RDONLY != 0,
        block_bytes,
        free_bytes: stat.f_bavail.saturating_mul(block_bytes),
        total_bytes: stat.f_blocks.saturating_mul(block_bytes),
        kind,
    })
}

/// The mount of type `kind` with the longest mount point above `path`; the later of two alike, which hides the
/// earlier.
fn mount(table: &str, path: &Path, kind: &str) -> Option<Mount> {
    let lines = table.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let (source, point, of) = (fields.next()?, fields.next()?, fields.next()?);
        let options = fields.next().unwrap_or_default();
        (of == kind && path.starts_with(point)).then_some((point.len(), source, options))
    });
    let (_, source, options) = lines.max_by_key(|(length, ..)| *length)?;
    Some(Mount { source: source.to_owned(), options: options.split(',').map(str::to_owned).collect() })
}

fn medium(kind: &str) -> Medium {
    match kind {
        "tmpfs" => Medium::Memory,
        "nfs" | "nfs3" | "nfs4" | "smbfs" => Medium::Server,
        "zfs" | "ufs" | "pcfs" => Medium::Block,
        _ => Medium::Unknown,
    }
}

/// The name of the network file system on which a directory lies; `None` for a local one.
pub(in crate::os) fn network_file_system(directory: &File) -> io::Result<Option<&'static str>> {
    // SAFETY: a structure of integers, for which zeros are valid.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is writable and outlives the call.
    check(unsafe { libc::fstatvfs(directory.as_raw_fd(), &raw mut stat) })?;
    Ok((medium(&text(&stat.f_basetype)) == Medium::Server).then_some("a network file system"))
}

/// The pool or slice that is mounted; the disks under it are not reported.
fn devices(file_system: &FileSystem) -> Vec<Device> {
    let device = match file_system.kind.as_str() {
        "zfs" => file_system.source.split('/').next().map(|pool| Device::unknown(pool, "pool")),
        _ => file_system.source.strip_prefix("/dev/dsk/").map(|slice| Device::unknown(slice, "slice")),
    };
    device.into_iter().filter(|device| !device.name.is_empty()).collect()
}

fn memory_bytes() -> Option<u64> {
    // SAFETY: takes any integer; an unknown one is an error, not undefined behaviour.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    // SAFETY: takes any integer; an unknown one is an error, not undefined behaviour.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(pages).ok()?.checked_mul(u64::try_from(page_bytes).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_above_a_path_is_its_own() {
        let table = "rpool/ROOT/x\t/\tzfs\tdev=1,rw\t1\nswap\t/tmp\ttmpfs\txattr\t2\ntank/db\t/db\tzfs\tdev=2,rw,noatime\t3\n";
        let found = mount(table, Path::new("/db/journal"), "zfs").expect("a mount");
        assert_eq!((found.source.as_str(), found.options.len()), ("tank/db", 3));
        assert_eq!(mount(table, Path::new("/dbx"), "zfs").expect("a mount").source, "rpool/ROOT/x");
        assert!(mount(table, Path::new("/tmp"), "nfs").is_none());
    }
}
