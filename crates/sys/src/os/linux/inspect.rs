//! Linux: inspects a path by `/proc/self/mountinfo`, `/sys` and a few system calls.
//!
//! | module | what it does |
//! | --- | --- |
//! | `roots` | reads `/proc` and `/sys` below roots that a test can move |
//! | `mounts` | finds the mount of a path |
//! | `kinds` | looks up a file system's properties by its name |
//! | `stack` | walks from a mount down to the leaf disks |
//! | `devices` | describes one block device |
//! | `machine`, `hypervisor` | describe the machine and its hypervisor |
//! | `lies` | detects layers that ignore syncs |
//! | `limits` | reads the limits of control groups |
//! | `ext4` | finds what the superblock of ext4 says and the mount table does not |
//! | `tools` | runs the tools of ZFS and `dm` for what no file shows |
//! | `calls` | makes the system calls |
//!
//! Invariants: the only failures are those of the path itself; every other unknown is `None` or `Unknown`; reading
//! and judging are separate, so that a test can put a made-up `/proc` and `/sys` in place.

mod calls;
mod devices;
mod ext4;
mod hypervisor;
mod kinds;
mod lies;
mod limits;
mod machine;
mod mounts;
mod roots;
mod stack;
#[cfg(test)]
mod tests;
mod tools;

pub(in crate::os) use calls::magic_of;
pub(in crate::os) use devices::{disk_folder, is_partition, name};
pub(in crate::os) use roots::{names, text};

use crate::commit::again;
use crate::error::{Error, Result};
use crate::inspect::{Device, Environment, FileSystem, FoundLie, Pressure};
use mounts::{Key, Mount};
use roots::Roots;
use stack::{Below, Walk};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

pub(crate) fn environment(path: &Path) -> Result<Environment> {
    let roots = live();
    let metadata = again(|| fs::metadata(path)).map_err(|error| Error::new("stat", path, error))?;
    let mounts = mounts::parse(&roots.proc_text("self/mountinfo").unwrap_or_default());
    let under = if metadata.file_type().is_block_device() {
        under_device(&roots, &mounts, path, stack::split(metadata.rdev()))
    } else {
        under_folder(&roots, &mounts, path, &metadata)?
    };
    Ok(on_this_machine(&roots, &mounts, under))
}

pub(crate) fn boot() -> Option<String> {
    live().proc_text("sys/kernel/random/boot_id")
}

/// The boot, and the mount in it.
pub(crate) fn mount_instance(path: &Path) -> Option<String> {
    Some(format!("{} {}", boot()?, calls::mount_id(path, &live().proc)?))
}

pub(crate) fn pressure() -> Pressure {
    machine::pressure(&live())
}

/// The name of the network file system on which a directory lies; `None` for a local one.
pub(in crate::os) fn network_file_system(directory: &File) -> io::Result<Option<&'static str>> {
    Ok(kinds::network_by_magic(magic_of(directory)?))
}

/// The places and questions of this system.
fn live() -> Roots {
    Roots {
        root: "/".into(),
        proc: "/proc".into(),
        sys: "/sys".into(),
        attributes: calls::attributes,
        zfs_sync: tools::sync_property,
        zpool_status: tools::pool_status,
        dm_table: tools::dm_table,
    }
}

/// A mount, as far as it shows the use of a device.
#[derive(Debug, Clone)]
pub(crate) struct Mounted {
    pub(crate) device: (u32, u32),
    pub(crate) kind: String,
    pub(crate) source: PathBuf,
    pub(crate) point: PathBuf,
}

pub(crate) fn all_mounted() -> Vec<Mounted> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = |Mount { device, kind, source, point, .. }| Mounted { device, kind, source, point };
    mounts::parse(&table).into_iter().map(mounted).collect()
}

/// The folder of a block device in `/sys/devices`.
pub(crate) fn block_folder((major, minor): (u32, u32)) -> Option<PathBuf> {
    fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

/// What a path stands on.
struct Under {
    file_system: FileSystem,
    devices: Vec<Device>,
    lies: Vec<FoundLie>,
}

fn under_folder(roots: &Roots, mounts: &[Mount], path: &Path, metadata: &Metadata) -> Result<Under> {
    let space = calls::space(path)?;
    let real = again(|| fs::canonicalize(path)).map_err(|error| Error::new("realpath", path, error))?;
    let device = stack::split(metadata.dev());
    let key = Key { id: calls::mount_id(path, &roots.proc), device: Some(device), path: &real };
    let mut walk = Walk::new(roots, mounts);
    let unlisted = Mount::unlisted(device, kinds::name_by_magic(calls::magic(path)));
    let mount = mounts::find(mounts, &key).unwrap_or(&unlisted);
    let below = walk.mount(mount, &real);
    let file_system = FileSystem {
        read_only: space.read_only || mount.is_read_only(),
        block_bytes: space.block_bytes,
        free_bytes: space.free_bytes,
        total_bytes: space.total_bytes,
        ..mounted(mount, below)
    };
    Ok(Under { file_system, devices: walk.devices, lies: walk.lies })
}

/// What the mount table and the walk show, without the sizes, which only a call returns.
fn mounted(mount: &Mount, below: Below) -> FileSystem {
    FileSystem {
        kind: mount.kind.clone(),
        source: mount.source.to_string_lossy().into_owned(),
        options: mount.options(),
        medium: below.medium,
        copy_on_write: below.copy_on_write,
        shares_extents: below.shares_extents,
        weak_calls: below.weak_calls,
        synchronous: below.synchronous,
        read_only: mount.is_read_only(),
        block_bytes: 0,
        free_bytes: 0,
        total_bytes: 0,
    }
}

/// A device without a file system: all of it is there to be written.
fn under_device(roots: &Roots, mounts: &[Mount], path: &Path, number: (u32, u32)) -> Under {
    let mut walk = Walk::new(roots, mounts);
    let below = walk.device(number).unwrap_or(stack::UNKNOWN);
    let top = walk.devices.first();
    let bytes = top.and_then(|device| device.bytes).unwrap_or(0);
    let folder = roots.block_by_number(number);
    let whole = Mount { source: path.to_owned(), ..Mount::unlisted(number, "block device") };
    let file_system = FileSystem {
        options: Vec::new(),
        read_only: folder.and_then(|folder| roots::number(&folder.join("ro"))) == Some(1),
        block_bytes: top.and_then(|device| device.logical_block_bytes).unwrap_or(512),
        free_bytes: bytes,
        total_bytes: bytes,
        ..mounted(&whole, below)
    };
    Under { file_system, devices: walk.devices, lies: walk.lies }
}

fn on_this_machine(roots: &Roots, mounts: &[Mount], under: Under) -> Environment {
    let cpuinfo = roots.proc_text("cpuinfo").unwrap_or_default();
    let leaves = under.devices.iter().filter(|device| device.stands_on.is_empty());
    let transports = leaves.map(|device| device.transport.clone().unwrap_or_default()).collect();
    let own = std::env::var("container").ok();
    let first = || machine::container_variable(&fs::read(roots.proc.join("1/environ")).ok()?);
    let said = own.or_else(first);
    let maps = roots.proc_text("self/maps");
    let preload = std::env::var("LD_PRELOAD").ok();
    let mut lies = under.lies;
    let limits = limits::limits(roots, mounts, &under.devices);
    lies.extend(lies::of_process(maps.as_deref(), preload.as_deref(), calls::swallowed_syncs()));
    Environment {
        system: machine::system(roots),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        cpu_model: machine::cpu_model(&cpuinfo),
        memory_bytes: roots.proc_text("meminfo").as_deref().and_then(machine::memory_bytes),
        hypervisor: hypervisor::name(&hypervisor::signs(roots, &cpuinfo, transports)),
        container: machine::container(roots, mounts, said.as_deref()),
        wine: None,
        pressure: machine::pressure(roots),
        clock: crate::clock::resolution(),
        file_system: under.file_system,
        devices: under.devices,
        lies,
        writeback: machine::writeback(roots),
        limits,
    }
}
