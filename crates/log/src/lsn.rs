//! Defines [`Lsn`], a byte position in the logical log.
//!
//! An [`Lsn`] is the sum of the encoded lengths of all records before it, with no padding and no batch headers in
//! between. It only grows, it is the same whatever segment or block a record lands in, and where it marks an end it
//! is exclusive.

use std::fmt;
use std::str::FromStr;

/// A byte position in the logical log. The LSN that an append returns is the *end* of its record, exclusive, and
/// therefore the start of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

impl Lsn {
    /// The start of every log.
    pub const ZERO: Self = Self(0);
    /// The largest position: no record ever reaches it.
    pub const MAX: Self = Self(u64::MAX);

    /// The position `bytes` bytes after the start of the log.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// This position in bytes from the start of the log.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position `bytes` further on, or `None` past the end of the number range.
    #[must_use]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The position `bytes` further on; stays at [`Lsn::MAX`] rather than wrap.
    #[must_use]
    pub const fn saturating_add(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// The bytes from `earlier` to here, zero if `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Lsn {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl From<Lsn> for u64 {
    fn from(lsn: Lsn) -> Self {
        lsn.0
    }
}

#[cfg(feature = "mutants")]
impl seawall_sys::planted::Extreme for Lsn {
    fn extreme(greatest: bool) -> Self {
        if greatest { Self::MAX } else { Self::ZERO }
    }
}
