//! Finds what the superblock of ext4 says and the mount table does not, because it lists only what differs from it.
//!
//! `/proc/fs/ext4/DEV/options` has every option in force, one a line, and anybody may read it. A file system with a journal has
//! a `data=` line there, one without has none.
//!
//! ```text
//!   tune2fs -o nobarrier       no flush is sent                       nobarrier
//!   tune2fs -o journal_data    direct writes end in memory            data=journal
//!   mkfs -O ^has_journal       before Linux 6.5, a sync of an         no data=
//!                              overwrite returns before its flush
//! ```
//!
//! That last row holds for ext2 and ext3 mounted by the same driver, and not for the driver of ext2 alone, which has no such
//! file and always flushes. Seen at the device: `docs/verified.md`.

use super::mounts::Mount;
use super::roots::Roots;
use crate::planted;

/// The kernel whose ext4 flushes after every sync without a journal.
const FLUSHES_WITHOUT_JOURNAL: (u32, u32) = (6, 5);

/// The options in force of the file system on a device, by the kernel's name of that; none if it is not one of this driver.
pub(super) fn options(roots: &Roots, mount: &Mount, device: &str) -> Vec<String> {
    if !mount.kind.starts_with("ext") {
        return Vec::new();
    }
    let all = roots.proc_text(&format!("fs/ext4/{device}/options")).unwrap_or_default();
    all.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Whether a sync of an overwrite may return without a flush.
pub(super) fn leaves_flush_out(roots: &Roots, options: &[String]) -> bool {
    let has_journal = options.iter().any(|option| option.starts_with("data="));
    let flushes = has_journal || roots.is_kernel_at_least(FLUSHES_WITHOUT_JOURNAL);
    planted!(JournalMissingUnseen, !options.is_empty() && !flushes)
}
