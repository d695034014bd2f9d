//! Runs a step, or a part of the soak, in a process group of its own, measures it, and ends it if it takes far too long.
//!
//! ```text
//!   cargo xtask test ── starts ──► the same program with test NAME --outcome FILE, first of a process group
//!                    ◄── reads ── FILE, once that process has ended
//! ```
//!
//! Invariants: a step that exceeds its limit, and everything that it started in its group, is ended and has failed; an
//! interrupt of this process ends the group too, so that nothing of a step outlives the command.

use crate::error::{Error, Result};
use crate::files;
use crate::outcome::StepOutcome;
use crate::shell::target;
use seawall_sys::clock::nanoseconds;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a step is asked whether it has ended.
const POLL: Duration = Duration::from_millis(20);
/// How long a group may take to clear away after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

/// The group that runs now; 0: none. Held while one is started, and for good once an interrupt came, so that no step
/// begins behind it.
static GROUP: Mutex<u32> = Mutex::new(0);

fn group() -> MutexGuard<'static, u32> {
    GROUP.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: StepOutcome,
    pub(crate) wall_seconds: f64,
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
        let ours = folder.clone();
        ctrlc::set_handler(move || {
            let group = group();
            end_group(*group, || {});
            let _ = std::fs::remove_dir_all(&ours);
            std::process::exit(130);
        })
        .map_err(Error::at("interrupts"))?;
        Ok(Self { folder, program })
    }

    /// Runs this program with `words`; it writes its outcome to the file behind the last one.
    pub(crate) fn run(&self, words: &[&str], limit: Duration) -> Ran {
        let written = self.folder.join("outcome");
        let _ = std::fs::remove_file(&written);
        let mut command = Command::new(&self.program);
        command.args(words).arg("--outcome").arg(&written).stdin(Stdio::null());
        let (ran, wall_seconds, cpu_seconds) = measured(|| limited(command, limit));
        let outcome = match ran {
            Ok(Some(status)) => StepOutcome::read(&written)
                .unwrap_or_else(|| StepOutcome::Broken(format!("the process ended with {status}"))),
            Ok(None) => StepOutcome::Broken(format!(
                "still running after {} s, its limit; it was ended",
                limit.as_secs()
            )),
            Err(error) => StepOutcome::Broken(error.to_string()),
        };
        Ran { outcome, wall_seconds, cpu_seconds }
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs `work`; also gives the seconds that it took, and the processor seconds of child processes.
fn measured<T>(work: impl FnOnce() -> T) -> (T, f64, Option<f64>) {
    let (started_ns, before) = (seawall_sys::clock::monotonic_ns(), children_seconds());
    let result = work();
    let wall = (seawall_sys::clock::monotonic_ns() - started_ns) as f64 / 1e9;
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

/// The exit status; nothing if it was ended at its limit.
fn limited(mut command: Command, limit: Duration) -> Result<Option<ExitStatus>> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |cause| Error::Start { program: program.clone(), cause };
    let mut running = group();
    let mut child = command.spawn().map_err(failed)?;
    *running = child.id();
    drop(running);
    let ended = wait(&mut child, limit);
    if !matches!(ended, Ok(Some(_))) {
        end_group(child.id(), || drop(child.try_wait()));
        let _ = child.kill();
        let _ = child.wait();
    }
    *group() = 0;
    ended.map_err(failed)
}

/// Waits for its end, at most so long.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let started_ns = seawall_sys::clock::monotonic_ns();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if seawall_sys::clock::monotonic_ns() - started_ns > nanoseconds(limit) {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(POLL);
    }
}

/// Sends SIGTERM to a group, so that it clears its mounts away, and kills what is left of it.
fn end_group(group: u32, mut reap: impl FnMut()) {
    if group == 0 || !cfg!(unix) {
        return;
    }
    let send = |signal: &str| {
        let group = format!("-{group}");
        let sent = Command::new("kill").args([signal, "--", &group]).stderr(Stdio::null()).status();
        sent.is_ok_and(|status| status.success())
    };
    send("-TERM");
    for _ in 0..GRACE.as_millis() / POLL.as_millis() {
        reap();
        // No signal reaches a group without processes.
        if !send("-0") {
            return;
        }
        std::thread::sleep(POLL);
    }
    send("-KILL");
}

#[cfg(all(test, unix))]
mod tests {
    use super::{limited, measured, ticks};
    use std::process::Command;
    use std::time::Duration;

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
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $! >pid.new; mv pid.new pid; wait"]);
        command.current_dir(folder.path());
        let (ended, ..) = measured(|| limited(command, Duration::from_secs(2)));
        assert!(matches!(ended, Ok(None)), "{ended:?}");
        let Ok(pid) = std::fs::read_to_string(pid) else { return };
        let runs = Command::new("ps").args(["-o", "stat=", "-p", pid.trim()]).output();
        let state = runs.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        assert!(state.is_err() || state.is_ok_and(|state| state.is_empty() || state.starts_with('Z')));
    }

    #[test]
    fn what_ends_in_time_tells_how() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let (ended, wall, _) = measured(|| limited(command, Duration::from_mins(1)));
        assert_eq!(ended.expect("starts").and_then(|status| status.code()), Some(3));
        assert!(wall > 0.0);
    }
}
