//! Defines the tables of scenes and of negative controls.
//!
//! Invariant: a control names the layers that claim to catch its mistake, and no others; a mistake that a layer
//! cannot see is listed here and not hidden by omitting the row.

use seawall_sys::method::{Depth, RingPoll, Sync, Write, WriteFlag};

use crate::directory_disk::Sabotage;
use crate::scene::Scene;
use crate::victim::VictimKind;

/// The methods that the library and the release binary run.
const LIBRARY_METHODS: [&str; 11] = [
    "direct+dsync",
    "buffered+fdatasync",
    "buffered+fsync",
    "dsync",
    "rwf-dsync",
    "direct+fdatasync",
    "direct+rwf-dsync",
    "uring-linked",
    "uring+fdatasync",
    "uring-direct-linked",
    "uring-direct-fixed-dsync",
];

/// Every durable method of the table that leaves its syncs where a file recorder can see them.
///
/// `syncfs(2)` sends nothing to a FUSE file system; `RWF_DONTCACHE`, `RWF_ATOMIC` and polled completion are refused
/// there.
pub(crate) fn visible_methods() -> Vec<&'static str> {
    let hidden = |method: &&seawall_sys::Method| {
        let refused = matches!(method.write, Write::Flagged(WriteFlag::DontCache | WriteFlag::Atomic));
        method.sync == Sync::Syncfs
            || refused
            || matches!(method.write, Write::Ring { poll: RingPoll::Completion, .. })
    };
    let durable = seawall_sys::methods::here().iter().filter(|method| method.reach().data == Depth::Stable);
    durable.filter(|method| !hidden(method)).map(|method| method.id).collect()
}

/// The scenes of the file recorder for one seed.
pub(crate) fn file_scenes(seed: u64) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for held in [0, 500] {
        for method in visible_methods() {
            scenes.push(Scene::honest(VictimKind::Core, method, seed, held, 60));
        }
        for method in LIBRARY_METHODS {
            scenes.push(Scene::honest(VictimKind::Library, method, seed, held, 200));
            scenes.push(Scene::honest(VictimKind::Binary, method, seed, held, 120));
        }
    }
    scenes
}

/// The scenes of the block recorder for one seed, on each file system.
pub(crate) fn block_scenes(seed: u64) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for held in [0, 500] {
        for (i, method) in LIBRARY_METHODS.iter().enumerate() {
            let engine =
                if (i as u64 + seed).is_multiple_of(3) { VictimKind::Binary } else { VictimKind::Library };
            scenes.push(Scene::honest(engine, method, seed.wrapping_mul(100) + i as u64, held, 40));
        }
    }
    for method in ["uring-linked", "uring-direct-fixed-dsync", "mmap+msync", "uring-direct+fdatasync"] {
        scenes.push(Scene::honest(VictimKind::Core, method, seed, 500, 30));
    }
    scenes
}

/// One mistake and the layers that claim to catch it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mistake {
    /// In words.
    pub(crate) name: &'static str,
    /// By which commit method it is made.
    pub(crate) method: &'static str,
    /// What is left out besides.
    pub(crate) sabotage: Sabotage,
    /// How many of 1000 replies are held back.
    pub(crate) held_in_1000: u64,
    /// Whether the file recorder claims to catch it under the strict rule, and under the journal rule.
    pub(crate) files: [bool; 2],
    /// The file systems on which the block recorder claims to catch it.
    pub(crate) blocks: &'static [&'static str],
    /// Whether kill -9 claims to catch it.
    pub(crate) kill: bool,
}

/// Every negative control.
///
/// No journalling file system loses a name that was made before a file was synced, so only the strict rule sees a
/// missing sync of the directory. btrfs makes a sync wait for direct writes in flight, so there an unlinked sync does
/// no harm.
pub(crate) const MISTAKES: [Mistake; 5] = [
    Mistake { name: "no sync", method: "buffered", ..EVERYWHERE },
    Mistake { name: "sync_file_range only", method: "sync-file-range", ..EVERYWHERE },
    Mistake {
        name: "acknowledged before the commit",
        sabotage: Sabotage::EarlyAck,
        kill: true,
        ..EVERYWHERE
    },
    Mistake {
        name: "no sync of the directory",
        sabotage: Sabotage::NoDirSync,
        files: [true, false],
        blocks: &[],
        ..EVERYWHERE
    },
    Mistake {
        name: "io_uring fsync not linked to its write",
        sabotage: Sabotage::UnlinkedSync,
        held_in_1000: 500,
        blocks: &["ext4", "xfs"],
        ..EVERYWHERE
    },
];

/// A mistake that every recorder catches.
const EVERYWHERE: Mistake = Mistake {
    name: "",
    method: "direct+fdatasync",
    sabotage: Sabotage::None,
    held_in_1000: 0,
    files: [true, true],
    blocks: &["ext4", "xfs", "btrfs"],
    kill: false,
};

impl Mistake {
    /// The scene that shows it.
    pub(crate) fn scene(&self, seed: u64) -> Scene {
        let honest = Scene::honest(VictimKind::Core, self.method, seed, self.held_in_1000, 40);
        Scene { sabotage: self.sabotage, ..honest }
    }
}
