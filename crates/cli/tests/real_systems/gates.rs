//! Tests that no gate passes where the figures are not a disk's, and that limits of control groups are read and named.
//!
//! Invariants: memory is disguised in six ways, by real mounts; exit codes and words are asserted, never a latency.

use crate::ground::{Ground, Mount, folder, must};
use crate::program::{Bench, SEAWALL, ran};
use seawall_gauge::judgement::{Answer, Judgement};
use seawall_sys::inspect::LimitKind;
use std::path::{Path, PathBuf};
use std::process::Command;

const CANNOT_TELL: Option<i32> = Some(10);
/// The disguise that is not recognised as memory, but as something that cannot be seen.
const HIDDEN: &str = "an overlay whose upper part is hidden";

/// `--require` of a preset and of a bare bound, `probe` and `watch` in a folder whose commits are answered from memory.
fn passes_no_gate(name: &str, at: &Path, preload: &[(&str, &str)]) {
    let demand = |what: &str| {
        let size = [
            "--journal",
            "16MiB",
            "--transactions",
            "400",
            "--rounds",
            "2",
            "--allow-memory",
            "--require",
            what,
        ];
        let bench =
            preload.iter().fold(Bench::new(at, &size), |bench, (name, value)| bench.with(name, value));
        bench.run()
    };
    for what in ["etcd", "p99<10s", "direct:p99<10s"] {
        let run = demand(what);
        // ramfs says that it has no space, so that nothing is measured.
        if name == "ramfs" {
            assert_eq!(run.code, Some(1), "{name}, {what}: {}", run.printed());
            continue;
        }
        // What cannot be seen promises nothing, so that no durable row is left to be judged.
        if name == HIDDEN {
            assert!(run.code == CANNOT_TELL || run.code == Some(3), "{what}: {}", run.printed());
            assert!(!run.stdout.contains("require  met"), "{what}: {}", run.printed());
            continue;
        }
        assert_eq!(run.code, CANNOT_TELL, "{name}, {what}: {}", run.printed());
        assert!(run.stdout.contains("require  cannot tell"), "{name}, {what}: {}", run.printed());
    }
    for words in
        [&["probe"][..], &["watch", "--time", "3s", "--every", "1s", "--busy", "100", "--allow-memory"]]
    {
        let (code, printed) = ran(Command::new(SEAWALL).args(words).arg(at).envs(preload.iter().copied()));
        if name == HIDDEN {
            assert!(!printed.contains("outlives power loss"), "{words:?}: {printed}");
            continue;
        }
        assert_eq!(code, CANNOT_TELL, "{name}, {words:?}: {printed}");
    }
}

#[test]
#[ignore = "needs root, zram and eatmydata; run by `cargo xtask test`"]
fn memory_in_six_disguises_passes_no_gate() {
    let at = folder();
    {
        let _mount = Mount::new("tmpfs", "size=256m", "none", at.path());
        passes_no_gate("tmpfs", at.path(), &[]);
    }
    {
        let _mount = Mount::new("ramfs", "mode=700", "none", at.path());
        passes_no_gate("ramfs", at.path(), &[]);
    }
    let memory = folder();
    {
        let _mount = Mount::new("tmpfs", "size=400m", "none", memory.path());
        let ground = Ground::new_in(memory.path(), "ext4", 128, "defaults");
        passes_no_gate("an image on tmpfs", ground.path(), &[]);
    }
    {
        let _mount = Mount::new("tmpfs", "size=256m", "none", memory.path());
        let merged = Mount::hidden_overlay(memory.path());
        passes_no_gate(HIDDEN, merged.path(), &[]);
    }
    {
        let device = must("zramctl", &["--find", "--size", "256M"]);
        let _released = Released(device.clone());
        must("mkfs.ext4", &["-q", "-F", &device]);
        let _mount = Mount::new("ext4", "defaults", &device, at.path());
        passes_no_gate("zram", at.path(), &[]);
    }
    let library = must("sh", &["-c", "ls /usr/lib/*/libeatmydata.so* | head -1"]);
    passes_no_gate("a library that eats syncs", at.path(), &[("LD_PRELOAD", &library)]);
}

struct Released(String);

impl Drop for Released {
    fn drop(&mut self) {
        let _ = Command::new("zramctl").args(["--reset", &self.0]).status();
    }
}

/// A control group of version 1 or 2, removed when dropped.
struct Group(PathBuf);

impl Group {
    fn new(controller: &str, controller_2: &str) -> Self {
        let version_1 = Path::new("/sys/fs/cgroup").join(controller);
        let root = if version_1.is_dir() {
            version_1
        } else {
            must("sh", &["-c", &format!("echo +{controller_2} > /sys/fs/cgroup/cgroup.subtree_control")]);
            PathBuf::from("/sys/fs/cgroup")
        };
        let at = root.join(format!("seawall-test-{controller}-{}", std::process::id()));
        std::fs::create_dir(&at).expect("a control group");
        Self(at)
    }

    /// Writes the first of `limits` whose file there is.
    fn limit(&self, limits: &[(&str, String)]) {
        let there = |(file, _): &&(&str, String)| self.0.join(file).exists();
        let (file, value) = limits.iter().find(there).expect("a file for the limit");
        std::fs::write(self.0.join(file), value).expect("the limit");
    }

    /// What starts a program within it.
    fn inside(&self) -> [String; 4] {
        let line = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        ["sh".into(), "-c".into(), line, "sh".into()]
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

#[test]
#[ignore = "needs root, a loop device and control groups; run by `cargo xtask test`"]
fn a_disk_that_a_control_group_holds_is_capped_by_its_name() {
    const PER_S: f64 = 300.0;
    let ground = Ground::new("ext4", 128, "defaults");
    let number = must("cat", &[&format!("/sys/class/block/{}/dev", ground.device())]);
    let group = Group::new("blkio", "io");
    group.limit(&[
        ("blkio.throttle.write_iops_device", format!("{number} {PER_S}")),
        ("io.max", format!("{number} wiops={PER_S}")),
    ]);
    let inside = group.inside();
    let words: Vec<&str> = inside.iter().map(String::as_str).collect();
    let methods = "direct,direct+dsync,buffered+fdatasync";
    let size = ["--journal", "16MiB", "--time", "12", "--rounds", "2", "--methods", methods];
    let run = Bench::new(ground.path(), &size).under(&words).run();
    let result = run.result();
    let limit = result.environment.limits.iter().find(|limit| limit.kind == LimitKind::Requests);
    let limit = limit.unwrap_or_else(|| panic!("not read: {:?}", result.environment.limits));
    assert!(limit.most == PER_S && limit.source.contains(ground.device()), "{limit:?}");
    let judgement = Judgement::of_result(&result);
    assert_eq!(judgement.answer, Answer::Capped, "{}", run.printed());
    let cap = judgement.capped.expect("a rate");
    assert!(cap.limit.is_some(), "{cap:?}");
    let words = run.printed().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("by a limit of its cgroup"), "{words}");
}

#[test]
#[ignore = "needs root and control groups; run by `cargo xtask test`"]
fn a_quota_of_cpu_time_is_read() {
    let group = Group::new("cpu", "cpu");
    if group.0.join("cpu.cfs_period_us").exists() {
        std::fs::write(group.0.join("cpu.cfs_period_us"), "100000").expect("the period");
    }
    group.limit(&[("cpu.cfs_quota_us", "20000".to_owned()), ("cpu.max", "20000 100000".to_owned())]);
    let inside = group.inside();
    let words: Vec<&str> = inside.iter().map(String::as_str).collect();
    let at = folder();
    let run = Bench::new(at.path(), &crate::program::SMALL).under(&words).run();
    let limits = run.result().environment.limits;
    let quota = limits.iter().find(|limit| limit.kind == LimitKind::Cpu).expect("read");
    assert!((quota.most - 0.2).abs() < 1e-9, "{quota:?}");
}
