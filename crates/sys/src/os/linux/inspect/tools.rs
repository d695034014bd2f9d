//! Runs tools for what no file shows: a ZFS pool's devices, a dataset's `sync` property, the targets of a `dm` device.
//!
//! Invariant: a tool runs only where such a thing is met; where it is absent or refuses, the facts stay unknown.

use std::process::{Command, Stdio};

/// A dataset's `sync` property: `standard`, `always` or `disabled`.
pub(super) fn sync_property(dataset: &str) -> Option<String> {
    output("zfs", &["get", "-H", "-o", "value", "sync", dataset]).map(|value| value.trim().to_owned())
}

pub(super) fn pool_status(pool: &str) -> Option<String> {
    output("zpool", &["status", "-LP", pool])
}

/// The table of a `dm` device: a line for each target, its name the third word. Only root is told.
pub(super) fn dm_table(name: &str) -> Option<String> {
    output("dmsetup", &["table", name])
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let done =
        Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}
