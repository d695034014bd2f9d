//! How does text get to standard output or into a file? Whole, or with an error that says why not; never with a
//! panic.
//!
//! Invariant: a reader that has gone (`| head`) has what it wanted, and is no failure.

use crate::exit::Failure;
use seawall_gauge::report;
use std::io::{self, Write as _};
use std::path::Path;

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

/// Writes `text` to `file`, or prints it if that is `-`.
pub(crate) fn give(file: &Path, text: &str) -> Result<(), Failure> {
    if file == Path::new("-") {
        return print(text);
    }
    std::fs::write(file, text)
        .map_err(|error| Failure::Told(format!("cannot write {}: {error}", file.display())))
}

/// Columns of the terminal, or what is assumed of a pipe.
pub(crate) fn width() -> usize {
    let columns = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    columns.map_or(report::WIDTH_DEFAULT, |columns| columns.clamp(report::WIDTH_DEFAULT, 160))
}
