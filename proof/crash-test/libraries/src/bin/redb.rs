//! redb: a transaction a record.
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("records");

fn main() {
    libraries::drive(
        |directory| {
            let database = Database::create(directory.join("redb")).expect("opens");
            move |number| {
                let transaction = database.begin_write()?;
                transaction.open_table(TABLE)?.insert(number, &libraries::record(number)[..])?;
                Ok(transaction.commit()?)
            }
        },
        |directory| {
            let database = Database::create(directory.join("redb")).expect("opens");
            let Ok(table) = database.begin_read().expect("begins").open_table(TABLE) else { return vec![] };
            table
                .iter()
                .expect("reads")
                .filter_map(|row| libraries::number(row.expect("reads").1.value()))
                .collect()
        },
    );
}
