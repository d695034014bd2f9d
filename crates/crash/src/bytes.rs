//! How does a number of bytes become an index? Without wrapping: what does not fit points past everything.

/// `bytes` as an index; one past every slice if it does not fit.
pub(crate) fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
