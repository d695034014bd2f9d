//! raft-engine: a synced batch of one entry a record.
use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

struct Indexed;
impl MessageExt for Indexed {
    type Entry = BytesValue;
    fn index(entry: &BytesValue) -> u64 {
        entry.value.first_chunk().map_or(0, |index| u64::from_le_bytes(*index))
    }
}

fn open(directory: &std::path::Path) -> Engine {
    let dir = directory.to_str().expect("UTF-8").to_owned();
    // Small files, so that the run changes to a new one.
    let target_file_size = ReadableSize(4096);
    Engine::open(Config { dir, target_file_size, ..Config::default() }).expect("opens")
}

fn main() {
    libraries::drive(
        |directory| {
            let engine = open(directory);
            move |number| {
                let mut batch = LogBatch::default();
                let entry = BytesValue { value: libraries::record(number), ..BytesValue::default() };
                batch.add_entries::<Indexed>(1, &[entry])?;
                engine.write(&mut batch, true)?;
                Ok(())
            }
        },
        |directory| {
            let mut entries = Vec::new();
            let engine = open(directory);
            if let (Some(first), Some(last)) = (engine.first_index(1), engine.last_index(1)) {
                engine.fetch_entries_to::<Indexed>(1, first, last + 1, None, &mut entries).expect("reads");
            }
            entries.iter().filter_map(|entry: &BytesValue| libraries::number(&entry.value)).collect()
        },
    );
}
