//! How does text get to standard output? Whole, or with an error that says why not; never with a panic.
//!
//! Invariant: a reader that has gone (`| head`) has what it wanted, and is no failure.

use crate::exit::Failure;
use std::io::{self, Write as _};

/// Prints `text`, its colours as `--color` and the terminal allow.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Told(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
