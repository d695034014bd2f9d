//! raft-engine: a synced batch of one entry a record.
use protobuf::well_known_types::UInt64Value;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

struct Indexed;
impl MessageExt for Indexed {
    type Entry = UInt64Value;
    fn index(entry: &UInt64Value) -> u64 {
        entry.value
    }
}

fn open(directory: &std::path::Path) -> Engine {
    let dir = directory.to_str().expect("UTF-8").to_owned();
    // Small files, so that the run changes to a new one.
    let target_file_size = ReadableSize(256);
    Engine::open(Config { dir, target_file_size, ..Config::default() }).expect("opens")
}

fn main() {
    libraries::drive(
        |directory, saved| {
            let engine = open(directory);
            for record in 0..libraries::RECORDS {
                let mut batch = LogBatch::default();
                let entry = UInt64Value { value: record, ..UInt64Value::default() };
                batch.add_entries::<Indexed>(1, &[entry]).expect("fits");
                engine.write(&mut batch, true).expect("writes");
                saved(record);
            }
        },
        |directory| {
            let mut entries = Vec::new();
            let engine = open(directory);
            if let (Some(first), Some(last)) = (engine.first_index(1), engine.last_index(1)) {
                engine.fetch_entries_to::<Indexed>(1, first, last + 1, None, &mut entries).expect("reads");
            }
            entries.iter().map(|entry: &UInt64Value| entry.value).collect()
        },
    );
}
