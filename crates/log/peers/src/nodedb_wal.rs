//! Row nodedb-wal: one record and one sync per commit, by one thread: it has no group commit of its own.

use nodedb_wal::{RecordType, SegmentedWal, SegmentedWalConfig};
use seawall_gauge::scenario::log::contest::{Opening, SEGMENT_BYTES};
use seawall_gauge::testbed::real::{Fault, Writer};

struct NodedbWal(SegmentedWal);

pub(crate) fn open(opening: &Opening<'_>) -> Result<Vec<Box<dyn Writer>>, Fault> {
    let segment_target_size = SEGMENT_BYTES.into();
    let config =
        SegmentedWalConfig { segment_target_size, ..SegmentedWalConfig::new(opening.folder.to_owned()) };
    Ok(vec![Box::new(NodedbWal(SegmentedWal::open(config)?))])
}

impl Writer for NodedbWal {
    fn put(&mut self, record: &[u8]) -> Result<(), Fault> {
        self.0.append(RecordType::Put as u32, 0, 0, 0, record)?;
        self.0.sync()?;
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), Fault> {
        self.0.truncate_before(self.0.next_lsn())?;
        Ok(())
    }
}
