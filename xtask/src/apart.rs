//! Runs a step, or a part of the soak, in a process group of its own, measures it, and ends it if it takes far too long.
//!
//! ```text
//!   cargo xtask test ── timeout ──► the same program with test NAME --outcome FILE, first of a process group
//!                    ◄── reads ─── FILE, once that process has ended
//! ```
//!
//! Invariants: a step that exceeds its limit, and everything that it started in its group, is ended and has failed, where there is
//! `timeout` of coreutils; an interrupt of this process ends the group too, and no step begins after it.

use crate::error::{Error, Result};
use crate::files;
use crate::outcome::StepOutcome;
use crate::shell::{command, has, output, target};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// How long a group may take to clear away after SIGTERM.
const GRACE: &str = "--kill-after=10";
/// How `timeout` ends when what it ran took too long, and when it took too long to clear away as well.
const TOO_LONG: [i32; 2] = [124, 137];

/// What runs now; 0: nothing.
static RUNNING: AtomicU32 = AtomicU32::new(0);
static STOPPED: AtomicBool = AtomicBool::new(false);

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: StepOutcome,
    pub(crate) wall: Duration,
    /// Of the step and all its processes; unknown where the kernel does not list it in a file.
    pub(crate) cpu_seconds: Option<f64>,
}

/// Starts steps: a copy of this program, because a build may replace the original while a step runs.
pub(crate) struct Starter {
    folder: PathBuf,
    program: PathBuf,
}

impl Starter {
    pub(crate) fn new() -> Result<Self> {
        let folder = target().join("xtask").join(std::process::id().to_string());
        files::make_folder(&folder)?;
        let program = folder.join(format!("xtask{}", std::env::consts::EXE_SUFFIX));
        let copied = std::env::current_exe().and_then(|this| std::fs::copy(this, &program));
        copied.map_err(Error::at(program.display()))?;
        ctrlc::set_handler(|| {
            STOPPED.store(true, Ordering::SeqCst);
            end(RUNNING.load(Ordering::SeqCst));
        })
        .map_err(Error::at("interrupts"))?;
        Ok(Self { folder, program })
    }

    /// Runs this program with `words`; it writes its outcome to the file after the last one.
    pub(crate) fn run(&self, words: &[&str], limit: Duration) -> Ran {
        let written = self.folder.join("outcome");
        let _ = std::fs::remove_file(&written);
        let mut step = Command::new(&self.program);
        step.args(words).arg("--outcome").arg(&written);
        let (ran, wall, cpu_seconds) = measured(|| ended(limited(&step, limit)));
        if STOPPED.load(Ordering::SeqCst) {
            let _ = std::fs::remove_dir_all(&self.folder);
            std::process::exit(130);
        }
        let outcome = match ran {
            Ok(status) if is_too_long(status) => StepOutcome::Broken(format!(
                "still running after {} s, its limit; it was ended",
                limit.as_secs()
            )),
            Ok(status) => StepOutcome::read(&written)
                .unwrap_or_else(|| StepOutcome::Broken(format!("the process ended with {status}"))),
            Err(error) => StepOutcome::Broken(error.to_string()),
        };
        Ran { outcome, wall, cpu_seconds }
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs `work`; also gives the time that it took, and the processor seconds of child processes.
fn measured<T>(work: impl FnOnce() -> T) -> (T, Duration, Option<f64>) {
    let (started_ns, before) = (seawall_sys::clock::monotonic_ns(), children_seconds());
    let result = work();
    let wall = Duration::from_nanos(seawall_sys::clock::monotonic_ns() - started_ns);
    let cpu = before.and_then(|before| Some(children_seconds()? - before));
    (result, wall, cpu)
}

/// Processor time of all ended children and theirs, from `/proc`.
fn children_seconds() -> Option<f64> {
    ticks(&std::fs::read_to_string(Path::new("/proc/self/stat")).ok()?)
}

/// The user and system time of children in a line of `/proc/PID/stat`: hundredths of a second since Linux 2.6.
fn ticks(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()? + next()?) as f64 / 100.0)
}

/// A program with its words, to be ended with its process group at its limit.
pub(crate) fn limited(program: &Command, limit: Duration) -> Command {
    let seconds = limit.as_secs().to_string();
    let words = if has("timeout") { &["timeout", GRACE, &seconds][..] } else { &[] };
    let mut words = words.iter().map(AsRef::as_ref).chain([program.get_program()]).chain(program.get_args());
    let mut limited = command(words.next().unwrap_or_default(), &[] as &[&str]);
    limited.args(words);
    limited
}

/// Whether a program that was [`limited`] took too long.
pub(crate) fn is_too_long(status: ExitStatus) -> bool {
    status.code().is_some_and(|code| TOO_LONG.contains(&code))
}

fn ended(mut program: Command) -> Result<ExitStatus> {
    let failed = |cause| Error::Start { program: "a step".to_owned(), cause };
    let mut child = program.stdin(Stdio::null()).spawn().map_err(failed)?;
    RUNNING.store(child.id(), Ordering::SeqCst);
    if STOPPED.load(Ordering::SeqCst) {
        end(child.id());
    }
    let status = child.wait().map_err(failed);
    RUNNING.store(0, Ordering::SeqCst);
    status
}

/// Ends a process, so that it clears its mounts away; `timeout` ends its group.
fn end(process: u32) {
    if process > 0 {
        // It may be gone.
        let _ = output(command("kill", &["-TERM", &process.to_string()]));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{ended, is_too_long, limited, measured, ticks};
    use std::process::Command;
    use std::time::Duration;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn processor_time_is_read_behind_a_name_with_blanks() {
        let line = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 5 6 250 50 20 0 1 0 100 1000 10";
        assert_eq!(ticks(line), Some(3.0));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn what_takes_too_long_is_ended_with_everything_that_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let pid = folder.path().join("pid");
        let step = shell(&format!("sleep 600 & echo $! >{0}.new; mv {0}.new {0}; wait", pid.display()));
        let (status, ..) = measured(|| ended(limited(&step, Duration::from_secs(1))));
        assert!(is_too_long(status.expect("starts")));
        let pid = std::fs::read_to_string(pid).expect("a second is enough");
        let runs = Command::new("ps").args(["-o", "stat=", "-p", pid.trim()]).output();
        let state = runs.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        assert!(state.is_err() || state.is_ok_and(|state| state.is_empty() || state.starts_with('Z')));
    }

    #[test]
    fn what_ends_in_time_tells_how() {
        let (status, wall, _) = measured(|| ended(limited(&shell("exit 3"), Duration::from_mins(1))));
        let status = status.expect("starts");
        assert!(status.code() == Some(3) && !is_too_long(status) && !wall.is_zero());
    }
}
