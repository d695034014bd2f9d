//! Tests that the recorder sees each call of a program, in order with its acknowledgements, and leaves nothing behind.
#![cfg(target_os = "linux")]

use seawall_crash_test::call::{Call, Record};
use seawall_crash_test::check::{Answer, Check, CommandCheck, load};
use seawall_crash_test::recorder::{Ended, Fault, FaultOn, Program, record};
use seawall_crash_test::tree::{Kind, ROOT, Tree};
use seawall_sys::clock::monotonic_ns;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The calls of a record in words.
fn told(record: &Record) -> Vec<String> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let call = |event: &seawall_crash_test::call::Event| match &event.call {
        Call::Create { name, inode, kind: Kind::Folder, .. } => format!("mkdir {} {inode}", text(name)),
        Call::Create { name, inode, kind: Kind::Symlink(to), .. } => {
            format!("symlink {} {inode} {}", text(name), text(to))
        }
        Call::Create { name, inode, .. } => format!("create {} {inode}", text(name)),
        Call::Temporary { inode } => format!("temporary {inode}"),
        Call::Link { inode, name, .. } => format!("link {inode} {}", text(name)),
        Call::Remove { name, inode, .. } => format!("remove {} {inode}", text(name)),
        Call::Rename { from, to, inode, over, exchange } => {
            format!("rename {} {} {inode} {over:?} {exchange}", text(&from.1), text(&to.1))
        }
        Call::Write { inode, offset, data, mapped } => {
            format!(
                "write {inode} {offset} {} {}",
                if *mapped { "mapped".to_owned() } else { text(data) },
                data.len()
            )
        }
        Call::Zero { inode, offset, bytes } => format!("zero {inode} {offset} {bytes}"),
        Call::Resize { inode, bytes } => format!("resize {inode} {bytes}"),
        Call::Sync { inode, data_only } => format!("sync {inode} {data_only}"),
        Call::SyncAll => "sync all".to_owned(),
        Call::Acknowledge { line } => format!("ack {}", text(line)),
    };
    record.events.iter().map(call).collect()
}

/// Runs Python in a recorded directory, `d` its path.
fn python(script: &str) -> (Vec<String>, Ended) {
    let (folder, place) = (folder(), folder());
    let path = place.path().join("program.py");
    let head = format!("import os, sys, mmap, ctypes\nd = '{}'\nos.chdir(d)\n", folder.path().display());
    std::fs::write(&path, head + script).expect("a script");
    let (record, ended) =
        record(&Program::new(folder.path(), &format!("python3 {}", path.display()))).expect("it is recorded");
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("is there").count(),
        0,
        "the directory on the disk is as it was"
    );
    (told(&record), ended)
}

#[test]
fn every_kind_of_call_is_seen_in_order_with_the_lines_printed() {
    let (calls, ended) = python(
        "f = os.open('a', os.O_RDWR | os.O_CREAT); os.write(f, b'hello'); print('one', flush=True)\n\
         os.fsync(f); os.fdatasync(f); os.ftruncate(f, 3); os.posix_fallocate(f, 0, 8)\n\
         g = os.open('a', os.O_WRONLY | os.O_APPEND | os.O_DSYNC); os.write(g, b'!')\n\
         os.mkdir('sub'); os.rename('a', 'sub/b'); os.link('sub/b', 'c'); os.symlink('c', 's'); os.unlink('c')\n\
         d = os.open('.', os.O_RDONLY); os.fsync(d); os.sync(); print('two', flush=True)\n\
         ctypes.CDLL(None).syncfs(d); t = os.open('.', os.O_TMPFILE | os.O_RDWR); os.write(t, b'tmp')\n\
         assert ctypes.CDLL(None).linkat(-100, b'/proc/self/fd/%d' % t, -100, b'named', 0x400) == 0\n\
         assert sorted(os.listdir('.')) == ['named', 's', 'sub'], os.listdir('.')\n\
         assert os.readlink('s') == 'c' and open('named').read() == 'tmp' and os.stat('named').st_nlink == 1\n\
         os.unlink('s'); os.unlink('named'); sys.exit(3)\n",
    );
    assert_eq!(ended, Ended::Exit(3), "{calls:?}");
    let expected = [
        "create a 1",
        "write 1 0 hello 5",
        "ack one",
        "sync 1 false",
        "sync 1 true",
        "resize 1 3",
        "resize 1 8",
        "write 1 8 ! 1",
        "sync 1 true",
        "mkdir sub 2",
        "rename a b 1 None false",
        "link 1 c",
        "symlink s 3 c",
        "remove c 1",
        "sync 0 false",
        "sync all",
        "ack two",
        "sync all",
        "temporary 4",
        "write 4 0 tmp 3",
        "link 4 named",
        "remove s 3",
        "remove named 4",
    ];
    assert_eq!(calls, expected);
}

#[test]
fn mappings_direct_writes_and_other_processes_are_seen() {
    let (calls, ended) = python(
        "f = os.open('m', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 4096)\n\
         m = mmap.mmap(f, 4096); m[0:4] = b'page'; m.flush(); print('flushed', flush=True)\n\
         b = mmap.mmap(-1, 4096); b[:] = b'x' * 4096\n\
         o = os.open('o', os.O_WRONLY | os.O_CREAT | os.O_DIRECT); os.writev(o, [b]); os.fsync(o)\n\
         os.system('echo other > p; sync')\n",
    );
    assert_eq!(ended, Ended::Exit(0));
    let at = |call: &str| {
        calls.iter().position(|one| one.starts_with(call)).unwrap_or_else(|| panic!("{call}: {calls:?}"))
    };
    assert!(at("write 1 0 mapped 4096") < at("sync 1") && at("sync 1") < at("ack flushed"), "{calls:?}");
    assert!(at("write 2 0 xxxx") < at("sync 2") && at("sync 2") < at("write 3 0 other"), "{calls:?}");
    assert!(at("write 3") < at("sync all"), "{calls:?}");
}

#[test]
fn what_was_there_is_read_and_stays() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("old")).expect("a folder");
    std::fs::write(folder.path().join("old/file"), "before").expect("a file");
    let words = format!(
        "cd {} && test $(cat old/file) = before && echo after > old/file && rm -r old",
        folder.path().display()
    );
    let (record, ended) = record(&Program::new(folder.path(), &words)).expect("it is recorded");
    assert_eq!(ended, Ended::Exit(0));
    assert_eq!(record.events.len(), 4, "{:?}", told(&record));
    assert_eq!(std::fs::read_to_string(folder.path().join("old/file")).expect("is there"), "before");
    assert_eq!(record.before, load(folder.path()).expect("reads").0);
}

#[test]
fn servers_are_ended_and_leave_nothing_behind() {
    let folder = folder();
    let started_ns = monotonic_ns();
    let marked = format!("sleep 4{}", std::process::id());
    let mut server =
        Program::new(folder.path(), &format!("({marked} &); touch {0}/x; {marked}", folder.path().display()));
    server.for_ = Some(Duration::from_millis(300));
    let (record, ended) = record(&server).expect("it is recorded");
    assert_eq!((ended, told(&record)), (Ended::Asked, vec!["create x 1".to_owned()]));
    server.for_ = None;
    server.until = Some("true".to_owned());
    assert_eq!(super_record(&server), Ended::Asked);
    // What it left in the background ends with it.
    server.until = None;
    server.command = format!("({marked} &); exit 7");
    assert_eq!(super_record(&server), Ended::Exit(7));
    let lines = std::fs::read_dir("/proc").expect("is there").flatten();
    let lines = lines.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let marked = marked.replace(' ', "\0");
    let left = lines.filter(|line| String::from_utf8_lossy(line).contains(&marked)).count();
    assert_eq!(left, 0, "processes that it left");
    assert!(monotonic_ns() - started_ns < 20_000_000_000);
}

fn record_again(program: &Program) -> seawall_crash_test::Result<(Record, Ended)> {
    record(program)
}

fn super_record(program: &Program) -> Ended {
    record(program).expect("it is recorded").1
}

#[test]
fn a_call_fails_when_it_is_to() {
    for (on, errno, words) in [
        (
            FaultOn::Sync,
            5,
            "python3 -c 'import os; f = os.open(\"x\", 65); os.write(f, b\"x\"); os.fsync(f)'",
        ),
        (FaultOn::Write, 28, "echo x > x"),
        (FaultOn::Name, 28, "touch x"),
    ] {
        let folder = folder();
        let mut failing =
            Program::new(folder.path(), &format!("cd {} && {words} 2>/dev/null", folder.path().display()));
        failing.fault = Some(Fault { errno, on, nth: 0 });
        let (record, ended) = record(&failing).expect("it is recorded");
        assert_eq!(ended, Ended::Exit(1), "{on:?}: {:?} {:?}", told(&record), record.notices);
        failing.fault = Some(Fault { errno, on, nth: 5 });
        let (record, ended) = record_again(&failing).expect("it is recorded");
        assert_eq!((ended, record.notices.len()), (Ended::Exit(0), 1), "{:?}", record.notices);
    }
}

#[test]
fn too_long_a_run_and_odd_places_are_refused_by_name() {
    let folder = folder();
    let mut long =
        Program::new(folder.path(), &format!("head -c 2000000 /dev/zero > {}/x", folder.path().display()));
    long.bytes_max = 1 << 20;
    let error = record(&long).expect_err("too long").to_string();
    assert!(error.contains("1 MiB"), "{error}");
    let error = record(&Program::new(Path::new("/nowhere"), "true")).expect_err("not there").to_string();
    assert!(error.contains("/nowhere"), "{error}");
}

#[test]
fn a_check_sees_the_state_in_the_place_of_the_directory() {
    let folder = folder();
    let (mut tree, mut modes) = (Tree::default(), BTreeMap::from([(ROOT, 0o755)]));
    tree.node(1);
    tree.node(ROOT).names.insert(b"there"[..].into(), 1);
    modes.insert(1, 0o640);
    let acks = [b"one"[..].into()];
    let ask = |command: String| {
        let check = CommandCheck::new(folder.path(), &command, modes.clone(), Duration::from_secs(2))
            .expect("a check");
        check.judge(&tree, &acks)
    };
    let path = folder.path().display();
    let all = format!(
        "sh -c 'test \"$0\" = {path} && test -f {path}/there && grep -q one \"$1\" && rm \"$0\"/there'"
    );
    assert_eq!(ask(all).expect("runs"), Answer::Kept);
    assert_eq!(ask("sh -c 'echo gone; exit 1'".to_owned()).expect("runs"), Answer::Broken("gone".to_owned()));
    let Answer::Broken(slow) = ask("sh -c 'sleep 100'".to_owned()).expect("runs") else {
        panic!("it is too slow")
    };
    assert!(slow.contains("within 2 s"), "{slow}");
    assert!(ask("./no-such-check".to_owned()).expect_err("not there").to_string().contains("no-such-check"));
    assert_eq!(std::fs::read_dir(folder.path()).expect("is there").count(), 0);
}
