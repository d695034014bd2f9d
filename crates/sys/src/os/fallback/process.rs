//! Systems without process tracking: refuses to start a detached process, with the reason.

use crate::process::Usage;
use std::io;
use std::process::{Child, Command};

pub(crate) fn start_apart(_: &mut Command) -> io::Result<Child> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "processes are tracked on Linux only: run the cluster there",
    ))
}

pub(crate) fn mark(_: u32) -> Option<String> {
    None
}

pub(crate) fn mark_of_child(_: u32) -> Option<String> {
    None
}

pub(crate) fn boot() -> Option<String> {
    None
}

pub(crate) fn user() -> Option<u32> {
    None
}

pub(crate) fn usage() -> Option<Usage> {
    None
}

pub(crate) fn ask_to_end(_: u32) -> io::Result<()> {
    Ok(())
}

pub(crate) fn end_now(_: u32) -> io::Result<()> {
    Ok(())
}

pub(crate) fn end_group_now(_: u32) -> io::Result<()> {
    Ok(())
}

/// Windows has no such limit.
pub(crate) fn outlive_the_file_size_limit() {}

/// A write finds out.
pub(crate) fn is_standard_output_closed() -> bool {
    false
}
