//! Writes text to standard output or into a file, completely or with an error, without a panic.
//!
//! Invariant: a closed output pipe (`| head`) is no failure.

use crate::exit::Failure;
use crate::paths;
use clap::Args;
use seawall_gauge::report;
use seawall_sys::text::printable;
use seawall_sys::whole_file::replace;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The files that a report goes into, beside the terminal.
#[derive(Debug, Default, PartialEq, Args)]
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

impl Files {
    /// Each with its option.
    pub(crate) fn named(&self) -> [(&'static str, &Option<PathBuf>); 3] {
        [("--json", &self.json), ("--csv", &self.csv), ("--markdown", &self.markdown)]
    }
}

/// A file, if one is given, and what makes its text.
pub(crate) type Form<'a> = (&'a Option<PathBuf>, &'a dyn Fn() -> Result<String, Failure>);

/// Whether `file` stands for standard output.
pub(crate) fn is_standard(file: Option<&Path>) -> bool {
    file == Some(Path::new("-"))
}

/// Writes every form that has a file; whether one of them went to standard output.
pub(crate) fn give_all(forms: &[Form<'_>]) -> Result<bool, Failure> {
    for (file, text) in forms {
        let Some(file) = file else { continue };
        give(file, &text()?)?;
    }
    Ok(forms.iter().any(|(file, _)| is_standard(file.as_deref())))
}

/// Prints `text`, its colours as `--color` and the terminal allow.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Message(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A document of JSON over several lines, in which no string holds a character that a terminal obeys.
pub(crate) fn json(document: &Value) -> String {
    let mut text = String::new();
    for c in format!("{document:#}\n").chars() {
        // Those of ASCII are escaped already, and the others stand within strings.
        if !c.is_ascii() && matches!(printable(c.encode_utf8(&mut [0; 4])), Cow::Owned(_)) {
            text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            text.push(c);
        }
    }
    text
}

/// Writes `text` to `file`, or prints it if that is `-`.
pub(crate) fn give(file: &Path, text: &str) -> Result<(), Failure> {
    if is_standard(Some(file)) {
        return print(text);
    }
    if let Ok(metadata) = std::fs::metadata(file)
        && let Some(why) = paths::refused_output(file, &metadata)
    {
        return Err(unwritten(file, why));
    }
    std::fs::write(file, text).map_err(|error| unwritten(file, error))
}

/// Whether `file` can be written, without changing it; a new one is made and removed again. A link to nothing is
/// refused, because a file would be made wherever it points to.
pub(crate) fn check(file: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| unwritten(file, error);
    match std::fs::metadata(file) {
        _ if is_standard(Some(file)) => Ok(()),
        Ok(metadata) if metadata.is_file() => {
            std::fs::OpenOptions::new().append(true).open(file).map(drop).map_err(failed)
        }
        Ok(metadata) => {
            paths::refused_output(file, &metadata).map_or(Ok(()), |why| Err(unwritten(file, why)))
        }
        Err(_) if file.is_symlink() => {
            Err(unwritten(file, "it is a link to nothing: remove it, or name the file itself"))
        }
        Err(_) => {
            let made = std::fs::OpenOptions::new().write(true).create_new(true).open(file);
            made.and_then(|_| std::fs::remove_file(file)).map_err(failed)
        }
    }
}

/// Refuses two formats on standard output, and files that cannot be written: now, not after the work. Each file is
/// named by its option.
pub(crate) fn check_all(outputs: &[(&str, &Option<PathBuf>)]) -> Result<(), Failure> {
    let standard: Vec<&str> =
        outputs.iter().filter(|(_, file)| is_standard(file.as_deref())).map(|(option, _)| *option).collect();
    if let [first, second, ..] = standard.as_slice() {
        return Err(Failure::Usage(format!(
            "{first} - and {second} - would be mixed on standard output: give one of them a file"
        )));
    }
    outputs.iter().filter_map(|(_, file)| file.as_deref()).try_for_each(check)
}

fn unwritten(file: &Path, why: impl Display) -> Failure {
    Failure::Message(format!("cannot write {}: {why}", file.display()))
}

/// Writes `text` as the whole of a file of our own: no link in its place is followed.
pub(crate) fn keep(file: &Path, text: &str) -> Result<(), Failure> {
    replace(file, text.as_bytes()).map_err(|error| unwritten(file, error))
}

/// Columns of the terminal; of a pipe what `COLUMNS` says, or what is assumed.
pub(crate) fn width() -> usize {
    const COLUMNS_MAX: usize = 160;
    let shown = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    let said = || std::env::var("COLUMNS").ok()?.trim().parse().ok();
    shown
        .or_else(said)
        .map_or(report::WIDTH_DEFAULT, |columns: usize| columns.clamp(report::WIDTH_MIN, COLUMNS_MAX))
}
