//! Reads the values of options on the command line.

use crate::error::{Error, Result};
use std::str::FromStr;

/// The word behind `option`.
pub(crate) fn value<'a>(option: &str, words: &mut std::slice::Iter<'a, String>) -> Result<&'a str> {
    words.next().map(String::as_str).ok_or_else(|| Error::usage(format!("{option} needs a value")))
}

/// The number behind `option`.
pub(crate) fn number<N: FromStr>(option: &str, words: &mut std::slice::Iter<'_, String>) -> Result<N> {
    let value = value(option, words)?;
    value.parse().map_err(|_| Error::usage(format!("{option} wants a number, not {value}")))
}

/// The number behind `option`, which is not 0.
pub(crate) fn above_zero<N: FromStr + PartialOrd + Default>(
    option: &str,
    words: &mut std::slice::Iter<'_, String>,
) -> Result<N> {
    let value = value(option, words)?;
    let number = value.parse().ok().filter(|number| *number > N::default());
    number.ok_or_else(|| Error::usage(format!("{option} wants a number above 0, not {value}")))
}

#[cfg(test)]
pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Whether an error is one of usage that names this.
#[cfg(test)]
pub(crate) fn refuses(error: &Error, named: &str) -> bool {
    matches!(error, Error::Usage(text) if text.contains(named))
}
