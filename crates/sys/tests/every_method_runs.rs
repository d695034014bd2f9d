//! Tests that every row of the method table writes the given bytes to a real file, or is refused with a reason.
//!
//! The tests assert content, never latencies.

use seawall_sys::buffer::Aligned;
use seawall_sys::{CommitHandle, OpenError, Target, methods, open, prove};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

const WRITE_BYTES: usize = 16 << 10;
/// Less than a page: buffered writes of it need the page in the cache, writes around the cache never do.
const SMALL_WRITE_BYTES: usize = 1 << 10;
const JOURNAL_BYTES: u64 = 1 << 20;

/// A folder on the file system of the build tree: the temporary folder may be in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder in the build tree")
}

/// Makes a zero-filled journal.
fn make(path: &Path) -> File {
    let mut file = File::create_new(path).expect("made");
    std::io::copy(&mut std::io::repeat(0).take(JOURNAL_BYTES), &mut file).expect("written");
    file.sync_all().expect("synced");
    file
}

fn commit_twice(commit: &mut dyn CommitHandle, bytes: usize) -> seawall_sys::Result<()> {
    for (seed, offset) in [(1, 0), (2, JOURNAL_BYTES - bytes as u64)] {
        commit.warm(offset..offset + bytes as u64)?;
        commit.write(offset, Aligned::incompressible(bytes, seed).as_slice())?;
        commit.sync()?;
    }
    Ok(())
}

#[test]
fn every_method_of_this_system_commits_the_bytes_it_was_given_or_says_why_not() {
    let rows = methods::here().len();
    let ran = run_all(WRITE_BYTES);
    assert!(
        ran >= 5,
        "only {ran} of {rows} methods ran: every system has at least five that need nothing special"
    );
    let ran = run_all(SMALL_WRITE_BYTES);
    assert!(ran >= 3, "only {ran} of {rows} methods wrote less than a page");
}

/// How many methods committed writes of `bytes`; the others said why not.
fn run_all(bytes: usize) -> usize {
    let dir = folder();
    let mut ran = 0;
    for method in methods::here() {
        let path = dir.path().join(method.id);
        make(&path);
        let target = Target { path: path.clone(), journal_bytes: JOURNAL_BYTES, write_bytes: bytes };
        match prove(method, &target, None).and_then(|()| open(method, &target, None)) {
            Ok(mut commit) => {
                let committed = commit_twice(commit.as_mut(), bytes);
                committed.unwrap_or_else(|error| panic!("{} with {bytes} bytes: {error}", method.id));
                drop(commit);
                let content = std::fs::read(&path).expect("read back");
                assert_eq!(content.len() as u64, JOURNAL_BYTES, "{}", method.id);
                assert!(content.starts_with(Aligned::incompressible(bytes, 1).as_slice()), "{}", method.id);
                assert!(content.ends_with(Aligned::incompressible(bytes, 2).as_slice()), "{}", method.id);
                let between = &content[bytes..content.len() - bytes];
                assert!(between.iter().all(|byte| *byte == 0), "{} wrote elsewhere", method.id);
                ran += 1;
            }
            Err(OpenError::Unavailable(reason)) => println!("{}: n/a: {reason}", method.id),
            Err(error) => panic!("{}: {error}", method.id),
        }
    }
    ran
}

#[test]
fn several_handles_hold_one_journal_open_by_any_two_methods() {
    let dir = folder();
    let path = dir.path().join("shared");
    let made = make(&path);
    let target = Target { path, journal_bytes: JOURNAL_BYTES, write_bytes: WRITE_BYTES };
    let handles: Vec<_> =
        methods::here().iter().map(|method| (method.id, open(method, &target, None))).collect();
    for (id, handle) in &handles {
        if let Err(OpenError::Failed(error)) = handle {
            panic!("{id}: {error}");
        }
    }
    drop(made);
}

#[test]
fn a_method_of_another_system_is_refused_by_name() {
    let here = methods::here()[0].system;
    let elsewhere =
        methods::ALL.into_iter().flatten().find(|method| method.system != here).expect("another system");
    let target = Target { path: "nothing".into(), journal_bytes: 1, write_bytes: 512 };
    let refused = open(elsewhere, &target, None).err().expect("refused");
    assert!(matches!(refused, OpenError::Unavailable(_)), "{refused}");
}

#[test]
fn a_missing_journal_is_an_error_that_names_it() {
    let dir = folder();
    let path = dir.path().join("missing");
    let target = Target { path: path.clone(), journal_bytes: JOURNAL_BYTES, write_bytes: WRITE_BYTES };
    let error = open(&methods::here()[0], &target, None).err().expect("refused").to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
}
