//! Linux: identifies and signals processes; the boot and the start tick from /proc distinguish them.

pub(crate) use crate::os::unix::{is_standard_output_closed, outlive_the_file_size_limit};

use crate::process::Usage;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

pub(crate) fn start_apart(command: &mut Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}

/// Boot and start of a running process; `None` if there is none, or it has ended and was not waited for.
pub(crate) fn mark(pid: u32) -> Option<String> {
    let (state, mark) = state_and_mark(pid)?;
    (!matches!(state, 'Z' | 'X')).then_some(mark)
}

/// The same of a child that was not waited for, which may have ended since: until then no other has its number.
pub(crate) fn mark_of_child(pid: u32) -> Option<String> {
    state_and_mark(pid).map(|(_, mark)| mark)
}

pub(crate) fn boot() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(boot.trim().to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "other systems have no such number")]
pub(crate) fn user() -> Option<u32> {
    // SAFETY: geteuid(2) takes nothing, touches no memory of ours and cannot fail.
    Some(unsafe { libc::geteuid() })
}

pub(crate) fn usage() -> Option<Usage> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    // The folder itself is open while it is listed.
    let descriptors = (std::fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1);
    Some(Usage { resident_bytes: field("VmRSS:")? << 10, threads: field("Threads:")?, descriptors })
}

fn state_and_mark(pid: u32) -> Option<(char, String)> {
    let boot = boot()?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so the fields are counted from behind it: the first is the state.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let started = fields.nth(18)?;
    Some((state, format!("{boot}/{started}")))
}

pub(crate) fn ask_to_end(pid: u32) -> io::Result<()> {
    signal(number(pid)?, libc::SIGTERM)
}

pub(crate) fn end_now(pid: u32) -> io::Result<()> {
    signal(number(pid)?, libc::SIGKILL)
}

/// Its group has its number: it was started apart. kill(2) takes a group as a negative number.
pub(crate) fn end_group_now(pid: u32) -> io::Result<()> {
    signal(-number(pid)?, libc::SIGKILL)
}

/// Never 0 or 1, which would mean every process of ours, or the first of the system.
fn number(pid: u32) -> io::Result<libc::pid_t> {
    let number = libc::pid_t::try_from(pid).ok().filter(|number| *number > 1);
    number.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

fn signal(pid: libc::pid_t, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: kill(2) takes two numbers and touches no memory of ours.
    if unsafe { libc::kill(pid, signal) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // It ended between the look and the signal.
        error if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        error => Err(error),
    }
}
