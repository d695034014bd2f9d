//! wal-db: an append and a sync a record, in small segments; WAL_DB_STRICT=1 opens it by its strict policy.
use wal_db::{OpenPolicy, Wal, WalConfig};

fn main() {
    let strict = std::env::var_os("WAL_DB_STRICT").is_some();
    let policy = if strict { OpenPolicy::Strict } else { OpenPolicy::TruncateTail };
    let config = WalConfig::new().with_open_policy(policy);
    // Small segments, so that the run changes to a new one.
    let open = |directory: &std::path::Path| {
        Wal::open_segmented_with(directory.join("log"), 4096, config.clone()).expect("opens")
    };
    libraries::drive(
        |directory| {
            let log = open(directory);
            move |number| {
                let _lsn = log.append_and_sync(&libraries::record(number))?;
                Ok(())
            }
        },
        |directory| {
            let log = open(directory);
            log.iter().expect("reads").filter_map(|r| libraries::number(r.expect("reads").data())).collect()
        },
    );
}
