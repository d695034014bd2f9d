//! Reads parts of a segment either through the page cache or past it, by how much of each part is cached.
//!
//! A part is read past the cache if the reader is sequential and less than half of the part is cached: the data then
//! go straight to the reader's memory, without a copy and without evicting other data from the cache. Cached parts
//! come from the cache. Where the system does not report what is cached, or the file cannot be read past it, all
//! reads go through the cache.
//!
//! Invariant: both ways give the same bytes or an error: a read past the cache that fails is repeated through it, and
//! the result of the second read counts.

use std::io;
use std::sync::{Arc, OnceLock};

use seawall_sys::directory::Directory;
use seawall_sys::store::{Access, StoreFile};

use crate::error::{Error, Result};
use crate::storage::disk::fill;

/// A segment's file, open for reading.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    dir: Arc<Directory>,
    name: String,
    cached: StoreFile,
    /// The same file past the cache, once it is wanted; `None` if that cannot be done.
    past: OnceLock<Option<StoreFile>>,
}

impl SegmentFile {
    pub(crate) fn open(dir: &Arc<Directory>, name: &str) -> Result<Self> {
        let cached = StoreFile::open_read_only_in(dir, name, Access::Cached);
        let cached = cached.map_err(|source| Error::io("open", dir.path().join(name), source))?;
        Ok(Self { dir: Arc::clone(dir), name: name.to_owned(), cached, past: OnceLock::new() })
    }

    /// Fills `buf` from byte `offset` on, as far as the file goes; returns the bytes read.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        fill(offset, buf, |at, rest| self.cached.read_at(at, rest))
    }

    /// The same for one of many parts that are read one after the other.
    pub(crate) fn read_through(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(past) = self.past_cache(offset, buf.len()) {
            match fill(offset, buf, |at, rest| past.read_at(at, rest)) {
                Ok(bytes) => return Ok(bytes),
                Err(error) => tracing::debug!(%error, offset, "read again through the page cache"),
            }
        }
        self.read(offset, buf)
    }

    /// The file past the cache, if `bytes` bytes from `offset` on should be read there.
    fn past_cache(&self, offset: u64, bytes: usize) -> Option<&StoreFile> {
        let cached = self.cached.cached_bytes(offset, bytes as u64).ok().flatten()?;
        if cached >= bytes as u64 / 2 {
            return None;
        }
        let open = || {
            let file = StoreFile::open_read_only_in(&self.dir, &self.name, Access::Direct).ok()?;
            // Otherwise the system would continue its own readahead of what was read through its cache before.
            self.cached.read_no_more();
            file.reads_past_cache().then_some(file)
        };
        self.past.get_or_init(open).as_ref()
    }
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::SegmentFile;
    use crate::format::buffer::AlignedBuf;

    const BYTES: usize = 1 << 20;

    fn opened(dir: &std::path::Path) -> SegmentFile {
        let dir = crate::lock::open_dir(dir).expect("opens");
        SegmentFile::open(&dir, "segment").expect("opens")
    }

    #[test]
    fn cached_parts_come_from_the_cache_and_others_bypass_it() {
        let binary = std::env::current_exe().expect("a test has a binary");
        let dir = tempfile::tempdir_in(binary.parent().expect("in a folder")).expect("a directory on a disk");
        let path = dir.path().join("segment");
        let content: Vec<u8> =
            (0..BYTES / 4).flat_map(|i| u32::try_from(i).expect("small").to_le_bytes()).collect();
        std::fs::write(&path, &content).expect("writes");
        std::fs::File::open(&path).and_then(|file| file.sync_all()).expect("syncs");
        let file = opened(dir.path());
        let mut buf = AlignedBuf::zeroed(BYTES);
        let mut reads = |offset: usize, bytes: usize, cached: bool| {
            let found = file.past_cache(offset as u64, bytes).is_none();
            let buf = &mut buf.bytes_mut()[..bytes];
            buf.fill(0);
            let read = file.read_through(offset as u64, buf).expect("reads");
            assert_eq!(
                buf[..read],
                content[offset.min(BYTES)..BYTES.min(offset + bytes)],
                "{offset} {bytes}"
            );
            assert_eq!(found, cached, "{offset} {bytes}");
        };
        reads(0, BYTES, true);
        file.cached.forget_cached();
        for _ in 0..2 {
            reads(0, BYTES, false);
            reads(BYTES - 8192, 16_384, false);
        }
        assert_eq!(
            file.cached.cached_bytes(0, 0).expect("answers"),
            Some(0),
            "nothing was drawn into the cache"
        );
        // No block of the disk starts there: the read past the cache is refused, and made again through it.
        reads(100, 4096, false);
        reads(100, 4096, true);
        let mut half = vec![0; BYTES / 2];
        file.read(0, &mut half).expect("reads");
        reads(BYTES / 2, BYTES / 2, false);
        reads(0, BYTES, true);
    }

    #[test]
    fn in_memory_no_read_bypasses_the_cache() {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let path = dir.path().join("segment");
        std::fs::write(&path, vec![7; BYTES]).expect("writes");
        let file = opened(dir.path());
        assert!(file.past_cache(0, BYTES).is_none());
    }
}
