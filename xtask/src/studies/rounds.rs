//! Bounds the rounds and duration of a comparison, and takes the median over rounds.
//!
//! Invariant: bounds are checked before anything is run.

use crate::error::{Error, Result};
use crate::options::{number, value};
use std::path::PathBuf;

/// The options of every comparison in rounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    /// Where files are made.
    pub(crate) folder: PathBuf,
    pub(crate) rounds: usize,
    /// About how long one measurement takes.
    pub(crate) seconds: f64,
}

impl Options {
    /// These, changed by `--dir`, `--rounds` and `--seconds`; a measurement takes at least `least_seconds`.
    ///
    /// # Errors
    /// The word that is wrong, and what there is.
    pub(crate) fn changed_by(mut self, arguments: &[String], least_seconds: f64) -> Result<Self> {
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--dir" => self.folder = value(word, &mut words)?.into(),
                "--rounds" => self.rounds = number(word, &mut words)?,
                "--seconds" => self.seconds = number(word, &mut words)?,
                _ => {
                    let known = "there are --dir, --rounds and --seconds";
                    return Err(Error::usage(format!("{word} is unknown; {known}")));
                }
            }
        }
        if self.rounds == 0 || !(least_seconds..=60.0).contains(&self.seconds) {
            let bounds = format!("--rounds must be at least 1 and --seconds from {least_seconds} to 60");
            return Err(Error::Usage(bounds));
        }
        self.folder = std::path::absolute(&self.folder).map_err(Error::at(self.folder.display()))?;
        Ok(self)
    }
}

/// The middle value; of an even number the mean of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        even if even % 2 == 0 => Some(f64::midpoint(values[middle - 1], values[middle])),
        _ => Some(values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{refuses, words};

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0].into_iter()), Some(2.5));
        assert_eq!(median(std::iter::empty()), None);
    }

    #[test]
    fn options_are_taken_and_nonsense_is_refused() {
        let defaults = || Options { folder: "/tmp".into(), rounds: 3, seconds: 0.5 };
        let of = |given: &[&str]| defaults().changed_by(&words(given), 0.1);
        assert_eq!(of(&[]).expect("nothing given"), defaults());
        let changed = of(&["--rounds", "7", "--seconds", "2", "--dir", "/var"]).expect("all known");
        assert_eq!(changed, Options { folder: "/var".into(), rounds: 7, seconds: 2.0 });
        for (given, named) in [
            (&["--rounds", "0"][..], "--rounds"),
            (&["--seconds", "0.01"], "0.1 to 60"),
            (&["--seconds", "soon"], "wants a number"),
            (&["--rounds"], "needs a value"),
            (&["--turns", "3"], "--turns is unknown"),
        ] {
            assert!(of(given).is_err_and(|error| refuses(&error, named)), "{given:?}");
        }
    }
}
