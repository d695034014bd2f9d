//! A finding about raw devices: the kernel flushes them where it would send a write to a file with FUA alone.

use super::{Found, Severity, say};
use crate::evidence::{EvidenceOutcome, forces_each_write};
use crate::figures::listing;
use crate::rank::Ranking;

/// As many flushes a commit as one each, but for what the counters miss.
const ONE_EACH: f64 = 0.9;

/// Direct data-sync writes that a file system would send as one write with FUA, flushed because they go to the device
/// itself. Linux does so for plain calls; a ring's writes to the device carry FUA alone.
pub(super) fn raw_flushes(ranking: &Ranking<'_>) -> Found {
    let result = ranking.result;
    if !result.plan.raw_device {
        return None;
    }
    let forced = |row: &&crate::rank::Ranked<'_>| forces_each_write(result, row.row);
    let each =
        |row: &crate::rank::Ranked<'_>| row.evidence.per_commit.and_then(|each| each.flushes).unwrap_or(0.0);
    let flushed: Vec<_> = ranking
        .rows
        .iter()
        .filter(forced)
        .filter(|row| row.evidence.outcome == EvidenceOutcome::Confirmed && each(row) >= ONE_EACH)
        .collect();
    let first = flushed.first()?;
    let ids: Vec<&str> = flushed.iter().map(|row| row.id()).collect();
    let unflushed =
        ranking.rows.iter().filter(forced).find(|row| row.evidence.outcome == EvidenceOutcome::ByFua);
    let instead = unflushed.map_or_else(
        || "measure a folder on ext4 or xfs on this device beside it".to_owned(),
        |row| {
            format!(
                "measure a folder on ext4 or xfs on this device beside it; on the device itself {} sends no flush",
                row.id()
            )
        },
    );
    say(
        Severity::Note,
        format!(
            "This device takes FUA, and the kernel flushes it all the same: {} caused {:.2} flushes a commit on the raw device, where an overwrite of a file on ext4 or xfs is sent as one write with FUA and no flush.",
            listing(&ids, 3),
            each(first)
        ),
        instead,
    )
}
