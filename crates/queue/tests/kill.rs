//! Tests that processes which share a queue lose nothing when any of them is killed, the owner of the log included.
//!
//! The processes are the example `jobs`. `SEAWALL_KILLS` chooses how many are killed; the default is for a quick test.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

#[path = "../examples/jobs.rs"]
mod example;

const CHILD: &str = "SEAWALL_JOBS";
const KILLS: u64 = 20;
const PRODUCERS: u64 = 2;
const PROCESSES: u64 = 5;
/// Numbers of one life of a producer.
const NUMBERS: u64 = 1_000_000;

/// Starts the process `at`, whose lines go to `lines`.
fn start(dir: &Path, at: u64, life: u64, lines: &Sender<String>) -> Child {
    let mut jobs = Command::new(std::env::current_exe().expect("has a path"));
    jobs.env(CHILD, "1").arg(dir).stdout(Stdio::piped());
    if at < PRODUCERS {
        let first = (life * PRODUCERS + at) * NUMBERS;
        jobs.arg("put").arg(first.to_string()).arg(NUMBERS.to_string());
    } else {
        jobs.arg("work");
    }
    let mut child = jobs.spawn().expect("starts");
    let output = BufReader::new(child.stdout.take().expect("is piped"));
    let lines = lines.clone();
    std::thread::spawn(move || {
        // A line that was cut short is none.
        for line in output.split(b'\n').map_while(Result::ok) {
            let _ = lines.send(String::from_utf8(line).expect("is text"));
        }
    });
    child
}

/// What the processes said.
#[derive(Default)]
struct Said {
    put: BTreeSet<u64>,
    got: BTreeSet<u64>,
    /// By ID: when it was known to be done.
    done: BTreeMap<u64, u64>,
    /// By ID and attempt: when it was asked for.
    attempts: BTreeMap<(u64, u64), u64>,
}

impl Said {
    fn take_in(&mut self, line: &str) {
        let mut words = line.split(' ');
        let what = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        match (what, &numbers[..]) {
            ("put", [number]) => assert!(self.put.insert(*number), "{line} twice"),
            ("got", [id, number, attempt, before]) => {
                self.got.insert(*number);
                let same = self.attempts.insert((*id, *attempt), *before);
                assert!(same.is_none(), "{line}: that attempt was not counted");
            }
            ("done", [id, _, after]) => drop(self.done.insert(*id, *after)),
            // It was killed in the middle of a line.
            _ => {}
        }
    }

    fn lost(&self) -> ! {
        let mut lost = self.put.difference(&self.got);
        panic!("{:?} and {} others were put and never came", lost.next(), lost.count());
    }

    fn check(&self) {
        for ((id, attempt), before) in &self.attempts {
            let done = self.done.get(id).copied().unwrap_or(u64::MAX);
            assert!(*before < done, "{id} was asked for in attempt {attempt}, and came, when it was done");
        }
    }
}

fn take_in(said: &mut Said, lines: &Receiver<String>, pause: Duration) {
    while let Ok(line) = lines.recv_timeout(pause) {
        said.take_in(&line);
    }
}

fn main() {
    // What runners of tests ask for, also of those that are ignored.
    let asked = |word: &str| std::env::args().any(|argument| argument == word);
    if asked("--list") {
        if !asked("--ignored") {
            println!("nothing_is_lost_whichever_process_is_killed: test");
        }
        return;
    }
    if std::env::var_os(CHILD).is_some() {
        return example::main().expect("goes on until it is killed");
    }
    let kills = std::env::var("SEAWALL_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("jobs");
    let (sender, lines) = channel();
    let mut said = Said::default();
    let mut children: Vec<Child> = (0..PROCESSES).map(|at| start(&path, at, 0, &sender)).collect();
    for kill in 0..kills {
        // Some live so briefly that they did not open it; every other time they come to something before.
        std::thread::sleep(Duration::from_millis(kill * kill * 37 % 301));
        let enough = (said.put.len() + 20, said.done.len() + 20);
        while kill % 2 == 0 && (said.put.len() < enough.0 || said.done.len() < enough.1) {
            said.take_in(&lines.recv_timeout(Duration::from_mins(1)).expect("somebody goes on"));
        }
        // The first is the owner at first; whoever takes over is found out in time, because each comes in turn.
        let at = kill % PROCESSES;
        let child = &mut children[usize::try_from(at).expect("is small")];
        child.kill().expect("is killed");
        child.wait().expect("is gone");
        *child = start(&path, at, kill + 1, &sender);
        while let Ok(line) = lines.try_recv() {
            said.take_in(&line);
        }
    }
    // Consumers do what is left.
    for mut child in children.drain(..usize::try_from(PRODUCERS).expect("is small")) {
        child.kill().expect("is killed");
        child.wait().expect("is gone");
    }
    while !said.put.is_subset(&said.got) {
        said.take_in(&lines.recv_timeout(Duration::from_mins(1)).unwrap_or_else(|_| said.lost()));
    }
    // What was done must not come again.
    take_in(&mut said, &lines, Duration::from_secs(1));
    for child in &mut children {
        assert!(child.try_wait().expect("waits").is_none(), "a process has ended by itself");
        let _ = child.kill();
        child.wait().expect("is gone");
    }
    take_in(&mut said, &lines, Duration::from_millis(200));
    said.check();
    let (put, done) = (said.put.len(), said.done.len());
    assert!(put as u64 > kills * 10 && done as u64 > kills * 10, "{put} puts and {done} done prove little");
    println!(
        "test nothing_is_lost_whichever_process_is_killed ... ok ({put} put, {done} done, {kills} kills)"
    );
}
