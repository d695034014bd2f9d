//! Tests that error messages print no control characters of file names or arguments.
//!
//! Invariant: cases are rows of a table; each names a missing thing, so that the message quotes the name.
#![cfg(unix)]

use std::process::Command;

/// Clears the screen, sets the title, fills the clipboard, forges a line, reverses what follows.
const NAME: &str = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{1b}]52;c;eA==\u{7}\r\nok: nothing wrong\u{202e}\u{9b}1m";

#[test]
fn no_error_message_obeys_what_a_name_holds() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    std::fs::write(folder.path().join(NAME), "{ \"format\": \"\u{1b}[2J\" }").expect("written");
    let absent = format!("absent-{NAME}");
    for arguments in [
        &["report", NAME][..],
        &["report", &absent],
        &["compare", NAME, &absent],
        &["advise", "--from", &absent],
        &["advise", NAME],
        &["bench", &absent],
        &["bench", "--methods", NAME],
        &["bench", "--list", "--json", &format!("{absent}/a")],
        &["methods", &absent],
        &["probe", &absent],
        &["trace", "--", &absent],
        &["trace", "--price", &absent, "--", "true"],
        &["crash-test", &absent, "--run", "true", "--check", "true"],
        &["powercut", "check", ".", "--witness-command", &absent],
        &["powercut", "run", ".", "--witness", NAME],
        &["powercut", "run", ".", "--witness", "host", "--ledger", &absent],
        &["powercut", "run", &absent, "--witness-command", "false"],
        &["man", &absent],
        &[NAME],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_seawall"))
            .args(arguments)
            .args(if arguments[0] == "compare" { &["--color", "always"][..] } else { &[] })
            .env("CLICOLOR_FORCE", "1")
            .current_dir(folder.path())
            .output()
            .expect("started");
        assert!(arguments[0] == "probe" || !output.status.success(), "{arguments:?} names what is not there");
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        for forbidden in ["\u{1b}[2J", "\u{1b}]", "\u{7}", "\r", "\u{202e}", "\u{9b}", "\nok: nothing wrong"]
        {
            assert!(!said.contains(forbidden), "{forbidden:?} by {arguments:?} in {said:?}");
        }
    }
}
