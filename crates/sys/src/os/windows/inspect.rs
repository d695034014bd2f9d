//! Windows: inspects a path, and recognises Wine.
//!
//! Invariants: Wine is recognised by an export that only its ntdll has; under it no disk is listed, because Wine
//! invents one for each letter, and promises made by flags are reported as a lie.

use super::ntdll;
use super::storage::{self, Disk};
use super::volume::{self, Volume};
use super::wine::{self, Mount};
use crate::durability::Lie;
use crate::error::Result;
use crate::inspect::{Device, Environment, FoundLie};
use crate::os::fallback::inspect::environment as environment_of;
pub(crate) use crate::os::fallback::inspect::{boot, mount_instance, pressure};
use std::path::Path;
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};

pub(crate) fn environment(path: &Path) -> Result<Environment> {
    let wine = ntdll::wine_version();
    let volume = volume::of(path)?;
    let disks = match (&wine, &volume.device) {
        // Wine makes up a disk for each letter.
        (Some(_), _) | (None, None) => Vec::new(),
        (None, Some(device)) => storage::disks(device),
    };
    let mount = wine.as_ref().and_then(|_| wine::mount(&volume.folder));
    let file_system = match wine {
        Some(_) => volume.file_system_under_wine(mount.as_ref())?,
        None => volume.file_system(&disks)?,
    };
    let system = system(wine.as_deref());
    Ok(Environment {
        memory_bytes: memory_bytes(),
        lies: lies(wine.as_deref(), mount.as_ref(), &disks),
        devices: stack(&volume, disks),
        wine,
        ..environment_of(system, file_system)
    })
}

/// Name, build and architecture; under Wine also what is under it.
fn system(wine: Option<&str>) -> String {
    let version = ntdll::windows_version().unwrap_or_default();
    let windows = format!("Windows {version} {}", std::env::consts::ARCH);
    match wine {
        Some(wine) => {
            let host = ntdll::wine_host().unwrap_or_else(|| "an unnamed system".to_owned());
            format!("{windows} played by Wine {wine} on {host}")
        }
        None => windows,
    }
}

/// The volume and, under it, its disks.
fn stack(volume: &Volume, disks: Vec<Disk>) -> Vec<Device> {
    if disks.is_empty() {
        return Vec::new();
    }
    let top = Device {
        stands_on: disks.iter().map(|disk| disk.device.name.clone()).collect(),
        ..Device::unknown(volume.root.display().to_string(), "volume")
    };
    std::iter::once(top).chain(disks.into_iter().map(|disk| disk.device)).collect()
}

/// What turns flushes and flags into nothing here.
///
/// What Wine 8.0 asks of the host, as strace(1) on Linux shows it for each row:
///
/// ```text
///   CreateFileW, with whatever flags    openat(O_RDWR|O_NONBLOCK), by wineserver: WRITE_THROUGH adds no O_DSYNC,
///                                       NO_BUFFERING no O_DIRECT, and neither changes any later call
///   WriteFile at an offset              pwrite64
///   WriteFile on an overlapped handle   pwrite64, before WriteFile returns: nothing is ever in flight
///   FlushFileBuffers                    fsync, in the calling process
///   FlushViewOfFile                     msync(MS_ASYNC), which on Linux does nothing; the fsync after it does
///   NtFlushBuffersFileEx                not exported; later versions make an fsync whatever the flags
///   SetEndOfFile, to grow               pwrite64 of one byte at the new end, ftruncate, by wineserver: a file
///                                       full of holes
/// ```
///
/// So rows that end in `FlushFileBuffers` are what fsync is on the host, and all others are page cache.
fn lies(wine: Option<&str>, mount: Option<&Mount>, disks: &[Disk]) -> Vec<FoundLie> {
    let flags = wine.map(|version| FoundLie {
        lie: Lie::WineFlags,
        evidence: format!("ntdll says that it is Wine {version}"),
    });
    let barriers = disks.iter().filter(|disk| disk.flushes_turned_off).map(|disk| FoundLie {
        lie: Lie::BarriersOff,
        evidence: format!(
            "write-cache buffer flushing is turned off in the properties of {}",
            disk.device.name
        ),
    });
    flags.into_iter().chain(mount.into_iter().flat_map(Mount::lies)).chain(barriers).collect()
}

fn memory_bytes() -> Option<u64> {
    let size = u32::try_from(size_of::<MEMORYSTATUSEX>()).ok()?;
    let mut status = MEMORYSTATUSEX { dwLength: size, ..MEMORYSTATUSEX::default() };
    // SAFETY: the pointer is to a live structure that says its own size.
    let known = unsafe { GlobalMemoryStatusEx(&raw mut status) };
    (known != 0).then_some(status.ullTotalPhys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durability::{Durability, FileState, Medium, Promiser, classify};

    #[test]
    fn wine_is_recognised_and_its_word_on_files_is_not_taken() {
        let here = environment(Path::new(".")).expect("an environment");
        println!("{here:#?}");
        let found: Vec<Lie> = here.lies.iter().map(|found| found.lie).collect();
        assert_eq!(here.wine.is_some(), found.contains(&Lie::WineFlags), "{found:?}");
        assert!(
            here.file_system.total_bytes >= here.file_system.free_bytes && here.file_system.block_bytes > 0
        );
        if here.wine.is_some() {
            assert_eq!(here.promiser(), Promiser::Wine);
            assert!(here.devices.is_empty() && here.file_system.kind != "NTFS", "{:?}", here.file_system);
            let around = here.surroundings(FileState::ZeroFilled);
            for method in
                crate::methods::here().iter().filter(|method| method.sync == crate::method::Sync::None)
            {
                assert_eq!(classify(method, &around).class, Durability::ProcessCrash, "{}", method.id);
            }
        }
    }

    #[test]
    fn under_wine_a_folder_in_memory_is_distinguished_from_the_drive_it_is_on() {
        let memory = Path::new(r"Z:\dev\shm");
        if ntdll::wine_version().is_some() && memory.exists() {
            let there = environment(memory).expect("an environment");
            assert_eq!(
                (there.file_system.kind.as_str(), there.file_system.medium),
                ("tmpfs", Medium::Memory)
            );
            let here = environment(Path::new(".")).expect("an environment");
            assert_ne!(there.file_system.total_bytes, here.file_system.total_bytes, "both are on Z:");
            for method in crate::methods::here() {
                let class = classify(method, &there.surroundings(FileState::ZeroFilled)).class;
                assert_eq!(class, Durability::ProcessCrash, "{}", method.id);
            }
        }
    }

    #[test]
    fn a_missing_folder_is_an_error_that_names_it() {
        let error = environment(Path::new("no such folder")).expect_err("refused");
        assert!(error.to_string().contains("no such folder"), "{error}");
    }
}
