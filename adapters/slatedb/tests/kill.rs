//! Tests that what was acknowledged outlives kill -9, over many lives of one database.
//!
//! The lives are the example `puts`. `SEAWALL_KILLS` chooses how many; the default is for a quick test.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[path = "../examples/puts.rs"]
mod example;

const CHILD: &str = "SEAWALL_PUTS";
const KILLS: u64 = 12;

/// The example, as a process of this program.
fn puts() -> Command {
    let mut puts = Command::new(std::env::current_exe().expect("has a path"));
    puts.env(CHILD, "1");
    puts
}

fn main() {
    // What `cargo test -- --list` and its kin ask for.
    if std::env::args().any(|argument| argument == "--list") {
        println!("everything_acknowledged_is_there_after_a_kill: test");
        return;
    }
    if std::env::var_os(CHILD).is_some() {
        return example::main().expect("is acknowledged, or right");
    }
    let kills = std::env::var("SEAWALL_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a directory");
    let (data, said) = (dir.path().join("data"), dir.path().join("said"));
    std::fs::create_dir(&data).expect("is made");
    let mut newest = None;
    for round in 0..kills {
        let mut child =
            puts().arg(&data).args(["write", "100000"]).stdout(Stdio::piped()).spawn().expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        // Early in some lives, at the latest after some flushes of the memtable; what is in the pipe at the end counts too.
        for _ in 0..round * round * 37 % 701 {
            newest = Some(lines.next().expect("goes on until it is killed").expect("is text"));
        }
        child.kill().expect("is killed");
        child.wait().expect("is gone");
        newest = lines.map_while(Result::ok).last().or(newest);
        std::fs::write(&said, newest.as_deref().unwrap_or_default()).expect("is written");
        let checked = puts().arg(&data).arg("check").arg(&said).status().expect("starts");
        assert!(checked.success(), "after kill {round}, {newest:?} was acknowledged");
    }
    let newest: u64 = newest.and_then(|newest| newest.parse().ok()).expect("something was acknowledged");
    assert!(newest > kills * 10, "{newest} acknowledged writes prove little");
    println!("test everything_acknowledged_is_there_after_a_kill ... ok ({newest} writes, {kills} kills)");
}
