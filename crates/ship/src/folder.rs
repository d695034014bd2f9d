//! Stores objects in a folder: files that are synced before they get their names, and only if these are free.
//!
//! Invariants: a name is given by a link, which fails if there is one; the folder is synced before the creation is answered; a file that
//! was not written whole is removed at once, so that a full disk is not filled by what failed on it.

use crate::archive::Store;
use crate::error::{Error, Result};
use crate::note::{hex, random};
use seawall_sys::store::sync_directory;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A folder of objects.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Where something was created that is not synced yet: until it is, nothing is read, because it would count as stored.
    unsynced: Option<PathBuf>,
}

/// What lies in it.
const PARTS: [&str; 5] = ["messages", "starts", "manifests", "packs", "standbys"];
/// What the name of a file that is being written begins with.
const STAGED: &str = "staged-";
/// The same of what earlier versions tried a folder with.
const PROBE: &str = "probe-";
/// A staged file that was not written to for this long is left over.
const LEFT_FOR: Duration = Duration::from_hours(24);

/// The one form of a path: however it is written, by whatever links it leads there. Its last part need not be there.
///
/// # Errors
/// [`Error::Unfit`] if what it lies in is not there.
pub fn normal(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).map_err(|source| failed("open", path, source))?;
    if let Ok(normal) = path.canonicalize() {
        return Ok(normal);
    }
    let (parent, name) = (path.parent(), path.file_name());
    match parent.zip(name).and_then(|(parent, name)| Some(parent.canonicalize().ok()?.join(name))) {
        Some(normal) => Ok(normal),
        None => Err(Error::unfit(format!(
            "{} holds no archive, and its parent does not exist: mount the disk, or create that folder",
            path.display()
        ))),
    }
}

/// Refuses an archive that lies in the folder of its log, or the log in it: each would take the other's files for its own.
///
/// # Errors
/// [`Error::Option`].
pub fn lies_apart(log: &Path, archive: &Path) -> Result<()> {
    let (Ok(log), archive) = (log.canonicalize(), normal(archive)?) else { return Ok(()) };
    if !(archive.starts_with(&log) || log.starts_with(&archive)) {
        return Ok(());
    }
    let (archive, log) = (archive.display(), log.display());
    let reason = format!("{archive}: neither an archive nor its log, {log}, may be inside the other");
    Err(Error::Option { option: "address", reason })
}

impl Folder {
    /// The store in the folder `path`, which is made if there is none; what it lies in must be there.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Unfit`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = normal(path.as_ref())?;
        for part in std::iter::once(path.clone()).chain(PARTS.map(|part| path.join(part))) {
            match fs::create_dir(&part) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && part.is_dir() => {}
                made => made.map_err(|source| failed("create", &part, source))?,
            }
        }
        sync(&path)?;
        sync(path.parent().unwrap_or(&path))?;
        let store = Self { path, unsynced: None };
        store.sweep();
        Ok(store)
    }

    /// Removes what was being written when a process ended.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let is_left = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            let ours = [STAGED, PROBE].iter().any(|begin| name.to_string_lossy().starts_with(begin));
            let modified = entry.metadata().and_then(|of| of.modified()).ok();
            let age = modified.and_then(|modified| modified.elapsed().ok());
            ours && age.is_some_and(|age| age > LEFT_FOR)
        };
        for entry in entries.flatten().filter(is_left) {
            // The next start retries.
            let _ = fs::remove_file(entry.path());
        }
    }

    /// The store in the folder `path`, for reading: it must be there.
    ///
    /// # Errors
    /// [`Error::Unfit`] if it is no archive.
    pub fn existing(path: impl AsRef<Path>) -> Result<Self> {
        let path = normal(path.as_ref())?;
        if path.join(PARTS[0]).is_dir() {
            Ok(Self { path, unsynced: None })
        } else {
            let path = path.display();
            Err(Error::unfit(format!("{path} holds no archive of a log: is its disk mounted?")))
        }
    }

    fn sync_created(&mut self) -> Result<()> {
        self.unsynced.as_deref().map_or(Ok(()), sync)?;
        self.unsynced = None;
        Ok(())
    }

    /// Writes a file that is to become `path`, which a failure names: it is the same each time that it is tried.
    fn staged(&self, bytes: &[u8], path: &Path) -> Result<PathBuf> {
        let staged = self.path.join(format!("{STAGED}{}", hex(&random::<8>()?)));
        let write = || {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&staged)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        match write() {
            Ok(()) => Ok(staged),
            Err(source) => {
                let _ = fs::remove_file(&staged);
                Err(failed("write", path, source))
            }
        }
    }
}

fn failed(operation: &str, path: &Path, source: std::io::Error) -> Error {
    Error::unavailable(format!("cannot {operation} {}", path.display()), source)
}

fn sync(folder: &Path) -> Result<()> {
    sync_directory(folder).map_err(|error| failed("sync", folder, error.into_source()))
}

impl Store for Folder {
    fn name(&self) -> (String, bool) {
        ("a folder".to_owned(), true)
    }

    fn address(&self) -> String {
        format!("folder:{}", self.path.display())
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(self.path.clone())
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.sync_created()?;
        let path = self.path.join(name);
        let staged = self.staged(bytes, &path)?;
        let linked = fs::hard_link(&staged, &path);
        let removed = fs::remove_file(&staged).map_err(|source| failed("remove", &staged, source));
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return removed.map(|()| false),
            linked => linked.map_err(|source| failed("create", &path, source))?,
        }
        self.unsynced = path.parent().map(Path::to_owned);
        self.sync_created()?;
        removed.map(|()| true)
    }

    fn get(&mut self, name: &str, limit: Option<usize>) -> Result<Option<Vec<u8>>> {
        self.sync_created()?;
        let path = self.path.join(name);
        let mut bytes = Vec::new();
        let read = fs::File::open(&path)
            .and_then(|file| file.take(limit.map_or(u64::MAX, |limit| limit as u64)).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(|_| Some(bytes)).map_err(|source| failed("read", &path, source)),
        }
    }

    fn list(&mut self, prefix: &str, after: &str) -> Result<Vec<String>> {
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = self.path.join(folder);
        let entries = match fs::read_dir(&path) {
            // An archive from before there were manifests.
            Err(error) if error.kind() == ErrorKind::NotFound && self.path.join("messages").is_dir() => {
                return Ok(Vec::new());
            }
            entries => entries.map_err(|source| failed("list", &path, source))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| failed("list", &path, source))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if name.starts_with(prefix) && name.as_str() > after {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|source| failed("remove", &path, source)),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::Folder;
    use crate::archive::Store as _;

    /// A message whose folder could not be synced is looked for by its writer, for which it is stored once it is found.
    #[test]
    fn what_is_not_synced_is_not_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut folder = Folder::open(dir.path().join("kept")).expect("opens");
        assert!(folder.create("messages/1", b"one").expect("creates"));
        let away = dir.path().join("away");
        folder.unsynced = Some(away.clone());
        assert!(folder.get("messages/1", None).is_err_and(|error| error.is_passing()));
        assert!(folder.create("messages/2", b"two").is_err());
        std::fs::create_dir(away).expect("makes");
        assert_eq!(folder.get("messages/1", None).expect("is synced first"), Some(b"one".to_vec()));
        assert_eq!(folder.get("messages/2", None).expect("was not created"), None);
    }
}
