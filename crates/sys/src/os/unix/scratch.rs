//! Makes a folder and files that only their user can reach.

use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Makes the folder, which must be new: an existing name, a link too, is an error.
pub(crate) fn make_folder(name: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(name)
}

/// Whether it is a folder of this user that no other user can write to.
pub(crate) fn is_own_folder(metadata: &Metadata) -> bool {
    let user = rustix::process::geteuid().as_raw();
    metadata.is_dir() && metadata.uid() == user && metadata.mode() & 0o022 == 0
}

pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}
