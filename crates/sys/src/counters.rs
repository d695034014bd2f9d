//! Reads the kernel's block-device counters, summed over the leaf devices.
//!
//! `/sys/block/<dev>/stat` (kernel `Documentation/block/stat.rst`), counted from 1: field 5 writes completed,
//! field 7 sectors (512 B) written, field 16 flush requests completed (Linux 5.5). Discards are counted apart
//! and left out.
//!
//! Invariants: the counters are those of whole devices, so other programs' I/O is in them, and a reader takes an idle
//! baseline first; where the system has no counters there is no [`Reader`], never zeros.

use crate::error::Result;
use crate::inspect::Environment;
use crate::os;
use serde::{Deserialize, Serialize};

/// Sums over the leaf devices at one moment, or the difference of two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Write requests completed.
    pub writes: u64,
    /// Sectors of 512 bytes written.
    pub sectors: u64,
    /// Flush requests completed.
    pub flushes: u64,
}

impl Counts {
    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            writes: self.writes.saturating_sub(earlier.writes),
            sectors: self.sectors.saturating_sub(earlier.sectors),
            flushes: self.flushes.saturating_sub(earlier.flushes),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            writes: self.writes + other.writes,
            sectors: self.sectors + other.sectors,
            flushes: self.flushes + other.flushes,
        }
    }

    /// The counts in one line of a `stat` file; `None` if it is older than Linux 5.5 or no such line.
    #[must_use]
    pub fn parse(stat: &str) -> Option<Self> {
        let mut fields = stat.split_ascii_whitespace().map(str::parse::<u64>);
        let mut field = |skip: usize| fields.nth(skip)?.ok();
        let writes = field(4)?;
        let sectors = field(1)?;
        let flushes = field(8)?;
        Some(Self { writes, sectors, flushes })
    }
}

/// How much the leaf devices had to do, summed over them, at one moment or between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Activity {
    /// Milliseconds in which a request was in flight (field 10 of `stat`).
    pub busy_ms: u64,
}

impl Activity {
    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self { busy_ms: self.busy_ms.saturating_sub(earlier.busy_ms) }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self { busy_ms: self.busy_ms + other.busy_ms }
    }

    /// The activity in one line of a `stat` file; `None` if it is no such line.
    #[must_use]
    pub fn parse(stat: &str) -> Option<Self> {
        Some(Self { busy_ms: stat.split_ascii_whitespace().nth(9)?.parse().ok()? })
    }
}

/// The leaf devices' counters, held open.
pub struct Reader(os::counters::Reader);

impl Reader {
    /// Opens the counters of the leaves under `environment`; `None` if any leaf has none.
    #[must_use]
    pub fn open(environment: &Environment) -> Option<Self> {
        let leaves: Vec<&str> = environment.leaves().map(|device| device.name.as_str()).collect();
        if leaves.is_empty() { None } else { os::counters::Reader::open(&leaves).map(Self) }
    }

    /// The sums now.
    ///
    /// # Errors
    /// A counter that could be read before cannot be read any more: the device is gone.
    pub fn read(&self) -> Result<Counts> {
        self.0.read()
    }

    /// What the devices have had to do so far.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn activity(&self) -> Result<Activity> {
        self.0.activity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_the_documented_ones() {
        let line = "  25807     4692  1506370     4033     5076     3558   441560      955        0     2144     5094     3167       25   139816       99      238        5\n";
        assert_eq!(Counts::parse(line), Some(Counts { writes: 5076, sectors: 441_560, flushes: 238 }));
        assert_eq!(Activity::parse(line), Some(Activity { busy_ms: 2144 }));
    }

    #[test]
    fn a_kernel_without_flush_counts_has_no_counters() {
        assert_eq!(Counts::parse("1 2 3 4 5 6 7 8 9 10 11"), None);
        assert_eq!(Counts::parse("garbage"), None);
        assert_eq!((Activity::parse("1 2 3 4 5 6 7 8 9"), Activity::parse("garbage")), (None, None));
    }
}
