//! okaywal: an entry of one chunk a record.
use okaywal::{Configuration, Entry, EntryId, LogManager, SegmentReader, WriteAheadLog};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, Default)]
struct Found(Arc<Mutex<Vec<u64>>>);

impl LogManager for Found {
    fn recover(&mut self, entry: &mut Entry<'_>) -> std::io::Result<()> {
        if let Some(chunks) = entry.read_all_chunks()? {
            self.0.lock().expect("one thread").extend(libraries::number(&chunks[0]));
        }
        Ok(())
    }
    fn checkpoint_to(&mut self, _: EntryId, _: &mut SegmentReader, _: &WriteAheadLog) -> std::io::Result<()> {
        Ok(())
    }
}

fn main() {
    libraries::drive(
        |directory| {
            let log = Configuration::default_for(directory).open(Found::default()).expect("opens");
            move |number| {
                let mut entry = log.begin_entry()?;
                entry.write_chunk(&libraries::record(number))?;
                entry.commit()?;
                Ok(())
            }
        },
        |directory| {
            let found = Found::default();
            Configuration::default_for(directory).open(found.clone()).expect("opens");
            found.0.lock().expect("one thread").clone()
        },
    );
}
