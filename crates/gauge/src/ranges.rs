//! Gives the expected range of commit latency for a device, from published measurements.
//!
//! The ranges are collected from published measurements of 4–16 KiB commits, whose quality varies.
//!
//! A run of several writes a commit is held against none of them, but for memory.
//!
//! Invariants: a result outside its range is flagged and never fails; the device behind a virtual disk is unknown and
//! reported so; a latency below [`MEMORY_NS`] is never that of a device.

use crate::figures::round_duration;
use crate::findings::CPU_WAIT_SHARE_MAX;
use crate::lookup;
use crate::rank::{Ranked, Ranking};
use crate::result::RunResult;
use seawall_sys::durability::{DeviceCache, Medium};
use seawall_sys::method::System;

/// A durable commit faster than this never left memory, nanoseconds.
pub(crate) const MEMORY_NS: u64 = seawall_sys::inspect::MEMORY_NS;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub name: &'static str,
    pub low_ns: u64,
    pub high_ns: u64,
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
    volume: Volume,
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

/// A volume behind a network cannot answer sooner than the network does.
const NO_NETWORK: &str = "a volume behind a network cannot answer so soon: something nearer, without the volume's promise, acknowledged it";

/// Fewer commits than these are held against no range: one slow commit would be the median.
pub(crate) const COMMITS_MIN: u64 = 100;

/// The table. A virtual disk of an unknown kind has no range: behind it may be a protected `NVMe` disk of the host as well
/// as a network, and published medians lie from 30 µs to 10 ms.
#[rustfmt::skip]
pub(crate) const RANGES: [Range; 9] = [
    Range { name: "macOS, F_FULLFSYNC",                       low_ns: 4_000_000, high_ns: 30_000_000, below: TOO_GOOD,   applies: |s| s.mac },
    Range { name: "local SSD of a cloud machine",             low_ns: 20_000,    high_ns: 2_000_000,  below: TOO_GOOD,   applies: |s| s.volume == Volume::Local },
    Range { name: "network volume of a cloud",                low_ns: 100_000,   high_ns: 10_000_000, below: NO_NETWORK, applies: |s| s.volume == Volume::Network },
    Range { name: "NVMe with power-loss protection",          low_ns: 12_000,    high_ns: 60_000,     below: TOO_GOOD,   applies: |s| bare(s, Transport::Nvme) && s.cache != DeviceCache::WriteBack },
    Range { name: "consumer NVMe",                            low_ns: 450_000,   high_ns: 6_000_000,  below: TOO_GOOD,   applies: |s| bare(s, Transport::Nvme) && s.cache != DeviceCache::WriteThrough },
    Range { name: "SATA SSD with power-loss protection",      low_ns: 40_000,    high_ns: 500_000,    below: TOO_GOOD,   applies: |s| bare(s, Transport::Sata) },
    Range { name: "consumer SATA SSD",                        low_ns: 1_500_000, high_ns: 12_000_000, below: TOO_GOOD,   applies: |s| bare(s, Transport::Sata) && s.cache != DeviceCache::WriteThrough },
    Range { name: "turning disk (7,200 rpm: 8.3 ms a turn)",  low_ns: 2_000_000, high_ns: 17_000_000, below: A_LIE,      applies: |s| s.rotational && !s.mac && !s.virtual_machine },
    Range { name: "turning disk behind a protected cache",    low_ns: 40_000,    high_ns: 2_000_000,  below: TOO_GOOD,   applies: |s| s.rotational && !s.mac && !s.virtual_machine && s.cache == DeviceCache::WriteThrough },
];

/// What a cloud's disk says of itself in its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Volume {
    Local,
    Network,
    /// It says nothing that is known.
    Unknown,
}

/// Models of clouds' disks, as the drivers of their machines report them; the longer of two that begin alike first.
const CLOUD_DISKS: [CloudDisk; 10] = [
    disk("Amazon Elastic Block Store", EC2, Volume::Network, EBS, EBS_BURSTS),
    disk("Amazon EC2 NVMe Instance Storage", EC2, Volume::Local, "", ""),
    disk("Google PersistentDisk", GCE, Volume::Network, PD, ""),
    disk("PersistentDisk", GCE, Volume::Network, PD, ""),
    disk("Google EphemeralDisk", GCE, Volume::Local, LOCAL_SSD, ""),
    disk("EphemeralDisk", GCE, Volume::Local, LOCAL_SSD, ""),
    disk("nvme_card-pd", GCE, Volume::Network, PD, ""),
    disk("nvme_card", GCE, Volume::Local, LOCAL_SSD, ""),
    disk("Microsoft NVMe Direct Disk", AZURE, Volume::Local, "", ""),
    disk("MSFT NVMe Accelerator", AZURE, Volume::Network, AZURE_DISKS, AZURE_BURSTS),
];

/// When what is published was noted here: providers change their disks.
const AS_OF: &str = "as of November 2026";
const EC2: &str = "Amazon EC2";
const GCE: &str = "Google Compute Engine";
const AZURE: &str = "Microsoft Azure";
const EBS: &str = "io2 Block Express is made for a mean below 500 µs at 16 KiB; the model does not tell it from gp3: https://docs.aws.amazon.com/ebs/latest/userguide/ebs-optimization.html";
const EBS_BURSTS: &str = "a gp2 volume below 1 TiB lives on I/O credits, which last for 30 minutes at 3,000 a second: https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html";
const AZURE_DISKS: &str = "Premium SSD v2 and Ultra Disk are made for less than 1 ms: https://learn.microsoft.com/en-us/azure/virtual-machines/disks-types";
const AZURE_BURSTS: &str = "Premium SSDs of up to 512 GiB live on burst credits: https://learn.microsoft.com/en-us/azure/virtual-machines/disk-bursting";
const PD: &str = "a network volume, with more latency than a local disk: https://docs.cloud.google.com/compute/docs/disks/performance";
const LOCAL_SSD: &str = "about 1.3 ms a sync in a report: https://github.com/etcd-io/etcd/issues/13053";

/// A disk that a cloud's machine sees.
struct CloudDisk {
    model: &'static str,
    provider: &'static str,
    volume: Volume,
    /// What is published of its latency, and where; empty if nothing is known.
    published: &'static str,
    /// What is published of its burst credits, and where; empty if it has none, or nothing is known.
    bursts: &'static str,
}

const fn disk(
    model: &'static str,
    provider: &'static str,
    volume: Volume,
    published: &'static str,
    bursts: &'static str,
) -> CloudDisk {
    CloudDisk { model, provider, volume, published, bursts }
}

fn cloud_disk(model: &str) -> Option<&'static CloudDisk> {
    CLOUD_DISKS.iter().find(|disk| model.contains(disk.model))
}

fn volume(model: &str) -> Volume {
    cloud_disk(model).map_or(Volume::Unknown, |disk| disk.volume)
}

fn disk_of(result: &RunResult) -> Option<&'static CloudDisk> {
    result.environment.leaves().filter_map(|leaf| leaf.model.as_deref()).find_map(cloud_disk)
}

/// The cloud whose disk a result was measured on, if the disk's model names it.
pub(crate) fn provider(result: &RunResult) -> Option<&'static str> {
    disk_of(result).map(|disk| disk.provider)
}

pub(crate) fn burst_credits(result: &RunResult) -> Option<String> {
    let disk = disk_of(result).filter(|disk| !disk.bursts.is_empty())?;
    Some(format!("on {}, {AS_OF}, {}", disk.provider, disk.bursts))
}

fn of_provider(result: &RunResult) -> Option<String> {
    let disk = disk_of(result).filter(|disk| !disk.published.is_empty())?;
    Some(format!("of {}, {AS_OF}: {}", disk.provider, disk.published))
}

fn bare(site: Site, transport: Transport) -> bool {
    let known = site.virtual_machine || site.volume != Volume::Unknown;
    !known && !site.mac && !site.rotational && site.transport == transport
}

/// Where the best durable method lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// In one of the ranges, or between them.
    Within,
    Below,
    Above,
    /// Too fast for any device.
    Memory,
    /// There is no range for such a device, or no durable method.
    Unknown,
}

#[derive(Debug, Clone)]
pub(crate) struct Expectation {
    pub ranges: Vec<&'static Range>,
    /// Why they are vague, if they are.
    pub caveat: Option<&'static str>,
    /// What is published of this very disk, if it is one of a cloud.
    pub of_provider: Option<String>,
    pub position: Position,
    /// Whether this is a virtual disk that does not say what is behind it.
    pub is_unknown_disk: bool,
}

impl Expectation {
    /// What was to be expected and how it came, as a clause; `None` without a range for such a device.
    pub(crate) fn sentence(&self) -> Option<String> {
        let position = match self.position {
            Position::Within => "; this one is within",
            Position::Below => "; this one is FASTER",
            Position::Above => "; this one is SLOWER",
            Position::Memory => "; this one is MEMORY",
            Position::Unknown => "",
        };
        let caveat = self.caveat.or(self.of_provider.as_deref());
        let caveat = caveat.map_or(String::new(), |caveat| format!(" ({caveat})"));
        let words = self.words();
        (!self.ranges.is_empty())
            .then(|| format!("of such a device, as published for 4–16 KiB: {words}{caveat}{position}"))
    }

    /// The ranges in words: `consumer NVMe 450 µs to 6 ms`.
    pub(crate) fn words(&self) -> String {
        let each = |range: &&Range| {
            format!("{} {} to {}", range.name, round_duration(range.low_ns), round_duration(range.high_ns))
        };
        self.ranges.iter().map(each).collect::<Vec<_>>().join("; ")
    }
}

/// What to expect of the device under `ranking`'s result.
pub(crate) fn expected(ranking: &Ranking<'_>) -> Expectation {
    let result = ranking.result;
    let site = site(result);
    let ranges: Vec<&'static Range> =
        site.map(|site| RANGES.iter().filter(|range| (range.applies)(site)).collect()).unwrap_or_default();
    let is_unknown_disk =
        site.is_some_and(|site| site.virtual_machine && !site.mac && site.volume == Volume::Unknown);
    let caveat = is_unknown_disk.then_some("the model behind a virtual disk is unknown");
    let position = match ranking.best_durable() {
        Some(best) if best.p50_ns() < MEMORY_NS => Position::Memory,
        Some(best) if result.plan.writes == 1 && is_sound(best) => held(best.p50_ns(), &ranges),
        _ => Position::Unknown,
    };
    Expectation { ranges, caveat, of_provider: of_provider(result), position, is_unknown_disk }
}

/// Whether the median is the disk's: of enough commits, which did not wait for a CPU.
fn is_sound(row: &Ranked<'_>) -> bool {
    row.measured.commits >= COMMITS_MIN
        && row.measured.blamed_wait_share().is_none_or(|share| share <= CPU_WAIT_SHARE_MAX)
}

fn held(p50_ns: u64, ranges: &[&Range]) -> Position {
    let low_ns = ranges.iter().map(|range| range.low_ns).min();
    let high_ns = ranges.iter().map(|range| range.high_ns).max();
    match low_ns.zip(high_ns) {
        None => Position::Unknown,
        Some((low_ns, _)) if p50_ns < low_ns => Position::Below,
        Some((_, high_ns)) if p50_ns > high_ns => Position::Above,
        Some(_) => Position::Within,
    }
}

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
    let mut volumes = leaves.iter().map(|leaf| volume(leaf.model.as_deref().unwrap_or_default()));
    let first = volumes.next().unwrap_or(Volume::Unknown);
    let volume = if volumes.all(|other| other == first) { first } else { Volume::Unknown };
    Some(Site {
        volume,
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
    use crate::sample::{healthy, latency, measured, samples};
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
        assert_eq!(names(|e| e.hypervisor = Some("KVM".to_owned())), [""; 0]);
        assert_eq!(names(|e| e.devices[0].transport = Some("virtio".to_owned())), [""; 0]);
        let of_model = |model: &str| {
            let mut result = healthy();
            result.environment.devices[0].model = Some(model.to_owned());
            expected(&Ranking::new(&result)).ranges.iter().map(|range| range.name).collect::<Vec<_>>()
        };
        assert_eq!(of_model("Amazon Elastic Block Store"), ["network volume of a cloud"]);
        assert_eq!(of_model("Amazon EC2 NVMe Instance Storage"), ["local SSD of a cloud machine"]);
        assert_eq!(of_model("nvme_card-pd"), ["network volume of a cloud"]);
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
            *latency(measured(&mut result, id)) = samples(100, p50_ns);
            expected(&Ranking::new(&result)).position
        };
        assert_eq!(with("direct", 24_000), Position::Within);
        assert_eq!(with("direct", 8_000), Position::Below);
        assert_eq!(with("direct", 4_000), Position::Memory);
    }

    #[test]
    fn a_known_volume_may_be_too_fast_an_unknown_virtual_disk_may_not_and_disturbed_figures_are_not_held() {
        let position = |p50_ns, change: fn(&mut RunResult)| {
            let mut result = healthy();
            result.environment.hypervisor = Some("KVM".to_owned());
            *latency(measured(&mut result, "direct")) = samples(200, p50_ns);
            result.study.rows.retain(|row| row.id == "direct");
            change(&mut result);
            let expected = expected(&Ranking::new(&result));
            (expected.position, expected.is_unknown_disk)
        };
        let ebs = |result: &mut RunResult| {
            result.environment.devices[0].model = Some("Amazon Elastic Block Store".to_owned());
        };
        assert_eq!(
            position(24_000, |_| {}),
            (Position::Unknown, true),
            "honest NVMe behind a host does that"
        );
        assert_eq!(position(182_000, |_| {}), (Position::Unknown, true));
        assert_eq!(position(4_000, |_| {}), (Position::Memory, true), "that is no disk at all");
        assert_eq!(position(24_000, ebs), (Position::Below, false));
        assert_eq!(position(400_000, ebs), (Position::Within, false));
        assert_eq!(position(40_000_000, ebs), (Position::Above, false));
        let few = |result: &mut RunResult| {
            result.environment.devices[0].model = Some("Amazon Elastic Block Store".to_owned());
            measured(result, "direct").commits = 1;
        };
        assert_eq!(position(40_000_000, few), (Position::Unknown, false));
        let waited = |result: &mut RunResult| {
            result.environment.devices[0].model = Some("Amazon Elastic Block Store".to_owned());
            measured(result, "direct").cpu.wait_ns = Some(u64::MAX / 2);
        };
        assert_eq!(position(40_000_000, waited), (Position::Unknown, false));
    }

    #[test]
    fn a_disk_of_a_cloud_is_known_by_its_model_with_what_is_published_of_it() {
        for disk in &CLOUD_DISKS {
            let mut result = healthy();
            result.environment.devices[0].model = Some(format!("{} 1.0", disk.model));
            assert_eq!(provider(&result), Some(disk.provider), "{}", disk.model);
            let sentence = expected(&Ranking::new(&result)).sentence().expect("a range");
            assert!(sentence.contains(disk.published), "{sentence}");
            assert!(disk.published.is_empty() || sentence.contains(AS_OF), "{sentence}");
            assert!(
                disk.bursts.is_empty() || burst_credits(&result).is_some_and(|words| words.contains(AS_OF))
            );
            assert!(disk.published.is_empty() || disk.published.contains("https://"), "{}", disk.model);
        }
        assert_eq!(provider(&healthy()), None);
    }

    #[test]
    fn every_range_is_one() {
        assert!(RANGES.iter().all(|range| range.low_ns < range.high_ns && range.low_ns > MEMORY_NS));
    }
}
