//! Reads the kernel's block-device counters: summed over the leaf devices, and around single commits at each level of the stack.
//!
//! `/sys/block/<dev>/stat` (kernel `Documentation/block/stat.rst`), counted from 1: field 5 writes completed,
//! field 7 sectors (512 B) written, field 16 flush requests completed (Linux 5.5). Discards are counted apart
//! and left out.
//!
//! [`CommitWatch`] reads them before and after a commit. A commit that is to outlive a power cut needs a flush that begins after
//! it and ends before it is acknowledged, at every level that has a volatile cache; its bytes must pass every level. Both are
//! counted before the commit returns, so that a level which counted none in that time has dropped it, and whatever else writes to
//! the device can only add. A neighbour would have to flush in the very time of every commit to hide one that did not.
//!
//! Invariants: the counters are those of whole devices, so other programs' I/O is in them, and a reader takes an idle
//! baseline first; where the system has no counters there is no [`Reader`], never zeros.

use crate::durability::{DeviceCache, Medium};
use crate::error::Result;
use crate::inspect::{Device, Environment};
use crate::method::Method;
use crate::os;
use crate::planted;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// Sums over the leaf devices at one moment, or the difference of two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
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

/// What the counters of a device show. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum Counting {
    /// Nothing: there are none, they are turned off, they have never counted a write, or data may pass beside them (DAX).
    Nothing,
    /// Writes. Only devices with a queue of requests count flushes: `dm`, `md`, `pmem` and `NVMe` heads of several paths do not,
    /// a partition's are counted at its disk, those of a path under `dm-multipath` above it.
    Writes,
    /// Writes and flushes.
    Flushes,
}

/// Milliseconds in which a request was in flight (field 10 of a `stat` file); `None` if it is no such line.
#[must_use]
pub fn busy_ms(stat: &str) -> Option<u64> {
    stat.split_ascii_whitespace().nth(9)?.parse().ok()
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

    /// Milliseconds so far in which a device had a request in flight, added up over the devices.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn busy_ms(&self) -> Result<u64> {
        self.0.busy_ms()
    }
}

/// What was counted while commits were made one by one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Watched {
    /// Commits that were watched.
    pub commits: u64,
    /// The levels of the stack that count something, from the top.
    pub levels: Vec<WatchedLevel>,
}

/// What the devices of one level counted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct WatchedLevel {
    /// Their names: `loop0`, `sda + sdb`.
    pub devices: String,
    /// Whether they have a volatile cache, or may have one.
    pub has_cache: bool,
    /// Whether they have one, and count every flush of it.
    pub counts_flushes: bool,
    /// Whether nothing more is below them.
    pub is_leaf: bool,
    /// Commits during which they completed no write.
    pub unwritten: u64,
    /// Commits during which they completed no flush, nor a write that may have been forced.
    pub unflushed: u64,
    /// Flushes during all commits, those of other programs included.
    pub flushes: u64,
}

/// What the counters say of commits that were watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Each of them did at every level what it must.
    Confirmed,
    /// There is not enough to judge by; the words say why.
    NotCounted(String),
    /// Some were acknowledged without; the words say where and how many.
    Missing(String),
}

impl Watched {
    /// Flushes a commit beyond which a neighbour may have flushed in the time of each. Alone, ext4 with its data in the journal
    /// makes three.
    const FLUSHES_MAX: u64 = 4;

    /// Whether each commit did at every level what it must: a write and, if it is to flush (`durably`), a flush.
    #[must_use]
    pub fn verdict(&self, durably: bool) -> Verdict {
        let commits = self.commits;
        let short = |count: u64, what: &str, level: &WatchedLevel| {
            Verdict::Missing(format!(
                "{} counted no {what} during {count} of {commits} commits",
                level.devices
            ))
        };
        for level in planted!(WatchesLowestAlone(&self.levels), &self.levels[..]) {
            if planted!(WatchesNoWrites, level.unwritten > 0) {
                return short(level.unwritten, "write", level);
            }
            let missed = planted!(HalfTheFlushesDo(level.unflushed, commits), level.unflushed);
            if durably && level.counts_flushes && missed > 0 {
                return short(level.unflushed, "flush", level);
            }
        }
        let Some(lowest) = self.levels.last().filter(|_| commits > 0) else {
            return Verdict::NotCounted("no device with counters can be seen".to_owned());
        };
        if planted!(UnseenBelowConfirmed, !lowest.is_leaf) {
            return Verdict::NotCounted(format!("what is under {} has no counters", lowest.devices));
        }
        if planted!(UncountedConfirmed, durably && lowest.has_cache && !lowest.counts_flushes) {
            return Verdict::NotCounted(format!("{} does not count flushes", lowest.devices));
        }
        if planted!(NeighbourConfirms, lowest.flushes > commits.saturating_mul(Self::FLUSHES_MAX)) {
            return Verdict::NotCounted(format!("other programs flush {} all the time", lowest.devices));
        }
        Verdict::Confirmed
    }
}

/// Reads the counters of every level around single commits.
pub struct CommitWatch {
    levels: Vec<(os::counters::Reader, Counts, bool)>,
    watched: Watched,
}

impl CommitWatch {
    /// A watch over commits by `method`; `None` where nothing counts.
    #[must_use]
    pub fn open(environment: &Environment, method: &Method) -> Option<Self> {
        let forces = environment.file_system.may_force(method);
        let mut watch = Self { levels: Vec::new(), watched: Watched::default() };
        for devices in levels(environment) {
            let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
            let counts = |device: &&Device| device.counting >= Some(Counting::Writes);
            let Some(reader) = os::counters::Reader::open(&names).filter(|_| devices.iter().all(counts))
            else {
                continue;
            };
            let mut caches = devices.iter().filter(|device| device.write_cache != DeviceCache::WriteThrough);
            let has_cache = caches.clone().next().is_some();
            let counts_flushes = has_cache
                && caches.all(|device| {
                    device.write_cache == DeviceCache::WriteBack && device.counting == Some(Counting::Flushes)
                });
            watch.watched.levels.push(WatchedLevel {
                devices: names.join(" + "),
                has_cache,
                counts_flushes,
                is_leaf: environment.file_system.medium == Medium::Block
                    && devices.iter().all(|device| device.stands_on.is_empty()),
                unwritten: 0,
                unflushed: 0,
                flushes: 0,
            });
            let may_force = forces && devices.iter().all(|device| device.fua == Some(true));
            watch.levels.push((reader, Counts::default(), may_force));
        }
        (!watch.levels.is_empty()).then_some(watch)
    }

    /// A commit begins.
    ///
    /// # Errors
    /// A device is gone.
    pub fn begin(&mut self) -> Result<()> {
        for (reader, before, _) in &mut self.levels {
            *before = reader.read()?;
        }
        Ok(())
    }

    /// It was acknowledged.
    ///
    /// # Errors
    /// As [`CommitWatch::begin`].
    pub fn end(&mut self) -> Result<()> {
        for ((reader, before, forced), level) in self.levels.iter().zip(&mut self.watched.levels) {
            let counted = reader.read()?.since(before);
            // Requests are counted after the acknowledgement, their sectors in front of it.
            let written = counted.sectors > 0;
            let flushed = counted.flushes > 0 || (*forced && written);
            level.unwritten += u64::from(!written);
            level.unflushed += u64::from(!flushed);
            level.flushes += counted.flushes;
        }
        self.watched.commits += 1;
        Ok(())
    }

    /// What was counted so far.
    #[must_use]
    pub fn watched(&self) -> &Watched {
        &self.watched
    }
}

/// The devices from the top to the leaves: each level is what the one above stands on, leaves staying where they are.
fn levels(environment: &Environment) -> Vec<Vec<&Device>> {
    let find = |name: &String| environment.devices.iter().find(|device| device.name == *name);
    let is_below = |name: &String| environment.devices.iter().any(|device| device.stands_on.contains(name));
    let mut level: Vec<&Device> =
        environment.devices.iter().filter(|device| !is_below(&device.name)).collect();
    let mut levels = Vec::new();
    // A stack is never deeper than it has devices, whatever a file says.
    for _ in 0..environment.devices.len() {
        let mut next: Vec<&Device> = Vec::new();
        for device in &level {
            let below = device.stands_on.iter().filter_map(find);
            let own = Some(*device).filter(|device| device.stands_on.is_empty());
            for device in below.chain(own) {
                if !next.iter().any(|known| known.name == device.name) {
                    next.push(device);
                }
            }
        }
        let is_last = next.iter().all(|device| level.iter().any(|known| known.name == device.name));
        levels.push(level);
        if is_last {
            break;
        }
        level = next;
    }
    levels
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn each_level_is_what_the_one_above_stands_on() {
        let device = |name: &str, stands_on: &[&str]| Device {
            stands_on: stands_on.iter().map(ToString::to_string).collect(),
            ..Device::unknown(name, "disk")
        };
        let mut found = crate::inspect::environment(std::path::Path::new(".")).expect("a folder");
        let names = |found: &Environment| -> Vec<String> {
            levels(found)
                .iter()
                .map(|level| level.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join("+"))
                .collect()
        };
        for (devices, expected) in [
            (vec![], vec![]),
            (vec![device("vda", &[])], vec!["vda"]),
            (
                vec![device("loop0", &["vda1"]), device("vda1", &["vda"]), device("vda", &[])],
                vec!["loop0", "vda1", "vda"],
            ),
            (
                vec![
                    device("md0", &["sda1", "sdb"]),
                    device("sda1", &["sda"]),
                    device("sda", &[]),
                    device("sdb", &[]),
                ],
                vec!["md0", "sda1+sdb", "sda+sdb"],
            ),
            (vec![device("a", &["b"]), device("b", &["a"])], vec!["", ""]),
        ] {
            found.devices = devices;
            let expected: Vec<&str> = expected.into_iter().filter(|level| !level.is_empty()).collect();
            let mut all = names(&found);
            all.retain(|level| !level.is_empty());
            assert_eq!(all, expected);
        }
    }

    /// What a commit did at a level: whether it wrote, and whether it flushed.
    pub(crate) fn watched(levels: &[(bool, bool, [u64; 3])]) -> Watched {
        let level = |(counts_flushes, is_leaf, [unwritten, unflushed, flushes]): &(bool, bool, [u64; 3])| {
            WatchedLevel {
                devices: if *is_leaf { "vda" } else { "loop0" }.to_owned(),
                has_cache: true,
                counts_flushes: *counts_flushes,
                is_leaf: *is_leaf,
                unwritten: *unwritten,
                unflushed: *unflushed,
                flushes: *flushes,
            }
        };
        Watched { commits: 64, levels: levels.iter().map(level).collect() }
    }

    #[test]
    fn one_commit_without_a_flush_at_any_level_convicts_and_a_neighbour_acquits_none() {
        let confirmed =
            |levels: &[(bool, bool, [u64; 3])]| watched(levels).verdict(true) == Verdict::Confirmed;
        let missing = |levels: &[(bool, bool, [u64; 3])], words: &str| match watched(levels).verdict(true) {
            Verdict::Missing(said) => said == words,
            _ => false,
        };
        let not_counted = |levels: &[(bool, bool, [u64; 3])]| {
            matches!(watched(levels).verdict(true), Verdict::NotCounted(_))
        };
        assert!(confirmed(&[(true, true, [0, 0, 64])]));
        assert!(confirmed(&[(true, false, [0, 0, 64]), (true, true, [0, 0, 150])]));
        assert!(missing(&[(true, true, [0, 64, 0])], "vda counted no flush during 64 of 64 commits"));
        assert!(missing(&[(true, true, [0, 3, 61])], "vda counted no flush during 3 of 64 commits"));
        // A neighbour below: the top stands still, or the neighbour misses a few.
        let top = [(true, false, [0, 64, 0]), (true, true, [0, 0, 9_000])];
        assert!(missing(&top, "loop0 counted no flush during 64 of 64 commits"));
        let below = [(true, false, [0, 0, 64]), (true, true, [0, 2, 900])];
        assert!(missing(&below, "vda counted no flush during 2 of 64 commits"));
        assert!(missing(
            &[(false, false, [0, 64, 0]), (true, true, [64, 64, 0])],
            "vda counted no write during 64 of 64 commits"
        ));
        // Nothing to judge by.
        assert!(not_counted(&[]));
        assert!(not_counted(&[(true, false, [0, 0, 64])]), "what is below is not known");
        assert!(not_counted(&[(true, false, [0, 0, 64]), (false, true, [0, 64, 0])]));
        assert!(not_counted(&[(true, true, [0, 0, 900])]), "a neighbour flushes all the time");
        assert!(matches!(Watched::default().verdict(true), Verdict::NotCounted(_)));
        let mut without_cache = watched(&[(true, false, [0, 0, 64]), (false, true, [0, 64, 0])]);
        without_cache.levels[1].has_cache = false;
        assert_eq!(without_cache.verdict(true), Verdict::Confirmed);
        // What claims less than power loss needs no flush, but its bytes must pass.
        assert_eq!(watched(&[(true, true, [0, 64, 0])]).verdict(false), Verdict::Confirmed);
        assert!(matches!(watched(&[(true, true, [1, 64, 0])]).verdict(false), Verdict::Missing(_)));
    }

    #[test]
    fn the_fields_are_the_documented_ones() {
        let line = "  25807     4692  1506370     4033     5076     3558   441560      955        0     2144     5094     3167       25   139816       99      238        5\n";
        assert_eq!(Counts::parse(line), Some(Counts { writes: 5076, sectors: 441_560, flushes: 238 }));
        assert_eq!(busy_ms(line), Some(2144));
    }

    #[test]
    fn a_kernel_without_flush_counts_has_no_counters() {
        assert_eq!(Counts::parse("1 2 3 4 5 6 7 8 9 10 11"), None);
        assert_eq!(Counts::parse("garbage"), None);
        assert_eq!((busy_ms("1 2 3 4 5 6 7 8 9"), busy_ms("garbage")), (None, None));
    }
}
