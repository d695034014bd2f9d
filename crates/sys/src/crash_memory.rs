//! Maps a file as memory that outlives the process: the kernel keeps what was stored, however the process ends.
//!
//! A kill ends a process between two instructions. Every store before that is in the page cache, where the next process
//! that opens the file finds it; no aligned word is torn. A crash of the system leaves any part of it, and the next opening
//! must compare [`boot_id`].
//!
//! Invariants: the file is exactly as long as the mapping and has its blocks before it is mapped, because a store that
//! finds no room ends the process with `SIGBUS`; no reference into the mapping is ever formed, only raw copies, because
//! other processes may map the file too; a process that was forked off has no part of the mapping.

use crate::commit::Unavailable;
pub use crate::os::crash_memory::CrashMapping;

/// One word in bytes: what is published at once.
pub const WORD_BYTES: usize = 8;

/// The identity of this boot of the system, the random number that the kernel draws when it starts (random(4)): another one
/// after every crash of it.
///
/// # Errors
/// [`Unavailable`] where the system does not say.
pub fn boot_id() -> Result<[u8; 16], Unavailable> {
    let unknown = |_| Unavailable("the system does not say which boot of it this is".to_owned());
    crate::shared_memory::boot_id().map_err(unknown)
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
