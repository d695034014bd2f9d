//! okaywal: an entry of one chunk a record.
use okaywal::{Configuration, Entry, EntryId, LogManager, SegmentReader, WriteAheadLog};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, Default)]
struct Found(Arc<Mutex<Vec<u64>>>);

impl LogManager for Found {
    fn recover(&mut self, entry: &mut Entry<'_>) -> std::io::Result<()> {
        if let Some(chunks) = entry.read_all_chunks()? {
            let chunk = chunks[0][..8].try_into().expect("eight bytes");
            self.0.lock().expect("one thread").push(u64::from_le_bytes(chunk));
        }
        Ok(())
    }
    fn checkpoint_to(&mut self, _: EntryId, _: &mut SegmentReader, _: &WriteAheadLog) -> std::io::Result<()> {
        Ok(())
    }
}

fn main() {
    libraries::drive(
        |directory, saved| {
            let log = Configuration::default_for(directory).open(Found::default()).expect("opens");
            for record in 0..libraries::RECORDS {
                let mut entry = log.begin_entry().expect("begins");
                entry.write_chunk(&record.to_le_bytes()).expect("writes");
                entry.commit().expect("commits");
                saved(record);
            }
        },
        |directory| {
            let found = Found::default();
            Configuration::default_for(directory).open(found.clone()).expect("opens");
            found.0.lock().expect("one thread").clone()
        },
    );
}
