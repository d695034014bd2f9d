//! Kills a process again and again over one folder: what it printed as acknowledged must be there.
//!
//! The process is the test program itself. `SEAWALL_KILLS` chooses how many lives it has; the default is for a quick test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const CHILD: &str = "SEAWALL_KILLED";
const KILLS: u64 = 12;

/// This program, as the process that is killed or that checks what is there.
pub(crate) fn program(dir: &Path) -> Command {
    let mut program = Command::new(std::env::current_exe().expect("has a path"));
    program.env(CHILD, "1").arg(dir);
    program
}

/// The test program: the `child` if it was started as that, else the test, which gets the number of kills and returns what they prove.
pub(crate) fn run(name: &str, child: impl FnOnce(), test: impl FnOnce(u64) -> String) {
    // What runners of tests ask for, also of those that are ignored.
    let asked = |word: &str| std::env::args().any(|argument| argument == word);
    if asked("--list") {
        if !asked("--ignored") {
            println!("{name}: test");
        }
        return;
    }
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let kills = std::env::var("SEAWALL_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number"));
    let proven = test(kills);
    println!("test {name} ... ok ({proven}, {kills} kills)");
}

/// Kills `program` as often, and has what it printed in each life checked.
pub(crate) fn kill(program: &mut Command, kills: u64, mut check: impl FnMut(u64, Vec<String>)) {
    for round in 0..kills {
        let mut child = program.stdout(Stdio::piped()).spawn().expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        // Early in some lives, late in others; what is in the pipe at the end counts too.
        let mut said = Vec::new();
        for _ in 0..round * round * 37 % 701 {
            said.push(lines.next().expect("goes on until it is killed").expect("is text"));
        }
        child.kill().expect("is killed");
        child.wait().expect("is gone");
        said.extend(lines.map_while(Result::ok));
        check(round, said);
    }
}

/// The test program of an example, `DIR write N` and `DIR check FILE`, which prints numbers.
#[allow(dead_code, reason = "a test may have a program of its own")]
pub(crate) fn main<E: std::fmt::Debug>(example: fn() -> Result<(), E>) {
    let child = || example().expect("is acknowledged, or right");
    run("everything_acknowledged_is_there_after_a_kill", child, |kills| {
        let dir = tempfile::tempdir().expect("a directory");
        let (data, said) = (dir.path().join("data"), dir.path().join("said"));
        std::fs::create_dir(&data).expect("is made");
        let mut newest = None;
        kill(program(&data).args(["write", "100000"]), kills, |round, mut lines| {
            newest = lines.pop().or(newest.take());
            std::fs::write(&said, newest.as_deref().unwrap_or_default()).expect("is written");
            let checked = program(&data).arg("check").arg(&said).status().expect("starts");
            assert!(checked.success(), "after kill {round}, {newest:?} was acknowledged");
        });
        let newest: u64 = newest.and_then(|newest| newest.parse().ok()).expect("something was acknowledged");
        assert!(newest > kills * 10, "{newest} acknowledged writes prove little");
        format!("{newest} writes")
    });
}
