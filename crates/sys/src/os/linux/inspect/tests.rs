//! Tests inspection on simulated `/proc` and `/sys` trees; `real` tests it on the running machine.

mod fixture;
#[cfg(feature = "mutants")]
mod planted;
mod real;

use super::{limits, machine, mounts};
use crate::counters::Counting;
use crate::durability::{DeviceCache, FileState, Lie, Medium, Promiser, WeakCalls};
use crate::inspect::Device;
use fixture::{Machine, NVME, Queue, SATA_A, SPINNING, SSD, machine, stack};

/// What several stacks have in common.
const NVME_CRYPT: &str = "dm-0(dm)>nvme0n1p2 nvme0n1p2(partition)>nvme0n1 nvme0n1(disk)>";
const RAID: &str = "md0(md)>sda1+sdb1 sda1(partition)>sda sda(disk)> sdb1(partition)>sdb sdb(disk)>";

#[test]
fn every_stack_is_walked_to_its_leaves() {
    use Medium::{Block, Memory, Server, Unknown};
    let machine = machine();
    let pair = "sda1(partition)>sda sda(disk)> sdb1(partition)>sdb sdb(disk)>";
    let rows: [(&str, Medium, bool, String); 22] = [
        ("/home", Block, false, NVME_CRYPT.into()),
        ("/shm/x", Memory, false, String::new()),
        ("/raid", Block, false, format!("{RAID} nvme0n1p2(partition)>nvme0n1 nvme0n1(disk)>")),
        ("/lvm", Block, false, format!("dm-1(dm)>md0 {RAID}")),
        ("/looped", Block, false, format!("loop0(loop)>dm-0 {NVME_CRYPT}")),
        ("/looped-memory", Memory, false, "loop1(loop)>".into()),
        ("/looped-elsewhere", Unknown, false, "loop2(loop)>".into()),
        ("/looped-deleted", Block, false, format!("loop3(loop)>dm-0 {NVME_CRYPT}")),
        ("/looped-device", Block, false, "loop4(loop)>sda1 sda1(partition)>sda sda(disk)>".into()),
        ("/looped-tree", Block, true, format!("loop5(loop)>sda1+sdb1 {pair}")),
        ("/tree", Block, true, pair.into()),
        ("/tree/nocow", Block, false, pair.into()),
        ("/tree-in-place", Block, false, pair.into()),
        ("/merged", Block, false, NVME_CRYPT.into()),
        ("/merged-memory", Memory, false, String::new()),
        ("/merged-elsewhere", Unknown, false, String::new()),
        ("/share", Server, false, String::new()),
        ("/zipped", Memory, false, "zram0(zram)>".into()),
        ("/virtual", Block, false, "vda(disk)>".into()),
        ("/tank", Block, true, "sda1(partition)>sda sda(disk)>".into()),
        ("/fuse", Server, false, String::new()),
        ("/odd", Unknown, false, String::new()),
    ];
    for (path, medium, copy_on_write, expected) in rows {
        let found = machine.look(path);
        let file_system = &found.file_system;
        assert_eq!((file_system.medium, file_system.copy_on_write), (medium, copy_on_write), "{path}");
        assert_eq!(stack(&found), expected, "{path}");
    }
}

#[test]
fn lies_are_found_through_the_stack_and_nobody_honest_is_accused() {
    let machine = machine()
        .stacked("loop6", "7:6", &[("loop/backing_file", "/lvm/f.img")], &[])
        .write("lvm/f.img", "")
        .mount("7:6 / /looped-lie ext4 /dev/loop6 rw");
    let rows: [(&str, &[Lie]); 11] = [
        ("/home", &[]),
        ("/raid", &[]),
        ("/tree", &[]),
        ("/share", &[]),
        ("/tank", &[]),
        ("/lvm", &[Lie::BarriersOff]),
        ("/virtual", &[Lie::BarriersOff]),
        ("/tree-in-place", &[Lie::BarriersOff]),
        ("/merged", &[Lie::SyncDisabled]),
        ("/tank-fast", &[Lie::SyncDisabled]),
        ("/fuse", &[Lie::SyncDisabled]),
    ];
    for (path, expected) in rows {
        let lies: Vec<_> = machine.look(path).lies.iter().map(|found| found.lie).collect();
        assert_eq!(lies, expected, "{path}");
    }
    let lies = machine.look("/looped-lie").lies;
    assert_eq!(lies.len(), 1, "{lies:?}");
    assert_eq!(lies[0].evidence, "ext4 on /lvm is mounted with nobarrier");
}

#[test]
fn a_queue_that_hides_the_devices_cache_is_a_lie() {
    let scsi = format!("sys/devices/{SATA_A}/device/scsi_disk/0:0:0:0/cache_type");
    let rows = [
        ("write back", "write through", 1),
        ("write through", "write through", 0),
        ("write back", "write back", 0),
    ];
    for (disk, queue, lies) in rows {
        let machine = Machine::new()
            .disk(SATA_A, "8:0", Queue { cache: queue, ..SPINNING })
            .write(&scsi, disk)
            .mount("8:0 / / ext4 /dev/sda rw");
        let found = machine.look("/");
        assert_eq!(found.lies.len(), lies, "{disk}, {queue}: {:?}", found.lies);
        assert!(found.lies.iter().all(|found| found.lie == Lie::HiddenCache));
        let volatile = disk == "write back";
        assert_eq!(found.device_cache() == DeviceCache::WriteBack, volatile, "{disk}, {queue}");
    }
}

/// A queue says "write through" for what has a cache or stands on one: the device's own report, FUA that a driver sets only beside
/// a cache, a loop device, and each layer above.
#[test]
fn a_hidden_cache_is_found_at_every_layer_and_no_honest_layer_is_accused() {
    let hidden = "write through";
    let disk = |cache, fua| Queue { cache, fua, ..SSD };
    // The disk, the queue of what stands on it, and how many are accused.
    let rows = [
        (disk(hidden, 0), hidden, 0),
        (disk(hidden, 0), "write back", 0),
        (disk("write back", 1), "write back", 0),
        (disk("write back", 0), hidden, 1),
        (disk(hidden, 1), "write back", 1),
        // That of the disk is found, and what stands on it hides it as well.
        (disk(hidden, 1), hidden, 2),
    ];
    for (queue, above, lies) in rows {
        let at = "sys/devices/virtual/block/dm-0/queue/write_cache";
        let found = Machine::new()
            .disk(NVME, "259:0", queue)
            .stacked("dm-0", "253:0", &[("dm/name", "x"), ("dm/uuid", "LVM-x")], &["nvme0n1"])
            .write(at, above)
            .mount("253:0 / / ext4 /dev/mapper/x rw")
            .look("/");
        assert_eq!(found.lies.len(), lies, "{} {} under {above}: {:?}", queue.cache, queue.fua, found.lies);
        assert!(found.lies.iter().all(|found| found.lie == Lie::HiddenCache));
        let safe = lies == 0 && queue.cache == hidden && above == hidden;
        assert_eq!(found.device_cache() == DeviceCache::WriteThrough, safe, "{} under {above}", queue.cache);
    }
    for (read_only, lies) in [("0", 1), ("1", 0)] {
        let at = |file: &str| format!("sys/devices/virtual/block/loop0/{file}");
        let looped = Machine::new()
            .disk(NVME, "259:0", SSD)
            .stacked("loop0", "7:0", &[("loop/backing_file", "/a.img")], &[])
            .write(&at("queue/write_cache"), hidden)
            .write(&at("ro"), read_only)
            .write("a.img", "")
            .mount("259:0 / / ext4 /dev/nvme0n1 rw")
            .mount("7:0 / /l ext4 /dev/loop0 rw");
        assert_eq!(looped.look("/l").lies.len(), lies, "a loop device, read-only: {read_only}");
    }
    // What md claims is not its own.
    let raid = Machine::new()
        .disk(NVME, "259:0", SSD)
        .stacked("md0", "9:0", &[("md/level", "raid1")], &["nvme0n1"])
        .stacked("dm-0", "253:0", &[("dm/name", "x"), ("dm/uuid", "LVM-x")], &["md0"])
        .write("sys/devices/virtual/block/dm-0/queue/write_cache", hidden)
        .mount("253:0 / / ext4 /dev/mapper/x rw");
    assert_eq!(raid.look("/").lies, []);
}

/// A kind, its options in force, the kernel; lies, direct writes that end in memory, syncs that leave the flush out.
type Superblock<'a> = (&'a str, &'a str, &'a str, &'a [Lie], bool, bool);

#[test]
fn the_superblock_of_ext4_says_what_the_mount_table_does_not() {
    const PLAIN: &str = "rw\nbarrier\ndata=ordered\n";
    let off: &[Lie] = &[Lie::BarriersOff];
    let rows: [Superblock<'_>; 10] = [
        ("ext4", PLAIN, "6.1.0", &[], false, false),
        ("ext4", "rw\nnobarrier\ndata=ordered\n", "6.18.0", off, false, false),
        ("ext3", "rw\nnobarrier\ndata=ordered\n", "6.18.0", off, false, false),
        ("ext4", "rw\nbarrier\ndata=journal\n", "6.18.0", &[], true, false),
        ("ext4", "rw\nbarrier\n", "6.1.0", &[], false, true),
        ("ext4", "rw\nbarrier\n", "6.4.9", &[], false, true),
        ("ext4", "rw\nbarrier\n", "6.5.0", &[], false, false),
        ("ext2", "rw\nbarrier\n", "6.1.0", &[], false, true),
        // The driver of ext2 alone has no such file.
        ("ext2", "", "6.1.0", &[], false, false),
        ("xfs", "rw\nnobarrier\n", "6.1.0", &[], false, false),
    ];
    for (kind, options, release, lies, direct_write, fsync) in rows {
        let mut machine =
            Machine::new().disk(SATA_A, "8:0", SPINNING).write("proc/sys/kernel/osrelease", release);
        if !options.is_empty() {
            machine = machine.write("proc/fs/ext4/sda/options", options);
        }
        let found = machine.mount(&format!("8:0 / / {kind} /dev/sda rw")).look("/");
        let what = format!("{kind} with {options:?} on Linux {release}");
        assert_eq!(found.lies.iter().map(|found| found.lie).collect::<Vec<_>>(), lies, "{what}");
        let weak = found.surroundings(FileState::ZeroFilled).weak_calls;
        assert_eq!((weak.direct_write, weak.fsync), (direct_write, fsync), "{what}");
        assert_eq!(weak.sync_file_range, direct_write, "{what}");
        let syncfs = kind == "xfs" || options.is_empty();
        assert_eq!(weak.syncfs, syncfs, "{what}");
    }
}

#[test]
fn writes_are_synced_by_mount_or_attribute_where_that_is_known_and_through_an_overlay() {
    let machine = machine()
        .write("synced/upper/x", "")
        .write("synced/f.img", "")
        .stacked("loop6", "7:6", &[("loop/backing_file", "/synced/f.img")], &[])
        .mount("253:1 / /synced ext4 /dev/mapper/vg-data rw,sync")
        .mount("7:6 / /on-synced ext4 /dev/loop6 rw")
        .mount("0:60 / /over-synced overlay overlay rw,upperdir=/synced/upper")
        .mount("8:1 / /synced-vfat vfat /dev/sda1 rw,sync");
    for (path, synchronous) in [
        ("/", false),
        ("/synced", true),
        ("/chattr-S", true),
        ("/over-synced", true),
        ("/on-synced", false),
        ("/synced-vfat", false),
        ("/merged", false),
    ] {
        let found = machine.look(path).surroundings(FileState::ZeroFilled);
        assert_eq!(found.synchronous, synchronous, "{path}");
    }
}

#[test]
fn memory_that_plays_a_disk_is_memory() {
    let scsi = "platform/pseudo_0/adapter0/host2/target2:0:0/2:0:0:0/block/sdc";
    let rows = [
        ("virtual/block/nullb0", None, Medium::Memory),
        (
            "virtual/block/by-configfs",
            Some("sys/kernel/config/nullb/by-configfs/memory_backed"),
            Medium::Memory,
        ),
        (
            scsi,
            Some("sys/devices/platform/pseudo_0/adapter0/host2/target2:0:0/2:0:0:0/device/model"),
            Medium::Block,
        ),
        ("virtual/block/weird", None, Medium::Block),
    ];
    for (way, file, medium) in rows {
        let mut machine = Machine::new().disk(way, "8:0", SSD);
        if let Some(file) = file {
            machine = machine.write(file, "1");
        }
        let machine = machine.mount("8:0 / / ext4 /dev/x rw");
        assert_eq!(machine.look("/").file_system.medium, medium, "{way}");
    }
    let machine = Machine::new().disk(scsi, "8:0", SSD).mount("8:0 / / ext4 /dev/x rw");
    let machine = machine.write(&format!("sys/devices/{scsi}/device/model"), "scsi_debug      ");
    assert_eq!(machine.look("/").file_system.medium, Medium::Memory);
}

#[test]
fn volumes_that_put_an_overwrite_elsewhere_share_extents_and_unknown_ones_count_as_such() {
    let lvm = "LVM-abc";
    // Name, uuid, uuid of what it stands on, and whether an overwrite may go elsewhere.
    let rows = [
        ("vg-data", lvm, "", false),
        ("vg-thin", lvm, "LVM-pool-tpool", true),
        ("vg-cached", lvm, "LVM-part-cdata", true),
        ("root", "CRYPT-LUKS2-1", "LVM-abc", false),
        ("mpatha", "mpath-1", "", false),
        ("by-hand-linear", "", "", false),
        ("by-hand-thin", "", "", true),
        ("by-hand-cache", "", "", true),
        ("nobody-tells", "", "", true),
    ];
    for (name, uuid, below, shares) in rows {
        let found = Machine::new()
            .disk(SATA_A, "8:0", SPINNING)
            .stacked(
                "dm-1",
                "253:1",
                &[("dm/name", "linear"), ("dm/uuid", if below.is_empty() { lvm } else { below })],
                &["sda"],
            )
            .stacked("dm-0", "253:0", &[("dm/name", name), ("dm/uuid", uuid)], &["dm-1"])
            .mount("253:0 / / ext4 /dev/mapper/x rw")
            .look("/");
        assert_eq!(found.file_system.shares_extents, shares, "{name}");
    }
}

/// A name, the files of a device, and what its counters show.
type Counted<'a> = (&'a str, &'a [(&'a str, &'a str)], Counting);

#[test]
fn counters_show_what_a_device_counts_and_no_more() {
    const STAT: &str = "1 1 8 1 5076 1 8 1 0 1 1 0 0 0 0 238 5";
    const SILENT: &str = "1 1 8 1 0 0 0 1 0 1 1 0 0 0 0 0 0";
    use Counting::{Flushes, Nothing, Writes};
    let rows: [Counted<'_>; 8] = [
        ("a disk", &[("stat", STAT), ("mq/0/cpu_list", "0")], Flushes),
        ("never written, with requests", &[("stat", SILENT), ("mq/0/cpu_list", "0")], Flushes),
        ("without requests", &[("stat", STAT)], Writes),
        ("never written, without requests", &[("stat", SILENT)], Nothing),
        ("turned off", &[("stat", STAT), ("mq/0/cpu_list", "0"), ("queue/iostats", "0")], Nothing),
        ("DAX", &[("stat", STAT), ("queue/dax", "1")], Nothing),
        ("before Linux 5.5", &[("stat", "1 1 8 1 5 1 8 1 0 1 1"), ("mq/0/cpu_list", "0")], Nothing),
        ("no counters", &[("mq/0/cpu_list", "0")], Nothing),
    ];
    for (what, files, expected) in rows {
        let disk = Machine::new().disk(SATA_A, "8:0", SPINNING).mount("8:0 / / ext4 /dev/sda rw");
        let disk = files
            .iter()
            .fold(disk, |disk, (file, text)| disk.write(&format!("sys/devices/{SATA_A}/{file}"), text));
        assert_eq!(disk.look("/").devices[0].counting, Some(expected), "{what}");
    }
    // A partition counts writes, its disk flushes; a path below dm-multipath with requests counts no flush either.
    let disk = |machine: Machine| {
        let machine = machine.disk(SATA_A, "8:0", SPINNING).partition(&format!("{SATA_A}/sda1"), "8:1");
        let machine = machine.write(&format!("sys/devices/{SATA_A}/stat"), STAT);
        let machine = machine.write(&format!("sys/devices/{SATA_A}/sda1/stat"), STAT);
        machine.write(&format!("sys/devices/{SATA_A}/mq/0/cpu_list"), "0")
    };
    let counting = |found: crate::inspect::Environment| -> Vec<_> {
        found.devices.iter().map(|device| device.counting.expect("looked at")).collect()
    };
    assert_eq!(
        counting(disk(Machine::new()).mount("8:1 / / ext4 /dev/sda1 rw").look("/")),
        [Writes, Flushes]
    );
    for (requests, expected) in [(true, [Flushes, Writes]), (false, [Writes, Flushes])] {
        let mut machine = disk(Machine::new())
            .stacked("dm-0", "253:0", &[("dm/name", "m"), ("dm/uuid", "mpath-1"), ("stat", STAT)], &["sda"])
            .write(&format!("sys/devices/{SATA_A}/holders/dm-0/x"), "")
            .mount("253:0 / / ext4 /dev/mapper/m rw");
        if requests {
            machine = machine.write("sys/devices/virtual/block/dm-0/mq/0/cpu_list", "0");
        }
        assert_eq!(counting(machine.look("/")), expected, "multipath with requests: {requests}");
    }
}

#[test]
fn a_head_of_several_paths_stands_on_them() {
    let head = "virtual/nvme-subsystem/nvme-subsys0/nvme0n1";
    let machine = ["nvme0c0n1", "nvme0c1n1", "nvme0c1n2", "nvme1c0n1"].into_iter().zip(1..).fold(
        Machine::new().disk(head, "259:0", SSD).partition(&format!("{head}/nvme0n1p1"), "259:9"),
        |machine, (path, number)| {
            machine.disk(&format!("pci/nvme/nvme{number}/{path}"), &format!("259:{number}"), SSD)
        },
    );
    let found = machine.mount("259:9 / / ext4 /dev/nvme0n1p1 rw").look("/");
    let expected =
        "nvme0n1p1(partition)>nvme0n1 nvme0n1(disk)>nvme0c0n1+nvme0c1n1 nvme0c0n1(disk)> nvme0c1n1(disk)>";
    assert_eq!(stack(&found), expected);
}

#[test]
fn a_device_has_its_attributes_and_a_partition_its_disks() {
    let found = machine().look("/home");
    let [crypt, partition, disk] = &found.devices[..] else { panic!("{}", stack(&found)) };
    assert_eq!(crypt.model.as_deref(), Some("crypt root"));
    assert_eq!(crypt.transport, None);
    assert_eq!(disk.model.as_deref(), Some("ACME Fast 1TB"));
    for device in [partition, disk] {
        assert_eq!(device.transport.as_deref(), Some("nvme"));
        assert_eq!(device.write_cache, DeviceCache::WriteThrough);
        assert_eq!((device.fua, device.rotational, device.polls), (Some(false), Some(false), Some(false)));
        assert_eq!((device.logical_block_bytes, device.physical_block_bytes), (Some(512), Some(4096)));
        assert_eq!(device.atomic_write_bytes, Some(16384));
        assert_eq!(device.scheduler.as_deref(), Some("none"));
        assert_eq!(device.bytes, Some(1 << 20));
    }
    assert_eq!(found.promiser(), Promiser::Device);

    let raid = machine().look("/lvm");
    let models: Vec<_> = raid.devices.iter().map(|device| device.model.as_deref()).collect();
    assert_eq!(models[..3], [Some("lvm vg-data"), Some("raid1"), Some("SPINNER 3000")]);
    assert_eq!(
        raid.leaves().map(|leaf| leaf.transport.as_deref()).collect::<Vec<_>>(),
        [Some("ata"), Some("ata")]
    );
}

#[test]
fn a_cache_on_the_way_counts_but_not_the_one_that_md_claims() {
    let disk = |machine: Machine| machine.disk(NVME, "259:0", SSD);
    let raid = disk(Machine::new()).stacked("md0", "9:0", &[("md/level", "raid0")], &["nvme0n1"]);
    let raid = raid.mount("9:0 / / ext4 /dev/md0 rw");
    assert_eq!(raid.look("/").device_cache(), DeviceCache::WriteThrough);
    let looped = disk(Machine::new()).stacked("loop0", "7:0", &[("loop/backing_file", "/a.img")], &[]);
    let looped = looped
        .write("a.img", "")
        .mount("259:0 / / ext4 /dev/nvme0n1 rw")
        .mount("7:0 / /l ext4 /dev/loop0 rw");
    assert_eq!(looped.look("/").device_cache(), DeviceCache::WriteThrough);
    assert_eq!(looped.look("/l").device_cache(), DeviceCache::WriteBack);
}

#[test]
fn transports_are_recognised_by_the_way_to_the_device() {
    let rows = [
        ("pci0000:00/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdc", Some("usb")),
        ("platform/host3/session1/target3:0:0/3:0:0:1/block/sdd", Some("iscsi")),
        ("pci0000:00/host2/rport-2:0-1/target2:0:0/2:0:0:0/block/sde", Some("fc")),
        ("pci0000:00/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sdf", Some("sas")),
        ("pci0000:00/virtio0/host0/target0:0:0/0:0:0:0/block/sdg", Some("virtio")),
        ("vbd-51712/block/xvda", Some("xen")),
        ("LNXSYSTM:00/VMBUS:01/f8b3781a/host0/target0:0:0/0:0:0:0/block/sdh", Some("vmbus")),
        ("platform/soc/mmc_host/mmc0/mmc0:0001/block/mmcblk0", Some("mmc")),
        ("pci0000:00/host4/target4:0:0/4:0:0:0/block/sdi", Some("scsi")),
        ("virtual/nvme-subsystem/nvme-subsys0/nvme0n1", Some("nvme-tcp")),
        ("virtual/block/nbd0", Some("nbd")),
        ("virtual/block/weird", None),
    ];
    for (way, expected) in rows {
        let mut machine = Machine::new().disk(way, "8:0", SSD).mount("8:0 / / ext4 /dev/x rw");
        if way.contains("subsys") {
            machine = machine.write(&format!("sys/devices/{way}/device/nvme1/transport"), "tcp");
        }
        assert_eq!(machine.look("/").devices[0].transport.as_deref(), expected, "{way}");
    }
}

#[test]
fn circles_and_nonsense_end() {
    let circle = Machine::new()
        .stacked("loop0", "7:0", &[("loop/backing_file", "/a.img")], &[])
        .stacked("dm-0", "253:0", &[("dm/name", "")], &["dm-1"])
        .stacked("dm-1", "253:1", &[("dm/name", "\u{fffd}")], &["dm-0"])
        .write("a.img", "")
        .write("merged/u", "")
        .mount("7:0 / / ext4 /dev/loop0 rw")
        .mount("253:0 / /circle ext4 /dev/dm-0 rw")
        .mount("0:9 / /merged overlay overlay rw,upperdir=/merged/u")
        .mount("999999:9 / /gone ext4 /dev/../../gone rw")
        .write("sys/devices/virtual/block/dm-0/size", "18446744073709551615")
        .write("sys/devices/virtual/block/dm-0/queue/scheduler", "]none[");
    for path in ["/", "/circle", "/merged", "/gone"] {
        let found = circle.look(path);
        assert!(found.devices.len() <= 2, "{path}: {}", stack(&found));
    }
    assert_eq!(circle.look("/circle").devices[0].bytes, None);
}

#[test]
fn calls_that_do_less_are_known_through_overlays_and_images() {
    let machine = machine()
        .write("journaled/f.img", "")
        .write("journaled/upper/x", "")
        .write("raid/upper/x", "")
        .stacked("loop6", "7:6", &[("loop/backing_file", "/journaled/f.img"), ("loop/dio", "1")], &[])
        .mount("253:1 / /journaled ext4 /dev/mapper/vg-data rw,data=journal")
        .mount("7:6 / /on-journaled ext4 /dev/loop6 rw")
        .mount("0:60 / /over-journaled overlay overlay rw,upperdir=/journaled/upper")
        .mount("0:61 / /over-raid overlay overlay rw,upperdir=/raid/upper");
    for (path, syncfs, sync_file_range, direct_write) in [
        ("/", false, false, false),
        ("/journaled", false, true, true),
        ("/chattr-j", false, true, true),
        ("/fscrypt", false, false, true),
        ("/raid", true, false, false),
        ("/over-raid", true, true, false),
        ("/over-journaled", false, true, true),
        ("/merged", false, true, false),
        ("/fuse", true, true, true),
        ("/share", false, false, false),
        ("/on-journaled", false, false, false),
    ] {
        let found = machine.look(path).surroundings(FileState::ZeroFilled).weak_calls;
        let expected = WeakCalls { syncfs, sync_file_range, direct_write, ..WeakCalls::default() };
        assert_eq!(found, expected, "{path}");
    }
    // What the loop device writes around the page cache ends in it all the same.
    assert!(machine.look("/on-journaled").surroundings(FileState::ZeroFilled).cached_image);
    assert!(!machine.look("/looped").surroundings(FileState::ZeroFilled).cached_image);
}

#[test]
fn an_overlay_whose_upper_folder_cannot_be_seen_has_nobody_who_promises() {
    for upper in ["u", "/gone/u"] {
        let overlay = format!("0:9 / /merged overlay overlay rw,upperdir={upper}");
        let machine = Machine::new().disk(SATA_A, "8:0", SPINNING).mount("8:0 / / ext4 /dev/sda rw");
        let mut found = machine.mount(&overlay).look("/merged");
        assert_eq!(found.file_system.medium, Medium::Unknown, "{upper}");
        found.hypervisor = Some("KVM".to_owned());
        assert_eq!(found.promiser(), Promiser::Unknown, "{upper}");
    }
}

/// A root mount, files, the `container` variable, and the runtime to be found.
type Marks<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>, Option<&'a str>);

#[test]
fn a_container_is_recognised_by_its_marks_and_a_mark_that_stayed_behind_is_none() {
    let whole = "254:0 / / ext4 /dev/vda rw";
    let layers = "0:30 / / overlay overlay rw,lowerdir=/l,upperdir=/x/docker/overlay2/1/diff";
    let bare = "0:30 / / overlay overlay rw,lowerdir=/l,upperdir=/x";
    let rows: [Marks<'_>; 8] = [
        (whole, &[], None, None),
        (whole, &[(".dockerenv", "")], None, None),
        (bare, &[(".dockerenv", "")], None, Some("docker")),
        (layers, &[], None, Some("docker")),
        (whole, &[("run/.containerenv", "engine=\"podman\"")], None, Some("podman")),
        (whole, &[], Some("lxc"), Some("lxc")),
        (whole, &[("proc/self/cgroup", "0::/kubepods.slice/pod1")], None, Some("kubernetes")),
        (whole, &[("proc/self/cgroup", "0::/system.slice/docker.service")], None, None),
    ];
    for (mount, files, said, expected) in rows {
        let made = files.iter().fold(Machine::new(), |machine, (file, text)| machine.write(file, text));
        let made = made.mount(mount);
        let mounts = mounts::parse(&made.mountinfo);
        assert_eq!(
            machine::container(&made.roots(), &mounts, said).as_deref(),
            expected,
            "{mount} {files:?}"
        );
    }
}

#[test]
fn queued_synchronous_writes_of_btrfs_are_believed_from_linux_6_12_on() {
    for (release, kind, queued) in [
        ("6.1.0-56-cloud-amd64\n", "btrfs", true),
        ("5.15.0", "btrfs", true),
        ("6.11.9", "btrfs", true),
        ("6.12.117+deb12", "btrfs", false),
        ("7.0", "btrfs", false),
        ("6.1.0", "ext4", false),
    ] {
        let machine =
            Machine::new().disk(SATA_A, "8:0", SPINNING).write("proc/sys/kernel/osrelease", release);
        let machine = machine.mount(&format!("8:0 / / {kind} /dev/sda rw"));
        let found = machine.look("/").surroundings(FileState::ZeroFilled).weak_calls.queued_dsync;
        assert_eq!(found, queued, "{kind} of Linux {release}");
    }
}

#[test]
fn direct_writes_of_btrfs_with_checksums_go_through_the_page_cache_from_linux_6_15_on() {
    for (release, options, direct_write) in [
        ("6.14.9", "rw", false),
        ("6.15.0", "rw", true),
        ("6.18.3", "rw", true),
        ("6.18.3", "rw,nodatasum", false),
        ("6.18.3", "rw,nodatacow", false),
    ] {
        let machine =
            Machine::new().disk(SATA_A, "8:0", SPINNING).write("proc/sys/kernel/osrelease", release);
        let machine = machine.mount(&format!("8:0 / / btrfs /dev/sda {options}"));
        let found = machine.look("/").surroundings(FileState::ZeroFilled).weak_calls.direct_write;
        assert_eq!(found, direct_write, "{options} of Linux {release}");
    }
}

/// `self/cgroup`, mounts, files below `/sys/fs/cgroup`, and the limits in force.
type Groups<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn limits_are_those_of_the_own_group_and_of_all_above_it() {
    const V2: &str = "0:26 / /sys/fs/cgroup cgroup2 cgroup2 rw";
    const CPU: &str = "0:30 / /sys/fs/cgroup/cpu,cpuacct cgroup cgroup rw,cpu,cpuacct";
    const BLKIO: &str = "0:31 / /sys/fs/cgroup/blkio cgroup cgroup rw,blkio";
    let rows: [Groups<'_>; 9] = [
        ("0::/a/b", &[V2], &[("a/b/cpu.max", "20000 100000")], &["cpu 0.2: cpu.max 20000 100000"]),
        (
            "0::/a/b",
            &[V2],
            &[("a/b/cpu.max", "max 100000"), ("a/cpu.max", "150000 100000")],
            &["cpu 1.5: cpu.max 150000 100000"],
        ),
        (
            "0::/a",
            &[V2],
            // Reads and another device limit no commit here; neither does memory.
            &[
                ("a/io.max", "8:0 rbps=7 wbps=1048576 riops=max wiops=300\n8:16 wiops=5"),
                ("a/memory.high", "4096"),
            ],
            &["bytes 1048576: io.max wbps=1048576 of sda", "requests 300: io.max wiops=300 of sda"],
        ),
        // A container sees its own group as the top, by its name or as the root of a namespace.
        (
            "0::/docker/1",
            &["0:26 /docker/1 /sys/fs/cgroup cgroup2 cgroup2 rw"],
            &[("cpu.max", "50000 100000")],
            &["cpu 0.5: cpu.max 50000 100000"],
        ),
        ("0::/", &[V2], &[("cpu.max", "50000 100000")], &["cpu 0.5: cpu.max 50000 100000"]),
        (
            "4:cpu,cpuacct:/x/y\n3:blkio:/x\n1:name=systemd:/x",
            &[CPU, BLKIO],
            &[
                ("cpu,cpuacct/x/y/cpu.cfs_quota_us", "-1"),
                ("cpu,cpuacct/x/y/cpu.cfs_period_us", "100000"),
                ("cpu,cpuacct/x/cpu.cfs_quota_us", "25000"),
                ("cpu,cpuacct/x/cpu.cfs_period_us", "100000"),
                ("blkio/x/blkio.throttle.write_iops_device", "8:0 300\n8:16 5"),
                ("blkio/x/blkio.throttle.write_bps_device", "8:0 2097152"),
            ],
            &[
                "cpu 0.25: cpu.cfs_quota_us 25000 of 100000",
                "requests 300: blkio.throttle.write_iops_device 300 of sda",
                "bytes 2097152: blkio.throttle.write_bps_device 2097152 of sda",
            ],
        ),
        // Both at once: what version 1 has not, version 2 may have.
        (
            "3:blkio:/\n0::/a",
            &[BLKIO, "0:26 / /sys/fs/cgroup/unified cgroup2 cgroup2 rw"],
            &[("unified/a/cpu.max", "10000 100000"), ("blkio/blkio.throttle.write_iops_device", "8:0 9")],
            &["requests 9: blkio.throttle.write_iops_device 9 of sda", "cpu 0.1: cpu.max 10000 100000"],
        ),
        ("0::/a", &[V2], &[("a/cpu.max", "many"), ("a/io.max", "8:0\n8:0 wiops wiops=x")], &[]),
        ("0::/a", &[], &[("a/cpu.max", "20000 100000")], &[]),
    ];
    for (groups, mounts, files, expected) in rows {
        let machine = Machine::new().disk(SATA_A, "8:0", SPINNING).write("proc/self/cgroup", groups);
        let machine = mounts.iter().fold(machine, |machine, mount| machine.mount(mount));
        let machine = files
            .iter()
            .fold(machine, |machine, (file, text)| machine.write(&format!("sys/fs/cgroup/{file}"), text));
        let devices = [Device::unknown("sda", "disk")];
        let found = limits::limits(&machine.roots(), &mounts::parse(&machine.mountinfo), &devices);
        let found: Vec<String> = found
            .iter()
            .map(|limit| format!("{:?} {}: {limit}", limit.kind, limit.most).to_lowercase())
            .collect();
        let expected: Vec<String> = expected.iter().map(|limit| limit.to_lowercase()).collect();
        assert_eq!(found, expected, "{groups} {files:?}");
    }
}
