//! The outcome of a step or of a part of the soak, passed from its process to the parent in a file.
//!
//! Invariant: an outcome that is written is read back unchanged.

use crate::error::{Error, Result};
use crate::files;
use crate::tally::Counts;
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum StepOutcome {
    Held,
    /// One check that held, with a remark: what it found, or what it could not look at.
    HeldWith(String),
    Broken(String),
    Tests(Tests),
    Skipped(String),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tests {
    pub(crate) counts: Counts,
    /// Why they did not hold, if they did not.
    pub(crate) failure: Option<String>,
    pub(crate) skipped: Vec<String>,
}

impl From<(Counts, Result)> for Tests {
    fn from((counts, result): (Counts, Result)) -> Self {
        let failure = result.err().map(|error| error.to_string());
        Self { counts, failure, skipped: Vec::new() }
    }
}

/// What this machine lacks is no check that did not hold; in CI it counts as one.
impl From<Error> for StepOutcome {
    fn from(error: Error) -> Self {
        match error {
            Error::Lacking(reason) => Self::Skipped(reason),
            error => Self::Broken(error.to_string()),
        }
    }
}

impl From<Result> for StepOutcome {
    fn from(result: Result) -> Self {
        result.map_or_else(Self::from, |()| Self::Held)
    }
}

/// One check with a remark.
impl From<Result<Option<String>>> for StepOutcome {
    fn from(result: Result<Option<String>>) -> Self {
        match result {
            Ok(Some(remark)) => Self::HeldWith(remark),
            other => other.map(drop).into(),
        }
    }
}

/// One check, with the parts of it that could not be run.
impl From<Result<Vec<String>>> for StepOutcome {
    fn from(result: Result<Vec<String>>) -> Self {
        match result {
            Ok(skipped) if !skipped.is_empty() => Self::Skipped(skipped.join("; ")),
            other => other.map(drop).into(),
        }
    }
}

/// Tests, or why they could not be run at all.
impl From<Result<(Counts, Result)>> for StepOutcome {
    fn from(result: Result<(Counts, Result)>) -> Self {
        result.map_or_else(Self::from, |ran| Self::Tests(ran.into()))
    }
}

impl StepOutcome {
    pub(crate) fn write(&self, path: &Path) -> Result {
        files::write(path, serde_json::to_vec(self).map_err(Error::at(path.display()))?)
    }

    /// Reads what a step's process wrote; nothing if it ended before it wrote.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        serde_json::from_str(&files::read(path).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, StepOutcome, Tests};

    fn tests(failure: Option<&str>) -> Tests {
        Tests {
            counts: Counts { passed: 7, failed: 1, ignored: 2 },
            failure: failure.map(str::to_owned),
            skipped: vec!["no root".to_owned()],
        }
    }

    #[test]
    fn an_outcome_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("outcome");
        assert_eq!(StepOutcome::read(&path), None, "a step that was killed wrote nothing");
        for written in [
            StepOutcome::Held,
            StepOutcome::HeldWith("x".into()),
            StepOutcome::Broken("why".into()),
            StepOutcome::Skipped("no root".into()),
            StepOutcome::Tests(tests(None)),
            StepOutcome::Tests(tests(Some("ended"))),
        ] {
            written.write(&path).expect("writes");
            assert_eq!(StepOutcome::read(&path), Some(written));
        }
    }
}
