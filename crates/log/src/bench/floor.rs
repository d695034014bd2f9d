//! Measures the floor: plain loops of durable writes against which the log is compared.
//!
//! The *floor* puts new bytes into a buffer and writes it, by the commit method of the log, into a zero-filled file
//! in the same directory: the least that any log must do. The *bare* loop writes the same buffer again and again, as
//! disks are often measured. The difference between the two is the cost of handing changed memory to the disk, which
//! no log can avoid. For workloads that stay in memory, the floor is a plain copy of the same bytes into memory as
//! fresh as the log's.

use std::path::Path;

use hdrhistogram::Histogram;
use seawall_sys::clock::monotonic_ns;
use seawall_sys::store::{Access, StoreFile};
use seawall_sys::{Target, methods};

use super::instruments::{Scratch, UNTIMED, histogram};
use crate::error::{Error, Result, from_open, from_system};
use crate::format::buffer::AlignedBuf;

/// Bytes of the file that a floor writes to, round and round.
const FILE_BYTES: u64 = 64 << 20;

/// A plain loop of durable writes.
pub(super) struct Floor {
    _scratch: Scratch,
    commit: Box<dyn seawall_sys::CommitHandle>,
    buf: AlignedBuf,
    news: Vec<u8>,
    slots: u64,
    next: u64,
    pub(super) times: Histogram<u64>,
}

impl Floor {
    /// Writes of `bytes` each by the row `method` into a file of its own in `dir`.
    pub(super) fn new(dir: &Path, method: &str, bytes: usize) -> Result<Self> {
        let scratch = Scratch::new(dir, "floor")?;
        let path = scratch.path().join("journal");
        let slots = FILE_BYTES / bytes as u64;
        let file_bytes = slots * bytes as u64;
        let file = StoreFile::create(&path, Access::Direct).map_err(|error| from_system(&error))?;
        let zeros = AlignedBuf::zeroed(1 << 20);
        let mut at = 0;
        while at < file_bytes.next_multiple_of(1 << 20) {
            let written = file.write_at(at, zeros.bytes());
            at += written.map_err(|source| Error::io("write", &path, source))? as u64;
        }
        file.sync().map_err(|source| Error::io("sync", &path, source))?;
        let row = methods::find(method);
        let row = row.ok_or_else(|| Error::InvalidOption { option: "method", reason: method.into() })?;
        let target = Target { path: path.clone(), journal_bytes: file_bytes, write_bytes: bytes };
        let commit = seawall_sys::open(row, &target).map_err(|error| from_open(error, row, &path))?;
        let mut buf = AlignedBuf::zeroed(bytes);
        buf.bytes_mut().fill(0x5A);
        let news = vec![0xA5; bytes];
        Ok(Self { _scratch: scratch, commit, buf, news, slots, next: 0, times: histogram() })
    }

    /// Writes [`UNTIMED`] times and then `count` times, new bytes each time unless `bare`; returns how long the latter
    /// took in nanoseconds.
    pub(super) fn run(&mut self, count: u64, bare: bool) -> Result<u64> {
        for _ in 0..UNTIMED {
            self.write(bare)?;
        }
        let began = monotonic_ns();
        let mut last = began;
        for _ in 0..count {
            self.write(bare)?;
            let now = monotonic_ns();
            if !bare {
                self.times.saturating_record(now - last);
            }
            last = now;
        }
        Ok(last - began)
    }

    fn write(&mut self, bare: bool) -> Result<()> {
        let offset = self.next % self.slots * self.buf.capacity() as u64;
        self.next += 1;
        if !bare {
            self.buf.bytes_mut().copy_from_slice(&self.news);
        }
        let written = self.commit.write(offset, self.buf.bytes()).and_then(|()| self.commit.sync());
        written.map_err(|error| from_system(&error))
    }
}

/// Copies `record` so many times into fresh memory, one copy behind the other; returns how long that took in
/// nanoseconds, and with `times` how long each copy took.
pub(super) fn copy_plainly(record: &[u8], count: u64, mut times: Option<&mut Histogram<u64>>) -> u64 {
    let bytes = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(record.len());
    let mut memory = AlignedBuf::zeroed(bytes);
    memory.touch();
    let began = monotonic_ns();
    let mut last = began;
    for place in memory.bytes_mut().chunks_exact_mut(record.len()) {
        std::hint::black_box(&mut *place).copy_from_slice(record);
        if let Some(times) = &mut times {
            let now = monotonic_ns();
            times.saturating_record(now - last);
            last = now;
        }
    }
    monotonic_ns() - began
}

/// Reads every file in `dir` from start to end, as `cat` does; returns the bytes.
pub(super) fn read_plainly(dir: &Path) -> Result<u64> {
    use std::io::Read;

    let mut buf = vec![0; 1 << 20];
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).map_err(|source| Error::io("list", dir, source))? {
        let path = entry.map_err(|source| Error::io("list", dir, source))?.path();
        let mut file = std::fs::File::open(&path).map_err(|source| Error::io("open", &path, source))?;
        loop {
            match file.read(&mut buf).map_err(|source| Error::io("read", &path, source))? {
                0 => break,
                read => bytes += read as u64,
            }
        }
    }
    Ok(bytes)
}

/// Has the page cache forget every file in `dir`; what it holds of them must have reached the disk.
pub(super) fn forget(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir).map_err(|source| Error::io("list", dir, source))? {
        let path = entry.map_err(|source| Error::io("list", dir, source))?.path();
        let file = StoreFile::open(&path, Access::Cached).map_err(|error| from_system(&error))?;
        file.sync().map_err(|source| Error::io("sync", &path, source))?;
        file.forget_cached();
    }
    Ok(())
}
