//! Where the standard library has no sockets in directories.

use std::io;
use std::path::Path;
use std::time::Duration;

#[derive(Debug)]
pub(crate) enum Listener {}

#[derive(Debug)]
pub(crate) enum Socket {}

fn unsupported() -> io::Error {
    let reason = "processes of this system cannot be connected by a socket in a directory";
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

impl Listener {
    pub(crate) fn bind(_: &Path, _: &str) -> io::Result<Self> {
        Err(unsupported())
    }

    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match *self {}
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        match *self {}
    }

    pub(crate) fn wake(&self, _: &Path, _: &str) -> bool {
        match *self {}
    }
}

impl Socket {
    pub(crate) fn connect(_: &Path, _: &str) -> io::Result<Self> {
        Err(unsupported())
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        match *self {}
    }

    pub(crate) fn set_timeouts(&self, _: Option<Duration>, _: Option<Duration>) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn shutdown(&self) {
        match *self {}
    }

    pub(crate) fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }
}
