//! Isolates the harness so that nothing stays behind, even if its process is killed.
//!
//! | what | how it goes with the process |
//! | --- | --- |
//! | mounts | the process runs in a mount namespace of its own, which ends with its last member |
//! | loop devices | each is marked to be detached when it is closed for the last time |
//! | file systems served by threads of this process | their connection ends with the process |
//! | victims | the kernel kills them when the thread that started them ends |
//! | directories | named after the process; the next run removes those whose process is gone |
//!
//! Invariant: only objects named after a process that is gone are ever removed.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

const PREFIX: &str = "seawall-crash-";

/// Set in the environment of a process that has a mount namespace of its own.
const APART: &str = "SEAWALL_CRASH_APART";

/// A directory of this process's own, removed when dropped.
pub(crate) fn scratch() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(&format!("{PREFIX}{}-", std::process::id())).tempdir()
}

/// Starts this program again, as the same process, in a mount namespace of its own; returns in the one that has it.
pub(crate) fn enter() -> io::Result<()> {
    if std::env::var_os(APART).is_some() || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let mut again = Command::new("unshare");
    again.args(["--mount", "--propagation", "private", "--"]).arg(std::env::current_exe()?);
    let error = again.args(std::env::args_os().skip(1)).env(APART, "1").exec();
    Err(io::Error::new(error.kind(), format!("unshare (package util-linux): {error}")))
}

/// Makes this process, a victim, end with the thread that started it.
pub(crate) fn end_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// The process that a directory of ours is named after.
fn owner(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Whether the process is there and one of ours: its number may have been given to another.
fn lives(owner: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{owner}/comm")).is_ok_and(|name| name.starts_with("seawall"))
}

/// Clears away what killed runs left behind; says what it was. What cannot be removed is said and left.
pub(crate) fn sweep() -> io::Result<Vec<String>> {
    let mut swept = Vec::new();
    for entry in std::fs::read_dir(std::env::temp_dir())? {
        let path = entry?.path();
        if owner(&path).is_none_or(lives) {
            continue;
        }
        for device in devices(&path) {
            let detached = Command::new("losetup").arg("--detach").arg(&device).status();
            swept.push(format!("{} ({})", device.display(), detached.map_or("not detached", |_| "detached")));
        }
        for below in ["mounted", "recorder", ""] {
            // Mostly not mounted.
            let _ = unmount(path.join(below), UnmountFlags::DETACH);
        }
        match std::fs::remove_dir_all(&path) {
            Ok(()) => swept.push(path.display().to_string()),
            Err(error) => swept.push(format!("{} (left: {error})", path.display())),
        }
    }
    Ok(swept)
}

/// The loop devices over files in a directory.
fn devices(dir: &Path) -> Vec<PathBuf> {
    let Ok(blocks) = std::fs::read_dir("/sys/block") else { return Vec::new() };
    let over = |block: &Path| {
        let backing = std::fs::read_to_string(block.join("loop/backing_file"));
        backing.is_ok_and(|backing| Path::new(backing.trim()).starts_with(dir))
    };
    let found = blocks.flatten().map(|block| block.path()).filter(|block| over(block));
    found.filter_map(|block| Some(Path::new("/dev").join(block.file_name()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::{lives, owner, scratch};

    #[test]
    fn a_directory_tells_whose_it_is() {
        let dir = scratch().expect("a directory");
        let owner = owner(dir.path());
        assert_eq!(owner, Some(std::process::id()));
        assert!(owner.is_some_and(lives), "the test's own process is one of ours");
        assert!(!lives(1), "the first process is none of ours");
        assert_eq!(super::owner(std::path::Path::new("/tmp/seawall-crash-x-1")), None);
    }
}
