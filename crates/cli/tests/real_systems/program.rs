//! Test fixture: runs the program and reads its result.
//!
//! Invariant: the program must never panic; [`Run`] checks that every time.

use seawall_gauge::result::RunResult;
use seawall_gauge::row::{Measured, Outcome, Row};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use tempfile::TempDir;

pub(crate) const SEAWALL: &str = env!("CARGO_BIN_EXE_seawall");

/// A small run of few methods: enough for counts.
pub(crate) const SMALL: [&str; 6] = ["--journal", "1MiB", "--transactions", "32", "--rounds", "1"];

pub(crate) struct Bench {
    /// The command line; a test may put a wrapper in front by [`Bench::under`].
    line: Vec<String>,
    variables: Vec<(String, String)>,
    /// Where the program is started and leaves its result.
    work: TempDir,
}

pub(crate) struct Run {
    /// The exit code; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    json: PathBuf,
    _work: TempDir,
}

impl Bench {
    /// `seawall bench FOLDER ARGUMENTS`, with its result kept aside.
    pub(crate) fn new(folder: &Path, arguments: &[&str]) -> Self {
        Self::of(&[], folder, arguments)
    }

    /// `seawall bench SCENARIO FOLDER ARGUMENTS`, with its result kept aside.
    pub(crate) fn scenario(name: &str, folder: &Path, arguments: &[&str]) -> Self {
        Self::of(&[name], folder, arguments)
    }

    fn of(words: &[&str], folder: &Path, arguments: &[&str]) -> Self {
        let work = crate::ground::folder();
        let json = work.path().join("result.json");
        let mut line: Vec<String> = vec![SEAWALL.into(), "bench".into()];
        line.extend(words.iter().map(|word| (*word).to_owned()));
        line.push(folder.display().to_string());
        line.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        // Findings and notes stand in the whole report only.
        line.push("--verbose".into());
        // The other tests are at work beside it.
        line.extend(["--settle".into(), "0".into()]);
        line.extend(["--no-out".into(), "--no-progress".into(), "--json".into(), json.display().to_string()]);
        Self { line, variables: Vec::new(), work }
    }

    pub(crate) fn under(mut self, wrapper: &[&str]) -> Self {
        self.line.splice(0..0, wrapper.iter().map(|word| (*word).to_owned()));
        self
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.line[0]);
        command
            .args(&self.line[1..])
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.work.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(self) -> Run {
        let output = self.command().output().unwrap_or_else(|error| panic!("{}: {error}", self.line[0]));
        self.ended(&output)
    }

    /// What a process started from [`Bench::command`] ended with.
    pub(crate) fn ended(self, output: &Output) -> Run {
        let run = Run {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            json: self.work.path().join("result.json"),
            _work: self.work,
        };
        assert!(!run.stderr.contains("panicked"), "{:?}: {}", self.line, run.stderr);
        run
    }
}

impl Run {
    pub(crate) fn printed(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    /// The result, of a run that must have ended well.
    pub(crate) fn result(&self) -> RunResult {
        assert_eq!(self.code, Some(0), "{}", self.printed());
        RunResult::read(&self.json).expect("a result")
    }
}

/// A `seawall log append` that is given records one by one.
pub(crate) struct Appender {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Appender {
    pub(crate) fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("starts; `cargo xtask setup` installs strace");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("is piped"));
        Self { child, stdin, stdout: BufReader::new(stdout) }
    }

    /// Gives it a record; whether it was acknowledged. It may have ended.
    pub(crate) fn put(&mut self, record: &str) -> bool {
        let sent = self.stdin.as_mut().expect("is open").write_all(format!("{record}\n").as_bytes());
        sent.is_ok() && self.stdout.read_line(&mut String::new()).expect("reads") > 0
    }

    /// Ends its input; its exit code, and what it said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let ended = self.child.wait_with_output().expect("ends");
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("is killed");
        self.child.wait().expect("ends");
    }
}

/// The exit code of a command, and all that it printed.
pub(crate) fn ran(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("started");
    let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.code(), printed.join("\n"))
}

pub(crate) fn row<'a>(result: &'a RunResult, id: &str) -> &'a Row {
    let found = result.study.rows.iter().find(|row| row.id == id);
    found.unwrap_or_else(|| panic!("{id} is not in the result"))
}

/// The figures of method `id`, which must have run.
pub(crate) fn measured<'a>(result: &'a RunResult, id: &str) -> &'a Measured {
    match &row(result, id).outcome {
        Outcome::Measured(measured) => measured,
        other => panic!("{id}: {other:?}"),
    }
}

/// Names in `folder`, which a run must leave as they were.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Whether a run in `folder` has made a file or folder of this name in its scratch folder.
pub(crate) fn has_scratch(folder: &Path, name: &str) -> bool {
    names(folder).iter().any(|scratch| folder.join(scratch).join(name).exists())
}
