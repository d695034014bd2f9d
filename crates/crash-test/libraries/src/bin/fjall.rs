//! fjall: an insert and a persist a record.
use fjall::{Database, KeyspaceCreateOptions, PersistMode};

fn main() {
    libraries::drive(
        |directory, saved| {
            let database = Database::builder(directory).open().expect("opens");
            let items = database.keyspace("items", KeyspaceCreateOptions::default).expect("opens");
            for record in 0..libraries::RECORDS {
                items.insert(record.to_be_bytes(), "value").expect("inserts");
                database.persist(PersistMode::SyncAll).expect("persists");
                saved(record);
            }
        },
        |directory| {
            let database = Database::builder(directory).open().expect("opens");
            let items = database.keyspace("items", KeyspaceCreateOptions::default).expect("opens");
            (0..libraries::RECORDS).filter(|k| items.get(k.to_be_bytes()).expect("reads").is_some()).collect()
        },
    );
}
