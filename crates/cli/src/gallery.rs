//! `seawall gallery`: makes static pages of results from many machines.
//!
//! ```text
//!   every result is read and judged ─► all pages are made in memory ─► the folder is checked ─► they are written
//!          │ one is bad: named, and nothing is written      │ a file there is not ours: refused
//! ```
//!
//! Invariants: a result that cannot be read ends the command before anything is written; a file that is no page of a gallery
//! is never replaced; what is left out is printed, never in silence.

use crate::exit::Failure;
use crate::{output, paths};
use clap::Args;
use seawall_gauge::figures::plural;
use seawall_gauge::gallery::{self, Entry, INDEX, MARK, Page, Unfit};
use seawall_gauge::result::RunResult;
use seawall_sys::output::OutputFolder;
use seawall_sys::text::printable;
use seawall_sys::whole_file::replace;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `seawall gallery`.
#[derive(Debug, Args)]
pub(crate) struct GalleryArgs {
    /// Results of `seawall bench`, of any machines
    #[arg(value_name = "RESULT.json", required = true)]
    pub(crate) results: Vec<PathBuf>,

    /// The folder for the pages; it is made if there is none, and other files in it are left alone
    #[arg(short, long, value_name = "DIR", required_unless_present = "dry_run")]
    pub(crate) out: Option<PathBuf>,

    /// Print what would be shown and what would be left out, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) fn run(options: &GalleryArgs) -> Result<ExitCode, Failure> {
    let found = options.out.as_deref().map(find).transpose()?;
    let entries = entries(&options.results)?;
    let pages = gallery::pages(&entries).map_err(Failure::message)?;
    let Some((folder, exists)) = found.filter(|_| !options.dry_run) else {
        output::print(&format!("{} would be written; this was a dry run\n", files(&pages)))?;
        return Ok(ExitCode::SUCCESS);
    };
    if exists {
        check(folder, &pages)?;
    }
    write(folder, exists, &pages)?;
    output::print(&format!(
        "{} in {}: open {INDEX}\n",
        files(&pages),
        printable(&folder.display().to_string())
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn files(pages: &[Page]) -> String {
    let bytes: usize = pages.iter().map(|page| page.text.len()).sum();
    format!("{} of {}", plural(pages.len() as u64, "page", "pages"), bytesize::ByteSize(bytes as u64))
}

/// Reads every result; says of each what is shown and what is not.
fn entries(results: &[PathBuf]) -> Result<Vec<Entry>, Failure> {
    let (mut entries, mut bad): (Vec<Entry>, Vec<String>) = (Vec::new(), Vec::new());
    for path in results {
        let name = path.display().to_string();
        let name = printable(&name);
        let (result, text) = match RunResult::read_with_text(path) {
            Ok(read) => read,
            Err(error) => {
                bad.push(error.to_string());
                continue;
            }
        };
        let entry = match Entry::new(&text, &result) {
            Ok(entry) => entry,
            // It is as good as any, and has nothing for these pages.
            Err(unfit @ Unfit::Scenario(_)) => {
                tell!("{name} {unfit}; not shown");
                continue;
            }
            Err(unfit) => {
                bad.push(format!("{name} {unfit}"));
                continue;
            }
        };
        if entries.iter().any(|known| known.page == entry.page) {
            tell!("{name} is the same as one before it; shown once");
            continue;
        }
        output::print(&listing(&name, &entry))?;
        entries.push(entry);
    }
    let number = bad.len();
    match bad.pop() {
        None if entries.is_empty() => Err(Failure::Message(
            "none of these results has commits to show: name results of `seawall bench`".to_owned(),
        )),
        None => Ok(entries),
        Some(only) if number == 1 => {
            Err(Failure::Message(format!("{only}; nothing was written: leave that result out")))
        }
        Some(last) => {
            bad.push(last);
            for words in &bad {
                tell!("{}", printable(words));
            }
            Err(Failure::Message(format!(
                "{number} of {} cannot be shown, and nothing was written: leave them out",
                plural(results.len() as u64, "result", "results")
            )))
        }
    }
}

/// What is shown of a result and what is not, in lines.
fn listing(name: &str, entry: &Entry) -> String {
    let environment = &entry.shown.result.environment;
    let mut out = format!(
        "{name} → {}\n  shown     {}, {} on {}\n",
        entry.page, environment.system, environment.file_system.kind, environment.file_system.source
    );
    if !entry.shown.left_out.is_empty() {
        let _ = writeln!(out, "  left out  {}", entry.shown.left_out.join("; "));
    }
    if !entry.shown.lowered.is_empty() {
        let _ = writeln!(out, "  class     lower than the file claims: {}", entry.shown.lowered.join(", "));
    }
    out
}

/// The folder, and whether it is there. What is no folder is refused.
fn find(folder: &Path) -> Result<(&Path, bool), Failure> {
    const REMEDY: &str = "name a folder for the pages with --out";
    if folder.as_os_str().is_empty() {
        return Err(Failure::Usage(format!("--out has no name: {REMEDY}")));
    }
    match folder.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((folder, false)),
        _ => paths::check_folder(folder, REMEDY).map(|()| (folder, true)),
    }
}

/// Refuses to replace what is no page of a gallery; names pages of an earlier one that are in none of these.
fn check(folder: &Path, pages: &[Page]) -> Result<(), Failure> {
    let unread =
        |error: &io::Error| Failure::Message(format!("cannot look into {}: {error}", folder.display()));
    for entry in folder.read_dir().map_err(|error| unread(&error))? {
        let path = entry.map_err(|error| unread(&error))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let is_page = is_page(&path);
        if !pages.iter().any(|page| page.name == name) {
            if is_page {
                tell!(
                    "{} is left as it is: a page of an earlier gallery; remove it if its result was withdrawn",
                    printable(&path.display().to_string())
                );
            }
            continue;
        }
        if !is_page {
            return Err(Failure::Message(format!(
                "{} is no page of a gallery and is not replaced: move it away, or name another folder with --out",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Whether it is a regular file, and no link, that an earlier gallery wrote.
fn is_page(path: &Path) -> bool {
    const HEAD_BYTES: u64 = 512;
    if !path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.is_ok() && String::from_utf8_lossy(&head).contains(MARK)
}

/// Writes the pages, the index last, so that it leads to no page that is not there yet.
fn write(folder: &Path, exists: bool, pages: &[Page]) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Message(format!("cannot write into {}: {error}", folder.display()))
    };
    if exists {
        return pages.iter().try_for_each(|page| {
            replace(&folder.join(&page.name), page.text.as_bytes()).map_err(|error| failed(&error))
        });
    }
    let name = folder.file_name().and_then(|name| name.to_str());
    let name =
        name.ok_or_else(|| failed(&"its last part is no name in Unicode: name another folder with --out"))?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = OutputFolder::make(parent, [name.to_owned()]).map_err(|error| failed(&error))?;
    let written = pages.iter().try_for_each(|page| made.replace(&page.name, page.text.as_bytes()));
    if let Err(error) = written {
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        made.discard(&names);
        return Err(failed(&error));
    }
    Ok(())
}
