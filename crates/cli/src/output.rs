//! Writes text or a picture to standard output or into a file, completely or with an error, without a panic.
//!
//! Invariant: a closed output pipe (`| head`) is no failure.

use crate::exit::Failure;
use crate::{exposition, paths};
use clap::Args;
use seawall_gauge::report;
use seawall_gauge::report::figure::{self, svg};
use seawall_gauge::result::RunResult;
use seawall_host::output::OutputFile;
use seawall_host::output::replace;
use seawall_host::text::printable;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::{self, Display};
use std::fs::{File, Metadata};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// The files that a report is written to besides the terminal.
#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct Files {
    /// Write JSON to this file (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,

    /// Write CSV to this file (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) csv: Option<PathBuf>,

    /// Write Markdown to this file (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) markdown: Option<PathBuf>,
}

impl Files {
    pub(crate) fn named(&self) -> [(&'static str, &Option<PathBuf>); 3] {
        [("--json", &self.json), ("--csv", &self.csv), ("--markdown", &self.markdown)]
    }
}

/// What makes a form: text, or a picture.
pub(crate) type Form<'a> = &'a dyn Fn() -> Result<Vec<u8>, Failure>;

#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct Pictures {
    /// Draw the rows as an SVG chart to this file (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
}

impl Pictures {
    pub(crate) fn named(&self) -> (&'static str, &Option<PathBuf>) {
        ("--svg", &self.svg)
    }

    pub(crate) fn are_wanted(&self) -> bool {
        *self != Self::default()
    }
}

pub(crate) fn svg(result: &RunResult) -> Vec<u8> {
    svg::document(&figure::scene(result, figure::Form::Wide)).into_bytes()
}

/// Where a text goes: standard output, or a file that was found before the work.
#[derive(Debug)]
pub(crate) struct Target {
    file: PathBuf,
    /// None for standard output.
    found: Option<OutputFile>,
}

pub(crate) fn is_standard(file: Option<&Path>) -> bool {
    file == Some(Path::new("-"))
}

/// Writes every form that has a target; whether one of them went to standard output.
pub(crate) fn give_all(targets: &[Option<Target>], forms: &[Form<'_>]) -> Result<bool, Failure> {
    for (target, text) in targets.iter().zip(forms) {
        let Some(target) = target else { continue };
        target.give(&text()?)?;
    }
    Ok(targets.iter().flatten().any(Target::is_printed))
}

/// Prints `text`, its colours as `--color` and the terminal allow, in ASCII on a terminal whose locale has no more.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout();
    let is_plain =
        !text.is_ascii() && io::stdout().is_terminal() && is_ascii_only(|name| std::env::var(name).ok());
    let text = if is_plain { Cow::Owned(text.chars().map(ascii).collect()) } else { Cow::Borrowed(text) };
    pass(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Prints to standard error, for people. What cannot be printed is dropped: a full disk under a redirected stream must not end the work.
pub(crate) fn tell(words: fmt::Arguments<'_>) {
    let mut stderr = anstream::stderr();
    let _ = stderr.write_all(words.to_string().as_bytes()).and_then(|()| stderr.flush());
}

/// Whether a terminal's locale is one without Unicode, such as `LANG=C`; one that says nothing has it nowadays.
fn is_ascii_only(variable: impl Fn(&str) -> Option<String>) -> bool {
    let said =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| variable(name).filter(|it| !it.is_empty()));
    let locale = said.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase().replace('-', "");
        !locale.contains("utf8")
    });
    locale || variable("TERM").is_some_and(|term| term == "dumb")
}

/// The nearest character of ASCII, one column wide as well.
fn ascii(c: char) -> char {
    match c {
        'µ' => 'u',
        '●' => 'o',
        '━' => '=',
        '─' | '−' | '–' | '—' => '-',
        '≈' => '~',
        '×' => 'x',
        '≥' | '→' => '>',
        '≤' => '<',
        '·' | '…' => '.',
        '█' | '▉' | '▊' | '▋' | '▌' | '▍' | '▎' | '▏' => '#',
        _ if c.is_ascii() => c,
        _ => '?',
    }
}

fn pass(written: io::Result<()>) -> Result<(), Failure> {
    match written {
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

impl Target {
    /// Finds what `file` leads to, without changing it. A link to nothing is refused, because a file would be made
    /// wherever it points to.
    pub(crate) fn find(file: &Path) -> Result<Self, Failure> {
        let found = if is_standard(Some(file)) { None } else { Some(Self::look(file)?) };
        Ok(Self { file: file.to_path_buf(), found })
    }

    fn look(file: &Path) -> Result<OutputFile, Failure> {
        let refused = |metadata: &Metadata| {
            paths::refused_output(file, metadata).map_or(Ok(()), |why| Err(unwritten(file, why)))
        };
        match std::fs::metadata(file) {
            Ok(metadata) => refused(&metadata)?,
            Err(_) if file.is_symlink() => {
                return Err(unwritten(file, "it is a dangling link: remove it, or name the file itself"));
            }
            Err(_) => {}
        }
        let found = OutputFile::find(file).map_err(|error| unwritten(file, error))?;
        // What was opened may be another thing than what was looked at.
        let opened =
            found.existing().map(File::metadata).transpose().map_err(|error| unwritten(file, error))?;
        opened.as_ref().map_or(Ok(()), refused)?;
        Ok(found)
    }

    pub(crate) fn give(&self, bytes: &[u8]) -> Result<(), Failure> {
        match (&self.found, std::str::from_utf8(bytes)) {
            (None, Ok(text)) => print(text),
            (None, Err(_)) => pass(io::stdout().write_all(bytes).and_then(|()| io::stdout().flush())),
            (Some(found), _) => found.write(bytes).map_err(|error| unwritten(&self.file, error)),
        }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn is_printed(&self) -> bool {
        self.found.is_none()
    }

    /// Whether both are one file, in which the second text would replace the first.
    fn is_same(&self, other: &Self) -> bool {
        // Whatever is written to a device such as /dev/null goes its way.
        let is_file = |found: &OutputFile| {
            found.existing().is_none_or(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()))
        };
        matches!((&self.found, &other.found), (Some(one), Some(other)) if is_file(one) && one.is_same(other))
    }
}

/// A file of metrics, which readers may read at any time: replaced as a whole, again and again.
#[derive(Debug)]
pub(crate) struct ReplacedFile {
    file: PathBuf,
    found: OutputFile,
}

impl ReplacedFile {
    /// Finds where it will be. Whatever is no regular file is refused: it would be gone after the first text.
    pub(crate) fn find(file: &Path) -> Result<Self, Failure> {
        let found = Target::look(file)?;
        found.check_replaceable().map_err(|error| unwritten(file, error))?;
        Ok(Self { file: file.to_path_buf(), found })
    }

    /// The form that its readers expect, by its name.
    pub(crate) fn form(&self) -> exposition::Form {
        if self.file.extension().is_some_and(|extension| extension == "prom") {
            exposition::Form::Text
        } else {
            exposition::Form::OpenMetrics
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.found.replace(bytes).map_err(|error| unwritten(&self.file, error))
    }

    pub(crate) fn remove(&self) -> Result<(), Failure> {
        self.found
            .remove()
            .map_err(|error| Failure::Message(format!("cannot remove {}: {error}", self.file.display())))
    }
}

/// Finds every file that is given, by its option. Refuses two formats on standard output or in one file, and files that
/// cannot be written: now, not after the work.
pub(crate) fn find_all(outputs: &[(&str, &Option<PathBuf>)]) -> Result<Vec<Option<Target>>, Failure> {
    let standard: Vec<&str> =
        outputs.iter().filter(|(_, file)| is_standard(file.as_deref())).map(|(option, _)| *option).collect();
    if let [first, second, ..] = standard.as_slice() {
        return Err(Failure::Usage(format!(
            "{first} - and {second} - would be mixed on standard output: give one of them a file"
        )));
    }
    let targets = outputs.iter().map(|(_, file)| file.as_deref().map(Target::find).transpose());
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    for (at, one) in targets.iter().enumerate() {
        let same = targets[..at].iter().position(|before| {
            one.as_ref().zip(before.as_ref()).is_some_and(|(one, before)| one.is_same(before))
        });
        if let (Some(before), Some(one)) = (same, one) {
            return Err(Failure::Usage(format!(
                "{} and {} name the same file, {}: give each a file of its own",
                outputs[before].0,
                outputs[at].0,
                one.file.display()
            )));
        }
    }
    Ok(targets)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_without_unicode_gets_ascii_of_the_same_width() {
        let of = |set: &'static [(&str, &str)]| {
            is_ascii_only(move |name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(of(&[("LANG", "C")]) && of(&[("LC_ALL", "POSIX"), ("LANG", "de_DE.UTF-8")]));
        assert!(of(&[("TERM", "dumb"), ("LANG", "C.UTF-8")]));
        assert!(!of(&[]) && !of(&[("LANG", "en_US.utf8")]) && !of(&[("LC_ALL", ""), ("LANG", "C.UTF-8")]));
        let plain: String = "●━━─ 45.2 µs ≈1.0×".chars().map(ascii).collect();
        assert_eq!(plain, "o==- 45.2 us ~1.0x");
    }
}
