//! Tests that each rule about a machine is missed when it is removed: recorded machines, with what a method outlives there.

use super::fixture::{Machine, NVME, Queue, SATA_A, SPINNING, SSD};
use crate::counters::tests::watched;
use crate::counters::{Counting, Verdict};
use crate::durability::Durability::{self, PowerLoss, ProcessCrash, SystemCrash};
use crate::durability::{FileState, classify};
use crate::inspect::{MEMORY_NS, leave_memory};
use crate::methods;
use crate::planted::{Mutant, set};
use std::collections::HashSet;

const HIDDEN: Queue = Queue { cache: "write through", ..SPINNING };
const PSEUDO: &str = "platform/pseudo_0/adapter0/host2/target2:0:0/2:0:0:0/block/sdc";

/// A disk with a volatile cache, and a file system mounted on it.
fn disk(mount: &str) -> Machine {
    Machine::new().disk(SATA_A, "8:0", SPINNING).mount(mount)
}

/// A dm device of this name on a disk, its queue saying `cache`.
fn mapped(name: &str, cache: &str) -> Machine {
    disk("8:0 / /below ext4 /dev/sda rw")
        .stacked("dm-0", "253:0", &[("dm/name", name), ("dm/uuid", "")], &["sda"])
        .write("sys/devices/virtual/block/dm-0/queue/write_cache", cache)
        .mount("253:0 / / ext4 /dev/mapper/x rw")
}

/// A loop device on an image on that mount, which is that of the disk.
fn looped(machine: Machine, image: &str, mount: &str) -> Machine {
    machine
        .stacked("loop0", "7:0", &[("loop/backing_file", image), ("loop/dio", "1")], &[])
        .write(&image[1..], "")
        .mount(mount)
}

/// A rule removed, a machine, a method, and what that outlives on its root.
type Recorded = (Mutant, fn() -> Machine, &'static str, Durability);

const MACHINES: [Recorded; 14] = [
    (
        Mutant::SuperblockUnread,
        || disk("8:0 / / ext4 /dev/sda rw").write("proc/fs/ext4/sda/options", "rw\nnobarrier\ndata=ordered"),
        "buffered+fdatasync",
        SystemCrash,
    ),
    (
        Mutant::JournalMissingUnseen,
        || {
            let options = disk("8:0 / / ext4 /dev/sda rw").write("proc/fs/ext4/sda/options", "rw\nbarrier");
            options.write("proc/sys/kernel/osrelease", "6.1.0")
        },
        "buffered+fdatasync",
        SystemCrash,
    ),
    (
        Mutant::CacheReportUnread,
        || {
            let report = format!("sys/devices/{SATA_A}/device/scsi_disk/0:0:0:0/cache_type");
            let machine = Machine::new().disk(SATA_A, "8:0", HIDDEN).write(&report, "write back");
            machine.mount("8:0 / / ext4 /dev/sda rw")
        },
        "direct+dsync",
        SystemCrash,
    ),
    (
        Mutant::FuaTellsNoCache,
        || {
            let machine = Machine::new().disk(NVME, "259:0", Queue { fua: 1, ..HIDDEN });
            machine.mount("259:0 / / ext4 /dev/nvme0n1 rw")
        },
        "direct+dsync",
        SystemCrash,
    ),
    (
        Mutant::LoopHasNoCache,
        || {
            let machine =
                Machine::new().disk(NVME, "259:0", SSD).mount("259:0 / /below ext4 /dev/nvme0n1 rw");
            let machine = looped(machine, "/below/image", "7:0 / / ext4 /dev/loop0 rw");
            machine.write("sys/devices/virtual/block/loop0/queue/write_cache", "write through")
        },
        "buffered+fdatasync",
        SystemCrash,
    ),
    (
        Mutant::QueueAboveBelieved,
        || mapped("by-hand-linear", "write through"),
        "buffered+fdatasync",
        SystemCrash,
    ),
    (Mutant::SyncMountUnseen, || disk("8:0 / / ext4 /dev/sda rw,sync"), "buffered", PowerLoss),
    (Mutant::SyncfsBelieved, || disk("8:0 / / vfat /dev/sda rw"), "buffered+syncfs", SystemCrash),
    (
        Mutant::MemoryDiskBelieved,
        || Machine::new().disk("virtual/block/nullb0", "8:0", SSD).mount("8:0 / / ext4 /dev/nullb0 rw"),
        "direct+dsync",
        ProcessCrash,
    ),
    (
        Mutant::MemoryDiskBelieved,
        || {
            let machine = Machine::new().disk(PSEUDO, "8:0", SSD);
            let machine = machine.write(&format!("sys/devices/{PSEUDO}/device/model"), "scsi_debug");
            machine.mount("8:0 / / ext4 /dev/sdc rw")
        },
        "direct+dsync",
        ProcessCrash,
    ),
    (
        Mutant::UnseenBelieved,
        || Machine::new().mount("0:9 / / overlay overlay rw,upperdir=upper"),
        "buffered+fdatasync",
        ProcessCrash,
    ),
    (Mutant::ThinVolumeBelieved, || mapped("by-hand-thin", "write back"), "direct", ProcessCrash),
    (Mutant::ThinVolumeBelieved, || mapped("by-hand-cache", "write back"), "direct", ProcessCrash),
    (
        Mutant::ChecksumsUnseen,
        || {
            let tree = disk("8:0 / /tree btrfs /dev/sda rw").write("proc/sys/kernel/osrelease", "6.15.0");
            looped(tree, "/tree/image", "7:0 / / vfat /dev/loop0 rw")
        },
        "buffered+syncfs",
        ProcessCrash,
    ),
];

/// What levels counted in 64 commits, as the tests of the counters have it, none of which confirms anything.
type Unconfirmed = (Mutant, &'static [(bool, bool, [u64; 3])]);

const UNCONFIRMED: [Unconfirmed; 6] = [
    (Mutant::WatchesLowestAlone, &[(true, false, [0, 64, 0]), (true, true, [0, 0, 64])]),
    (Mutant::WatchesNoWrites, &[(true, true, [1, 0, 64])]),
    (Mutant::HalfTheFlushesDo, &[(true, true, [0, 3, 61])]),
    (Mutant::UnseenBelowConfirmed, &[(true, false, [0, 0, 64])]),
    (Mutant::UncountedConfirmed, &[(false, true, [0, 64, 0])]),
    (Mutant::NeighbourConfirms, &[(true, true, [0, 0, 900])]),
];

/// What synced writes took, and whether a disk counted them, that did not leave memory.
const IN_MEMORY: [(Mutant, [(u64, bool); 3]); 3] = [
    (Mutant::MemoryByCountAlone, [(MEMORY_NS, true), (MEMORY_NS - 1, true), (MEMORY_NS, true)]),
    (Mutant::MemoryByTimeAlone, [(MEMORY_NS, false); 3]),
    // A neighbour's writes fell into some.
    (Mutant::MemoryByTimeAlone, [(MEMORY_NS, true), (MEMORY_NS, false), (MEMORY_NS, true)]),
];

#[test]
fn each_rule_that_is_removed_is_missed_on_a_recorded_machine() {
    let mut missed = HashSet::new();
    let mut check = |mutant, what: &str, holds: &dyn Fn() -> bool| {
        assert!(holds(), "{what}");
        set(Some(mutant));
        let still = holds();
        set(None);
        assert!(!still, "{mutant:?} changes nothing: {what}");
        missed.insert(mutant);
    };
    for (mutant, machine, id, class) in MACHINES {
        let method = methods::find(id).expect("a row of the table");
        let outlives = || classify(method, &machine().look("/").surroundings(FileState::ZeroFilled));
        check(mutant, &format!("{mutant:?}: {id} outlives {class:?}: {:?}", outlives()), &|| {
            outlives().class == class
        });
    }
    for (mutant, levels) in UNCONFIRMED {
        check(mutant, &format!("{levels:?}"), &|| watched(levels).verdict(true) != Verdict::Confirmed);
    }
    for (mutant, tries) in IN_MEMORY {
        check(mutant, &format!("{tries:?}"), &|| !leave_memory(&tries, MEMORY_NS));
    }
    check(Mutant::SyncMountNotForced, "a direct write may be a forced one on a mount that syncs it", &|| {
        let found = disk("8:0 / / ext4 /dev/sda rw,sync").look("/");
        found.file_system.may_force(methods::find("direct").expect("a row of the table"))
    });
    let stat = "1 1 8 1 5076 1 8 1 0 1 1 0 0 0 0 238 5";
    let device = mapped("by-hand-linear", "write back").write("sys/devices/virtual/block/dm-0/stat", stat);
    check(Mutant::FlushesTakenForCounted, "dm counts writes alone", &|| {
        device.look("/").devices[0].counting == Some(Counting::Writes)
    });
    assert_eq!(missed, Mutant::OF_MACHINES.iter().copied().collect());
}
