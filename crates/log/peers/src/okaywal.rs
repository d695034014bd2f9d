//! Row okaywal: one entry of one chunk per commit.
//!
//! okaywal's own thread checkpoints a segment that is full enough and recycles it; the log manager given here keeps
//! nothing.

use std::path::Path;

use okaywal::{Configuration, LogVoid, WriteAheadLog};

use crate::measure::Fault;
use crate::subjects::{SEGMENT_BYTES, Writer, Writers};

/// Larger than the largest record with its headers, which would otherwise take two writes.
const BUFFER_BYTES: usize = 64 << 10;

struct Okaywal(WriteAheadLog);

pub(crate) fn open(dir: &Path, threads: usize, _: usize) -> Result<Writers, Fault> {
    let configuration = Configuration::default_for(dir)
        .preallocate_bytes(SEGMENT_BYTES)
        // The share that it has by default.
        .checkpoint_after_bytes(u64::from(SEGMENT_BYTES) / 4 * 3)
        .buffer_bytes(BUFFER_BYTES);
    let log = configuration.open(LogVoid)?;
    Ok((0..threads).map(|_| -> Box<dyn Writer> { Box::new(Okaywal(log.clone())) }).collect())
}

impl Writer for Okaywal {
    fn commit(&mut self, record: &[u8]) -> Result<(), Fault> {
        let mut entry = self.0.begin_entry()?;
        entry.write_chunk(record)?;
        entry.commit()?;
        Ok(())
    }
}
