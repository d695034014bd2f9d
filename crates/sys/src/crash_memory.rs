//! Maps a file as memory that outlives the process: the kernel keeps what was stored, however the process ends.
//!
//! A kill ends a process between two instructions. Every store before that is in the page cache, where the next process
//! that opens the file finds it; no aligned word is torn. A crash of the system leaves any part of it, and the next opening
//! must compare [`boot_id`].
//!
//! Invariants: the file is exactly as long as the mapping and has its blocks before it is mapped, because a store that
//! finds no room ends the process with `SIGBUS`; no reference into the mapping is ever formed, only raw copies, because
//! other processes may map the file too; a process that was forked off has no part of the mapping.

use std::io;

use crate::commit::{OpenError, Unavailable};
use crate::directory::{Directory, Permissions};
use crate::os::crash_memory as os;

/// One word in bytes: what is published at once.
pub const WORD_BYTES: usize = 8;

/// A file, mapped.
#[derive(Debug)]
pub struct CrashMapping(os::Mapping);

impl CrashMapping {
    /// Makes the file `name`, which must not be there, of `bytes` zeros and maps it. On an error it is removed again.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] where this system or file system has no such memory or no room for it.
    pub fn make_in(
        directory: &Directory,
        name: &str,
        permissions: Permissions,
        bytes: usize,
    ) -> Result<Self, OpenError> {
        os::Mapping::make(directory, name, permissions, bytes).map(Self)
    }

    /// Maps the file `name`; `None` if it is not there. An empty one, whose maker ended before it had filled it, is removed: it would
    /// be in the way of the next one.
    ///
    /// # Errors
    /// The system's, and `Unsupported` where it has no such memory.
    pub fn open_in(directory: &Directory, name: &str) -> io::Result<Option<Self>> {
        os::Mapping::open(directory, name).map(|mapping| mapping.map(Self))
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Stores `bytes` at `at`.
    ///
    /// # Panics
    /// If they do not lie inside.
    #[inline]
    pub fn store(&mut self, at: usize, bytes: &[u8]) {
        self.0.store(at, bytes);
    }

    /// Stores one word, behind everything that this thread stored before: what finds the word finds that as well.
    ///
    /// # Panics
    /// If it does not lie inside or is not aligned.
    #[inline]
    pub fn publish(&mut self, at: usize, word: u64) {
        self.0.publish(at, word);
    }

    /// Has the processor fetch `bytes` bytes at `at`, which are about to be stored, while other work goes on.
    #[inline]
    pub fn about_to_store(&self, at: usize, bytes: usize) {
        self.0.about_to_store(at, bytes);
    }

    /// Copies what lies at `at`.
    ///
    /// # Panics
    /// If it does not lie inside.
    pub fn load(&self, at: usize, into: &mut [u8]) {
        self.0.load(at, into);
    }
}

/// The identity of this boot of the system: another one after every crash of it.
///
/// # Errors
/// [`Unavailable`] where the system does not say.
pub fn boot_id() -> Result<[u8; 16], Unavailable> {
    os::boot_id()
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::{CrashMapping, boot_id};
    use crate::commit::OpenError;
    use crate::directory::{Directory, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    fn make(directory: &Directory, bytes: usize) -> Result<CrashMapping, OpenError> {
        CrashMapping::make_in(directory, "memory", Permissions::OwnerOnly, bytes)
    }

    #[test]
    fn what_is_stored_is_there_when_the_mapping_is_gone() {
        let folder = crate::test_folder();
        let directory = Directory::open(folder.path()).expect("opens");
        assert!(CrashMapping::open_in(&directory, "memory").expect("looks").is_none());
        let mut memory = make(&directory, 10_000).expect("makes it");
        let mode = folder.path().join("memory").metadata().expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        memory.store(9_997, b"end");
        memory.publish(16, u64::from_le_bytes(*b"a word!!"));
        drop(memory);
        let memory = CrashMapping::open_in(&directory, "memory").expect("opens").expect("is there");
        assert_eq!(memory.bytes(), 10_000);
        let mut found = [9; 10_000];
        memory.load(0, &mut found);
        assert_eq!(
            (&found[9_997..], &found[16..24], &found[..16]),
            (&b"end"[..], &b"a word!!"[..], &[0; 16][..])
        );
        assert!(make(&directory, 4096).is_err(), "the name is taken");
        assert!(CrashMapping::open_in(&directory, "memory").expect("opens").is_some(), "and was left alone");
    }

    #[test]
    fn one_that_was_not_filled_is_in_nobodys_way() {
        let folder = crate::test_folder();
        let directory = Directory::open(folder.path()).expect("opens");
        std::fs::write(folder.path().join("memory"), b"").expect("writes");
        assert!(CrashMapping::open_in(&directory, "memory").expect("looks").is_none());
        make(&directory, 4096).expect("makes it");
    }

    #[test]
    fn neither_a_link_nor_a_name_that_is_taken_is_followed() {
        let folder = crate::test_folder();
        let directory = Directory::open(folder.path()).expect("opens");
        std::fs::write(folder.path().join("other"), [7; 64]).expect("writes");
        std::os::unix::fs::symlink("other", folder.path().join("memory")).expect("links");
        assert!(make(&directory, 4096).is_err());
        assert!(CrashMapping::open_in(&directory, "memory").is_err());
        assert_eq!(std::fs::read(folder.path().join("other")).expect("reads"), [7; 64]);
    }

    #[test]
    fn a_size_without_room_is_refused_and_leaves_nothing() {
        let folder = crate::test_folder();
        let directory = Directory::open(folder.path()).expect("opens");
        assert!(make(&directory, usize::MAX / 4).is_err());
        assert!(make(&directory, 0).is_err());
        assert!(!folder.path().join("memory").exists());
    }

    #[test]
    fn a_child_has_no_part_of_it_and_leaves_it_alone() {
        let folder = crate::test_folder();
        let directory = Directory::open(folder.path()).expect("opens");
        let mut memory = Some(make(&directory, 4096).expect("makes it"));
        let child = crate::fork::Child::run(|| {
            drop(memory.take());
            0
        });
        assert_eq!(child.expect("forks").wait().expect("ends"), Some(0));
        memory.as_mut().expect("the parent has it").store(0, b"still");
    }

    #[test]
    fn a_boot_has_one_identity() {
        assert_eq!(boot_id(), boot_id());
        assert!(boot_id().is_ok_and(|id| id != [0; 16]));
    }
}
