//! Holds temporary files in a scratch folder that is new, private, locked, and removed with its guard.
//!
//! ```text
//!   FOLDER/seawall-<16 hex digits>.tmp/    made by mkdir, mode 0700: no existing name is taken, no link followed
//!            lock                          locked as long as the run lives: a sweeper that can lock it removes the folder
//!            journal, log/, ...
//! ```
//!
//! On Linux the folder's descriptor is held and files are reached through it (`/proc/self/fd/N/journal`), so that
//! the owner of the folder above cannot put another folder or a link in its place while a run writes.
//!
//! Invariants: only folders that this module made are removed: by their guard, by [`remove_all`] when a signal ends
//! the process, or by [`sweep`] when the lock shows that their run is dead and they belong to the same user. Names hold
//! no process id, because those repeat in containers.

use crate::error::{Error, Result};
use crate::os;
use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PREFIX: &str = "seawall-";
const SUFFIX: &str = ".tmp";
const LOCK: &str = "lock";
/// A name that is taken, or that a sweeper removed in the moment it was made, is drawn again.
const ATTEMPTS: u32 = 8;

/// A scratch folder, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    name: PathBuf,
    path: PathBuf,
    held: Option<File>,
    lock: Option<File>,
}

/// Those of this process, for the end by a signal: the path to each, and its name.
static LIVE: Mutex<Vec<(PathBuf, PathBuf)>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<(PathBuf, PathBuf)>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 16 unpredictable hexadecimal digits: the standard library seeds its hashers from the system.
#[must_use]
pub fn random_digits() -> String {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(crate::clock::monotonic_ns());
    format!("{:016x}", hasher.finish())
}

impl Scratch {
    /// A new folder in `folder`, which exists.
    ///
    /// # Errors
    /// `create` and the folder, if it cannot be made; what else failed otherwise.
    pub fn new_in(folder: &Path) -> Result<Self> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match Self::attempt(&folder.join(format!("{PREFIX}{}{SUFFIX}", random_digits()))) {
                Ok(scratch) => return Ok(scratch),
                Err(error) => match error.kind() {
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound if folder.is_dir() => {
                        last = Some(error);
                    }
                    _ => return Err(error),
                },
            }
        }
        Err(last.unwrap_or_else(|| Error::new("create", folder, io::ErrorKind::AlreadyExists.into())))
    }

    fn attempt(name: &Path) -> Result<Self> {
        os::scratch::make_folder(name).map_err(|error| Error::new("create", name, error))?;
        // From here on the guard removes it, whatever fails.
        let mut scratch = Self { name: name.to_path_buf(), path: name.to_path_buf(), held: None, lock: None };
        (scratch.held, scratch.path) = os::scratch::hold(name)?;
        live().push((scratch.path.clone(), scratch.name.clone()));
        let path = scratch.path.join(LOCK);
        let lock = private(OpenOptions::new().read(true).write(true).create_new(true)).open(&path);
        let lock = lock.map_err(|error| Error::new("create", &path, error))?;
        // A sweeper was faster: the name is lost.
        lock.try_lock().map_err(|_| Error::new("lock", &path, io::ErrorKind::NotFound.into()))?;
        scratch.lock = Some(lock);
        Ok(scratch)
    }

    /// The folder, for paths of files in it. On Linux it leads through the held descriptor and is good in this process
    /// only; errors show the name instead.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name, as a user sees it.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        live().retain(|(_, name)| name != &self.name);
        empty(&self.path);
        self.lock = None;
        self.held = None;
        remove_emptied(&self.name);
    }
}

/// A path below [`Scratch::path`], for processes that this one starts.
#[must_use]
pub fn for_children(path: &Path) -> PathBuf {
    os::scratch::path_for_children(path)
}

/// What is private to the user: mode 0600 where there are modes.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    os::scratch::private(options)
}

/// Removes all but the lock; what cannot be removed stays, and is swept by a later run.
fn empty(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if entry.file_name() != LOCK {
            let path = entry.path();
            let _ = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
    let _ = fs::remove_file(path.join(LOCK));
}

/// Only an empty folder can be removed by its name, so that another one in its place loses nothing.
fn remove_emptied(name: &Path) {
    let _ = fs::remove_dir(name);
}

/// Removes the scratch folders of this process, for the handler of a signal that ends it; returns what is left, because
/// a thread may go on making files meanwhile.
#[must_use]
pub fn remove_all() -> Vec<PathBuf> {
    let all = live().clone();
    for (path, name) in &all {
        empty(path);
        remove_emptied(name);
    }
    all.into_iter().map(|(_, name)| name).filter(|name| fs::symlink_metadata(name).is_ok()).collect()
}

fn is_scratch_name(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    digits.is_some_and(|digits| {
        digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Removes scratch folders in `folder` that a run of the same user left behind when it was killed; returns their names.
#[must_use]
pub fn sweep(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_scratch_name));
    named.map(|entry| entry.path()).filter(|name| sweep_one(name)).collect()
}

fn sweep_one(name: &Path) -> bool {
    let own = fs::symlink_metadata(name).is_ok_and(|metadata| os::scratch::is_own_folder(&metadata));
    let Some((held, path)) = own.then(|| os::scratch::hold(name).ok()).flatten() else { return false };
    let lock = path.join(LOCK);
    let is_dead = match OpenOptions::new().read(true).write(true).open(&lock) {
        Ok(file) => file.try_lock().is_ok(),
        // Killed between making it and locking it, or just being made: only what is empty can be removed then.
        Err(error) => {
            error.kind() == io::ErrorKind::NotFound
                && fs::read_dir(&path).is_ok_and(|mut all| all.next().is_none())
        }
    };
    if is_dead {
        empty(&path);
    }
    drop(held);
    is_dead && fs::remove_dir(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    }

    #[test]
    fn a_scratch_folder_is_new_private_and_gone_with_its_guard() {
        let dir = tempfile::tempdir().expect("a folder");
        let (one, two) =
            (Scratch::new_in(dir.path()).expect("made"), Scratch::new_in(dir.path()).expect("made"));
        assert_ne!(one.name(), two.name());
        fs::write(one.path().join("journal"), b"x").expect("written");
        fs::create_dir(one.path().join("log")).expect("made");
        assert!(one.name().join("journal").exists(), "reached by its name too");
        assert!(is_scratch_name(one.name().file_name().expect("a name").to_str().expect("text")));
        assert_eq!(sweep(dir.path()), Vec::<PathBuf>::new(), "those that are held are not swept");
        drop((one, two));
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn only_what_nobody_holds_is_swept_and_nothing_of_another_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let dead = dir.path().join(format!("{PREFIX}{}{SUFFIX}", "0".repeat(16)));
        os::scratch::make_folder(&dead).expect("made");
        fs::write(dead.join(LOCK), b"").expect("written");
        fs::write(dead.join("journal"), b"x").expect("written");
        let spared = ["seawall-journal-7.tmp", "seawall-0123456789abcdeg.tmp", "seawall-0123456789abcdef"];
        for name in spared {
            fs::create_dir(dir.path().join(name)).expect("made");
        }
        // A file of that name is none of ours.
        fs::write(dir.path().join(format!("{PREFIX}{}{SUFFIX}", "1".repeat(16))), b"x").expect("written");
        let alive = Scratch::new_in(dir.path()).expect("made");
        assert_eq!(sweep(dir.path()), [dead]);
        assert_eq!(names(dir.path()).len(), spared.len() + 2);
        drop(alive);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_put_in_its_place_gets_nothing_and_loses_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a folder");
        let scratch = Scratch::new_in(dir.path()).expect("made");
        let mode = fs::metadata(scratch.name()).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        if cfg!(target_os = "linux") {
            let (aside, victim) = (dir.path().join("aside"), dir.path().join("victim"));
            fs::rename(scratch.name(), &aside).expect("renamed");
            fs::create_dir(&victim).expect("made");
            fs::write(victim.join("journal"), b"precious").expect("written");
            std::os::unix::fs::symlink(&victim, scratch.name()).expect("linked");
            fs::write(scratch.path().join("journal"), b"ours").expect("written");
            assert_eq!(fs::read(aside.join("journal")).expect("read"), b"ours");
            drop(scratch);
            assert_eq!(fs::read(victim.join("journal")).expect("read"), b"precious");
            assert_eq!(names(&aside), Vec::<String>::new(), "what is ours is removed wherever it is");
        }
    }
}
