//! Represents the outcome of a step, and passes it from the step's process to its parent.
//!
//! Invariant: an outcome that is written is read back unchanged.

use crate::tally::Counts;
use serde_json::{Value, json};
use std::path::Path;

/// What became of a step.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// One check that held.
    Held,
    /// One check that held, but for what it could not look at, which is no failure even in CI.
    HeldBut(String),
    /// One check that did not, and why.
    Broken(String),
    /// Tests were run.
    Tests(Tests),
    /// The same, of tests that an earlier step had counted as ignored.
    Owed(Tests),
    /// Could not be run here, and why.
    Skipped(String),
}

/// Tests that were run.
#[derive(Debug, PartialEq)]
pub(crate) struct Tests {
    pub(crate) counts: Counts,
    /// Why the runner was not content.
    pub(crate) result: Result<(), String>,
    /// The slowest first: name and seconds. Empty where the runner is not ours.
    pub(crate) slowest: Vec<(String, f64)>,
    /// What tests said that they could not do here.
    pub(crate) skipped: Vec<String>,
}

impl From<(Counts, Result<(), String>)> for Tests {
    fn from((counts, result): (Counts, Result<(), String>)) -> Self {
        Self { counts, result, slowest: Vec::new(), skipped: Vec::new() }
    }
}

impl Tests {
    /// Both together; of the slowest the first `kept`.
    pub(crate) fn plus(mut self, other: Self, kept: usize) -> Self {
        self.counts = self.counts.plus(other.counts);
        self.result = self.result.and(other.result);
        self.slowest.extend(other.slowest);
        self.slowest.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        self.slowest.truncate(kept);
        self.skipped.extend(other.skipped);
        self
    }

    fn to_json(&self, kind: &str) -> Value {
        let Counts { passed, failed, ignored } = self.counts;
        json!({
            "kind": kind, "passed": passed, "failed": failed, "ignored": ignored,
            "reason": self.result.as_ref().err(), "slowest": self.slowest, "skipped": self.skipped,
        })
    }

    fn from_json(json: &Value) -> Option<Self> {
        let count = |name: &str| json[name].as_u64();
        let pair = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_f64()?));
        let text = |text: &Value| text.as_str().map(str::to_owned);
        Some(Self {
            counts: Counts { passed: count("passed")?, failed: count("failed")?, ignored: count("ignored")? },
            result: text(&json["reason"]).map_or(Ok(()), Err),
            slowest: json["slowest"].as_array()?.iter().map(pair).collect::<Option<_>>()?,
            skipped: json["skipped"].as_array()?.iter().map(text).collect::<Option<_>>()?,
        })
    }
}

impl Outcome {
    /// Writes it for the process that started this one.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        let json = match self {
            Self::Held => json!({ "kind": "held" }),
            Self::HeldBut(reason) => json!({ "kind": "held but", "reason": reason }),
            Self::Broken(reason) => json!({ "kind": "broken", "reason": reason }),
            Self::Tests(tests) => tests.to_json("tests"),
            Self::Owed(tests) => tests.to_json("owed"),
            Self::Skipped(reason) => json!({ "kind": "skipped", "reason": reason }),
        };
        std::fs::write(path, json.to_string()).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads what a step's process wrote; nothing if it did not come to that.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let json: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
        let reason = || json["reason"].as_str().map(str::to_owned);
        Some(match json["kind"].as_str()? {
            "held" => Self::Held,
            "held but" => Self::HeldBut(reason()?),
            "broken" => Self::Broken(reason()?),
            "tests" => Self::Tests(Tests::from_json(&json)?),
            "owed" => Self::Owed(Tests::from_json(&json)?),
            "skipped" => Self::Skipped(reason()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Outcome, Tests};

    fn tests(result: Result<(), String>, seconds: f64) -> Tests {
        Tests {
            counts: Counts { passed: 7, failed: 1, ignored: 2 },
            result,
            slowest: vec![("log/lib a::b".to_owned(), seconds)],
            skipped: vec!["no root".to_owned()],
        }
    }

    #[test]
    fn an_outcome_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("outcome");
        assert_eq!(Outcome::read(&path), None, "a step that was killed wrote nothing");
        for (written, again) in [
            (Outcome::Held, Outcome::Held),
            (Outcome::HeldBut("x".into()), Outcome::HeldBut("x".into())),
            (Outcome::Broken("why".into()), Outcome::Broken("why".into())),
            (Outcome::Skipped("no root".into()), Outcome::Skipped("no root".into())),
            (Outcome::Tests(tests(Ok(()), 0.25)), Outcome::Tests(tests(Ok(()), 0.25))),
            (Outcome::Owed(tests(Err("ended".into()), 1.5)), Outcome::Owed(tests(Err("ended".into()), 1.5))),
        ] {
            written.write(&path).expect("writes");
            assert_eq!(Outcome::read(&path), Some(again));
        }
    }

    #[test]
    fn of_two_runs_the_slowest_are_kept() {
        let sum = tests(Ok(()), 1.0).plus(tests(Err("no".into()), 3.0), 1);
        assert_eq!(sum.counts, Counts { passed: 14, failed: 2, ignored: 4 });
        assert_eq!((sum.result, sum.slowest[0].1, sum.slowest.len()), (Err("no".to_owned()), 3.0, 1));
    }
}
