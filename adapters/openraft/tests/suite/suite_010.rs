//! Runs the storage test suite of Openraft 0.10, with entries read from memory and from segments.

use openraft010::StorageError;
use openraft010::testing::log::{StoreBuilder, Suite};
use seawall_openraft::KEEP_BYTES;
use seawall_openraft::v010::LogStore;

use crate::kv010::{Machine, Types};
use crate::scratch::{open, run, scratch};

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

#[test]
fn the_suite_passes_with_entries_in_memory() {
    run(Suite::test_all(Builder { keep_bytes: KEEP_BYTES })).expect("passes");
}

#[test]
fn the_suite_passes_with_entries_on_disk() {
    run(Suite::test_all(Builder { keep_bytes: 0 })).expect("passes");
}
