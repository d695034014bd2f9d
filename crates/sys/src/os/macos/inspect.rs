//! macOS: inspects a path by statfs(2) for the file system and sysctl(3) for the machine.
//!
//! Invariant: a drive's write cache, which only the I/O Kit reports, is `Unknown`, which counts as volatile: Apple's
//! drives have one.

use crate::durability::{Medium, WeakCalls};
use crate::error::{Error, Result};
use crate::inspect::{Device, Environment, FileSystem};
use crate::os::fallback::cpuid;
use crate::os::fallback::inspect::environment as environment_of;
pub(crate) use crate::os::fallback::inspect::{boot, mount_instance};
pub(crate) use crate::os::posix::inspect::pressure;
use crate::os::posix::inspect::system;
use crate::os::posix::text;
use crate::os::unix::{check, repeat};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::path::Path;

/// The mount flags of statfs(2) that matter to a journal, in words.
const FLAGS: [(libc::c_int, &str); 7] = [
    (libc::MNT_RDONLY, "read-only"),
    (libc::MNT_SYNCHRONOUS, "synchronous"),
    (libc::MNT_ASYNC, "asynchronous"),
    (libc::MNT_LOCAL, "local"),
    (libc::MNT_JOURNALED, "journaled"),
    (libc::MNT_NOATIME, "noatime"),
    (libc::MNT_SNAPSHOT, "snapshot"),
];

pub(crate) fn environment(path: &Path) -> Result<Environment> {
    let file_system = file_system(path)?;
    Ok(Environment {
        memory_bytes: sysctl(c"hw.memsize")
            .and_then(|answer| answer.first_chunk().map(|n| u64::from_le_bytes(*n))),
        hypervisor: hypervisor(),
        pressure: pressure(),
        devices: devices(&file_system),
        cpu_model: sysctl_text(c"machdep.cpu.brand_string").or_else(cpuid::brand),
        ..environment_of(system(), file_system)
    })
}

fn file_system(path: &Path) -> Result<FileSystem> {
    let stat = repeat(|| rustix::fs::statfs(path)).map_err(|error| Error::new("statfs", path, error))?;
    let has = |flag: libc::c_int| stat.f_flags & flag.cast_unsigned() != 0;
    let kind = text(&stat.f_fstypename);
    let block_bytes = u64::from(stat.f_bsize);
    Ok(FileSystem {
        source: text(&stat.f_mntfromname),
        options: FLAGS.iter().filter(|(flag, _)| has(*flag)).map(|(_, name)| (*name).to_owned()).collect(),
        medium: medium(&kind, &text(&stat.f_mntfromname), has(libc::MNT_LOCAL)),
        // APFS overwrites in place what no clone or snapshot shares, and whether one does is not reported.
        copy_on_write: kind == "apfs",
        shares_extents: kind == "apfs",
        weak_calls: WeakCalls::default(),
        synchronous: false,
        read_only: has(libc::MNT_RDONLY),
        block_bytes,
        free_bytes: stat.f_bavail.saturating_mul(block_bytes),
        total_bytes: stat.f_blocks.saturating_mul(block_bytes),
        kind,
    })
}

/// The name of the network file system on which a directory lies; `None` for a local one.
pub(in crate::os) fn network_file_system(directory: &File) -> io::Result<Option<&'static str>> {
    let flags = rustix::fs::fstatfs(directory)?.f_flags;
    Ok((flags & libc::MNT_LOCAL.cast_unsigned() == 0).then_some("a network file system"))
}

fn medium(kind: &str, source: &str, local: bool) -> Medium {
    if kind == "tmpfs" {
        Medium::Memory
    } else if !local {
        Medium::Server
    } else if source.starts_with("/dev/") {
        Medium::Block
    } else {
        Medium::Unknown
    }
}

/// The mounted device alone: only the I/O Kit reports what it stands on.
fn devices(file_system: &FileSystem) -> Vec<Device> {
    let name = file_system.source.strip_prefix("/dev/");
    name.map(|name| Device::unknown(name, "volume")).into_iter().collect()
}

/// The hypervisor's name where the CPU reports it, `unnamed` where only the kernel reports one.
fn hypervisor() -> Option<String> {
    let present =
        sysctl(c"kern.hv_vmm_present").is_some_and(|answer| answer.first().is_some_and(|n| *n != 0));
    cpuid::hypervisor().or_else(|| present.then(|| "unnamed".to_owned()))
}

fn sysctl_text(name: &CStr) -> Option<String> {
    let answer = sysctl(name)?;
    let text = answer.split(|byte| *byte == 0).next()?;
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

/// The bytes that sysctl(3) answers; `None` if this kernel does not know the name.
fn sysctl(name: &CStr) -> Option<Vec<u8>> {
    let mut answer = vec![0_u8; 256];
    let mut filled = answer.len();
    // SAFETY: the name is zero-terminated, the buffer live, and its length passed with it; nothing is set.
    let code = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            answer.as_mut_ptr().cast(),
            &raw mut filled,
            std::ptr::null_mut(),
            0,
        )
    };
    check(code).ok()?;
    answer.truncate(filled);
    Some(answer)
}
