//! Tests that each method makes the device do what its reach demands, by a loop device's counters.
//!
//! ```text
//!   K kernel memory    no flush
//!   O on the device    no flush, but the bytes were written
//!   D durable          at least one flush a commit, or one for each of its writes, and the bytes were written
//! ```
//!
//! A method with durable calls whose class on that file system is below power loss need not flush (syncfs on XFS):
//! the device is checked against the class.
//!
//! The loop device has a volatile write cache and no FUA, so that a durable commit cannot do without a flush. Only
//! the test and the file system's own journal write to it, so that flushes above one a commit prove nothing, and a
//! few in all are allowed to methods that cause none.

use crate::ground::Ground;
use seawall::{Engine, Log, MethodChoice, Options};
use seawall_gauge::evidence::flushes_needed;
use seawall_gauge::report::{self, Style};
use seawall_gauge::result::RunResult;
use seawall_gauge::row::{Measured, Outcome};
use seawall_gauge::scenario::settings::{Amount, Settings};
use seawall_gauge::scenario::{RunError, Unwatched, commit};
use seawall_gauge::testbed::real::RealTestbed;
use seawall_host::journal::Recipe;
use seawall_sys::counters::Reader;
use seawall_sys::durability::{Durability, FileState, Lie};
use seawall_sys::inspect::{Device, Environment, environment};

const COMMITS: u64 = 96;
const SYSTEMS: [(&str, u64); 3] = [("ext4", 128), ("xfs", 320), ("btrfs", 256)];

/// Flushes that the file system's own timers may cause in a block.
const STRAY_FLUSHES: u64 = 3;

/// The surroundings of the ground, as if nothing lay under its loop device.
fn loop_alone(ground: &Ground) -> Environment {
    let mut found = environment(ground.path()).expect("the mount is known");
    let name = ground.device().to_owned();
    let this = found.devices.iter().find(|device| device.name == name);
    let device = this.cloned().unwrap_or_else(|| panic!("{name} is not among {:?}", found.devices));
    found.devices = vec![Device { stands_on: Vec::new(), ..device }];
    found
}

/// The gauge's own run over all methods, with the loop device for its only leaf: the walk goes on to the disk
/// under the image, whose counters hold everybody's writes.
fn measure(ground: &Ground, state: FileState, writes: u32) -> Result<RunResult, RunError> {
    let found = loop_alone(ground);
    let settings = Settings {
        writes,
        journal: Recipe { state, bytes: 2 << 20, fill_bytes: 1 << 20, keep_cached: false },
        amount: Amount::Transactions(COMMITS),
        rounds: 1,
        methods: seawall_sys::methods::here().iter().collect(),
        others: Vec::new(),
        ..commit::settings()
    };
    let mut testbed = RealTestbed::in_folder(ground.path(), found);
    commit::run(&settings, &mut testbed, &mut Unwatched::default())
}

fn check(kind: &str, result: &RunResult) {
    assert_eq!(result.environment.lies, [], "an honest mount is not accused");
    let mut kinds = [0; 3];
    let mut wrong = Vec::new();
    for row in &result.study.rows {
        match &row.outcome {
            Outcome::Measured(measured) => {
                let place =
                    usize::from(measured.letter == Some('O')) + 2 * usize::from(measured.letter == Some('D'));
                kinds[place] += 1;
                let complaint = complaint(measured, flushes_needed(result, row));
                wrong.extend(complaint.map(|reason| format!("{}: {reason}", row.id)));
            }
            Outcome::NotAvailable { reason } => println!("{kind}: {}: n/a: {reason}", row.id),
            Outcome::Failed { error, .. } => wrong.push(format!("{}: {error}", row.id)),
        }
    }
    assert!(wrong.is_empty(), "on {kind}:\n{}", wrong.join("\n"));
    let unpromised: Vec<&str> = result
        .measured()
        .filter(|(_, measured)| {
            measured.letter == Some('D') && measured.class() != Some(Durability::PowerLoss)
        })
        .map(|(row, _)| row.id.as_str())
        .collect();
    // No more may be let off than is known.
    assert_eq!(unpromised, if kind == "xfs" { vec!["buffered+syncfs"] } else { vec![] }, "on {kind}");
    let [kernel, device, durable] = kinds;
    assert!(kernel >= 1 && device >= 2 && durable >= 15, "on {kind} only {kinds:?} methods ran");
}

/// What the device did not do that the method's reach demands, or did though it does not.
fn complaint(measured: &Measured, flushes: u32) -> Option<String> {
    let Some(counts) = measured.counts else { return Some("the loop device has no counters".to_owned()) };
    let per_commit = counts.flushes as f64 / measured.commits as f64;
    let sectors = measured.bytes / 512;
    let promised = measured.class() == Some(Durability::PowerLoss);
    match measured.letter {
        Some('K' | 'O') if counts.flushes > STRAY_FLUSHES => {
            Some(format!("{per_commit:.2} flushes a commit, and it promises none"))
        }
        Some('D') if promised && counts.flushes < measured.commits * u64::from(flushes) => {
            Some(format!("{per_commit:.2} flushes a commit, and it promises durability"))
        }
        // msync and write-back may gather commits, but what is on the device was written there.
        Some('O' | 'D') if counts.sectors < sectors => {
            Some(format!("{} sectors were written for {sectors} committed", counts.sectors))
        }
        _ => None,
    }
}

#[test]
#[ignore = "needs root and a loop device; run by `cargo xtask test`"]
fn every_method_makes_the_device_do_what_it_promises() {
    for (kind, mib) in SYSTEMS {
        let ground = Ground::new(kind, mib, "defaults");
        check(kind, &measure(&ground, FileState::ZeroFilled, 1).expect("a run"));
    }
    let ground = Ground::new("ext4", 128, "defaults");
    check("ext4, unwritten", &measure(&ground, FileState::Unwritten, 1).expect("a run"));
}

#[test]
#[ignore = "needs root and a loop device; run by `cargo xtask test`"]
fn on_ext4_a_commit_of_two_writes_flushes_twice_where_each_write_is_durable_by_itself() {
    let ground = Ground::new("ext4", 128, "defaults");
    let result = measure(&ground, FileState::ZeroFilled, 2).expect("a run");
    check("ext4, two writes", &result);
    let twice = result.study.rows.iter().filter(|row| flushes_needed(&result, row) == 2).count();
    assert!(twice >= 8, "only {twice} rows flush each write");
}

#[test]
#[ignore = "needs root and a loop device; run by `cargo xtask test`"]
fn with_barriers_off_no_method_flushes_and_none_is_said_to_outlive_a_power_loss() {
    let ground = Ground::new("ext4", 128, "barrier=0");
    let result = measure(&ground, FileState::ZeroFilled, 1).expect("a run");
    let mut ran = 0;
    let lie = result.environment.lies.iter().find(|found| found.lie == Lie::BarriersOff);
    assert!(lie.is_some_and(|found| found.evidence.contains("barrier")), "{:?}", result.environment.lies);
    assert!(report::terminal(&result, 200, Style::PLAIN).contains("barrier"), "the report tells of it");
    for (row, measured) in result.measured() {
        let counts = measured.counts.expect("counters");
        assert!(counts.flushes <= STRAY_FLUSHES, "{}: {counts:?}", row.id);
        assert_ne!(measured.class(), Some(Durability::PowerLoss), "{}", row.id);
        ran += 1;
    }
    assert!(ran >= 20, "only {ran} methods ran");
}

/// Of each engine the durable methods that the log may use: what a commit of the *log* makes the device do. What goes
/// through a ring no tracer of system calls can see; the device counts it.
fn log_on(kind: &str, mib: u64) {
    const APPENDS: u64 = 48;
    let ground = Ground::new(kind, mib, "defaults");
    let reader = Reader::open(&loop_alone(&ground)).expect("the loop device has counters");
    let mut ran: Vec<(Engine, &str)> = Vec::new();
    for method in seawall_sys::methods::here() {
        let dir = ground.path().join(method.id);
        let options = Options::default()
            .segment_bytes(1 << 20)
            .batch_bytes(64 << 10)
            .memory_bytes(1 << 20)
            .idle_mark(std::time::Duration::from_mins(10))
            .method(MethodChoice::Named(method.id.to_owned()));
        let log = match Log::open(&dir, options) {
            Ok(log) => log,
            Err(seawall::Error::InvalidOption { reason, .. }) => {
                println!("{kind}: {}: n/a: {reason}", method.id);
                continue;
            }
            Err(error) => panic!("{kind}: {}: {error}", method.id),
        };
        assert_eq!((log.stats().method, log.stats().engine), (method.id, method.engine().name()));
        while !log.is_prepared() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let before = reader.read().expect("counters");
        for _ in 0..APPENDS {
            log.append_commit(&[7; 3000]).expect("commits");
        }
        let counts = reader.read().expect("counters").since(&before);
        assert!(counts.flushes >= APPENDS, "{kind}: {}: {counts:?} for {APPENDS} commits", method.id);
        assert!(counts.sectors >= APPENDS * 8, "{kind}: {}: {counts:?} for {APPENDS} commits", method.id);
        log.close().expect("closes");
        std::fs::remove_dir_all(&dir).expect("removes");
        ran.push((method.engine(), method.id));
    }
    for (engine, methods_min) in [(Engine::Portable, 8), (Engine::IoUring, 7)] {
        let own = ran.iter().filter(|(of, _)| *of == engine).count();
        assert!(own >= methods_min, "on {kind} only {ran:?} ran");
    }
}

#[test]
#[ignore = "needs root and a loop device; run by `cargo xtask test`"]
fn every_commit_of_the_log_flushes_the_device_on_either_engine() {
    for (kind, mib) in SYSTEMS {
        log_on(kind, mib);
    }
}
