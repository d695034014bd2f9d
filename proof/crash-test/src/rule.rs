//! The rules of four file systems for what a power cut may leave.

use serde::{Deserialize, Serialize};

/// Whose rule decides which states are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// What the standard allows: less than any real file system keeps.
    Posix,
    /// ext4 as it is mounted by default.
    Ext4,
    /// xfs.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl Rule {
    /// All of them, the weakest first.
    pub const ALL: [Self; 4] = [Self::Posix, Self::Ext4, Self::Xfs, Self::Btrfs];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Posix => "posix",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }
}
