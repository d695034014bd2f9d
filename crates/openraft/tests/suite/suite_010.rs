//! Runs the storage test suite of Openraft 0.10, with entries read from memory and from segments.

use std::error::Error;
use std::sync::Arc;

use openraft010::StorageError;
use openraft010::testing::log::{StoreBuilder, Suite};
use openraft010::type_config::TypeConfigExt;
use seawall::{Log, MethodChoice, Options};
use seawall_openraft::v010::LogStore;
use seawall_openraft::{Groups, KEEP_BYTES};

use crate::machine_v010::{Machine, Types};

fn failed(error: &(impl Error + 'static)) -> StorageError<Types> {
    StorageError::write(Types::err_from_error(error))
}

struct Builder {
    keep_bytes: usize,
}

impl StoreBuilder<Types, LogStore<Types>, Machine, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore<Types>, Machine), StorageError<Types>> {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let options = Options::default().segment_bytes(64 << 10).batch_bytes(16 << 10).memory_bytes(64 << 10);
        let options = options.method(MethodChoice::Named("buffered+fdatasync".to_owned()));
        let log = Arc::new(Log::open(dir.path(), options).map_err(|error| failed(&error))?);
        let groups = Groups::new(log, self.keep_bytes);
        let store = groups.store(7).map_err(|error| failed(&error))?;
        Ok((dir, store, Machine::default()))
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
