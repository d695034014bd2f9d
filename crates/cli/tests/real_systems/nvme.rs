//! Tests the rows that need what few machines have: an `NVMe` drive with FUA, poll queues and atomic writes.
//!
//! They ran in an emulated machine, whose drive is the harness's own: `seawall-crash second-kernel --rows` leaves strace's
//! lines with the drive's requests between them. `cargo xtask test 'rows on NVMe'` runs it and names the folder in
//! [`FOLDER`].
//!
//! | place | what a commit with the data-sync flag around the cache makes the drive do |
//! | --- | --- |
//! | a file on ext4 | one write with FUA and no flush |
//! | the raw device, by plain calls | one write with FUA, and a flush after it |
//! | the raw device, by `io_uring` | one write with FUA and no flush |

use crate::calls::{COMMITS, compare};
use crate::trace::{Call, blocks, blocks_of_raw_device, parse};
use seawall_gauge::evidence::{self, EvidenceOutcome};
use seawall_gauge::findings;
use seawall_gauge::rank::Ranking;
use seawall_gauge::result::RunResult;
use seawall_gauge::row::Outcome;
use seawall_sys::durability::Durability;
use std::path::PathBuf;

const FOLDER: &str = "SEAWALL_NVME_ROWS";
/// Flushes that the file system's own timers may cause in a block.
const STRAY_FLUSHES: usize = 3;
const COMMIT_BYTES: &str = "16384";

/// What a commit makes the drive do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Commit {
    Forced,
    ForcedAndFlushed,
    Flushed,
}

/// A place's result, and the blocks of its rows by id: calls and requests.
fn place(name: &str) -> (RunResult, Vec<(String, Vec<Call>)>) {
    let folder = std::env::var_os(FOLDER).unwrap_or_else(|| panic!("{FOLDER} names no folder"));
    let file = |ending: &str| PathBuf::from(&folder).join(format!("{name}.{ending}"));
    let result = RunResult::read(&file("json")).expect("a result");
    let calls = parse(&std::fs::read_to_string(file("trace")).expect("a trace"));
    let blocks = if result.plan.raw_device { blocks_of_raw_device(&calls) } else { blocks(&calls) };
    assert_eq!(blocks.len(), result.order[0].len(), "one block a method that runs");
    let ids = result.order[0].iter().map(|index| result.study.rows[*index].id.clone());
    let blocks = ids.zip(blocks).collect();
    (result, blocks)
}

/// What the drive was sent between the last preparation of a block and its last call.
fn requests(block: &[Call]) -> Vec<&Call> {
    let prepares =
        |call: &Call| ["openat", "io_uring_setup", "io_uring_register"].contains(&call.name.as_str());
    let first = block.iter().rposition(prepares).expect("the journal was opened");
    let last = block.iter().rposition(|call| !call.is_request()).expect("a commit");
    block[first..last].iter().filter(|call| call.is_request()).collect()
}

fn check(name: &str, expected: &[(&str, Commit)], missing: &[(&str, &str)]) -> RunResult {
    let (result, blocks) = place(name);
    let ran: Vec<&str> = result.measured().map(|(row, _)| row.id.as_str()).collect();
    let due: Vec<&str> = expected.iter().map(|(id, _)| *id).collect();
    assert_eq!(ran, due, "on {name}");
    for (id, commit) in expected {
        let (_, block) =
            blocks.iter().find(|(of, _)| of == id).unwrap_or_else(|| panic!("{id} has no block"));
        let calls: Vec<Call> = block.iter().filter(|call| !call.is_request()).cloned().collect();
        compare(id, 1, &calls);
        let requests = requests(block);
        let writes = |flag: &str| {
            let arguments = format!("{COMMIT_BYTES}{flag}");
            requests.iter().filter(|call| call.name == "device_write" && call.arguments == arguments).count()
        };
        let flushes = requests.iter().filter(|call| call.name == "device_flush").count();
        let counted = format!("{id} on {name}: {flushes} flushes, {} writes with FUA", writes(", FUA"));
        match commit {
            Commit::Flushed => assert_eq!((writes(""), writes(", FUA")), (COMMITS, 0), "{counted}"),
            _ => assert_eq!((writes(""), writes(", FUA")), (0, COMMITS), "{counted}"),
        }
        match commit {
            Commit::Forced => assert!(flushes <= STRAY_FLUSHES, "{counted}"),
            _ => assert!((COMMITS..=COMMITS + STRAY_FLUSHES).contains(&flushes), "{counted}"),
        }
        println!("{counted}");
        let (row, measured) = result.measured().find(|(row, _)| row.id == *id).expect("it ran");
        let durability = measured.durability.as_ref().expect("a class");
        assert_eq!(
            (measured.commits, durability.class),
            (COMMITS as u64, Durability::PowerLoss),
            "{id} on {name}"
        );
        let verdict =
            if *commit == Commit::Forced { EvidenceOutcome::ByFua } else { EvidenceOutcome::Confirmed };
        assert_eq!(evidence::of(&result, row, measured, durability).outcome, verdict, "{id} on {name}");
    }
    for (id, words) in missing {
        let row = result.study.rows.iter().find(|row| row.id == *id).expect("it is listed");
        let Outcome::NotAvailable { reason } = &row.outcome else { panic!("{id}: {:?}", row.outcome) };
        assert!(reason.contains(words), "{id}: {reason}");
    }
    result
}

/// Whether the result is said to be of a raw device that is flushed where a file would not be.
fn is_found(result: &RunResult) -> bool {
    findings::find(&Ranking::new(result)).iter().any(|finding| finding.rule == "raw-flushes")
}

#[test]
#[ignore = "needs what an emulated machine left; run by `cargo xtask test`"]
fn on_a_file_each_commit_is_one_write_with_fua_and_no_flush() {
    use Commit::{Flushed, Forced};
    let expected = [
        ("direct+dsync", Forced),
        ("direct+fdatasync", Flushed),
        ("direct+rwf-dsync", Forced),
        ("uring-direct-rwf-dsync", Forced),
        ("uring-direct-fixed-dsync", Forced),
        ("uring-direct-sqpoll", Forced),
        ("uring-direct-iopoll", Forced),
    ];
    let result = check("file", &expected, &[("atomic+dsync", "a device with atomic writes")]);
    assert!(!is_found(&result), "a file is not flushed");
}

#[test]
#[ignore = "needs what an emulated machine left; run by `cargo xtask test`"]
fn on_the_raw_device_plain_calls_flush_as_well_and_atomic_writes_run() {
    use Commit::{Forced, ForcedAndFlushed};
    let expected = [
        ("direct+dsync", ForcedAndFlushed),
        ("direct+rwf-dsync", ForcedAndFlushed),
        ("atomic+dsync", ForcedAndFlushed),
        ("uring-direct-fixed-dsync", Forced),
        ("uring-direct-iopoll", Forced),
    ];
    assert!(is_found(&check("raw", &expected, &[])), "the raw device is flushed");
}
