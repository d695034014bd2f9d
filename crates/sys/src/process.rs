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

/// What tells a process from a later one of the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark(String);

/// A process to be found again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its number.
    pub pid: u32,
    /// What tells it from later ones.
    pub mark: Mark,
}

/// What tells this boot of the system from every other; `None` where the system does not say.
#[must_use]
pub fn boot() -> Option<String> {
    os::process::boot()
}

/// The number of the user that this process acts as; `None` where users have none.
#[must_use]
pub fn user() -> Option<u32> {
    os::process::user()
}

/// Starts `command` in a process group of its own, so that a Ctrl-C in the terminal is not sent to it.
///
/// # Errors
/// The system's, or that this system's processes cannot be kept track of.
pub fn start_apart(command: &mut Command) -> io::Result<(Child, Kept)> {
    let mut child = os::process::start_apart(command)?;
    let pid = child.id();
    let Some(mark) = os::process::mark_of_child(pid) else {
        child.kill()?;
        child.wait()?;
        return Err(io::Error::other("it cannot be kept track of: it is not in /proc"));
    };
    Ok((child, Kept { pid, mark: Mark(mark) }))
}

impl Kept {
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
    crate::os::outlive_the_file_size_limit();
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn sleeper() -> (Child, Kept) {
        start_apart(Command::new("sleep").arg("600")).expect("started")
    }

    #[test]
    fn one_that_ends_at_once_was_started_all_the_same() {
        for _ in 0..200 {
            let (mut child, kept) = start_apart(&mut Command::new("true")).expect("started");
            assert!(child.wait().expect("waited").success());
            assert!(!kept.runs());
        }
    }

    #[test]
    fn a_process_is_known_by_its_mark_and_a_stranger_of_the_same_number_is_left_alone() {
        let (mut child, kept) = sleeper();
        assert!(kept.runs());
        let stranger = Kept { pid: kept.pid, mark: Mark("another boot".to_owned()) };
        assert!(!stranger.runs());
        stranger.end_now().expect("nothing to do");
        assert!(kept.runs(), "the stranger's mark must not have ended it");
        kept.ask_to_end().expect("asked");
        assert!(!child.wait().expect("ended").success());
        assert!(!kept.runs());
        kept.end_now().expect("nothing to do");
    }

    #[test]
    fn one_that_has_ended_and_was_not_waited_for_counts_as_ended() {
        let (mut child, kept) = sleeper();
        kept.end_now().expect("ended");
        while kept.runs() {
            std::thread::yield_now();
        }
        child.wait().expect("waited for");
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        assert!(start_apart(&mut Command::new("/no/such/program")).is_err());
    }
}
