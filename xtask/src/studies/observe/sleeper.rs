//! Makes a product sleep instead of syncing, by a preloaded C library.
//!
//! The library is `observe/sleeper.c`; a file of three words controls it:
//!
//! ```text
//!   word 0: nanoseconds to sleep in place of a sync, 0: sync     word 1: syncs slept     word 2: nanoseconds slept
//! ```
//!
//! Invariant: the library itself measures the sleep, so that an overlong sleep is not counted as work of the product.

use crate::error::{Error, Result};
use crate::shell::{command, root, status};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

const WORD: usize = size_of::<u64>();

/// The library and its file.
pub(super) struct Sleeper {
    library: PathBuf,
    words: PathBuf,
    file: File,
}

/// What was slept since the length was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slept {
    pub(super) syncs: u64,
    pub(super) ns: u64,
}

impl Slept {
    /// Nanoseconds a sync.
    pub(super) fn mean_ns(self) -> f64 {
        self.ns as f64 / self.syncs.max(1) as f64
    }
}

impl Sleeper {
    /// Builds it in `folder`, where any user's processes can use it.
    pub(super) fn make(folder: &Path) -> Result<Self> {
        let library = folder.join("sleeper.so");
        let source = root().join("xtask/src/studies/observe/sleeper.c");
        let mut compiler = command("cc", &["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
        compiler.args([&library, &source]);
        status(compiler)?;
        let words = folder.join("sleeper");
        let file = File::options().read(true).write(true).create_new(true).open(&words);
        let file = file.map_err(Error::at(words.display()))?;
        (&file).write_all(&[0; 3 * WORD]).map_err(Error::at(words.display()))?;
        // The server that uses it has no rights of ours.
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .map_err(Error::at(words.display()))?;
        Ok(Self { library, words, file })
    }

    /// What a process needs in its environment to use it.
    pub(super) fn variables(&self) -> [(&'static str, &Path); 2] {
        [("LD_PRELOAD", &self.library), ("SEAWALL_SLEEPER", &self.words)]
    }

    /// From now on syncs are slept for so long; `None`: they are made.
    #[expect(
        clippy::host_endian_bytes,
        reason = "the words are this machine's memory, mapped by the library"
    )]
    pub(super) fn sleep_for(&self, ns: Option<u64>) -> Result {
        let mut words = [0; 3 * WORD];
        words[..WORD].copy_from_slice(&ns.map_or(0, |ns| ns.max(1)).to_ne_bytes());
        let mut file = &self.file;
        let written = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&words));
        written.map_err(Error::at(self.words.display()))
    }

    /// What was slept since then.
    #[expect(
        clippy::host_endian_bytes,
        reason = "the words are this machine's memory, mapped by the library"
    )]
    pub(super) fn slept(&self) -> Result<Slept> {
        let mut word = [0; WORD];
        let mut read = |index: u64| {
            let mut file = &self.file;
            let read =
                file.seek(SeekFrom::Start(index * WORD as u64)).and_then(|_| file.read_exact(&mut word));
            read.map(|()| u64::from_ne_bytes(word)).map_err(Error::at(self.words.display()))
        };
        Ok(Slept { syncs: read(1)?, ns: read(2)? })
    }
}
