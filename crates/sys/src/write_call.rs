//! The write calls of the `path` scenario: each puts the same bytes into a file and syncs nothing.
//!
//! ```text
//!   seek+write   lseek, write    two calls, as a RandomAccessFile makes them
//!   pwrite       pwrite          one call
//!   pwritev2     pwritev2        one call with a vector and no flag (Linux)
//!   append       write           on a descriptor opened for appending; the given offset is ignored
//!   mapped       none            a copy into a shared mapping
//! ```
//!
//! Invariants: nothing is synced, so nothing here is durable; a short write is an error, because it would measure two
//! calls.

use crate::commit::{OpenError, Target};
use crate::error::{Error, Result};
use crate::method::Write as MethodWrite;
use crate::{CommitHandle, methods, os};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

/// A way to put bytes into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteCall {
    /// lseek, then write.
    SeekWrite,
    /// pwrite.
    Pwrite,
    /// pwritev2 without flags.
    Pwritev2,
    /// write on a file opened for appending.
    Append,
    /// A copy into a shared mapping.
    Mapped,
}

impl WriteCall {
    /// All, in the order of tables.
    pub const ALL: [Self; 5] = [Self::SeekWrite, Self::Pwrite, Self::Pwritev2, Self::Append, Self::Mapped];

    /// A stable name.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::SeekWrite => "seek+write",
            Self::Pwrite => "pwrite",
            Self::Pwritev2 => "pwritev2",
            Self::Append => "append",
            Self::Mapped => "mapped",
        }
    }

    /// Opens `target`, which exists, for writing this way. [`CommitHandle::sync`] of what is returned does nothing that
    /// this module vouches for: only [`CommitHandle::write`] is meant to be called.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] with the reason, or the failed call.
    pub fn open(self, target: &Target) -> std::result::Result<Box<dyn CommitHandle>, OpenError> {
        if self == Self::Mapped {
            let row = methods::here().iter().find(|method| method.write == MethodWrite::Mapped);
            let row = row.ok_or_else(|| OpenError::unavailable("no mapped writes on this system yet"))?;
            return crate::open(row, target, None);
        }
        let mut options = File::options();
        let file = match self {
            Self::Append => options.append(true),
            _ => options.read(true).write(true),
        };
        let file = file.open(&target.path).map_err(|error| Error::new("open", &target.path, error))?;
        let put: Put = match self {
            Self::SeekWrite => |mut file, offset, bytes| {
                file.seek(SeekFrom::Start(offset))?;
                file.write(bytes)
            },
            Self::Append => |mut file, _, bytes| file.write(bytes),
            Self::Pwritev2 => os::WRITE_VECTOR
                .ok_or_else(|| OpenError::unavailable("pwritev2 needs Linux 4.6; this system has none"))?,
            Self::Pwrite | Self::Mapped => os::store::write_at,
        };
        Ok(Box::new(Plain { file, path: target.path.clone(), name: self.id(), put }))
    }
}

/// Writes some of the bytes at an offset and returns how many, as pwrite does.
pub(crate) type Put = fn(&File, u64, &[u8]) -> io::Result<usize>;

struct Plain {
    file: File,
    path: PathBuf,
    name: &'static str,
    put: Put,
}

impl CommitHandle for Plain {
    #[inline]
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        match (self.put)(&self.file, offset, bytes) {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) => Err(Error::new(self.name, &self.path, io::ErrorKind::WriteZero.into())),
            Err(error) => Err(Error::new(self.name, &self.path, error)),
        }
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_puts_the_bytes_where_they_belong() {
        let dir = tempfile::tempdir().expect("a folder");
        for call in WriteCall::ALL {
            let path = dir.path().join(call.id());
            std::fs::write(&path, [0; 8192]).expect("made");
            let target = Target { path: path.clone(), journal_bytes: 8192, write_bytes: 4 };
            match call.open(&target) {
                Ok(mut writer) => {
                    writer.write(4096, b"abcd").expect("written");
                    drop(writer);
                    let found = std::fs::read(&path).expect("read");
                    let at = if call == WriteCall::Append { 8192 } else { 4096 };
                    assert_eq!(&found[at..at + 4], b"abcd", "{}", call.id());
                }
                Err(OpenError::Unavailable(_)) => assert_ne!(crate::os::SYSTEM, crate::method::System::Linux),
                Err(OpenError::Failed(error)) => panic!("{}: {error}", call.id()),
            }
        }
    }
}
