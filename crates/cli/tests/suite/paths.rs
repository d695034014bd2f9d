//! Tests what commands do with paths that are not what they take them for, and with what killed runs left behind.
//!
//! Invariant: cases are rows of [`crate::path_table`].

use crate::path_table::{HOSTILE, Runner, try_all};
use crate::{SEAWALL, coded, err, folder, names, out};
use std::path::Path;
use std::process::Command;

#[test]
fn a_path_that_cannot_be_used_is_named_and_nothing_waits_or_changes() {
    let runner = Runner { program: Path::new(SEAWALL), user: None };
    try_all(&runner, |_| true, &folder);
}

#[test]
fn what_a_killed_run_left_is_removed_by_every_command_that_makes_such_files_and_said() {
    for line in [
        "probe",
        "watch --time 1 --every 1 --method buffered --allow-memory",
        "log bench --only W1 --rounds 1 --percent 1 --no-out --allow-memory",
        "bench --no-out --time 1 --methods buffered --journal 1M --allow-memory",
    ] {
        let place = folder();
        let left = place.path().join("seawall-0123456789abcdef.tmp");
        std::fs::create_dir(&left).expect("made");
        std::fs::write(left.join("lock"), "").expect("written");
        std::fs::write(left.join("journal"), "left").expect("written");
        let ended = Command::new(SEAWALL).args(line.split(' ')).arg(place.path()).output().expect("started");
        let (_, said) = coded(0, &ended);
        assert!(said.contains("removed ") && said.contains("seawall-0123456789abcdef.tmp"), "{line}: {said}");
        assert_eq!(names(place.path()), [""; 0], "{line}");
    }
}

/// Those that name a missing thing have it quoted, in colours too.
#[test]
fn what_is_not_known_is_refused_and_no_message_obeys_what_it_quotes() {
    let work = folder();
    for line in [
        "log append log --readable-by @",
        "log append log --method @",
        "log append log --engine @",
        "log append log --format @",
        "log append log --segment-bytes @",
        "log cat log --from @",
        "bench --label @",
        "bench --require @",
        "bench --methods @",
        "bench --size @",
        "bench --time @",
        "bench --color @",
        "compare a b --fail-if @",
        "advise --only @",
        "probe --budget @",
        "watch . --every @",
        "watch . --method @",
        "watch . --listen @",
        "probe --format @",
        "powercut run . --witness @",
        "powercut run . --witness host --ledger @",
        "powercut run . --witness-command @",
        "powercut check . --witness-command @",
        "compare @ @ --color always",
        "bench --list --json @/a",
        "methods @",
        "trace -- @",
        "trace --price @ -- true",
        "crash-test @ --run true --check true",
        "man @",
        "@",
    ] {
        let words = line.split(' ').map(|word| word.replace('@', HOSTILE));
        let mut command = Command::new(SEAWALL);
        command.args(words).env("CLICOLOR_FORCE", "1").current_dir(work.path());
        let ended = command.output().expect("started");
        let said = err(&ended) + &out(&ended);
        assert!(matches!(ended.status.code(), Some(1 | 2)), "{line}: {said}");
        for acts in ["\u{1b}[2J", "\u{1b}]", "\u{7}", "\r", "\u{202e}", "\u{9b}", "\nok: "] {
            assert!(!said.contains(acts), "{line}: {acts:?} in {said:?}");
        }
        assert_eq!(names(work.path()), [""; 0], "{line}");
    }
}
