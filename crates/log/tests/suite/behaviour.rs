//! Runs the cases that every language with an interface to the log runs, through this crate: see `tests/behaviour/cases.txt`.

#[path = "../../examples/behaviour/interpreter.rs"]
mod interpreter;

use std::process::Command;

use crate::fixture::{self, PLAIN, scratch};

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/behaviour/cases.txt");

/// A child is the second test of this file, which does nothing by itself.
#[expect(clippy::unnecessary_wraps, reason = "the example may not find itself")]
fn child(arguments: &[String]) -> Result<Command, String> {
    Ok(fixture::child(PLAIN, "behaviour::a_child_of_the_cases", &arguments.join("\n")))
}

fn run(cases: &str, root: &std::path::Path, mode: &str) -> usize {
    let arguments = [cases, &root.to_string_lossy(), mode].map(str::to_owned);
    interpreter::run(&arguments, &child).expect("runs")
}

#[test]
fn the_log_behaves_as_the_cases_say_also_when_they_are_checked_again() {
    let root = scratch();
    assert_eq!(run(CASES, root.path(), "write"), 0, "see what was printed");
    for _ in 0..2 {
        assert_eq!(run(CASES, root.path(), "check"), 0, "see what was printed");
    }
}

#[test]
fn a_child_of_the_cases() {
    if let Some(arguments) = fixture::orders() {
        let arguments: Vec<String> = arguments.lines().map(str::to_owned).collect();
        interpreter::run(&arguments, &child).expect("runs");
    }
}

/// An interpreter that finds nothing wrong would prove nothing: each wrong step fails its case, and only that.
#[test]
fn a_case_that_says_something_else_fails() {
    let root = scratch();
    let cases = root.path().join("cases");
    let wrong = [
        ("a", "open = new 0 1"),
        ("b", "open ! locked"),
        ("c", "close"),
        ("d", "open\nappend x = 6"),
        ("e", "open\nread 1 ! trimmed"),
        ("f", "no such step"),
        ("g", "child\nopen = clean 0 0\nkilled"),
        ("h", "child\nopen\nmeanwhile\nopen\nkilled"),
        ("i", "open\nthen\nverify = 1 0"),
    ];
    let text: Vec<String> = wrong.iter().map(|(name, steps)| format!("case {name}\n{steps}\n")).collect();
    std::fs::write(&cases, text.concat() + "case z\nopen = new 0 0\nclose\nthen\nopen = clean 0 0\nclose\n")
        .expect("writes");
    assert_eq!(run(&cases.to_string_lossy(), root.path(), "write"), wrong.len());
}
