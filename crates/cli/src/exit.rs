//! Defines the exit codes of `seawall`, documented in `--help` and in the manual pages.

use anstyle::{AnsiColor, Style};
use seawall_gauge::require::{Checked, ConditionOutcome};
use seawall_host::text::printable;
use std::fmt;
use std::process::ExitCode;

const MEANINGS: [(u8, &str); 12] = [
    (0, "done"),
    (1, "failed: the message says why"),
    (2, "the command line is wrong"),
    (MISSED, "a requirement (--require, --fail-if) was missed"),
    (BROKEN, "a promise was broken: acknowledged data is lost"),
    (NOT_JUDGED, "no requirement was missed, but one cannot be judged: commits waited for a CPU"),
    (AWAY, "a destination is unreachable or refuses for now: retrying may help"),
    (FENCED, "fenced: another writer owns the destination; do not restart this one"),
    (FORKED, "log and destination do not match: wrong destination, or diverged history"),
    (DAMAGED, "acknowledged data is missing or damaged"),
    (CANNOT_TELL, "cannot tell: there is no figure, or the figures are not a disk's"),
    (INTERRUPTED, "interrupted"),
];

/// The text at the end of `--help` of a command that ends with 0, 1, 2 and these `more`.
pub(crate) fn codes(more: &[u8]) -> String {
    let rows = MEANINGS.iter().filter(|(code, _)| *code < MISSED || more.contains(code));
    let lines: Vec<String> = rows.map(|(code, meaning)| format!("  {code:<3}  {meaning}")).collect();
    format!("{HEADING}\n{}", lines.join("\n"))
}

pub(crate) const HEADING: &str = "Exit codes:";

const RED: Style = AnsiColor::Red.on_default().bold();

pub(crate) const MISSED: u8 = 3;
pub(crate) const NOT_JUDGED: u8 = 5;
pub(crate) const CANNOT_TELL: u8 = 10;
pub(crate) const BROKEN: u8 = 4;
pub(crate) const AWAY: u8 = 6;
pub(crate) const FENCED: u8 = 7;
pub(crate) const FORKED: u8 = 8;
pub(crate) const DAMAGED: u8 = 9;
pub(crate) const INTERRUPTED: u8 = 130;

/// The code of the worst outcome of these conditions; `None` if all are met.
pub(crate) fn of_conditions(checked: &[Checked]) -> Option<u8> {
    let codes = [
        (ConditionOutcome::Missed, MISSED),
        (ConditionOutcome::CannotTell, CANNOT_TELL),
        (ConditionOutcome::NotJudged, NOT_JUDGED),
    ];
    let is = |outcome| checked.iter().any(|one| one.outcome == outcome);
    codes.into_iter().find(|(outcome, _)| is(*outcome)).map(|(_, code)| code)
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Message(String),
    /// The command line is wrong in a way that the parser cannot see.
    #[error("{0}")]
    Usage(String),
    /// It could not be done, for a reason that has an exit code of its own.
    #[error("{1}")]
    Coded(u8, String),
    #[error("interrupted before anything was measured; nothing was kept, and its files were removed")]
    Interrupted,
}

impl Failure {
    pub(crate) fn message(error: impl fmt::Display) -> Self {
        Self::Message(error.to_string())
    }

    pub(crate) fn usage(error: impl fmt::Display) -> Self {
        Self::Usage(error.to_string())
    }

    /// Prints it to standard error. It may quote a file name or a peer; on one line and without control characters it
    /// forges nothing.
    pub(crate) fn print(&self) {
        let message = self.to_string();
        tell!("{}error:{} {}", RED.render(), RED.render_reset(), printable(&message));
    }

    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Message(_) => ExitCode::FAILURE,
            Self::Usage(_) => ExitCode::from(2),
            Self::Coded(code, _) => ExitCode::from(*code),
            Self::Interrupted => ExitCode::from(INTERRUPTED),
        }
    }
}
