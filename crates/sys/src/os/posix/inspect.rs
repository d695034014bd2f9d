//! macOS and illumos: reads the system's name, its load and paths.

use crate::commit::again;
use crate::error::{Error, Result};
use crate::inspect::Pressure;
use crate::os::unix::{text, uname};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(crate) fn system() -> Result<String> {
    let name = uname().map_err(|error| Error::new("uname", "system", error))?;
    Ok(format!("{} {} {}", text(&name.sysname), text(&name.release), text(&name.machine)))
}

/// The load averages; waiting and stolen time are not reported.
pub(crate) fn pressure() -> Pressure {
    let mut loads = [0.0];
    // SAFETY: the pointer is to room for the one number that is asked for.
    let count = unsafe { libc::getloadavg(loads.as_mut_ptr(), 1) };
    Pressure { load_1m: (count == 1).then_some(loads[0]), ..Pressure::default() }
}

/// The path after symbolic links, and the same for C.
pub(crate) fn real(path: &Path) -> Result<(PathBuf, CString)> {
    let real = again(|| std::fs::canonicalize(path)).map_err(|error| Error::new("realpath", path, error))?;
    let for_c = CString::new(real.as_os_str().as_bytes())
        .map_err(|_| Error::new("realpath", path, io::ErrorKind::InvalidInput.into()))?;
    Ok((real, for_c))
}
