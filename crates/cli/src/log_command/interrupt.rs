//! Ends `seawall log bench` on Ctrl-C: removes its scratch folders and exits.
//!
//! A running workload cannot be stopped, so the signal thread removes its folders while it runs. Invariants: only
//! scratch folders of this process are touched; the workload's thread starts nothing new and ends nothing meanwhile; the process ends within [`PATIENCE_MAX`] attempts, and prints the folders that it
//! could not remove.

use crate::exit::{Failure, INTERRUPTED};
use crate::signals::{STOP, take_over};
use seawall_sys::scratch;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the folders are looked for at most, and how long is waited in between: a log that is still being written
/// may make another file while its folder is removed.
const PATIENCE_MAX: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);

/// Listens for the signals while a benchmark runs in `dir`.
pub(super) fn listen(dir: &Path) -> Result<(), Failure> {
    let dir = dir.to_path_buf();
    take_over(move || {
        match remove() {
            left if left.is_empty() => {
                eprintln!("\ninterrupted; nothing was kept, no folder was left behind in {}", dir.display());
            }
            left => left.iter().for_each(|path| eprintln!("\ninterrupted; remove {}", path.display())),
        }
        std::process::exit(i32::from(INTERRUPTED));
    })
}

/// Returns if no signal came; otherwise never, because the signal's thread is about to end the process.
pub(super) fn check() {
    while STOP.load(Ordering::SeqCst) {
        std::thread::sleep(PAUSE);
    }
}

/// Removes our folders until two looks in a row find none; returns what could not be removed.
fn remove() -> Vec<PathBuf> {
    let mut is_clean = false;
    let mut left = Vec::new();
    for _ in 0..PATIENCE_MAX {
        left = scratch::remove_all();
        if left.is_empty() && is_clean {
            return left;
        }
        is_clean = left.is_empty();
        std::thread::sleep(PAUSE);
    }
    left
}
