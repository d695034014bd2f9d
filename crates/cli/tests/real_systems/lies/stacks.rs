//! Tests that no stack is promised more than its counters bear out: a table of stacks, each with the class of every kind of method,
//! what a loop device counts, and what the log says.
//!
//! The flushes that a device counts are held against the classes, so that a fact of inspection that is forgotten is found: a row
//! whose class is power loss flushes at every commit, and one whose commits flush nothing has another class. Commits that are
//! watched one by one judge without any of these facts: what convicts a liar of which inspection knows nothing.
//!
//! The same table runs on other kernels in an emulated machine (`cargo xtask crash --second-kernel --stacks`), with the stacks that
//! need a driver of which the machine has the module.

use crate::ground::{Ground, Loop, Mount, folder, must, text};
use crate::program::{Appender, SEAWALL};
use seawall::{Evidence, Log, Options};
use seawall_sys::buffer::Aligned;
use seawall_sys::counters::{CommitWatch, Reader, Verdict};
use seawall_sys::durability::{DeviceCache, Durability, FileState, classify};
use seawall_sys::inspect::{Device, Environment, environment, tried_environment};
use seawall_sys::method::{Depth, Method};
use seawall_sys::{Target, open};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const COMMITS: u64 = 64;

/// Methods of every reach: memory, the device, and three ways to be stable.
const METHODS: [&str; 5] = ["buffered", "direct", "buffered+syncfs", "buffered+fdatasync", "direct+dsync"];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    Confirmed,
    NotConfirmed,
    /// By the rules of the class, or by what was counted, with this word.
    Refused(&'static str),
}

/// A file system on a loop device or on what stands on it, with what is done before and after the mount.
#[derive(Clone, Copy)]
struct Stack {
    name: &'static str,
    kind: &'static str,
    /// The module of an emulated machine that it needs.
    module: Option<&'static str>,
    /// What is mounted instead of the loop device, and the commands that make it and take it apart; `$D` is the loop device.
    stands: Option<(&'static str, &'static str, &'static str)>,
    /// The device whose counters are held against the classes: another one than the loop device is memory.
    counted: &'static str,
    /// Programs with their arguments before it is mounted; `$D` is the loop device.
    before: &'static [&'static [&'static str]],
    options: &'static str,
    /// The same afterwards; `$M` is the mount.
    after: &'static [&'static [&'static str]],
    /// `K`, `O` or `D` for each of [`METHODS`]: process crash, system crash, power loss.
    classes: &'static str,
    /// Whether it drops what it is sent, of which inspection knows nothing: only what is counted convicts it.
    drops: bool,
    answer: Answer,
}

const fn stack(name: &'static str, kind: &'static str, classes: &'static str, answer: Answer) -> Stack {
    let (module, stands, counted) = (None, None, "$D");
    let (before, options, after, drops) = (&[], "defaults", &[], false);
    Stack { name, kind, module, stands, counted, before, options, after, classes, drops, answer }
}

/// The same on the device of `dm` that `made` makes.
const fn on_mapped(module: &'static str, made: &'static str, on: Stack) -> Stack {
    let stands = Some(("/dev/mapper/stack", made, "dmsetup remove_all --force"));
    Stack { module: Some(module), stands, ..on }
}

/// An ext4 on a device in memory, which is refused.
const fn in_memory(
    module: &'static str,
    device: &'static str,
    counted: &'static str,
    made: &'static str,
) -> Stack {
    let refused = stack(module, "ext4", "KKKKK", Answer::Refused("memory"));
    Stack { module: Some(module), stands: Some((device, made, "")), counted, ..refused }
}

const LINEAR: &str = "dmsetup create stack --table \"0 $(blockdev --getsz /dev/$D) linear /dev/$D 0\"";
const CRYPT: &str = "dmsetup create stack --table \"0 $(blockdev --getsz /dev/$D) crypt aes-xts-plain64 \
    000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f 0 /dev/$D 0\"";
/// Metadata and data on parts of the loop device.
const THIN: &str = "dmsetup create meta --table \"0 8192 linear /dev/$D 0\" && \
    dmsetup create data --table \"0 49152 linear /dev/$D 8192\" && \
    dmsetup create pool --table '0 49152 thin-pool /dev/mapper/meta /dev/mapper/data 128 0' && \
    dmsetup message pool 0 'create_thin 0' && dmsetup create stack --table '0 49152 thin /dev/mapper/pool 0'";
const CACHE: &str = "dmsetup create meta --table \"0 8192 linear /dev/$D 0\" && \
    dmsetup create fast --table \"0 8192 linear /dev/$D 8192\" && \
    dmsetup create slow --table \"0 40960 linear /dev/$D 16384\" && dmsetup create stack --table \
    '0 40960 cache /dev/mapper/meta /dev/mapper/fast /dev/mapper/slow 512 1 writeback smq 0'";
/// An array of one disk, which takes no program.
const MIRROR: (&str, &str, &str) = (
    "/dev/md127",
    "echo md127 >/sys/module/md_mod/parameters/new_array && cd /sys/block/md127/md && echo raid1 >level && \
     echo 1 >raid_disks && echo 32000 >component_size && cat /sys/block/$D/dev >new_dev && echo 0 >dev-$D/slot && \
     echo active >array_state",
    "echo clear >/sys/block/md127/md/array_state",
);
/// Drops every write, once it is mounted.
const DROPS: &[&str] = &[
    "sh",
    "-c",
    "dmsetup suspend stack && dmsetup load stack --table \
    \"0 $(blockdev --getsz /dev/$D) flakey /dev/$D 0 0 100 1 drop_writes\" && dmsetup resume stack",
];
const THROUGH_ABOVE: &[&str] = &[
    "sh",
    "-c",
    "echo 'write through' >/sys/block/$(dmsetup info -c --noheadings -o blkdevname stack)/queue/write_cache",
];

const THROUGH: &[&str] = &["sh", "-c", "echo 'write through' >/sys/block/$D/queue/write_cache"];
const CACHED: &[&str] = &["losetup", "--direct-io=off", "/dev/$D"];

fn flushes_without_journal() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(5))
}

fn stacks() -> Vec<Stack> {
    use Answer::{Confirmed, Refused};
    let (unjournaled, answer) = if flushes_without_journal() {
        ("KODDD", Confirmed)
    } else {
        ("KODOO", Refused("without a journal"))
    };
    vec![
        stack("ext4", "ext4", "KODDD", Confirmed),
        Stack { options: "barrier=0", ..stack("barriers off", "ext4", "KOOOO", Refused("barriers off")) },
        Stack { options: "data=journal", ..stack("journaled data", "ext4", "KKDDD", Confirmed) },
        Stack { options: "sync", ..stack("ext4 mounted sync", "ext4", "DDDDD", Confirmed) },
        Stack { after: &[&["chattr", "+S", "$M"]], ..stack("chattr +S", "ext4", "DDDDD", Confirmed) },
        Stack {
            before: &[&["tune2fs", "-o", "nobarrier", "/dev/$D"]],
            ..stack("nobarrier by the superblock", "ext4", "KOOOO", Refused("barriers off"))
        },
        Stack {
            before: &[&["tune2fs", "-o", "journal_data", "/dev/$D"]],
            ..stack("journal_data by the superblock", "ext4", "KKDDD", Confirmed)
        },
        Stack {
            before: &[&["tune2fs", "-O", "^has_journal", "/dev/$D"]],
            ..stack("no journal", "ext4", unjournaled, answer)
        },
        Stack { after: &[CACHED], ..stack("image in the page cache", "ext4", "KKDDD", Confirmed) },
        Stack {
            options: "barrier=0",
            after: &[CACHED],
            ..stack("the same, barriers off", "ext4", "KKKKK", Refused("page cache"))
        },
        Stack {
            before: &[THROUGH],
            ..stack("a queue that hides the cache", "ext4", "KOOOO", Refused("queue"))
        },
        Stack {
            before: &[CACHED, THROUGH],
            ..stack("the same, image in the page cache", "ext4", "KKKKK", Refused("page cache"))
        },
        stack("xfs", "xfs", "KKODD", Confirmed),
        Stack { options: "sync", ..stack("xfs mounted sync", "xfs", "DDDDD", Confirmed) },
        stack("btrfs", "btrfs", "KKDDD", Confirmed),
        Stack { options: "nodatacow", ..stack("btrfs in place", "btrfs", "KKDDD", Confirmed) },
        on_mapped("dm_mod", LINEAR, stack("dm-linear", "ext4", "KODDD", Confirmed)),
        Stack {
            after: &[THROUGH_ABOVE],
            ..on_mapped("dm_mod", LINEAR, stack("dm-linear that hides it", "ext4", "KOOOO", Refused("queue")))
        },
        on_mapped("dm_crypt", CRYPT, stack("dm-crypt", "ext4", "KODDD", Confirmed)),
        Stack {
            module: Some("raid1"),
            stands: Some(MIRROR),
            ..stack("md raid1", "ext4", "KODDD", Confirmed)
        },
        on_mapped("dm_thin_pool", THIN, stack("dm-thin", "ext4", "KKDDD", Confirmed)),
        on_mapped("dm_cache", CACHE, stack("dm-cache", "ext4", "KKDDD", Confirmed)),
        Stack {
            after: &[DROPS],
            drops: true,
            ..on_mapped("dm_flakey", LINEAR, stack("dm-flakey", "ext4", "KODDD", Refused("counted no")))
        },
        Stack { module: Some("vfat"), ..stack("vfat", "vfat", "KOODD", Confirmed) },
        in_memory("brd", "/dev/ram0", "ram0", "rmmod brd; insmod /modules/brd.ko rd_size=32768"),
        in_memory("zram", "/dev/zram0", "zram0", "echo 32M >/sys/block/zram0/disksize"),
        in_memory(
            "null_blk",
            "/dev/nullb0",
            "nullb0",
            "rmmod null_blk; insmod /modules/null_blk.ko nr_devices=1 memory_backed=1 gb=1",
        ),
        in_memory(
            "scsi_debug",
            "/dev/sda",
            "sda",
            "rmmod scsi_debug; insmod /modules/scsi_debug.ko dev_size_mb=32 delay=0; sleep 2",
        ),
    ]
}

fn method(id: &str) -> &'static Method {
    seawall_sys::methods::find(id).expect("a row of the table")
}

/// Commits by `method` on a file that is written, each seen by `around`.
fn commits(folder: &Path, method: &'static Method, mut around: impl FnMut(&mut dyn FnMut())) {
    let path = folder.join("commits");
    let file = std::fs::File::create(&path).expect("a file");
    std::io::Write::write_all(&mut &file, &vec![0; 1 << 20]).expect("written");
    file.sync_all().expect("synced");
    let target = Target { path: path.clone(), journal_bytes: 1 << 20, write_bytes: 4096 };
    let mut commit = open(method, &target, None).unwrap_or_else(|error| panic!("{}: {error:?}", method.id));
    let mut data = Aligned::zeroed(4096);
    for number in 0..COMMITS {
        data.as_mut_slice()[..8].copy_from_slice(&(number + 1).to_le_bytes());
        around(&mut || {
            let offset = number * 4096;
            commit.write(offset, data.as_slice()).and_then(|()| commit.sync()).expect("a commit");
        });
    }
    drop(commit);
    std::fs::remove_file(path).expect("removed");
}

/// The flushes that `device` counts during the commits of `method`.
fn flushes(folder: &Path, method: &'static Method, device: &Device) -> u64 {
    let mut found = environment(folder).expect("a folder");
    found.devices = vec![Device { stands_on: Vec::new(), ..device.clone() }];
    let reader = Reader::open(&found).expect("the loop device has counters");
    let before = reader.read().expect("counters");
    commits(folder, method, |commit| commit());
    reader.read().expect("counters").since(&before).flushes
}

/// The classes of [`METHODS`], a letter each.
fn classes(found: &Environment) -> String {
    let around = found.surroundings(FileState::ZeroFilled);
    METHODS
        .iter()
        .map(|id| match classify(method(id), &around).class {
            Durability::ProcessCrash => 'K',
            Durability::SystemCrash => 'O',
            Durability::PowerLoss => 'D',
        })
        .collect()
}

/// What a new log of class power loss does in `folder`.
fn answer(folder: &Path) -> Result<Evidence, String> {
    let options = Options::default().segment_bytes(1 << 20);
    let log = Log::open(folder.join("log"), options).map_err(|error| error.to_string())?;
    log.append_commit(b"durable").expect("commits");
    let evidence = log.opened().evidence.clone();
    assert_eq!(log.stats().evidence, evidence);
    log.close().expect("closes");
    let view = seawall::View::open(folder.join("log")).expect("looks");
    assert_eq!(view.evidence().expect("reads"), Some(evidence.clone()), "it is kept for this mount");
    Ok(evidence)
}

fn check_answer(name: &str, folder: &Path, expected: Answer) {
    match (answer(folder), expected) {
        (Ok(Evidence::Confirmed), Answer::Confirmed)
        | (Ok(Evidence::NotConfirmed(_)), Answer::NotConfirmed) => {}
        // A neighbour that flushes all the time leaves an honest disk unconfirmed, and nothing else does.
        (Ok(Evidence::NotConfirmed(why)), Answer::Confirmed) if why.contains("all the time") => {}
        (Err(said), Answer::Refused(word)) if said.contains(word) => {}
        (other, _) => panic!("{name}: {other:?} instead of {expected:?}"),
    }
}

fn run(programs: &[&[&str]], device: &str, mount: &Path) {
    for program in programs {
        let words: Vec<String> =
            program.iter().map(|word| word.replace("$D", device).replace("$M", text(mount))).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        must(words[0], &words[1..]);
    }
}

struct Up {
    mount: Option<Mount>,
    device: String,
    /// Whose counters are looked at.
    counted: String,
    /// What takes apart what stands on the loop device.
    apart: &'static str,
    at: PathBuf,
    _folder: tempfile::TempDir,
}

impl Up {
    fn new(stack: &Stack) -> Self {
        let folder = folder();
        let (image, at) = (folder.path().join("image"), folder.path().join("mounted"));
        std::fs::create_dir(&at).expect("a mount point");
        let mib: u64 = if stack.kind == "ext4" { 32 } else { 320 };
        std::fs::File::create(&image).and_then(|file| file.set_len(mib << 20)).expect("an image");
        let attached = Loop::attach(&image, 512);
        let device = attached.path.trim_start_matches("/dev/").to_owned();
        let source = stack.stands.map_or(attached.path.as_str(), |(source, made, _)| {
            run(&[&["sh", "-c", made]], &device, &at);
            source
        });
        must(&format!("mkfs.{}", stack.kind), &[crate::ground::make_options(stack.kind), &[source]].concat());
        run(stack.before, &device, &at);
        let mount = Mount::new(stack.kind, stack.options, source, &at);
        drop(attached);
        run(stack.after, &device, &at);
        let counted = stack.counted.replace("$D", &device);
        let apart = stack.stands.map_or("", |(_, _, apart)| apart);
        Self { mount: Some(mount), device, counted, apart, at, _folder: folder }
    }
}

impl Drop for Up {
    /// The next file that this loop device is given would keep what a stack has set, also where a check failed.
    fn drop(&mut self) {
        if self.counted == self.device {
            let queue = format!("/sys/block/{}/queue/write_cache", self.device);
            std::fs::write(queue, "write back").expect("is set");
        }
        drop(self.mount.take());
        must("sh", &["-c", self.apart]);
    }
}

fn check(stack: &Stack) {
    let up = Up::new(stack);
    let (name, at) = (stack.name, up.at.as_path());
    let found = tried_environment(at).expect("a mounted folder");
    assert_eq!(classes(&found), stack.classes, "{name}: {:?} {:?}", found.lies, found.file_system);
    let top = found.devices.iter().find(|device| device.name == up.counted).expect("the counted device");
    let memory = stack.counted != "$D";
    for (id, class) in METHODS.iter().zip(stack.classes.chars()) {
        let flushes = flushes(at, method(id), top);
        let claims = class == 'D';
        let seen = flushes >= COMMITS;
        assert!(!claims || seen != stack.drops, "{name}: {id} claims power loss with {flushes} flushes");
        // syncfs on xfs may flush, and promises nothing; flushing memory does nothing.
        let spared = memory || (*id == "buffered+syncfs" && stack.kind == "xfs");
        assert!(claims || !seen || spared, "{name}: {id} flushes {flushes} times, and is not believed");
    }
    // Without a fact of the above: the calls and the counters alone.
    let bare = Environment {
        lies: Vec::new(),
        devices: vec![Device { stands_on: Vec::new(), write_cache: DeviceCache::WriteBack, ..top.clone() }],
        ..found.clone()
    };
    for (id, class) in METHODS.iter().zip(stack.classes.chars()) {
        let method = method(id);
        if memory || method.reach().data != Depth::Stable || *id == "buffered+syncfs" {
            continue;
        }
        let mut watch = CommitWatch::open(&bare, method).expect("counters");
        commits(at, method, |commit| {
            watch.begin().expect("counters");
            commit();
            watch.end().expect("counters");
        });
        let verdict = watch.watched().verdict(true);
        let confirmed = class == 'D' && !stack.drops;
        assert_eq!(verdict == Verdict::Confirmed, confirmed, "{name}: {id}: {:?}", watch.watched());
    }
    check_answer(name, at, stack.answer);
}

#[test]
#[ignore = "needs root and loop devices; run by `cargo xtask test`"]
fn no_stack_is_promised_more_than_its_device_counts_and_none_less() {
    for stack in &stacks() {
        let name = stack.name;
        let lacks = |module: &&str| !Path::new(&format!("/modules/{module}.ko")).exists();
        if let Some(module) = stack.module.filter(lacks) {
            println!("{name}: not tried, no emulated machine with the module {module}");
        } else {
            check(stack);
            println!("{name}: {} {:?}", stack.classes, stack.answer);
        }
    }
}

#[test]
#[ignore = "needs root and overlays; run by `cargo xtask test`"]
fn an_overlay_has_the_classes_of_its_upper_folder_but_for_sync_file_range() {
    for (kind, mib, expected) in [("ext4", 128, "KODDD"), ("xfs", 320, "KKODD")] {
        let ground = Ground::new(kind, mib, "defaults");
        let merged = Mount::overlay(ground.path(), "");
        let found = tried_environment(merged.path()).expect("a folder");
        assert_eq!(classes(&found), expected, "{kind}");
        let by_range = classify(method("sync-file-range"), &found.surroundings(FileState::ZeroFilled));
        assert_eq!(by_range.class, Durability::ProcessCrash, "{kind}");
        check_answer(kind, merged.path(), Answer::Confirmed);
    }
}

#[test]
#[ignore = "needs root and overlays; run by `cargo xtask test`"]
fn memory_is_refused_seen_or_not_and_an_unseen_disk_is_not_confirmed() {
    let memory = folder();
    let mount = Mount::new("tmpfs", "size=96m", "none", memory.path());
    let image = Ground::new_in(memory.path(), "ext4", 32, "defaults");
    for at in [memory.path(), image.path()] {
        assert_eq!(classes(&tried_environment(at).expect("a folder")), "KKKKK");
        check_answer("memory", at, Answer::Refused("memory"));
    }
    drop(image);
    let merged = Mount::hidden_overlay(memory.path());
    assert_eq!(classes(&tried_environment(merged.path()).expect("a folder")), "KKKKK");
    check_answer("an overlay on hidden memory", merged.path(), Answer::Refused("may be memory"));
    drop((merged, mount));
    let ground = Ground::new("ext4", 32, "defaults");
    let merged = Mount::hidden_overlay(ground.path());
    assert_eq!(classes(&tried_environment(merged.path()).expect("a folder")), "KKDDD");
    check_answer("an overlay on a hidden disk", merged.path(), Answer::NotConfirmed);
    drop(merged);
}

/// A library whose fdatasync of a regular file does nothing at every `n`-th call.
pub(super) fn liar(folder: &Path, n: u32) -> String {
    let (source, library) = (folder.join("liar.c"), folder.join("liar.so"));
    let text_of = format!(
        "#include <sys/stat.h>\n#include <sys/syscall.h>\n#include <unistd.h>\nstatic unsigned calls;\n\
         int fdatasync(int fd) {{ struct stat s; if (!fstat(fd, &s) && S_ISREG(s.st_mode) && ++calls % {n} == 0) return 0;\n\
         return syscall(SYS_fdatasync, fd); }}\n"
    );
    std::fs::write(&source, text_of).expect("the source");
    must("cc", &["-shared", "-fPIC", "-o", text(&library), text(&source)]);
    text(&library).to_owned()
}

/// Runs the log's own program on `at`; returns whether it acknowledged a record, and what it said.
fn append(at: &Path, library: Option<&str>) -> (bool, String) {
    let log = at.join("log");
    let mut command = Command::new(SEAWALL);
    command.args(["log", "append", text(&log), "--method", "buffered+fdatasync", "--segment-bytes", "1MiB"]);
    command.envs(library.map(|library| ("LD_PRELOAD", library)));
    let mut appender = Appender::start(&mut command);
    let acknowledged = appender.put("record");
    let (_, said) = appender.end();
    let _ = std::fs::remove_dir_all(log);
    (acknowledged, said)
}

/// Watches `at` for two bursts; returns the exit code and what was said.
fn watch(at: &Path, library: Option<&str>) -> (Option<i32>, String) {
    let mut command = Command::new(SEAWALL);
    command.args(["watch", text(at), "--method", "buffered+fdatasync", "--every", "1s", "--time", "2s"]);
    let output = command.envs(library.map(|library| ("LD_PRELOAD", library))).output().expect("runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// All, half or one in twenty of the syncs are dropped by a layer of which inspection knows nothing, quiet and beside a neighbour
/// that flushes the same device.
#[test]
#[ignore = "needs root, a loop device and a C compiler; run by `cargo xtask test`"]
fn a_layer_that_drops_syncs_is_refused_by_the_log_also_beside_a_neighbour_and_its_honest_twin_never() {
    let (ground, aside) = (Ground::new("ext4", 64, "defaults"), folder());
    let libraries = [1, 2, 20].map(|n| {
        let at = aside.path().join(n.to_string());
        std::fs::create_dir(&at).expect("a folder");
        (n, liar(&at, n))
    });
    for beside in [false, true] {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = std::fs::File::create(ground.path().join("neighbour")).expect("a file");
                while beside && !stop.load(Ordering::Relaxed) {
                    std::os::unix::fs::FileExt::write_at(&file, &[1; 4096], 0).expect("writes");
                    file.sync_data().expect("syncs");
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            for (n, library) in &libraries {
                let (acknowledged, said) = append(ground.path(), Some(library));
                assert!(!acknowledged, "one in {n} dropped, beside a neighbour: {beside}: {said}");
                let by_rule = said.contains("preloaded library");
                assert!(by_rule || said.contains("counted no "), "one in {n}: {said}");
                let (acknowledged, said) = append(ground.path(), None);
                assert!(acknowledged, "the honest twin, beside a neighbour: {beside}: {said}");
                let (code, said) = watch(ground.path(), Some(library));
                assert!(
                    code == Some(10) && said.contains("power loss, not confirmed"),
                    "{n}: {code:?} {said}"
                );
            }
            let (code, said) = watch(ground.path(), None);
            assert!(code == Some(0) && !said.contains("not confirmed"), "{beside}: {code:?} {said}");
            stop.store(true, Ordering::Relaxed);
        });
    }
}
