//! The log of this project: an append and a commit a record.
use seawall::{Durability, Log, Options};

fn main() {
    libraries::drive(
        |directory| {
            let mut open = Some(Log::open(directory.join("log"), Options::default()).expect("opens"));
            move |number| {
                let log = open.as_ref().ok_or("it is closed")?;
                log.commit(log.append(&libraries::record(number))?.end)?;
                if number + 1 == libraries::RECORDS {
                    open.take().map_or(Ok(()), Log::close)?;
                }
                Ok(())
            }
        },
        |directory| {
            // The state that is checked lies in memory, which outlives no power loss.
            let options = Options::default().durability(Durability::ProcessCrash);
            let log = Log::open(directory.join("log"), options).expect("opens");
            let records = log.read(log.first_lsn()).expect("reads");
            records.filter_map(|r| libraries::number(&r.expect("reads").payload)).collect()
        },
    );
}
