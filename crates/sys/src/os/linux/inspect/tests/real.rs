//! Tests inspection on the running machine: root, memory, and file systems mounted for the purpose.
//!
//! A test that lacks root or a tool reports itself as skipped.

use crate::counters::Reader;
use crate::durability::{Lie, Medium};
use crate::inspect::{FoundLie, environment};
use crate::os::system::inspect::calls;
use crate::os::system::inspect::lies::{Swallowed, of_process};
use crate::os::system::inspect::roots::names;
use crate::skip::skipped;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn this_machine_is_described_without_a_panic() {
    let found = environment(Path::new("/")).expect("a root folder");
    assert!(found.system.starts_with("Linux "), "{}", found.system);
    assert!(found.cpus >= 1 && found.memory_bytes.is_some() && !found.writeback.is_empty());
    assert!(found.file_system.total_bytes >= found.file_system.free_bytes);
    let missing = environment(Path::new("/no such folder")).expect_err("nothing there");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let file = tempfile::NamedTempFile::new().expect("a file");
    assert_ne!(environment(file.path()).expect("a file will do").file_system.kind, "unknown");
}

#[test]
fn tmpfs_is_memory() {
    let shm = Path::new("/dev/shm");
    if !shm.exists() {
        skipped("there is no /dev/shm");
        return;
    }
    let found = environment(shm).expect("a folder");
    assert_eq!((found.file_system.kind.as_str(), found.file_system.medium), ("tmpfs", Medium::Memory));
    assert!(found.devices.is_empty());
}

#[test]
fn this_process_swallows_no_syncs() {
    assert_eq!(calls::swallowed_syncs(), Swallowed::default());
    let maps = fs::read_to_string("/proc/self/maps").expect("own maps");
    assert_eq!(of_process(Some(&maps), None, Swallowed::default()), []);
}

/// Something mounted in a temporary folder until dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn ext4(options: &str) -> io::Result<Self> {
        let (folder, point) = Self::folders(&[])?;
        let image = folder.path().join("image");
        let file = fs::File::create(&image)?;
        file.set_len(16 << 20)?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        run(Command::new("mount").args(["-t", "ext4", "-o", options]).arg(&image).arg(&point))?;
        Ok(Self(folder))
    }

    /// An overlay of two folders, whose names have in them what its options must escape.
    fn overlay(option: &str) -> io::Result<Self> {
        let (folder, point) = Self::folders(&["lower", "up,per", "work"])?;
        let at = |name: &str| format!("{}/{name}", folder.path().display());
        let layers = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("up\\,per"), at("work"));
        let options = format!("{layers},{option}");
        run(Command::new("mount").args(["-t", "overlay", "-o", &options, "overlay"]).arg(&point))?;
        Ok(Self(folder))
    }

    fn folders(names: &[&str]) -> io::Result<(tempfile::TempDir, PathBuf)> {
        let folder = tempfile::tempdir()?;
        for name in names.iter().chain(&["point"]) {
            fs::create_dir(folder.path().join(name))?;
        }
        let point = folder.path().join("point");
        Ok((folder, point))
    }

    fn point(&self) -> PathBuf {
        self.0.path().join("point")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("umount").arg(self.point())) {
            println!("left mounted: {error}");
        }
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let done = command.output()?;
    if done.status.success() { Ok(()) } else { Err(io::Error::other(String::from_utf8_lossy(&done.stderr))) }
}

#[test]
fn a_loop_mount_with_barriers_off_is_caught_and_one_with_barriers_is_not() {
    for (options, lies) in [("loop,barrier=0", 1), ("loop,nobarrier", 1), ("loop", 0)] {
        let mounted = match Mounted::ext4(options) {
            Ok(mounted) => mounted,
            Err(reason) => {
                skipped(format_args!("the loop mount with {options} needs root and mkfs.ext4: {reason}"));
                continue;
            }
        };
        let found = environment(&mounted.point()).expect("a mounted folder");
        assert_eq!(found.file_system.kind, "ext4");
        let own = |found: &&FoundLie| found.evidence.contains(&*mounted.point().to_string_lossy());
        let ours: Vec<_> = found.lies.iter().filter(own).collect();
        assert_eq!(ours.len(), lies, "{options}: {:?}", found.lies);
        assert!(ours.iter().all(|found| found.lie == Lie::BarriersOff));
        let top = &found.devices[0];
        assert_eq!(top.kind, "loop");
        let image = mounted.0.path().join("image");
        assert_eq!(top.model.as_deref(), image.to_str());
        let under = environment(mounted.0.path()).expect("the image's folder");
        assert_eq!(found.devices[1..], under.devices);
        if !under.devices.is_empty() {
            let reader = Reader::open(&found).expect("the leaves have counters");
            assert!(reader.read().expect("counters").writes > 0);
        }
    }
}

#[test]
fn a_volatile_overlay_is_caught_and_stands_on_what_its_upper_folder_is_on() {
    for (option, lies) in [("volatile", 1), ("metacopy=off", 0)] {
        let mounted = match Mounted::overlay(option) {
            Ok(mounted) => mounted,
            Err(reason) => {
                skipped(format_args!("the overlay with {option} needs root and overlayfs: {reason}"));
                continue;
            }
        };
        let found = environment(&mounted.point()).expect("a mounted folder");
        let under = environment(mounted.0.path()).expect("its upper folder's file system");
        assert_eq!(found.file_system.kind, "overlay");
        assert_eq!(found.file_system.medium, under.file_system.medium);
        assert_eq!(found.devices, under.devices);
        let disabled = found.lies.iter().filter(|found| found.lie == Lie::SyncDisabled);
        assert_eq!(disabled.count(), lies, "{option}: {:?}", found.lies);
    }
}

#[test]
fn a_raw_device_is_described_by_its_own_number() {
    let class = names(Path::new("/sys/class/block"));
    let Some(name) = class.iter().find(|name| Path::new("/dev").join(name).exists()) else {
        skipped("no block device node here");
        return;
    };
    let found = environment(&Path::new("/dev").join(name)).expect("a device");
    assert_eq!((found.file_system.kind.as_str(), &found.devices[0].name), ("block device", name));
    assert_eq!(found.file_system.total_bytes, found.devices[0].bytes.unwrap_or(0));
}

/// A library with another name than the known ones, so that its answer alone gives it away.
#[test]
fn a_library_that_swallows_syncs_is_caught_whatever_its_name() {
    /// Complains of a wrong descriptor, as `libeatmydata` does, and of nothing else.
    const QUIET: &str = "#include <fcntl.h>\n\
        int fsync(int fd) { return fcntl(fd, F_GETFD) == -1 ? -1 : 0; }\n\
        int fdatasync(int fd) { return fsync(fd); }\n";
    const MARK: &str = "SEAWALL_TEST_PRELOADED";
    const NAME: &str =
        "os::system::inspect::tests::real::a_library_that_swallows_syncs_is_caught_whatever_its_name";
    if std::env::var_os(MARK).is_some() {
        let lies = environment(Path::new("/")).expect("a root folder").lies;
        assert!(lies.iter().any(|found| found.lie == Lie::Preload), "{lies:?}");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, library) = (folder.path().join("quiet.c"), folder.path().join("libquiet.so"));
    fs::write(&source, QUIET).expect("a file");
    if let Err(reason) = run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source)) {
        skipped(format_args!("the preloaded library needs a C compiler: {reason}"));
        return;
    }
    let own = std::env::current_exe().expect("own path");
    let mut preloaded = Command::new(own);
    preloaded.args(["--exact", NAME]).env(MARK, "1").env("LD_PRELOAD", &library);
    let done = preloaded.output().expect("own tests run");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}
