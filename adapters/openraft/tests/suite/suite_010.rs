//! Runs the storage test suite of Openraft 0.10, with entries read from memory and from segments.

use openraft010::StorageError;
use openraft010::testing::log::{StoreBuilder, Suite};
use seawall_openraft::KEEP_BYTES;
use seawall_openraft::v010::LogStore;

use crate::kv010::{Machine, Types};
use crate::scratch::{open, scratch};

struct Builder {
    keep_bytes: usize,
}

impl StoreBuilder<Types, LogStore<Types>, Machine, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore<Types>, Machine), StorageError<Types>> {
        let dir = scratch();
        let store = open(dir.path(), self.keep_bytes).store(7).expect("opens");
        let machine = Machine::open(&dir.path().join("snapshot")).expect("is empty");
        Ok((dir, store, machine))
    }
}

fn run(keep_bytes: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    let suite = Suite::test_all(Builder { keep_bytes });
    runtime.expect("a runtime").block_on(suite).expect("passes");
}

#[test]
fn the_suite_passes_with_entries_in_memory() {
    run(KEEP_BYTES);
}

#[test]
fn the_suite_passes_with_entries_on_disk() {
    run(0);
}
