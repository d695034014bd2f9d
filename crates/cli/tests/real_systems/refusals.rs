//! Tests hostile situations that need a file system, a device or a moment of their own: a clear message, the right exit code,
//! no file left behind. What needs none of them is a row of `bad_input`.

use crate::ground::{Ground, Loop, Mount, folder, must};
use crate::program::{Bench, SEAWALL, SMALL, has_scratch, names, ran, row};
use crate::trace::parse;
use seawall_gauge::row::Outcome;
use std::fs::File;
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs root to mount; run by `cargo xtask test`"]
fn a_read_only_folder_is_named_as_such() {
    let folder = folder();
    let mounted = folder.path().join("mounted");
    std::fs::create_dir(&mounted).expect("a mount point");
    let real = folder.path().join("real");
    std::fs::create_dir(&real).expect("a folder");
    let _mount = Mount::read_only(&real, &mounted);
    let run = Bench::new(&mounted, &SMALL).run();
    assert_eq!(run.code, Some(1), "{}", run.printed());
    assert!(run.stderr.contains("read-only"), "{}", run.stderr);
    assert_eq!(names(&mounted), Vec::<String>::new());
}

#[test]
#[ignore = "needs root to give up its rights; run by `cargo xtask test`"]
fn a_folder_without_permission_is_named() {
    // Below the temporary folder, because the build tree may not be open to other users.
    let folder = tempfile::tempdir().expect("a folder");
    let closed = folder.path().join("closed");
    std::fs::create_dir(&closed).expect("a folder");
    set_mode(folder.path(), 0o755);
    set_mode(&closed, 0o555);
    let program = folder.path().join("seawall");
    std::fs::copy(SEAWALL, &program).expect("a copy that others may run");
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut command = Command::new("setpriv");
    command.args(nobody).arg(&program).args(["bench", "--no-out", "--no-progress", "--allow-memory"]);
    let (code, printed) = ran(command.args(SMALL).arg(&closed).current_dir(folder.path()));
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains(closed.to_str().expect("UTF-8")) && printed.contains("ermission"), "{printed}");
    assert_eq!(names(&closed), Vec::<String>::new());
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Runs under strace with one call made to fail, without the kernel's doing anything.
fn with_fault(folder: &Path, fault: &str, trace: &Path, options: &[&str]) -> Bench {
    let inject = format!("inject={fault}");
    let name = fault.split(':').next().expect("a call");
    let only = format!("trace={name}");
    let trace = trace.to_str().expect("UTF-8");
    let wrapper = ["strace", "-f", "-y", "-s", "0", "-o", trace, "-e", &only, "-e", &inject];
    Bench::new(folder, options).under(&wrapper)
}

#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn a_disk_that_fills_up_while_the_journal_is_made_leaves_no_file() {
    let (folder, aside) = (folder(), folder());
    let journal = ["--journal", "4MiB", "--transactions", "16", "--rounds", "1", "--file-state", "unwritten"];
    let run =
        with_fault(folder.path(), "fallocate:error=ENOSPC", &aside.path().join("trace"), &journal).run();
    assert_eq!(run.code, Some(1), "{}", run.printed());
    assert!(run.stderr.contains("seawall-journal") && run.stderr.contains("No space left"), "{}", run.stderr);
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn a_forbidden_io_uring_is_a_reason_for_its_rows_and_harms_no_other() {
    for errno in ["EPERM", "ENOSYS"] {
        let (folder, aside) = (folder(), folder());
        let fault = format!("io_uring_setup:error={errno}");
        let run = with_fault(folder.path(), &fault, &aside.path().join("trace"), &SMALL).run();
        let result = run.result();
        // The last ring row is refused even earlier where the device has no poll queues.
        let rings = result
            .study
            .rows
            .iter()
            .filter(|row| row.id.starts_with("uring") && !row.id.ends_with("-iopoll"));
        for row in rings {
            assert!(
                matches!(&row.outcome, Outcome::NotAvailable { reason } if reason.contains("io_uring")),
                "{}: {:?}",
                row.id,
                row.outcome
            );
        }
        assert!(matches!(row(&result, "buffered+fdatasync").outcome, Outcome::Measured(_)));
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn after_a_failed_sync_the_method_ends_and_never_syncs_that_file_again() {
    let (folder, aside) = (folder(), folder());
    let trace = aside.path().join("trace");
    let options = ["--journal", "1MiB", "--transactions", "400", "--rounds", "2"];
    let options = [&options[..], &["--methods", "buffered+fdatasync,direct"]].concat();
    // The calls of each thread are counted apart: the one that proves the method makes fewer, a round of commits makes more.
    let run = with_fault(folder.path(), "fdatasync:error=EIO:when=150", &trace, &options).run();
    let result = run.result();
    match &row(&result, "buffered+fdatasync").outcome {
        Outcome::Failed { error, of_device } => {
            assert!(of_device, "{error}");
            assert!(error.contains("fdatasync") && error.contains("Input/output error"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(row(&result, "direct").outcome, Outcome::Measured(_)), "others go on");
    let calls = parse(&std::fs::read_to_string(&trace).expect("the trace"));
    let failed = calls.iter().position(|call| call.result.contains("INJECTED")).expect("the fault");
    assert!(calls[failed].arguments.contains("seawall-journal"), "{:?}", calls[failed]);
    assert_eq!(calls.len(), failed + 1, "there was an fdatasync after the failed one: {calls:?}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

/// Starts a long run of a scenario, waits until it has made `seen`, sends `signal`.
fn interrupted(signal: &str, scenario: &str, seen: &str) {
    let folder = folder();
    let bench = Bench::scenario(scenario, folder.path(), &["--time", "60s", "--allow-memory"]);
    let child = bench.command().spawn().expect("started");
    let process = child.id().to_string();
    for _ in 0..1200 {
        if has_scratch(folder.path(), seen) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // Past the idle baseline, so that it hits a block.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(has_scratch(folder.path(), seen), "it is under way");
    let sent = Command::new("kill").args([signal, &process]).status().expect("kill");
    assert!(sent.success(), "it was still running");
    let run = bench.ended(&child.wait_with_output().expect("its end"));
    assert_eq!(run.code, Some(130), "{}", run.printed());
    let told = !run.stdout.is_empty() || run.stderr.contains("its files were removed");
    assert!(told, "neither figures nor that there are none: {}", run.printed());
    assert_eq!(names(folder.path()), Vec::<String>::new(), "{}", run.printed());
}

#[test]
fn a_signal_in_the_middle_leaves_neither_file_nor_log() {
    for (signal, scenario, seen) in [
        ("-INT", "commit", "seawall-journal"),
        ("-TERM", "commit", "seawall-journal"),
        ("-INT", "group", "seawall-log"),
        ("-TERM", "log", "seawall-floor-16k"),
    ] {
        interrupted(signal, scenario, seen);
    }
}

/// Asks for the device to be overwritten, really and as a dry run: both are refused with these words, and not a byte
/// of it changes.
fn device_is_spared(device: &str, words: &[&str]) {
    let content = || std::fs::read(device).expect("the device");
    let before = content();
    for more in [&["--dry-run"][..], &[]] {
        let folder = folder();
        let arguments =
            ["bench", "--no-out", "--no-progress", "--allow-memory", "--raw-device-overwrite", device];
        let mut command = Command::new(SEAWALL);
        command.args(arguments).args(SMALL).args(more);
        let output = command.current_dir(folder.path()).output().expect("started");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        for word in words.iter().copied().chain([device]) {
            assert!(printed.contains(word), "{printed:?} does not say {word}");
        }
        assert!(output.stdout.is_empty(), "nothing was measured or previewed");
    }
    assert!(content() == before, "{device} was written");
}

/// A loop device on a new image of `mib` MiB.
fn image(folder: &Path, mib: u64) -> Loop {
    let path = folder.join("image");
    File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("an image file");
    Loop::attach(&path, 512)
}

#[test]
#[ignore = "needs root and a loop device; run by `cargo xtask test`"]
fn a_mounted_raw_device_is_never_overwritten() {
    let ground = Ground::new("ext4", 16, "ro,noload");
    let device = format!("/dev/{}", ground.device());
    let point = ground.path().display().to_string();
    device_is_spared(&device, &["in use", "ext4", &point, "unmount"]);
    // Mounted, and the table hidden: the kernel's own refusal remains.
    let hidden = format!(
        "umount -l /proc; mount -t tmpfs none /proc; exec {SEAWALL} bench --no-out --no-progress --journal 1MiB --time 1s --raw-device-overwrite {device}"
    );
    let (code, printed) = ran(Command::new("unshare").args(["--mount", "sh", "-c", &hidden]));
    assert!(code == Some(1) && printed.contains("exclusively"), "{printed}");
}

#[test]
#[ignore = "needs root and a loop device; run by `cargo xtask test`"]
fn a_raw_device_that_is_swap_or_under_another_is_never_overwritten() {
    let folder = folder();
    let attached = image(folder.path(), 16);
    must("mkswap", &["--force", &attached.path]);
    must("swapon", &[&attached.path]);
    device_is_spared(&attached.path, &["in use", "swap", "swapoff"]);
    must("swapoff", &[&attached.path]);
    let above = Loop::attach(Path::new(&attached.path), 512);
    device_is_spared(&attached.path, &["in use", "is a loop device on", &above.path]);
}

#[test]
#[ignore = "needs root and a loop device; run by `cargo xtask test`"]
fn a_raw_device_whose_image_has_another_device_or_that_a_program_has_open_is_never_overwritten() {
    let folder = folder();
    let attached = image(folder.path(), 16);
    {
        let beside = Loop::attach(&folder.path().join("image"), 512);
        device_is_spared(&attached.path, &["in use", "has the same image", &beside.path]);
    }
    let mut opener =
        Command::new("sleep").arg("600").stdin(File::open(&attached.path).expect("the device")).spawn();
    let opener = opener.as_mut().expect("sleep");
    device_is_spared(&attached.path, &["in use", "is open in process", "sleep"]);
    opener.kill().and_then(|()| opener.wait()).expect("its end");
}

#[test]
#[ignore = "needs root and a loop device; run by `cargo xtask test`"]
fn a_raw_device_that_nobody_uses_is_named_with_its_content_and_overwritten_only_up_to_the_journal() {
    let folder = folder();
    let attached = image(folder.path(), 8);
    must("mkfs.ext4", &["-q", "-F", &attached.path]);
    let before = std::fs::read(&attached.path).expect("the device");
    let run = |more: &[&str]| {
        let arguments = ["bench", "--no-out", "--no-progress", "--raw-device-overwrite", &attached.path];
        let mut command = Command::new(SEAWALL);
        command.args(arguments).args(SMALL).args(["--methods", "direct+dsync"]).args(more);
        let (code, printed) = ran(command.current_dir(folder.path()));
        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.contains("ext4") && printed.contains("DESTROYS the first 1 MiB"), "{printed}");
        std::fs::read(&attached.path).expect("the device")
    };
    assert!(run(&["--dry-run"]) == before, "a dry run writes nothing");
    let after = run(&[]);
    assert!(after[..1 << 20] != before[..1 << 20] && after[1 << 20..] == before[1 << 20..]);
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next_one_which_says_so() {
    let folder = folder();
    let bench = Bench::new(folder.path(), &["--journal", "4MiB", "--time", "60s", "--rounds", "50"]);
    let mut child = bench.command().spawn().expect("started");
    while !has_scratch(folder.path(), "seawall-journal") {
        assert!(child.try_wait().expect("is ours").is_none(), "it ended before its journal was seen");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let beside = Bench::new(folder.path(), &[&SMALL[..], &["--methods", "buffered"]].concat()).run();
    assert_eq!(beside.code, Some(0), "{}", beside.printed());
    assert!(has_scratch(folder.path(), "seawall-journal"), "a run that lives loses nothing");
    child.kill().expect("it was still running");
    child.wait().expect("its end");
    let left = names(folder.path());
    assert_eq!(left.len(), 1, "{left:?}");
    let next = Bench::new(folder.path(), &[&SMALL[..], &["--methods", "buffered"]].concat()).run();
    assert!(next.stderr.contains(&left[0]) && next.stderr.contains("killed"), "{}", next.printed());
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn a_thread_that_cannot_be_started_ends_the_run_with_an_error_and_leaves_no_file() {
    for (scenario, options) in [("commit", &["--threads", "8"][..]), ("group", &["--writers", "8"])] {
        let (folder, aside) = (folder(), folder());
        let trace = aside.path().join("trace");
        let wrapper = ["strace", "-f", "-o", trace.to_str().expect("UTF-8"), "-e", "trace=clone3,clone"];
        let wrapper = [&wrapper[..], &["-e", "inject=clone3,clone:error=EAGAIN:when=6+"]].concat();
        let options = [options, &["--time", "5s", "--allow-memory"]].concat();
        let run = Bench::scenario(scenario, folder.path(), &options).under(&wrapper).run();
        assert_eq!(run.code, Some(1), "{scenario}: {}", run.printed());
        assert!(run.stderr.contains("start a thread") && run.stderr.contains("ulimit -u"), "{}", run.stderr);
        assert_eq!(names(folder.path()), Vec::<String>::new(), "{scenario}");
    }
}

#[test]
fn familiar_amounts_a_label_and_quiet_are_understood() {
    let folder = folder();
    let options =
        ["--size", "4k", "--time", "1", "--journal", "1M", "--rounds", "1", "--methods", "buffered"];
    let options = [&options[..], &["-q", "--label", "before the upgrade"]].concat();
    let run = Bench::new(folder.path(), &options).run();
    let result = run.result();
    assert_eq!(result.plan.transaction_bytes, 4096);
    assert_eq!((result.plan.journal_bytes, result.plan.time_ns), (1 << 20, Some(1_000_000_000)));
    assert_eq!(result.label.as_deref(), Some("before the upgrade"));
    assert!(run.stdout.contains("before the upgrade"), "{}", run.stdout);
    assert_eq!(run.stderr, "");
}
