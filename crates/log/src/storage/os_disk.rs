//! Implements [`Disk`] over a directory of the operating system, for recovery and segment housekeeping.
//!
//! The operations of [`OsDisk`] are complete when they are submitted; it reads past the page cache where the system
//! can. Commits do not pass through here: they go through a row of the method table.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use seawall_sys::directory::{Directory, Permissions};
use seawall_sys::store::{Access, StoreFile};

use crate::format::{FileRole, file_role, preparing_name};
use crate::storage::disk::{Completion, DirEntry, Disk, FileId, Op, Token};

/// One directory of a real file system.
#[derive(Debug)]
pub(crate) struct OsDisk {
    pub(crate) dir: Arc<Directory>,
    permissions: Permissions,
    /// Whether the file system renames atomically without replacing anything; `None` until that is tried.
    renames_at_once: Option<bool>,
    files: HashMap<u32, StoreFile>,
    next_file: u32,
    done: VecDeque<Completion>,
    next_token: u64,
    read_only: bool,
    /// How files are opened: around the page cache, but for tests of systems that cannot do so.
    pub(crate) access: Access,
    #[cfg(feature = "simulation")]
    pub(crate) faults: Option<std::sync::Arc<crate::storage::faults::Faults>>,
}

impl OsDisk {
    /// The directory `dir`, where files are made with these permissions.
    pub(crate) fn new(dir: Arc<Directory>, permissions: Permissions) -> Self {
        Self {
            dir,
            permissions,
            renames_at_once: None,
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
    pub(crate) fn read_only(dir: Arc<Directory>) -> Self {
        Self { read_only: true, ..Self::new(dir, Permissions::default()) }
    }

    fn renames_at_once(&mut self) -> bool {
        let dir = &self.dir;
        *self.renames_at_once.get_or_insert_with(|| dir.renames_at_once())
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
        let entry = |entry: seawall_sys::directory::Entry| DirEntry { name: entry.name, bytes: entry.bytes };
        Ok(self.dir.list()?.into_iter().map(entry).collect())
    }

    fn open(&mut self, name: &str, access: Access) -> io::Result<FileId> {
        let access = if self.access == Access::Cached { Access::Cached } else { access };
        let opened = if self.read_only {
            StoreFile::open_read_only_in(&self.dir, name, access)
        } else {
            StoreFile::open_in(&self.dir, name, access)
        };
        Ok(self.keep(opened?))
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
        let file = StoreFile::create_in(&self.dir, name, self.access, self.permissions)?;
        Ok(self.keep(file))
    }

    fn close(&mut self, file: FileId) {
        self.files.remove(&file.0);
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        if self.renames_at_once() {
            return self.dir.rename(from, to);
        }
        // A crash may leave both names. Two names of a segment would be two segments in one file: so it becomes a staging
        // file first, which is removed when the log is opened.
        let staging = match (file_role(from), file_role(to)) {
            (Some(FileRole::Segment(_)), Some(FileRole::Segment(number))) => preparing_name(number),
            _ => return self.dir.rename(from, to),
        };
        self.dir.rename(from, &staging)?;
        self.dir.sync()?;
        self.dir.rename(&staging, to)
    }

    fn replace(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.dir.replace(from, to)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.dir.remove(name)
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        self.dir.sync()
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
