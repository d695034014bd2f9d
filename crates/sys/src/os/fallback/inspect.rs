//! Describes a machine of which only CPUID and the standard library are asked.

use super::cpuid;
use crate::inspect::{Environment, FileSystem, Pressure};
use std::path::Path;

/// Nothing is known of its load.
pub(crate) fn pressure() -> Pressure {
    Pressure::default()
}

/// Mounts are not told apart.
pub(crate) fn mount_instance(_: &Path) -> Option<String> {
    None
}

/// A machine on `file_system` whose devices, memory, load and lies the system adds where it knows them.
pub(crate) fn environment(system: String, file_system: FileSystem) -> Environment {
    Environment {
        system,
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        cpu_model: cpuid::brand(),
        memory_bytes: None,
        hypervisor: cpuid::hypervisor(),
        container: None,
        wine: None,
        pressure: pressure(),
        clock: crate::clock::resolution(),
        file_system,
        devices: Vec::new(),
        lies: Vec::new(),
        writeback: Vec::new(),
        limits: Vec::new(),
    }
}
