//! Runs a program on a directory served from memory, and records its calls and acknowledgements.
//!
//! ```text
//!   program ── calls ──► kernel ── /dev/fuse ──► one loop ──► Memory, Record
//!      │ sync, syncfs ──► seccomp listener ────────┤
//!      └ stdout ──► pipe ──────────────────────────┘ read before each request is served
//! ```
//!
//! Invariants: a line that was printed before a call stands before it in the record; the directory on the disk is read
//! once and never written; nothing that was started outlives the recorder.

mod memory;
pub mod mount;
pub mod wire;

use crate::call::{Call, Record};
use crate::check::load;
use crate::error::{Error, Result};
use memory::Memory;
use mount::{Served, Server, ready};
use rustix::fs::{OFlags, fcntl_setfl};
use seawall_host::isolation::{self, Apart, Over, signal_group};
use seawall_host::notification::{self, Notification, SYNC, SYNCFS};
use seawall_host::seccomp::{Action, Filter, Row};
use seawall_sys::clock::monotonic_ns;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Error numbers with which namespaces or the device are refused to this user.
const REFUSED: [i32; 6] = [1, 13, 19, 22, 28, 87];
/// How long `until` may go on failing.
const UNTIL_MAX: Duration = Duration::from_mins(1);
/// How often `until` is tried.
const UNTIL_EVERY: Duration = Duration::from_millis(100);
/// How long a program may take to end when it was asked to.
const GRACE: Duration = Duration::from_secs(5);
/// How many of 1000 replies are held back, if any are.
const HELD_IN_1000: u64 = 300;
/// A pipe hands over what a program without line buffering prints in blocks of this size.
const BLOCK: usize = 4096;

/// Which call of a run fails, for programs that must survive errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The error number that the call is answered with; 0: a write is cut short.
    pub errno: i32,
    /// Which kind of call.
    pub on: FaultOn,
    /// The n-th call of that kind fails, from 0.
    pub nth: u64,
}

/// The kinds of calls that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOn {
    /// Writes of data.
    Write,
    /// Syncs of files and folders.
    Sync,
    /// New names, and renames.
    Name,
}

/// A program to record.
#[derive(Clone, Debug)]
pub struct Program {
    /// The directory; it is read, and never written.
    pub directory: PathBuf,
    /// The command, for `sh -c`.
    pub command: String,
    /// A command that ends the run once it succeeds, for servers.
    pub until: Option<String>,
    /// The run ends after this time, for servers.
    pub for_: Option<Duration>,
    /// A call that fails.
    pub fault: Option<Fault>,
    /// From this seed, some answers to writes and syncs are held back until another call comes.
    pub hold_back: Option<u64>,
    /// Data that a record may hold, in bytes.
    pub bytes_max: u64,
}

impl Program {
    /// One that runs to its end, and may write a GiB.
    #[must_use]
    pub fn new(directory: &Path, command: &str) -> Self {
        Self {
            directory: directory.to_owned(),
            command: command.to_owned(),
            until: None,
            for_: None,
            fault: None,
            hold_back: None,
            bytes_max: 1 << 30,
        }
    }
}

/// How a recorded program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Exit(i32),
    /// By a signal that was not the recorder's.
    Signal(i32),
    /// It was ended because `until` or `for_` said so.
    Asked,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Asked => f.write_str("the signal that was to end it"),
        }
    }
}

/// Runs `program` and records it.
///
/// # Errors
/// The directory cannot be served or the program cannot be started; the error names the remedy.
pub fn record(program: &Program) -> Result<(Record, Ended)> {
    record_until(program, &AtomicBool::new(false))
}

/// The same; the program is ended once `stop` is set.
///
/// # Errors
/// As [`record`]; it was ended so.
pub fn record_until(program: &Program, stop: &AtomicBool) -> Result<(Record, Ended)> {
    let directory = directory(&program.directory)?;
    let before = load(&directory)?;
    let owner = owner(&directory)?;
    let memory = Arc::new(Memory::new(&before, owner, program.bytes_max));
    memory.state().fault = program.fault;
    let (started, mut notices) = start(program, &directory)?;
    let mut run = Run::new(program, directory, started, Arc::clone(&memory))?;
    let ended = run.until_the_end(stop)?;
    notices.extend(run.lines.notices());
    drop(run);
    let state = &mut *memory.state();
    if state.overflown {
        return Err(too_large(program));
    }
    if program.fault.is_some() && !state.faulted {
        notices.push("the call that was to fail was never made".to_owned());
    }
    notices.extend(state.notices.iter().map(|notice| (*notice).to_owned()));
    Ok((Record { before, events: std::mem::take(&mut state.events), notices }, ended))
}

fn too_large(program: &Program) -> Error {
    let most = program.bytes_max >> 20;
    Error::Untestable(format!("the run wrote more than {most} MiB: make it shorter, or raise the limit"))
}

/// To whom the files belong: to this user, because others may have no number in the namespace; for root to the directory's
/// owner, because a server may refuse to run as root, or on files that are not its own.
pub(crate) fn owner(directory: &Path) -> Result<(u32, u32)> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if !user.is_root() {
        return Ok((user.as_raw(), group.as_raw()));
    }
    let about = std::fs::metadata(directory).map_err(Error::file("reading", directory))?;
    Ok((about.uid(), about.gid()))
}

/// The directory by its whole path.
fn directory(path: &Path) -> Result<PathBuf> {
    let directory = path.canonicalize().map_err(Error::file("opening", path))?;
    if !directory.is_dir() {
        return Err(Error::Untestable(format!(
            "{}: not a directory: give the one that the program writes to",
            path.display()
        )));
    }
    let here = std::env::current_dir().map_err(Error::file("opening", path))?;
    if here.starts_with(&directory) {
        return Err(Error::Untestable(format!(
            "{}: this is the directory that is recorded: run the test from outside it",
            here.display()
        )));
    }
    Ok(directory)
}

/// A program that has been started on a mounted directory.
struct Started {
    child: Child,
    device: OwnedFd,
    listener: Option<OwnedFd>,
    /// Whether `fusermount3` mounted it, and has to unmount it.
    by_helper: bool,
}

/// A command of the user's, for a shell.
pub(crate) fn command(words: &str) -> Command {
    // By its whole path: one on the way could lie in the directory, which nobody serves before the start.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", words]).stdin(Stdio::null()).env("PYTHONUNBUFFERED", "1");
    command
}

/// Starts the program; also gives what is to be said of that.
fn start(program: &Program, directory: &Path) -> Result<(Started, Vec<String>)> {
    // Each way to mount needs it.
    let device = File::options().read(true).write(true).open("/dev/fuse");
    device.map_err(Error::refused(
        "opening /dev/fuse: load the module fuse, and let everyone use it (chmod 666 /dev/fuse)",
    ))?;
    // They send nothing to a FUSE file system.
    let rows = [SYNC, SYNCFS].map(|call| Row { call, when: None, action: Action::Notify });
    let filter = Filter::new(&rows);
    let (ours, theirs) = UnixStream::pair().map_err(Error::refused("a socket"))?;
    let (over, calls) = (Over::Fuse(&theirs), Some((&filter, &theirs)));
    let mut apart = Apart { directory, over, listened: calls, namespaces: true, beside: None };
    let run = || {
        let mut run = command(&program.command);
        run.stdout(Stdio::piped());
        run
    };
    let first = match isolation::spawn(run(), &apart) {
        Ok(child) => Ok((child, isolation::receive(&ours), false, Vec::new())),
        Err(error) if error.raw_os_error().is_some_and(|errno| REFUSED.contains(&errno)) => Err(error),
        Err(error) => return Err(Error::refused("starting the program in a namespace of its own")(error)),
    };
    let (child, device, by_helper, notices) = match first {
        Ok(started) => started,
        Err(error) => {
            let device = mount_by_helper(directory).map_err(Error::refused(format!(
                "mounting over {}: namespaces are refused ({error}), and fusermount3 failed: install fuse3, or as \
                 root allow namespaces by sysctl kernel.apparmor_restrict_unprivileged_userns=0",
                directory.display()
            )))?;
            apart = Apart { over: Over::Itself, namespaces: false, ..apart };
            let child = isolation::spawn(run(), &apart).inspect_err(|_| unmount_by_helper(directory));
            let child = child.map_err(Error::refused("starting the program"))?;
            let notice = format!(
                "namespaces are refused here ({error}): fusermount3 mounted the directory for everyone"
            );
            (child, Ok(Some(device)), true, vec![notice])
        }
    };
    let nothing = || io::Error::other("the program's side was closed");
    let device = device.and_then(|device| device.ok_or_else(nothing));
    let device = device.map_err(Error::refused("the FUSE device"))?;
    let listener = isolation::receive(&ours).map_err(Error::refused("the seccomp listener"))?;
    Ok((Started { child, device, listener, by_helper }, notices))
}

/// Has the set-uid helper of fuse3 mount over `directory`; gives the device.
fn mount_by_helper(directory: &Path) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())?;
    let mut helper = Command::new("fusermount3");
    helper
        .args(["-o", "fsname=seawall,subtype=seawall,default_permissions,nosuid,nodev", "--"])
        .arg(directory);
    helper.env("_FUSE_COMMFD", theirs.as_raw_fd().to_string()).stdin(Stdio::null());
    let output = helper.output()?;
    drop(theirs);
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    isolation::receive(&ours)?.ok_or_else(|| io::Error::other("fusermount3 sent no device"))
}

fn unmount_by_helper(directory: &Path) {
    let mut helper = Command::new("fusermount3");
    helper.args(["-u", "-z", "--"]).arg(directory).stdin(Stdio::null());
    if !helper.status().is_ok_and(|status| status.success()) {
        eprintln!("could not unmount {}: run fusermount3 -u -z on it", directory.display());
    }
}

/// The lines that the program printed.
#[derive(Debug, Default)]
struct Lines {
    partial: Vec<u8>,
    count: usize,
    in_blocks: bool,
    /// Events when the first line came, and when the last one did.
    span: Option<(usize, usize)>,
    /// Events when the program had ended.
    all: usize,
}

impl Lines {
    /// What the record cannot show because of how they came.
    fn notices(&self) -> Option<String> {
        // A program with one line, or without calls after its first one, may well be right.
        let at_the_end = self.count > 1
            && self.span.is_some_and(|(first, last)| {
                last + 1 == first + self.count && first > 0 && last + 1 == self.all
            });
        (self.in_blocks || at_the_end && self.count > 3).then(|| {
            "acknowledgements came in blocks: flush stdout after each line, or losses are missed".to_owned()
        })
    }
}

/// One run of the loop.
struct Run<'a> {
    program: &'a Program,
    directory: PathBuf,
    child: Child,
    server: Server,
    listener: Option<OwnedFd>,
    /// Syncs that wait until the pages of mappings have come.
    syncing: Vec<(Notification, JoinHandle<()>)>,
    stdout: Option<ChildStdout>,
    memory: Arc<Memory>,
    lines: Lines,
    by_helper: bool,
    started_ns: u64,
    asked_ns: Option<u64>,
    until: Option<(Child, u64)>,
    tried_ns: u64,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let _ = signal_group(self.child.id(), isolation::KILL);
        // Its keeper ends the rest.
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some((mut until, _)) = self.until.take() {
            let _ = signal_group(until.id(), isolation::KILL);
            let _ = until.wait();
        }
        if self.by_helper {
            unmount_by_helper(&self.directory);
        }
    }
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, directory: PathBuf, started: Started, memory: Arc<Memory>) -> Result<Self> {
        let Started { mut child, device, listener, by_helper } = started;
        let stdout = child.stdout.take();
        // A request can be withdrawn before it is read: a read must not wait for the next one.
        rustix::io::ioctl_fionbio(&device, true).map_err(Error::refused("the FUSE device"))?;
        let (seed, files) = (program.hold_back.unwrap_or(0), Arc::clone(&memory) as Arc<dyn Served>);
        let server = Server::new(File::from(device), files, seed);
        server.held_in_1000.store(program.hold_back.map_or(0, |_| HELD_IN_1000), Ordering::Relaxed);
        let run = Self {
            program,
            directory,
            child,
            server,
            listener,
            syncing: Vec::new(),
            stdout,
            memory,
            lines: Lines::default(),
            by_helper,
            started_ns: monotonic_ns(),
            asked_ns: None,
            until: None,
            tried_ns: 0,
        };
        if let Some(stdout) = &run.stdout {
            let refused = Error::refused("reading the program's output");
            fcntl_setfl(stdout, OFlags::NONBLOCK).map_err(refused)?;
        }
        Ok(run)
    }

    fn until_the_end(&mut self, stop: &AtomicBool) -> Result<Ended> {
        let failed = |cause| Error::Refused { what: "serving the directory".to_owned(), cause };
        loop {
            if let Some(status) = self.child.try_wait().map_err(failed)? {
                // It stays readable without anyone left to call.
                self.listener = None;
                // What the kernel still has of the program's mappings comes now.
                let ended_ns = monotonic_ns();
                while self.step(20).map_err(failed)? {
                    // Where the directory is mounted for everyone, somebody else may go on using it.
                    if Duration::from_nanos(monotonic_ns() - ended_ns) > GRACE {
                        break;
                    }
                }
                self.drain();
                self.lines.all = self.memory.state().events.len();
                return Ok(match (self.asked_ns, status.code()) {
                    (Some(_), _) => Ended::Asked,
                    (None, code) => {
                        let code = code.unwrap_or(-1);
                        isolation::signal_of(code).map_or(Ended::Exit(code), Ended::Signal)
                    }
                });
            }
            self.step(match (self.syncing.is_empty(), self.server.holds()) {
                (false, _) => 1,
                (true, true) => 2,
                (true, false) => 20,
            })
            .map_err(failed)?;
            self.look_at_the_clock()?;
            if self.memory.state().overflown {
                return Err(too_large(self.program));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Untestable(
                    "interrupted while the program ran: nothing was judged".to_owned(),
                ));
            }
        }
    }

    /// Serves what is there; false: nothing came.
    fn step(&mut self, milliseconds: u32) -> io::Result<bool> {
        let mut waited = vec![self.server.device()];
        waited.extend(self.listener.as_ref().map(AsFd::as_fd));
        let came = ready(&waited, milliseconds)?;
        if came[0] {
            let (lines, stdout, memory) = (&mut self.lines, &mut self.stdout, &self.memory);
            return self.server.serve_next(|| drain(stdout, lines, memory));
        }
        self.flushed()?;
        if came.get(1) == Some(&true) {
            return self.synced();
        }
        self.drain();
        if self.server.holds() {
            self.server.release()?;
            return Ok(true);
        }
        Ok(false)
    }

    fn drain(&mut self) {
        drain(&mut self.stdout, &mut self.lines, &self.memory);
    }

    /// Enters and answers the syncs whose pages have come; to be called when no request waits.
    fn flushed(&mut self) -> io::Result<()> {
        let done: Vec<_> = self.syncing.extract_if(.., |(_, flush)| flush.is_finished()).collect();
        for (call, _) in done {
            self.drain();
            self.memory.state().note(Call::SyncAll, call.thread);
            if let Some(listener) = &self.listener {
                notification::answer(listener, &call, false)?;
            }
        }
        Ok(())
    }

    /// Takes a `sync` or `syncfs`: one of the recorded directory is entered, another one is made.
    fn synced(&mut self) -> io::Result<bool> {
        let Some(listener) = self.listener.take() else { return Ok(false) };
        // It fails once every process with the filter has ended.
        let Ok(call) = notification::next(&listener) else { return Ok(false) };
        if let Some(call) = call {
            self.drain();
            // Its name is known to the kernel; asking more of the file would ask this loop.
            let link = std::fs::read_link(format!("/proc/{}/fd/{}", call.thread, call.argument));
            let ours = call.call == SYNC || link.is_ok_and(|link| link.starts_with(&self.directory));
            if ours {
                // Has the kernel send the pages of mappings; in a thread, because this one takes them.
                let (keeper, directory) = (self.child.id(), self.directory.clone());
                let flush = std::thread::spawn(move || drop(isolation::sync_as_seen(keeper, &directory)));
                self.syncing.push((call, flush));
            } else {
                notification::answer(&listener, &call, true)?;
            }
        }
        self.listener = Some(listener);
        Ok(true)
    }

    /// Ends the program when it is to end.
    fn look_at_the_clock(&mut self) -> Result<()> {
        let now = monotonic_ns();
        let since = |then: u64| Duration::from_nanos(now.saturating_sub(then));
        if let Some(asked) = self.asked_ns {
            if since(asked) > GRACE {
                let _ = signal_group(self.child.id(), isolation::KILL);
            }
            return Ok(());
        }
        let mut over = self.program.for_.is_some_and(|time| since(self.started_ns) > time);
        if let Some(until) = &self.program.until {
            match &mut self.until {
                None if since(self.tried_ns) > UNTIL_EVERY => {
                    let mut until = command(until);
                    until.stdout(Stdio::null()).stderr(Stdio::null());
                    let (directory, over) = (&self.directory, Over::Itself);
                    let beside = (!self.by_helper).then(|| self.child.id());
                    let apart = Apart { directory, over, listened: None, namespaces: false, beside };
                    let refused = Error::refused("running the command of --until");
                    let child = isolation::spawn(until, &apart).map_err(refused)?;
                    self.until = Some((child, now));
                }
                None => {}
                Some((child, begun)) => match child.try_wait() {
                    Ok(Some(status)) => {
                        over |= status.success();
                        self.until = None;
                        self.tried_ns = now;
                    }
                    _ if since(*begun) > GRACE => {
                        let _ = signal_group(child.id(), isolation::KILL);
                    }
                    _ => {}
                },
            }
            if !over && since(self.started_ns) > UNTIL_MAX {
                return Err(Error::Untestable(format!(
                    "--until did not succeed within {} s: try its command by hand while the program runs",
                    UNTIL_MAX.as_secs()
                )));
            }
        }
        if over {
            let _ = signal_group(self.child.id(), isolation::TERMINATE);
            self.asked_ns = Some(now);
        }
        Ok(())
    }
}

/// Enters the lines that the program has printed by now.
fn drain(stdout: &mut Option<ChildStdout>, lines: &mut Lines, memory: &Memory) {
    let Some(pipe) = stdout else { return };
    let mut buf = [0; 4 * BLOCK];
    loop {
        match pipe.read(&mut buf) {
            Ok(0) => {
                *stdout = None;
                return;
            }
            Ok(read) => {
                let mut state = memory.state();
                let mut here = 0;
                for piece in buf[..read].split_inclusive(|byte| *byte == b'\n') {
                    lines.partial.extend_from_slice(piece);
                    if lines.partial.pop_if(|last| *last == b'\n').is_some() {
                        let line = std::mem::take(&mut lines.partial).into();
                        state.note(Call::Acknowledge { line }, 0);
                        here += 1;
                        let at = state.events.len() - 1;
                        lines.span = Some((lines.span.map_or(at, |(first, _)| first), at));
                    }
                }
                lines.count += here;
                lines.in_blocks |= read >= BLOCK && here > 1;
            }
            Err(_) => return,
        }
    }
}
