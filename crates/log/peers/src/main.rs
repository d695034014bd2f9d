//! Benchmarks other write-ahead logs against Seawall and the raw disk; run by `cargo xtask peers`.
//!
//! ```text
//! seawall-peers DIR [--rounds N]           the table
//! seawall-peers DIR --commits NAME N       N commits of one row between two marks, for counting system calls
//! seawall-peers --list                     the names of the rows
//! ```
//!
//! Invariants: all rows of a workload write the same records into the same file system, in turns of 50 ms; a row that
//! cannot run is an error with its name, never a missing line.

mod floor;
mod measure;
mod okaywal;
mod raft_engine;
mod sqlite;
mod subjects;
mod table;
mod this_log;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use measure::{Fault, WORKLOADS};
use subjects::{SUBJECTS, Subject};

/// About 90 seconds.
const ROUNDS: usize = 80;
const ROUNDS_MAX: usize = 10_000;
/// Files that are never there: trying to open them tells strace where commits begin and end.
const MARKS: [&str; 2] = ["seawall-peers-begin", "seawall-peers-end"];
/// Record of the commits that are counted.
const COUNTED_BYTES: usize = 256;

/// What the command line asks for.
#[derive(Debug, PartialEq)]
enum Wish {
    List,
    Measure { dir: PathBuf, rounds: usize },
    Commit { dir: PathBuf, name: String, count: u64 },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match wish(&arguments).map_err(Fault::from).and_then(fulfil) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("seawall-peers: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn wish(arguments: &[String]) -> Result<Wish, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |option: &str, word: &str, most: u64| {
        let number = word.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| format!("{option} wants a number from 1 to {most}, not {word}"))
    };
    let rounds = |word: &str| -> Result<usize, String> {
        let rounds = number("--rounds", word, ROUNDS_MAX as u64)?;
        usize::try_from(rounds).map_err(|error| error.to_string())
    };
    match words[..] {
        ["--list"] => Ok(Wish::List),
        [dir] if !dir.starts_with("--") => Ok(Wish::Measure { dir: dir.into(), rounds: ROUNDS }),
        [dir, "--rounds", word] => Ok(Wish::Measure { dir: dir.into(), rounds: rounds(word)? }),
        [dir, "--commits", name, word] => {
            let count = number("--commits", word, 1_000_000)?;
            Ok(Wish::Commit { dir: dir.into(), name: name.into(), count })
        }
        _ => Err("it is `DIR [--rounds N]`, `DIR --commits NAME N` or `--list`".to_owned()),
    }
}

fn fulfil(wish: Wish) -> Result<(), Fault> {
    match wish {
        Wish::List => SUBJECTS.iter().for_each(|subject| println!("{}", subject.name)),
        Wish::Measure { dir, rounds } => {
            let scratch = Scratch::new(&dir)?;
            let mut parts = Vec::new();
            for workload in &WORKLOADS {
                eprintln!("{} {}", workload.name, workload.what);
                parts.push((workload, measure::run(workload, &scratch.0, rounds)?));
            }
            print!("{}", table::table(&parts));
        }
        Wish::Commit { dir, name, count } => {
            let scratch = Scratch::new(&dir)?;
            commits(subjects::find(&name)?, &scratch.0, count)?;
        }
    }
    Ok(())
}

/// Commits `count` times in one thread, between the two marks.
fn commits(subject: &Subject, dir: &Path, count: u64) -> Result<(), Fault> {
    let home = dir.join(subject.name);
    std::fs::create_dir_all(&home)?;
    let mut writers = (subject.open)(&home, 1, COUNTED_BYTES)?;
    let writer = writers.first_mut().ok_or("opened without a writer")?;
    let mut record = measure::record(COUNTED_BYTES);
    let mark = |name: &str| drop(File::open(dir.join(name)));
    // What a log does once only is none of a commit's calls.
    writer.commit(&record)?;
    mark(MARKS[0]);
    for number in 0..count {
        measure::renew(&mut record, number);
        writer.commit(&record)?;
    }
    mark(MARKS[1]);
    Ok(())
}

/// A directory below the given one, removed afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(dir: &Path) -> Result<Self, Fault> {
        let path = dir.join(format!("seawall-peers-{}", std::process::id()));
        let made = std::fs::create_dir_all(&path);
        made.map_err(|error| format!("cannot make {}: {error}; name a folder to write in", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is named after this program.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{ROUNDS, Wish, wish};

    fn of(words: &[&str]) -> Result<Wish, String> {
        wish(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn wishes_are_understood_or_refused_by_name() {
        assert_eq!(of(&["--list"]), Ok(Wish::List));
        assert_eq!(of(&["/d"]), Ok(Wish::Measure { dir: "/d".into(), rounds: ROUNDS }));
        assert_eq!(of(&["/d", "--rounds", "3"]), Ok(Wish::Measure { dir: "/d".into(), rounds: 3 }));
        let counted = Wish::Commit { dir: "/d".into(), name: "floor".into(), count: 9 };
        assert_eq!(of(&["/d", "--commits", "floor", "9"]), Ok(counted));
        for words in
            [&["/d", "--rounds", "0"][..], &["/d", "--rounds", "many"], &["/d", "--rounds"], &["--help"]]
        {
            let refusal = of(words).expect_err("nonsense");
            assert!(refusal.contains("--rounds"), "{refusal}");
        }
    }
}
