//! Test fixture: a directory on the file system of the build, removed at the end, and options of a small log.

pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the file system of the build")
}

/// Without idle marks: they would be commits of their own, and come at moments of their own.
#[cfg(feature = "simulation")]
pub(crate) fn small() -> seawall::Options {
    seawall::Options::default()
        .segment_bytes(256 << 10)
        .batch_bytes(16 << 10)
        .memory_bytes(128 << 10)
        .idle_mark(std::time::Duration::from_mins(10))
}
