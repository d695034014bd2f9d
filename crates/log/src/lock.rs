//! Locks the directory of a log, so that it has one writer.
//!
//! ```text
//! writer    lock the directory -> lock LOCK -> LOCK is still this file -> the path still leads to this directory
//! View      both free for a moment: no writer; one held: a writer; LOCK may not be opened: unknown
//! ```
//!
//! The directory is held by a handle and locked together with the file `LOCK` in it. Removing or replacing `LOCK` admits no
//! second writer, because the directory itself is locked; `LOCK` keeps out writers of earlier versions, and those on file
//! systems that lock no directories. Locks belong to the open file, which a process that was forked off shares: so the
//! writer releases them explicitly, and a child never does.
//!
//! A log of this process may still be ending when its directory is opened again ([`Ending`]): its lock is worth waiting
//! for, unless the waiting thread writes a batch ([`Writing`]), for which that end may have to wait.
//!
//! Invariants: the holder of a [`Lock`] is the only writer; a directory on a network file system is taken only if the
//! options permit it, because its server decides what a lock and a sync are worth.

use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use seawall_sys::directory::{Directory, Locking};
use seawall_sys::fork::Home;
use seawall_sys::planted;
use seawall_sys::store::sync_directory;

use crate::channel::publisher::{Page, Publisher, close_left};
use crate::error::{Error, Result, from_system};
use crate::format::LogId;
use crate::format::names::{LOCK_FILE, REBUILD_MARKER};
use crate::lsn::Lsn;
use crate::options::Options;

/// A writer that ends may still hold the locks for an instant; one that opens at that moment retries.
const TRIES: u32 = 20;
/// The tries, one minute long, while a log of this process is still ending, or the locks are held by those that only look.
const TRIES_MAX: u32 = 30_000;
const PAUSE: Duration = Duration::from_millis(2);

/// The directory of a log, locked for writing. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Lock {
    directory: Arc<Directory>,
    file: File,
    home: Home,
    /// What followers in other processes sleep on. They look for the end of the writer when it goes, which is after the
    /// lock was released.
    page: OnceLock<Page>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A process that was forked off shares the locks and must not release those of its parent.
        if self.home.is_here() {
            // Closing the handles releases them as well, unless a child has them still.
            let _ = self.file.unlock();
            let _ = self.directory.unlock();
        }
    }
}

/// Opens the directory `dir`, which must exist, and in which no log is being rebuilt.
pub(crate) fn open_dir(dir: &Path) -> Result<Arc<Directory>> {
    let held = open_any_dir(dir)?;
    refuse_unfinished(&held)?;
    Ok(held)
}

/// Opens the directory `dir`, which must exist, also one in which a log is being rebuilt.
pub(crate) fn open_any_dir(dir: &Path) -> Result<Arc<Directory>> {
    Directory::open(dir).map(Arc::new).map_err(|error| from_system(&error))
}

/// Makes the directory of a log where there is none, if `options` say so.
pub(crate) fn make_dir(dir: &Path, options: &Options) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if !options.create {
        return Err(Error::NotALog { path: dir.to_path_buf() });
    }
    make_below(dir, &|dir| Directory::make(dir, options.permissions).map_err(seawall_sys::Error::into_source))
}

/// Makes `dir` by `create`, and what it lies in as other programs would.
fn make_below(dir: &Path, create: &dyn Fn(&Path) -> std::io::Result<()>) -> Result<()> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // From the top down: each name is durable before anything is made in it.
    if !parent.is_dir() {
        make_below(parent, &|above| std::fs::create_dir(above))?;
    }
    match create(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
        made => made.map_err(|source| Error::io("create", dir, source))?,
    }
    sync_directory(parent).map_err(|error| from_system(&error))
}

/// Refuses a directory on a network file system, unless the options permit it.
pub(crate) fn refuse_network(directory: &Directory, options: &Options) -> Result<()> {
    let name = network(directory, options);
    let name = name.map_err(|source| Error::io("look at", directory.path(), source))?;
    let Some(name) = name.filter(|_| !options.network_file_system) else { return Ok(()) };
    let reason = format!(
        "{} lies on {name}, whose server decides what a lock keeps out and what a sync makes durable: choose a directory \
         on a disk of this machine, or open it with Options::network_file_system(true) (--network-file-system)",
        directory.path().display()
    );
    Err(Error::InvalidOption { option: "network_file_system", reason })
}

#[cfg_attr(not(feature = "simulation"), expect(unused_variables, reason = "only tests pretend"))]
fn network(directory: &Directory, options: &Options) -> std::io::Result<Option<&'static str>> {
    #[cfg(feature = "simulation")]
    if let Some(name) = options.faults.as_ref().and_then(|faults| faults.network_file_system()) {
        return Ok(Some(name));
    }
    directory.network_file_system()
}

impl Lock {
    /// Takes the directory for writing.
    pub(crate) fn take(directory: &Arc<Directory>, options: &Options) -> Result<Self> {
        for tries in 1.. {
            // A log of this process that is still ending releases the lock by itself.
            let ending = tries < TRIES_MAX && is_ending(directory.path());
            if let Some(lock) = Self::try_take(directory, options)? {
                let stays = directory.is_at_its_path();
                let stays = stays.map_err(|source| Error::io("look at", directory.path(), source))?;
                let moved = || std::io::Error::other("it was moved or replaced meanwhile: reopen it");
                if let Err(error) = close_left(&lock.file) {
                    tracing::debug!(%error, "the page of an earlier writer is left to its followers");
                }
                return if stays { Ok(lock) } else { Err(Error::io("lock", directory.path(), moved())) };
            }
            // A `View` shares the locks for an instant to see whether there is a writer, and may be stopped just then.
            let looked_at = || planted!(LookerIsWriter, matches!(is_held(directory), Ok(Some(false))));
            if tries >= TRIES && !ending && !(tries < TRIES_MAX && looked_at()) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        Err(Error::Locked { path: directory.path().join(LOCK_FILE) })
    }

    /// Makes the page on which followers in other processes sleep, for the writer of `opening`, where everything before
    /// `durable`, in that segment, is durable.
    ///
    /// # Errors
    /// Why those followers look at the disk instead.
    pub(crate) fn share(
        &self,
        opening: (LogId, u64),
        durable: (Lsn, u64),
    ) -> std::io::Result<Arc<Publisher>> {
        let page = Page::make(&self.file, opening, durable)?;
        Ok(Arc::clone(&self.page.get_or_init(|| page).publisher))
    }

    /// The lock; `None` if another writer holds it, or the lock file was removed at the same moment.
    fn try_take(directory: &Arc<Directory>, options: &Options) -> Result<Option<Self>> {
        let path = || directory.path().join(LOCK_FILE);
        let locked = directory.try_lock(false);
        match locked.map_err(|source| Error::io("lock", directory.path(), source))? {
            Locking::Held => return Ok(None),
            Locking::Taken => {}
            Locking::Unavailable => {
                tracing::debug!(dir = %directory.path().display(), "directories cannot be locked here: LOCK alone is");
            }
        }
        let file = directory.open_or_make(LOCK_FILE, options.permissions);
        let hold = |file| {
            let directory = Arc::clone(directory);
            Self { directory, file, home: Home::here(), page: OnceLock::new() }
        };
        let lock = file.map(hold);
        let lock = lock.map_err(|source| Error::io("open", path(), source));
        let lock = lock.inspect_err(|_| drop(directory.unlock()))?;
        match uninterrupted(|| lock.file.try_lock()) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(Error::io("lock", path(), source)),
        }
        let named = directory.is_named(LOCK_FILE, &lock.file);
        let named = named.map_err(|source| Error::io("look at", path(), source))?;
        Ok(named.then_some(lock))
    }
}

/// Makes a call again that a signal interrupted.
fn uninterrupted(
    mut lock: impl FnMut() -> std::result::Result<(), TryLockError>,
) -> std::result::Result<(), TryLockError> {
    loop {
        match lock() {
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Whether a writer holds the log; `None` if that cannot be known, because the lock file may not be opened.
pub(crate) fn is_held(directory: &Directory) -> Result<Option<bool>> {
    let locked = directory.try_lock(true);
    match locked.map_err(|source| Error::io("lock", directory.path(), source))? {
        Locking::Held => return Ok(Some(true)),
        // It was taken to look only.
        Locking::Taken => drop(directory.unlock()),
        Locking::Unavailable => {}
    }
    match directory.open_file(LOCK_FILE) {
        Ok(file) => Ok(match uninterrupted(|| file.try_lock_shared()) {
            Ok(()) => Some(false),
            Err(TryLockError::WouldBlock) => Some(true),
            Err(TryLockError::Error(_)) => None,
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Some(false)),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(None),
        Err(source) => Err(Error::io("open", directory.path().join(LOCK_FILE), source)),
    }
}

/// The directories of logs that end on a thread of their own.
static ENDING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

thread_local! {
    /// Batches that this thread writes: more than one if a waker commits.
    static WRITING: Cell<u32> = const { Cell::new(0) };
}

/// A log of this process has been dropped and still holds its lock, as long as this lives.
#[derive(Debug)]
pub(crate) struct Ending(PathBuf);

impl Ending {
    /// The log in `dir` is ending.
    pub(crate) fn begin(dir: &Path) -> Self {
        let dir = absolute(dir);
        with_ending(|dirs| dirs.push(dir.clone()));
        Self(dir)
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        with_ending(|dirs| dirs.iter().position(|dir| *dir == self.0).map(|at| dirs.swap_remove(at)));
    }
}

fn with_ending<T>(work: impl FnOnce(&mut Vec<PathBuf>) -> T) -> T {
    work(&mut ENDING.lock().unwrap_or_else(PoisonError::into_inner))
}

fn absolute(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf())
}

/// Whether the log in `dir` is ending, so that its lock is worth waiting for.
fn is_ending(dir: &Path) -> bool {
    !is_writing() && with_ending(|dirs| dirs.contains(&absolute(dir)))
}

/// This thread writes a batch, of any log, as long as this lives.
#[derive(Debug)]
pub(crate) struct Writing(());

impl Writing {
    pub(crate) fn begin() -> Self {
        WRITING.with(|writing| writing.set(writing.get() + 1));
        Self(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // A thread that is ending has nothing left to count.
        let _ = WRITING.try_with(|writing| writing.set(writing.get().saturating_sub(1)));
    }
}

/// Whether this thread writes a batch.
pub(crate) fn is_writing() -> bool {
    WRITING.try_with(|writing| writing.get() > 0).unwrap_or(false)
}

/// Refuses a directory in which a log is being rebuilt.
fn refuse_unfinished(dir: &Directory) -> Result<()> {
    match dir.open_file(REBUILD_MARKER) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::io("open", dir.path().join(REBUILD_MARKER), source)),
        Ok(_) => Err(Error::Rebuilding { path: dir.path().to_path_buf() }),
    }
}
