//! fjall: an insert and a persist a record.
use fjall::{Database, KeyspaceCreateOptions, PersistMode};

fn main() {
    libraries::drive(
        |directory| {
            let database = Database::builder(directory).open().expect("opens");
            let items = database.keyspace("items", KeyspaceCreateOptions::default).expect("opens");
            move |number| {
                items.insert(number.to_be_bytes(), libraries::record(number))?;
                Ok(database.persist(PersistMode::SyncAll)?)
            }
        },
        |directory| {
            let database = Database::builder(directory).open().expect("opens");
            let items = database.keyspace("items", KeyspaceCreateOptions::default).expect("opens");
            let get = |number: u64| libraries::number(&items.get(number.to_be_bytes()).expect("reads")?);
            (0..libraries::RECORDS).filter_map(get).collect()
        },
    );
}
