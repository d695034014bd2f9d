//! Findings about commit cost: metadata writes, amplification, copy-on-write and stalls.
//!
//! Invariant: only methods of the class power loss are inspected, because the others are baselines.

use super::machine::tail_wait;
use super::{Found, Severity, say};
use crate::evidence;
use crate::figures::{bytes, duration_ns, listing, significant};
use crate::judgement::capped;
use crate::rank::{self, EffectiveClass, Ranked, Ranking};
use crate::result::RunResult;
use seawall_sys::durability::FileState;
use seawall_sys::inspect::FileSystem;

pub(super) fn stalls(ranking: &Ranking<'_>) -> Found {
    const TIMES_MAX: u64 = 20;
    if capped::of(ranking).is_some() {
        return None;
    }
    let stall = |row: &&Ranked<'_>| {
        let p99_ns = row.measured.main().percentile(99.0).ns();
        // A wait for a CPU has its own finding.
        tail_wait(row).is_none()
            && p99_ns.is_some_and(|p99_ns| row.measured.main().max_ns() > p99_ns.saturating_mul(TIMES_MAX))
    };
    let stalled: Vec<&Ranked<'_>> = ranking.of(EffectiveClass::PowerLoss).filter(stall).collect();
    let worst = stalled.iter().max_by_key(|row| row.measured.main().max_ns())?;
    let round = worst.measured.rounds.iter().max_by_key(|round| round.max_ns)?;
    let p99_ns = worst.measured.main().percentile(99.0).ns()?;
    let ids: Vec<&str> = stalled.iter().map(|row| row.id()).filter(|id| *id != worst.id()).collect();
    let others = if ids.is_empty() { String::new() } else { format!(" Also: {}.", listing(&ids, 3)) };
    say(
        Severity::Caution,
        format!(
            "The device stalls: one commit of {} took {}, {} times its p99 of {} (round {}).{others}",
            worst.id(),
            duration_ns(worst.measured.main().max_ns()),
            significant(worst.measured.main().max_ns() as f64 / p99_ns.max(1) as f64),
            duration_ns(p99_ns),
            round.round + 1
        ),
        "set timeouts by max, not by p99; `seawall bench --time 10m` shows how often, and whether other writers on the disk cause it",
    )
}

pub(super) fn metadata(ranking: &Ranking<'_>) -> Found {
    // Linux counts the empty request that carries a flush among the writes too: a pure overwrite with its flush is 2.
    const TIMES_MAX: f64 = 1.2;
    let plan = &ranking.result.plan;
    if ranking.result.environment.file_system.copy_on_write {
        return None;
    }
    // The least of all durable methods: a neighbour that wakes up during one block is not the file system.
    let least = ranking
        .of(EffectiveClass::PowerLoss)
        .filter_map(|row| Some((row, row.evidence.per_commit.filter(|each| !each.baseline_matters)?.writes)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let (row, writes) =
        least.filter(|(row, writes)| *writes > TIMES_MAX * usual_writes(ranking.result, row))?;
    let (why, remedy) = match plan.file_state {
        FileState::Appending => (
            "each append changes the file's size",
            "preallocate and recycle the journal: --file-state recycled shows what it gains",
        ),
        FileState::Unwritten => (
            "each first write converts an unwritten extent",
            "fill the journal once before use: --file-state zero-filled shows what it gains",
        ),
        _ if journals_data(&ranking.result.environment.file_system) => (
            "the file system writes the data twice, to its journal and to its place",
            "mount it without data=journal",
        ),
        // The counters are the whole device's, so that the mount options alone are not to blame.
        FileState::ZeroFilled | FileState::WriteZeroes | FileState::Recycled => (
            "though the journal's blocks were ready, and what other programs wrote to the device is counted too",
            "stop what else writes to the device and run again; if it stays, look at RAID parity and at the mount options",
        ),
    };
    say(
        Severity::Note,
        format!(
            "A commit costs {writes:.2} device writes or more with a journal that is {} ({}): {why}.",
            plan.file_state.name(),
            row.id()
        ),
        remedy,
    )
}

/// Whether it is ext4 with `data=journal`, as the mount or the superblock has it: its files have no pages of their own to write.
fn journals_data(file_system: &FileSystem) -> bool {
    file_system.kind.starts_with("ext") && file_system.weak_calls.sync_file_range
}

/// Device writes of a commit that overwrites in place: its own, and a request for each flush.
fn usual_writes(result: &RunResult, row: &Ranked<'_>) -> f64 {
    f64::from(result.plan.writes + evidence::flushes_needed(result, row.row))
}

pub(super) fn amplification(ranking: &Ranking<'_>) -> Found {
    const TIMES_MAX: f64 = 3.0;
    let plan = &ranking.result.plan;
    let times = |row: &Ranked<'_>| {
        row.evidence.per_commit.filter(|each| !each.baseline_matters).map(|each| each.write_amplification)
    };
    let unavoidable = 4096.0 / plan.transaction_bytes.max(1) as f64;
    // A neighbour that came after the idle baseline writes on every method's account.
    if super::machine::not_idle(ranking).is_some() {
        return None;
    }
    let costly = |row: &Ranked<'_>| times(row).is_some_and(|times| times > TIMES_MAX * unavoidable.max(1.0));
    let rows: Vec<&Ranked<'_>> = ranking.of(EffectiveClass::PowerLoss).filter(|row| costly(row)).collect();
    let worst = rows.iter().max_by(|a, b| times(a).unwrap_or(0.0).total_cmp(&times(b).unwrap_or(0.0)))?;
    let ids: Vec<&str> = rows.iter().map(|row| row.id()).collect();
    let remedy = if plan.fill_bytes > 4096 && ids.iter().any(|id| id.starts_with("mmap")) {
        format!(
            "the journal was filled by writes of {}, and the kernel may write whole page-cache folios of that size: compare --fill-size 4KiB",
            bytes(plan.fill_bytes)
        )
    } else {
        "commit larger transactions, or several together".to_owned()
    };
    say(
        Severity::Note,
        format!(
            "{} wrote {} times the bytes that were committed.",
            listing(&ids, 3),
            significant(times(worst).unwrap_or(0.0))
        ),
        remedy,
    )
}

pub(super) fn copy_on_write(ranking: &Ranking<'_>) -> Found {
    let file_system = &ranking.result.environment.file_system;
    if !file_system.copy_on_write || ranking.best_durable().is_none() {
        return None;
    }
    let remedy = match file_system.kind.as_str() {
        "btrfs" => {
            "set `chattr +C` (nodatacow) on the journal's folder before the file is made; it turns off checksums for that file"
        }
        "zfs" => {
            "give the pool a log device (slog), and the dataset a recordsize near the transaction's size"
        }
        _ => "put the journal on a file system that overwrites in place",
    };
    say(
        Severity::Note,
        format!(
            "{} is copy-on-write: each overwrite allocates new blocks, so preallocating gains nothing.",
            file_system.kind
        ),
        remedy,
    )
}

pub(super) fn each_write_flushed(ranking: &Ranking<'_>) -> Found {
    let writes = ranking.result.plan.writes;
    let needed = |row: &Ranked<'_>| evidence::flushes_needed(ranking.result, row.row);
    let best = |flushes: u32| ranking.of(EffectiveClass::PowerLoss).find(|row| needed(row) == flushes);
    let (each, once) = (best(writes)?, best(1).filter(|_| writes > 1)?);
    let ratio = rank::ratio(each.measured, once.measured).filter(|ratio| ratio.low > 1.0)?;
    say(
        Severity::Note,
        format!(
            "With {writes} writes a commit {} takes {}, {} times as long as {}, which takes {}: it waits for a flush after each write.",
            each.id(),
            duration_ns(each.p50_ns()),
            significant(ratio.estimate),
            once.id(),
            duration_ns(once.p50_ns())
        ),
        "write a commit in one piece, or sync once after its last write",
    )
}

pub(super) fn fsync_dearer(ranking: &Ranking<'_>) -> Found {
    const TIMES_MAX: f64 = 1.15;
    let (full, data) = (ranking.find("buffered+fsync")?, ranking.find("buffered+fdatasync")?);
    if full.class != EffectiveClass::PowerLoss || data.class != EffectiveClass::PowerLoss {
        return None;
    }
    let ratio = rank::ratio(full.measured, data.measured).filter(|ratio| ratio.low > TIMES_MAX)?;
    say(
        Severity::Note,
        format!(
            "fsync takes {} times as long as fdatasync: it commits timestamps that a journal does not need.",
            significant(ratio.estimate)
        ),
        "use fdatasync or O_DSYNC for the journal; `lazytime` helps software that cannot choose",
    )
}
