//! Converts byte counts to indexes without wrapping; an oversized one points past every buffer.

/// `bytes` as an index; one past every slice if it does not fit.
pub(crate) fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
