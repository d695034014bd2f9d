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
    /// The method that it is about; `None`: the recommended one.
    pub method: Option<&'static str>,
    /// The file state that it is about; `None`: any.
    pub file_state: Option<FileState>,
    /// The conditions, in the grammar of [`super::parse`], without a method.
    pub conditions: &'static [&'static str],
    /// What a value of the first condition's figure means: up to so many nanoseconds, in words.
    pub grades: &'static [(u64, &'static str)],
    /// Who says so.
    pub source: &'static str,
}

const NO_LIMIT: u64 = u64::MAX;

/// The table.
pub const PRESETS: [Preset; 3] = [
    Preset {
        name: "etcd",
        transaction_bytes: Some(2300),
        method: Some("buffered+fdatasync"),
        file_state: Some(FileState::Appending),
        conditions: &["sync-p99<10ms"],
        grades: &[(10_000_000, "fast enough"), (NO_LIMIT, "too slow: leader elections under load")],
        source: "etcd manual: p99 of wal_fsync_duration_seconds below 10 ms; its usual check is 2,300-byte appends, each followed by fdatasync",
    },
    Preset {
        name: "openshift",
        transaction_bytes: Some(2300),
        method: Some("buffered+fdatasync"),
        file_state: Some(FileState::Appending),
        conditions: &["sync-p99<2ms"],
        grades: &[
            (2_000_000, "fit for a busy cluster"),
            (10_000_000, "fit for a small cluster"),
            (NO_LIMIT, "too slow for etcd"),
        ],
        source: "OpenShift's advice for busy clusters: p99 of etcd's fsync below 2 ms",
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
        source: "CockroachDB's advice on WAL fsync latency: p99 below 10 ms is good, above 50 ms bad, above 200 ms near a stall",
    },
];

/// The preset called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
