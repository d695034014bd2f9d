//! Test fixture: builds a simulated machine (`/proc`, `/sys` and a mount table) in a temporary folder.

use crate::inspect::{Device, Environment, FileSystem, FoundLie};
use crate::os::fallback::inspect::environment;
use crate::os::system::inspect::calls::{ENCRYPTED, JOURNALED_DATA, NO_COPY_ON_WRITE, SYNCHRONOUS};
use crate::os::system::inspect::mounted;
use crate::os::system::inspect::mounts::{self, Key, Mount};
use crate::os::system::inspect::roots::Roots;
use crate::os::system::inspect::stack::Walk;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A made-up machine: `/proc`, `/sys` and files in a temporary folder.
pub(super) struct Machine {
    folder: tempfile::TempDir,
    pub(super) mountinfo: String,
}

/// A queue's attributes that differ from disk to disk.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub(super) cache: &'static str,
    pub(super) fua: u8,
    pub(super) rotational: u8,
    pub(super) atomic: u32,
    pub(super) scheduler: &'static str,
}

pub(super) const SSD: Queue =
    Queue { cache: "write through", fua: 0, rotational: 0, atomic: 16384, scheduler: "[none] mq-deadline" };
pub(super) const SPINNING: Queue =
    Queue { cache: "write back", fua: 0, rotational: 1, atomic: 0, scheduler: "none [mq-deadline] bfq" };

impl Machine {
    pub(super) fn new() -> Self {
        let machine =
            Self { folder: tempfile::tempdir().expect("a temporary folder"), mountinfo: String::new() };
        for folder in ["proc", "sys/dev/block", "sys/class/block", "sys/fs/btrfs"] {
            fs::create_dir_all(machine.at(folder)).expect("a folder");
        }
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(super) fn write(self, path: &str, text: &str) -> Self {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
        self
    }

    /// A device whose folder is `/sys/devices/{way}`, with the number `number`.
    fn device(self, way: &str, number: &str) -> Self {
        let name = way.rsplit('/').next().expect("a name").to_owned();
        let machine = self.write(&format!("sys/devices/{way}/dev"), number);
        let machine = machine.write(&format!("sys/devices/{way}/size"), "2048");
        let target = machine.at(&format!("sys/devices/{way}"));
        symlink(&target, machine.at(&format!("sys/dev/block/{number}"))).expect("a link");
        symlink(&target, machine.at(&format!("sys/class/block/{name}"))).expect("a link");
        machine
    }

    pub(super) fn disk(self, way: &str, number: &str, queue: Queue) -> Self {
        let at = |attribute: &str| format!("sys/devices/{way}/queue/{attribute}");
        self.device(way, number)
            .write(&at("write_cache"), queue.cache)
            .write(&at("fua"), &queue.fua.to_string())
            .write(&at("rotational"), &queue.rotational.to_string())
            .write(&at("atomic_write_unit_max_bytes"), &queue.atomic.to_string())
            .write(&at("scheduler"), queue.scheduler)
            .write(&at("logical_block_size"), "512")
            .write(&at("physical_block_size"), "4096")
            .write(&at("io_poll"), "0")
    }

    pub(super) fn partition(self, way: &str, number: &str) -> Self {
        self.device(way, number).write(&format!("sys/devices/{way}/partition"), "1")
    }

    /// A virtual device `name` with the kind's own folder and what it stands on.
    pub(super) fn stacked(self, name: &str, number: &str, files: &[(&str, &str)], slaves: &[&str]) -> Self {
        let way = format!("virtual/block/{name}");
        let mut machine = self.disk(&way, number, SPINNING);
        for (file, text) in files {
            machine = machine.write(&format!("sys/devices/{way}/{file}"), text);
        }
        fs::create_dir_all(machine.at(&format!("sys/devices/{way}/slaves"))).expect("a folder");
        for slave in slaves {
            let target = machine.at(&format!("sys/class/block/{slave}"));
            symlink(target, machine.at(&format!("sys/devices/{way}/slaves/{slave}"))).expect("a link");
        }
        machine
    }

    /// A line of the mount table: `number root point kind source options`.
    pub(super) fn mount(mut self, line: &str) -> Self {
        let fields: Vec<_> = line.split(' ').collect();
        let [number, root, point, kind, source, options] = fields[..] else { panic!("{line}") };
        let id = 20 + self.mountinfo.lines().count();
        let fields = format!("{id} 1 {number} {root} {point} rw,relatime - {kind} {source} {options}\n");
        self.mountinfo.push_str(&fields);
        self
    }

    pub(super) fn roots(&self) -> Roots {
        Roots {
            root: self.folder.path().to_path_buf(),
            proc: self.at("proc"),
            sys: self.at("sys"),
            attributes: |folder| match folder.file_name().and_then(std::ffi::OsStr::to_str) {
                Some("nocow") => NO_COPY_ON_WRITE,
                Some("chattr-j") => JOURNALED_DATA,
                Some("fscrypt") => ENCRYPTED,
                Some("chattr-S") => SYNCHRONOUS,
                _ => 0,
            },
            zfs_sync: |dataset| (dataset == "tank/fast").then(|| "disabled".to_owned()),
            dm_table: |name| {
                let target = name.strip_prefix("by-hand-")?;
                Some(format!("0 8 linear 8:0 0\n8 8 {target} 8:0 8"))
            },
            zpool_status: |pool| (pool == "tank").then(|| "\ttank ONLINE\n\t  /dev/sda1 ONLINE\n".to_owned()),
        }
    }

    /// What is found under `path`.
    pub(super) fn look(&self, path: &str) -> Environment {
        let roots = self.roots();
        let mounts: Vec<Mount> = mounts::parse(&self.mountinfo);
        let key = Key { id: None, device: None, path: Path::new(path) };
        let mount = mounts::find(&mounts, &key).expect("a mount");
        let mut walk = Walk::new(&roots, &mounts);
        let below = walk.mount(mount, Path::new(path));
        made_up(mounted(mount, below), walk.devices, walk.lies)
    }
}

fn made_up(file_system: FileSystem, devices: Vec<Device>, lies: Vec<FoundLie>) -> Environment {
    Environment { hypervisor: None, devices, lies, ..environment(String::new(), file_system) }
}

/// `name(kind)>what it stands on`, one word a device.
pub(super) fn stack(environment: &Environment) -> String {
    let words = environment
        .devices
        .iter()
        .map(|device| format!("{}({})>{}", device.name, device.kind, device.stands_on.join("+")));
    words.collect::<Vec<_>>().join(" ")
}

pub(super) const NVME: &str = "pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1";
pub(super) const SATA_A: &str = "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda";
pub(super) const SATA_B: &str = "pci0000:00/0000:00:1f.2/ata2/host1/target1:0:0/1:0:0:0/block/sdb";

/// Everything at once: an `NVMe` disk with a partition and dm-crypt, two SATA disks in a RAID and with btrfs, …
pub(super) fn machine() -> Machine {
    let machine = Machine::new()
        .disk(NVME, "259:0", SSD)
        .partition(&format!("{NVME}/nvme0n1p2"), "259:2")
        .write(&format!("sys/devices/{NVME}/device/model"), "ACME Fast 1TB   ")
        .write(&format!("sys/devices/{NVME}/device/transport"), "pcie")
        .stacked(
            "dm-0",
            "253:0",
            &[("dm/name", "root"), ("dm/uuid", "CRYPT-LUKS2-0123-root")],
            &["nvme0n1p2"],
        )
        .disk(SATA_A, "8:0", SPINNING)
        .partition(&format!("{SATA_A}/sda1"), "8:1")
        .write(&format!("sys/devices/{SATA_A}/device/vendor"), "ATA")
        .write(&format!("sys/devices/{SATA_A}/device/model"), "SPINNER 3000")
        .disk(SATA_B, "8:16", SPINNING)
        .partition(&format!("{SATA_B}/sdb1"), "8:17")
        .stacked("md0", "9:0", &[("md/level", "raid1")], &["sda1", "sdb1"])
        .stacked("dm-1", "253:1", &[("dm/name", "vg-data"), ("dm/uuid", "LVM-abc")], &["md0"])
        .stacked("loop0", "7:0", &[("loop/backing_file", "/images/a.img")], &[])
        .stacked("loop1", "7:1", &[("loop/backing_file", "/shm/b.img")], &[])
        .stacked("loop2", "7:2", &[("loop/backing_file", "/elsewhere/c.img")], &[])
        .stacked("loop3", "7:3", &[("loop/backing_file", "/images/d.img (deleted)")], &[])
        .stacked("loop4", "7:4", &[("loop/backing_file", "/dev/sda1")], &[])
        .stacked("loop5", "7:5", &[("loop/backing_file", "/tree/e.img")], &[])
        .stacked("zram0", "252:0", &[], &[])
        .disk("pci0000:00/0000:00:02.0/virtio1/block/vda", "254:0", SPINNING)
        .write("images/a.img", "")
        .write("shm/b.img", "")
        .write("tree/e.img", "")
        .write("sys/fs/btrfs/0123/devices/sda1/x", "")
        .write("sys/fs/btrfs/0123/devices/sdb1/x", "")
        .write("sys/fs/btrfs/features/x", "");
    for folder in ["upper", "shm/upper"] {
        fs::create_dir_all(machine.at(folder)).expect("a folder");
    }
    machine
        .mount("253:0 / / ext4 /dev/mapper/root rw")
        .mount("0:40 / /shm tmpfs tmpfs rw,size=1g")
        .mount("9:0 / /raid xfs /dev/md0 rw,logdev=/dev/nvme0n1p2")
        .mount("253:1 / /lvm ext4 /dev/mapper/vg-data rw,nobarrier")
        .mount("7:0 / /looped ext4 /dev/loop0 rw")
        .mount("7:1 / /looped-memory ext4 /dev/loop1 rw")
        .mount("7:2 / /looped-elsewhere ext4 /dev/loop2 rw")
        .mount("7:3 / /looped-deleted ext4 /dev/loop3 rw")
        .mount("7:4 / /looped-device ext4 /dev/loop4 rw")
        .mount("7:5 / /looped-tree ext4 /dev/loop5 rw")
        .mount("0:41 /@ /tree btrfs /dev/sdb1 rw,subvol=/@")
        .mount("0:41 /@ /tree-in-place btrfs /dev/sdb1 rw,nodatacow,nobarrier")
        .mount("0:42 / /merged overlay overlay rw,lowerdir=/l,upperdir=/upper,workdir=/w,volatile")
        .mount("0:43 / /merged-memory overlay overlay rw,lowerdir=/l,upperdir=/shm/upper,workdir=/w")
        .mount("0:44 / /merged-elsewhere overlay overlay rw,upperdir=/var/lib/docker/x/diff")
        .mount("0:45 / /share nfs4 server:/export rw,vers=4.2")
        .mount("252:0 / /zipped ext4 /dev/zram0 ro")
        .mount("254:0 / /virtual ext3 /dev/vda rw,barrier=0")
        .mount("0:46 / /tank zfs tank/safe rw,xattr")
        .mount("0:47 / /tank-fast zfs tank/fast rw,xattr")
        .mount("0:48 / /fuse fuse.some some rw,user_id=0,fsync=0")
        .mount("0:49 / /odd strange nothing rw")
}
