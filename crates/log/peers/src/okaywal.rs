//! Row okaywal: one entry of one chunk per commit.
//!
//! okaywal's own thread checkpoints a segment that is full enough and recycles it; the log manager given here keeps
//! nothing.

use okaywal::{Configuration, LogVoid, WriteAheadLog};
use seawall_gauge::scenario::log::contest::{Opening, SEGMENT_BYTES};
use seawall_gauge::testbed::real::{Fault, Writer};

/// Larger than the largest record with its headers, which would otherwise take two writes.
const BUFFER_BYTES: usize = 64 << 10;

struct Okaywal(WriteAheadLog);

pub(crate) fn open(opening: &Opening<'_>) -> Result<Vec<Box<dyn Writer>>, Fault> {
    let configuration = Configuration::default_for(opening.folder)
        .preallocate_bytes(SEGMENT_BYTES)
        // The share that it has by default.
        .checkpoint_after_bytes(u64::from(SEGMENT_BYTES) / 4 * 3)
        .buffer_bytes(BUFFER_BYTES);
    let log = configuration.open(LogVoid)?;
    Ok((0..opening.threads).map(|_| -> Box<dyn Writer> { Box::new(Okaywal(log.clone())) }).collect())
}

impl Writer for Okaywal {
    fn put(&mut self, record: &[u8]) -> Result<(), Fault> {
        let mut entry = self.0.begin_entry()?;
        entry.write_chunk(record)?;
        entry.commit()?;
        Ok(())
    }
}
