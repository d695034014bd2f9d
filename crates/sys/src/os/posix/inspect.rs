//! macOS and illumos: reads the system's name, its load and C strings.

use crate::error::{Error, Result};
use crate::inspect::Pressure;
use crate::os::unix::check;
use std::ffi::{CString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name, release and architecture.
pub(crate) fn system() -> Result<String> {
    // SAFETY: all zeros is a valid `utsname`.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live, writable structure of the right type. illumos answers 1 for success.
    let code = unsafe { libc::uname(&raw mut name) };
    check(code).map_err(|error| Error::new("uname", "system", error))?;
    Ok(format!("{} {} {}", text(&name.sysname), text(&name.release), text(&name.machine)))
}

/// The load averages; waiting and stolen time are not told.
pub(crate) fn pressure() -> Pressure {
    let mut loads = [0.0];
    // SAFETY: the pointer is to room for the one number that is asked for.
    let told = unsafe { libc::getloadavg(loads.as_mut_ptr(), 1) };
    Pressure { load_1m: (told == 1).then_some(loads[0]), ..Pressure::default() }
}

/// The text in a C array, up to its terminating zero.
pub(crate) fn text(array: &[c_char]) -> String {
    let bytes: Vec<u8> =
        array.iter().take_while(|unit| **unit != 0).map(|unit| unit.cast_unsigned()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The path after symbolic links, and the same for C.
///
/// # Errors
/// It does not exist.
pub(crate) fn real(path: &Path) -> Result<(PathBuf, CString)> {
    let real = std::fs::canonicalize(path).map_err(|error| Error::new("realpath", path, error))?;
    let for_c = CString::new(real.as_os_str().as_bytes())
        .map_err(|_| Error::new("realpath", path, io::ErrorKind::InvalidInput.into()))?;
    Ok((real, for_c))
}
