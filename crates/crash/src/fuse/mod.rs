//! Mounts a file system served by this process over FUSE, and unmounts it on drop.
//!
//! [`Mount`] opens `/dev/fuse`, mounts it, and serves it from one thread until it is dropped. One thread, because
//! then "this request came before that one" has one answer, which is what a recorder is for.
//!
//! Some replies can be *held back*: a write or a sync is then answered only when another request has come or nothing
//! else comes for a while, in any order. Only that exposes a victim that syncs concurrently with a write instead of
//! after it.
//!
//! Invariants: an operation counts as done before its reply is sent and never later, so every later action of the
//! victim comes later in the record too; every request gets exactly one reply.

pub(crate) mod wire;

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use seawall::sim::rng::Rng;
use wire::{Reply, Request, errno, opcode};

const LAST_WORDS_TRIES: u32 = 400;

/// How an operation is answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// By these results.
    Reply(Reply),
    /// By these results, once the operation of this number counts as done.
    Recorded(Reply, u64),
    /// By an error number.
    Error(i32),
}

/// What is mounted.
pub(crate) trait Served: Send + Sync + 'static {
    /// Executes one request.
    fn begin(&self, request: &Request<'_>) -> Answer;

    /// The operation `number` is about to be answered.
    fn done(&self, number: u64);
}

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mount {
    path: PathBuf,
    held_in_1000: Arc<AtomicU64>,
    server: Option<JoinHandle<io::Result<()>>>,
}

impl Mount {
    /// Mounts `served` on the directory `path`.
    pub(crate) fn new(path: &Path, served: Arc<dyn Served>, seed: u64) -> io::Result<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let data = CString::new(data).map_err(io::Error::other)?;
        mount("seawall-crash", path, "fuse", MountFlags::NOSUID | MountFlags::NODEV, data.as_c_str())?;
        let held_in_1000 = Arc::new(AtomicU64::new(0));
        let (held, rng) = (Vec::new(), Rng::new(seed));
        let mut kernel = Server { device, served, held_in_1000: Arc::clone(&held_in_1000), held, rng };
        // From here on a failure unmounts.
        let mut mounted = Self { path: path.to_owned(), held_in_1000, server: None };
        let thread = std::thread::Builder::new().name("recorder".to_owned());
        mounted.server = Some(thread.spawn(move || kernel.run())?);
        Ok(mounted)
    }

    /// From now on delays this many of 1000 replies to writes and syncs.
    pub(crate) fn hold_back(&self, in_1000: u64) {
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

struct Server {
    device: File,
    served: Arc<dyn Served>,
    held_in_1000: Arc<AtomicU64>,
    held: Vec<(u64, Reply, u64)>,
    rng: Rng,
}

impl Server {
    fn run(&mut self) -> io::Result<()> {
        let mut buf = vec![0; wire::WRITE_BYTES_MAX as usize + 64 * 1024];
        loop {
            if !self.held.is_empty() && !self.more_comes()? {
                self.release()?;
                continue;
            }
            let read = match self.device.read(&mut buf) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A request that was withdrawn before it was read.
                Err(error) if error.raw_os_error() == Some(errno::NOENT) => continue,
                // Unmounted.
                Err(error) if error.raw_os_error() == Some(19) => return Ok(()),
                Err(error) => return Err(error),
            };
            let Some(request) = Request::parse(&buf[..read]) else { continue };
            self.serve(&request)?;
        }
    }

    /// Whether another request comes within two milliseconds.
    fn more_comes(&self) -> io::Result<bool> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        let mut polled = [PollFd::new(&self.device, PollFlags::IN)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers everything that was held back, in any order.
    fn release(&mut self) -> io::Result<()> {
        while !self.held.is_empty() {
            let (unique, reply, number) = self.held.swap_remove(self.rng.index(self.held.len()));
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
            Answer::Error(number) => self.reply(request.unique, number, &[]),
            Answer::Recorded(reply, number) => {
                if self.rng.below(1000) < self.held_in_1000.load(Ordering::SeqCst) {
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
            // The request was withdrawn meanwhile, by a signal.
            Err(error) if error.raw_os_error() == Some(errno::NOENT) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }
}
