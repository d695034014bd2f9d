//! Follows a program and all that it starts through ptrace(2), at the calls that a filter names.
//!
//! Invariants: what is followed is killed with the follower (`PTRACE_O_EXITKILL`); every call is made by the thread that
//! started the program, because the kernel wants that (a [`Tracer`] is not `Send`).

use super::seccomp::Filter;
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::marker::PhantomData;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread::JoinHandle;

const SEIZE: libc::c_long = 0x4206;
const LISTEN: libc::c_long = 0x4208;
const CONTINUE: libc::c_long = 7;
const TO_RESULT: libc::c_long = 24;
const CALL_INFO: libc::c_long = 0x420E;
const REGISTERS: libc::c_long = 0x4204;
/// `TRACESYSGOOD`, `TRACEFORK`, `TRACEVFORK`, `TRACECLONE`, `TRACEEXEC`, `TRACESECCOMP`, `EXITKILL`.
const OPTIONS: usize = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x10_0000;

/// Calls with a descriptor of -1 that the child makes before it becomes the program, to measure what a stop costs.
pub const CALIBRATIONS: usize = 200;

/// A thread, by the kernel's number.
pub type Thread = i32;

/// Why a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is about to make a call that the filter traces.
    Call,
    /// A call that it was resumed through with [`Tracer::to_result`] is done.
    Result,
    /// It became another program.
    Exec,
    /// It stops as its group does (SIGSTOP): resume it with [`Tracer::stay`].
    Group,
    /// It is due a signal: resume it with that.
    Signal(i32),
    /// Nothing of interest.
    Other,
    /// It is gone: its exit code.
    Exited(i32),
    /// It is gone, by this signal.
    Killed(i32),
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Info {
    operation: u8,
    padding: [u8; 3],
    architecture: u32,
    instruction: u64,
    stack: u64,
    /// The number and the arguments; the result and whether it is an error.
    words: [u64; 7],
    data: u64,
}

const _: () = assert!(size_of::<Info>() == 88);

/// A call about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number.
    pub number: libc::c_long,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The address after the call's instruction.
    pub instruction: u64,
    /// The stack pointer.
    pub stack: u64,
}

/// A program that is followed.
#[derive(Debug)]
pub struct Tracer {
    root: Thread,
    /// Whether the program runs; before that it is the child of `starter`, which collects it if it fails.
    runs: Cell<bool>,
    starter: JoinHandle<io::Result<()>>,
    _of_one_thread: PhantomData<*const ()>,
}

fn reason(starter: JoinHandle<io::Result<()>>) -> io::Error {
    match starter.join() {
        Ok(Err(error)) => error,
        _ => io::ErrorKind::Other.into(),
    }
}

fn request(what: libc::c_long, thread: Thread, address: usize, data: usize) -> io::Result<libc::c_long> {
    // SAFETY: the callers pass integers, or the address of a live buffer with its size, as the request wants.
    let code = unsafe { libc::syscall(libc::SYS_ptrace, what, libc::c_long::from(thread), address, data) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

fn kill(process: Thread) {
    // One that has ended meanwhile is no error.
    let _ = Pid::from_raw(process).map(|process| kill_process(process, Signal::KILL));
}

impl Tracer {
    /// Starts `command` under `filter`, and follows it from its first instruction on.
    ///
    /// # Errors
    /// The program cannot be started, or must not be followed.
    pub fn start(mut command: Command, filter: Filter) -> io::Result<Self> {
        let (mut told, tell) = io::pipe()?;
        let (wait, go) = io::pipe()?;
        let (tell_descriptor, wait_descriptor) = (tell.as_raw_fd(), wait.as_raw_fd());
        let prepare = move || {
            let own = std::process::id().cast_signed();
            let mut word = own.to_le_bytes();
            // SAFETY: writes four live bytes to a pipe.
            let written = unsafe { libc::write(tell_descriptor, word.as_ptr().cast(), 4) };
            // SAFETY: reads into one live byte; nothing comes if the parent could not follow.
            let read = unsafe { libc::read(wait_descriptor, word.as_mut_ptr().cast(), 1) };
            if written != 4 || read != 1 {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            filter.install()?;
            for _ in 0..CALIBRATIONS {
                // SAFETY: takes any integer.
                unsafe { libc::fsync(-1) };
            }
            Ok(())
        };
        // SAFETY: between fork and exec it makes system calls only, and allocates nothing.
        unsafe { command.pre_exec(prepare) };
        // The child waits until it is followed, and `spawn` for the child: so it needs a thread of its own.
        let starter = std::thread::spawn(move || {
            let started = command.spawn().map(|_| ());
            drop((tell, wait));
            started
        });
        let mut word = [0; 4];
        if told.read_exact(&mut word).is_err() {
            return Err(reason(starter));
        }
        let root = Thread::from_le_bytes(word);
        let seized = request(SEIZE, root, 0, OPTIONS);
        if let Err(error) = seized.and_then(|_| (&go).write_all(&[1])) {
            kill(root);
            let _ = starter.join();
            return Err(error);
        }
        Ok(Self { root, runs: Cell::new(false), starter, _of_one_thread: PhantomData })
    }

    /// Why the program did not start, once nothing is left to follow; `None` if it did.
    #[must_use]
    pub fn failure(self) -> Option<io::Error> {
        if self.runs.get() { None } else { Some(reason(self.starter)) }
    }

    /// The process that was started.
    #[must_use]
    pub fn root(&self) -> Thread {
        self.root
    }

    /// The next stop; `None` if there is none now (`block` false) or nothing is left to follow.
    ///
    /// # Errors
    /// The system's, of waitpid(2).
    pub fn wait(&self, block: bool) -> io::Result<Option<(Thread, Stop)>> {
        let Some((thread, status)) = self.next(block)? else { return Ok(None) };
        let signal = libc::WSTOPSIG(status);
        let stop = match status >> 16 {
            _ if libc::WIFEXITED(status) => Stop::Exited(libc::WEXITSTATUS(status)),
            _ if libc::WIFSIGNALED(status) => Stop::Killed(libc::WTERMSIG(status)),
            libc::PTRACE_EVENT_SECCOMP => Stop::Call,
            libc::PTRACE_EVENT_EXEC => Stop::Exec,
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Stop::Group,
            0 if signal == libc::SIGTRAP | 0x80 => Stop::Result,
            0 => Stop::Signal(signal),
            _ => Stop::Other,
        };
        if stop == Stop::Exec {
            self.runs.set(true);
        }
        Ok(Some((thread, stop)))
    }

    fn next(&self, block: bool) -> io::Result<Option<(Thread, i32)>> {
        // Only what this thread follows: another thread may follow another program.
        let flags = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
        loop {
            let mut status = 0;
            let thread = if self.runs.get() {
                // SAFETY: the status is a live integer.
                unsafe { libc::waitpid(-1, &raw mut status, flags) }
            } else {
                // Stops only: the end of a child that could not start is the starter's to collect.
                // SAFETY: all zeros are a valid value of this structure of integers.
                let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
                // SAFETY: the structure is live.
                let code = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, flags | libc::WSTOPPED) };
                // SAFETY: waitid(2) fills in this member.
                status = (unsafe { info.si_status() } << 8) | 0x7F;
                // SAFETY: and this one.
                if code == 0 { unsafe { info.si_pid() } } else { -1 }
            };
            match io::Error::last_os_error() {
                _ if thread > 0 => return Ok(Some((thread, status))),
                _ if thread == 0 => return Ok(None),
                error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            }
        }
    }

    /// Lets a thread run on, with this signal if not 0. One that was killed meanwhile is no error: its end is the next stop.
    pub fn resume(&self, thread: Thread, signal: i32) {
        let _ = request(CONTINUE, thread, 0, usize::try_from(signal).unwrap_or(0));
    }

    /// Lets a thread make its call, and stop after it.
    pub fn to_result(&self, thread: Thread) {
        let _ = request(TO_RESULT, thread, 0, 0);
    }

    /// Lets a thread stay stopped with its group, until SIGCONT.
    pub fn stay(&self, thread: Thread) {
        let _ = request(LISTEN, thread, 0, 0);
    }

    /// Ends a process and waits for nothing: its end is a stop.
    pub fn kill(&self, process: Thread) {
        kill(process);
    }

    /// Ctrl-C at the terminal is for the program: this process waits for what the program makes of it.
    pub fn leave_ctrl_c_to_the_program(&self) {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: ignoring a signal runs no handler.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }

    fn info(thread: Thread) -> io::Result<Info> {
        let mut info = Info::default();
        request(CALL_INFO, thread, size_of::<Info>(), (&raw mut info).addr())?;
        Ok(info)
    }

    /// The call that a thread at [`Stop::Call`] is about to make.
    ///
    /// # Errors
    /// The thread was killed meanwhile.
    pub fn call(&self, thread: Thread) -> io::Result<Call> {
        let info = Self::info(thread)?;
        let [number, arguments @ ..] = info.words;
        let number = libc::c_long::try_from(number).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Call { number, arguments, instruction: info.instruction, stack: info.stack })
    }

    /// What the call of a thread at [`Stop::Result`] returned: a number, negative for an error.
    ///
    /// # Errors
    /// The thread was killed meanwhile.
    pub fn result(&self, thread: Thread) -> io::Result<i64> {
        Ok(Self::info(thread)?.words[0].cast_signed())
    }

    /// The frame pointer of a stopped thread, and the address that its function returns to where a register has it.
    #[must_use]
    pub fn frame(&self, thread: Thread) -> Option<(u64, Option<u64>)> {
        let mut words = [0_u64; 68];
        let mut vector = libc::iovec { iov_base: (&raw mut words).cast(), iov_len: size_of_val(&words) };
        request(REGISTERS, thread, 1, (&raw mut vector).addr()).ok()?;
        if cfg!(target_arch = "aarch64") {
            Some((words[29], Some(words[30])))
        } else {
            Some((words[4], None))
        }
    }
}

/// Reads memory of a stopped process; how much was there.
///
/// # Errors
/// The system's, of `process_vm_readv(2)`.
pub fn read_memory(thread: Thread, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let there = usize::try_from(address).map_err(|_| io::ErrorKind::InvalidInput)?;
    let remote = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(there), iov_len: into.len() };
    // SAFETY: the local vector is a live buffer; the kernel checks the remote one.
    let read = unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Reads a string of a stopped process, at most the length of a path.
///
/// # Errors
/// The system's, of `process_vm_readv(2)`.
pub fn read_string(thread: Thread, address: u64) -> io::Result<OsString> {
    let mut text = Vec::new();
    while text.len() < 4096 {
        // To the end of the page: the next one may not be there.
        let at = address + text.len() as u64;
        let mut part = [0; 256];
        let room = usize::try_from(256 - at % 256).unwrap_or(256);
        let read = read_memory(thread, at, &mut part[..room])?;
        let part = &part[..read];
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            text.extend(&part[..end]);
            break;
        }
        text.extend(part);
        if read == 0 {
            break;
        }
    }
    Ok(OsString::from_vec(text))
}

/// Whether what is in this folder outlives a power cut at all: not in memory, not made by the kernel.
#[must_use]
pub fn is_on_a_disk(file: &File) -> bool {
    const IN_MEMORY: [u32; 4] = [0x0102_1994, 0x8584_58F6, 0x9FA0, 0x6265_6572];
    rustix::io::retry_on_intr(|| rustix::fs::fstatfs(file)).is_ok_and(|stat| {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::unnecessary_cast,
            reason = "the number has 32 bits, and some systems extend its sign"
        )]
        let magic = stat.f_type as u32;
        !IN_MEMORY.contains(&magic)
    })
}
