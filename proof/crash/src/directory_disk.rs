//! Runs the log's core in a real directory by one commit method of the table.
//!
//! Segments are written and synced by the method's own [`CommitHandle`], the same code that the gauge and the log use;
//! housekeeping uses plain calls. Each operation is executed when it is submitted. A [`Sabotage`] omits a call
//! that careless code would omit, for the negative controls.
//!
//! Invariant: without sabotage every operation of the log is executed, and every failure is reported.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use seawall::disk::{Access, Completion, DirEntry, Disk, FileId, Op, Token};
use seawall_sys::{CommitHandle, Method, Target};

use crate::error::Error;

/// The longest write of the victim's core in bytes.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// What is left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sabotage {
    /// Nothing.
    None,
    /// Syncs of the directory.
    NoDirSync,
    /// The wait between a write and its sync: one `io_uring` submission for both, not linked.
    UnlinkedSync,
    /// The order of commit and acknowledgement; done by the victim, not here.
    EarlyAck,
}

struct OpenFile {
    path: PathBuf,
    file: File,
    commit: Option<Box<dyn CommitHandle>>,
}

pub(crate) fn method(id: &str) -> Result<&'static Method, Error> {
    seawall_sys::methods::find(id).ok_or_else(|| Error::NoMethod(id.to_owned()))
}

pub(crate) struct DirectoryDisk {
    root: PathBuf,
    method: &'static Method,
    sabotage: Sabotage,
    files: HashMap<u32, OpenFile>,
    next: u32,
    ended: VecDeque<Completion>,
    tokens: u64,
}

fn plain(error: seawall_sys::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::other(error), io::Error::from_raw_os_error)
}

impl DirectoryDisk {
    /// The directory `root`, whose segments are committed by `method`.
    pub(crate) fn new(root: &Path, method: &'static Method, sabotage: Sabotage) -> Self {
        let (root, files) = (root.to_owned(), HashMap::new());
        Self { root, method, sabotage, files, next: 0, ended: VecDeque::new(), tokens: 0 }
    }

    fn opened(&mut self, path: PathBuf, file: File) -> FileId {
        self.next += 1;
        self.files.insert(self.next, OpenFile { path, file, commit: None });
        FileId(self.next)
    }

    fn get(&mut self, file: FileId) -> io::Result<&mut OpenFile> {
        self.files.get_mut(&file.0).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The method at work on a file that is as long as it will be, nothing for one that is being made.
    fn commit(&mut self, file: FileId) -> io::Result<Option<&mut Box<dyn CommitHandle>>> {
        let (method, unlinked) = (self.method, self.sabotage == Sabotage::UnlinkedSync);
        let open = self.get(file)?;
        let name = open.path.extension().and_then(|extension| extension.to_str());
        if name != Some("seg") {
            return Ok(None);
        }
        if open.commit.is_none() {
            let target = Target {
                path: open.path.clone(),
                journal_bytes: open.file.metadata()?.len(),
                write_bytes: WRITE_BYTES_MAX,
            };
            let commit = if unlinked {
                Box::new(seawall_sys::mistakes::UnlinkedRing::open(&target.path).map_err(plain)?)
            } else {
                seawall_sys::open(method, &target, None).map_err(io::Error::other)?
            };
            open.commit = Some(commit);
        }
        Ok(open.commit.as_mut())
    }

    fn execute(&mut self, op: Op<'_>) -> io::Result<usize> {
        match op {
            Op::Write { file, offset, buf, .. } => match self.commit(file)? {
                Some(commit) => commit.write(offset, buf).map(|()| buf.len()).map_err(plain),
                None => self.get(file)?.file.write_all_at(buf, offset).map(|()| buf.len()),
            },
            Op::Sync { file } => match self.commit(file)? {
                Some(commit) => commit.sync().map(|()| 0).map_err(plain),
                None => self.get(file)?.file.sync_data().map(|()| 0),
            },
        }
    }
}

impl Disk for DirectoryDisk {
    fn list(&mut self) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(DirEntry { name, bytes: entry.metadata()?.len() });
        }
        Ok(entries)
    }

    fn open(&mut self, name: &str, _: Access) -> io::Result<FileId> {
        let path = self.root.join(name);
        let file = File::options().read(true).write(true).open(&path)?;
        Ok(self.opened(path, file))
    }

    fn create(&mut self, name: &str) -> io::Result<FileId> {
        let path = self.root.join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        Ok(self.opened(path, file))
    }

    fn close(&mut self, file: FileId) {
        self.files.remove(&file.0);
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let cwd = rustix::fs::CWD;
        match rustix::fs::renameat_with(cwd, self.root.join(from), cwd, self.root.join(to), flags) {
            // The server of this directory has no such rename, and no other process uses it.
            Err(rustix::io::Errno::INVAL) if !self.root.join(to).exists() => self.replace(from, to),
            done => Ok(done?),
        }
    }

    fn replace(&mut self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.root.join(from), self.root.join(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.root.join(name))
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        if self.sabotage == Sabotage::NoDirSync {
            return Ok(());
        }
        File::open(&self.root)?.sync_all()
    }

    fn allocate(&mut self, file: FileId, bytes: u64) -> io::Result<()> {
        let file = &self.get(file)?.file;
        Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes)?)
    }

    fn read_direct(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.get(file)?.file.read_at(buf, offset)
    }

    fn submit(&mut self, op: Op<'_>) -> Token {
        self.tokens += 1;
        let token = Token(self.tokens);
        let result = self.execute(op);
        self.ended.push_back(Completion { token, result });
        token
    }

    fn complete(&mut self, _: bool) -> Option<Completion> {
        self.ended.pop_front()
    }
}
