//! Reads where a file's bytes lie, and in which state the file system has them.

use crate::durability::FileState;
use crate::error::Result;
use crate::os;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;

/// Where the bytes of a file lie, as the file system reports it (Linux FIEMAP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Layout {
    /// The number of extents.
    pub extents: u64,
    /// Bytes in written extents.
    pub written_bytes: u64,
    /// Bytes in extents that are reserved and marked unwritten.
    pub unwritten_bytes: u64,
    /// Bytes written but not yet given a place on the device.
    pub delayed_bytes: u64,
}

impl Layout {
    /// The state that the extents show for a file that should hold `bytes`; `None` if they are mixed.
    /// Zeroed, filled and recycled blocks look alike to the file system.
    #[must_use]
    pub fn shows(&self, bytes: u64) -> Option<FileState> {
        if self.extents == 0 {
            Some(FileState::Appending)
        } else if self.unwritten_bytes >= bytes {
            Some(FileState::Unwritten)
        } else if self.unwritten_bytes == 0 && self.written_bytes >= bytes {
            Some(FileState::ZeroFilled)
        } else {
            None
        }
    }

    /// Whether the extents are as `state` wants them.
    #[must_use]
    pub fn agrees_with(&self, state: FileState, bytes: u64) -> bool {
        match state {
            FileState::Appending | FileState::Unwritten => self.shows(bytes) == Some(state),
            FileState::ZeroFilled | FileState::WriteZeroes | FileState::Recycled => {
                self.shows(bytes) == Some(FileState::ZeroFilled)
            }
        }
    }
}

/// Where the bytes of `file` lie; `None` where the system does not report it.
///
/// # Errors
/// The failed call.
pub fn layout(file: &File, path: &Path) -> Result<Option<Layout>> {
    os::layout::layout(file, path)
}
