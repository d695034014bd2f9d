//! Runs a block of the `group` scenario: many writers into one file, one file each, or one log.
//!
//! Invariants: files and log are made before the block and brought to rest after it, outside its time and counters;
//! only segments that the log starts during the block have their successors prepared concurrently with the commits.

use super::{BlockRequest, Sharing, WRITER_BYTES};
use crate::block::Slice;
use crate::testbed::real::{Content, RealLane, RealTestbed, RecordLane};
use crate::testbed::writers::{Crew, run as commit, slice};
use crate::testbed::{Block, BlockError, Until};
use seawall_sys::{Target, prove};
use std::path::PathBuf;

pub(super) fn run(
    testbed: &mut RealTestbed,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Block, BlockError> {
    let settings = request.settings;
    let crew =
        Crew { bytes: settings.bytes, pin_to: &settings.pin_to, seed: settings.seed, workload: None, until };
    if request.sharing == Sharing::Log {
        let log = testbed.log()?;
        let slice = slice(0, u64::MAX, until);
        // No range of any file: a log chooses where it writes.
        let slice = Slice { capacity: u64::MAX / settings.bytes as u64, ..slice };
        let mut writers = vec![log.clone(); request.writers];
        let lanes = writers.iter_mut().map(|writer| (RecordLane::new(writer, log.dir()), slice)).collect();
        let block = commit(&crew, lanes, &|| testbed.counts_of(0))?;
        testbed.trim_log()?;
        return Ok(block);
    }
    let part_bytes = WRITER_BYTES.max(settings.bytes as u64);
    let most = settings.writers.iter().max().copied().unwrap_or(1).max(request.writers) as u64;
    let paths: Vec<PathBuf> = match request.sharing {
        Sharing::File => vec![testbed.file(0, "shared", Content::Written(most * part_bytes), until)?],
        Sharing::Nothing | Sharing::Log => (0..request.writers)
            .map(|writer| testbed.file(0, &format!("own-{writer}"), Content::Written(part_bytes), until))
            .collect::<Result<_, _>>()?,
    };
    let mut lanes = Vec::new();
    for writer in 0..request.writers {
        let alone = request.sharing == Sharing::Nothing;
        let path = if alone { &paths[writer] } else { &paths[0] };
        let journal_bytes = if alone { part_bytes } else { most * part_bytes };
        let target = Target { path: path.clone(), journal_bytes, write_bytes: settings.bytes };
        if alone || writer == 0 {
            // What the device refuses (a size that is not a multiple of its sectors) is no failure of it.
            prove(request.method, &target, None)?;
        }
        let base = if alone { 0 } else { writer as u64 * part_bytes };
        let lane = RealLane::open(request.method, &target)?;
        lanes.push((lane, slice(base, part_bytes / settings.bytes as u64, until)));
    }
    let block = commit(&crew, lanes, &|| testbed.counts_of(0));
    for path in &paths {
        RealTestbed::quiesce_file(path)?;
    }
    block
}
