//! Models a disk with a volatile cache: which writes survive when the power goes.
//!
//! `durable` is what the medium holds, `current` what a read shows, `pending` the writes in between, in the order in
//! which they were acknowledged:
//!
//! ```text
//!             honest disk                                  lying disks
//!   write     into the cache                               into the cache
//!   flush     everything in the cache reaches the medium   `lying` and `ignores-flush`: acknowledged, and nothing else
//!   FUA       this write reaches the medium                `lying` and `ignores-fua`: as any write
//!                                                          `early-fua`: acknowledged, done 32 requests later
//!   trim      an unmapped range may show old or zeros      the same
//!   cut       any subset of what is in the cache, each     what was written until some moment, in order
//!             write whole or torn between sectors
//! ```
//!
//! Lying disks write their caches back in order, so that a cut leaves an older state of the file system and not a
//! corrupt one: the judge must detect the loss, not mount(8). A full cache writes its oldest back.
//!
//! Invariant: an honest disk never loses writes before an acknowledged flush, nor an acknowledged FUA write, and no
//! earlier write ever replaces either.

use std::collections::VecDeque;

use seawall::sim::rng::Rng;

use crate::blocks::record::Record;

/// Bytes of a sector.
pub(crate) const SECTOR_BYTES: usize = 512;
/// Bytes that the cache holds before it writes back the oldest.
const CACHE_BYTES: usize = 32 << 20;
/// Requests that pass between the acknowledgement of a write with FUA and its end on a disk that is early.
const EARLY_REQUESTS: u64 = 32;

/// Whether a disk keeps its promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Nature {
    /// A flush is done when it is acknowledged.
    Honest,
    /// Neither a flush nor FUA is done.
    Lying,
    /// A flush is acknowledged and not done; FUA is.
    IgnoresFlush,
    /// A write with FUA is acknowledged when it is in the cache; a flush is done.
    IgnoresFua,
    /// A write with FUA is acknowledged first and done a little later.
    EarlyFua,
}

impl Nature {
    fn flushes(self) -> bool {
        !matches!(self, Self::Lying | Self::IgnoresFlush)
    }

    /// Requests after which a write with FUA is done, if it is ever done for itself.
    fn forces_after(self) -> Option<u64> {
        match self {
            Self::Honest | Self::IgnoresFlush => Some(0),
            Self::EarlyFua => Some(EARLY_REQUESTS),
            Self::Lying | Self::IgnoresFua => None,
        }
    }
}

struct CachedWrite {
    offset: usize,
    bytes: Vec<u8>,
    /// The request before which it is done, if it had FUA.
    due: Option<u64>,
}

/// What was asked of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Traffic {
    pub(crate) writes: u64,
    /// Of these, with FUA.
    pub(crate) forced: u64,
    pub(crate) flushes: u64,
    pub(crate) trims: u64,
}

/// What a cut did to the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Writes that were in the cache.
    pub(crate) pending: usize,
    /// Of these, gone.
    pub(crate) dropped: usize,
    /// Of these, there in part.
    pub(crate) torn: usize,
}

/// A disk in memory.
pub(crate) struct Disk {
    nature: Nature,
    durable: Vec<u8>,
    pub(crate) current: Vec<u8>,
    pending: VecDeque<CachedWrite>,
    pending_bytes: usize,
    /// Writes and flushes so far.
    requests: u64,
    /// What was asked of it since it was made.
    pub(crate) traffic: Traffic,
    /// Each request of it, while that is recorded.
    pub(crate) record: Record,
    /// Whether it says that it writes 16 KiB as one.
    pub(crate) atomic: bool,
}

impl Disk {
    /// A disk that holds `image`, a whole number of sectors.
    pub(crate) fn new(nature: Nature, image: Vec<u8>) -> Self {
        let current = image.clone();
        Self {
            nature,
            durable: image,
            current,
            pending: VecDeque::new(),
            pending_bytes: 0,
            requests: 0,
            traffic: Traffic::default(),
            record: Record::default(),
            atomic: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.current.len()
    }

    /// What a read shows; nothing if the range is not on the disk.
    pub(crate) fn read(&self, offset: usize, length: usize) -> Option<&[u8]> {
        self.current.get(offset..offset.checked_add(length)?)
    }

    /// Writes; says whether the range is on the disk.
    pub(crate) fn write(&mut self, offset: usize, bytes: Vec<u8>, forced: bool) -> bool {
        let Some(end) = offset.checked_add(bytes.len()).filter(|end| *end <= self.len()) else {
            return false;
        };
        self.traffic.writes += 1;
        self.traffic.forced += u64::from(forced);
        self.current[offset..end].copy_from_slice(&bytes);
        self.force_what_is_due();
        let due = self.nature.forces_after().filter(|_| forced);
        if due == Some(0) {
            self.force(offset, &bytes);
            return true;
        }
        self.pending_bytes += bytes.len();
        self.pending.push_back(CachedWrite { offset, bytes, due: due.map(|after| self.requests + after) });
        while self.pending_bytes > CACHE_BYTES {
            self.write_back_oldest();
        }
        true
    }

    /// A request has come: those that were acknowledged early and are due now are done.
    fn force_what_is_due(&mut self) {
        self.requests += 1;
        while self.pending.iter().any(|write| write.due.is_some_and(|due| due <= self.requests)) {
            let at = self.pending.iter().position(|write| write.due.is_some()).unwrap_or_default();
            let Some(write) = self.pending.remove(at) else { return };
            self.pending_bytes -= write.bytes.len();
            // Later writes lie above it.
            self.durable[write.offset..write.offset + write.bytes.len()].copy_from_slice(&write.bytes);
            self.cover(write.offset, write.offset + write.bytes.len(), at);
        }
    }

    fn force(&mut self, offset: usize, bytes: &[u8]) {
        self.durable[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.cover(offset, offset + bytes.len(), self.pending.len());
    }

    /// What lies below a forced write can never come out on top of it: the oldest `below` of the cache.
    fn cover(&mut self, from: usize, to: usize, below: usize) {
        for write in self.pending.iter_mut().take(below) {
            let (start, end) = (write.offset.max(from), (write.offset + write.bytes.len()).min(to));
            if start < end {
                write.bytes[start - write.offset..end - write.offset]
                    .copy_from_slice(&self.durable[start..end]);
            }
        }
    }

    fn write_back_oldest(&mut self) {
        if let Some(oldest) = self.pending.pop_front() {
            self.pending_bytes -= oldest.bytes.len();
            self.durable[oldest.offset..oldest.offset + oldest.bytes.len()].copy_from_slice(&oldest.bytes);
        }
    }

    /// Makes everything durable, or says so.
    pub(crate) fn flush(&mut self) {
        self.traffic.flushes += 1;
        self.force_what_is_due();
        if self.nature.flushes() {
            while !self.pending.is_empty() {
                self.write_back_oldest();
            }
        }
    }

    /// Forgets a range; says whether it is on the disk. It shows zeros until a cut, which may bring the old back.
    pub(crate) fn trim(&mut self, offset: usize, length: usize) -> bool {
        let on_disk = offset.checked_add(length).is_some_and(|end| end <= self.len());
        if on_disk {
            // Counted as a trim alone.
            let writes = self.traffic.writes;
            self.write(offset, vec![0; length], false);
            self.traffic.writes = writes;
            self.traffic.trims += 1;
        }
        on_disk
    }

    /// The power goes: what is left is all there is.
    pub(crate) fn cut(&mut self, rng: &mut Rng) -> Cut {
        let pending = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        let mut cut = Cut { pending: pending.len(), ..Cut::default() };
        let until = rng.index(pending.len() + 1);
        // Some cuts take nearly everything, some nearly nothing.
        let (kept_in_8, torn_in_8) = (rng.below(9), rng.below(3));
        for (i, write) in pending.into_iter().enumerate() {
            let kept = match self.nature {
                Nature::Honest => rng.below(8) < kept_in_8,
                _ => i < until,
            };
            let torn = kept && self.nature == Nature::Honest && rng.below(8) < torn_in_8;
            cut.dropped += usize::from(!kept);
            cut.torn += usize::from(torn);
            let sectors = if rng.coin() { 1 } else { 8 };
            let unit = if torn { sectors * SECTOR_BYTES } else { write.bytes.len().max(1) };
            for (at, part) in (write.offset..).step_by(unit).zip(write.bytes.chunks(unit)) {
                if kept && (!torn || rng.coin()) {
                    self.durable[at..at + part.len()].copy_from_slice(part);
                }
            }
        }
        self.current.clone_from(&self.durable);
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::{CACHE_BYTES, Disk, Nature, SECTOR_BYTES};
    use seawall::sim::rng::Rng;

    const SECTORS: usize = 32;

    fn disk(nature: Nature) -> Disk {
        Disk::new(nature, vec![0; SECTORS * SECTOR_BYTES])
    }

    fn sector(disk: &Disk, number: usize) -> u8 {
        let bytes = disk.read(number * SECTOR_BYTES, SECTOR_BYTES).expect("is on the disk");
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a sector is never torn");
        bytes[0]
    }

    #[test]
    fn an_honest_disk_keeps_what_was_flushed_or_forced_whatever_the_cut() {
        let (mut lost, mut kept, mut torn) = (0, 0, 0);
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let mut disk = disk(Nature::Honest);
            // For every sector: values from the last one known durable on.
            let mut allowed: Vec<Vec<u8>> = vec![vec![0]; SECTORS];
            for value in 1..60_u8 {
                let (from, count) = (rng.index(SECTORS - 8), 1 + rng.index(8));
                let forced = rng.one_in(6);
                let bytes = vec![value; count * SECTOR_BYTES];
                assert!(disk.write(from * SECTOR_BYTES, bytes, forced));
                for allowed in &mut allowed[from..from + count] {
                    if forced {
                        allowed.clear();
                    }
                    allowed.push(value);
                }
                if rng.one_in(10) {
                    disk.flush();
                    for allowed in &mut allowed {
                        *allowed = allowed.split_off(allowed.len() - 1);
                    }
                }
            }
            for (number, allowed) in allowed.iter().enumerate() {
                assert_eq!(Some(&sector(&disk, number)), allowed.last(), "reads show the latest");
            }
            torn += disk.cut(&mut rng).torn;
            for (number, allowed) in allowed.iter().enumerate() {
                let left = sector(&disk, number);
                assert!(allowed.contains(&left), "seed {seed}, sector {number}: {left} of {allowed:?}");
                lost += usize::from(Some(&left) != allowed.last());
                kept += usize::from(allowed.len() > 1 && Some(&left) == allowed.last());
            }
        }
        assert!(lost > 500 && kept > 500 && torn > 500, "cuts differ: {lost}, {kept}, {torn}");
    }

    #[test]
    fn a_lying_disk_loses_flushed_writes_and_leaves_an_older_state() {
        let mut lied = 0;
        for seed in 0..200 {
            let mut disk = disk(Nature::Lying);
            for value in 1..=20_u8 {
                let at = usize::from(value) * SECTOR_BYTES;
                assert!(disk.write(at, vec![value; SECTOR_BYTES], value % 2 == 0));
                disk.flush();
            }
            disk.cut(&mut Rng::new(seed));
            let left: Vec<u8> = (1..=20).map(|number| sector(&disk, number)).collect();
            let until = left.iter().take_while(|value| **value != 0).count();
            assert!(left[until..].iter().all(|value| *value == 0), "in order: {left:?}");
            lied += usize::from(until < 20);
        }
        assert!(lied > 150, "{lied} of 200 cuts lost something that was flushed");
    }

    /// Whether cuts lose a flushed write, and whether a forced one, acknowledged just before.
    fn loses(nature: Nature) -> (bool, bool) {
        let lost = |forced: bool, requests_after: u64| {
            (0..200).any(|seed| {
                let mut disk = disk(nature);
                assert!(disk.write(0, vec![1; SECTOR_BYTES], forced));
                if !forced {
                    disk.flush();
                }
                for _ in 0..requests_after {
                    assert!(disk.write(SECTOR_BYTES, vec![2; SECTOR_BYTES], false));
                }
                disk.cut(&mut Rng::new(seed));
                sector(&disk, 0) == 0
            })
        };
        assert_eq!(
            lost(true, super::EARLY_REQUESTS),
            lost(true, 0) && nature != Nature::EarlyFua,
            "{nature:?}"
        );
        (lost(false, 0), lost(true, 0))
    }

    #[test]
    fn each_disk_tells_its_own_lie() {
        let natures = [
            (Nature::Honest, (false, false)),
            (Nature::Lying, (true, true)),
            (Nature::IgnoresFlush, (true, false)),
            (Nature::IgnoresFua, (false, true)),
            (Nature::EarlyFua, (false, true)),
        ];
        for (nature, expected) in natures {
            assert_eq!(loses(nature), expected, "{nature:?}");
        }
    }

    #[test]
    fn what_is_done_late_never_replaces_what_was_written_after_it() {
        let mut disk = disk(Nature::EarlyFua);
        assert!(disk.write(0, vec![1; SECTOR_BYTES], true) && disk.write(0, vec![2; SECTOR_BYTES], false));
        for _ in 0..super::EARLY_REQUESTS {
            assert!(disk.write(SECTOR_BYTES, vec![3; SECTOR_BYTES], false));
        }
        disk.flush();
        disk.cut(&mut Rng::new(1));
        assert_eq!(sector(&disk, 0), 2);
    }

    #[test]
    fn ranges_outside_are_refused_trims_read_zeros_and_the_cache_is_bounded() {
        let mut small = disk(Nature::Honest);
        let end = small.len();
        assert!(!small.write(end - 1, vec![1; 2], false) && !small.trim(end, 1));
        assert!(small.read(usize::MAX, 2).is_none() && small.read(end, 1).is_none());
        assert!(small.write(0, vec![7; 1024], false) && small.trim(512, 512));
        assert_eq!((sector(&small, 0), sector(&small, 1)), (7, 0));
        assert_eq!((small.traffic.writes, small.traffic.trims), (1, 1));
        let mut disk = Disk::new(Nature::Lying, vec![0; 1 << 20]);
        for value in 0..=(CACHE_BYTES >> 20) {
            let value = u8::try_from(value).expect("is small") + 1;
            assert!(disk.write(0, vec![value; 1 << 20], false));
        }
        assert_eq!(disk.pending_bytes, CACHE_BYTES);
        assert_eq!(disk.durable[0], 1, "the oldest was written back");
    }
}
