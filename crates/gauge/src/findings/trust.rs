//! Findings about validity: layers that ignore syncs, contradicted classes and the basis of the promise.
//!
//! Invariant: a rule states its evidence, never a suspicion alone.

use super::machine::tail_wait;
use super::{Found, Severity, say, shown};
use crate::evidence::{A_FEW_MISSING, BYTES_MISSING, EvidenceOutcome, NEIGHBOUR, PerCommit};
use crate::figures::{bytes, duration_ns, listing, plural, significant};
use crate::lookup;
use crate::ranges::{self, MEMORY_NS};
use crate::rank::{EffectiveClass, Ranked, Ranking};
use crate::row::Outcome;
use seawall_sys::counters::Verdict;
use seawall_sys::durability::{DeviceCache, FileState, Lie, Medium, Promiser};
use seawall_sys::method::Cache;

pub(super) fn lies(ranking: &Ranking<'_>) -> Found {
    let environment = &ranking.result.environment;
    let lies: Vec<_> = environment
        .lies
        .iter()
        .filter(|found| found.lie != Lie::WineFlags || environment.wine.is_none())
        .collect();
    let first = lies.first()?;
    let words = |lie: Lie| match lie {
        Lie::Preload => ("a preloaded library swallows sync calls", "run without LD_PRELOAD"),
        Lie::BarriersOff => (
            "the file system is mounted with barriers off and sends no flushes",
            "mount without `nobarrier` or `barrier=0`, unless the cache outlives a power cut",
        ),
        Lie::SyncDisabled => (
            "the file system is set to ignore syncs",
            "turn syncs on (ZFS: `zfs set sync=standard`; overlayfs: mount without `volatile`)",
        ),
        Lie::WineFlags => ("Wine ignores WRITE_THROUGH and NO_BUFFERING", "measure on Windows itself"),
        Lie::HiddenCache => (
            "the queue of a device hides its volatile cache, so that no flush is sent",
            "write \"write back\" to queue/write_cache, unless the cache outlives a power cut",
        ),
    };
    let all: Vec<String> =
        lies.iter().map(|found| format!("{} ({})", words(found.lie).0, found.evidence)).collect();
    say(Severity::Wrong, format!("Syncs do nothing here: {}.", all.join("; ")), words(first.lie).1)
}

pub(super) fn wine(ranking: &Ranking<'_>) -> Found {
    let version = ranking.result.environment.wine.as_ref()?;
    say(
        Severity::Wrong,
        format!(
            "This ran under Wine {version}, which ignores WRITE_THROUGH and NO_BUFFERING: rows with these flags are buffered writes, and the rest are the host's."
        ),
        "measure on Windows itself, or run the native build on the host",
    )
}

pub(super) fn memory(ranking: &Ranking<'_>) -> Found {
    let file_system = &ranking.result.environment.file_system;
    if file_system.medium != Medium::Memory {
        return None;
    }
    say(
        Severity::Wrong,
        format!(
            "{} keeps its files in memory: nothing here outlives a reboot, and no figure is a disk's.",
            file_system.kind
        ),
        "give a folder on the disk that the journal will live on",
    )
}

pub(super) fn contradicted(ranking: &Ranking<'_>) -> Found {
    let rows: Vec<_> = ranking.of(EffectiveClass::NotConfirmed).collect();
    let first = rows.first()?;
    let ids: Vec<&str> = rows.iter().map(|row| row.id()).collect();
    let volatile = ranking.result.environment.device_cache() != DeviceCache::WriteThrough;
    let watched = first.measured.watched.as_ref().map(|watched| watched.verdict(volatile));
    let seen = match (watched, first.evidence.per_commit) {
        (Some(Verdict::Missing(seen)), _) => format!("{seen} by {}", first.id()),
        (_, Some(PerCommit { writes, flushes: Some(flushes), .. })) => format!(
            "the device counted {writes:.2} writes and {flushes:.2} flushes per commit ({} commits of {})",
            crate::figures::count(first.measured.commits),
            first.id()
        ),
        (_, _) => "the device counted too few".to_owned(),
    };
    let cache = if volatile { ", and its cache is volatile" } else { "" };
    say(
        Severity::Wrong,
        format!(
            "Commits go missing on their way: {} requested a flush with each, yet {seen}{cache}.",
            listing(&ids, 3)
        ),
        "look for what swallows it (mount options, the hypervisor's cache mode, a preloaded library); until then count on a system crash at most",
    )
}

pub(super) fn bytes_missing(ranking: &Ranking<'_>) -> Found {
    let convicted = |row: &&Ranked<'_>| row.durability.because.iter().any(|why| why == BYTES_MISSING);
    let rows: Vec<_> = ranking.rows.iter().filter(convicted).collect();
    let first = rows.first()?;
    let ids: Vec<&str> = rows.iter().map(|row| row.id()).collect();
    let counts = first.measured.counts?;
    say(
        Severity::Wrong,
        format!(
            "Bytes never reached the device: {} committed {} and the device counted {} written. They are in a page cache, of a loop device's image or of a host, and a system crash loses them.",
            listing(&ids, 3),
            bytes(first.measured.bytes),
            bytes(counts.sectors * 512)
        ),
        "attach the loop device with `losetup --direct-io=on` and mount with barriers, or measure on the disk itself",
    )
}

/// A flush that takes no time does nothing, or answers from memory.
pub(super) fn free_flush(ranking: &Ranking<'_>) -> Found {
    let direct = ranking.find("direct")?;
    let flushed = ["direct+fdatasync", "buffered+fdatasync"].iter().find_map(|id| ranking.find(id))?;
    let sound = |row: &&Ranked<'_>| row.measured.commits >= ranges::COMMITS_MIN && tail_wait(row).is_none();
    let is_flushed =
        flushed.evidence.outcome == EvidenceOutcome::Confirmed && flushed.class == EffectiveClass::PowerLoss;
    if !is_flushed || ![direct, flushed].iter().all(sound) || direct.measured.letter != Some('O') {
        return None;
    }
    // One write around the cache is one round trip to the device. A flush carries no data, so that half of it is the
    // least that any request to a device takes.
    let whole_ns = flushed.p50_ns();
    let flush_ns = whole_ns.saturating_sub(direct.p50_ns());
    let round_trip_ns = direct.p50_ns() / u64::from(ranking.result.plan.writes.max(1));
    if flush_ns * 2 >= round_trip_ns {
        return None;
    }
    say(
        Severity::Caution,
        format!(
            "A flush costs next to nothing: {} takes {}, {} more than {}'s {}, which is less than half of a round trip to the device. Either its cache outlives a power cut, or the layer that answers the flush does nothing.",
            flushed.id(),
            duration_ns(whole_ns),
            duration_ns(flush_ns),
            direct.id(),
            duration_ns(direct.p50_ns())
        ),
        "`seawall powercut` shows by real power cuts which it is",
    )
}

pub(super) fn too_fast(ranking: &Ranking<'_>) -> Found {
    // Whatever its class: calls that ask the device to make data stable are not answered by one so fast, nor is a write around
    // the cache.
    let asks = |row: &&Ranked<'_>| {
        let method = lookup::method(ranking.result, row.row);
        row.class <= EffectiveClass::NotConfirmed
            || row.measured.letter == Some('D')
            || method.is_some_and(|method| method.cache == Cache::Direct)
    };
    let fast: Vec<_> = ranking.rows.iter().filter(asks).filter(|row| row.p50_ns() < MEMORY_NS).collect();
    let first = fast.iter().min_by_key(|row| row.p50_ns())?;
    let others = match fast.len() - 1 {
        0 => String::new(),
        others => format!(" {} as fast.", plural(others as u64, "other row is", "other rows are")),
    };
    say(
        Severity::Wrong,
        format!(
            "{} takes {} a commit, and under {} nothing has left memory: whatever acknowledged it was no disk.{others}",
            first.id(),
            duration_ns(first.p50_ns()),
            duration_ns(MEMORY_NS)
        ),
        "check what is behind the device (a RAM disk, a hypervisor's write cache in `unsafe` mode)",
    )
}

/// The extents are not in the requested state.
pub(super) fn file_state(ranking: &Ranking<'_>) -> Found {
    let (plan, journal) = (&ranking.result.plan, &ranking.result.journal);
    let layout =
        journal.layout_before.filter(|layout| !layout.agrees_with(plan.file_state, plan.journal_bytes))?;
    say(
        Severity::Wrong,
        format!(
            "The journal was to be {}, but its extents were not: {} written, {} unwritten, {} not yet placed.",
            plan.file_state.name(),
            bytes(layout.written_bytes),
            bytes(layout.unwritten_bytes),
            bytes(layout.delayed_bytes)
        ),
        "read the figures as those of a mixed file; try --file-state recycled",
    )
}

pub(super) fn failed(ranking: &Ranking<'_>) -> Found {
    let rows = ranking.result.study.rows.iter();
    let failed: Vec<_> = rows
        .filter_map(|row| match &row.outcome {
            Outcome::Failed { error, of_device } => Some((shown(row), error, *of_device)),
            _ => None,
        })
        .collect();
    let (_, error, _) = failed.first()?;
    let ids: Vec<&str> = failed.iter().map(|(id, ..)| *id).collect();
    say(
        Severity::Wrong,
        format!("{} failed and was stopped at once: {error}.", listing(&ids, 4)),
        if failed.iter().any(|(.., of_device)| *of_device) {
            "look into the system's log for the device's errors; after a failed sync, data acknowledged before may be lost too"
        } else {
            "remove the cause that the error names and run again; the other figures stand"
        },
    )
}

pub(super) fn promiser(ranking: &Ranking<'_>) -> Found {
    let best = ranking.best_durable()?;
    let environment = &ranking.result.environment;
    match environment.promiser() {
        Promiser::Hypervisor => {
            let name = environment.hypervisor.as_deref().unwrap_or("the hypervisor");
            say(
                Severity::Note,
                format!(
                    "Power-loss durability is promised by the hypervisor ({name}), not by a device: a flush counted here was received by it, and what it did then cannot be seen from inside.{}",
                    usual(ranking, best)
                ),
                "`seawall powercut` shows it by real power cuts; or ask the provider, or check the host's cache mode (QEMU: not `cache=unsafe`)",
            )
        }
        Promiser::Server => say(
            Severity::Note,
            format!(
                "Power-loss durability is promised by the server behind {}, not by a device of this machine.",
                environment.file_system.kind
            ),
            "check the export (NFS: `sync`, not `async`) or the FUSE process",
        ),
        Promiser::Unknown => say(
            Severity::Caution,
            format!(
                "No block device shows under {}: who promises durability is not known.",
                environment.file_system.kind
            ),
            "measure on a file system whose disk this machine can see",
        ),
        Promiser::Device | Promiser::Wine => None,
    }
}

/// What a fast commit on a virtual disk of an unknown kind may mean.
fn usual(ranking: &Ranking<'_>, best: &Ranked<'_>) -> String {
    const NOTABLE_NS: u64 = 200_000;
    /// The fastest published commit of such a drive.
    const DRIVE_NS: u64 = 12_000;
    if best.p50_ns() >= NOTABLE_NS || !ranges::expected(ranking).is_unknown_disk {
        return String::new();
    }
    if best.p50_ns() < DRIVE_NS {
        return format!(
            " {} a commit is faster than any published drive, {} with power-loss protection: something nearer answers the flush.",
            duration_ns(best.p50_ns()),
            duration_ns(DRIVE_NS)
        );
    }
    format!(
        " {} a commit is usual for NVMe with power-loss protection; from inside, a host that answers flushes from memory looks the same.",
        duration_ns(best.p50_ns())
    )
}

pub(super) fn unvouched(ranking: &Ranking<'_>) -> Found {
    let best = ranking.best_durable()?;
    let environment = &ranking.result.environment;
    if environment.promiser() == Promiser::Server || environment.leaves().next().is_none() {
        return None;
    }
    let EvidenceOutcome::CannotTell(reason) = best.evidence.outcome else { return None };
    if reason == NEIGHBOUR {
        return None;
    }
    let (severity, remedy) = if reason == A_FEW_MISSING {
        (Severity::Caution, "something may drop flushes now and then: a longer run (--time 2m) counts more")
    } else {
        (
            Severity::Note,
            "most disks count flushes on Linux 5.5 or newer; where none do, cutting the power decides it: seawall powercut",
        )
    };
    say(severity, format!("The classes are computed and not confirmed by evidence: {reason}."), remedy)
}

pub(super) fn direct_trap(ranking: &Ranking<'_>) -> Found {
    let durable = ranking.best_durable()?;
    let fast = ranking
        .rows
        .iter()
        .filter(|row| row.class > EffectiveClass::NotConfirmed && row.measured.letter == Some('O'))
        .filter(|row| row.p50_ns() > 0 && row.p50_ns() < durable.p50_ns())
        // Direct I/O alone is the one that people take for durable.
        .min_by_key(|row| (!["direct", "no-buffering"].contains(&row.id()), row.p50_ns()))?;
    let times = durable.p50_ns() as f64 / fast.p50_ns() as f64;
    if times < 1.2 {
        return None;
    }
    let why = fast.durability.because.first().map_or("it promises less", String::as_str);
    say(
        Severity::Note,
        format!(
            "{} is {} times as fast as {}, but {why}: it outlives a {}, not a power cut.",
            fast.id(),
            significant(times),
            durable.id(),
            fast.class.name()
        ),
        format!("do not commit by {} alone; it is a baseline", fast.id()),
    )
}

pub(super) fn outside_range(ranking: &Ranking<'_>) -> Found {
    let best = ranking.best_durable()?;
    let expected = ranges::expected(ranking);
    let p50 = duration_ns(best.p50_ns());
    match expected.position {
        ranges::Position::Below => {
            let range = expected.ranges.iter().min_by_key(|range| range.low_ns)?;
            let remedy = if ranking.result.environment.hypervisor.is_some() {
                "`seawall powercut` shows by real power cuts what is kept; or ask the provider what has to happen before a flush is acknowledged"
            } else {
                "find the model's data sheet: power-loss protection explains it, nothing else does"
            };
            say(
                Severity::Caution,
                format!(
                    "{p50} a durable commit is faster than such a device should be ({}): {}.",
                    expected.words(),
                    range.below
                ),
                remedy,
            )
        }
        ranges::Position::Above => {
            let remedy = if ranking.result.plan.file_state == FileState::Appending {
                "try --file-state recycled first: appending journals metadata with each commit"
            } else {
                "look for other load on the device, a slow controller, encryption, or throttling by the provider"
            };
            say(
                Severity::Caution,
                format!(
                    "{p50} a durable commit is slower than such a device should be ({}).",
                    expected.words()
                ),
                remedy,
            )
        }
        ranges::Position::Within | ranges::Position::Memory | ranges::Position::Unknown => None,
    }
}
