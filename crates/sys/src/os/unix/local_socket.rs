//! Unix domain sockets.

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
            // SAFETY: the descriptor is open as long as `self` lives.
            unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RDWR) == 0 }
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
        {
            let on: libc::c_int = 1;
            let bytes = libc::socklen_t::try_from(size_of_val(&on)).map_err(io::Error::other)?;
            // SAFETY: the option is an int, which outlives the call, and this is its size.
            super::check(unsafe {
                libc::setsockopt(
                    stream.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_NOSIGPIPE,
                    (&raw const on).cast(),
                    bytes,
                )
            })?;
        }
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
        let flags = 0;
        #[cfg(not(target_os = "macos"))]
        let flags = libc::MSG_NOSIGNAL;
        // SAFETY: the pointer and the length are those of a slice that outlives the call.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}
