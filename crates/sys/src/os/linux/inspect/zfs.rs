//! Runs the ZFS tools for a pool's devices and a dataset's `sync` property, which no file shows.
//!
//! Invariant: the tools run only for a ZFS mount; where they are absent or refuse, the facts stay unknown.

use std::process::{Command, Stdio};

/// A dataset's `sync` property: `standard`, `always` or `disabled`.
pub(super) fn sync_property(dataset: &str) -> Option<String> {
    output("zfs", &["get", "-H", "-o", "value", "sync", dataset]).map(|value| value.trim().to_owned())
}

/// The state of a pool, its devices by full path.
pub(super) fn pool_status(pool: &str) -> Option<String> {
    output("zpool", &["status", "-LP", pool])
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let done =
        Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}
