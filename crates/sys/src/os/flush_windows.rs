//! Windows: syncs a file through a handle of its own by `FlushFileBuffers`, which needs the right to write.

use crate::flush::Flush;
use std::fs::File;
use std::io;
use std::path::Path;

/// A sync call with its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) call: fn(&File) -> io::Result<()>,
}

/// The call; `None` if this system has no such.
pub(crate) fn call(flush: Flush) -> Option<Call> {
    match flush {
        Flush::Fsync => Some(Call { name: "FlushFileBuffers", call: File::sync_all }),
        Flush::Fdatasync | Flush::Range => None,
    }
}

pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}
