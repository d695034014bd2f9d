//! Windows: reads the thread's accounts, and shields programs from Ctrl-C.

pub(crate) mod journal;
/// Only what it starts is told anything about signals.
pub(crate) mod process {
    pub(crate) use crate::os::fallback::process::*;
    use std::os::windows::process::CommandExt as _;
    use windows_sys::Win32::System::Threading::CREATE_NEW_PROCESS_GROUP;

    /// The child leads a group of its own.
    pub(crate) fn shield_from_ctrl_c(command: &mut std::process::Command) {
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
    }
}
pub(crate) mod thread;

pub(crate) use super::fallback::{WRITE_VECTOR, is_same, raw_device};

use crate::flush::{Flush, SyncCall};
use std::fs::File;
use std::io;
use std::os::windows::fs::FileExt as _;
use std::path::Path;

/// `FlushFileBuffers` is what the standard library calls.
pub(crate) const SYNC_CALLS: &[SyncCall] =
    &[SyncCall { flush: Flush::Fsync, name: "FlushFileBuffers", call: File::sync_all }];

/// Opens a file to flush it, which needs the right to write.
pub(crate) fn open_to_sync(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

/// `WriteFile` at an offset.
pub(crate) fn write_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}
