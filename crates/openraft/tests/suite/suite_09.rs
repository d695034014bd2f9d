//! Runs the storage test suite of Openraft 0.9, with entries read from memory and from segments.

use std::error::Error;
use std::sync::Arc;

use openraft09::testing::{StoreBuilder, Suite};
use openraft09::{AnyError, StorageError, StorageIOError};
use seawall::{Log, MethodChoice, Options};
use seawall_openraft::v09::LogStore;
use seawall_openraft::{Groups, KEEP_BYTES};

use crate::machine_v09::{Machine, NodeId, Types};

fn failed(error: &(impl Error + 'static)) -> StorageError<NodeId> {
    StorageIOError::write(AnyError::new(error)).into()
}

struct Builder {
    keep_bytes: usize,
}

impl StoreBuilder<Types, LogStore<Types>, Machine, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore<Types>, Machine), StorageError<NodeId>> {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let options = Options::default().segment_bytes(64 << 10).batch_bytes(16 << 10).memory_bytes(64 << 10);
        let options = options.method(MethodChoice::Named("buffered+fdatasync".to_owned()));
        let log = Arc::new(Log::open(dir.path(), options).map_err(|error| failed(&error))?);
        let groups = Groups::new(log, self.keep_bytes);
        let store = groups.store(7).map_err(|error| failed(&error))?;
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
