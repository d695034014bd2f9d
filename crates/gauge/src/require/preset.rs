//! Lists the disk requirements of well-known systems as presets.
//!
//! Invariant: a preset names its source, and says how it must be measured to mean what the source means.

use seawall_sys::durability::FileState;

/// A well-known demand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// Transaction size that it is about, bytes; `None`: any.
    pub transaction_bytes: Option<usize>,
    /// The method that it is about; `None`: the run's subject.
    pub method: Option<&'static str>,
    /// The file state that it is about; `None`: any.
    pub file_state: Option<FileState>,
    /// The conditions, in the grammar of [`super::parse`], without a method.
    pub conditions: &'static [&'static str],
    /// What the first condition's figure means, in words, for values up to these nanoseconds.
    pub grades: &'static [(u64, &'static str)],
    /// The versions of the system that it is for.
    pub version: &'static str,
    /// Who says so, and where.
    pub source: &'static str,
}

impl Preset {
    pub(super) fn is_measured_like(&self, other: &Self) -> bool {
        let same = |a: Option<usize>, b: Option<usize>| a.is_none() || b.is_none() || a == b;
        same(self.transaction_bytes, other.transaction_bytes)
            && (self.file_state.is_none()
                || other.file_state.is_none()
                || self.file_state == other.file_state)
    }
}

const NO_LIMIT: u64 = u64::MAX;
const OPENSHIFT: &str = "Red Hat, OpenShift Container Platform, Recommended etcd practices: https://docs.redhat.com/en/documentation/openshift_container_platform/4.20/html/etcd/etcd-practices";

/// The table.
pub const PRESETS: [Preset; 5] = [
    Preset {
        name: "etcd",
        transaction_bytes: Some(2300),
        method: Some("buffered+fdatasync"),
        file_state: Some(FileState::Unwritten),
        conditions: &["sync-p99<10ms"],
        grades: &[(10_000_000, "fast enough"), (NO_LIMIT, "too slow: leader elections under load")],
        version: "3.5 and 3.6",
        source: "etcd manual, p99 of wal_fsync_duration_seconds; its usual check writes 2,300 B before each fdatasync, and its WAL is reserved by fallocate: https://etcd.io/docs/v3.6/op-guide/hardware/",
    },
    Preset {
        name: "openshift",
        transaction_bytes: Some(8000),
        method: Some("buffered+fdatasync"),
        file_state: Some(FileState::Appending),
        conditions: &["p99<10ms", "commits/s>=50"],
        grades: &[
            (2_000_000, "fit for a heavily loaded cluster too"),
            (10_000_000, "fit for etcd"),
            (NO_LIMIT, "too slow for etcd"),
        ],
        version: "4.20 to 4.22",
        source: OPENSHIFT,
    },
    Preset {
        name: "openshift-heavy",
        transaction_bytes: Some(8000),
        method: Some("buffered+fdatasync"),
        file_state: Some(FileState::Appending),
        conditions: &["p99<2ms", "commits/s>=500"],
        grades: &[
            (2_000_000, "fit for a heavily loaded cluster"),
            (10_000_000, "fit for a small cluster"),
            (NO_LIMIT, "too slow for etcd"),
        ],
        version: "4.20 to 4.22",
        source: OPENSHIFT,
    },
    Preset {
        name: "cockroachdb",
        transaction_bytes: None,
        method: None,
        file_state: None,
        conditions: &["p99<10ms"],
        grades: &[
            (10_000_000, "good"),
            (50_000_000, "between good and bad"),
            (200_000_000, "bad"),
            (NO_LIMIT, "near a disk stall"),
        ],
        version: "as of 24.3",
        source: "CockroachDB documentation, latency of storage.wal.fsync: https://www.cockroachlabs.com/docs/stable/wal-failover",
    },
    Preset {
        name: "zookeeper",
        transaction_bytes: None,
        method: Some("buffered+fdatasync"),
        file_state: Some(FileState::Unwritten),
        conditions: &["sync-max<1s"],
        grades: &[
            (1_000_000_000, "no warning"),
            (NO_LIMIT, "ZooKeeper warns that a sync of its log took too long"),
        ],
        version: "3.5 to 3.9",
        source: "ZooKeeper administrator's guide, fsync.warningthresholdms, 1000 ms by default: https://zookeeper.apache.org/doc/r3.9.3/zookeeperAdmin.html",
    },
];

pub(crate) fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
