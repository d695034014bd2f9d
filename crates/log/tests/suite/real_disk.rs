//! Tests full, failing and read-only file systems on real ext4 loop devices (needs root).
//!
//! Each test makes a small ext4 on a loop device, which needs root; without root the test reports itself as skipped.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::fixture::{copy, payloads, payloads_of, scratch, until};
use seawall::{Error, Log, Lsn, MethodChoice, Options, Tail, View, salvage, verify};
use seawall_sys::skip::skipped;

/// EIO and EROFS as Linux numbers them.
const EIO: i32 = 5;
const EROFS: i32 = 30;

/// A mount that is gone when this is.
struct Mount {
    at: PathBuf,
    _dir: tempfile::TempDir,
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Nothing more can be done about it in a test.
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}

/// Runs a program; returns what it printed.
fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    let done = Command::new(program).args(arguments).output();
    let done = done.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if done.status.success() {
        Ok(text(&done.stdout))
    } else {
        Err(io::Error::other(format!("{program} failed: {}", text(&done.stderr))))
    }
}

/// A ring that was closed lets go of its files only a little later, and until then the mount is busy.
fn at_last(program: &str, arguments: &[&str]) {
    until(program, || run(program, arguments).inspect_err(|why| println!("{why}")).is_ok());
}

fn text(path: &Path) -> &str {
    path.to_str().expect("is text")
}

/// A fresh ext4 of this many MiB.
fn small_disk(mebibytes: u64) -> io::Result<(Mount, PathBuf)> {
    let (dir, image, at) = image(mebibytes)?;
    run("mkfs.ext4", &["-q", "-m", "0", text(&image)])?;
    run("mount", &["-o", "loop", text(&image), text(&at)])?;
    Ok((Mount { at, _dir: dir }, image))
}

/// An empty file of this many MiB, and the folder where the file system in it is to be mounted.
fn image(mebibytes: u64) -> io::Result<(tempfile::TempDir, PathBuf, PathBuf)> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let (image, at) = (dir.path().join("image"), dir.path().join("mount"));
    std::fs::create_dir(&at)?;
    std::fs::File::create(&image)?.set_len(mebibytes << 20)?;
    Ok((dir, image, at))
}

fn small() -> Options {
    Options::default().segment_bytes(1 << 20).batch_bytes(64 << 10).memory_bytes(512 << 10)
}

/// A method for each way in which a commit can go wrong: in a write, in a sync, in a request of either kind, in one of
/// several linked ones.
const METHODS: [&str; 5] =
    ["direct+dsync", "buffered+fdatasync", "uring+fdatasync", "uring-linked", "uring-direct-fixed-dsync"];

fn by(method: &str) -> Options {
    small().method(MethodChoice::Named(method.to_owned()))
}

/// Takes all space but `left` bytes.
fn fill(disk: &Path, left: u64) {
    let mut rest = std::fs::File::create(disk.join("rest")).expect("creates");
    while rest.write_all(&[1; 16 << 10]).and_then(|()| rest.sync_all()).is_ok() {}
    let bytes = rest.metadata().expect("is there").len();
    rest.set_len(bytes - left).and_then(|()| rest.sync_all()).expect("gives some back");
}

/// Trimmed segments give space, and until then nothing else is wrong.
fn space_comes<T>(append: impl Fn() -> seawall::Result<T>) {
    until("trimmed segments give space", || {
        append().map_err(|error| assert!(matches!(error, Error::DiskFull { .. }), "{error}")).is_ok()
    });
}

/// Otherwise nothing could be trimmed, and the disk would stay full.
#[test]
fn a_log_that_ended_uncleanly_on_a_full_disk_opens_and_is_trimmed() {
    let (mount, _) = match small_disk(16) {
        Ok(made) => made,
        Err(why) => return skipped(why),
    };
    let (dir, record) = (mount.at.join("log"), vec![7; 100_000]);
    let log = Log::open(&dir, by("direct+dsync")).expect("opens");
    let mut acknowledged = 0;
    while log.append_commit(&record).is_ok() {
        acknowledged += 1;
        assert!(acknowledged < 1000, "the disk has 16 MiB");
    }
    drop(log);
    fill(&mount.at, 300 << 10);
    let log = Log::open(&dir, by("direct+dsync")).expect("a small segment fits");
    assert_eq!((log.opened().tail, payloads(&log).len()), (Tail::Torn, acknowledged));
    log.append_commit(b"small").expect("fits the small segment");
    log.trim(log.durable_lsn()).expect("trims");
    space_comes(|| log.append_commit(&record));
    log.close().expect("closes");
    let log = Log::open(&dir, by("direct+dsync")).expect("opens");
    assert_eq!((log.opened().tail, payloads(&log).pop()), (Tail::Clean, Some(record)));
}

#[test]
fn a_full_disk_is_reported_before_anything_is_written_and_passes() {
    for method in ["direct+dsync", "uring-direct-linked"] {
        full_disk(method);
    }
}

fn full_disk(method: &str) {
    let (mount, _) = match small_disk(16) {
        Ok(made) => made,
        Err(why) => return skipped(why),
    };
    let dir = mount.at.join("log");
    let ballast = mount.at.join("ballast");
    std::fs::write(&ballast, vec![1; 3 << 20]).expect("writes");
    let log = Log::open(&dir, by(method)).expect("opens");
    let mut acknowledged = 0_u32;
    let refused = loop {
        match log.append_commit(&acknowledged.to_le_bytes().repeat(5000)) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 2000, "the disk has 16 MiB");
    };
    match &refused {
        Error::DiskFull { path, source } => {
            assert!(path.starts_with(&dir), "{refused}");
            assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
        }
        other => panic!("{other}"),
    }
    assert_eq!(log.durable_lsn(), log.appended_lsn(), "what was refused left nothing behind");
    assert_eq!(payloads(&log).len(), acknowledged as usize, "readers go on");
    // Space returns by trimming, without opening the log again.
    let half =
        log.read(Lsn::ZERO).expect("reads").nth(acknowledged as usize / 2).expect("is there").expect("sound");
    let first = log.trim(half.lsn).expect("trims");
    space_comes(|| log.append_commit(b"goes on"));
    drop(log);
    // After a torn tail a new segment is needed. Where there is no room even for a small one, opening says so and the log
    // can still be read.
    if let Err(error) = Log::open(&dir, by(method)) {
        assert!(matches!(&error, Error::DiskFull { path, .. } if path.starts_with(&dir)), "{error}");
        assert_eq!(View::open(&dir).expect("looks").first_lsn(), first);
    }
    std::fs::remove_file(&ballast).expect("removes");
    let log = Log::open(&dir, by(method)).expect("opens when there is space");
    let left = payloads(&log);
    assert_eq!(log.first_lsn(), first);
    assert_eq!(left.last().map(Vec::as_slice), Some(&b"goes on"[..]));
    let expected: Vec<u32> = (acknowledged / 2..acknowledged).collect();
    let found: Vec<u32> = left[..left.len() - 1]
        .iter()
        .map(|record| u32::from_le_bytes(record[..4].try_into().expect("four bytes")))
        .collect();
    assert_eq!(found, expected);
}

/// Makes a file system answer every write with EIO from now on, as a dead disk would (`FS_IOC_SHUTDOWN`, without
/// flushing its journal).
fn break_disk(file: &Path) -> io::Result<String> {
    let script =
        "open(F, '<', $ARGV[0]) or die $!; my $how = pack('L', 2); ioctl(F, 0x8004587D, $how) or die $!;";
    run("perl", &["-e", script, text(file)])
}

#[test]
fn a_dying_disk_fails_every_waiter_with_its_errno_and_loses_nothing_acknowledged() {
    METHODS.into_iter().for_each(dying_disk);
}

fn dying_disk(method: &str) {
    let (mount, image) = match small_disk(128) {
        Ok(made) => made,
        Err(why) => return skipped(why),
    };
    let dir = mount.at.join("log");
    let log = Log::open(&dir, by(method)).expect("opens");
    let acknowledged = AtomicU64::new(0);
    let failures = AtomicU64::new(0);
    let broken = std::thread::scope(|scope| {
        for thread in 0..6_u8 {
            let (log, acknowledged, failures) = (&log, &acknowledged, &failures);
            scope.spawn(move || {
                let error = loop {
                    match log.append_commit(&[thread; 100]) {
                        Ok(_) if acknowledged.fetch_add(1, Ordering::SeqCst) < 500 => {}
                        // The disk must not be full before it breaks, however long that takes.
                        Ok(_) => std::thread::sleep(Duration::from_millis(5)),
                        Err(error) => break error,
                    }
                };
                assert!(matches!(error, Error::Failed { .. }), "{error}");
                // A second sync of the same file might lie, so the first answer is the last one.
                assert_eq!(error.raw_os_error(), Some(EIO), "{error}");
                assert!(error.to_string().contains("/log/"), "the file is named: {error}");
                assert!(error.to_string().contains("reopened"), "the remedy is named: {error}");
                failures.fetch_add(1, Ordering::SeqCst);
            });
        }
        let mut follower = log.follow(Lsn::ZERO).expect("follows");
        scope.spawn(move || {
            // A log that does not fail must not hang this test.
            let end = loop {
                match follower.next_record_timeout(Duration::from_mins(1)) {
                    Ok(Some(_)) => {}
                    end => break end,
                }
            };
            assert!(matches!(end, Err(Error::Failed { .. } | Error::Io { .. })), "{end:?}");
        });
        while acknowledged.load(Ordering::SeqCst) < 500 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let broken = break_disk(&dir.join("LOCK"));
        if broken.is_err() {
            // The log would never fail: end the appenders by force.
            run("mount", &["-o", "remount,ro,force", text(&mount.at)]).expect("remounts");
        }
        broken
    });
    if let Err(why) = broken {
        return skipped(why);
    }
    assert_eq!(failures.load(Ordering::SeqCst), 6);
    assert!(matches!(log.append(b"more"), Err(Error::Failed { .. })));
    let durable = log.durable_lsn();
    assert!(matches!(log.close(), Err(Error::Failed { .. })));
    mount_again(&mount.at, &image);
    let log = Log::open(&dir, by(method)).expect("opens");
    assert!(log.durable_lsn() >= durable);
    assert!(payloads(&log).len() as u64 >= acknowledged.load(Ordering::SeqCst));
}

/// Unmounts a broken disk and mounts it again. While a namespace of another process has a copy of the mount, the kernel
/// mounts the broken file system again.
fn mount_again(at: &Path, image: &Path) {
    until("the disk is sound again", || {
        at_last("umount", &[text(at)]);
        run("mount", &["-o", "loop", text(image), text(at)]).expect("mounts again");
        std::fs::read(at.join("log/LOCK")).is_ok()
    });
}

#[test]
fn a_read_only_directory_can_be_looked_at_and_not_opened() {
    let (mount, _) = match small_disk(16) {
        Ok(made) => made,
        Err(why) => return skipped(why),
    };
    let dir = mount.at.join("log");
    let log = Log::open(&dir, small()).expect("opens");
    log.append_commit(b"record").expect("commits");
    log.close().expect("closes");
    at_last("mount", &["-o", "remount,ro", text(&mount.at)]);
    match Log::open(&dir, small()) {
        Err(Error::Io { path, source, .. }) => {
            assert!(path.starts_with(&dir), "{}", path.display());
            assert_eq!(source.raw_os_error(), Some(EROFS));
        }
        other => panic!("{other:?}"),
    }
    match Log::open(mount.at.join("new"), small()) {
        Err(Error::Io { path, source, .. }) => {
            assert_eq!((path, source.raw_os_error()), (mount.at.join("new"), Some(EROFS)));
        }
        other => panic!("{other:?}"),
    }
    let view = View::open(&dir).expect("looks");
    assert_eq!(payloads_of(view.read(Lsn::ZERO).expect("reads")), [b"record"]);
    assert!(verify(&dir).expect("verifies").damage.is_empty());
}

/// A fresh ext4 on a device whose sectors have 4096 bytes.
fn large_sectors() -> io::Result<Mount> {
    let (dir, image, at) = image(64)?;
    let device = run("losetup", &["--find", "--show", "--sector-size", "4096", text(&image)])?;
    let mounted = run("mkfs.ext4", &["-q", "-F", &device]).and_then(|_| run("mount", &[&device, text(&at)]));
    // A device in use goes once it is unmounted.
    run("losetup", &["--detach", &device])?;
    mounted.map(|_| Mount { at, _dir: dir })
}

#[test]
fn blocks_smaller_than_the_disks_sectors_are_refused_by_name_and_can_be_copied() {
    let mount = match large_sectors() {
        Ok(made) => made,
        Err(why) => return skipped(why),
    };
    let refused = |dir: &Path| match Log::open(dir, small().block_bytes(512)) {
        Err(error @ Error::BlocksTooSmall { block_bytes: 512, sector_bytes: 4096, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    // A new log; what the refused attempt left is no obstacle to one with blocks that fit.
    let new = mount.at.join("new");
    let refusal = refused(&new);
    assert!(refusal.contains(text(&new)) && refusal.contains("block_bytes(4096)"), "{refusal}");
    let log = Log::open(&new, small()).expect("blocks of 4096 bytes fit");
    log.append_commit(b"fits").expect("commits");
    log.close().expect("closes");

    // One that was made on another disk, closed or not.
    for closed in [true, false] {
        let elsewhere = scratch();
        let log = Log::open(elsewhere.path(), small().block_bytes(512)).expect("the disk of the build tree");
        let wanted: Vec<Vec<u8>> = (0..200_u8).map(|i| vec![i; 700]).collect();
        for record in &wanted {
            log.append_commit(record).expect("commits");
        }
        if closed {
            log.close().expect("closes");
        } else {
            drop(log);
        }
        let moved = mount.at.join(format!("moved-{closed}"));
        std::fs::create_dir(&moved).expect("a directory");
        copy(elsewhere.path(), &moved);
        let refusal = refused(&moved);
        assert!(refusal.contains(text(&moved)) && refusal.contains("salvage"), "{refusal}");
        // Nothing of it was changed: it is read as it is, and copied here into blocks that fit.
        assert!(verify(&moved).expect("can be read").damage.is_empty());
        let copy = mount.at.join(format!("copy-{closed}"));
        salvage(&moved, &copy, small()).expect("is copied");
        assert_eq!(payloads(&Log::open(&copy, small()).expect("opens")), wanted);
    }
}
