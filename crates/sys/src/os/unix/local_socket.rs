//! Unix domain sockets.

use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::take_low_descriptors;

#[derive(Debug)]
pub(crate) struct Listener(UnixListener);

#[derive(Debug)]
pub(crate) struct Socket(UnixStream);

/// Calls with the path of the socket, or with one that leads there where that is too long for an address.
fn with_path<T>(dir: &Path, name: &str, mut call: impl FnMut(&Path) -> io::Result<T>) -> io::Result<T> {
    take_low_descriptors();
    let path = dir.join(name);
    match call(&path) {
        // The standard library refuses a path that the address has no room for before it makes a call.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput && error.raw_os_error().is_none() => {
            let held = File::open(dir)?;
            let through = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
            if through.exists() { call(&through.join(name)) } else { Err(error) }
        }
        called => called,
    }
}

impl Listener {
    pub(crate) fn bind(dir: &Path, name: &str) -> io::Result<Self> {
        let path = dir.join(name);
        match fs::symlink_metadata(&path) {
            // Copies of a directory may have something else that is empty for it.
            Ok(found) if !(found.is_dir() || found.is_file() && found.len() > 0) => fs::remove_file(&path)?,
            Ok(_) => {
                let reason = format!("{} is not a socket: remove it", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = with_path(dir, name, |path| UnixListener::bind(path))?;
        // As wide as the directory, which is what decides who may come.
        let mode = fs::metadata(dir)?.permissions().mode();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o666))?;
        Ok(Self(listener))
    }

    pub(crate) fn accept(&self) -> io::Result<Socket> {
        take_low_descriptors();
        Socket::new(self.0.accept()?.0)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        take_low_descriptors();
        self.0.try_clone().map(Self)
    }

    pub(crate) fn wake(&self, dir: &Path, name: &str) -> bool {
        if cfg!(target_os = "linux") {
            shutdown(&self.0, Shutdown::Both).is_ok()
        } else {
            Socket::connect(dir, name).is_ok()
        }
    }
}

impl Socket {
    #[cfg_attr(
        not(target_os = "macos"),
        expect(clippy::unnecessary_wraps, reason = "macOS has an option to set")
    )]
    fn new(stream: UnixStream) -> io::Result<Self> {
        #[cfg(target_os = "macos")]
        rustix::net::sockopt::set_socket_nosigpipe(&stream, true)?;
        Ok(Self(stream))
    }

    pub(crate) fn connect(dir: &Path, name: &str) -> io::Result<Self> {
        Self::new(with_path(dir, name, |path| UnixStream::connect(path))?)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        take_low_descriptors();
        self.0.try_clone().map(Self)
    }

    pub(crate) fn set_timeouts(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(read)?;
        self.0.set_write_timeout(write)
    }

    pub(crate) fn shutdown(&self) {
        // It may have ended by itself.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(target_os = "macos")]
        let flags = SendFlags::empty();
        #[cfg(not(target_os = "macos"))]
        let flags = SendFlags::NOSIGNAL;
        send(&self.0, bytes, flags).map_err(io::Error::from)
    }
}
