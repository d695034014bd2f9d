//! The words that a gallery shows of a machine, as lists: what is in none of them is left out.
//!
//! Invariant: every function returns words of its list, or figures; a text of the result is never returned whole unless each
//! of its words is one of them.

/// Operating systems, as results name them.
const SYSTEMS: &[&str] = &["Linux", "Windows", "macOS", "Darwin", "illumos", "SunOS"];
const SYSTEM_WORDS: &[&str] = &[
    "Server",
    "x86_64",
    "aarch64",
    "arm64",
    "riscv64",
    "powerpc64le",
    "ppc64le",
    "s390x",
    "amd64",
    "x86",
    "i686",
];
const FILE_SYSTEMS: &[&str] = &[
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "zfs",
    "f2fs",
    "bcachefs",
    "jfs",
    "reiserfs",
    "nilfs2",
    "ntfs",
    "ntfs3",
    "NTFS",
    "ReFS",
    "exFAT",
    "exfat",
    "vfat",
    "FAT32",
    "apfs",
    "APFS",
    "hfs",
    "ufs",
    "tmpfs",
    "ramfs",
    "overlay",
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smb2",
    "SMB",
    "9p",
    "virtiofs",
    "fuse",
    "fuseblk",
    "ceph",
    "gfs2",
    "ocfs2",
    "lustre",
    "glusterfs",
    "erofs",
    "squashfs",
    "block device",
];
/// Options that decide what a sync does or costs, or that every mount has.
const OPTIONS: &[&str] = &[
    "rw",
    "ro",
    "sync",
    "dirsync",
    "async",
    "relatime",
    "noatime",
    "strictatime",
    "nodiratime",
    "lazytime",
    "discard",
    "nodiscard",
    "discard=async",
    "barrier",
    "nobarrier",
    "barrier=0",
    "barrier=1",
    "data=ordered",
    "data=journal",
    "data=writeback",
    "delalloc",
    "nodelalloc",
    "journal_checksum",
    "journal_async_commit",
    "auto_da_alloc",
    "dioread_lock",
    "dioread_nolock",
    "nodatacow",
    "datacow",
    "nodatasum",
    "flushoncommit",
    "notreelog",
    "ssd",
    "nossd",
    "autodefrag",
    "compress=zstd",
    "compress=lzo",
    "compress=zlib",
    "wsync",
    "nolargeio",
    "largeio",
    "volatile",
    "cache=none",
    "cache=strict",
    "hard",
    "soft",
    "sync=standard",
    "sync=always",
    "sync=disabled",
    "dax",
    "dax=always",
    "dax=never",
    "fsync_mode=posix",
    "fsync_mode=strict",
    "fsync_mode=nobarrier",
    "inode64",
    "nosuid",
    "nodev",
    "noexec",
];
const DEVICES: &[&str] = &[
    "disk",
    "partition",
    "dm",
    "md",
    "loop",
    "zram",
    "bcache",
    "nbd",
    "rbd",
    "drbd",
    "ram",
    "pmem",
    "zvol",
    "volume",
];
const TRANSPORTS: &[&str] = &[
    "virtio",
    "nvme",
    "ata",
    "sata",
    "scsi",
    "sas",
    "usb",
    "xen",
    "vmbus",
    "mmc",
    "iscsi",
    "fc",
    "nbd",
    "NVMe",
    "SATA",
    "SAS",
    "USB",
    "SCSI",
    "ATA",
    "RAID",
    "iSCSI",
    "PCI-Express",
    "Apple Fabric",
];
const HYPERVISORS: &[&str] = &[
    "ACRN",
    "Alibaba Cloud",
    "Amazon Nitro",
    "Apple Virtualization",
    "Cloud Hypervisor",
    "DigitalOcean",
    "Firecracker",
    "Google Compute Engine",
    "Hetzner Cloud",
    "Hyper-V (WSL 2)",
    "Hyper-V",
    "KVM",
    "OpenStack",
    "Parallels",
    "QEMU",
    "User Mode Linux",
    "VMware",
    "VirtualBox",
    "Xen",
    "bhyve",
    "crosvm",
    "z/VM",
];
const CONTAINERS: &[&str] =
    &["docker", "podman", "containerd", "lxc", "lxd", "systemd-nspawn", "kubernetes", "cri-o", "oci"];
const SCHEDULERS: &[&str] = &["none", "mq-deadline", "bfq", "kyber", "noop", "deadline", "cfq"];
/// What stacked devices are made as: the first word of their model.
const STACKS: &[&str] = &[
    "raid0",
    "raid1",
    "raid4",
    "raid5",
    "raid6",
    "raid10",
    "linear",
    "crypt",
    "lvm",
    "thin",
    "striped",
    "cache",
    "mirror",
    "multipath",
    "mpath",
    "writecache",
    "integrity",
    "verity",
];
const WRITEBACK: &[&str] = &[
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
    "dirtytime_expire_seconds",
];
const CPU_MAKERS: &[&str] = &[
    "AMD",
    "Intel(R)",
    "Intel",
    "Apple",
    "ARM",
    "Ampere",
    "Neoverse-N1",
    "Neoverse-N2",
    "Neoverse-V1",
    "Neoverse-V2",
    "Cortex-A72",
    "Cortex-A76",
    "AWS",
    "IBM",
    "Qualcomm",
    "11th",
    "12th",
    "13th",
    "14th",
    "QEMU",
];
const CPU_WORDS: &[&str] = &[
    "EPYC",
    "Ryzen",
    "Threadripper",
    "Opteron(tm)",
    "Athlon",
    "Xeon(R)",
    "Xeon",
    "Core(TM)",
    "Core",
    "Ultra",
    "Celeron(R)",
    "Pentium(R)",
    "Atom(TM)",
    "Gold",
    "Silver",
    "Platinum",
    "Bronze",
    "Processor",
    "CPU",
    "@",
    "Gen",
    "Intel(R)",
    "Graviton",
    "Graviton2",
    "Graviton3",
    "Graviton4",
    "Altra",
    "Max",
    "Pro",
    "PRO",
    "with",
    "Radeon",
    "Graphics",
    "Virtual",
    "version",
    "Scalable",
    "Neoverse-N1",
    "Neoverse-V1",
    "Neoverse-V2",
];
const DISK_MAKERS: &[&str] = &[
    "Samsung",
    "SAMSUNG",
    "INTEL",
    "Intel",
    "WDC",
    "WD",
    "WD_BLACK",
    "Western",
    "KINGSTON",
    "Kingston",
    "CRUCIAL",
    "Crucial",
    "TOSHIBA",
    "KIOXIA",
    "Micron",
    "SK",
    "SKHynix",
    "SanDisk",
    "Seagate",
    "HGST",
    "Hitachi",
    "APPLE",
    "ADATA",
    "Corsair",
    "Solidigm",
    "Sabrent",
    "PNY",
    "Lexar",
    "QEMU",
    "VBOX",
    "VMware",
    "Virtual",
    "Msft",
    "Microsoft",
    "DELL",
    "LSI",
    "HPE",
];
const DISK_WORDS: &[&str] = &[
    "SSD",
    "HDD",
    "NVMe",
    "SATA",
    "PRO",
    "Pro",
    "EVO",
    "Plus",
    "QVO",
    "Blue",
    "Black",
    "Red",
    "Gold",
    "Digital",
    "hynix",
    "Optane",
    "MZVL2",
    "HARDDISK",
    "Virtual",
    "Disk",
    "disk",
    "Ctrl",
    "Controller",
    "DC",
    "Barracuda",
    "Exos",
    "IronWolf",
    "Ultrastar",
    "SN",
    "Ultra",
    "Extreme",
    "Portable",
    "RAID",
    "MegaRAID",
    "S",
];

/// `word` as it stands in `list`.
fn one_of(word: &str, list: &[&'static str]) -> Option<&'static str> {
    list.iter().copied().find(|known| *known == word)
}

/// A number with a unit or a model's number: short, plain, and with a digit. A serial number is longer.
fn is_short_number(word: &str) -> bool {
    const LENGTH_MAX: usize = 8;
    word.len() <= LENGTH_MAX
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b','))
}

/// The words of `text` that are in `words` or numbers, if its first is one of `makers`.
fn product(text: &str, makers: &[&'static str], words: &[&'static str]) -> Option<String> {
    let mut parts = text.split_whitespace();
    let maker = one_of(parts.next()?, makers)?;
    let known = parts.filter(|word| one_of(word, words).is_some() || is_short_number(word));
    Some(std::iter::once(maker).chain(known).take(10).collect::<Vec<_>>().join(" "))
}

/// The dotted number that `word` begins with.
fn version_of(word: &str) -> Option<&str> {
    const LENGTH_MAX: usize = 16;
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    Some(word[..end].trim_end_matches('.'))
        .filter(|version| !version.is_empty() && version.len() <= LENGTH_MAX)
}

/// Name, version in numbers and architecture of a system: what a kernel's builder added to its version is left out.
pub(super) fn system(text: &str) -> Option<String> {
    let mut parts = text.split_whitespace();
    let name = one_of(parts.next()?, SYSTEMS)?;
    let rest = parts.filter_map(|word| one_of(word, SYSTEM_WORDS).or_else(|| version_of(word)));
    Some(std::iter::once(name).chain(rest).take(6).collect::<Vec<_>>().join(" "))
}

/// The version of a program, in numbers.
pub(super) fn version(text: &str) -> Option<String> {
    version_of(text.trim_start_matches("wine-")).map(str::to_owned)
}

/// Sizes in words, as a load of several states them.
pub(super) fn sizes(text: &str) -> Option<String> {
    const WORDS: &[&str] = &["B", "KiB", "MiB", "GiB", "to", "in", "the", "mean"];
    let known = |word: &str| one_of(word.trim_end_matches(','), WORDS).is_some() || is_short_number(word);
    text.split(' ').all(known).then(|| text.to_owned()).filter(|text| text.len() <= 80)
}

/// A hypervisor, or a product and its engine.
pub(super) fn hypervisor(text: &str) -> Option<String> {
    if let Some(name) = one_of(text, HYPERVISORS) {
        return Some(name.to_owned());
    }
    let (product, engine) = text.strip_suffix(')')?.split_once(" (")?;
    Some(format!("{} ({})", one_of(product, HYPERVISORS)?, one_of(engine, HYPERVISORS)?))
}

/// The model of a disk: one of a cloud, a product, or what a stacked device is made as.
pub(super) fn model(text: &str, kind: &str) -> Option<String> {
    match kind {
        "dm" | "md" => one_of(text.split_whitespace().next()?, STACKS).map(str::to_owned),
        // The model of a loop device is the path of its image.
        "loop" => None,
        _ => crate::ranges::cloud_model(text)
            .map(str::to_owned)
            .or_else(|| product(text, DISK_MAKERS, DISK_WORDS)),
    }
}

/// The model of a CPU.
pub(super) fn cpu(text: &str) -> Option<String> {
    product(text, CPU_MAKERS, CPU_WORDS)
}

macro_rules! listed {
    ($($(#[$doc:meta])* $name:ident: $list:ident;)*) => {
        $($(#[$doc])* pub(super) fn $name(text: &str) -> Option<String> {
            one_of(text, $list).map(str::to_owned)
        })*
    };
}

listed! {
    /// A kind of file system.
    file_system: FILE_SYSTEMS;
    /// A mount option.
    option: OPTIONS;
    /// A kind of device.
    device: DEVICES;
    /// How a device is attached.
    transport: TRANSPORTS;
    /// A container runtime.
    container: CONTAINERS;
    /// An I/O scheduler.
    scheduler: SCHEDULERS;
    /// A writeback setting.
    writeback: WRITEBACK;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_lists_stay_and_all_else_goes() {
        let cases: [(Option<String>, Option<&str>); 19] = [
            (system("Linux 6.18.44-fc-v657 x86_64"), Some("Linux 6.18.44 x86_64")),
            (system("Linux 6.1.0-db7.example.com x86_64"), Some("Linux 6.1.0 x86_64")),
            (system("Windows 10.0.20348 x86_64"), Some("Windows 10.0.20348 x86_64")),
            (system("db7.example.com"), None),
            (cpu("AMD EPYC 7R13 Processor"), Some("AMD EPYC 7R13 Processor")),
            (cpu("Intel(R) Xeon(R) Platinum 8488C"), Some("Intel(R) Xeon(R) Platinum 8488C")),
            (cpu("Intel(R) of alice@example.com"), Some("Intel(R)")),
            (model("Samsung SSD 980 PRO 1TB", "disk"), Some("Samsung SSD 980 PRO 1TB")),
            (model("Samsung SSD S4EWNX0R123456", "disk"), Some("Samsung SSD")),
            (model("Amazon Elastic Block Store vol0a1b2c3d4e5f", "disk"), Some("Amazon Elastic Block Store")),
            (model("crypt luks-alice", "dm"), Some("crypt")),
            (model("/home/alice/disk.img", "loop"), None),
            (hypervisor("Firecracker (KVM)"), Some("Firecracker (KVM)")),
            (hypervisor("Firecracker (alice)"), None),
            (option("data=ordered"), Some("data=ordered")),
            (option("lowerdir=/home/alice"), None),
            (sizes("512 B to 64 KiB, 9 KiB in the mean"), Some("512 B to 64 KiB, 9 KiB in the mean")),
            (sizes("<b>"), None),
            (version("9.0 (Staging)"), Some("9.0")),
        ];
        for (shown, expected) in cases {
            assert_eq!(shown.as_deref(), expected);
        }
    }
}
