//! How does Linux tell processes apart? By the boot and the tick at which they started, from /proc.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

pub(crate) fn start_apart(command: &mut Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}

/// Boot and start of a running process; `None` if there is none, or it has ended and was not waited for.
pub(crate) fn mark(pid: u32) -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so the fields are counted from behind it: the first is the state.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let started = fields.nth(18)?;
    Some(format!("{}/{started}", boot.trim()))
}

pub(crate) fn ask_to_end(pid: u32) -> io::Result<()> {
    sent(kill_process(number(pid)?, Signal::TERM))
}

pub(crate) fn end_now(pid: u32) -> io::Result<()> {
    sent(kill_process(number(pid)?, Signal::KILL))
}

/// Its group has its number: it was started apart.
pub(crate) fn end_group_now(pid: u32) -> io::Result<()> {
    sent(kill_process_group(number(pid)?, Signal::KILL))
}

fn number(pid: u32) -> io::Result<Pid> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

fn sent(outcome: rustix::io::Result<()>) -> io::Result<()> {
    match outcome {
        // It ended between the look and the signal.
        Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
