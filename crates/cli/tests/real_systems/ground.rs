//! Test fixture: makes, mounts and removes file systems on loop devices.
//!
//! Invariant: every mount and loop device is released when its guard is dropped, also when a test fails; after a kill
//! the mount namespace and the loop devices' autoclear flag release them.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder on the file system of the build tree, because the temporary folder may be in memory.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in(place()).expect("a folder in the build tree")
}

/// The build tree, or the place that an emulated machine names in `SEAWALL_TEST_PLACE`.
fn place() -> PathBuf {
    std::env::var_os("SEAWALL_TEST_PLACE").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into()).into()
}

/// Runs a program that must succeed; gives what it printed.
pub(crate) fn must(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
        .output()
        .unwrap_or_else(|error| panic!("cannot start {program}: {error}; `cargo xtask setup` installs it"));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {printed}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub(crate) struct Mount {
    at: PathBuf,
}

impl Mount {
    /// `mount -t kind -o options source at`.
    pub(crate) fn new(kind: &str, options: &str, source: &str, at: &Path) -> Self {
        must("mount", &["-t", kind, "-o", options, source, text(at)]);
        Self { at: at.to_path_buf() }
    }

    /// The same folder once more at `at`, read-only.
    pub(crate) fn read_only(folder: &Path, at: &Path) -> Self {
        must("mount", &["--bind", text(folder), text(at)]);
        let mount = Self { at: at.to_path_buf() };
        must("mount", &["-o", "remount,ro,bind", text(at)]);
        mount
    }

    /// An overlay in `place` whose folders have relative names, which the mount table repeats as they were given: what is under it
    /// cannot be seen.
    pub(crate) fn hidden_overlay(place: &Path) -> Self {
        overlay_parts(place);
        let mut command = Command::new("mount");
        let options = "lowerdir=lower,upperdir=upper,workdir=work";
        command.args(["-t", "overlay", "overlay", "-o", options, "merged"]).current_dir(place);
        assert!(command.status().expect("mount").success());
        Self { at: place.join("merged") }
    }

    /// An overlay in `place`, with these options besides.
    pub(crate) fn overlay(place: &Path, more: &str) -> Self {
        overlay_parts(place);
        let at = place.display();
        let options = format!("lowerdir={at}/lower,upperdir={at}/upper,workdir={at}/work{more}");
        Self::new("overlay", &options, "overlay", &place.join("merged"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.at
    }
}

fn overlay_parts(place: &Path) {
    for part in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(place.join(part)).expect("a folder");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmount = |how: &[&str]| {
            let output = Command::new("umount").args(how).arg(&self.at).output();
            output.is_ok_and(|output| output.status.success())
        };
        // A ring that was closed lets go of its file only a little later.
        for _ in 0..50 {
            if unmount(&["--quiet"]) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        // Lazily then: the mount must not outlive the test.
        if !unmount(&["--lazy"]) {
            eprintln!("{} could not be unmounted", self.at.display());
        }
    }
}

/// A file system in an image file on a loop device, mounted, until dropped.
pub(crate) struct Ground {
    // Dropped in this order: unmounted, then removed.
    mount: Mount,
    device: String,
    folder: TempDir,
}

impl Ground {
    /// A new file system of `kind` and `mib` MiB.
    pub(crate) fn new(kind: &str, mib: u64, options: &str) -> Self {
        Self::new_in(&place(), kind, mib, options)
    }

    /// The same, with its image in `place`.
    pub(crate) fn new_in(place: &Path, kind: &str, mib: u64, options: &str) -> Self {
        Self::with_sectors(place, kind, mib, options, 512)
    }

    /// The same on a device with sectors of this many bytes.
    pub(crate) fn with_sectors(place: &Path, kind: &str, mib: u64, options: &str, sector_bytes: u32) -> Self {
        let folder = tempfile::tempdir_in(place).expect("a folder for the image");
        let image = folder.path().join("image");
        let file = std::fs::File::create(&image).expect("an image file");
        file.set_len(mib << 20).expect("its length");
        drop(file);
        let at = folder.path().join("mounted");
        std::fs::create_dir(&at).expect("a mount point");
        let attached = Loop::attach(&image, sector_bytes);
        let mkfs = format!("mkfs.{kind}");
        must(&mkfs, &[make_options(kind), &[attached.path.as_str()]].concat());
        let mount = Mount::new(kind, options, &attached.path, &at);
        let device = attached.path.trim_start_matches("/dev/").to_owned();
        // Now, not later: the kernel detaches a device in use once it is unmounted, however that comes about.
        drop(attached);
        Self { mount, device, folder }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mount.at
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    pub(crate) fn device(&self) -> &str {
        &self.device
    }
}

/// Nothing may be written behind a test's back: no lazy initialisation.
pub(crate) fn make_options(kind: &str) -> &'static [&'static str] {
    match kind {
        "ext4" => &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"],
        // busybox's, which writes no more than it must.
        "vfat" => &[],
        "xfs" | "btrfs" => &["-q", "-f", "-K"],
        other => panic!("no options are known for mkfs.{other}"),
    }
}

/// A loop device, detached when dropped, or as soon as nothing uses it any more.
pub(crate) struct Loop {
    pub(crate) path: String,
}

impl Loop {
    /// Around the host's page cache if the image's file system can, so that tests do not wait for write-back.
    pub(crate) fn attach(image: &Path, sector_bytes: u32) -> Self {
        let sector = sector_bytes.to_string();
        let path = must("losetup", &["--find", "--show", "--sector-size", &sector, text(image)]);
        // tmpfs has no direct I/O, and the counts are the same without.
        let _ = Command::new("losetup").args(["--direct-io=on", &path]).output();
        Self { path }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").args(["--detach", &self.path]).status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("{} could not be detached", self.path);
        }
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}
