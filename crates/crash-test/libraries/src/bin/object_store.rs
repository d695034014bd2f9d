//! object_store: a put into a local file system a record; OBJECT_STORE_FSYNC=1 asks for its syncs.
use futures::executor::block_on;
use object_store::{ObjectStoreExt as _, local::LocalFileSystem, path::Path};

fn main() {
    libraries::drive(
        |directory, saved| {
            let fsync = std::env::var_os("OBJECT_STORE_FSYNC").is_some();
            let store = LocalFileSystem::new_with_prefix(directory).expect("opens").with_fsync(fsync);
            for record in 0..libraries::RECORDS {
                let path = Path::from(format!("day{}/{record}", record / 10));
                block_on(store.put(&path, record.to_string().into())).expect("puts");
                saved(record);
            }
        },
        |directory| {
            let store = LocalFileSystem::new_with_prefix(directory).expect("opens");
            let get = |record: &u64| {
                let got = block_on(store.get(&Path::from(format!("day{}/{record}", record / 10)))).ok()?;
                (block_on(got.bytes()).ok()? == record.to_string()).then_some(*record)
            };
            (0..libraries::RECORDS).filter_map(|record| get(&record)).collect()
        },
    );
}
