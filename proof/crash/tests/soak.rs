//! Tests that one log survives several lives of writers, trims, followers and views that are killed, within its bounds.
#![cfg(target_os = "linux")]

use std::process::Command;

#[test]
fn a_soak_of_about_ten_seconds_loses_nothing_and_stays_within_its_bounds() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut soak = Command::new(env!("CARGO_BIN_EXE_seawall-crash"));
    let output = soak.args(["soak", "--seconds", "10", "--lives", "8", "--dir"]).arg(dir.path()).output();
    let output = output.expect("starts");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("lives killed") && said.contains("acknowledged"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0, "nothing is left behind");
}
