//! Tests that every example of every `--help` does what it says, on names of a folder made for it.
//!
//! Invariants: the lines are those that the program prints; what is put in place of their names and what shortens
//! them are the tables below.

use crate::{SEAWALL, committed, err, printed};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Names in examples, and what is there in the test.
const NAMES: &[(&str, &str)] = &[
    ("/var/lib/db", "db"),
    ("/data", "db"),
    ("/mnt/ext4", "db"),
    ("/mnt/xfs", "stall"),
    ("/usr/local/share/man/man1", "pages"),
    ("127.0.0.1:9798", "127.0.0.1:0"),
    ("127.0.0.1:9799", "127.0.0.1:0"),
    ("1048576", "7"),
    ("./program", "true"),
    // A disk with less free space than the examples ask for runs them too.
    ("4GiB", "64MiB"),
    ("results/*/commit.json", "result.json"),
];

/// What is added after examples that begin so, to end them soon; the first row that fits counts.
const SHORTENED: &[(&str, &str)] = &[
    ("bench --list", ""),
    ("bench log /var/lib/db", "--log-size 64MiB --dry-run --allow-memory"),
    ("bench", "--dry-run --allow-memory"),
    ("advise result.json", ""),
    ("advise", "--time 1 --allow-memory"),
    ("log follow", "--limit 1"),
    ("watch", "--time 1 --every 1 --allow-memory"),
    ("powercut run", "--duration 1"),
];

/// A store that is away, or that this build has no client for.
const NO_STORE: i32 = if cfg!(feature = "s3") { 6 } else { 1 };

/// Exit codes of examples that do not end with 0 here; the first row that fits counts.
const CODES: &[(&str, i32)] = &[
    // No power was cut.
    ("powercut check", 1),
    // Its input here is none of a run.
    ("powercut witness", 1),
    ("bench replicated --kafka", if cfg!(feature = "kafka") { 0 } else { 2 }),
    // Nothing of theirs is in this folder.
    ("crash-test", 2),
    ("trace", if cfg!(target_os = "linux") { 0 } else { 1 }),
    // In this order nothing is in the archive yet, and there is no cluster.
    ("log drill", 1),
    ("log rebuild again", if cfg!(feature = "nats") { 6 } else { 1 }),
    ("log rebuild", 1),
    ("log standby", if cfg!(feature = "nats") { 6 } else { 1 }),
    ("log takeover", if cfg!(feature = "nats") { 6 } else { 1 }),
    ("log retain --at s3", NO_STORE),
    ("log retain", 1),
    ("log compact --at s3", NO_STORE),
    ("log compact", 1),
    ("log ship orders --to nats", if cfg!(feature = "nats") { 6 } else { 1 }),
    ("log ship --file", 1),
    ("bench replicated --nats", if cfg!(feature = "nats") { 0 } else { 2 }),
];

fn seawall(folder: &Path, arguments: &[String]) -> Output {
    let mut child = Command::new(SEAWALL)
        .args(arguments)
        .current_dir(folder)
        // No example reaches a store of somebody.
        .env("AWS_ENDPOINT", "http://127.0.0.1:1")
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_ACCESS_KEY_ID", "none")
        .env("AWS_SECRET_ACCESS_KEY", "none")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let is_raw = arguments.iter().any(|word| word == "raw");
    let input: &[u8] = if is_raw { b"\x03\0\0\0one" } else { b"one\ntwo\n" };
    // A command that reads nothing may have ended by now.
    let _ = child.stdin.take().expect("is piped").write_all(input);
    child.wait_with_output().expect("ends")
}

/// The words of a line as a shell sees them; what it is for stands behind two spaces.
fn words(line: &str) -> Vec<String> {
    let line = line.split("  ").next().expect("a line");
    let parts = line.split('\'').enumerate().map(|(number, part)| match number % 2 {
        1 => vec![part.to_owned()],
        _ => part.split_whitespace().map(str::to_owned).collect(),
    });
    parts.flatten().collect()
}

fn examples(folder: &Path) -> BTreeSet<String> {
    printed(&crate::seawall(folder, &["man", "--dir", "pages"]));
    let mut found = BTreeSet::new();
    for page in std::fs::read_dir(folder.join("pages")).expect("reads") {
        let name = page.expect("reads").file_name().into_string().expect("is text");
        let page = name.strip_suffix(".1").expect("a page");
        // One command has the sign that pages have between words.
        let command: Vec<&str> =
            if page == "seawall-crash-test" { vec!["crash-test"] } else { page.split('-').skip(1).collect() };
        let help = printed(&crate::seawall(folder, &[&command[..], &["--help"]].concat()));
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        // What a long line is for stands below it.
        let lines = lines.take_while(|line| line.starts_with("  ")).map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| line.starts_with("seawall ")).collect();
        assert!(!lines.is_empty(), "{name} has no examples");
        found.extend(lines.into_iter().map(str::to_owned));
    }
    found
}

fn row<T: Copy>(table: &[(&str, T)], line: &str) -> Option<T> {
    table.iter().find(|(begin, _)| line.starts_with(begin)).map(|(_, value)| *value)
}

#[test]
fn every_example_does_what_it_says() {
    let work = crate::folder();
    let folder = work.path();
    for name in ["db", "stall", "pages", "kept"] {
        std::fs::create_dir(folder.join(name)).expect("made");
    }
    for name in ["result", "old", "new", "mine", "a", "b", "main", "pr", "handed-in"] {
        std::fs::copy(committed("published"), folder.join(format!("{name}.json"))).expect("copied");
    }
    let mut wrong = Vec::new();
    let examples = examples(folder);
    assert!(examples.len() > 50, "{}", examples.len());
    for example in &examples {
        let line = example.strip_prefix("seawall ").expect("an example");
        let mut words = words(line);
        for word in &mut words {
            if let Some((_, here)) = NAMES.iter().find(|(name, _)| name == word) {
                *word = (*here).to_owned();
            } else if word == "--witness" {
                // No ssh: the examples of the witness itself say what it would start there.
                *word = "--witness-command".to_owned();
            } else if word == "HOST" {
                *word = format!("{SEAWALL} powercut witness --ledger powercut-ledger");
            }
        }
        let outside: Vec<_> =
            words.iter().filter(|word| word.starts_with('/') && !word.starts_with(SEAWALL)).collect();
        assert!(outside.is_empty(), "`{example}` would go outside of the test's folder: {outside:?}");
        let more = row(SHORTENED, line).unwrap_or_default();
        words.extend(more.split_whitespace().map(str::to_owned));
        let ended = seawall(folder, &words);
        let expected = row(CODES, line).unwrap_or(0);
        if ended.status.code() != Some(expected) {
            wrong.push(format!(
                "`{example}` as {words:?}: {:?} instead of {expected}: {}",
                ended.status.code(),
                err(&ended)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
