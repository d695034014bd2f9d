//! Row wal-db: one record per commit, `append_and_sync`, whose sync the threads share.

use std::sync::Arc;

use seawall_gauge::scenario::log::contest::{Opening, SEGMENT_BYTES};
use seawall_gauge::testbed::real::{Fault, Writer};
use wal_db::{Lsn, SegmentedStore, Wal};

struct WalDb {
    log: Arc<Wal<SegmentedStore>>,
    last: Lsn,
}

pub(crate) fn open(opening: &Opening<'_>) -> Result<Vec<Box<dyn Writer>>, Fault> {
    let log = Arc::new(Wal::open_segmented(opening.folder, SEGMENT_BYTES.into())?);
    let writer = |_| -> Box<dyn Writer> { Box::new(WalDb { log: Arc::clone(&log), last: Lsn::new(0) }) };
    Ok((0..opening.threads).map(writer).collect())
}

impl Writer for WalDb {
    fn put(&mut self, record: &[u8]) -> Result<(), Fault> {
        self.last = self.log.append_and_sync(record)?;
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), Fault> {
        // No thread appends meanwhile, as it demands.
        let _head = self.log.truncate_before(self.last)?;
        Ok(())
    }
}
