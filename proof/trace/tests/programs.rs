//! Follows small programs in several languages: counts equal strace's, and known faults are named.
//!
//! Each program ends by itself within seconds; what would not is ended by the tracer, which is part of what is tested.
#![cfg(target_os = "linux")]

use seawall_sys::skip::skipped;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use trace::{End, Options, Report};

const SYNCS: [&str; 6] = ["fsync", "fdatasync", "msync", "sync", "syncfs", "sync_file_range"];

/// On a disk: the system's folder for temporary files may lie in memory.
fn folder() -> tempfile::TempDir {
    let binary = std::env::current_exe().expect("a test has a binary");
    tempfile::tempdir_in(binary.parent().expect("a folder")).expect("a folder")
}

fn command(folder: &Path, words: &[&str]) -> Command {
    // A program or compiler that hangs is ended by timeout(1).
    let mut command = Command::new("timeout");
    command.args(["--foreground", "-k", "1", "40"]).args(words).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn traced(folder: &Path, words: &[&str], options: Options) -> Report {
    trace::run(command(folder, words), options).expect("runs")
}

/// Runs a tool that is needed; whether it worked.
fn works(folder: &Path, words: &[&str]) -> bool {
    let mut tool = command(folder, words);
    tool.env("GOFLAGS", "-mod=mod").env("PATH", path()).stderr(Stdio::null());
    tool.status().is_ok_and(|status| status.success())
}

fn path() -> String {
    format!("{}:/usr/local/go/bin", std::env::var("PATH").unwrap_or_default())
}

fn compiled(folder: &Path, source: &str) -> bool {
    std::fs::write(folder.join("p.c"), source).expect("written");
    works(folder, &["cc", "-g", "-O2", "-w", "-pthread", "-o", "p", "p.c"])
}

/// Lines about what is missing, in one text.
fn missing(report: &Report) -> String {
    report.missing.join("\n")
}

/// The counts of strace, by call.
fn by_strace(folder: &Path, words: &[&str]) -> Option<BTreeMap<String, u64>> {
    let filter = format!("trace={}", SYNCS.join(","));
    let head = ["strace", "-f", "-qq", "-c", "-o", "counts", "-e", &filter];
    if !works(folder, &[&head[..], words].concat()) {
        return None;
    }
    let text = std::fs::read_to_string(folder.join("counts")).ok()?;
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.last().filter(|name| SYNCS.contains(name))?;
        Some(((*name).to_owned(), words.get(3)?.parse().ok()?))
    };
    Some(text.lines().filter_map(row).collect())
}

fn equal_to_strace(what: &str, prepared: bool, folder: &Path, words: &[&str], least: u64) {
    let Some(expected) = prepared.then(|| by_strace(folder, words)).flatten() else {
        skipped(format!("{what} or strace is not there"));
        return;
    };
    let report = traced(folder, words, Options::default());
    assert_eq!(report.end, End::Code(0), "{what}");
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for row in report.syncs.iter().filter(|row| SYNCS.contains(&row.call)) {
        *found.entry(row.call.to_owned()).or_default() += row.count;
    }
    assert_eq!(found, expected, "{what}");
    assert!(found.values().sum::<u64>() >= least, "{what}: {found:?}");
    assert!(report.union_ns <= report.wall_ns, "{what}: {report:?}");
}

const C: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void *syncs(void *name) {
    int f = open(name, O_CREAT | O_RDWR, 0644);
    for (int i = 0; i < 20; i++) { write(f, "hello", 5); i % 2 ? fsync(f) : fdatasync(f); }
    sync_file_range(f, 0, 0, 7);
    char *m = mmap(0, 4096, 3, MAP_SHARED, f, 0);
    m[0] = 1; msync(m, 4096, MS_SYNC); syncfs(f);
    return 0;
}
int main() {
    pthread_t t;
    pthread_create(&t, 0, syncs, "one");
    if (!fork()) { syncs("two"); _exit(0); }
    pthread_join(t, 0); wait(0);
    return 0;
}"#;

#[test]
fn counts_of_c_shell_and_sqlite_are_those_of_strace() {
    let place = folder();
    let place = place.path();
    equal_to_strace("a C compiler", compiled(place, C), place, &["./p"], 46);
    std::fs::write(place.join("s.sh"), "echo x > f\nfor i in 1 2 3; do sync f; sync -d f; done\n")
        .expect("written");
    equal_to_strace("sh", true, place, &["sh", "s.sh"], 6);
    std::fs::write(
        place.join("rows.sh"),
        "for i in 1 2 3 4 5; do echo \"insert into t values($i);\"; done | sqlite3 db\n",
    )
    .expect("written");
    let made = works(place, &["sqlite3", "db", "create table t(a)"]);
    equal_to_strace("sqlite3", made, place, &["sh", "rows.sh"], 20);
}

const GO: &str = r#"package main
import ("fmt"; "os"; "sync")
func main() {
	var w sync.WaitGroup
	for t := 0; t < 4; t++ {
		w.Add(1)
		go func(t int) {
			defer w.Done()
			f, _ := os.Create(fmt.Sprintf("f%d", t))
			for i := 0; i < 25; i++ { f.WriteString("hello"); f.Sync() }
		}(t)
	}
	w.Wait()
}"#;

#[test]
fn counts_and_lines_of_go_are_right() {
    let place = folder();
    let place = place.path();
    std::fs::write(place.join("main.go"), GO).expect("written");
    let made = works(place, &["go", "build", "-o", "g", "main.go"]);
    equal_to_strace("go", made, place, &["./g"], 100);
    if made {
        let report = traced(place, &["./g"], Options::default());
        let site = report.syncs.first().and_then(|row| row.site.clone()).unwrap_or_default();
        assert_eq!(site, "main.main.func1 main.go:10", "{report:?}");
    }
}

const JAVA: &str = "import java.nio.*;import java.nio.channels.*;import java.nio.file.*;
public class J{public static void main(String[] a)throws Exception{
try(FileChannel c=FileChannel.open(Path.of(\"j\"),StandardOpenOption.CREATE,StandardOpenOption.READ,StandardOpenOption.WRITE)){
for(int i=0;i<50;i++){c.write(ByteBuffer.wrap(new byte[10]));c.force(i%2==0);}
MappedByteBuffer m=c.map(FileChannel.MapMode.READ_WRITE,0,4096);m.put(0,(byte)1);m.force();}}}";

#[test]
fn counts_of_java_and_python_are_those_of_strace() {
    let place = folder();
    let place = place.path();
    std::fs::write(place.join("J.java"), JAVA).expect("written");
    equal_to_strace("java", works(place, &["javac", "J.java"]), place, &["java", "J"], 51);
    let script =
        "import os\nf=open('p','wb')\nfor i in range(9):\n f.write(b'x'); f.flush(); os.fsync(f.fileno())\n";
    std::fs::write(place.join("p.py"), script).expect("written");
    equal_to_strace("python3", works(place, &["python3", "--version"]), place, &["python3", "p.py"], 9);
}

#[test]
fn counts_of_other_tools_are_those_of_strace() {
    let place = folder();
    let place = place.path();
    for (words, least) in [
        (&["dd", "if=/dev/zero", "of=d", "bs=4k", "count=3", "conv=fsync,notrunc", "status=none"][..], 1),
        (&["sync", "-f", "."], 1),
        (&["perl", "-e", "use IO::Handle; open F, '>', 'l'; for (1..7) { print F 1; F->flush; F->sync }"], 7),
        (&["node", "-e", "f=fs.openSync('n','w');for(i=0;i<8;i++){fs.writeSync(f,'x');fs.fsyncSync(f)}"], 8),
        (
            &[
                "sh",
                "-c",
                "rm -rf .git; git init -q; echo x > g; git add g; git -c core.fsync=all \
               -c user.name=a -c user.email=b commit -q -m c",
            ],
            3,
        ),
    ] {
        equal_to_strace(
            words[0],
            works(place, &[words[0], "--version"]) || words[0] == "sh",
            place,
            words,
            least,
        );
    }
}

const FAULTS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int n, char **v) {
    int right = n > 1, d = open(".", O_RDONLY);
    int f = open("tmp1", O_CREAT | O_RDWR, 0644);
    write(f, "hello", 5);
    if (right) fsync(f);
    rename("tmp1", "key1");
    if (right) fsync(d);
    int k = open("kept", O_CREAT | O_RDWR, 0644);
    write(k, "x", 1); fsync(k);
    if (!right) { fdatasync(k); fsync(k); }
    ftruncate(k, 4096);
    char *m = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, k, 0);
    m[9] = 1;
    if (right) msync(m, 4096, MS_SYNC);
    int gone = open("gone", O_CREAT | O_RDWR, 0644);
    unlink("gone");
    if (right) fsync(d);
    return right ? 0 : 7;
}"#;

#[test]
fn what_is_redundant_and_missing_is_named_and_nothing_else() {
    let place = folder();
    let place = place.path();
    if !compiled(place, FAULTS) {
        skipped("no C compiler");
        return;
    }
    let wrong = traced(place, &["./p"], Options::default());
    assert_eq!(wrong.end, End::Code(7));
    let said = missing(&wrong);
    for words in [
        "rename of tmp# to key#: 1 of 1 never made durable; missing: fsync of . after it",
        "tmp# to key#: renamed before fsync of the file",
        "create of kept: 1 of 1 never made durable",
        "kept: mapped for writing, never msync'ed or fsync'ed",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    assert!(!said.contains("gone"), "{said}");
    let redundant: u64 = wrong.syncs.iter().map(|row| row.redundant).sum();
    if wrong.syncs.iter().any(|row| row.dirty_bytes.1 > 0) {
        assert_eq!(redundant, 2, "{wrong:?}");
    } else {
        skipped("this kernel or file system does not report dirty pages");
        assert_eq!(redundant, 0, "{wrong:?}");
    }
    for name in ["key1", "kept"] {
        std::fs::remove_file(place.join(name)).expect("is there");
    }
    let right = traced(place, &["./p", "right"], Options::default());
    assert_eq!((right.end, missing(&right)), (End::Code(0), String::new()), "{right:?}");
    assert_eq!(right.syncs.iter().map(|row| row.redundant).sum::<u64>(), 0, "{right:?}");
}

#[test]
fn codes_and_signals_pass_and_what_stays_behind_is_ended() {
    let place = folder();
    let run = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(place.path()).stdin(Stdio::null());
        trace::run(command, Options::default())
    };
    assert_eq!(run(&["sh", "-c", "exit 42"]).expect("runs").end, End::Code(42));
    assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).expect("runs").end, End::Signal(15));
    let trapped = run(&["sh", "-c", "trap 'exit 9' USR1; kill -USR1 $$; exit 1"]);
    assert_eq!(trapped.expect("runs").end, End::Code(9));
    let missing = run(&["/no/such/program"]).expect_err("cannot start");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let began = seawall_sys::clock::monotonic_ns();
    let daemon = run(&["sh", "-c", "setsid sleep 60 & echo $! > child; exit 3"]).expect("runs");
    assert_eq!(daemon.end, End::Code(3));
    assert!(daemon.not_seen.iter().any(|line| line.contains("still ran")), "{daemon:?}");
    assert!(seawall_sys::clock::monotonic_ns() - began < 10_000_000_000);
    std::thread::sleep(Duration::from_millis(100));
    let child = std::fs::read_to_string(place.path().join("child")).expect("written");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.trim())).unwrap_or_default();
    assert!(status.is_empty() || status.contains("State:\tZ"), "{status}");
}

const RING: &str = r"
#include <errno.h>
#include <unistd.h>
int main() { char p[120] = {0}; return syscall(425, 4, p) < 0 ? errno : 0; }";

#[test]
fn rings_are_named_or_refused() {
    let place = folder();
    let place = place.path();
    if !compiled(place, RING) {
        skipped("no C compiler");
        return;
    }
    let open = traced(place, &["./p"], Options::default());
    assert!(open.not_seen[0].contains("1 io_uring rings"), "{open:?}");
    let refused = traced(place, &["./p"], Options { no_uring: true, ..Options::default() });
    assert_eq!(refused.end, End::Code(38), "ENOSYS");
    assert!(refused.not_seen.is_empty(), "{refused:?}");
}

const WRITES: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>
int main() {
    struct iovec v = {"x", 1};
    int d = open("d", O_CREAT | O_WRONLY | O_DSYNC, 0644), p = open("n", O_CREAT | O_WRONLY, 0644);
    for (int i = 0; i < 5; i++) { write(d, "x", 1); write(p, "x", 1); pwritev2(p, &v, 1, 0, RWF_DSYNC); }
    return 0;
}"#;

#[test]
fn writes_that_are_syncs_are_counted_or_said() {
    let place = folder();
    let place = place.path();
    if !compiled(place, WRITES) {
        skipped("no C compiler");
        return;
    }
    let counts = |report: &Report| -> Vec<(String, u64)> {
        let mut all: Vec<_> = report.syncs.iter().map(|row| (row.call.to_owned(), row.count)).collect();
        all.sort();
        all
    };
    let few = traced(place, &["./p"], Options::default());
    assert_eq!(counts(&few), [("pwritev2".to_owned(), 5)]);
    assert!(few.not_seen[0].contains("1 files opened with O_DSYNC"), "{few:?}");
    let all = traced(place, &["./p"], Options { writes: true, ..Options::default() });
    assert_eq!(counts(&all), [("pwritev2".to_owned(), 5), ("write".to_owned(), 5)]);
    assert!(all.not_seen.is_empty(), "{all:?}");
}

#[test]
fn a_price_replays_the_syncs_and_keeps_the_rest_of_the_run() {
    let place = folder();
    let mut report = traced(place.path(), &["true"], Options::default());
    let row = |call, number| trace::Syncs { call, count: 1, time_ns: 100, number, ..trace::Syncs::default() };
    report.syncs = vec![row("fsync", 0), row("fdatasync", 1)];
    let run = |begin, row, failed| trace::price::Run {
        thread: 1,
        span_ns: (begin, begin + 100),
        time_ns: 100,
        row,
        failed,
    };
    report.runs = vec![run(0, 0, false), run(500, 1, false), run(700, 0, true)];
    report.wall_ns = 5_000;
    let price = |row: &trace::Syncs| Some(if row.call == "fsync" { 200 } else { 400 });
    // 100 more for the first, 300 more for the second; the failed one takes what it took.
    assert_eq!(report.priced_ns(price), Some(5_400));
    assert_eq!(report.priced_ns(|_| None), None);
}
