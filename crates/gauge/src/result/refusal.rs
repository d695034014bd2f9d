//! Says why a result file is refused.

use super::{VERSION, VERSION_OLDEST};

/// Values in all, so that a list of empty things does not take many times the file's size.
pub(super) const VALUES_MAX: u64 = 8_000_000;

const NOT: &str = "is not a result of `seawall bench --json`";

/// Why the text of a result file is refused. `Display` is what follows the file's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is not JSON with the head of a result.
    #[error("{NOT}: {0}")]
    NotAResult(#[source] serde_json::Error),
    /// It states another format.
    #[error("{NOT}: its format is {0:?}")]
    Format(String),
    /// It is of this version, which is newer than this program, or that of a program before the first release.
    #[error(
        "is of format version {0}, this program reads {VERSION_OLDEST} to {VERSION}: use the seawall that wrote it"
    )]
    Version(u32),
    /// It has more values than a result may have.
    #[error("is damaged: it has more than the {VALUES_MAX} values that a result may have")]
    Values,
    /// A field is missing or has a value that no result has.
    #[error("is damaged: {0}")]
    Damaged(#[source] serde_json::Error),
    /// No run has such values.
    #[error("is damaged: {0}")]
    Impossible(Impossible),
}

/// What no run can have written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Impossible {
    /// A list is too long.
    #[error("it lists {n} {what}, of at most {max}")]
    Listed {
        /// What it lists.
        what: &'static str,
        /// How many.
        n: usize,
        /// The bound.
        max: usize,
    },
    /// An identifier of this kind stands in it twice.
    #[error("a {0} stands in it twice")]
    Twice(&'static str),
    /// A figure of this kind is too large.
    #[error("{0} of {1} is more than a run can have")]
    Figure(&'static str, u64),
    /// The row of this id has such a value.
    #[error("{0}: {1}")]
    Row(String, Box<Self>),
}
