//! Implements [`Disk`] over a directory of the operating system, for recovery and segment housekeeping.
//!
//! The operations of [`OsDisk`] are complete when they are submitted; it reads past the page cache where the system
//! can. Commits do not pass through here: they go through a row of the method table.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use seawall_sys::store::{Access, StoreFile, sync_directory};

use crate::disk::{Completion, DirEntry, Disk, FileId, Op, Token};

/// One directory of a real file system.
#[derive(Debug)]
pub(crate) struct OsDisk {
    dir: PathBuf,
    files: HashMap<u32, StoreFile>,
    next_file: u32,
    done: VecDeque<Completion>,
    next_token: u64,
    read_only: bool,
    /// How files are opened: around the page cache, but for tests of systems that cannot do so.
    pub(crate) access: Access,
    #[cfg(feature = "simulation")]
    pub(crate) faults: Option<std::sync::Arc<crate::faults::Faults>>,
}

/// The system's own error behind one of the system crate.
fn system(error: &seawall_sys::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

impl OsDisk {
    /// The directory `dir`, which exists.
    pub(crate) fn new(dir: &Path) -> Self {
        let dir = dir.to_path_buf();
        Self {
            dir,
            files: HashMap::new(),
            next_file: 0,
            done: VecDeque::new(),
            next_token: 0,
            read_only: false,
            access: Access::Direct,
            #[cfg(feature = "simulation")]
            faults: None,
        }
    }

    /// The same, for looking only.
    pub(crate) fn read_only(dir: &Path) -> Self {
        Self { read_only: true, ..Self::new(dir) }
    }

    fn keep(&mut self, file: StoreFile) -> FileId {
        self.next_file = self.next_file.wrapping_add(1);
        self.files.insert(self.next_file, file);
        FileId(self.next_file)
    }

    fn file(&self, file: FileId) -> io::Result<&StoreFile> {
        self.files.get(&file.0).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, file: FileId, offset: u64, buf: &[u8], dsync: bool) -> io::Result<usize> {
        let file = self.file(file)?;
        let written = file.write_at(offset, buf)?;
        if dsync {
            file.sync()?;
        }
        Ok(written)
    }
}

impl Disk for OsDisk {
    fn list(&mut self) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            let bytes = match entry.metadata() {
                Ok(metadata) => metadata.len(),
                // Whoever looks beside a writer may see a name that is renamed or removed before its turn comes.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(DirEntry { name, bytes });
            }
        }
        Ok(entries)
    }

    fn open(&mut self, name: &str) -> io::Result<FileId> {
        let path = self.dir.join(name);
        let opened = if self.read_only {
            StoreFile::open_read_only(&path, self.access)
        } else {
            StoreFile::open(&path, self.access)
        };
        Ok(self.keep(opened.map_err(|error| system(&error))?))
    }

    fn forget_cached(&mut self, file: FileId) {
        if self.access == Access::Cached {
            return;
        }
        if let Some(file) = self.files.get(&file.0) {
            file.forget_cached();
        }
    }

    fn reads_past_cache(&self, file: FileId) -> bool {
        self.files.get(&file.0).is_some_and(StoreFile::reads_past_cache)
    }

    fn create(&mut self, name: &str) -> io::Result<FileId> {
        let file = StoreFile::create(&self.dir.join(name), self.access).map_err(|error| system(&error))?;
        Ok(self.keep(file))
    }

    fn close(&mut self, file: FileId) {
        self.files.remove(&file.0);
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        sync_directory(&self.dir).map_err(|error| system(&error))
    }

    fn allocate(&mut self, file: FileId, bytes: u64) -> io::Result<()> {
        #[cfg(feature = "simulation")]
        if let Some(faults) = &self.faults {
            faults.allocate()?;
        }
        self.file(file)?.reserve(bytes)
    }

    fn read_direct(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file(file)?.read_at(offset, buf)
    }

    fn submit(&mut self, op: Op<'_>) -> Token {
        self.next_token += 1;
        let token = Token(self.next_token);
        let result = match op {
            Op::Write { file, offset, buf, dsync } => loop {
                match self.write(file, offset, buf, dsync) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => break result,
                }
            },
            Op::Sync { file } => self.file(file).and_then(StoreFile::sync).map(|()| 0),
        };
        self.done.push_back(Completion { token, result });
        token
    }

    fn complete(&mut self, _: bool) -> Option<Completion> {
        self.done.pop_front()
    }
}
