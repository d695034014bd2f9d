//! Measures the floor: a plain loop of durable writes into a preallocated file, with no log around it.
//!
//! The loop writes by the row [`METHOD`] of the method table into a file that was filled before, with new bytes each
//! time: the least that any log must do to make data durable.

use std::path::Path;

use seawall_sys::buffer::Aligned;
use seawall_sys::store::{Access, StoreFile};
use seawall_sys::{CommitHandle, Target, methods};

use crate::measure::Fault;
use crate::subjects::{Writer, Writers};

/// The floor's commit method, and Seawall's.
pub(crate) const METHOD: &str = "direct+dsync";
/// Bytes of the file that is written to, round and round.
const FILE_BYTES: u64 = 64 << 20;
/// What direct writes are a multiple of everywhere.
const BLOCK_BYTES: usize = 4096;
const FILL_BYTES: usize = 1 << 20;

struct Floor {
    commit: Box<dyn CommitHandle>,
    buf: Aligned,
    slots: u64,
    next: u64,
}

pub(crate) fn open(dir: &Path, _: usize, record_bytes: usize) -> Result<Writers, Fault> {
    let path = dir.join("journal");
    let file = StoreFile::create(&path, Access::Direct)?;
    let filling = Aligned::incompressible(FILL_BYTES, 1);
    let mut at = 0;
    while at < FILE_BYTES {
        at += file.write_at(at, filling.as_slice())? as u64;
    }
    file.sync()?;
    let bytes = record_bytes.next_multiple_of(BLOCK_BYTES);
    let row = methods::find(METHOD).ok_or("this system has no direct, durable writes; run it on Linux")?;
    let target = Target { path, journal_bytes: FILE_BYTES, write_bytes: bytes };
    let commit = seawall_sys::open(row, &target).map_err(|error| {
        format!("{METHOD} in {}: {error}; name a folder on a disk, on ext4 or xfs", dir.display())
    })?;
    Ok(vec![Box::new(Floor {
        commit,
        buf: Aligned::zeroed(bytes),
        slots: FILE_BYTES / bytes as u64,
        next: 0,
    })])
}

impl Writer for Floor {
    fn commit(&mut self, record: &[u8]) -> Result<(), Fault> {
        let buf = self.buf.as_mut_slice();
        // Larger ones come while warming up only; the file is filled already.
        let fits = record.len().min(buf.len());
        buf[..fits].copy_from_slice(&record[..fits]);
        let offset = self.next % self.slots * self.buf.as_slice().len() as u64;
        self.next += 1;
        self.commit.write(offset, self.buf.as_slice())?;
        Ok(self.commit.sync()?)
    }
}
