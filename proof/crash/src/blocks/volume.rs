//! Makes, mounts and releases an ext4, xfs or btrfs on a disk in memory.
//!
//! ```text
//! Volume        mounted file system  ->  /dev/loopN (direct I/O)  ->  FUSE mount: disk, marks  ->  BlockFile
//! StateVolume   mounted file system  ->  /dev/loopN (direct I/O)  ->  tmpfs: disk
//! ```
//!
//! A [`Volume`] records what its disk is sent, and fails on demand. A [`StateVolume`] does neither: a crash state is
//! judged there without a turn of this process for each request.
//!
//! Invariants: mounts and devices are released when the value is dropped, in the opposite order, also when a test
//! fails half-way; the kernel's cache of the old contents is dropped before the next state is mounted. (The kernel
//! does so by itself at the last close of the device; but udev opens it meanwhile, and then ext4 finds the bitmaps of
//! another state.)

use std::ffi::CString;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use super::file::{BlockFile, DISK, MARKS};
use super::window::State;
use crate::error::Error;
use seawall_crash_test::recorder::mount::{Mount, Served};

/// A file system of the running kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// For mkfs and mount.
    pub(crate) name: &'static str,
    /// The size of the disk in bytes: as small as the file system takes.
    pub(crate) disk_bytes: u64,
    /// In the bounded portion one in N states is judged, because mounting is slow.
    pub(crate) bounded_one_in: u64,
    mkfs: &'static [&'static str],
    options: &'static str,
    /// The options where nothing is recorded: without flushes, if the file system knows that. No state depends on them.
    options_unrecorded: &'static str,
}

const MIB: u64 = 1 << 20;
const DETACH_TRIES: u32 = 100;
const BUSY_TRIES: u32 = 400;

/// Every file system that is tried.
pub(crate) const FILE_SYSTEMS: [FileSystem; 3] = [
    FileSystem {
        name: "ext4",
        disk_bytes: 48 * MIB,
        bounded_one_in: 1,
        mkfs: &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"],
        options: "",
        options_unrecorded: "nobarrier",
    },
    FileSystem {
        name: "xfs",
        disk_bytes: 304 * MIB,
        bounded_one_in: 1,
        mkfs: &["-q", "-f", "-K"],
        options: "nouuid",
        options_unrecorded: "nouuid",
    },
    FileSystem {
        name: "btrfs",
        disk_bytes: 256 * MIB,
        bounded_one_in: 5,
        mkfs: &["-q", "-f", "-K"],
        options: "",
        options_unrecorded: "nobarrier",
    },
];

impl FileSystem {
    pub(crate) fn find(name: &str) -> Result<&'static Self, Error> {
        FILE_SYSTEMS
            .iter()
            .find(|known| known.name == name)
            .ok_or_else(|| Error::NoFileSystem(name.to_owned()))
    }

    /// An empty one, in the form of the disk of `bytes` bytes that holds it, made by way of a file in `dir`.
    pub(crate) fn image(&self, dir: &Path, bytes: u64) -> io::Result<Vec<u8>> {
        let path = dir.join("image");
        std::fs::File::create(&path)?.set_len(bytes)?;
        self.make(&path.to_string_lossy())?;
        let image = std::fs::read(&path)?;
        std::fs::remove_file(&path)?;
        Ok(image)
    }

    /// Makes one on a device, or in a file.
    fn make(&self, place: &str) -> io::Result<()> {
        run(&format!("mkfs.{}", self.name), &[self.mkfs, &[place]].concat()).map(drop)
    }
}

fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{program} {}: {}", arguments.join(" "), text.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[derive(Debug)]
struct LoopDevice {
    path: String,
    backing: PathBuf,
    /// What keeps it attached.
    held: Option<std::fs::File>,
}

impl LoopDevice {
    /// Attaches the file so that the kernel detaches it when this value, or the process, is gone and nothing else uses
    /// the device: a device that is detached while it is open goes when it is closed for the last time.
    fn attach(file: &Path) -> io::Result<Self> {
        let path = run("losetup", &["--find", "--show", "--direct-io=on", &file.to_string_lossy()])?;
        // From here on a failure detaches.
        let mut device = Self { path, backing: file.to_owned(), held: None };
        device.held = Some(std::fs::File::open(&device.path)?);
        // The kernel keeps what another program has set for the device of this number.
        let queue = format!("/sys/block/{}/queue/write_cache", device.path.trim_start_matches("/dev/"));
        std::fs::write(queue, "write back")?;
        run("losetup", &["--detach", &device.path])?;
        Ok(device)
    }

    /// Whether it is still attached to this file: the number may have been given to another by now.
    fn is_attached(&self) -> bool {
        let name = self.path.trim_start_matches("/dev/");
        let backing = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        backing.is_ok_and(|backing| Path::new(backing.trim()) == self.backing)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        self.held = None;
        // While udev looks at the device, detaching only notes the wish.
        let mut last = Ok(String::new());
        for _ in 0..DETACH_TRIES {
            if !self.is_attached() {
                return;
            }
            last = run("losetup", &["--detach", &self.path]);
            if self.is_attached() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        if self.is_attached() {
            eprintln!("{} is still attached: {last:?}", self.path);
        }
    }
}

/// A mounted file system.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) path: PathBuf,
    up: bool,
}

impl Mounted {
    pub(crate) fn remount(&self, options: &str) -> io::Result<()> {
        let options = format!("remount,{options}");
        run("mount", &["-o", &options, &self.path.to_string_lossy()]).map(drop)
    }

    pub(crate) fn unmount(mut self) -> io::Result<()> {
        self.up = false;
        for _ in 0..BUSY_TRIES {
            match unmount(&self.path, UnmountFlags::empty()) {
                // Another process holds every mounted file system just now.
                Err(rustix::io::Errno::BUSY) => std::thread::sleep(Duration::from_millis(5)),
                ended => return Ok(ended?),
            }
        }
        self.up = true;
        Err(rustix::io::Errno::BUSY.into())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.up
            && let Err(error) = unmount(&self.path, UnmountFlags::DETACH)
        {
            eprintln!("could not unmount {}: {error}", self.path.display());
        }
    }
}

/// A loop device, and where its file system is mounted.
#[derive(Debug)]
struct Ground {
    device: LoopDevice,
    file_system: &'static FileSystem,
    mount_point: PathBuf,
}

impl Ground {
    /// A device over the file `disk`, to be mounted in the directory `root`.
    fn new(disk: &Path, file_system: &'static FileSystem, root: &Path) -> io::Result<Self> {
        let mount_point = root.join("mounted");
        std::fs::create_dir(&mount_point)?;
        Ok(Self { device: LoopDevice::attach(disk)?, file_system, mount_point })
    }

    /// Drops what the kernel has cached of the disk.
    fn drop_cache(&self) -> io::Result<()> {
        let device = std::fs::File::open(&self.device.path)?;
        Ok(fadvise(&device, 0, None, Advice::DontNeed)?)
    }

    fn mount(&self, options: &str) -> io::Result<Mounted> {
        let path = self.mount_point.clone();
        let options = CString::new(options).map_err(io::Error::other)?;
        let flags = MountFlags::NOATIME;
        for _ in 0..BUSY_TRIES {
            match mount(self.device.path.as_str(), &path, self.file_system.name, flags, options.as_c_str()) {
                Err(rustix::io::Errno::BUSY) => std::thread::sleep(Duration::from_millis(5)),
                ended => return Ok(ended.map(|()| Mounted { path, up: true })?),
            }
        }
        Err(rustix::io::Errno::BUSY.into())
    }
}

/// A recorded disk in memory with everything around it. Fields are dropped in this order.
#[derive(Debug)]
pub(crate) struct Volume {
    ground: Ground,
    pub(crate) recorder: Mount,
    /// The disk.
    pub(crate) file: Arc<BlockFile>,
    root: TempDir,
}

impl Volume {
    /// An empty disk for `file_system`.
    pub(crate) fn new(file_system: &'static FileSystem, seed: u64) -> io::Result<Self> {
        let root = crate::apart::scratch()?;
        let served = root.path().join("recorder");
        std::fs::create_dir(&served)?;
        let file = Arc::new(BlockFile::new(file_system.disk_bytes));
        let recorder = Mount::new(&served, Arc::clone(&file) as Arc<dyn Served>, seed)?;
        let ground = Ground::new(&served.join(DISK), file_system, root.path())?;
        Ok(Self { ground, recorder, file, root })
    }

    pub(crate) fn make(&self) -> io::Result<()> {
        self.ground.file_system.make(&self.ground.device.path)
    }

    pub(crate) fn install(&self, state: &State) -> io::Result<()> {
        self.file.install(state.image.clone());
        self.ground.drop_cache()
    }

    pub(crate) fn mount(&self) -> io::Result<Mounted> {
        self.ground.mount(self.ground.file_system.options)
    }

    /// The control file.
    pub(crate) fn marks(&self) -> PathBuf {
        self.root.path().join("recorder").join(MARKS)
    }
}

/// A disk in memory that is not recorded, for one state after another. Fields are dropped in this order.
#[derive(Debug)]
pub(crate) struct StateVolume {
    ground: Ground,
    disk: std::fs::File,
    _memory: Mounted,
    _root: TempDir,
}

impl StateVolume {
    /// An empty disk for `file_system`.
    pub(crate) fn new(file_system: &'static FileSystem) -> io::Result<Self> {
        let root = crate::apart::scratch()?;
        let path = root.path().join("recorder");
        std::fs::create_dir(&path)?;
        mount("seawall-crash", &path, "tmpfs", MountFlags::empty(), None)?;
        let memory = Mounted { path, up: true };
        let path = memory.path.join(DISK);
        let disk = std::fs::File::options().read(true).write(true).create_new(true).open(&path)?;
        disk.set_len(file_system.disk_bytes)?;
        let ground = Ground::new(&path, file_system, root.path())?;
        Ok(Self { ground, disk, _memory: memory, _root: root })
    }

    pub(crate) fn install(&self, state: &State) -> io::Result<()> {
        let everything = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.disk, everything, 0, self.ground.file_system.disk_bytes)?;
        for (offset, bytes) in state.image.pieces() {
            self.disk.write_all_at(bytes, offset)?;
        }
        self.ground.drop_cache()
    }

    pub(crate) fn mount(&self) -> io::Result<Mounted> {
        self.ground.mount(self.ground.file_system.options_unrecorded)
    }
}
