//! object_store: a put into a local file system a record; OBJECT_STORE_FSYNC=1 asks for its syncs.
use futures::executor::block_on;
use object_store::{ObjectStoreExt as _, local::LocalFileSystem, path::Path};

fn main() {
    libraries::drive(
        |directory| {
            let fsync = std::env::var_os("OBJECT_STORE_FSYNC").is_some();
            let store = LocalFileSystem::new_with_prefix(directory).expect("opens").with_fsync(fsync);
            move |number| {
                let path = Path::from(format!("day{}/{number}", number / 10));
                block_on(store.put(&path, libraries::record(number).into()))?;
                Ok(())
            }
        },
        |directory| {
            let store = LocalFileSystem::new_with_prefix(directory).expect("opens");
            let get = |number: u64| {
                let got = block_on(store.get(&Path::from(format!("day{}/{number}", number / 10)))).ok()?;
                libraries::number(&block_on(got.bytes()).ok()?)
            };
            (0..libraries::RECORDS).filter_map(get).collect()
        },
    );
}
