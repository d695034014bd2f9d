//! Test fixture: a directory on the file system of the build, removed at the end.

pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the file system of the build")
}
