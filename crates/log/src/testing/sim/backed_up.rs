//! Crashes a backup at each of its steps on a simulated disk and recovers what is left.
//!
//! A real log is copied onto the simulated disk, again and again as it grows and is trimmed. At every step images are
//! drawn as in the campaign; each must open as the log at least as far as the backup before went.

use std::ops::Range;
use std::path::Path;

use super::disk::{Cache, SimDisk};
use super::draw::{DRAWS, Draw};
use super::judge::{Terms, judge};
use super::media::Media;
use super::rng::Rng;
use crate::log::Log;
use crate::options::Options;
use crate::repair::backup::{Filled, copy_log};
use crate::testing::oracle::{Issued, Ledger};
use seawall_sys::durability::Durability;

/// Appends and commits records of different lengths.
fn append(log: &Log, ledger: &mut Ledger, records: usize) {
    for number in ledger.issued.len()..ledger.issued.len() + records {
        let payload = Rng::new(number as u64).bytes(3000 + 700 * (number % 9));
        let Range { start, end } = log.append_commit(&payload).expect("commits");
        ledger.issued.push(Issued { start, end, ends_transaction: true, tagged: false, payload });
    }
}

#[test]
fn a_backup_that_is_cut_off_anywhere_is_whole_and_as_new_as_the_one_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let small = Options::default().segment_bytes(64 << 10).batch_bytes(8 << 10).memory_bytes(64 << 10);
    let log = Log::open(dir.path(), small).expect("opens");
    let from = crate::lock::open_dir(dir.path()).expect("opens");
    let (mut media, mut ledger, mut rng) = (Media::default(), Ledger::default(), Rng::new(1));
    let (mut before, mut states) = (None, 0);
    for round in 0..4_usize {
        append(&log, &mut ledger, 40);
        // The first one has no trim; later ones trim within what the backup before held.
        let trimmed = ledger.issued[30 * round].start;
        ledger.trimmed = log.trim(trimmed).expect("trims");
        append(&log, &mut ledger, 1);
        let mut disk = SimDisk::running(media.clone(), round as u64, None, Cache::Bypassed);
        let to = (Path::new("backup"), Filled::Backup);
        let done = copy_log(&from, &mut disk, to, &|| log.durable_lsn()).expect("backs up");
        assert_eq!(done.report.end, log.durable_lsn());
        let terms = |must_have| Terms {
            must_have,
            damaged: false,
            twice: false,
            dsync: false,
            class: Durability::PowerLoss,
        };
        for event in disk.take_trace() {
            event.apply(&mut media);
            // A first backup has its name only when it is whole.
            let Some(before) = before else { continue };
            for draw in DRAWS {
                for names in [Draw::None, Draw::Half, Draw::All] {
                    let judged = judge(media.image(draw, names, &mut rng), &ledger, terms(before));
                    assert!(judged.is_ok(), "round {round}: {judged:?}");
                    states += 1;
                }
            }
        }
        let end = log.durable_lsn();
        let judged = judge(media.image(Draw::None, Draw::None, &mut rng), &ledger, terms(end));
        assert_eq!(judged, Ok(Some(end)), "what was backed up is durable");
        before = Some(end);
    }
    assert!(states > 500, "only {states} states");
    log.close().expect("closes");
}
