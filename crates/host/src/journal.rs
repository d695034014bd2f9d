//! Creates the journal file in one of five file states and verifies the state of its blocks.
//!
//! ```text
//!   state          made by                                       extents afterwards
//!   appending      an empty file                                 none
//!   unwritten      fallocate                                     all unwritten
//!   zero-filled    ordinary writes of zeros, fsync               all written
//!   write-zeroes   fallocate with FALLOC_FL_WRITE_ZEROES         all written, by the device
//!   recycled       ordinary writes of data, fsync                all written
//! ```
//!
//! The size of the writes that fill the file is part of its state (on ext4 with Linux ≥ 6.16 it sets the size
//! of the page-cache folios, and with it the cost of later partial writes), so it is chosen and recorded.
//!
//! Invariants: only a file that this call created is written; an existing one is an error; what was filled is
//! synced, and its pages are dropped unless asked to stay.

use crate::os;
use seawall_sys::buffer::Aligned;
use seawall_sys::clock::monotonic_ns;
use seawall_sys::durability::FileState;
use seawall_sys::layout::{Layout, layout};
use seawall_sys::{Error, OpenError, Result, scratch};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// How a journal is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Recipe {
    /// The state of its blocks.
    pub state: FileState,
    /// Its length, bytes.
    pub bytes: u64,
    /// The size of the writes that fill it, bytes.
    pub fill_bytes: u64,
    /// Whether the pages of the fill stay in the cache.
    pub keep_cached: bool,
}

/// A journal file that was just made.
#[derive(Debug)]
pub struct Made {
    /// It, open for reading and writing.
    pub file: File,
    /// What making it cost, nanoseconds.
    pub elapsed_ns: u64,
    /// Its extents; `None` where the file system does not report them.
    pub layout: Option<Layout>,
}

/// Creates the journal's file at `path`, which must not exist; [`fill`] makes it what it is to be.
///
/// # Errors
/// `create` and the path.
pub fn create(path: &Path) -> Result<File> {
    scratch::private(OpenOptions::new().read(true).write(true).create_new(true))
        .open(path)
        .map_err(|error| Error::new("create", path, error))
}

/// Brings the empty `file` at `path` into the state of `recipe`. `progress` receives the bytes filled so far and
/// returns whether to go on.
///
/// # Errors
/// [`OpenError::Unavailable`] if the file system lacks the state; [`OpenError::Failed`] with the call
/// otherwise, among them `StorageFull`, and `Interrupted` if `progress` said no. The file is removed again.
pub fn fill(
    file: File,
    path: &Path,
    recipe: &Recipe,
    progress: &mut dyn FnMut(u64) -> bool,
) -> std::result::Result<Made, OpenError> {
    let started_ns = monotonic_ns();
    let filled = bring_into_state(&file, path, recipe, progress);
    let made =
        filled.and_then(|()| sync_and_evict(&file, path, !recipe.keep_cached).map_err(OpenError::from));
    if let Err(error) = made {
        drop(file);
        // The error that counts is the first; that the file could not be removed either adds nothing to it.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    let layout = layout(&file, path)?;
    Ok(Made { file, elapsed_ns: monotonic_ns() - started_ns, layout })
}

fn bring_into_state(
    file: &File,
    path: &Path,
    recipe: &Recipe,
    progress: &mut dyn FnMut(u64) -> bool,
) -> std::result::Result<(), OpenError> {
    match recipe.state {
        FileState::Appending => Ok(()),
        FileState::Unwritten => os::journal::reserve(file, path, recipe.bytes),
        FileState::WriteZeroes => os::journal::write_zeroes(file, path, recipe.bytes),
        FileState::ZeroFilled => Ok(fill_with(file, path, recipe, |_| None, progress)?),
        FileState::Recycled => Ok(fill_with(file, path, recipe, Some, progress)?),
    }
}

/// Makes the journal at `path`: [`create`] and [`fill`].
///
/// # Errors
/// As those.
pub fn make(
    path: &Path,
    recipe: &Recipe,
    progress: &mut dyn FnMut(u64) -> bool,
) -> std::result::Result<Made, OpenError> {
    fill(create(path)?, path, recipe, progress)
}

/// Fills the file by writes of `fill_bytes`, each with the data that `seed` (of the block's number) makes, or
/// zeros.
fn fill_with(
    mut file: &File,
    path: &Path,
    recipe: &Recipe,
    seed: impl Fn(u64) -> Option<u64>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    let fill_bytes = usize::try_from(recipe.fill_bytes.max(1)).unwrap_or(1 << 20);
    let block =
        seed(1).map_or_else(|| Aligned::zeroed(fill_bytes), |seed| Aligned::incompressible(fill_bytes, seed));
    let mut done = 0;
    while done < recipe.bytes {
        let left = usize::try_from(recipe.bytes - done).unwrap_or(usize::MAX);
        let part = &block.as_slice()[..left.min(fill_bytes)];
        file.write_all(part).map_err(|error| Error::new("write", path, error))?;
        done += part.len() as u64;
        if !progress(done) {
            return Err(Error::new("write", path, std::io::ErrorKind::Interrupted.into()));
        }
    }
    Ok(())
}

/// Syncs the file and, if `drop_cache`, evicts its pages from the cache.
///
/// # Errors
/// The failed call.
pub fn sync_and_evict(file: &File, path: &Path, drop_cache: bool) -> Result<()> {
    file.sync_all().map_err(|error| Error::new("fsync", path, error))?;
    if drop_cache { os::journal::drop_cache(file, path) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1 << 20;

    fn recipe(state: FileState) -> Recipe {
        Recipe { state, bytes: BYTES, fill_bytes: 64 << 10, keep_cached: false }
    }

    #[test]
    fn every_state_is_made_as_the_file_system_confirms_or_refused_with_a_reason() {
        // Beside the test's binary: the sources may be read-only, and the system's folder for such may lie in memory.
        let binary = std::env::current_exe().expect("a test has a binary");
        let dir = tempfile::tempdir_in(binary.parent().expect("it lies in a folder")).expect("a folder");
        for state in FileState::ALL {
            let path = dir.path().join(state.name());
            match make(&path, &recipe(state), &mut |_| true) {
                Ok(made) => {
                    let length = made.file.metadata().expect("metadata").len();
                    assert_eq!(length, if state == FileState::Appending { 0 } else { BYTES }, "{state:?}");
                    if let Some(layout) = made.layout {
                        assert!(layout.agrees_with(state, BYTES), "{state:?}: {layout:?}");
                    }
                }
                Err(OpenError::Unavailable(reason)) => {
                    assert_eq!(state, FileState::WriteZeroes, "{reason}");
                    assert!(!path.exists(), "a refused journal leaves no file");
                }
                Err(OpenError::Failed(error)) => panic!("{state:?}: {error}"),
            }
        }
    }

    #[test]
    fn an_existing_file_is_never_touched() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("precious");
        std::fs::write(&path, b"data").expect("written");
        assert!(make(&path, &recipe(FileState::ZeroFilled), &mut |_| true).is_err());
        assert_eq!(std::fs::read(&path).expect("read"), b"data");
    }

    #[test]
    fn an_interrupted_fill_leaves_no_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("journal");
        let result = make(&path, &recipe(FileState::Recycled), &mut |done| done < BYTES / 2);
        assert!(matches!(result, Err(OpenError::Failed(_))));
        assert!(!path.exists());
    }
}
