//! Notes a program's SHA-256 when it was built or fetched, and refuses to run one that has another.
//!
//! ```text
//!   ~/.cache/seawall/engines/nats-server-2.15.2          the program, or a folder with archives
//!                           /nats-server-2.15.2.sha256   one line: "HEX  NAME" for each file, sorted by name
//! ```
//!
//! The note lies next to the program, in a folder that only its owner writes to: it finds a file that was changed, cut
//! or added since, not an owner who changes both.

use super::owned::{self, Thing};
use crate::{Error, Result};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 16;

fn note(program: &Path) -> PathBuf {
    let mut name = program.file_name().unwrap_or_default().to_owned();
    name.push(".sha256");
    program.with_file_name(name)
}

fn of_file(path: &Path) -> Result<String> {
    let failed = Error::io("read", path);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
    loop {
        let read = file.read(&mut chunk).map_err(failed)?;
        if read == 0 {
            break;
        }
        hash.update(&chunk[..read]);
    }
    Ok(hash.finalize().iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

/// The note of the program as it is now; every file is the caller's own.
fn current(program: &Path) -> Result<String> {
    let mut files = Vec::new();
    if program.is_dir() {
        owned::is_own(program, Thing::Folder)?;
        let failed = Error::io("look into", program);
        for entry in std::fs::read_dir(program).map_err(failed)? {
            files.push(entry.map_err(failed)?.path());
        }
        files.sort();
    } else {
        files.push(program.to_path_buf());
    }
    let mut text = String::new();
    for file in files {
        owned::is_own(&file, Thing::File)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(text, "{}  {name}", of_file(&file)?);
    }
    Ok(text)
}

/// Notes what was just made.
pub(super) fn keep(program: &Path) -> Result<()> {
    let (text, path) = (current(program)?, note(program));
    owned::replace(&path, text.as_bytes()).map_err(Error::io("write", &path))
}

/// Refuses a program that is not what was noted.
pub(super) fn verify(program: &Path) -> Result<()> {
    let refused = |what: String| {
        Err(Error::failed(what, format!("remove {} to have it fetched again", program.display())))
    };
    let Some(noted) = owned::read(&note(program))? else {
        return refused(format!("there is no checksum of {}", program.display()));
    };
    let now = current(program)?;
    if now == noted {
        return Ok(());
    }
    let changed = now.lines().find(|line| !noted.lines().any(|known| known == *line));
    let changed =
        changed.and_then(|line| line.split_once("  ")).map_or("a file that is missing", |(_, name)| name);
    refused(format!("{} is not what was fetched and built ({changed} differs)", program.display()))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_known_checksum_and_a_program_that_was_changed_by_a_byte_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("server");
        std::fs::write(&program, "abc").expect("written");
        assert!(verify(&program).is_err_and(|error| error.to_string().contains("no checksum")));
        keep(&program).expect("noted");
        let noted = std::fs::read_to_string(note(&program)).expect("readable");
        assert_eq!(noted, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  server\n");
        assert!(verify(&program).is_ok());
        std::fs::write(&program, "abd").expect("written");
        assert!(verify(&program).is_err_and(|error| error.to_string().contains("server differs): remove")));
    }

    #[test]
    fn an_archive_that_was_changed_added_or_removed_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let archives = folder.path().join("kafka");
        std::fs::create_dir(&archives).expect("made");
        for name in ["a.jar", "b.jar"] {
            std::fs::write(archives.join(name), name).expect("written");
        }
        keep(&archives).expect("noted");
        assert!(verify(&archives).is_ok());
        std::fs::write(archives.join("c.jar"), "planted").expect("written");
        assert!(verify(&archives).is_err_and(|error| error.to_string().contains("c.jar")));
        std::fs::remove_file(archives.join("c.jar")).expect("removed");
        assert!(verify(&archives).is_ok());
        std::fs::remove_file(archives.join("b.jar")).expect("removed");
        assert!(verify(&archives).is_err_and(|error| error.to_string().contains("missing")));
    }
}
