//! Runs Openraft's own storage test suite, with entries read from memory and from segments.

#[path = "machine/mod.rs"]
#[allow(dead_code, reason = "each test uses the part it needs")]
mod machine;

use openraft::testing::{StoreBuilder, Suite};
use openraft::{AnyError, StorageError, StorageIOError};
use seawall::{Log, Options};
use seawall_openraft::{KEEP_BYTES, LogStore};

use machine::{Machine, NodeId, Types};

struct Builder {
    keep_bytes: usize,
}

impl StoreBuilder<Types, LogStore<Types>, Machine, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore<Types>, Machine), StorageError<NodeId>> {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let options = Options::default().segment_bytes(64 << 10).batch_bytes(16 << 10).memory_bytes(64 << 10);
        let log =
            Log::open(dir.path(), options).map_err(|error| StorageIOError::write(AnyError::new(&error)))?;
        let store = LogStore::new(log, self.keep_bytes);
        let store = store.map_err(|error| StorageIOError::read_logs(AnyError::new(&error)))?;
        Ok((dir, store, Machine::default()))
    }
}

#[test]
fn the_suite_passes_with_entries_in_memory() {
    Suite::test_all(Builder { keep_bytes: KEEP_BYTES }).expect("passes");
}

#[test]
fn the_suite_passes_with_entries_on_disk() {
    Suite::test_all(Builder { keep_bytes: 0 }).expect("passes");
}
