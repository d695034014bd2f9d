//! Test fixture: a directory on the file system of the build, the groups of a small log, and a runtime.

use std::path::Path;
use std::sync::Arc;

use seawall::{Log, MethodChoice, Options};
use seawall_openraft::Groups;

pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the file system of the build")
}

pub(crate) fn open(dir: &Path, keep_bytes: usize) -> Groups {
    let options = Options::default().segment_bytes(64 << 10).batch_bytes(16 << 10).memory_bytes(64 << 10);
    let options = options.method(MethodChoice::Named("buffered+fdatasync".to_owned()));
    Groups::new(Arc::new(Log::open(dir, options).expect("opens")), keep_bytes)
}

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(work)
}
