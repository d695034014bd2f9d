//! Linux: finds the mounts, swaps, holders, loop devices and programs that use a block device.
//!
//! `open(2)` with `O_EXCL` and without `O_CREAT` on a block device fails with `EBUSY` if the device, one of its
//! partitions or the disk that it is a partition of is mounted or claimed, in any mount namespace. That decides; the
//! tables only supply the reason of a refusal, and show users that claim nothing: a loop device whose image is the
//! device or the device's own image, and a program that has it open (of this PID namespace, as far as this user may look).
//!
//! Invariants: devices are compared by number, never by name alone; a device that overlaps the device counts as the
//! device.

use super::inspect::{Mounted, all_mounted, block_folder, disk_folder, is_partition, name, names, text};
use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

type Number = (u32, u32);

/// The number of the block device that `path` names, if it names one.
fn number(path: &Path) -> Option<Number> {
    let metadata = std::fs::metadata(path).ok()?;
    let device = metadata.rdev();
    metadata.file_type().is_block_device().then(|| (libc::major(device), libc::minor(device)))
}

/// The folders in `/sys` of the device, of its partitions, and of the disk that it is a partition of.
fn overlapping(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_path_buf()];
    if is_partition(folder) {
        all.extend(folder.parent().map(Path::to_path_buf));
    } else {
        all.extend(names(folder).iter().map(|name| folder.join(name)).filter(|inner| is_partition(inner)));
    }
    all
}

/// In words, everything that uses `path` or what overlaps it.
pub(crate) fn uses(path: &Path) -> Result<Vec<String>> {
    let own = number(path).ok_or_else(|| {
        Error::new("stat", path, io::Error::new(io::ErrorKind::InvalidInput, "no block device"))
    })?;
    let folder = block_folder(own).ok_or_else(|| {
        let why = "its folder in /sys is not visible, so its users are unknown: mount /sys";
        Error::new("look at", path, io::Error::new(io::ErrorKind::NotFound, why))
    })?;
    let folders = overlapping(&folder);
    let devices: Vec<(Number, String)> = folders
        .iter()
        .filter_map(|folder| Some((parse(&text(&folder.join("dev"))?)?, name(folder))))
        .collect();
    let mut uses = mounts_of(&devices, &all_mounted());
    uses.extend(swaps_of(&devices, &text(Path::new("/proc/swaps")).unwrap_or_default()));
    uses.extend(folders.iter().flat_map(|folder| holders_of(folder)));
    uses.extend(loops_on(&devices));
    uses.extend(loops_beside(&folders, Path::new("/sys/block")));
    uses.extend(openers_of(&devices, Path::new("/proc")));
    Ok(uses)
}

fn parse(number: &str) -> Option<Number> {
    let (major, minor) = number.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A mount's number may be anonymous (btrfs): then its source decides.
fn mounts_of(devices: &[(Number, String)], mounts: &[Mounted]) -> Vec<String> {
    let used = |mount: &Mounted| {
        devices.iter().find(|(own, _)| mount.device == *own || number(&mount.source) == Some(*own)).cloned()
    };
    let found = mounts.iter().filter_map(|mount| {
        let (_, name) = used(mount)?;
        Some(format!(
            "{name} holds the {} mounted on {}: unmount it first",
            mount.kind,
            mount.point.display()
        ))
    });
    found.collect()
}

fn swaps_of(devices: &[(Number, String)], swaps: &str) -> Vec<String> {
    let files = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let used = files.filter_map(|file| {
        let own = number(Path::new(file))?;
        devices.iter().find(|(number, _)| *number == own)
    });
    used.map(|(_, name)| format!("{name} is active swap: swapoff /dev/{name} first")).collect()
}

fn loops_on(devices: &[(Number, String)]) -> Vec<String> {
    let loops = names(Path::new("/sys/block")).into_iter().filter(|name| name.starts_with("loop"));
    let found = loops.filter_map(|own| {
        let image = text(&Path::new("/sys/block").join(&own).join("loop/backing_file"))?;
        let below = number(Path::new(&image))?;
        let (_, name) = devices.iter().find(|(number, _)| *number == below)?;
        Some(format!("{own} is a loop device on {name}: losetup --detach /dev/{own} first"))
    });
    found.collect()
}

/// Other loop devices below `blocks` whose image is that of a loop device among `folders`.
fn loops_beside(folders: &[PathBuf], blocks: &Path) -> Vec<String> {
    let image = |folder: &Path| text(&folder.join("loop/backing_file"));
    let identity = |image: &str| std::fs::metadata(image).ok().map(|file| (file.dev(), file.ino()));
    let is_same =
        |a: &str, b: &str| a == b || identity(a).is_some_and(|identity_a| identity(b) == Some(identity_a));
    let own: Vec<(String, String)> =
        folders.iter().filter_map(|folder| Some((name(folder), image(folder)?))).collect();
    let others = names(blocks).into_iter().filter(|other| own.iter().all(|(name, _)| name != other));
    let found = others.filter_map(|other| {
        let others_image = image(&blocks.join(&other))?;
        let (name, image) = own.iter().find(|(_, image)| is_same(image, &others_image))?;
        Some(format!("{other} has the same image as {name}, {image}: losetup --detach /dev/{other} first"))
    });
    found.collect()
}

/// Programs that have one of the devices open, this one excepted.
fn openers_of(devices: &[(Number, String)], proc: &Path) -> Vec<String> {
    let processes = names(proc).into_iter().filter_map(|process| process.parse::<u32>().ok());
    let found = processes.filter(|process| *process != std::process::id()).filter_map(|process| {
        let folder = proc.join(process.to_string());
        let open = names(&folder.join("fd")).into_iter().find_map(|fd| {
            let open = number(&folder.join("fd").join(fd))?;
            devices.iter().find(|(number, _)| *number == open)
        });
        let program = text(&folder.join("comm")).unwrap_or_default();
        open.map(|(_, name)| format!("{name} is open in process {process} ({program}): end it first"))
    });
    found.collect()
}

/// What the device in `folder` is part of: dm, md, bcache.
fn holders_of(folder: &Path) -> Vec<String> {
    let holders = folder.join("holders");
    let found = names(&holders).into_iter().map(|holder| {
        let mapped = text(&holders.join(&holder).join("dm/name"));
        let mapped = mapped.map_or(String::new(), |mapped| format!(" ({mapped})"));
        format!("{} is part of {holder}{mapped}: take that apart first", name(folder))
    });
    found.collect()
}

pub(crate) fn open_exclusively(path: &Path) -> Result<File> {
    let opened =
        File::options().read(true).write(true).custom_flags(libc::O_EXCL | libc::O_CLOEXEC).open(path);
    opened.map_err(|error| {
        if error.raw_os_error() == Some(libc::EBUSY) {
            let why = "in use by another program, a mount of another namespace or a volume manager, which holds it exclusively";
            return Error::new("open", path, io::Error::new(io::ErrorKind::ResourceBusy, why));
        }
        Error::new("open", path, error)
    })
}

pub(crate) fn bytes(mut file: &File, path: &Path) -> Result<u64> {
    file.seek(SeekFrom::End(0)).map_err(|error| Error::new("lseek", path, error))
}

/// Its first bytes, at most `bytes`.
pub(crate) fn start(file: &File, path: &Path, bytes: usize) -> Result<Vec<u8>> {
    let mut start = vec![0; bytes];
    let mut done = 0;
    while done < bytes {
        match file.read_at(&mut start[done..], done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::new("read", path, error)),
        }
    }
    start.truncate(done);
    Ok(start)
}

/// Model and serial number, where `/sys` has them.
pub(crate) fn description(path: &Path) -> String {
    let Some(folder) = number(path).and_then(block_folder) else { return String::new() };
    let disk = disk_folder(&folder);
    let first = |files: &[&str]| files.iter().find_map(|file| text(&disk.join(file)));
    let mut parts = Vec::new();
    parts.extend(first(&["device/model", "dm/name", "loop/backing_file", "md/level"]));
    parts.extend(
        first(&["device/serial", "serial", "device/wwid", "wwid"]).map(|serial| format!("serial {serial}")),
    );
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_recognised_by_number_and_partitions_count_as_their_disk() {
        let mount = |device, point: &str| Mounted {
            device,
            kind: "ext4".to_owned(),
            source: PathBuf::from("none"),
            point: PathBuf::from(point),
        };
        let mounts = [mount((8, 1), "/data"), mount((9, 1), "/other")];
        let devices = [((8, 0), "sda".to_owned()), ((8, 1), "sda1".to_owned())];
        let found = mounts_of(&devices, &mounts);
        assert!(found.len() == 1 && found[0].contains("sda1") && found[0].contains("/data"), "{found:?}");
        assert!(mounts_of(&devices[..1], &mounts).is_empty());
    }

    #[test]
    fn partitions_and_disks_overlap_and_their_holders_are_named() {
        let sys = tempfile::tempdir().expect("a folder");
        let disk = sys.path().join("sda");
        let made = |path: &Path| std::fs::create_dir_all(path).expect("a folder");
        for part in ["sda1", "sda2"] {
            made(&disk.join(part).join("holders"));
            std::fs::write(disk.join(part).join("partition"), "1").expect("a file");
        }
        made(&disk.join("queue"));
        made(&disk.join("sda1/holders/dm-3/dm"));
        std::fs::write(disk.join("sda1/holders/dm-3/dm/name"), "vg-db\n").expect("a file");
        let named = |folder: &Path| {
            let mut named: Vec<String> = overlapping(folder).iter().map(|folder| name(folder)).collect();
            named.sort();
            named
        };
        assert_eq!(named(&disk), ["sda", "sda1", "sda2"]);
        assert_eq!(named(&disk.join("sda2")), ["sda", "sda2"]);
        let held: Vec<String> = overlapping(&disk).iter().flat_map(|folder| holders_of(folder)).collect();
        assert!(held.len() == 1 && held[0].contains("sda1 is part of dm-3 (vg-db)"), "{held:?}");
    }

    #[test]
    fn loop_devices_on_one_image_are_users_of_each_other_by_whatever_name() {
        let sys = tempfile::tempdir().expect("a folder");
        let image = sys.path().join("a.img");
        std::fs::write(&image, "").expect("a file");
        std::os::unix::fs::symlink(&image, sys.path().join("b.img")).expect("a link");
        for (name, image) in [("loop1", "a.img"), ("loop2", "a.img"), ("loop3", "b.img"), ("loop4", "c.img")]
        {
            let folder = sys.path().join(name).join("loop");
            std::fs::create_dir_all(&folder).expect("a folder");
            let image = sys.path().join(image);
            std::fs::write(folder.join("backing_file"), image.display().to_string()).expect("a file");
        }
        let mut found = loops_beside(&[sys.path().join("loop1")], sys.path());
        found.sort();
        assert!(
            found.len() == 2 && found[0].starts_with("loop2 ") && found[1].starts_with("loop3 "),
            "{found:?}"
        );
        assert!(loops_beside(&[sys.path().join("loop4")], sys.path()).is_empty());
    }

    #[test]
    fn a_program_that_has_no_such_device_open_is_no_user() {
        assert!(openers_of(&[((0, 0), "none".to_owned())], Path::new("/proc")).is_empty());
    }

    #[test]
    fn swap_files_are_no_devices_and_odd_tables_are_passed_over() {
        let devices = [((8, 0), "sda".to_owned())];
        assert!(swaps_of(&devices, "Filename Type\n/swapfile file 1 0 -2\n\n/dev/gone partition").is_empty());
        assert_eq!(parse("8:16"), Some((8, 16)));
        assert_eq!(parse("8"), None);
    }
}
