//! Refuses paths that would block a command or that it would damage, before it begins.
//!
//! ```text
//!   kind              read from             written to
//!   regular file      yes                   yes
//!   character device  yes                   yes
//!   pipe              below /dev and /proc: a shell's <(…) and >(…), whose other end is open
//!   block device      yes                   refused: its data would be overwritten
//!   socket, folder    refused               refused
//! ```
//!
//! Invariant: looking changes nothing and never waits; a refusal names the path and the remedy.

use crate::exit::Failure;
use seawall_sys::inspect::{self, Environment};
use std::fs::{File, FileType, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

/// What a path is, as far as that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(unix), expect(dead_code, reason = "there are no pipes and sockets among files"))]
enum FileKind {
    Folder,
    Pipe,
    Socket,
    BlockDevice,
    Other,
}

fn kind(file_type: FileType) -> FileKind {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if file_type.is_fifo() {
            return FileKind::Pipe;
        }
        if file_type.is_socket() {
            return FileKind::Socket;
        }
        if file_type.is_block_device() {
            return FileKind::BlockDevice;
        }
    }
    if file_type.is_dir() { FileKind::Folder } else { FileKind::Other }
}

/// Whether the other end of a pipe of this name is known to be open.
fn is_open_elsewhere(path: &Path) -> bool {
    ["/dev", "/proc"].iter().any(|place| path.starts_with(place))
}

/// Refuses what cannot be read as a file at once.
pub(crate) fn check_input(path: &Path) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::Message(format!("cannot read {}: {why}", path.display())));
    match std::fs::metadata(path).map(|metadata| kind(metadata.file_type())) {
        Err(error) => refuse(&error.to_string()),
        Ok(FileKind::Folder) => refuse("it is a folder: name a file"),
        Ok(FileKind::Socket) => refuse("it is a socket: name a file"),
        Ok(FileKind::Pipe) if !is_open_elsewhere(path) => {
            refuse("it is a pipe, and opening it may block: name a file, or use the shell's <(…)")
        }
        Ok(_) => Ok(()),
    }
}

/// The text of a file of at most `bytes_max` bytes.
pub(crate) fn text(path: &Path, bytes_max: u64) -> Result<String, Failure> {
    check_input(path)?;
    let refuse =
        |why: &dyn std::fmt::Display| Failure::Message(format!("cannot read {}: {why}", path.display()));
    let mut text = String::new();
    let file = File::open(path).map_err(|error| refuse(&error))?;
    file.take(bytes_max + 1).read_to_string(&mut text).map_err(|error| refuse(&error))?;
    if text.len() as u64 > bytes_max {
        return Err(refuse(&format!("it is larger than {} MiB", bytes_max >> 20)));
    }
    Ok(text)
}

/// Why a report may not be written to what is at `path`, if its kind forbids it.
pub(crate) fn refused_output(path: &Path, metadata: &Metadata) -> Option<&'static str> {
    match kind(metadata.file_type()) {
        FileKind::Folder => Some("it is a folder: name a file in it"),
        FileKind::Socket => Some("it is a socket: name a file, or - for standard output"),
        FileKind::BlockDevice => Some("it is a block device, whose data would be overwritten: name a file"),
        FileKind::Pipe if !is_open_elsewhere(path) => {
            Some("it is a pipe, and opening it may block: name a file, or - for standard output")
        }
        FileKind::Pipe | FileKind::Other => None,
    }
}

/// Refuses what is no folder that can be looked into; `remedy` follows what is wrong with it.
pub(crate) fn check_folder(path: &Path, remedy: &str) -> Result<(), Failure> {
    let name = path.display();
    let refused = |error: io::Error| {
        Failure::Message(match error.kind() {
            io::ErrorKind::NotFound => format!("{name} does not exist: create it, or {remedy}"),
            io::ErrorKind::NotADirectory => format!("{name} is not a folder: {remedy}"),
            _ => format!("cannot look into {name}: {error}; {remedy}"),
        })
    };
    if std::fs::metadata(path).map_err(refused)?.is_dir() {
        return std::fs::read_dir(path).map(drop).map_err(refused);
    }
    Err(refused(io::ErrorKind::NotADirectory.into()))
}

pub(crate) fn folder(path: &Path, remedy: &str) -> Result<Environment, Failure> {
    check_folder(path, remedy)?;
    inspect::tried_environment(path).map_err(Failure::message)
}
