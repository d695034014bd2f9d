//! Tests that the probe returns a result for every input and removes its file.

use crate::fixture::scratch;
use seawall::{Durability, PROBE_COMMITS_MAX, Probe, probe};
use std::path::Path;
use std::time::Duration;

/// The budget that a machine under other tests needs, too: whatever it is, the probe ends.
const LONG: Duration = Duration::from_mins(1);

fn names(dir: &Path) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(dir).expect("readable").flatten().map(|entry| entry.file_name()).collect()
}

/// Commits made: the file's own, a proof and the timed ones of each row.
fn commits(probe: &Probe) -> usize {
    1 + probe.tried.iter().map(|tried| 1 + tried.commits).sum::<usize>()
}

#[test]
fn it_tells_a_method_with_its_figures_and_removes_its_file() {
    let dir = scratch();
    let probe = probe(dir.path(), LONG);
    if let (Some(fastest), None) = (&probe.fastest, &probe.problem) {
        assert!(probe.tried.contains(fastest));
        assert!(probe.tried.iter().all(|tried| tried.p50 <= tried.max && tried.commits > 0));
        assert!(probe.class.is_some() && probe.promised_by.is_some());
        assert!(probe.class == Some(Durability::PowerLoss) || !probe.because.is_empty());
    } else {
        // A disk that is busy for a second: then that is what must be reported.
        assert!(probe.problem.is_some(), "{probe:?}");
    }
    assert!(commits(&probe) <= PROBE_COMMITS_MAX, "{probe:?}");
    assert!(probe.left_behind.is_some() || names(dir.path()).is_empty(), "{:?}", names(dir.path()));
}

#[test]
fn what_cannot_be_probed_is_a_field_not_a_failure() {
    let dir = scratch();
    let missing = probe(&dir.path().join("missing"), LONG);
    assert!(missing.problem.as_ref().is_some_and(|problem| problem.contains("missing")), "{missing:?}");
    assert!(missing.fastest.is_none() && missing.left_behind.is_none());
    let file = dir.path().join("file");
    std::fs::write(&file, b"text").expect("written");
    assert!(probe(&file, LONG).problem.is_some());
    assert_eq!(std::fs::read(&file).expect("read"), b"text");
    let hurried = probe(dir.path(), Duration::ZERO);
    assert!(hurried.problem.is_some() && hurried.fastest.is_none(), "{hurried:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn memory_keeps_nothing_and_that_is_said() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    let probe = probe(dir.path(), LONG);
    assert!(probe.class.is_none_or(|class| class == Durability::ProcessCrash), "{probe:?}");
    assert!(!probe.because.is_empty(), "{probe:?}");
}
