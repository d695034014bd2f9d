//! Starts a command apart: in namespaces of its own, on a file system of ours or a folder in place of another.
//!
//! ```text
//!   this process ── fork ──► keeper ── fork ──► init (process 1 of its own) ── fork ──► the command
//! ```
//!
//! The keeper ends with this process, init with the keeper, and everything that the command started with init: nothing
//! outlives the test that it was started for. Without namespaces the keeper takes the place of init: what loses its parent
//! becomes its child, and is ended by it.
//!
//! Invariants: between fork and exec nothing allocates; keeper and init hold no descriptor, so that a pipe ends with the
//! command that wrote to it.

use super::seccomp::Filter;
use crate::os::unix::check;
use rustix::cmsg_space;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getegid, geteuid, getpgid, getpid, getppid,
    kill_process, kill_process_group, pidfd_open, set_child_subreaper, set_parent_process_death_signal,
    setpgid, wait,
};
use rustix::thread::{ThreadNameSpaceType, Timespec, UnshareFlags, move_into_thread_name_spaces};
use std::ffi::{CStr, CString};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};

/// What lies in place of a directory for the command.
#[derive(Clone, Copy, Debug)]
pub enum Over<'a> {
    /// A FUSE file system: [`receive`] gives its device at the other end of the socket.
    Fuse(&'a UnixStream),
    /// Another folder.
    Folder(&'a Path),
    /// The directory itself.
    Itself,
}

/// How a command is set apart.
#[derive(Clone, Copy, Debug)]
pub struct Apart<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// What lies there.
    pub over: Over<'a>,
    /// A filter whose listener goes to the socket, behind the device.
    pub listened: Option<(&'a Filter, &'a UnixStream)>,
    /// Whether it has namespaces of its own; without, `over` is [`Over::Itself`].
    pub namespaces: bool,
    /// The command, started in namespaces of its own, whose view of the directory this one has too.
    pub beside: Option<u32>,
}

/// Starts `command` apart, in a process group of its own.
///
/// # Errors
/// The system's: that of the namespaces (`EPERM`, `EACCES`, `ENOSPC`, `EUSERS`) means that this user may have none.
pub fn spawn(mut command: Command, apart: &Apart<'_>) -> io::Result<Child> {
    let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
    let directory = path(apart.directory)?;
    let folder = match apart.over {
        Over::Folder(folder) => Some(path(folder)?),
        _ => None,
    };
    let fuse = match apart.over {
        Over::Fuse(socket) => Some(socket.try_clone()?),
        _ => None,
    };
    let listened =
        apart.listened.map(|(filter, socket)| Ok::<_, io::Error>((filter.clone(), socket.try_clone()?)));
    let listened = listened.transpose()?;
    let namespaces = apart.namespaces;
    let beside = apart.beside.map(pid).transpose()?;
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let maps = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("{user} {user} 1")),
        (c"/proc/self/gid_map", format!("{group} {group} 1")),
    ];
    let setup = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        setpgid(None, None)?;
        if let Some(process) = beside {
            join(process)?;
        }
        if namespaces {
            enter(user, &maps)?;
            if let Some(socket) = &fuse {
                serve(&directory, user, group, socket)?;
            }
            if let Some(folder) = &folder {
                mount_bind(folder.as_c_str(), directory.as_c_str())?;
            }
            keep()?;
        } else {
            guard()?;
        }
        if let Some((filter, socket)) = &listened {
            send(socket, &filter.install_with_listener()?)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec it calls only functions that are safe there: no allocation, no lock.
    unsafe { command.pre_exec(setup) };
    command.spawn()
}

/// The signal that ends a process at once.
pub const KILL: i32 = Signal::KILL.as_raw();
/// The signal that asks a process to end.
pub const TERMINATE: i32 = Signal::TERM.as_raw();

fn pid(process: u32) -> io::Result<Pid> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// The signal that ended a command, by the exit code of what kept it.
#[must_use]
pub fn signal_of(code: i32) -> Option<i32> {
    (SIGNALLED + 1..SIGNALLED + 65).contains(&code).then(|| code - SIGNALLED)
}

/// Sends `signal` to a process group.
///
/// # Errors
/// The system's; `ESRCH`: there is none.
pub fn signal_group(group: u32, signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process_group(pid(group)?, signal)?)
}

/// Enters namespaces of mounts and processes, and as an ordinary user one of users in which this user is itself.
fn enter(user: u32, maps: &[(&CStr, String); 3]) -> io::Result<()> {
    let of_user = if user == 0 { UnshareFlags::empty() } else { UnshareFlags::NEWUSER };
    // SAFETY: the table of descriptors stays as it is.
    unsafe { rustix::thread::unshare_unsafe(of_user | UnshareFlags::NEWNS | UnshareFlags::NEWPID) }?;
    if user != 0 {
        for (path, text) in maps {
            let file = open(*path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::io::write(&file, text.as_bytes())?;
        }
    }
    // What is mounted here is seen nowhere else.
    // What is unmounted outside goes here too, where mounts are shared.
    Ok(mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?)
}

/// Mounts a FUSE file system and sends its device.
fn serve(directory: &CStr, user: u32, group: u32, socket: &UnixStream) -> io::Result<()> {
    let device = open(c"/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mut options = [0_u8; 160];
    let mut rest = &mut options[..159];
    let all = if user == 0 { ",allow_other" } else { "" };
    let number = device.as_raw_fd();
    // Into an array: nothing allocates here.
    io::Write::write_fmt(
        &mut rest,
        format_args!("fd={number},rootmode=40000,user_id={user},group_id={group},default_permissions{all}"),
    )?;
    let options = CStr::from_bytes_until_nul(&options).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount(c"seawall", directory, c"fuse.seawall", flags, options)?;
    send(socket, &device)
}

/// Becomes keeper and init, and returns in the process that is to be the command.
fn keep() -> io::Result<()> {
    // SAFETY: the child calls only what is safe between fork and exec.
    let init = unsafe { libc::fork() };
    check(init)?;
    if let Some(init) = Pid::from_raw(init) {
        step_back();
        end(wait_for(init));
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Processes have other numbers here; where /proc may not be mounted the outer one stays.
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let _ = mount(c"proc", c"/proc", c"proc", flags, None);
    // SAFETY: as above.
    let command = unsafe { libc::fork() };
    check(command)?;
    if let Some(command) = Pid::from_raw(command) {
        step_back();
        let code = wait_for(command);
        linger(code);
        // What is left of the command's children ends with this process.
        end(code);
    }
    Ok(())
}

/// The same without namespaces: becomes the keeper, and returns in the process that is to be the command.
fn guard() -> io::Result<()> {
    let group = getppid().and_then(|parent| getpgid(Some(parent)).ok());
    set_child_subreaper(Some(getpid()))?;
    // SAFETY: the child calls only what is safe between fork and exec.
    let command = unsafe { libc::fork() };
    check(command)?;
    let Some(command) = Pid::from_raw(command) else {
        return Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    };
    // A signal to the group of the command must not end what ends the rest.
    let _ = setpgid(None, group);
    step_back();
    let code = wait_for(command);
    linger(code);
    while wait(WaitOptions::NOHANG).is_ok() {
        end_children();
        pause();
    }
    end(code)
}

/// A shell that was asked to end does so at once; what it started was asked too, and may need a moment.
fn linger(code: i32) {
    if code == SIGNALLED + TERMINATE {
        for _ in 0..1000 {
            match wait(WaitOptions::NOHANG) {
                Ok(None) => pause(),
                Ok(Some(_)) => {}
                Err(_) => return,
            }
        }
    }
}

fn pause() {
    let _ = rustix::thread::nanosleep(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 });
}

fn end_children() {
    let mut list = [0_u8; 4096];
    let file = open(c"/proc/thread-self/children", OFlags::RDONLY, Mode::empty());
    let length = file.and_then(|file| rustix::io::read(&file, &mut list)).unwrap_or(0);
    for word in list[..length].split(|byte| *byte == b' ') {
        let digit =
            |all: i32, digit: &u8| all.wrapping_mul(10).wrapping_add(i32::from(digit.wrapping_sub(b'0')));
        let child = word.iter().fold(0, digit);
        if let Some(child) = Pid::from_raw(child).filter(|_| child > 1) {
            let _ = kill_process(child, Signal::KILL);
        }
    }
}

/// Enters the namespaces of the command whose keeper is `process`; safe between fork and exec.
fn join(process: Pid) -> io::Result<()> {
    let keeper = pidfd_open(process, PidfdFlags::empty())?;
    let both = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
    let entered = move_into_thread_name_spaces(keeper.as_fd(), both);
    // Root has stayed in its namespace of users, which cannot be entered again.
    Ok(entered.or_else(|_| move_into_thread_name_spaces(keeper.as_fd(), ThreadNameSpaceType::MOUNT))?)
}

/// Writes back what the kernel has of the file system on `directory`, as the command with the keeper `process` sees it. The
/// calling thread waits for it, so the file system must be served by another one.
///
/// # Errors
/// The system's; the command has ended.
pub fn sync_as_seen(process: u32, directory: &Path) -> io::Result<()> {
    let process = pid(process)?;
    let directory = CString::new(directory.as_os_str().as_bytes()).map_err(io::Error::other)?;
    let sync = move || {
        join(process)?;
        let root = open(directory.as_c_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::fs::syncfs(&root)?;
        end(0)
    };
    let mut command = Command::new("/bin/false");
    // SAFETY: between fork and exec it calls only functions that are safe there: no allocation, no lock.
    unsafe { command.pre_exec(sync) };
    command.spawn()?.wait().map(|_| ())
}

/// For keeper and init: they hold no descriptor, and a signal to the group that ends the command does not end them.
fn step_back() {
    // SAFETY: nothing but the disposition of the signal changes.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
    // SAFETY: closes what this process does not use any more.
    unsafe { libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32) };
}

/// Waits until `process` has ended, and for every other child that ends meanwhile; gives the exit code of a shell that ran it.
fn wait_for(process: Pid) -> i32 {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == process => return code(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return 1,
        }
    }
}

/// What a shell adds to the number of a signal, to make an exit code of it.
const SIGNALLED: i32 = 128;

fn code(status: WaitStatus) -> i32 {
    let signalled = status.terminating_signal().map(|signal| SIGNALLED + signal);
    signalled.or(status.exit_status()).unwrap_or(0)
}

fn end(code: i32) -> ! {
    // SAFETY: ends this process and runs nothing of it.
    unsafe { libc::_exit(code) }
}

/// Sends a descriptor; safe between fork and exec.
fn send(socket: &UnixStream, descriptor: &OwnedFd) -> io::Result<()> {
    let (mut room, descriptors) = ([MaybeUninit::uninit(); cmsg_space!(ScmRights(1))], [descriptor.as_fd()]);
    let mut message = SendAncillaryBuffer::new(&mut room);
    message.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(&[0])], &mut message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a descriptor that was sent over `socket`; nothing if the other end was closed before.
///
/// # Errors
/// The system's; a message without a descriptor.
pub fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let (mut message, mut byte) = (RecvAncillaryBuffer::new(&mut room), [0]);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut message, RecvFlags::CMSG_CLOEXEC)?;
    let received = message.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    if got.bytes > 0 && received.is_none() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(received)
}
