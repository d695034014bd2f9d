//! A disk in memory on which the log recovers an image of the file recorder.
//!
//! Contents are shared between images until one of them is written to. Everything is durable at once, because the
//! result of recovery is judged here, not its writes.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use seawall::disk::{Access, Completion, DirEntry, Disk, FileId, Op, Token};

use crate::bytes::index;
use seawall_crash_test::content::Content;

/// The files of one image.
pub(crate) type Files = BTreeMap<String, Arc<Content>>;

/// A disk in memory.
#[derive(Debug)]
pub(crate) struct MemoryDisk {
    names: BTreeMap<String, usize>,
    contents: Vec<Arc<Content>>,
    ended: VecDeque<Completion>,
    tokens: u64,
}

impl MemoryDisk {
    /// A disk that holds `files`.
    pub(crate) fn new(files: &Files) -> Self {
        let names = files.keys().cloned().zip(0..).collect();
        let contents = files.values().map(Arc::clone).collect();
        Self { names, contents, ended: VecDeque::new(), tokens: 0 }
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn id(inode: usize) -> io::Result<FileId> {
        u32::try_from(inode).map(FileId).map_err(io::Error::other)
    }
}

impl Disk for MemoryDisk {
    fn list(&mut self) -> io::Result<Vec<DirEntry>> {
        let entry = |(name, inode): (&String, &usize)| DirEntry {
            name: name.clone(),
            bytes: self.contents[*inode].len() as u64,
        };
        Ok(self.names.iter().map(entry).collect())
    }

    fn open(&mut self, name: &str, _: Access) -> io::Result<FileId> {
        self.inode(name).and_then(Self::id)
    }

    fn create(&mut self, name: &str) -> io::Result<FileId> {
        if self.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = self.contents.len();
        self.contents.push(Arc::default());
        self.names.insert(name.to_owned(), inode);
        Self::id(inode)
    }

    fn close(&mut self, _: FileId) {}

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        if self.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.replace(from, to)
    }

    fn replace(&mut self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.inode(from)?;
        self.names.remove(from);
        self.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.names.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&mut self, _: FileId, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn read_direct(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let content = &self.contents[file.0 as usize];
        let read = content.read(index(offset), index(offset).saturating_add(buf.len()));
        buf[..read.len()].copy_from_slice(&read);
        Ok(read.len())
    }

    fn submit(&mut self, op: Op<'_>) -> Token {
        self.tokens += 1;
        let token = Token(self.tokens);
        let mut written = 0;
        if let Op::Write { file, offset, buf, .. } = op {
            let content = Arc::make_mut(&mut self.contents[file.0 as usize]);
            content.write(index(offset), buf);
            written = buf.len();
        }
        self.ended.push_back(Completion { token, result: Ok(written) });
        token
    }

    fn complete(&mut self, _: bool) -> Option<Completion> {
        self.ended.pop_front()
    }
}
