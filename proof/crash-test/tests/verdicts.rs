//! Tests what a whole crash test says: of checks that say nothing, of programs that lose, and of what it keeps.
#![cfg(target_os = "linux")]

use seawall_crash_test::check::Answer;
use seawall_crash_test::kept::{again, keep};
use seawall_crash_test::progress::Progress;
use seawall_crash_test::recorder::Program;
use seawall_crash_test::report::{cases, text};
use seawall_crash_test::rule::Rule;
use seawall_crash_test::run::{Options, Verdict, run};
use seawall_crash_test::search::Search;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A directory to record, beside a place for scripts.
struct Ground {
    _root: tempfile::TempDir,
    directory: PathBuf,
    scripts: PathBuf,
}

/// Saves four keys, by a rename each; `FSYNC` and `DIRSYNC` are the two syncs.
const PROGRAM: &str = r#"
import os, sys
os.chdir(sys.argv[1])
def sync(name):
    f = os.open(name, os.O_RDONLY)
    try: os.fsync(f)
    except OSError: HANDLER
    os.close(f)
for i in range(4):
    with open("tmp", "w") as f: f.write(f"value{i}")
    FSYNC
    os.rename("tmp", f"key{i}")
    DIRSYNC
    print(i, flush=True)
"#;
/// What the keys are promised to be.
const CHECK: &str = r#"while read k; do test "$(cat "$1/key$k" 2>&1)" = "value$k" || { echo "key$k is gone"; exit 1; }; done < "$2""#;

impl Ground {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let (directory, scripts) = (root.path().join("data"), root.path().join("scripts"));
        fs::create_dir(&directory).and_then(|()| fs::create_dir(&scripts)).expect("made");
        Self { _root: root, directory, scripts }
    }

    /// A test of the program with these syncs, by the check of these lines.
    fn options(&self, syncs: [&str; 2], handler: &str, check: &str) -> Options {
        let program = self.scripts.join("program.py");
        let words =
            PROGRAM.replace("DIRSYNC", syncs[1]).replace("FSYNC", syncs[0]).replace("HANDLER", handler);
        fs::write(&program, words).expect("written");
        let (script, all) = (self.scripts.join("check.sh"), self.scripts.display());
        fs::write(&script, check.replace("SCRIPTS", &all.to_string())).expect("written");
        let command = format!("python3 {} {}", program.display(), self.directory.display());
        let rules = Rule::ALL.to_vec();
        Options {
            program: Program::new(&self.directory, &command),
            check: format!("sh {}", script.display()),
            search: Search { rules, budget: Duration::from_mins(1), workers: 1, seed: 1, first_cut: 0 },
            mutate: false,
            errors: false,
        }
    }
}

const BOTH: [&str; 2] = ["sync('tmp')", "sync('.')"];
const NO_DIRECTORY: [&str; 2] = ["sync('tmp')", "pass"];

fn judged(options: &Options) -> Result<Verdict, String> {
    run(options, &Progress::default()).map_err(|error| error.to_string())
}

#[test]
fn a_check_that_says_nothing_is_refused_by_name() {
    // Fails every second time that something is lost.
    let unsteady = format!(
        "{}\n",
        CHECK.replace("exit 1", "echo >> SCRIPTS/count; exit $(($(wc -l < SCRIPTS/count) % 2))")
    );
    for (check, syncs, named) in [
        ("exit 0", BOTH, "the check is blind"),
        ("echo wrong; exit 1", BOTH, "the check fails on the finished run"),
        (&unsteady, NO_DIRECTORY, "the check is unsteady"),
    ] {
        let ground = Ground::new();
        let error = judged(&ground.options(syncs, "raise", check)).expect_err("it cannot be believed");
        assert!(error.contains(named), "{check}: {error}");
    }
}

#[test]
fn a_program_that_says_nothing_is_refused_by_name() {
    let ground = Ground::new();
    for (command, named) in [("true", "acknowledged nothing"), ("./no-such-program", "was not found")] {
        let mut options = ground.options(BOTH, "raise", CHECK);
        command.clone_into(&mut options.program.command);
        let error = judged(&options).expect_err("nothing to judge");
        assert!(error.contains(named), "{command}: {error}");
    }
    let mut options = ground.options(BOTH, "raise", CHECK);
    options.search.budget = Duration::ZERO;
    let error = judged(&options).expect_err("no time");
    assert!(error.contains("no state was judged"), "{error}");
}

#[test]
fn a_check_is_not_blind_where_the_last_lines_say_that_everything_is_gone() {
    let ground = Ground::new();
    // There is an item from `put` until `taking`.
    let check =
        r#"n=$(wc -l < "$2"); test $((n % 3)) != 1 || test -e "$1/item" || { echo "$n is gone"; exit 1; }"#;
    let mut options = ground.options(BOTH, "raise", check);
    let cut = r#"import os
d = os.open(".", os.O_RDONLY)
for i in range(2):
    open("item", "w").close(); os.fsync(d); print("put", flush=True)
    print("taking", flush=True); os.unlink("item"); os.fsync(d); print("taken", flush=True)
"#;
    let program = ground.scripts.join("queue.py");
    fs::write(&program, cut).expect("written");
    options.program.command = format!("cd {} && python3 {}", ground.directory.display(), program.display());
    let verdict = judged(&options).expect("it is judged");
    assert!(!verdict.is_broken(false), "{:?}", verdict.outcome.findings);
}

#[test]
fn a_check_that_hangs_ends_with_the_budget_and_says_nothing_of_its_state() {
    let ground = Ground::new();
    // An empty directory fails at once.
    let hanging = CHECK.replace("exit 1;", "test -z \"$(ls $1)\" || sleep 50; exit 1;");
    let mut options = ground.options(["sync('tmp')", "i < 3 and sync('.')"], "raise", &hanging);
    options.search.budget = Duration::from_secs(3);
    let verdict = judged(&options).expect("it is judged as far as it comes");
    assert!(verdict.outcome.findings.is_empty() && !verdict.outcome.whole, "{:?}", verdict.outcome);
    let notices = &verdict.record.notices;
    assert!(notices.iter().any(|notice| notice.contains("its state is not judged")), "{notices:?}");
}

#[test]
fn what_only_posix_allows_is_told_and_does_not_keep_syncs_from_being_left_out() {
    let ground = Ground::new();
    let portable =
        Options { mutate: true, ..ground.options(["sync('tmp')", "sync(f'key{i}')"], "raise", CHECK) };
    let verdict = judged(&portable).expect("it is judged");
    assert!(!verdict.is_broken(false) && verdict.is_broken(true), "{:?}", verdict.outcome.findings);
    assert!(
        verdict.without.iter().any(|(role, noticed, _)| role == "fsync of key#" && *noticed),
        "{:?}",
        verdict.without
    );
    let all = cases(&verdict, false);
    assert!(all.iter().all(|(_, lost)| lost.is_none()), "{all:?}");
    assert!(all[0].0.starts_with("not portable, only by posix: key"), "{all:?}");
    let broken = Options { mutate: true, ..ground.options(NO_DIRECTORY, "raise", CHECK) };
    let verdict = judged(&broken).expect("it is judged");
    assert!(
        verdict.record.notices.iter().any(|notice| notice.contains("--mutate was not run")),
        "{:?}",
        verdict.record.notices
    );
}

#[test]
fn what_was_lost_is_kept_and_judged_again() {
    let ground = Ground::new();
    let options = ground.options(NO_DIRECTORY, "raise", CHECK);
    let verdict = judged(&options).expect("it is judged");
    assert!(
        verdict.is_broken(false) && verdict.outcome.findings.len() == 1,
        "{:?}",
        verdict.outcome.findings
    );
    let root = ground.scripts.join("kept here");
    let mut folders = Vec::new();
    for number in ["1", "2"] {
        let finding = &verdict.outcome.findings[0];
        let folder = keep(&root, &verdict.record, finding, &ground.directory, &options.check).expect("kept");
        assert_eq!(folder, root.join(number), "what was there stays");
        folders.push(folder);
    }
    let [folder, ..] = &folders[..] else { panic!("two folders") };
    assert_eq!(fs::read_to_string(folder.join("acks")).expect("is there"), "0\n");
    assert!(!folder.join("state/key0").exists(), "the name was lost");
    assert!(fs::read_to_string(folder.join("calls")).expect("is there").contains("<- lost"));
    assert_eq!(again(folder, None).expect("runs"), Answer::Broken("key0 is gone".to_owned()));
    assert_eq!(again(folder, Some("true")).expect("runs"), Answer::Kept);
    assert!(again(&root, None).is_err(), "not a kept state");
    let shown = text(&verdict, &options.search, false, &folders);
    for words in ["BROKEN", "key0 is gone", "fsync of the directory after rename to key#"] {
        assert!(shown.contains(words), "{shown}");
    }
    let again = format!("again         seawall crash-test --again '{}'", folder.display());
    assert!(shown.lines().any(|line| line == again), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80 || line.contains("kept")), "{shown}");
    let [(name, Some((sentence, story)))] = &cases(&verdict, false)[..] else { panic!("one case") };
    assert_eq!((name.as_str(), sentence.as_str()), ("power cut 1", "key0 is gone"));
    assert!(story.contains("rename") && story.contains("missing: fsync of the directory"), "{story}");
}

#[test]
fn syncs_that_are_left_out_are_noticed_and_errors_that_are_hidden_are_found() {
    let ground = Ground::new();
    let right = Options { mutate: true, errors: true, ..ground.options(BOTH, "raise", CHECK) };
    let verdict = judged(&right).expect("it is judged");
    assert!(!verdict.is_broken(true) && verdict.outcome.whole, "{:?} {:?}", verdict.outcome, verdict.errors);
    let noticed: Vec<(&str, bool)> =
        verdict.without.iter().map(|(role, noticed, _)| (&role[..], *noticed)).collect();
    assert_eq!(noticed, [("fsync of the directory", true), ("fsync of tmp", true)]);
    assert!(verdict.errors.len() > 8, "{:?}", verdict.errors);
    let (name, lost) = cases(&verdict, true).pop().expect("a case");
    assert!(lost.is_none(), "{name}");
    // A failed sync is passed over, and its key acknowledged.
    let hidden = Options { errors: true, ..ground.options(BOTH, "pass", CHECK) };
    let verdict = judged(&hidden).expect("it is judged");
    assert!(verdict.outcome.findings.is_empty() && verdict.is_broken(false), "{:?}", verdict.errors);
    let broken: Vec<&str> =
        verdict.errors.iter().filter(|(_, lost)| lost.is_some()).map(|(what, _)| &what[..]).collect();
    assert!(!broken.is_empty() && broken.iter().all(|what| what.starts_with("sync: ")), "{broken:?}");
}
