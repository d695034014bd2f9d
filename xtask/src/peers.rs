//! `cargo xtask peers`: benchmarks other write-ahead logs after checking that each one syncs every commit.
//!
//! The benchmark is `crates/log/peers`, a package of its own. Before anything is measured, each row commits
//! [`COMMITS`] times under strace: a log that does not sync every commit is not compared with durable ones.
//!
//! Invariant: only the thread that commits is counted, between the two marks that it leaves, so that housekeeping of
//! another thread is never counted as a sync.

use crate::error::{Error, Result};
use crate::files;
use crate::options::above_zero;
use crate::shell::{cargo, command, output, root, status, target};
use crate::studies::print_load;
use crate::tools;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commits that are counted: none of the rows starts a segment in them.
const COMMITS: u32 = 200;
/// What writes or syncs, and what shows how a file was opened. `?`: not every architecture has it.
const CALLS: &str = "trace=openat,write,writev,pwrite64,?pwritev,?pwritev2,fsync,fdatasync,sync_file_range,msync,?io_uring_enter";
/// The names that the program opens in vain around its commits.
const MARKS: [&str; 2] = ["seawall-peers-begin", "seawall-peers-end"];

/// Where it is measured, and for how many rounds if that was said.
#[derive(Debug, PartialEq)]
struct Wish {
    folder: PathBuf,
    rounds: Option<u32>,
}

fn wish(arguments: &[String]) -> Result<Wish> {
    let mut wish = Wish { folder: target().join("peers/journals"), rounds: None };
    let mut words = arguments.iter();
    let mut named = false;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => wish.rounds = Some(above_zero(word, &mut words)?),
            option if option.starts_with('-') || named => {
                let usage = "it is `cargo xtask peers [DIR] [--rounds N]`";
                return Err(Error::usage(format!("{option} is unknown; {usage}")));
            }
            folder => {
                wish.folder = std::path::absolute(folder).map_err(Error::at(folder))?;
                named = true;
            }
        }
    }
    Ok(wish)
}

/// Provides what the benchmark needs and builds it; gives its program.
///
/// # Errors
/// What cannot be had here.
pub(crate) fn prepare() -> Result<PathBuf> {
    tools::provide(&tools::PEERS)?;
    status(here(&["build", "--release", "--locked", "--quiet"]))?;
    Ok(target().join("peers/release/seawall-peers"))
}

/// Builds the program, counts every row's calls, measures, and prints both.
pub(crate) fn run(arguments: &[String]) -> Result {
    let wish = wish(arguments)?;
    let folder = wish.folder.display().to_string();
    files::make_folder(&wish.folder)?;
    let program = prepare()?;
    let mut lines = Vec::new();
    for name in output(command(&program, &["--list"]))?.lines() {
        let calls = counted(&program, name, &folder)?;
        if !calls.every_commit_is_synced() {
            return Err(Error::check(format!(
                "{name} does not sync every commit ({calls}): it must not be set beside durable logs"
            )));
        }
        lines.push(format!("{name}: {calls}"));
    }
    print_load();
    let mut words = vec![folder];
    if let Some(rounds) = wish.rounds {
        words.extend(["--rounds".to_owned(), rounds.to_string()]);
    }
    status(command(&program, &words))?;
    println!("\ncalls of one commit of one thread, counted by strace over {COMMITS}:\n{}", lines.join("\n"));
    Ok(())
}

/// Format and lints of the package, which the workspace's do not reach.
pub(crate) fn lint() -> Result {
    status(here(&["fmt", "--check"]))?;
    status(here(&["clippy", "--locked", "--all-targets", "--quiet", "--", "-Dwarnings"]))
}

/// The tests of the package.
pub(crate) fn tests() -> Command {
    here(&["test", "--locked", "--quiet"])
}

/// Where the package's manifest is.
pub(crate) fn manifest() -> PathBuf {
    root().join("crates/log/peers/Cargo.toml")
}

/// Cargo in the package's folder, whose settings SQLite is built by, with what it builds apart from the workspace's.
fn here(arguments: &[&str]) -> Command {
    let mut run = cargo(arguments);
    run.current_dir(root().join("crates/log/peers")).env("CARGO_TARGET_DIR", target().join("peers"));
    // As the workspace's profile has it.
    run.env("CARGO_PROFILE_DEV_DEBUG", "0");
    run
}

/// Has a row commit under strace.
fn counted(program: &Path, name: &str, folder: &str) -> Result<Calls> {
    let traces = target().join("peers/traces").join(name);
    // Those of an earlier run would be counted too.
    let _ = std::fs::remove_dir_all(&traces);
    files::make_folder(&traces)?;
    let mut strace = command("strace", &["-ff", "-e", CALLS, "-o"]);
    strace.arg(traces.join("thread")).arg(program).args([folder, "--commits", name, &COMMITS.to_string()]);
    output(strace)?;
    let unseen = || Error::check(format!("{name}: strace saw no commits between the marks"));
    Calls::of(&read_all(&traces)?).ok_or_else(unseen)
}

fn read_all(folder: &Path) -> Result<Vec<String>> {
    let text = |path: &PathBuf| {
        let bytes = std::fs::read(path).map_err(Error::at(path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    files::list(folder)?.iter().map(text).collect()
}

/// What the committing thread called between the marks.
#[derive(Debug, Default, PartialEq)]
struct Calls {
    /// Name, with ` O_DSYNC` behind it where the file was opened so; how often.
    counts: BTreeMap<String, u32>,
    /// Calls behind which what they wrote is durable.
    durable: u32,
}

impl Calls {
    /// From what strace wrote about each thread; nothing if no thread has both marks.
    fn of(threads: &[String]) -> Option<Self> {
        // A descriptor may be opened in one thread and written to in another. None of the rows closes one that was opened
        // so before its commits are over.
        let opened = threads.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("openat("));
        let durable_writes = opened.filter(|line| line.contains("O_DSYNC") || line.contains("O_SYNC"));
        let durable: BTreeSet<&str> =
            durable_writes.filter_map(|line| line.rsplit_once(" = ").map(|(_, fd)| fd.trim())).collect();
        let between = threads.iter().find_map(|text| {
            let (_, rest) = text.split_once(MARKS[0])?;
            let (between, _) = rest.split_once(MARKS[1])?;
            Some(between)
        })?;
        let mut calls = Self::default();
        // The rest of the first mark's line and the beginning of the last one's are none.
        for line in between.lines().skip(1).filter(|line| !line.starts_with("openat(")) {
            let Some((name, arguments)) = line.split_once('(') else { continue };
            let fd = arguments.split([',', ')']).next().unwrap_or_default();
            let synced = name.contains("write") && durable.contains(fd);
            calls.durable += u32::from(synced || matches!(name, "fsync" | "fdatasync"));
            let name = if synced { format!("{name} O_DSYNC") } else { name.to_owned() };
            *calls.counts.entry(name).or_default() += 1;
        }
        Some(calls)
    }

    fn every_commit_is_synced(&self) -> bool {
        self.durable >= COMMITS
    }
}

/// The calls of one commit.
impl fmt::Display for Calls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each =
            |(name, count): (&String, &u32)| format!("{:.2} {name}", f64::from(*count) / f64::from(COMMITS));
        out.write_str(&self.counts.iter().map(each).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMITS, Calls, wish};
    use crate::options::{refuses, words};

    const BEGIN: &str =
        "openat(AT_FDCWD, \"/d/seawall-peers-begin\", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file)\n";
    const END: &str =
        "openat(AT_FDCWD, \"/d/seawall-peers-end\", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file)\n";

    fn thread(before: &str, each: &str) -> String {
        let each = each.repeat(COMMITS as usize);
        format!("{before}{BEGIN}{each}{END}fdatasync(3) = 0\n")
    }

    #[test]
    fn a_commit_is_synced_by_a_call_or_by_how_its_file_was_opened() {
        let with_call = thread("", "write(3, \"a(\"..., 275) = 275\nfdatasync(4) = 0\n");
        let calls = Calls::of(&["write(9, \"\", 0) = 0\n".to_owned(), with_call]).expect("both marks");
        assert!(calls.every_commit_is_synced());
        assert_eq!(calls.to_string(), "1.00 fdatasync, 1.00 write");

        let opened = "openat(AT_FDCWD, \"/d/1.seg\", O_RDWR|O_DSYNC|O_DIRECT|O_CLOEXEC) = 5\n";
        let write = "pwrite64(5, \"SWB1\"..., 4096, 8192) = 4096\n";
        let calls = Calls::of(&[thread("", write), opened.to_owned()]).expect("both marks");
        assert!(calls.every_commit_is_synced());
        assert_eq!(calls.to_string(), "1.00 pwrite64 O_DSYNC");
    }

    #[test]
    fn one_that_writes_only_or_syncs_elsewhere_is_found_out() {
        let other = "fdatasync(3) = 0\n".repeat(COMMITS as usize);
        let calls = Calls::of(&[thread("", "write(3, \"\"..., 256) = 256\n"), other]).expect("both marks");
        assert!(!calls.every_commit_is_synced(), "another thread's syncs are none of a commit's");
        assert_eq!(calls.to_string(), "1.00 write");
        assert_eq!(Calls::of(&[BEGIN.to_owned()]), None);
    }

    #[test]
    fn wishes_are_understood_or_refused_by_name() {
        let asked = wish(&words(&["/var", "--rounds", "7"])).expect("both are known");
        assert_eq!((asked.folder.as_path(), asked.rounds), (std::path::Path::new("/var"), Some(7)));
        assert!(wish(&[]).is_ok_and(|asked| asked.rounds.is_none()));
        for (asked, named) in [
            (&["--rounds", "0"][..], "above 0"),
            (&["--rounds"], "needs a value"),
            (&["--turns"], "--turns is unknown"),
            (&["/a", "/b"], "/b is unknown"),
        ] {
            assert!(wish(&words(asked)).is_err_and(|error| refuses(&error, named)), "{asked:?}");
        }
    }
}
