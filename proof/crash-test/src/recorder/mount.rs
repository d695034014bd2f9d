//! Serves a file system of this process over FUSE, from one thread.
//!
//! One thread, because then "this request came before that one" has one answer, which is what a recorder is for.
//!
//! Some replies can be *held back*: a write or a sync is then answered only when another request has come or nothing
//! else comes for a while, in any order. Only that exposes a program that syncs concurrently with a write instead of
//! after it.
//!
//! Invariants: an operation counts as done before its reply is sent and never later, so every later action of the
//! program comes later in the record too; every request gets exactly one reply.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::wire::{self, Reply, Request, opcode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use seawall_sys::chance::SplitMix64;

const LAST_WORDS_TRIES: u32 = 400;

/// How an operation is answered.
#[derive(Debug)]
pub enum Answer {
    /// By these results.
    Reply(Reply),
    /// By these results, once the operation of this number counts as done.
    Recorded(Reply, u64),
    /// By an error number.
    Error(Errno),
}

/// What is mounted.
pub trait Served: Send + Sync + 'static {
    /// Executes one request.
    fn begin(&self, request: &Request<'_>) -> Answer;

    /// The operation `number` is about to be answered.
    fn done(&self, number: u64);
}

/// A file system mounted by root for everyone; unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
    held_in_1000: Arc<AtomicU64>,
    server: Option<JoinHandle<io::Result<()>>>,
}

impl Mount {
    /// Mounts `served` on the directory `path`.
    ///
    /// # Errors
    /// The system's.
    pub fn new(path: &Path, served: Arc<dyn Served>, seed: u64) -> io::Result<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let data = CString::new(data).map_err(io::Error::other)?;
        mount("seawall-crash", path, "fuse", MountFlags::NOSUID | MountFlags::NODEV, data.as_c_str())?;
        let mut answers = Server::new(device, served, seed);
        let held_in_1000 = Arc::clone(&answers.held_in_1000);
        // From here on a failure unmounts.
        let mut mounted = Self { path: path.to_owned(), held_in_1000, server: None };
        let thread = std::thread::Builder::new().name("recorder".to_owned());
        mounted.server = Some(thread.spawn(move || answers.run())?);
        Ok(mounted)
    }

    /// From now on delays this many of 1000 replies to writes and syncs.
    pub fn hold_back(&self, in_1000: u64) {
        self.held_in_1000.store(in_1000, Ordering::SeqCst);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.hold_back(0);
        // Lazily, so that a process that still sits in the directory cannot keep it mounted.
        if let Err(error) = unmount(&self.path, UnmountFlags::DETACH) {
            eprintln!("could not unmount {}: {error}", self.path.display());
            return;
        }
        let Some(server) = self.server.take() else { return };
        // An open file keeps the mount alive; waiting for that without end would hang the whole run.
        for _ in 0..LAST_WORDS_TRIES {
            if server.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if !server.is_finished() {
            eprintln!("something still holds a file in {}", self.path.display());
        } else if let Ok(Err(error)) = server.join() {
            eprintln!("the file system on {} ended with: {error}", self.path.display());
        }
    }
}

/// Which descriptors have something to read within `milliseconds`.
pub(crate) fn ready(descriptors: &[BorrowedFd<'_>], milliseconds: u32) -> io::Result<Vec<bool>> {
    let timeout =
        Timespec { tv_sec: (milliseconds / 1000).into(), tv_nsec: (milliseconds % 1000 * 1_000_000).into() };
    let mut polled: Vec<PollFd<'_>> =
        descriptors.iter().map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN)).collect();
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(polled.iter().map(|one| !one.revents().is_empty()).collect()),
        Err(error) => Err(error.into()),
    }
}

/// Answers the requests of one mounted file system.
pub(crate) struct Server {
    device: File,
    served: Arc<dyn Served>,
    pub(crate) held_in_1000: Arc<AtomicU64>,
    held: Vec<(u64, Reply, u64)>,
    rng: SplitMix64,
    buf: Vec<u8>,
}

impl Server {
    pub(crate) fn new(device: File, served: Arc<dyn Served>, seed: u64) -> Self {
        let buf = vec![0; wire::WRITE_BYTES_MAX as usize + 64 * 1024];
        let (held_in_1000, rng) = (Arc::default(), SplitMix64::new(seed));
        Self { device, served, held_in_1000, held: Vec::new(), rng, buf }
    }

    pub(crate) fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Whether replies are held back.
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            if self.holds() && !ready(&[self.device.as_fd()], 2)?[0] {
                self.release()?;
            } else if !self.serve_next(|| {})? {
                return Ok(());
            }
        }
    }

    /// Waits for a request and answers it; `before` runs once it is there. False: the file system is unmounted.
    pub(crate) fn serve_next(&mut self, before: impl FnOnce()) -> io::Result<bool> {
        let read = match self.device.read(&mut self.buf) {
            Ok(read) => read,
            // Interrupted, or a request that was withdrawn before it was read.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => return Ok(true),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => return Ok(false),
            Err(error) => return Err(error),
        };
        before();
        let buf = std::mem::take(&mut self.buf);
        let served = Request::parse(&buf[..read]).map_or(Ok(()), |request| self.serve(&request));
        self.buf = buf;
        served.map(|()| true)
    }

    /// Answers everything that was held back, in any order.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        while !self.held.is_empty() {
            let chosen = self.rng.next_u64() % self.held.len() as u64;
            let (unique, reply, number) = self.held.swap_remove(usize::try_from(chosen).unwrap_or(0));
            self.served.done(number);
            self.reply(unique, 0, &reply.into_bytes())?;
        }
        Ok(())
    }

    fn serve(&mut self, request: &Request<'_>) -> io::Result<()> {
        let answer = match request.opcode {
            opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => return Ok(()),
            opcode::INIT => Answer::Reply(Reply::init()),
            opcode::STATFS => Answer::Reply(Reply::statfs()),
            opcode::ACCESS | opcode::FLUSH | opcode::RELEASE | opcode::RELEASEDIR | opcode::DESTROY => {
                Answer::Reply(Reply::default())
            }
            _ => self.served.begin(request),
        };
        match answer {
            Answer::Reply(reply) => self.reply(request.unique, 0, &reply.into_bytes()),
            Answer::Error(errno) => self.reply(request.unique, errno.raw_os_error(), &[]),
            Answer::Recorded(reply, number) => {
                if self.rng.next_u64() % 1000 < self.held_in_1000.load(Ordering::SeqCst) {
                    self.held.push((request.unique, reply, number));
                    return Ok(());
                }
                self.served.done(number);
                self.reply(request.unique, 0, &reply.into_bytes())
            }
        }
    }

    fn reply(&mut self, unique: u64, error: i32, results: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(16 + results.len());
        bytes.extend(u32::try_from(16 + results.len()).map_err(io::Error::other)?.to_le_bytes());
        bytes.extend((-error).to_le_bytes());
        bytes.extend(unique.to_le_bytes());
        bytes.extend_from_slice(results);
        match self.device.write(&bytes) {
            // The request was withdrawn meanwhile, by a signal, or its file system with it.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NODEV)) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }
}
