//! Tests that `crash-test` finds the mistake of each program whose verdict is known, names the missing call, and raises no
//! false alarm.
//!
//! Invariant: each program is tested by the built command, within a time, and as an ordinary user where this one is root.

mod page;

use crate::program::SEAWALL;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds in which a verdict has to be there; most take one.
const LIMIT: &str = "60";

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proof/crash-test/programs")
}

fn run(folder: &Path, words: &[&str]) {
    let ran = Command::new(words[0]).args(&words[1..]).current_dir(folder).status();
    assert!(ran.is_ok_and(|status| status.success()), "{words:?}: install what it needs");
}

/// The sources of all languages, compiled in `folder`.
fn built(folder: &Path) {
    for entry in std::fs::read_dir(programs())
        .expect("the programs are there")
        .flatten()
        .filter(|entry| entry.path().is_file())
    {
        std::fs::copy(entry.path(), folder.join(entry.file_name())).expect("a source is copied");
    }
    run(folder, &["cc", "-o", "check", "check.c"]);
    run(folder, &["cc", "-o", "program-c", "program.c"]);
    run(folder, &["javac", "Program.java"]);
    let cache = folder.join("cache");
    let go = if Path::new("/usr/local/go/bin/go").exists() { "/usr/local/go/bin/go" } else { "go" };
    let mut build = Command::new(go);
    build.args(["build", "-o", "program-go", "program.go"]).env("GOCACHE", cache).current_dir(folder);
    assert!(build.status().is_ok_and(|status| status.success()), "Go builds program.go");
    // As udev makes it, which containers lack.
    std::fs::set_permissions("/dev/fuse", std::fs::Permissions::from_mode(0o666)).expect("given to everyone");
    // Everyone may read it, and the user of the tests may write to it.
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).expect("a folder of ours");
}

/// Tests one row; what is wrong, if anything.
fn wrong(folder: &Path, row: &str) -> Option<String> {
    let words: Vec<&str> = row.split_whitespace().collect();
    let [language, family, mode, verdict, missing @ ..] = &words[..] else {
        return Some(format!("{row}: not a row"));
    };
    let program = match *language {
        "java" => "java -XX:TieredStopAtLevel=1 -Xshare:auto Program".to_owned(),
        "python" => "python3 program.py".to_owned(),
        other => format!("./program-{other}"),
    };
    let data = folder.join(format!("data-{language}-{mode}"));
    std::fs::create_dir(&data).expect("a folder");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o777)).expect("a folder of ours");
    let name = data.file_name()?.to_str()?;
    let mut test = Command::new("timeout");
    test.args([
        "-k",
        "5",
        LIMIT,
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        SEAWALL,
    ]);
    test.args([
        "crash-test",
        name,
        "--run",
        &format!("{program} {name} {mode}"),
        "--check",
        &format!("./check {family}"),
    ]);
    test.args(["--budget", "40s", "--keep", &format!("kept-{language}-{mode}")]).current_dir(folder);
    let output = test.output().expect("timeout runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let flowed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    let (code, word) = match *verdict {
        "kept" => (0, "kept no state broke"),
        "posix" => (0, "not portable"),
        _ => (1, "BROKEN"),
    };
    let named = missing.is_empty() || flowed.contains(&format!("missing {}", missing.join(" ")));
    let right = output.status.code() == Some(code) && flowed.contains(word) && named;
    let once = flowed.matches("missing").count() <= 1;
    (!right || !once)
        .then(|| format!("{row}: {}\n{printed}{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

#[test]
#[ignore = "needs root, FUSE and four languages"]
fn every_program_gets_its_verdict_and_the_missing_call_its_name() {
    // FUSE is for everyone where crash-test is for everyone.
    std::fs::set_permissions("/dev/fuse", std::fs::Permissions::from_mode(0o666))
        .expect("/dev/fuse is there");
    let folder = tempfile::tempdir().expect("a folder");
    built(folder.path());
    let table = std::fs::read_to_string(programs().join("table.txt")).expect("the table is there");
    let rows: Vec<&str> = table.lines().filter(|row| !row.starts_with('#')).collect();
    assert_eq!(rows.len(), 20);
    let found: Vec<String> = rows.iter().filter_map(|row| wrong(folder.path(), row)).collect();
    assert!(found.is_empty(), "{} of {} are wrong:\n{}", found.len(), rows.len(), found.join("\n"));
}
