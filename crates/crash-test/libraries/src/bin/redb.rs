//! redb: a transaction a record.
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

const TABLE: TableDefinition<u64, u64> = TableDefinition::new("records");

fn main() {
    libraries::drive(
        |directory, saved| {
            let database = Database::create(directory.join("redb")).expect("opens");
            for record in 0..libraries::RECORDS {
                let transaction = database.begin_write().expect("begins");
                transaction.open_table(TABLE).expect("opens").insert(record, record).expect("inserts");
                transaction.commit().expect("commits");
                saved(record);
            }
        },
        |directory| {
            let database = Database::create(directory.join("redb")).expect("opens");
            let Ok(table) = database.begin_read().expect("begins").open_table(TABLE) else { return vec![] };
            table.iter().expect("reads").map(|row| row.expect("reads").0.value()).collect()
        },
    );
}
