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

use crate::os::unix::check;
use crate::seccomp::Filter;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
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
        Over::Fuse(socket) => Some(socket.as_raw_fd()),
        _ => None,
    };
    let filtered = apart.listened.map(|(filter, socket)| (filter.clone(), socket.as_raw_fd()));
    let namespaces = apart.namespaces;
    let beside = apart.beside.map(libc::pid_t::try_from).transpose().map_err(io::Error::other)?;
    // SAFETY: these only read the ids of this process.
    let user = unsafe { libc::geteuid() };
    // SAFETY: as above.
    let group = unsafe { libc::getegid() };
    let maps = [
        (c"/proc/self/setgroups", CString::from(c"deny")),
        (c"/proc/self/uid_map", CString::new(format!("{user} {user} 1")).map_err(io::Error::other)?),
        (c"/proc/self/gid_map", CString::new(format!("{group} {group} 1")).map_err(io::Error::other)?),
    ];
    let setup = move || {
        // SAFETY: takes integers only.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
        // SAFETY: as above.
        check(unsafe { libc::setpgid(0, 0) })?;
        if let Some(process) = beside {
            join(process)?;
        }
        if namespaces {
            enter(user, &maps)?;
            if let Some(socket) = fuse {
                serve(&directory, user, group, socket)?;
            }
            if let Some(folder) = &folder {
                mount(Some(folder), &directory, None, libc::MS_BIND, None)?;
            }
            keep()?;
        } else {
            guard()?;
        }
        if let Some((filter, socket)) = &filtered {
            let listener = filter.install_with_listener()?;
            send(*socket, listener.as_raw_fd())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec it calls only functions that are safe there: no allocation, no lock.
    unsafe { command.pre_exec(setup) };
    command.spawn()
}

/// The signal that ends a process at once.
pub const KILL: i32 = libc::SIGKILL;
/// The signal that asks a process to end.
pub const TERMINATE: i32 = libc::SIGTERM;

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
    let group = libc::pid_t::try_from(group).map_err(io::Error::other)?;
    // SAFETY: takes integers only.
    check(unsafe { libc::kill(-group, signal) })
}

fn mount(
    from: Option<&CStr>,
    on: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let or_null = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: every pointer is null or leads to a text that outlives the call.
    check(unsafe { libc::mount(or_null(from), on.as_ptr(), or_null(kind), flags, or_null(options).cast()) })
}

fn write_file(path: &CStr, text: &CStr) -> io::Result<()> {
    // SAFETY: the path ends with a zero.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    check(file)?;
    let text = text.to_bytes();
    // SAFETY: the text has this many bytes.
    let written = unsafe { libc::write(file, text.as_ptr().cast(), text.len()) };
    let failed = (written < 0).then(io::Error::last_os_error);
    // SAFETY: opened above, and used by nothing else.
    unsafe { libc::close(file) };
    failed.map_or(Ok(()), Err)
}

/// Enters namespaces of mounts and processes, and as an ordinary user one of users in which this user is itself.
fn enter(user: libc::uid_t, maps: &[(&CStr, CString); 3]) -> io::Result<()> {
    let of_user = if user == 0 { 0 } else { libc::CLONE_NEWUSER };
    // SAFETY: takes integers only.
    check(unsafe { libc::unshare(of_user | libc::CLONE_NEWNS | libc::CLONE_NEWPID) })?;
    if user != 0 {
        maps.iter().try_for_each(|(path, text)| write_file(path, text))?;
    }
    // What is mounted here is seen nowhere else.
    // What is unmounted outside goes here too, where mounts are shared.
    mount(None, c"/", None, libc::MS_REC | libc::MS_SLAVE, None)
}

/// Mounts a FUSE file system and sends its device.
fn serve(directory: &CStr, user: libc::uid_t, group: libc::gid_t, socket: RawFd) -> io::Result<()> {
    // SAFETY: the path ends with a zero.
    let device = unsafe { libc::open(c"/dev/fuse".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    check(device)?;
    let mut options = [0_u8; 160];
    let mut rest = &mut options[..159];
    let all = if user == 0 { ",allow_other" } else { "" };
    // Into an array: nothing allocates here.
    io::Write::write_fmt(
        &mut rest,
        format_args!("fd={device},rootmode=40000,user_id={user},group_id={group},default_permissions{all}"),
    )?;
    let options = CStr::from_bytes_until_nul(&options).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    mount(Some(c"seawall"), directory, Some(c"fuse.seawall"), flags, Some(options))?;
    send(socket, device)?;
    // SAFETY: opened above; the other end has a copy.
    unsafe { libc::close(device) };
    Ok(())
}

/// Becomes keeper and init, and returns in the process that is to be the command.
fn keep() -> io::Result<()> {
    // SAFETY: the child calls only what is safe between fork and exec.
    let init = unsafe { libc::fork() };
    check(init)?;
    if init > 0 {
        step_back();
        end_like(wait_for(init));
    }
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // Processes have other numbers here; where /proc may not be mounted the outer one stays.
    let _ = mount(
        Some(c"proc"),
        c"/proc",
        Some(c"proc"),
        libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
        None,
    );
    // SAFETY: as above.
    let command = unsafe { libc::fork() };
    check(command)?;
    if command > 0 {
        step_back();
        let status = wait_for(command);
        linger(status);
        // What is left of the command's children ends with this process.
        end_like(status);
    }
    Ok(())
}

/// The same without namespaces: becomes the keeper, and returns in the process that is to be the command.
fn guard() -> io::Result<()> {
    // SAFETY: takes nothing and cannot fail.
    let parent = unsafe { libc::getppid() };
    // SAFETY: takes an integer only.
    let group = unsafe { libc::getpgid(parent) };
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })?;
    // SAFETY: the child calls only what is safe between fork and exec.
    let command = unsafe { libc::fork() };
    check(command)?;
    if command == 0 {
        // SAFETY: takes integers only.
        return check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) });
    }
    // A signal to the group of the command must not end what ends the rest.
    // SAFETY: takes integers only.
    let _ = unsafe { libc::setpgid(0, group) };
    step_back();
    let status = wait_for(command);
    linger(status);
    while reap() >= 0 {
        end_children();
        pause();
    }
    end_like(status)
}

/// A shell that was asked to end does so at once; what it started was asked too, and may need a moment.
fn linger(status: libc::c_int) {
    if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGTERM {
        for _ in 0..1000 {
            match reap() {
                0 => pause(),
                1.. => {}
                _ => return,
            }
        }
    }
}

/// Takes back a child that has ended; 0: none has; -1: there is none.
fn reap() -> libc::pid_t {
    // SAFETY: a null pointer says that the status is not wanted.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) }
}

fn pause() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    // SAFETY: the time outlives the call; what is left of it is not wanted.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

fn end_children() {
    let mut list = [0_u8; 4096];
    // SAFETY: the path ends with a zero.
    let file = unsafe { libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY) };
    // SAFETY: the list has this many bytes; a file that could not be opened is an error.
    let length = unsafe { libc::read(file, list.as_mut_ptr().cast(), list.len()) };
    // SAFETY: opened above, and used by nothing else.
    unsafe { libc::close(file) };
    let length = usize::try_from(length).unwrap_or(0);
    for word in list[..length].split(|byte| *byte == b' ') {
        let digit =
            |all: i32, digit: &u8| all.wrapping_mul(10).wrapping_add(i32::from(digit.wrapping_sub(b'0')));
        let child = word.iter().fold(0, digit);
        if child > 1 {
            // SAFETY: takes integers only.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
    }
}

/// Enters the namespaces of the command whose keeper is `process`; safe between fork and exec.
fn join(process: libc::pid_t) -> io::Result<()> {
    // SAFETY: takes integers only.
    let keeper = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    let keeper = libc::c_int::try_from(keeper).ok().filter(|keeper| *keeper >= 0);
    let keeper = keeper.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: takes integers only.
    let both = unsafe { libc::setns(keeper, libc::CLONE_NEWUSER | libc::CLONE_NEWNS) };
    // Root has stayed in its namespace of users, which cannot be entered again.
    // SAFETY: as above.
    let code = if both == 0 { 0 } else { unsafe { libc::setns(keeper, libc::CLONE_NEWNS) } };
    let entered = check(code);
    // SAFETY: opened above, and used by nothing else.
    unsafe { libc::close(keeper) };
    entered
}

/// Writes back what the kernel has of the file system on `directory`, as the command with the keeper `process` sees it. The
/// calling thread waits for it, so the file system must be served by another one.
///
/// # Errors
/// The system's; the command has ended.
pub fn sync_as_seen(process: u32, directory: &Path) -> io::Result<()> {
    let process = libc::pid_t::try_from(process).map_err(io::Error::other)?;
    let directory = CString::new(directory.as_os_str().as_bytes()).map_err(io::Error::other)?;
    let sync = move || {
        join(process)?;
        // SAFETY: the path ends with a zero.
        let root = unsafe { libc::open(directory.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        check(root)?;
        // SAFETY: takes an integer only.
        check(unsafe { libc::syncfs(root) })?;
        // SAFETY: ends this process and runs nothing of it.
        unsafe { libc::_exit(0) }
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

/// Waits until `process` has ended, and for every other child that ends meanwhile; gives its status.
fn wait_for(process: libc::pid_t) -> libc::c_int {
    loop {
        let mut status = 0;
        // SAFETY: the status is written to a variable of ours.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if ended == process {
            return status;
        }
        if ended == -1 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return libc::W_EXITCODE(1, 0);
        }
    }
}

/// What a shell adds to the number of a signal, to make an exit code of it.
const SIGNALLED: i32 = 128;

/// Ends with the exit code of a shell that ran a command which ended with this status.
fn end_like(status: libc::c_int) -> ! {
    let code = if libc::WIFSIGNALED(status) {
        SIGNALLED + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    };
    // SAFETY: ends this process and runs nothing of it.
    unsafe { libc::_exit(code) }
}

/// Room for the message around one descriptor.
#[repr(C, align(8))]
struct Ancillary([u8; 32]);

/// Has `pass` send or receive a message of one byte, with room for one descriptor; gives what it returned.
fn with_message(pass: impl FnOnce(&mut libc::msghdr) -> isize) -> io::Result<isize> {
    let mut byte = [0_u8];
    let mut data = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut room = Ancillary([0; 32]);
    // SAFETY: all zeros is an empty message.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut data;
    message.msg_iovlen = 1;
    message.msg_control = room.0.as_mut_ptr().cast();
    message.msg_controllen = room.0.len() as _;
    let passed = pass(&mut message);
    if passed < 0 { Err(io::Error::last_os_error()) } else { Ok(passed) }
}

/// Sends a descriptor; safe between fork and exec.
fn send(socket: RawFd, descriptor: RawFd) -> io::Result<()> {
    let sent = with_message(|message| {
        // SAFETY: computes a length.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
        // SAFETY: the message has room for one header.
        let header = unsafe { libc::CMSG_FIRSTHDR(message) };
        // SAFETY: the header lies in the room of the message, which is aligned for it.
        let header = unsafe { &mut *header };
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
        // SAFETY: computes a length.
        header.cmsg_len = unsafe { libc::CMSG_LEN(4) } as _;
        // SAFETY: the place of the data behind the header lies in the room of the message.
        let place = unsafe { libc::CMSG_DATA(header) };
        // SAFETY: there is room for one descriptor; the place need not be aligned.
        unsafe { place.cast::<RawFd>().write_unaligned(descriptor) };
        // SAFETY: the message and what it leads to outlive the call.
        unsafe { libc::sendmsg(socket, message, libc::MSG_NOSIGNAL) }
    });
    sent.map(|_| ())
}

/// Receives a descriptor that was sent over `socket`; nothing if the other end was closed before.
///
/// # Errors
/// The system's; a message without a descriptor.
pub fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut received = None;
    let got = with_message(|message| {
        // SAFETY: the message and the room that it leads to outlive the call.
        let got = unsafe { libc::recvmsg(socket.as_raw_fd(), message, libc::MSG_CMSG_CLOEXEC) };
        if got > 0 {
            // SAFETY: the kernel filled in the message.
            let header = unsafe { libc::CMSG_FIRSTHDR(message) };
            // SAFETY: it is null or lies in the room of the message.
            let header = unsafe { header.as_ref() };
            received = header.filter(|header| header.cmsg_type == libc::SCM_RIGHTS).map(|header| {
                // SAFETY: the place of the data behind the header lies in the room of the message.
                let place = unsafe { libc::CMSG_DATA(header) };
                // SAFETY: a message of this type has a descriptor there.
                let descriptor = unsafe { place.cast::<RawFd>().read_unaligned() };
                // SAFETY: the kernel made it for this process, and nothing else holds it.
                unsafe { OwnedFd::from_raw_fd(descriptor) }
            });
        }
        got
    })?;
    if got > 0 && received.is_none() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(received)
}
