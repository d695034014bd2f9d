//! Tests that layers which ignore syncs are detected, named and lower the durability class.
//!
//! Each test sets up one such layer for real and runs the program on it.

mod stacks;

use crate::ground::{Ground, Mount, folder};
use crate::program::{Bench, Run, SMALL, measured, names};
use seawall_sys::durability::{DeviceCache, Durability, Lie, Promiser};
use std::path::Path;

/// Methods on which a lie must show, and one past libc's reach.
const METHODS: [&str; 2] = ["--methods", "buffered+fdatasync,dsync,direct+dsync,rwf-dsync"];

fn bench(folder: &Path, more: &[&str]) -> Bench {
    Bench::new(folder, &[&SMALL[..], &METHODS, more].concat())
}

/// The lie is in the result, with evidence that holds `word`, and the report tells of it.
fn named(run: &Run, lie: Lie, word: &str) {
    let lies = run.result().environment.lies;
    let found = lies.iter().find(|found| found.lie == lie);
    let found = found.unwrap_or_else(|| panic!("{lie:?} was not found, only {lies:?}"));
    assert!(found.evidence.contains(word), "{:?} does not say {word}", found.evidence);
    assert!(run.printed().contains(word), "{} does not say {word}", run.printed());
}

fn refused(run: &Run, folder: &Path, words: &[&str]) {
    assert_eq!(run.code, Some(1), "{}", run.printed());
    for word in words {
        assert!(run.stderr.contains(word), "{:?} does not say {word}", run.stderr);
    }
    assert!(run.stderr.contains("--allow-memory"), "{:?} names no remedy", run.stderr);
    assert_eq!(names(folder), Vec::<String>::new());
}

#[test]
#[ignore = "needs root and a loop device; run by `cargo xtask test`"]
fn an_image_file_in_memory_is_memory_all_the_same() {
    let memory = folder();
    let _mount = Mount::new("tmpfs", "size=256m", "none", memory.path());
    let ground = Ground::new_in(memory.path(), "ext4", 128, "defaults");
    let run = bench(ground.path(), &[]).run();
    assert_eq!(run.code, Some(1), "{}", run.printed());
    assert!(run.stderr.contains("--allow-memory"), "{}", run.stderr);
}

#[test]
#[ignore = "needs eatmydata; run by `cargo xtask test`"]
fn a_preload_library_that_eats_syncs_is_named_and_costs_the_class() {
    let folder = folder();
    let run = bench(folder.path(), &[]).with("LD_PRELOAD", "libeatmydata.so").run();
    named(&run, Lie::Preload, "eatmydata");
    let result = run.result();
    let class = |id: &str| measured(&result, id).class().expect("a class");
    assert_eq!(class("buffered+fdatasync"), Durability::ProcessCrash);
    assert_eq!(class("dsync"), Durability::ProcessCrash, "the library also takes O_DSYNC off open");
    assert_eq!(class("direct+dsync"), Durability::SystemCrash);
    assert_eq!(class("rwf-dsync"), Durability::PowerLoss, "flags of a write go past the library");
}

#[test]
#[ignore = "needs root and an overlay; run by `cargo xtask test`"]
fn an_overlay_that_ignores_syncs_is_refused_and_if_insisted_on_promises_nothing() {
    let ground = Ground::new("ext4", 128, "defaults");
    let merged = Mount::overlay(ground.path(), ",volatile");
    refused(&bench(merged.path(), &[]).run(), merged.path(), &["volatile"]);
    let run = bench(merged.path(), &["--allow-memory"]).run();
    named(&run, Lie::SyncDisabled, "volatile");
    for (row, measured) in run.result().measured() {
        assert_eq!(measured.class(), Some(Durability::ProcessCrash), "{}", row.id);
    }
}

#[test]
#[ignore = "needs root and an overlay; run by `cargo xtask test`"]
fn an_overlay_whose_upper_folder_cannot_be_seen_and_answers_as_memory_promises_nothing_and_says_so() {
    let memory = folder();
    let _mount = Mount::new("tmpfs", "size=256m", "none", memory.path());
    let merged = Mount::hidden_overlay(memory.path());
    let methods = ["--methods", "direct,sync-file-range,buffered+fdatasync"];
    let run = Bench::new(merged.path(), &[&SMALL[..], &methods].concat()).run();
    drop(merged);
    let result = run.result();
    for (row, measured) in result.measured() {
        let durability = measured.durability.as_ref().expect("a class");
        assert_eq!(durability.class, Durability::ProcessCrash, "{}: {}", row.id, run.printed());
        assert_eq!(durability.promised_by, Promiser::Unknown, "{}", row.id);
    }
    let sync = measured(&result, "buffered+fdatasync").durability.as_ref().expect("a class");
    assert!(sync.because.iter().any(|why| why.contains("cannot be seen from here")), "{:?}", sync.because);
    assert!(run.printed().contains("shown to outlive POWER LOSS"), "{}", run.printed());
    assert!(!run.printed().contains("usual for NVMe"), "{}", run.printed());
}

#[test]
#[ignore = "needs a C compiler and counts a device that others may use; run by `cargo xtask test`"]
fn a_library_that_drops_one_sync_in_two_or_in_twenty_is_convicted_by_what_the_device_counts() {
    for n in [2, 20] {
        let folder = folder();
        let library = stacks::liar(folder.path(), n);
        let options = ["--journal", "16MiB", "--transactions", "3000", "--rounds", "2"];
        let options = [&options[..], &["--methods", "buffered+fdatasync"]].concat();
        let run = Bench::new(folder.path(), &options).with("LD_PRELOAD", &library).run();
        let result = run.result();
        let counted = measured(&result, "buffered+fdatasync");
        let Some(counts) = counted.counts else { return };
        // A neighbour's flushes hide what is missing, and a disk without a volatile cache needs none.
        let hidden = counts.flushes * 100 > counted.commits * 97
            || result.environment.device_cache() != DeviceCache::WriteBack
            || counted.class() != Some(Durability::PowerLoss);
        assert!(
            hidden || run.printed().contains("NOT CONFIRMED"),
            "one in {n}: {} flushes of {} commits: {}",
            counts.flushes,
            counted.commits,
            run.printed()
        );
    }
}
