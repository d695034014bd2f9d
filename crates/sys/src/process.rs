//! Starts processes that outlive their parent and tracks them by process id and a [`Mark`].
//!
//! Process ids are reused: a process is only signalled while its mark, made of the boot and its start time, equals
//! the recorded one.
//!
//! Invariants: a process whose mark differs is another one, and is left alone; a process that has ended and was not
//! yet waited for counts as ended.

use crate::os;
use serde::{Deserialize, Serialize};
use std::io;
use std::process::{Child, Command};

/// What distinguishes a process from a later one of the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark(String);

/// A process that can be found again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackedProcess {
    /// Its number.
    pub pid: u32,
    /// What distinguishes it from later ones.
    pub mark: Mark,
}

/// The identity of this boot of the system; `None` where the system does not report one.
#[must_use]
pub fn boot() -> Option<String> {
    os::process::boot()
}

/// The number of the user that this process acts as; `None` where users have none.
#[must_use]
pub fn user() -> Option<u32> {
    os::process::user()
}

/// What this process takes at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Memory that is resident, bytes.
    pub resident_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors, that of the question not counted.
    pub descriptors: u64,
}

impl Usage {
    /// What was taken since `earlier`; 0 where less is taken now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            resident_bytes: self.resident_bytes.saturating_sub(earlier.resident_bytes),
            threads: self.threads.saturating_sub(earlier.threads),
            descriptors: self.descriptors.saturating_sub(earlier.descriptors),
        }
    }
}

/// What this process takes now; `None` where the system does not report it.
#[must_use]
pub fn usage() -> Option<Usage> {
    os::process::usage()
}

/// Starts `command` in a process group of its own, so that a Ctrl-C in the terminal is not sent to it.
///
/// # Errors
/// The system's, or that this system's processes cannot be tracked.
pub fn start_apart(command: &mut Command) -> io::Result<(Child, TrackedProcess)> {
    let mut child = os::process::start_apart(command)?;
    let pid = child.id();
    let Some(mark) = os::process::mark_of_child(pid) else {
        child.kill()?;
        child.wait()?;
        return Err(io::Error::other("the process cannot be tracked: it is not in /proc"));
    };
    Ok((child, TrackedProcess { pid, mark: Mark(mark) }))
}

impl TrackedProcess {
    /// Whether it is still running.
    #[must_use]
    pub fn runs(&self) -> bool {
        os::process::mark(self.pid).is_some_and(|mark| mark == self.mark.0)
    }

    /// Asks it to end; nothing if it has.
    ///
    /// # Errors
    /// The system's.
    pub fn ask_to_end(&self) -> io::Result<()> {
        if self.runs() { os::process::ask_to_end(self.pid) } else { Ok(()) }
    }

    /// Ends it, whatever it does; nothing if it has ended.
    ///
    /// # Errors
    /// The system's.
    pub fn end_now(&self) -> io::Result<()> {
        if self.runs() { os::process::end_now(self.pid) } else { Ok(()) }
    }

    /// Ends it and every process of its group, whatever they do; nothing if it has ended.
    ///
    /// # Errors
    /// The system's.
    pub fn end_group_now(&self) -> io::Result<()> {
        if self.runs() { os::process::end_group_now(self.pid) } else { Ok(()) }
    }
}

/// Has a write beyond the limit on the size of files (`ulimit -f`) fail with an error, where it would otherwise end the
/// process by a signal and leave its files behind. To be called once, at the start.
pub fn outlive_the_file_size_limit() {
    os::process::outlive_the_file_size_limit();
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn sleeper() -> (Child, TrackedProcess) {
        start_apart(Command::new("sleep").arg("600")).expect("started")
    }

    #[test]
    fn one_that_ends_at_once_was_started_all_the_same() {
        for _ in 0..200 {
            let (mut child, tracked) = start_apart(&mut Command::new("true")).expect("started");
            assert!(child.wait().expect("waited").success());
            assert!(!tracked.runs());
        }
    }

    #[test]
    fn a_process_is_known_by_its_mark_and_another_one_of_the_same_number_is_left_alone() {
        let (mut child, tracked) = sleeper();
        assert!(tracked.runs());
        let other = TrackedProcess { pid: tracked.pid, mark: Mark("another boot".to_owned()) };
        assert!(!other.runs());
        other.end_now().expect("nothing to do");
        assert!(tracked.runs(), "the other mark must not have ended it");
        tracked.ask_to_end().expect("asked");
        assert!(!child.wait().expect("ended").success());
        assert!(!tracked.runs());
        tracked.end_now().expect("nothing to do");
    }

    #[test]
    fn one_that_has_ended_and_was_not_waited_for_counts_as_ended() {
        let (mut child, tracked) = sleeper();
        tracked.end_now().expect("ended");
        while tracked.runs() {
            std::thread::yield_now();
        }
        child.wait().expect("waited for");
    }

    #[test]
    fn what_is_taken_is_seen() {
        let before = usage().expect("reported");
        let files: Vec<_> = (0..500).map(|_| std::fs::File::open("/dev/null").expect("opens")).collect();
        let memory = vec![7_u8; 256 << 20];
        let taken = usage().expect("reported").since(&before);
        assert!(taken.descriptors >= 400 && taken.resident_bytes >= 128 << 20, "{taken:?}");
        assert!(before.threads >= 1);
        assert_eq!((files.len(), memory[1 << 20]), (500, 7));
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        assert!(start_apart(&mut Command::new("/no/such/program")).is_err());
    }
}
