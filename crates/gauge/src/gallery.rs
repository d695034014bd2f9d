//! Makes a gallery of results from many machines: static pages, which anybody may read and whose results anybody may have
//! made.
//!
//! ```text
//!   result ─► shown.rs ─► what is allowed of it ─► machine.rs ─► index.rs     index.html: machines × methods
//!             words.rs    (names, classes, figures)     └──────► report/html  a page for each, called by its hash
//! ```
//!
//! Invariants: nothing of a result is shown that is not on a list (`shown.rs`); a page runs and loads nothing but its own
//! script and style (`report/html/document.rs`); a file's name is never made from what a result says; what is made is
//! bounded, whatever the results hold.

mod index;
mod machine;
mod shown;
mod words;

pub use shown::{Shown, Unfit, shown};

use crate::compare::published;
use crate::compare::side::Side;
use crate::report::html;
use crate::result::RunResult;
use machine::Machine;
use seawall_sys::durability::Medium;
use seawall_sys::inspect::Environment;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The most results of one gallery.
pub const RESULTS_MAX: usize = 1_000;
/// The largest page, bytes.
pub const PAGE_BYTES_MAX: usize = 8 << 20;
/// The largest gallery, bytes.
pub const BYTES_MAX: usize = 512 << 20;
/// The page that has them all.
pub const INDEX: &str = "index.html";
/// What stands near the beginning of every page of a gallery, and of no other.
pub const MARK: &str = "<meta name=\"generator\" content=\"seawall gallery ";

/// One page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The name of its file.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A result for a gallery.
#[derive(Debug)]
pub struct Entry {
    /// The name of its page: the hash of its file.
    pub page: String,
    /// What is shown.
    pub shown: Shown,
}

/// Why there is no gallery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TooMuch {
    /// More results than [`RESULTS_MAX`].
    Results(usize),
    /// This page would be larger than [`PAGE_BYTES_MAX`].
    Page(String),
    /// All would be larger than [`BYTES_MAX`].
    All,
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Results(n) => write!(
                f,
                "{n} results are too many for one gallery, which has at most {RESULTS_MAX}: make several"
            ),
            Self::Page(name) => {
                write!(f, "{name} would have more than {} MiB: leave that result out", PAGE_BYTES_MAX >> 20)
            }
            Self::All => {
                write!(f, "the pages would have more than {} MiB: make several galleries", BYTES_MAX >> 20)
            }
        }
    }
}

impl std::error::Error for TooMuch {}

impl Entry {
    /// A result for a gallery, from the text of its file.
    ///
    /// # Errors
    /// There is nothing to show of it, or it cannot be a run's.
    pub fn new(text: &str, result: &RunResult) -> Result<Self, Unfit> {
        Ok(Self { page: page_name(text.as_bytes()), shown: shown(result)? })
    }
}

/// The name of a result's page: the hash of its file, so that a link to it stays, and says nothing.
fn page_name(contents: &[u8]) -> String {
    const DIGITS: usize = 32;
    let hash = Sha256::digest(contents);
    let digits = hash.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    format!("{}.html", &digits[..DIGITS])
}

/// The pages of `entries` and of the published tables of commits.
///
/// # Errors
/// They would be too many or too large.
pub fn pages(entries: &[Entry]) -> Result<Vec<Page>, TooMuch> {
    if entries.len() > RESULTS_MAX {
        return Err(TooMuch::Results(entries.len()));
    }
    let generator = MARK.rsplit('"').next().unwrap_or_default().to_owned() + env!("CARGO_PKG_VERSION");
    let mut machines = Vec::new();
    let mut pages = Vec::new();
    let mut bytes = 0;
    let mut add = |page: Page| {
        bytes += page.text.len();
        if page.text.len() > PAGE_BYTES_MAX {
            return Err(TooMuch::Page(page.name));
        }
        if bytes > BYTES_MAX {
            return Err(TooMuch::All);
        }
        pages.push(page);
        Ok(())
    };
    for entry in entries {
        machines.push(Machine::measured(&entry.page, &entry.shown.result));
        let remarks = remarks(&entry.shown);
        let text = html::of_gallery(html::Shown::Measured(&entry.shown.result), &generator, &remarks);
        add(Page { name: entry.page.clone(), text })?;
    }
    for side in tables() {
        let name = page_name(side.name.as_bytes());
        let text = html::of_gallery(html::Shown::Published(&side), &generator, &[]);
        machines.push(Machine::published(&name, &side));
        add(Page { name, text })?;
    }
    add(Page { name: INDEX.to_owned(), text: index::page(&machines, &generator) })?;
    Ok(pages)
}

/// What a reader must know of a result that was handed in.
fn remarks(shown: &Shown) -> Vec<String> {
    let mut remarks = vec![
        "This result was handed in. Its figures are those of its file, which nobody has checked on that machine; what a \
         commit outlives is computed from what the file says of machine and calls. Names, paths and notes are left out."
            .to_owned(),
    ];
    if !shown.lowered.is_empty() {
        remarks.push(format!(
            "The file claims more than its calls give for {}: shown is what they give.",
            shown.lowered.join(", ")
        ));
    }
    remarks
}

/// The published tables of commits.
fn tables() -> impl Iterator<Item = Side> {
    let tables = published::all().iter().flat_map(|file| &file.tables);
    tables.filter(|table| table.system.is_some()).filter_map(|table| Side::published(&table.id).ok())
}

/// What commits went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    Memory,
    Server,
    Nvme,
    Ssd,
    Turning,
    Virtual,
    Unknown,
}

impl DeviceKind {
    /// As a word of a table.
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Server => "file server",
            Self::Nvme => "NVMe",
            Self::Ssd => "SSD",
            Self::Turning => "turning disk",
            Self::Virtual => "virtual disk",
            Self::Unknown => "not known",
        }
    }

    /// In a sentence, after `on`.
    fn in_words(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Server => "a file server",
            Self::Nvme => "NVMe",
            Self::Ssd => "an SSD",
            Self::Turning => "a turning disk",
            Self::Virtual => "a virtual disk",
            Self::Unknown => "a device of unknown kind",
        }
    }
}

/// What is under a folder, by what the devices say of themselves.
pub(crate) fn device_kind(environment: &Environment) -> DeviceKind {
    match environment.file_system.medium {
        Medium::Memory => return DeviceKind::Memory,
        Medium::Server => return DeviceKind::Server,
        Medium::Block | Medium::Unknown | Medium::NotMemory => {}
    }
    let Some(leaf) = environment.leaves().next() else { return DeviceKind::Unknown };
    match (leaf.transport.as_deref().map(str::to_ascii_lowercase).as_deref(), leaf.rotational) {
        (Some("nvme"), _) => DeviceKind::Nvme,
        (Some("virtio" | "xen" | "vmbus"), _) => DeviceKind::Virtual,
        (_, Some(true)) => DeviceKind::Turning,
        (_, Some(false)) => DeviceKind::Ssd,
        (_, None) => DeviceKind::Unknown,
    }
}
