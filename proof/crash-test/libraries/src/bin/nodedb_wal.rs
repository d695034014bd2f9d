//! nodedb-wal: an append and a sync a record, in small segments.
use nodedb_wal::{RecordType, SegmentedWal, SegmentedWalConfig};

fn open(directory: &std::path::Path) -> SegmentedWal {
    // Small segments, so that the run changes to a new one; a sync writes 4 KiB.
    let segment_target_size = 40 << 10;
    let config = SegmentedWalConfig { segment_target_size, ..SegmentedWalConfig::new(directory.join("log")) };
    SegmentedWal::open(config).expect("opens")
}

fn main() {
    libraries::drive(
        |directory| {
            let mut log = open(directory);
            move |number| {
                log.append(RecordType::Put as u32, 0, 0, 0, &libraries::record(number))?;
                Ok(log.sync()?)
            }
        },
        |directory| {
            let records = open(directory).replay().expect("replays");
            records.iter().filter_map(|r| libraries::number(&r.payload)).collect()
        },
    );
}
