//! Reads facts from `/proc`, `/sys` and a few files, below roots that a test can move.
//!
//! Invariant: an unreadable fact is `None`; nothing here fails and nothing here decides.

use std::fs;
use std::path::{Path, PathBuf};

/// The places that are read, and the questions that only a live system can answer.
pub(super) struct Roots {
    /// `/`, for what mount tables name: images behind loop devices, device nodes, container marks.
    pub(super) root: PathBuf,
    pub(super) proc: PathBuf,
    pub(super) sys: PathBuf,
    /// Whether a folder passes "no copy on write" to its new files.
    pub(super) attributes: fn(&Path) -> u32,
    /// A ZFS dataset's `sync` property.
    pub(super) zfs_sync: fn(&str) -> Option<String>,
    /// What `zpool status -LP` says about a pool.
    pub(super) zpool_status: fn(&str) -> Option<String>,
    /// The table of a `dm` device.
    pub(super) dm_table: fn(&str) -> Option<String>,
}

impl Roots {
    pub(super) fn proc_text(&self, path: &str) -> Option<String> {
        text(&self.proc.join(path))
    }

    /// Whether this kernel is at least of that version; an unreadable release counts as a new one.
    pub(super) fn is_kernel_at_least(&self, version: (u32, u32)) -> bool {
        let release = self.proc_text("sys/kernel/osrelease");
        let mut numbers = release.as_deref().unwrap_or_default().split(|c: char| !c.is_ascii_digit());
        let mut number = || numbers.next().and_then(|digits| digits.parse().ok());
        number().zip(number()).is_none_or(|release| release >= version)
    }

    pub(super) fn sys_text(&self, path: &str) -> Option<String> {
        text(&self.sys.join(path))
    }

    pub(super) fn below_root(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub(super) fn block_by_name(&self, name: &str) -> Option<PathBuf> {
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return None;
        }
        fs::canonicalize(self.sys.join("class/block").join(name)).ok()
    }

    pub(super) fn block_by_number(&self, (major, minor): (u32, u32)) -> Option<PathBuf> {
        fs::canonicalize(self.sys.join(format!("dev/block/{major}:{minor}"))).ok()
    }
}

/// The text of a file without the white space around it; `None` if it is absent, unreadable or empty.
pub(in crate::os) fn text(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

pub(super) fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// The names in a folder, sorted so that reports do not change from run to run; none if it cannot be read.
pub(in crate::os) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
