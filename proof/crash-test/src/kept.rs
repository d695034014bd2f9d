//! A finding in a folder: the state, what had been acknowledged, the calls, and what judges it again.
//!
//! ```text
//!   seawall-crash/1/state/   the directory after the power cut        acks    the lines, as the check gets them
//!                   calls    the calls up to the cut                  again   directory and check, as JSON
//! ```
//!
//! Invariant: a folder is new, and nothing that was there is overwritten.

use crate::call::Record;
use crate::check::{Answer, Check as _, CommandCheck, LIMIT, lay_out, lines, load};
use crate::error::{Error, Result};
use crate::report::calls;
use crate::search::Finding;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folders that are tried for a name.
const NAMES_MAX: u32 = 10_000;

/// What is needed to judge a state again.
#[derive(Debug, Serialize, Deserialize)]
struct Again {
    directory: PathBuf,
    check: String,
}

/// Keeps `finding` in a new folder below `root`; gives it.
///
/// # Errors
/// It cannot be written.
pub fn keep(
    root: &Path,
    record: &Record,
    finding: &Finding,
    directory: &Path,
    check: &str,
) -> Result<PathBuf> {
    fs::create_dir_all(root).map_err(Error::file("making", root))?;
    let mut number = 1;
    let folder = loop {
        let folder = root.join(number.to_string());
        match fs::create_dir(&folder) {
            Ok(()) => break folder,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => number += 1,
            Err(error) => return Err(Error::file("making", &folder)(error)),
        }
    };
    lay_out(&finding.state, &folder.join("state"))?;
    let lines = lines(&record.acknowledged(finding.cut));
    let again = Again {
        directory: directory.canonicalize().map_err(Error::file("opening", directory))?,
        check: check.to_owned(),
    };
    let again =
        serde_json::to_vec_pretty(&again).map_err(|error| Error::file("writing", &folder)(error.into()))?;
    for (name, bytes) in [("acks", lines), ("calls", calls(record, finding).into_bytes()), ("again", again)] {
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(Error::file("writing", &path))?;
    }
    Ok(folder)
}

/// Judges a kept state again.
///
/// # Errors
/// The folder is not one of [`keep`]'s, or the check cannot be run.
pub fn again(folder: &Path, check: Option<&str>) -> Result<Answer> {
    let path = folder.join("again");
    let bytes = fs::read(&path).map_err(Error::file("reading", &path))?;
    let kept: Again =
        serde_json::from_slice(&bytes).map_err(|error| Error::file("reading", &path)(error.into()))?;
    let state = load(&folder.join("state"))?;
    let acks = folder.join("acks");
    let lines = fs::read(&acks).map_err(Error::file("reading", &acks))?;
    let lines: Vec<Arc<[u8]>> = lines
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\n").unwrap_or(line).into())
        .collect();
    CommandCheck::new(&kept.directory, check.unwrap_or(&kept.check), LIMIT)?.judge(&state, &lines)
}
