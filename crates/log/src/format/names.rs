//! Names the files of a log's directory: segments, and the other files that belong to the log.

pub(crate) const LOCK_FILE: &str = "LOCK";
pub(crate) const HOLD_PREFIX: &str = "HOLD-";
/// What the name of a hold that is being written begins with.
pub(crate) const HOLD_STAGING_PREFIX: &str = "HOLD.new-";
/// What the name of the file begins with by which a hold is locked.
pub(crate) const HOLD_LOCK_PREFIX: &str = "HOLD.lock-";
pub(crate) const REBUILD_MARKER: &str = "REBUILDING";
pub(crate) const REBUILD_STAGING: &str = "REBUILDING.new";

/// Whether a file of this name is a hold, one that is being written, or the lock of one.
pub(crate) fn is_hold(name: &str) -> bool {
    [HOLD_PREFIX, HOLD_STAGING_PREFIX, HOLD_LOCK_PREFIX].iter().any(|prefix| name.starts_with(prefix))
}

pub(crate) fn is_rebuild_marker(name: &str) -> bool {
    name == REBUILD_MARKER || name == REBUILD_STAGING
}

/// The name of segment `number`.
#[must_use]
pub fn segment_name(number: u64) -> String {
    numbered(number, ".seg")
}

/// The name of segment `number` while it is being prepared.
#[must_use]
pub fn preparing_name(number: u64) -> String {
    numbered(number, ".new")
}

/// The number in 20 digits, then the ending. Without the formatting machinery, because the crash campaign needs
/// names by the hundred million.
fn numbered(number: u64, ending: &str) -> String {
    let mut digits = [b'0'; 20];
    let (mut rest, mut at) = (number, digits.len());
    while rest > 0 {
        at -= 1;
        digits[at] += u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    let mut name = String::with_capacity(digits.len() + ending.len());
    name.push_str(std::str::from_utf8(&digits).unwrap_or_default());
    name.push_str(ending);
    name
}

/// What a file in the log's directory is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// A segment, started or waiting to be.
    Segment(u64),
    /// A segment that is being prepared.
    Preparing(u64),
}

/// What a file named `name` is, `None` if it is not ours.
#[must_use]
pub fn file_role(name: &str) -> Option<FileRole> {
    let (digits, role): (_, fn(u64) -> FileRole) = match name.rsplit_once('.')? {
        (digits, "seg") => (digits, FileRole::Segment),
        (digits, "new") => (digits, FileRole::Preparing),
        _ => return None,
    };
    let canonical = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| canonical && *number > 0).map(role)
}
