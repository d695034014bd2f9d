//! Describes one block device from its folder in `/sys/devices`.
//!
//! The attributes are those of the kernel's `Documentation/ABI/stable/sysfs-block`. A partition has no `queue`
//! folder; its disk's applies. A device made of others shows `dm/`, `md/`, `loop/` or `slaves/`; [`super::stack`]
//! finds what it stands on.
//!
//! Invariant: an attribute that the kernel does not show is `None` or `Unknown`.

use super::roots::{Roots, names, number, text};
use crate::counters::{Counting, Counts};
use crate::durability::{DeviceCache, Lie};
use crate::inspect::{Device, FoundLie};
use crate::planted;
use std::path::{Path, PathBuf};

/// Kinds that only the kernel's name shows: what the name begins with, and the kind.
const KIND_BY_NAME: [(&str, &str); 11] = [
    ("nullb", "null_blk"),
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
        counting: Some(counting(roots, folder, &disk)),
        kind,
        name,
    }
}

/// The kernel's name of the device, as `/sys/class/block` spells it.
pub(in crate::os) fn name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

pub(in crate::os) fn is_partition(folder: &Path) -> bool {
    folder.join("partition").exists()
}

/// The folder of the whole disk: the partition's parent, or the device's own.
pub(in crate::os) fn disk_folder(folder: &Path) -> PathBuf {
    match folder.parent() {
        Some(parent) if is_partition(folder) => parent.to_path_buf(),
        _ => folder.to_path_buf(),
    }
}

/// A queue that was set to assume no write cache while the device itself has one: since the
/// queue's setting decides, the kernel then sends no flush.
pub(super) fn hidden_cache(folder: &Path) -> Option<FoundLie> {
    let disk = disk_folder(folder);
    (text(&disk.join("queue/write_cache"))? == "write through" && has_cache(&disk))
        .then(|| hides_cache(&name(&disk), "it has a write-back cache"))
}

/// What is found of a queue that hides the cache of its device or of what that stands on.
pub(super) fn hides_cache(name: &str, why: &str) -> FoundLie {
    FoundLie {
        lie: Lie::HiddenCache,
        evidence: format!(
            "/sys/block/{name}/queue/write_cache says write through, but {why}: no flush is sent; write \"write back\" to it"
        ),
    }
}

/// Whether a device has a volatile cache whatever its queue says. A loop device keeps its image's blocks in a file. The driver
/// of any other sets FUA only beside a cache (`NVMe`: Identify's VWC), and the setting of the queue leaves it as it was; `md`
/// claims both for its members.
fn has_cache(disk: &Path) -> bool {
    let is_md = disk.join("md").exists();
    let is_loop = disk.join("loop").exists() && number(&disk.join("ro")) != Some(1);
    let takes_fua = number(&disk.join("queue/fua")) == Some(1) && !is_md;
    let reports = reported_cache(disk).is_some_and(|cache| cache.starts_with("write back"));
    planted!(LoopHasNoCache, is_loop)
        || planted!(FuaTellsNoCache, takes_fua)
        || planted!(CacheReportUnread, reports)
}

fn counting(roots: &Roots, folder: &Path, disk: &Path) -> Counting {
    let Some(counts) = text(&folder.join("stat")).as_deref().and_then(Counts::parse) else {
        return Counting::Nothing;
    };
    let queue = |attribute: &str| number(&disk.join("queue").join(attribute));
    if queue("iostats") == Some(0) || queue("dax") == Some(1) {
        return Counting::Nothing;
    }
    // Only blk-mq counts flushes, and each of them.
    let has_requests = disk.join("mq").exists();
    // dm-multipath with requests sends its paths no flush that they count.
    let is_path = names(&folder.join("holders")).iter().any(|holder| {
        holder.starts_with("dm-") && roots.block_by_name(holder).is_some_and(|dm| dm.join("mq").exists())
    });
    match planted!(FlushesTakenForCounted, has_requests && !is_partition(folder)) {
        true if !is_path => Counting::Flushes,
        false if counts.writes == 0 => Counting::Nothing,
        _ => Counting::Writes,
    }
}

/// Whether it is memory that plays a disk: lost with the machine's power, whatever it says of a cache.
pub(super) fn is_memory(roots: &Roots, folder: &Path) -> bool {
    /// Models of disks that a driver plays for tests, and of the Linux target's RAM disk.
    const MODELS: [&str; 2] = ["scsi_debug", "RAMDISK-MCP"];
    let (disk, name) = (disk_folder(folder), name(folder));
    let by_name = ["zram", "ram", "nullb"].into_iter().any(|prefix| is_numbered(&name, prefix));
    let by_model = || text(&disk.join("device/model")).is_some_and(|model| MODELS.contains(&model.as_str()));
    // A null_blk made by configfs may have any name.
    let is_memory = by_name || by_model() || roots.sys.join("kernel/config/nullb").join(&name).is_dir();
    planted!(MemoryDiskBelieved, is_memory)
}

/// Whether a `dm` device may put an overwrite elsewhere, or the only way to it into metadata that is not committed with it:
/// thin volumes and caches, by what LVM stands them on, else by the table; unknown counts as such.
pub(super) fn remaps(roots: &Roots, folder: &Path, slaves: &[PathBuf]) -> bool {
    /// LVM's own layers below such a volume.
    const LAYERS: [&str; 6] = ["-tpool", "-cdata", "-cmeta", "-cvol", "-vpool", "-cow"];
    /// Names of volumes that have none of these below them.
    const PLAIN: [&str; 5] = ["CRYPT-", "LVM-", "mpath-", "part", "DMRAID-"];
    /// Targets that lead to where an overwrite was told to go.
    const IN_PLACE: [&str; 9] =
        ["linear", "striped", "crypt", "raid", "mirror", "multipath", "integrity", "delay", "flakey"];
    let Some(name) = text(&folder.join("dm/name")) else { return false };
    let uuid = |folder: &Path| text(&folder.join("dm/uuid")).unwrap_or_default();
    let layer = |slave: &PathBuf| {
        let uuid = uuid(slave);
        LAYERS.iter().any(|layer| uuid.ends_with(layer))
    };
    if slaves.iter().any(layer) {
        return true;
    }
    let uuid = uuid(folder);
    if PLAIN.iter().any(|plain| uuid.starts_with(plain)) {
        return false;
    }
    let table = (roots.dm_table)(&name).unwrap_or_default();
    let mut targets = table.lines().map(|line| line.split_whitespace().nth(2).unwrap_or_default()).peekable();
    targets.peek().is_none() || targets.any(|target| !IN_PLACE.contains(&target))
}

/// The paths of an `NVMe` head with several: `nvme0n1` stands on `nvme0c0n1`, `nvme0c1n1`.
pub(super) fn paths_of_head(roots: &Roots, name: &str) -> Vec<PathBuf> {
    let Some((subsystem, number)) = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n')) else {
        return Vec::new();
    };
    let is_path = |path: &&String| {
        let controller =
            path.strip_prefix(&format!("nvme{subsystem}c")).and_then(|rest| rest.split_once('n'));
        controller.is_some_and(|(controller, of)| {
            of == number && !controller.is_empty() && controller.bytes().all(|digit| digit.is_ascii_digit())
        })
    };
    names(&roots.sys.join("class/block"))
        .iter()
        .filter(is_path)
        .filter_map(|name| roots.block_by_name(name))
        .collect()
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
