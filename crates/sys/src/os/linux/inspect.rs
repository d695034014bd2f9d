//! What does Linux tell about a path? Placeholder until the real walk lands.

use crate::error::Result;
use crate::inspect::{Environment, FileSystem, Pressure};
use std::path::Path;

pub(crate) fn environment(_path: &Path) -> Result<Environment> {
    Ok(Environment {
        system: "Linux".into(), cpus: 2, cpu_model: None, memory_bytes: None, hypervisor: None, container: None, wine: None,
        pressure: Pressure::default(), clock: crate::clock::resolution(),
        file_system: FileSystem { kind: "ext4".into(), source: "/dev/vda".into(), options: vec![], medium: crate::durability::Medium::Block, copy_on_write: false, read_only: false, block_bytes: 4096, free_bytes: 80 << 30, total_bytes: 100 << 30 },
        devices: vec![crate::inspect::Device { name: "vda".into(), kind: "disk".into(), stands_on: vec![], model: None, transport: Some("virtio".into()), bytes: None, write_cache: crate::durability::DeviceCache::WriteBack, fua: Some(false), rotational: Some(true), logical_block_bytes: Some(512), physical_block_bytes: Some(4096), atomic_write_bytes: Some(0), polls: Some(false), scheduler: None }],
        lies: vec![], writeback: vec![],
    })
}
