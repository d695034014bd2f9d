//! Tests inspection on simulated `/proc` and `/sys` trees; `real` tests it on the running machine.

mod fixture;
mod real;

use super::{machine, mounts};
use crate::durability::{DeviceCache, FileState, Lie, Medium, Promiser, WeakCalls};
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
        let volatile = disk == "write back";
        assert_eq!(found.device_cache() == DeviceCache::WriteBack, volatile, "{disk}, {queue}");
    }
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
        assert_eq!((device.fua, device.rotational, device.polls), (Some(true), Some(false), Some(false)));
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
    for (release, kind, expected) in [
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
        assert_eq!(found, expected, "{kind} of Linux {release}");
    }
}
