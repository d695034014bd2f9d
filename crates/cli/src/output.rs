//! Writes text to standard output or into a file, completely or with an error, without a panic.
//!
//! Invariant: a closed output pipe (`| head`) is no failure.

use crate::exit::Failure;
use clap::Args;
use seawall_gauge::report;
use seawall_sys::whole_file::replace;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The files that a report goes into, beside the terminal.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// Write it as JSON to this file (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,

    /// Write it as CSV to this file (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) csv: Option<PathBuf>,

    /// Write it as Markdown to this file (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) markdown: Option<PathBuf>,
}

/// A file, if it was asked for, and what makes its text.
pub(crate) type Form<'a> = (&'a Option<PathBuf>, &'a dyn Fn() -> Result<String, String>);

/// Whether `file` stands for standard output.
pub(crate) fn is_standard(file: Option<&Path>) -> bool {
    file == Some(Path::new("-"))
}

/// Writes every form that was asked for; whether one of them went to standard output.
pub(crate) fn give_all(forms: &[Form<'_>]) -> Result<bool, Failure> {
    for (file, text) in forms {
        let Some(file) = file else { continue };
        give(file, &text().map_err(Failure::Told)?)?;
    }
    Ok(forms.iter().any(|(file, _)| is_standard(file.as_deref())))
}

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
    if is_standard(Some(file)) {
        return print(text);
    }
    std::fs::write(file, text)
        .map_err(|error| Failure::Told(format!("cannot write {}: {error}", file.display())))
}

/// Whether `file` can be written, without changing it; a new one is made and removed again.
pub(crate) fn check(file: &Path) -> Result<(), Failure> {
    let told = |error: io::Error| Failure::Told(format!("cannot write {}: {error}", file.display()));
    match std::fs::metadata(file) {
        _ if is_standard(Some(file)) => Ok(()),
        Ok(metadata) if metadata.is_dir() => Err(told(io::ErrorKind::IsADirectory.into())),
        // Opening a pipe would wait for its reader.
        Ok(metadata) if !metadata.is_file() => Ok(()),
        Ok(_) => std::fs::OpenOptions::new().append(true).open(file).map(drop).map_err(told),
        Err(_) => {
            let made = std::fs::OpenOptions::new().write(true).create_new(true).open(file);
            made.and_then(|_| std::fs::remove_file(file)).map_err(told)
        }
    }
}

/// Writes `text` as the whole of a file of our own: no link in its place is followed.
pub(crate) fn keep(file: &Path, text: &str) -> Result<(), Failure> {
    replace(file, text.as_bytes())
        .map_err(|error| Failure::Told(format!("cannot write {}: {error}", file.display())))
}

/// Columns of the terminal; of a pipe what `COLUMNS` says, or what is assumed.
pub(crate) fn width() -> usize {
    const COLUMNS_MIN: usize = 40;
    const COLUMNS_MAX: usize = 160;
    let shown = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    let said = || std::env::var("COLUMNS").ok()?.trim().parse().ok();
    shown
        .or_else(said)
        .map_or(report::WIDTH_DEFAULT, |columns: usize| columns.clamp(COLUMNS_MIN, COLUMNS_MAX))
}
