//! Tests that the recorder sees each call of real programs, in order with their lines, and that a check sees a state.
#![cfg(target_os = "linux")]

use seawall_crash_test::call::{Call, Record};
use seawall_crash_test::check::{Answer, Check, CommandCheck, load};
use seawall_crash_test::recorder::{Ended, Fault, FaultOn, Program, record};
use seawall_crash_test::tree::{Kind, ROOT, Tree};
use seawall_host::seccomp::{Action, Filter, Row};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Every run ends then, whatever becomes of the program.
const TIME_LIMIT: Duration = Duration::from_mins(1);
const DEADLINE: Duration = Duration::from_secs(10);

struct Ground {
    folder: TempDir,
    directory: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("data");
        fs::create_dir(&directory).expect("made");
        Self { folder, directory }
    }

    fn program(&self, command: &str) -> Program {
        let command = command.replace("DIR", self.directory.to_str().expect("text"));
        Program { for_: Some(DEADLINE), ..Program::new(&self.directory, &command) }
    }

    fn run(&self, command: &str) -> Record {
        let (record, ended) = record(&self.program(command)).expect("recorded");
        assert_eq!(ended, Ended::Exit(0), "{:?}", calls(&record));
        record
    }

    /// Compiles a C program whose `main` is `body`.
    fn compile(&self, body: &str) -> String {
        let (source, binary) = (self.folder.path().join("program.c"), self.folder.path().join("program"));
        let text = format!(
            "#define _GNU_SOURCE\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <fcntl.h>\n\
             #include <unistd.h>\n#include <errno.h>\n#include <sys/mman.h>\n#include <sys/stat.h>\n#include <sys/wait.h>\n\
             #include <sys/uio.h>\n#include <time.h>\n#define MUST(x) do {{ if ((long)(x) < 0) {{ perror(#x); exit(9); }} }} while (0)\n\
             int main(int argc, char **argv) {{ {body} return 0; }}\n"
        );
        fs::write(&source, text).expect("written");
        let done = Command::new("gcc").args(["-O1", "-w", "-o"]).arg(&binary).arg(&source).status();
        assert!(done.expect("gcc runs").success());
        format!("{} DIR", binary.display())
    }
}

/// The calls in short; a file is named by its number.
fn calls(record: &Record) -> Vec<String> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let call = |call: &Call| match call {
        Call::Create { parent, name, inode, kind, .. } => {
            let kind = match kind {
                Kind::File => "create",
                Kind::Folder => "mkdir",
                Kind::Symlink(_) => "symlink",
                Kind::Special(_) => "mkfifo",
            };
            format!("{kind} {parent}/{} {inode}", text(name))
        }
        Call::Temporary { inode, .. } => format!("tmpfile {inode}"),
        Call::Link { inode, parent, name } => format!("link {inode} {parent}/{}", text(name)),
        Call::Remove { parent, name, inode } => format!("remove {parent}/{} {inode}", text(name)),
        Call::Rename { from, to, inode, over, exchange } => format!(
            "rename {}/{} {}/{} {inode}{}{}",
            from.0,
            text(&from.1),
            to.0,
            text(&to.1),
            over.map_or(String::new(), |over| format!(" over {over}")),
            if *exchange { " exchange" } else { "" }
        ),
        Call::Write { inode, offset, data, mapped } => {
            format!("{} {inode} {offset}+{}", if *mapped { "page" } else { "write" }, data.len())
        }
        Call::Mode { inode, mode } => format!("chmod {inode} {mode:o}"),
        Call::Zero { inode, offset, bytes } => format!("zero {inode} {offset}+{bytes}"),
        Call::Resize { inode, bytes } => format!("resize {inode} {bytes}"),
        Call::Sync { inode, data_only } => {
            format!("{} {inode}", if *data_only { "fdatasync" } else { "fsync" })
        }
        Call::SyncFailed { inode } => format!("failed {inode}"),
        Call::SyncAll => "sync".to_owned(),
        Call::Acknowledge { line } => format!("ack {}", text(line)),
    };
    record.events.iter().map(|event| call(&event.call)).collect()
}

#[test]
fn a_shell_program_is_recorded_and_the_disk_is_not_touched() {
    let ground = Ground::new();
    fs::write(ground.directory.join("old"), "before").expect("written");
    let record = ground.run(
        "cd DIR && mkdir sub && echo one > sub/a && echo ack 1 && ln -s a sub/l && mv sub/a b && cat old && \
         sync b && sync && sync -f b && sync -f / && rm old && rmdir sub 2>/dev/null; echo ack 2",
    );
    assert_eq!(
        calls(&record),
        [
            "mkdir 0/sub 2",
            "create 2/a 3",
            "write 3 0+4",
            "ack ack 1",
            "symlink 2/l 4",
            "rename 2/a 0/b 3",
            "fsync 3",
            "sync",
            "sync",
            "remove 0/old 1",
            "ack beforeack 2",
        ]
    );
    let left: Vec<_> =
        fs::read_dir(&ground.directory).expect("read").map(|entry| entry.expect("one").file_name()).collect();
    assert_eq!(left, ["old"]);
    assert_eq!(fs::read(ground.directory.join("old")).expect("read"), b"before");
    assert_eq!(record.before.nodes[&1].content.to_vec(), b"before");
}

#[test]
fn each_kind_of_call_arrives_with_its_file() {
    let ground = Ground::new();
    let command = ground.compile(
        r#"
        MUST(chdir(argv[1]));
        int f = open("f", O_CREAT | O_RDWR, 0640); MUST(f);
        MUST(pwrite(f, "0123456789", 10, 5));
        MUST(ftruncate(f, 9000)); MUST(fdatasync(f));
        MUST(fallocate(f, 0, 0, 10000)); MUST(fallocate(f, FALLOC_FL_KEEP_SIZE, 0, 20000));
        MUST(fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4, 8));
        MUST(fallocate(f, 0x10, 9000, 2000));
        if (fallocate(f, 8, 0, 4096) == 0 || errno != EOPNOTSUPP) return 2;
        struct stat s; MUST(fstat(f, &s)); if (s.st_size != 11000 || (s.st_mode & 07777) != 0640) return 3;
        if (lseek(f, 0, SEEK_HOLE) != 11000) return 4;
        MUST(link("f", "g")); MUST(mkdir("d", 0700)); MUST(rename("g", "d/g")); MUST(mkfifo("p", 0600));
        MUST(stat("f", &s)); if (s.st_nlink != 2) return 5;
        int h = open("h", O_CREAT | O_WRONLY | O_APPEND | O_DSYNC, 0644); MUST(h);
        MUST(write(h, "ab", 2)); MUST(write(h, "cd", 2));
        MUST(renameat2(AT_FDCWD, "f", AT_FDCWD, "h", RENAME_EXCHANGE));
        if (renameat2(AT_FDCWD, "f", AT_FDCWD, "h", RENAME_NOREPLACE) == 0 || errno != EEXIST) return 6;
        if (renameat2(AT_FDCWD, "f", AT_FDCWD, "w", RENAME_WHITEOUT) == 0 || errno != EINVAL) return 7;
        int t = open(".", O_TMPFILE | O_RDWR, 0644); MUST(t);
        MUST(write(t, "x", 1)); MUST(fsync(t));
        char b[64]; sprintf(b, "/proc/self/fd/%d", t);
        MUST(linkat(AT_FDCWD, b, AT_FDCWD, "t", AT_SYMLINK_FOLLOW));
        MUST(unlink("t")); MUST(pwrite(t, "y", 1, 1)); MUST(pread(t, b, 2, 0)); if (b[0] != 'x' || b[1] != 'y') return 8;
        int d = open(".", O_RDONLY); MUST(d); MUST(fsync(d));
        MUST(symlink("f", "s")); MUST(readlink("s", b, 9)); if (b[0] != 'f') return 9;
        int u = open("f", O_WRONLY | O_TRUNC); MUST(u); MUST(chmod("f", 0600));
        if (rmdir("d") == 0 || errno != ENOTEMPTY) return 10;
        MUST(unlink("d/g")); MUST(rmdir("d"));
        sync(); MUST(syncfs(d));
        "#,
    );
    let record = ground.run(&command);
    assert_eq!(
        calls(&record),
        [
            "create 0/f 1",
            "write 1 5+10",
            "resize 1 9000",
            "fdatasync 1",
            "resize 1 10000",
            "zero 1 4+8",
            "zero 1 9000+1000",
            "resize 1 11000",
            "link 1 0/g",
            "mkdir 0/d 2",
            "rename 0/g 2/g 1",
            "mkfifo 0/p 3",
            "create 0/h 4",
            "write 4 0+2",
            "fdatasync 4",
            "write 4 2+2",
            "fdatasync 4",
            "rename 0/f 0/h 1 over 4 exchange",
            "tmpfile 5",
            "write 5 0+1",
            "fsync 5",
            "link 5 0/t",
            "remove 0/t 5",
            "write 5 1+1",
            "fsync 0",
            "symlink 0/s 6",
            "resize 4 0",
            "chmod 4 600",
            "remove 2/g 1",
            "remove 0/d 2",
            "sync",
            "sync",
        ]
    );
    assert!(record.events.iter().all(|event| event.thread > 0), "{:?}", record.events);
}

#[test]
fn pages_of_a_mapping_arrive_before_the_sync_that_covers_them() {
    let ground = Ground::new();
    let command = ground.compile(
        r#"
        MUST(chdir(argv[1]));
        int f = open("m", O_CREAT | O_RDWR, 0644); MUST(f); MUST(ftruncate(f, 8192));
        char *m = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0); if (m == MAP_FAILED) return 2;
        m[5000] = 1; MUST(msync(m, 8192, MS_SYNC));
        m[10] = 2; sync();
        m[20] = 3; MUST(munmap(m, 8192)); MUST(close(f));
        void *p; posix_memalign(&p, 4096, 4096); memset(p, 7, 4096);
        f = open("direct", O_CREAT | O_RDWR | O_DIRECT, 0644); MUST(f); MUST(pwrite(f, p, 4096, 0)); MUST(pread(f, p, 4096, 0));
        "#,
    );
    let calls = calls(&ground.run(&command));
    assert_eq!(
        calls,
        [
            "create 0/m 1",
            "resize 1 8192",
            "page 1 4096+4096",
            "fdatasync 1",
            "page 1 0+4096",
            "sync",
            "page 1 0+4096",
            "create 0/direct 2",
            "write 2 0+4096"
        ]
    );
}

#[test]
fn a_line_is_recorded_between_the_calls_around_it() {
    let ground = Ground::new();
    let command = ground.compile(
        r#"
        MUST(chdir(argv[1])); int f = open("f", O_CREAT | O_WRONLY, 0644); MUST(f); char b[32];
        for (int i = 0; i < 500; i++) {
            MUST(pwrite(f, "x", 1, i)); MUST(fdatasync(f));
            int n = sprintf(b, "ack %d\n", i); MUST(write(1, b, 2)); MUST(write(1, b + 2, n - 2));
        }
        "#,
    );
    let record = ground.run(&command);
    let mut expected = vec!["create 0/f 1".to_owned()];
    for index in 0..500 {
        expected.extend([format!("write 1 {index}+1"), "fdatasync 1".to_owned(), format!("ack ack {index}")]);
    }
    assert_eq!(calls(&record), expected);
    assert_eq!(record.acknowledged(record.events.len()).len(), 500);
    assert!(record.notices.is_empty(), "{:?}", record.notices);
    let record = ground.run("for i in 1 2 3 4; do echo $i >> DIR/f; done; printf '1\\n2\\n3\\n4\\n'");
    assert!(record.notices[0].contains("came in blocks"), "{:?}", record.notices);
}

#[test]
fn several_processes_have_numbers_of_their_own_and_a_daemon_does_not_outlive_the_run() {
    let ground = Ground::new();
    let mark = format!("{}.1", 86_000 + std::process::id());
    let record = ground.run(&format!(
        "for i in 1 2 3; do echo $i > DIR/$i & done; wait; (setsid sleep {mark} > DIR/log &) ; sleep 0.1; echo done"
    ));
    let threads: std::collections::BTreeSet<u32> = record.events.iter().map(|event| event.thread).collect();
    assert!(threads.len() >= 4, "{threads:?}");
    assert!(!is_running(&mark));
}

/// Whether a process has this word among its arguments.
fn is_running(word: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("read").flatten();
    processes
        .filter_map(|one| fs::read(one.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|part| part == word.as_bytes()))
}

#[test]
fn a_server_is_asked_to_end_and_then_made_to() {
    let ground = Ground::new();
    let mut program =
        ground.program("trap 'echo bye; exit 3' TERM; touch DIR/up; while :; do sleep 0.05; done");
    // Seen as the program sees it.
    (program.until, program.for_) = (Some(format!("test -e {}/up", ground.directory.display())), None);
    let (record_, ended) = record(&program).expect("recorded");
    assert_eq!(ended, Ended::Asked);
    assert_eq!(calls(&record_).last().map(String::as_str), Some("ack bye"));
    // The shell ends at once, and its server has time to end by itself.
    program.command =
        "(trap 'sleep 0.2; echo bye; exit' TERM; sleep 0.1; touch DIR/up; while :; do sleep 0.05; done) & wait"
            .replace("DIR", ground.directory.to_str().expect("text"));
    let (record_, ended) = record(&program).expect("recorded");
    assert_eq!(ended, Ended::Asked);
    assert_eq!(calls(&record_).last().map(String::as_str), Some("ack bye"));
    (program.until, program.for_) = (None, Some(Duration::from_millis(100)));
    program.command = "trap '' TERM; while :; do sleep 0.1; done".to_owned();
    assert_eq!(record(&program).expect("recorded").1, Ended::Asked);
}

#[test]
fn a_fault_is_delivered_once() {
    let ground = Ground::new();
    let command = ground.compile(
        r#"
        MUST(chdir(argv[1])); int f = open("f", O_CREAT | O_WRONLY, 0644); MUST(f);
        for (int i = 0; i < 3; i++) { int n = write(f, "abcdef", 6); printf("%d ", n < 0 ? -errno : n); n = fsync(f); printf("%d ", n < 0 ? -errno : n); }
        printf("\n");
        "#,
    );
    let mut program = ground.program(&command);
    for (fault, expected) in [
        (Fault { errno: 28, on: FaultOn::Write, nth: 1 }, "6 0 -28 0 6 0 "),
        (Fault { errno: 5, on: FaultOn::Sync, nth: 0 }, "6 -5 6 0 6 0 "),
        (Fault { errno: 0, on: FaultOn::Write, nth: 2 }, "6 0 6 0 3 0 "),
    ] {
        program.fault = Some(fault);
        let (record, ended) = record(&program).expect("recorded");
        assert_eq!(ended, Ended::Exit(0));
        let lines = record.acknowledged(record.events.len());
        assert_eq!(String::from_utf8_lossy(&lines[0]), expected);
        let failed = calls(&record).iter().filter(|call| *call == "failed 1").count();
        assert_eq!(failed, usize::from(fault.on == FaultOn::Sync), "{:?}", calls(&record));
    }
    program.fault = Some(Fault { errno: 5, on: FaultOn::Name, nth: 0 });
    assert_eq!(record(&program).expect("recorded").1, Ended::Exit(9));
    // One that the run did not come to is named.
    program.fault = Some(Fault { errno: 5, on: FaultOn::Sync, nth: 99 });
    let (record, ended) = record(&program).expect("recorded");
    assert_eq!((ended, record.notices.len()), (Ended::Exit(0), 1), "{:?}", record.notices);
}

#[test]
fn replies_that_are_held_back_end_later_than_they_began() {
    let ground = Ground::new();
    let mut program = ground.program(
        "for j in 1 2 3; do (for i in 1 2 3 4 5 6 7 8; do echo $i >> DIR/$j; sync DIR/$j; done) & done; wait",
    );
    program.hold_back = Some(7);
    let (record, ended) = record(&program).expect("recorded");
    assert_eq!(ended, Ended::Exit(0));
    let late = record.events.iter().enumerate().filter(|(place, event)| event.ended > place + 1);
    assert!(late.count() > 0);
}

#[test]
fn a_run_that_writes_too_much_is_ended() {
    let ground = Ground::new();
    let mut program = ground.program("while :; do cat /bin/sh >> DIR/f; done");
    (program.bytes_max, program.for_) = (1 << 20, None);
    let error = record(&program).expect_err("too large").to_string();
    assert!(error.contains("1 MiB") && error.contains("make it shorter"), "{error}");
    program.directory = ground.directory.join("nowhere");
    let error = record(&program).expect_err("not there").to_string();
    assert!(error.contains("nowhere"), "{error}");
}

#[test]
fn an_ordinary_user_records_and_checks_too() {
    as_ordinary_user(&["a_shell_program", "a_check", "each_kind", "a_server"]);
}

#[test]
fn where_namespaces_are_refused_the_helper_mounts() {
    let helper = Command::new("fusermount3").arg("-V").output();
    if helper.is_err() {
        return seawall_sys::skip::skipped("fusermount3 (package fuse3) is not installed");
    }
    // As AppArmor does; only for what this thread starts.
    let refused = std::thread::spawn(|| {
        if std::env::var_os(AS_USER).is_none() && is_root() {
            let call = if cfg!(target_arch = "x86_64") { 272 } else { 97 };
            let unshare = Row { call, when: None, action: Action::Errno(1) };
            Filter::new(&[unshare]).install().expect("a filter");
            as_ordinary_user(&["a_shell_program", "a_check", "several_processes", "a_server", "a_run_that"]);
        }
    });
    refused.join().expect("the tests pass");
}

/// Set in what [`as_ordinary_user`] starts.
const AS_USER: &str = "SEAWALL_AS_USER";

/// Runs tests of this binary again as `daemon`, if this user is root: fusermount3 wants a user with a name.
fn as_ordinary_user(tests: &[&str]) {
    if std::env::var_os(AS_USER).is_some() || !is_root() {
        return;
    }
    // As udev makes it, which containers lack.
    if let Err(error) = fs::set_permissions("/dev/fuse", fs::Permissions::from_mode(0o666)) {
        return seawall_sys::skip::skipped(format!("/dev/fuse is root's alone here: {error}"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let binary = folder.path().join("recorder");
    fs::copy(std::env::current_exe().expect("a binary"), &binary).expect("copied");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).expect("made");
    chown(&temporary, Some(1), Some(1)).expect("given");
    let user = ["--reuid", "1", "--regid", "1", "--clear-groups"];
    let mut command = Command::new("setpriv");
    command.args(user).arg(&binary).args(tests).env(AS_USER, "1").env("TMPDIR", &temporary);
    // Its lines are its own: this binary prints one result.
    match command.current_dir(&temporary).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => seawall_sys::skip::skipped(format!("setpriv: {error}")),
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// A tree of one file.
fn one_file(content: &[u8]) -> Tree {
    let mut tree = Tree::default();
    tree.node(1).content = Arc::new(content.into());
    tree.node(1).mode = Some(0o640);
    tree.node(ROOT).names.insert(b"data".as_slice().into(), 1);
    tree
}

fn judge(ground: &Ground, command: &str, limit: Duration) -> Result<Answer, String> {
    let command = command.replace("DIR", ground.directory.to_str().expect("text"));
    let check = CommandCheck::new(&ground.directory, &command, limit).expect("made");
    let lines: Vec<Arc<[u8]>> = vec![b"one".as_slice().into(), b"two".as_slice().into()];
    let first = check.judge(&one_file(b"one\n"), &lines);
    // A folder is used again, and a check may have written to it.
    assert_eq!(check.judge(&one_file(b"one\n"), &lines).is_ok(), first.is_ok());
    first.map_err(|error| error.to_string())
}

#[test]
fn a_check_sees_the_state_and_its_end_is_the_answer() {
    let ground = Ground::new();
    let broken = |said: &str| Ok(Answer::Broken(said.to_owned()));
    let script = ground.folder.path().join("check.sh");
    fs::write(
        &script,
        "test $(wc -l < $2) = 2 && grep -q one $1/data && test $(stat -c %a $1/data) = 640 && rm $1/data",
    )
    .expect("written");
    assert_eq!(judge(&ground, &format!("sh {}", script.display()), TIME_LIMIT), Ok(Answer::Kept));
    assert_eq!(judge(&ground, "grep -q one DIR/data; true", TIME_LIMIT), Ok(Answer::Kept));
    assert_eq!(judge(&ground, "echo lost; exit 1;", TIME_LIMIT), broken("lost"));
    assert_eq!(judge(&ground, "exit 3;", TIME_LIMIT), broken("the check ended with exit code 3"));
    assert_eq!(judge(&ground, "kill -9 $$;", TIME_LIMIT), broken("the check ended by signal 9: "));
    let mark = format!("{}.2", 86_000 + std::process::id());
    let slow = format!("sleep {mark};");
    assert_eq!(judge(&ground, &slow, Duration::from_secs(1)), broken("the check did not end within 1 s"));
    assert_eq!(judge(&ground, &format!("sleep {mark} & true"), TIME_LIMIT), Ok(Answer::Kept));
    assert!(!is_running(&mark));
    let error = judge(&ground, "./no-such-check", TIME_LIMIT).expect_err("no check");
    assert!(error.contains("no-such-check") && error.contains("not found"), "{error}");
    assert_eq!(load(&ground.directory).expect("loaded").nodes.len(), 1);
}

#[test]
fn root_serves_the_owner_of_the_directory() {
    if !is_root() {
        return;
    }
    let ground = Ground::new();
    chown(&ground.directory, Some(1), Some(1)).expect("given");
    fs::write(ground.directory.join("old"), "").expect("written");
    fs::set_permissions(ground.folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
    let command =
        "setpriv --reuid 1 --regid 1 --clear-groups sh -c 'cd DIR && touch new && stat -c %u . old new'";
    let record = ground.run(command);
    assert_eq!(record.acknowledged(record.events.len()).concat(), b"111");
    let answer = judge(&ground, "stat -c %u DIR/data DIR; exit 1;", TIME_LIMIT);
    assert_eq!(answer, Ok(Answer::Broken("1\n1".to_owned())));
}

#[test]
fn a_directory_is_laid_out_as_it_was_loaded() {
    let ground = Ground::new();
    let fill =
        "cd DIR && mkdir -p a/b && echo x > a/f && ln a/f a/b/g && ln -s f a/s && truncate -s 50000 h && mkfifo p && chmod 500 a/b"
            .replace("DIR", ground.directory.to_str().expect("text"));
    assert!(Command::new("sh").arg("-c").arg(fill).status().expect("sh").success());
    let tree = load(&ground.directory).expect("loaded");
    let copy = ground.folder.path().join("copy");
    {
        seawall_crash_test::check::lay_out(&tree, &copy).expect("laid out");
        assert_eq!(load(&copy).expect("loaded").fingerprint(), tree.fingerprint());
    }
    let run = ground.run("cd DIR && stat -c '%a %h' a/b a/f && cat a/b/g && rm -rf a h p && ls");
    let lines: Vec<String> = run
        .acknowledged(run.events.len())
        .iter()
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    assert_eq!(lines, ["500 2", "644 2", "x"]);
}
