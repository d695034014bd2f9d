//! Defines the error of a failed system call: operation, path and the system's own error.
//!
//! Invariant: no error is recognised by its text; use [`Error::kind`] and [`Error::raw_os_error`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A system call failed: which, on what, and why.
#[derive(Debug)]
pub struct Error {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// A result whose error names operation, path and cause.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Binds the failed `operation` (a call's name, such as `fdatasync`) and the `path` it was applied to.
    pub fn new(operation: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        let path = path.as_ref();
        // The name of a file means more to a reader than a path through a descriptor.
        let path = crate::os::scratch::named(path).unwrap_or_else(|| path.to_path_buf());
        Self { operation, path, source }
    }

    #[cfg(any(target_os = "linux", windows))]
    pub(crate) fn last_os(operation: &'static str, path: impl AsRef<Path>) -> Self {
        Self::new(operation, path, io::Error::last_os_error())
    }

    /// The call that failed.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The file or folder it was applied to.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of the system's error.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// The system's own words for the cause.
    #[must_use]
    pub fn source_text(&self) -> String {
        self.source.to_string()
    }

    /// The system's own error.
    #[must_use]
    pub fn into_source(self) -> io::Error {
        self.source
    }

    /// The errno or Windows error code, if the system gave one.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.source.raw_os_error()
    }

    /// Whether it is by the device, such as `EIO`: its data may be damaged, including what it had acknowledged.
    #[must_use]
    pub fn is_of_device(&self) -> bool {
        self.raw_os_error().is_some_and(|code| crate::os::DEVICE_ERRORS.contains(&code))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.operation, self.path.display(), self.source)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
