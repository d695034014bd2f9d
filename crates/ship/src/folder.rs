//! Keeps objects in a folder: files that are synced before they get their names, and get them only if these are free.
//!
//! Invariant: a name is given by a link, which fails if there is one; the folder is synced before the creation is answered.

use crate::archive::Store;
use crate::error::{Error, Result};
use crate::note::{hex, random};
use seawall_sys::store::sync_directory;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// A folder of objects.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The store in the folder `path`, which is made if there is none.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path =
            std::path::absolute(path.as_ref()).map_err(|source| failed("open", path.as_ref(), source))?;
        for part in ["messages", "starts", "manifests"] {
            let part = path.join(part);
            fs::create_dir_all(&part).map_err(|source| failed("create", &part, source))?;
        }
        sync(&path)?;
        Ok(Self { path })
    }

    /// The store in the folder `path`, for reading: it must be there.
    ///
    /// # Errors
    /// [`Error::Unfit`] if it is no archive.
    pub fn existing(path: impl AsRef<Path>) -> Result<Self> {
        let path =
            std::path::absolute(path.as_ref()).map_err(|source| failed("open", path.as_ref(), source))?;
        if path.join("messages").is_dir() {
            Ok(Self { path })
        } else {
            Err(Error::unfit(format!("{} holds no archive of a log", path.display())))
        }
    }

    fn staged(&self, bytes: &[u8]) -> Result<PathBuf> {
        let staged = self.path.join(format!("staged-{}", hex(&random::<8>()?)));
        let write = || {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&staged)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(|source| failed("write", &staged, source))?;
        Ok(staged)
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

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<bool> {
        let path = self.path.join(name);
        let staged = self.staged(bytes)?;
        let linked = fs::hard_link(&staged, &path);
        let removed = fs::remove_file(&staged).map_err(|source| failed("remove", &staged, source));
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return removed.map(|()| false),
            linked => linked.map_err(|source| failed("create", &path, source))?,
        }
        sync(path.parent().unwrap_or(&self.path))?;
        removed.map(|()| true)
    }

    fn get(&mut self, name: &str, limit: Option<usize>) -> Result<Option<Vec<u8>>> {
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
