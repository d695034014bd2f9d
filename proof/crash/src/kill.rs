//! Kills the log's process again and again, recovers after each kill and judges.
//!
//! One log lives through many processes: each one is killed by SIGKILL at a random moment, the log is recovered by
//! the real code and judged, and the next process continues there. The page cache survives, so a log without a single
//! sync passes. The test detects records acknowledged before they were written, and recoveries whose second run
//! differs.

use std::io;
use std::path::Path;
use std::time::Duration;

use seawall::sim::outside::judge;
use seawall::sim::rng::{Rng, mix};

use crate::directory_disk::{DirectoryDisk, Sabotage, method};
use crate::scene::Scene;
use crate::victim::{LAYOUT, VictimKind};
use crate::workload::Timeline;

/// What the cycles have come to.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct Kills {
    /// Lives that were killed.
    pub(crate) cycles: u64,
    /// Of these, how many had ended by themselves before.
    pub(crate) too_late: u64,
    /// Records acknowledged in all lives, counted by their marks.
    pub(crate) acknowledged: u64,
    /// The first broken promise.
    pub(crate) broken: Option<String>,
}

/// How many times longer a victim lives at most than on an idle machine.
const SLOWNESS_MAX: u64 = 256;

/// Kills the victim of `scene` `cycles` times in the directory `dir`, or until a promise is broken.
pub(crate) fn cycles(scene: &Scene, binary: &Path, dir: &Path, cycles: u64) -> io::Result<Kills> {
    let log = dir.join("log");
    std::fs::create_dir(&log)?;
    let marks = dir.join("marks");
    let method = method("buffered+fdatasync").map_err(io::Error::other)?;
    let mut rng = Rng::new(mix(scene.seed));
    let mut timeline = Timeline::new(scene.seed, scene.transactions);
    let mut kills = Kills::default();
    let (mut end, mut slowness) = (0, 1);
    for cycle in 0..cycles {
        if crate::interrupt::requested() {
            break;
        }
        std::fs::write(&marks, "")?;
        let mut victim = scene.victim(&log, Some(marks.clone()));
        victim.life += cycle;
        victim.start = end;
        let mut child = victim.spawn(binary)?;
        std::thread::sleep(Duration::from_micros(slowness * (1000 + rng.below(40_000))));
        kills.too_late += u64::from(child.try_wait()?.is_some());
        child.kill()?;
        child.wait()?;
        kills.cycles += 1;
        let before = kills.acknowledged;
        let said = std::fs::read_to_string(&marks)?;
        for line in said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            kills.acknowledged += u64::from(!line.starts_with(['o', 't']));
            timeline.mark(line).map_err(io::Error::other)?;
        }
        // A busy machine gives a victim less of the time: it lives longer until it acknowledges something again.
        let acknowledged = kills.acknowledged > before;
        slowness = if acknowledged { (slowness / 2).max(1) } else { (slowness * 2).min(SLOWNESS_MAX) };
        let mut disk = DirectoryDisk::new(&log, method, Sabotage::None);
        match judge(&mut disk, &LAYOUT, &timeline.ledger, true) {
            Ok(found) => {
                timeline.mark(&format!("exposed {found}")).map_err(io::Error::other)?;
                end = found.get();
            }
            Err(violation) => {
                kills.broken = Some(format!("life {}: {violation}", victim.life));
                break;
            }
        }
    }
    Ok(kills)
}

pub(crate) const VICTIMS: [VictimKind; 2] = [VictimKind::Library, VictimKind::Binary];
