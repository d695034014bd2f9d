//! Describes one block device from its folder in `/sys/devices`.
//!
//! The attributes are those of the kernel's `Documentation/ABI/stable/sysfs-block`. A partition has no `queue`
//! folder; its disk's applies. A device made of others shows `dm/`, `md/`, `loop/` or `slaves/`; [`super::stack`]
//! finds what it stands on.
//!
//! Invariant: an attribute that the kernel does not show is `None` or `Unknown`.

use super::roots::{Roots, names, number, text};
use crate::durability::{DeviceCache, Lie};
use crate::inspect::{Device, FoundLie};
use std::path::{Path, PathBuf};

/// Kinds that only the kernel's name shows: what the name begins with, and the kind.
const KIND_BY_NAME: [(&str, &str); 10] = [
    ("zram", "zram"),
    ("ram", "ram"),
    ("loop", "loop"),
    ("nbd", "nbd"),
    ("rbd", "rbd"),
    ("drbd", "drbd"),
    ("bcache", "bcache"),
    ("zd", "zvol"),
    ("pmem", "pmem"),
    ("mtdblock", "mtd"),
];

/// What a folder on the way to a device shows about its transport: the first row that fits wins, because a
/// USB disk's path has `usb` and `host` in it, a SATA disk's `ata` and `host`.
const TRANSPORT_BY_FOLDER: [(&str, &str); 13] = [
    ("usb", "usb"),
    ("session", "iscsi"),
    ("rport-", "fc"),
    ("end_device-", "sas"),
    ("virtio", "virtio"),
    ("nvme", "nvme"),
    ("ata", "ata"),
    ("vbd-", "xen"),
    ("VMBUS", "vmbus"),
    ("mmc", "mmc"),
    ("fw", "firewire"),
    ("ndbus", "nvdimm"),
    ("host", "scsi"),
];

/// The device whose folder is `folder`, standing on nothing yet.
pub(super) fn read(roots: &Roots, folder: &Path) -> Device {
    let name = name(folder);
    let disk = disk_folder(folder);
    let queue = disk.join("queue");
    let flag = |attribute: &str| number(&queue.join(attribute)).map(|value| value != 0);
    let kind = kind(folder, &name);
    let transport = transport(roots, &disk);
    Device {
        model: model(folder, &disk),
        transport,
        bytes: number(&folder.join("size")).and_then(|sectors| sectors.checked_mul(512)),
        write_cache: write_cache(&disk),
        fua: flag("fua"),
        rotational: flag("rotational"),
        logical_block_bytes: number(&queue.join("logical_block_size")),
        physical_block_bytes: number(&queue.join("physical_block_size")),
        atomic_write_bytes: number(&queue.join("atomic_write_unit_max_bytes"))
            .or_else(|| number(&queue.join("atomic_write_max_bytes"))),
        polls: flag("io_poll"),
        scheduler: text(&queue.join("scheduler")).as_deref().and_then(selected),
        direct_io: number(&folder.join("loop/dio")).map(|value| value != 0),
        stands_on: Vec::new(),
        kind,
        name,
    }
}

/// The kernel's name of the device, as `/sys/class/block` spells it.
pub(super) fn name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether the folder is a partition's.
pub(super) fn is_partition(folder: &Path) -> bool {
    folder.join("partition").exists()
}

/// The folder of the whole disk: the partition's parent, or the device's own.
pub(super) fn disk_folder(folder: &Path) -> PathBuf {
    match folder.parent() {
        Some(parent) if is_partition(folder) => parent.to_path_buf(),
        _ => folder.to_path_buf(),
    }
}

/// A queue that was set to assume no write cache while the device itself reports one: since the
/// queue's setting decides, the kernel then sends no flush.
pub(super) fn hidden_cache(folder: &Path) -> Option<FoundLie> {
    let disk = disk_folder(folder);
    let (queue, reported) = (text(&disk.join("queue/write_cache"))?, reported_cache(&disk)?);
    (queue == "write through" && reported.starts_with("write back")).then(|| FoundLie {
        lie: Lie::BarriersOff,
        evidence: format!(
            "{0} has a write-back cache, but {0}/queue/write_cache says write through: no flush is sent",
            name(&disk)
        ),
    })
}

fn write_cache(disk: &Path) -> DeviceCache {
    match text(&disk.join("queue/write_cache")).as_deref() {
        Some("write back") => DeviceCache::WriteBack,
        Some("write through") if hidden_cache(disk).is_some() => DeviceCache::WriteBack,
        Some("write through") => DeviceCache::WriteThrough,
        _ => DeviceCache::Unknown,
    }
}

/// The device's own report of its cache: virtio's `cache_type`, or the SCSI disk's mode page.
fn reported_cache(disk: &Path) -> Option<String> {
    let scsi = disk.join("device/scsi_disk");
    let of_scsi = || names(&scsi).iter().find_map(|address| text(&scsi.join(address).join("cache_type")));
    text(&disk.join("cache_type")).or_else(of_scsi)
}

fn kind(folder: &Path, name: &str) -> String {
    let by_folder =
        [("partition", "partition"), ("dm", "dm"), ("md", "md"), ("loop", "loop"), ("bcache", "bcache")];
    let by_folder = by_folder.iter().find(|(entry, _)| folder.join(entry).exists());
    let by_name = || KIND_BY_NAME.iter().find(|(prefix, _)| is_numbered(name, prefix));
    by_folder.or_else(by_name).map_or("disk", |(_, kind)| kind).to_owned()
}

/// Whether `name` is `prefix` and then a digit, so that `ram` does not match `ramen`.
fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// The model of a disk; for a device made of others, what it is made as.
fn model(folder: &Path, disk: &Path) -> Option<String> {
    if let Some(name) = text(&folder.join("dm/name")) {
        let uuid = text(&folder.join("dm/uuid")).unwrap_or_default();
        let target = uuid.split_once('-').map(|(target, _)| target.to_lowercase());
        return Some(target.map_or(name.clone(), |target| format!("{target} {name}")));
    }
    if let Some(level) = text(&folder.join("md/level")) {
        return Some(level);
    }
    if let Some(image) = text(&folder.join("loop/backing_file")) {
        return Some(image);
    }
    let model = text(&disk.join("device/model")).or_else(|| text(&disk.join("device/name")))?;
    let vendor =
        text(&disk.join("device/vendor")).filter(|vendor| vendor != "ATA" && !vendor.starts_with("0x"));
    Some(vendor.map_or(model.clone(), |vendor| format!("{vendor} {model}")))
}

fn transport(roots: &Roots, disk: &Path) -> Option<String> {
    let sys = std::fs::canonicalize(&roots.sys).ok()?;
    let way = disk.strip_prefix(sys).ok()?;
    let folders: Vec<_> = way.iter().filter_map(|folder| folder.to_str()).collect();
    let fits = |(prefix, _): &&(&str, &str)| {
        folders.iter().any(|folder| is_numbered(folder, prefix))
            || (prefix.ends_with('-') || *prefix == "VMBUS")
                && folders.iter().any(|folder| folder.starts_with(prefix))
    };
    let found = TRANSPORT_BY_FOLDER.iter().find(fits).map(|(_, transport)| *transport);
    match found {
        Some("nvme") => Some(nvme_transport(disk)),
        Some(transport) => Some(transport.to_owned()),
        None => {
            ["nbd", "rbd", "drbd"].into_iter().find(|kind| is_numbered(&name(disk), kind)).map(str::to_owned)
        }
    }
}

/// `nvme` in the machine, `nvme-tcp` and its like over a network. With several paths the disk hangs on a
/// subsystem, whose controllers have it.
fn nvme_transport(disk: &Path) -> String {
    let device = disk.join("device");
    let of_controllers =
        || names(&device).iter().find_map(|entry| text(&device.join(entry).join("transport")));
    match text(&device.join("transport")).or_else(of_controllers).as_deref() {
        None | Some("pcie" | "apple-nvme") => "nvme".to_owned(),
        Some(fabric) => format!("nvme-{fabric}"),
    }
}

/// The word in brackets, or the only word.
fn selected(schedulers: &str) -> Option<String> {
    let bracketed =
        schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name);
    let only = || Some(schedulers).filter(|all| !all.contains([' ', '[', ']']));
    bracketed.or_else(only).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_in_brackets_is_the_one_in_use() {
        let rows = [
            ("none [mq-deadline] kyber", Some("mq-deadline")),
            ("none", Some("none")),
            ("[none]", Some("none")),
            ("a b", None),
            ("[", None),
            ("]x[", None),
        ];
        for (line, expected) in rows {
            assert_eq!(selected(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn names_need_their_number() {
        let rows =
            [("ram0", "ram", true), ("ramen", "ram", false), ("zram0", "ram", false), ("ram", "ram", false)];
        for (name, prefix, expected) in rows {
            assert_eq!(is_numbered(name, prefix), expected, "{name}");
        }
    }
}
