//! Test fixture: every path argument of every command, and what may be found at a path.
//!
//! Invariants: a command that is given what it cannot use names it, ends by itself with a code that is not 0, prints no
//! control character, and changes nothing; what it may not use is a row of [`KINDS`], where it may be given a row of
//! [`ARGUMENTS`].

use seawall_host::text::printable;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Input,
    Output,
    /// A folder that is used, or made if there is none.
    Folder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathKind {
    /// A pipe whose other end is never opened.
    Pipe,
    /// A device that is no place for it.
    Device,
    Socket,
    /// A link to nothing.
    DanglingLink,
    /// A folder instead of a file or the other way round, under a name that moves a terminal's cursor.
    WrongType,
    /// Something of the right type that its user may not open.
    Unreadable,
    /// No name at all.
    Empty,
}

const KINDS: [PathKind; 7] = [
    PathKind::Pipe,
    PathKind::Device,
    PathKind::Socket,
    PathKind::DanglingLink,
    PathKind::WrongType,
    PathKind::Unreadable,
    PathKind::Empty,
];

/// Where the path stands in [`ARGUMENTS`].
const PLACE: &str = "@";

/// A log and results are in the working folder under these names.
const SMALL: &str =
    "--no-out --no-progress --allow-memory --journal 1MiB --transactions 8 --rounds 1 --methods buffered";
const WITNESS: &str = "--witness-command false";

#[rustfmt::skip]
const ARGUMENTS: &[(Role, &str)] = &[
    (Role::Input,  "report @"),
    (Role::Input,  "compare @ stall.json"),
    (Role::Input,  "compare stall.json @"),
    (Role::Input,  "advise @"),
    (Role::Output, "bench commit . SMALL --json @"),
    (Role::Output, "bench . SMALL --json @"),
    (Role::Output, "bench . SMALL --csv @"),
    (Role::Output, "bench . SMALL --markdown @"),
    (Role::Output, "bench . SMALL --html @"),
    (Role::Output, "compare stall.json stall.json --json @"),
    (Role::Output, "compare stall.json stall.json --csv @"),
    (Role::Output, "compare stall.json stall.json --markdown @"),
    (Role::Output, "report stall.json -o @"),
    (Role::Output, "powercut check . WITNESS --json @"),
    (Role::Output, "watch . --time 1 --every 1 --allow-memory --openmetrics @"),
    (Role::Output, "probe . --openmetrics @"),
    (Role::Folder, "watch @ --time 1 --every 1 --allow-memory"),
    (Role::Folder, "bench @ SMALL"),
    (Role::Folder, "bench stall @ --no-out"),
    (Role::Folder, "bench cached . @ --no-out"),
    (Role::Folder, "bench all @ --no-out"),
    (Role::Folder, "bench path . --no-out --jvm --jdk @"),
    (Role::Folder, "bench . --journal 1MiB --transactions 8 --rounds 1 --methods buffered --allow-memory --out @"),
    (Role::Folder, "bench @ SMALL --dry-run"),
    (Role::Folder, "advise --dir @"),
    (Role::Folder, "methods @"),
    (Role::Folder, "probe @"),
    (Role::Folder, "probe @ --json"),
    (Role::Folder, "man --dir @"),
    (Role::Folder, "powercut run @ WITNESS"),
    (Role::Folder, "powercut check @ WITNESS"),
    (Role::Folder, "powercut witness --ledger @"),
    (Role::Folder, "log append @"),
    (Role::Folder, "log append @ --readable-by group --network-file-system"),
    (Role::Folder, "log cat @"),
    (Role::Folder, "log follow @"),
    (Role::Folder, "log stat @"),
    (Role::Folder, "log verify @"),
    (Role::Folder, "log trim @ 0"),
    (Role::Folder, "log salvage @ saved"),
    (Role::Folder, "log salvage log @"),
    (Role::Folder, "log backup @ saved"),
    (Role::Folder, "log backup log @"),
    (Role::Folder, "bench log @ --workloads W1 --rounds 1 --time 1 --no-out --allow-memory"),
];

/// Clears the screen, sets the title, fills the clipboard, forges a line, reverses what follows.
pub(crate) const HOSTILE: &str =
    "x\u{1b}[2J\u{1b}]0;t\u{7}\u{1b}]52;c;eA==\u{7}\r\nok: nothing wrong\u{202e}\u{9b}1m";

/// Longer than any of these commands needs on a slow machine.
const DEADLINE_NS: u64 = 120_000_000_000;

pub(crate) struct Runner<'a> {
    pub(crate) program: &'a Path,
    /// Another user than the one of the test, which must be root then.
    pub(crate) user: Option<u32>,
}

pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
}

impl Runner<'_> {
    pub(crate) fn run(&self, folder: &Path, arguments: &[String]) -> Ended {
        let mut command = Command::new(self.program);
        command.args(arguments).current_dir(folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().expect("started");
        let (mut stdout, mut stderr) =
            (child.stdout.take().expect("is piped"), child.stderr.take().expect("is piped"));
        let (out, err) = std::thread::scope(|scope| {
            let out = scope.spawn(move || read(&mut stdout));
            let err = scope.spawn(move || read(&mut stderr));
            let until = seawall_sys::clock::monotonic_ns() + DEADLINE_NS;
            while child.try_wait().expect("is ours").is_none() {
                if seawall_sys::clock::monotonic_ns() > until {
                    child.kill().expect("is ours");
                    child.wait().expect("is ours");
                    panic!("{arguments:?} did not end by itself");
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            (out.join().expect("no panic"), err.join().expect("no panic"))
        });
        let code = child.wait().expect("is ours").code();
        Ended { code, said: err + &out }
    }
}

fn read(from: &mut impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).expect("reads");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn furnished(folder: &Path, runner: &Runner<'_>) {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/2026-11-22-firecracker-ext4");
    fs::copy(results.join("stall.json"), folder.join("stall.json")).expect("copied");
    let made = runner.run(folder, &["log".into(), "append".into(), "log".into()]);
    assert_eq!(made.code, Some(0), "{}", made.said);
}

/// Puts something of this kind below `folder`; returns its path.
fn put(folder: &Path, role: Role, kind: PathKind) -> PathBuf {
    let path = folder.join("thing");
    let wants_folder = role == Role::Folder;
    match kind {
        PathKind::Pipe => {
            assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        }
        PathKind::Device => return if role == Role::Input { "/dev/zero" } else { "/dev/full" }.into(),
        PathKind::Socket => drop(UnixListener::bind(&path).expect("bound")),
        PathKind::DanglingLink => symlink("nothing", &path).expect("linked"),
        PathKind::WrongType => {
            let path = folder.join(HOSTILE);
            let made = if wants_folder { fs::write(&path, "precious") } else { fs::create_dir(&path) };
            made.expect("made");
            return path;
        }
        PathKind::Unreadable => {
            let made = if wants_folder { fs::create_dir(&path) } else { fs::write(&path, "precious") };
            made.expect("made");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("a mode");
        }
        PathKind::Empty => return PathBuf::new(),
    }
    path
}

/// Every name below `folder` with its type, mode and content.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (String, u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).into_iter().flatten().flatten() {
            let metadata = entry.path().symlink_metadata().expect("metadata");
            let file_type = metadata.file_type();
            let content =
                if file_type.is_file() { fs::read(entry.path()).unwrap_or_default() } else { Vec::new() };
            if file_type.is_dir() {
                folders.push(entry.path());
            }
            assert!(!file_type.is_block_device());
            found.insert(entry.path(), (format!("{file_type:?}"), metadata.permissions().mode(), content));
        }
    }
    found
}

/// Whether this user may open it all the same, as root may.
fn may_open(path: &Path) -> bool {
    File::open(path).is_ok_and(|mut file| path.is_dir() || file.read(&mut [0]).is_ok())
}

/// Tries the kinds that are `wanted` at every argument; `place` makes a fresh working folder.
pub(crate) fn try_all(
    runner: &Runner<'_>,
    wanted: impl Fn(PathKind) -> bool,
    place: &dyn Fn() -> tempfile::TempDir,
) {
    let work = place();
    furnished(work.path(), runner);
    let mut wrong = Vec::new();
    for kind in KINDS.iter().filter(|kind| wanted(**kind)) {
        for (role, line) in ARGUMENTS {
            let elsewhere = place();
            let path = put(elsewhere.path(), *role, *kind);
            if *kind == PathKind::Unreadable && runner.user.is_none() && may_open(&path) {
                eprintln!("skipped: this user may open everything, whatever its mode");
                break;
            }
            let line = line.replace("SMALL", SMALL).replace("WITNESS", WITNESS);
            let words = line.split(' ').map(|word| {
                if word == PLACE { path.to_str().expect("is text").to_owned() } else { word.to_owned() }
            });
            let words: Vec<String> = words.collect();
            let before = (tree(work.path()), tree(elsewhere.path()));
            let ended = runner.run(work.path(), &words);
            let after = (tree(work.path()), tree(elsewhere.path()));
            let codes = codes(runner, work.path(), &words);
            if ended.code.is_some_and(|code| !codes.contains(&code)) {
                wrong.push(format!("{kind:?} {role:?} `{line}`: {:?} is not in its help", ended.code));
            }
            if let Some(what) = judged(&words, *kind, &path, &ended) {
                wrong.push(format!("{kind:?} {role:?} `{line}`: {what}: {:?} {}", ended.code, ended.said));
            }
            if before != after {
                let names: Vec<_> = after.0.keys().chain(after.1.keys()).collect();
                wrong.push(format!("{kind:?} {role:?} `{line}`: changed something: {names:?}"));
            }
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o700));
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// The exit codes that the help of a command lists.
fn codes(runner: &Runner<'_>, folder: &Path, words: &[String]) -> Vec<i32> {
    let subcommands = ["log", "powercut"].contains(&words[0].as_str());
    let is_scenario =
        words[0] == "bench" && words[1].chars().all(|c| c.is_ascii_lowercase()) && !words[1].is_empty();
    let count = if subcommands || is_scenario { 2 } else { 1 };
    let help: Vec<String> = words[..count].iter().cloned().chain(["--help".to_owned()]).collect();
    let said = runner.run(folder, &help).said;
    let lines = said.lines().skip_while(|line| *line != "Exit codes:").skip(1);
    lines.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

/// What is wrong with how a command ended.
fn judged(words: &[String], kind: PathKind, path: &Path, ended: &Ended) -> Option<&'static str> {
    let said = &ended.said;
    // A probe answers whatever happens.
    let is_probe =
        words[0] == "probe" && kind != PathKind::Empty && !words.iter().any(|word| word == "--openmetrics");
    match ended.code {
        None => return Some("ended by a signal"),
        Some(0) if !is_probe => return Some("ended well"),
        Some(code) if is_probe && code != 0 => return Some("did not answer"),
        Some(_) => {}
    }
    let shown = path.to_str().expect("is text");
    // An argument without a name is named by its place.
    let is_named = match kind {
        PathKind::Empty => said.contains("value is required"),
        // That it is full is found when it is written.
        PathKind::Device if words.iter().any(|word| word == "check") && said.contains("witness") => true,
        PathKind::WrongType if said.starts_with('{') => said.contains("x\\u001b[2J"),
        _ => said.contains(&*printable(shown)) || said.contains(shown.trim_start_matches("/dev/")),
    };
    if said.contains("panicked") {
        return Some("panicked");
    }
    if said.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}') {
        return Some("prints what moves a cursor");
    }
    if said.contains("\nok: nothing wrong") {
        return Some("prints a forged line");
    }
    (!is_named).then_some("does not name it")
}
