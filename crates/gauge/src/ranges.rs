//! Gives the expected range of commit latency for a device, from published measurements.
//!
//! The ranges are collected from published measurements of 4–16 KiB commits, whose quality varies.
//!
//! Invariants: a result outside its range is flagged and never fails; the device behind a virtual disk is unknown and
//! reported so; a latency below [`MEMORY_NS`] is never that of a device.

use crate::figures::round_duration;
use crate::lookup;
use crate::rank::Ranking;
use crate::result::RunResult;
use seawall_sys::durability::{DeviceCache, Medium};
use seawall_sys::method::System;

/// A durable commit faster than this never left memory, nanoseconds.
pub const MEMORY_NS: u64 = 5_000;

/// One kind of device and what a durable commit costs on it.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// The kind, in words.
    pub name: &'static str,
    /// From, nanoseconds.
    pub low_ns: u64,
    /// To, nanoseconds.
    pub high_ns: u64,
    /// What a result below it means.
    pub below: &'static str,
    applies: fn(Site) -> bool,
}

/// What decides which ranges apply.
#[derive(Debug, Clone, Copy)]
struct Site {
    mac: bool,
    virtual_machine: bool,
    transport: Transport,
    rotational: bool,
    cache: DeviceCache,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Nvme,
    Sata,
    Other,
}

const TOO_GOOD: &str = "it keeps its cache through a power cut without saying so, or its flush does nothing";
const A_LIE: &str =
    "no disk turns that fast: a controller's cache answers for it, and that cache must outlive a power cut";

/// The table.
#[rustfmt::skip]
pub const RANGES: [Range; 9] = [
    Range { name: "macOS, F_FULLFSYNC",                       low_ns: 4_000_000, high_ns: 30_000_000, below: TOO_GOOD, applies: |s| s.mac },
    Range { name: "local SSD of a cloud machine",             low_ns: 200_000,   high_ns: 500_000,    below: TOO_GOOD, applies: |s| s.virtual_machine && !s.mac },
    Range { name: "network volume of a cloud",                low_ns: 500_000,   high_ns: 5_000_000,  below: TOO_GOOD, applies: |s| s.virtual_machine && !s.mac },
    Range { name: "NVMe with power-loss protection",          low_ns: 12_000,    high_ns: 60_000,     below: TOO_GOOD, applies: |s| bare(s, Transport::Nvme) && s.cache != DeviceCache::WriteBack },
    Range { name: "consumer NVMe",                            low_ns: 450_000,   high_ns: 6_000_000,  below: TOO_GOOD, applies: |s| bare(s, Transport::Nvme) && s.cache != DeviceCache::WriteThrough },
    Range { name: "SATA SSD with power-loss protection",      low_ns: 40_000,    high_ns: 500_000,    below: TOO_GOOD, applies: |s| bare(s, Transport::Sata) },
    Range { name: "consumer SATA SSD",                        low_ns: 1_500_000, high_ns: 12_000_000, below: TOO_GOOD, applies: |s| bare(s, Transport::Sata) && s.cache != DeviceCache::WriteThrough },
    Range { name: "turning disk (7,200 rpm: 8.3 ms a turn)",  low_ns: 2_000_000, high_ns: 17_000_000, below: A_LIE,    applies: |s| s.rotational && !s.mac && !s.virtual_machine },
    Range { name: "turning disk behind a protected cache",    low_ns: 40_000,    high_ns: 2_000_000,  below: TOO_GOOD, applies: |s| s.rotational && !s.mac && !s.virtual_machine && s.cache == DeviceCache::WriteThrough },
];

fn bare(site: Site, transport: Transport) -> bool {
    !site.virtual_machine && !site.mac && !site.rotational && site.transport == transport
}

/// Where the best durable method lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// In one of the ranges, or between them.
    Within,
    /// Faster than all of them.
    Below,
    /// Slower than all of them.
    Above,
    /// Too fast for any device.
    Memory,
    /// There is no range for such a device, or no durable method.
    None,
}

/// What was to be expected, and how it came.
#[derive(Debug, Clone)]
pub struct Expectation {
    /// The ranges for such a device.
    pub ranges: Vec<&'static Range>,
    /// Why they are vague, if they are.
    pub caveat: Option<&'static str>,
    /// Where the best durable method lies.
    pub verdict: Verdict,
}

impl Expectation {
    /// The ranges in words: `consumer NVMe 450 µs to 6 ms`.
    #[must_use]
    pub fn words(&self) -> String {
        let each = |range: &&Range| {
            format!("{} {} to {}", range.name, round_duration(range.low_ns), round_duration(range.high_ns))
        };
        self.ranges.iter().map(each).collect::<Vec<_>>().join("; ")
    }
}

/// What to expect of the device under `ranking`'s result.
#[must_use]
pub fn expected(ranking: &Ranking<'_>) -> Expectation {
    let result = ranking.result;
    let site = site(result);
    let ranges: Vec<&'static Range> =
        site.map(|site| RANGES.iter().filter(|range| (range.applies)(site)).collect()).unwrap_or_default();
    let caveat = site
        .filter(|site| site.virtual_machine)
        .map(|_| "the model behind a virtual disk is unknown, so these are ranges of cloud volumes");
    let verdict = ranking.best_durable().map_or(Verdict::None, |best| held(best.p50_ns(), &ranges));
    Expectation { ranges, caveat, verdict }
}

fn held(p50_ns: u64, ranges: &[&Range]) -> Verdict {
    if p50_ns < MEMORY_NS {
        return Verdict::Memory;
    }
    let low_ns = ranges.iter().map(|range| range.low_ns).min();
    let high_ns = ranges.iter().map(|range| range.high_ns).max();
    match low_ns.zip(high_ns) {
        None => Verdict::None,
        Some((low_ns, _)) if p50_ns < low_ns => Verdict::Below,
        Some((_, high_ns)) if p50_ns > high_ns => Verdict::Above,
        Some(_) => Verdict::Within,
    }
}

/// The kind of device, if the result stands on block devices at all.
fn site(result: &RunResult) -> Option<Site> {
    let environment = &result.environment;
    if matches!(environment.file_system.medium, Medium::Memory | Medium::Server) || environment.wine.is_some()
    {
        return None;
    }
    let leaves: Vec<_> = environment.leaves().collect();
    let all = |name: &str| !leaves.is_empty() && leaves.iter().all(|l| l.transport.as_deref() == Some(name));
    let transport = if all("nvme") {
        Transport::Nvme
    } else if all("sata") || all("ata") || all("scsi") || all("sas") {
        Transport::Sata
    } else {
        Transport::Other
    };
    Some(Site {
        mac: lookup::system(result) == System::MacOs,
        virtual_machine: environment.hypervisor.is_some() || all("virtio"),
        transport,
        rotational: leaves.iter().any(|leaf| leaf.rotational == Some(true)),
        cache: environment.device_cache(),
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::sample::{healthy, measured};
    use seawall_sys::inspect::Environment;

    fn names(change: fn(&mut Environment)) -> Vec<&'static str> {
        let mut result = healthy();
        change(&mut result.environment);
        expected(&Ranking::new(&result)).ranges.iter().map(|range| range.name).collect()
    }

    #[test]
    fn each_device_is_held_against_its_own_kind() {
        assert_eq!(names(|_| {}), ["NVMe with power-loss protection"]);
        assert_eq!(names(|e| e.devices[0].write_cache = DeviceCache::WriteBack), ["consumer NVMe"]);
        assert_eq!(names(|e| e.hypervisor = Some("KVM".to_owned())).len(), 2);
        assert_eq!(names(|e| e.devices[0].transport = Some("virtio".to_owned())).len(), 2);
        assert_eq!(names(|e| e.devices[0].transport = Some("usb".to_owned())), [""; 0]);
        assert_eq!(names(|e| e.file_system.medium = Medium::Memory), [""; 0]);
        assert_eq!(names(|e| e.system = "macOS 15".to_owned()), ["macOS, F_FULLFSYNC"]);
        let disk = names(|e| {
            e.devices[0].rotational = Some(true);
            e.devices[0].write_cache = DeviceCache::WriteBack;
        });
        assert!(disk.len() == 1 && disk[0].starts_with("turning disk"));
    }

    #[test]
    fn a_result_is_within_below_above_or_memory() {
        let with = |id: &str, p50_ns| {
            let mut result = healthy();
            let latency = &mut measured(&mut result, id).latency;
            *latency = crate::latency::Latency::new();
            (0..100).for_each(|_| latency.record(p50_ns));
            expected(&Ranking::new(&result)).verdict
        };
        assert_eq!(with("direct", 24_000), Verdict::Within);
        assert_eq!(with("direct", 8_000), Verdict::Below);
        assert_eq!(with("direct", 4_000), Verdict::Memory);
    }

    #[test]
    fn every_range_is_one() {
        assert!(RANGES.iter().all(|range| range.low_ns < range.high_ns && range.low_ns > MEMORY_NS));
    }
}
