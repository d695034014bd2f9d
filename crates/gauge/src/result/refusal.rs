//! Says why a result file is refused.

use super::{VERSION, VERSION_OLDEST};
use std::fmt;

/// Values in all, so that a list of empty things does not take many times the file's size.
pub(super) const VALUES_MAX: u64 = 8_000_000;

/// Why the text of a result file is refused. `Display` is what follows the file's name.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// It is not JSON with the head of a result.
    NotAResult(serde_json::Error),
    /// It states another format.
    Format(String),
    /// It is of this version, which is newer than this program, or that of a program before the first release.
    Version(u32),
    /// It has more values than a result may have.
    Values,
    /// A field is missing or has a value that no result has.
    Damaged(serde_json::Error),
    /// No run has such values.
    Impossible(Impossible),
}

/// What no run can have written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Impossible {
    /// A list is too long.
    Listed {
        /// What it lists.
        what: &'static str,
        /// How many.
        n: usize,
        /// The bound.
        max: usize,
    },
    /// An identifier of this kind stands in it twice.
    Twice(&'static str),
    /// A figure of this kind is too large.
    Figure(&'static str, u64),
    /// The row of this id has such a value.
    Row(String, Box<Self>),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NOT: &str = "is not a result of `seawall bench --json`";
        match self {
            Self::NotAResult(error) => write!(f, "{NOT}: {error}"),
            Self::Format(format) => write!(f, "{NOT}: its format is {format:?}"),
            Self::Version(version) => write!(
                f,
                "is of format version {version}, this program reads {VERSION_OLDEST} to {VERSION}: use the seawall that wrote it"
            ),
            Self::Values => {
                write!(f, "is damaged: it has more than the {VALUES_MAX} values that a result may have")
            }
            Self::Damaged(error) => write!(f, "is damaged: {error}"),
            Self::Impossible(what) => write!(f, "is damaged: {what}"),
        }
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed { what, n, max } => write!(f, "it lists {n} {what}, of at most {max}"),
            Self::Twice(what) => write!(f, "a {what} stands in it twice"),
            Self::Figure(what, figure) => write!(f, "{what} of {figure} is more than a run can have"),
            Self::Row(id, what) => write!(f, "{id}: {what}"),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotAResult(error) | Self::Damaged(error) => Some(error),
            _ => None,
        }
    }
}
