//! Reports how much of a file is in the page cache.
//!
//! Linux uses cachestat(2) (6.5) or mincore(2); other systems do not report it.
//!
//! Invariant: an unknown share is `None`, never a guess from what was read before.

use crate::error::Result;
use crate::os;
use std::fs::File;
use std::path::Path;

/// Bytes of `file` in the page cache; `None` where the system does not report it. `path` names it in
/// errors.
///
/// # Errors
/// The failed call.
pub fn cached_bytes(file: &File, path: &Path) -> Result<Option<u64>> {
    // To the end of the file.
    cached_bytes_of(file, path, 0, 0)
}

/// The same of the `length` bytes from byte `offset` on, in whole pages; a length of 0 reaches to the end of the file.
pub(crate) fn cached_bytes_of(file: &File, path: &Path, offset: u64, length: u64) -> Result<Option<u64>> {
    os::residency::cached_bytes(file, path, offset, length)
}

/// Bytes of `file` in the page cache that are not on the disk yet; `None` where the system or the file system does not report
/// them.
#[must_use]
pub fn dirty_bytes(file: &File) -> Option<u64> {
    os::residency::dirty_bytes(file)
}

/// Memory that can be had without swapping, bytes (Linux `MemAvailable`); `None` where the system does not report it.
#[must_use]
pub fn available_memory_bytes() -> Option<u64> {
    os::residency::available_memory_bytes()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_and_read_is_cached_and_what_is_dropped_is_not() {
        let dir = crate::test_folder();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("written");
        let file = File::open(&path).expect("opened");
        assert_eq!(cached_bytes(&file, &path).expect("asked"), Some(1 << 20));
        for (offset, length, cached) in [
            (0, 0, 1 << 20),
            (0, 8192, 8192),
            (4096, 1, 4096),
            (100, 4096, 8192),
            (1 << 19, 1 << 20, 1 << 19),
            (1 << 20, 4096, 0),
        ] {
            let both =
                [cached_bytes_of, os::residency::by_mincore].map(|ask| ask(&file, &path, offset, length));
            let answers = both.map(|answer| answer.expect("an answer"));
            assert_eq!(answers, [Some(cached); 2], "both questions have one answer: {offset} {length}");
        }
        file.sync_all().expect("synced");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("dropped");
        let left = cached_bytes(&file, &path).expect("an answer").expect("known");
        assert!(left < 1 << 20, "{left} bytes are still cached");
        assert!(available_memory_bytes().is_some_and(|bytes| bytes > 0));
    }
}
