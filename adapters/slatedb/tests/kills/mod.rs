//! Kills a program again and again over one folder: what it printed as acknowledged must be there.
//!
//! The program is an example, `DIR write N` and `DIR check FILE`, which is started as the test itself. `SEAWALL_KILLS` chooses how
//! many lives it has; the default is for a quick test.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const CHILD: &str = "SEAWALL_KILLED";
const KILLS: u64 = 12;

/// The example, as a process of this program.
fn program() -> Command {
    let mut program = Command::new(std::env::current_exe().expect("has a path"));
    program.env(CHILD, "1");
    program
}

/// The test program: the example if it was started as that, else the test.
pub(crate) fn main<E: std::fmt::Debug>(example: fn() -> Result<(), E>) {
    // What runners of tests ask for, also of those that are ignored.
    let asked = |word: &str| std::env::args().any(|argument| argument == word);
    if asked("--list") {
        if !asked("--ignored") {
            println!("everything_acknowledged_is_there_after_a_kill: test");
        }
        return;
    }
    if std::env::var_os(CHILD).is_some() {
        return example().expect("is acknowledged, or right");
    }
    let kills = std::env::var("SEAWALL_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a directory");
    let (data, said) = (dir.path().join("data"), dir.path().join("said"));
    std::fs::create_dir(&data).expect("is made");
    let mut newest = None;
    for round in 0..kills {
        let mut child =
            program().arg(&data).args(["write", "100000"]).stdout(Stdio::piped()).spawn().expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        // Early in some lives, late in others; what is in the pipe at the end counts too.
        for _ in 0..round * round * 37 % 701 {
            newest = Some(lines.next().expect("goes on until it is killed").expect("is text"));
        }
        child.kill().expect("is killed");
        child.wait().expect("is gone");
        newest = lines.map_while(Result::ok).last().or(newest);
        std::fs::write(&said, newest.as_deref().unwrap_or_default()).expect("is written");
        let checked = program().arg(&data).arg("check").arg(&said).status().expect("starts");
        assert!(checked.success(), "after kill {round}, {newest:?} was acknowledged");
    }
    let newest: u64 = newest.and_then(|newest| newest.parse().ok()).expect("something was acknowledged");
    assert!(newest > kills * 10, "{newest} acknowledged writes prove little");
    println!("test everything_acknowledged_is_there_after_a_kill ... ok ({newest} writes, {kills} kills)");
}
