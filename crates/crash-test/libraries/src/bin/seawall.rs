//! The log of this project: an append and a commit a record.
use seawall::{Durability, Log, Options};

fn main() {
    libraries::drive(
        |directory, saved| {
            let log = Log::open(directory.join("log"), Options::default()).expect("opens");
            for record in 0..libraries::RECORDS {
                let lsn = log.append(&record.to_le_bytes()).expect("appends");
                log.commit(lsn).expect("commits");
                saved(record);
            }
            log.close().expect("closes");
        },
        |directory| {
            // The state that is checked lies in memory, which outlives no power loss.
            let options = Options::default().durability(Durability::ProcessCrash);
            let log = Log::open(directory.join("log"), options).expect("opens");
            let records = log.read(log.first_lsn()).expect("reads");
            records
                .map(|r| u64::from_le_bytes(r.expect("reads").payload[..8].try_into().expect("eight")))
                .collect()
        },
    );
}
