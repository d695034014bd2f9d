//! Unix domain sockets.

use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::take_low_descriptors;

/// A socket that waits for connections.
#[derive(Debug)]
pub struct LocalListener(UnixListener);

/// A connection of two processes.
#[derive(Debug)]
pub struct LocalSocket(UnixStream);

/// Calls with the path of the socket, or with one that leads there where that is too long for an address.
fn with_path<T>(dir: &Path, name: &str, mut call: impl FnMut(&Path) -> io::Result<T>) -> io::Result<T> {
    take_low_descriptors();
    let path = dir.join(name);
    match call(&path) {
        // The address has no room for it, as the standard library says before it makes a call, or rustix.
        Err(error)
            if error.kind() == io::ErrorKind::InvalidInput && error.raw_os_error().is_none()
                || error.kind() == io::ErrorKind::InvalidFilename =>
        {
            let held = File::open(dir)?;
            let through = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
            if through.exists() { call(&through.join(name)) } else { Err(error) }
        }
        called => called,
    }
}

impl LocalListener {
    /// Listens at `name` in `dir`, in place of a socket that is there.
    ///
    /// # Errors
    /// The system's, and that this system has no such sockets.
    pub fn bind(dir: &Path, name: &str) -> io::Result<Self> {
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

    /// Waits for the next connection.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self) -> io::Result<LocalSocket> {
        take_low_descriptors();
        LocalSocket::new(self.0.accept()?.0)
    }

    /// The same once more, for another thread.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Self> {
        take_low_descriptors();
        self.0.try_clone().map(Self)
    }

    /// Wakes a thread that accepts at `name` in `dir`. Returns whether it does: Linux needs no path for that, which may be that of another
    /// listener by now.
    #[must_use]
    pub fn wake(&self, dir: &Path, name: &str) -> bool {
        if cfg!(target_os = "linux") {
            shutdown(&self.0, Shutdown::Both).is_ok()
        } else {
            LocalSocket::connect(dir, name, Duration::from_secs(1)).is_ok()
        }
    }
}

/// What listens may be stopped: on Linux a connection that it has no room for waits for it.
#[cfg(not(target_os = "macos"))]
fn connected(path: &Path, within: Duration) -> io::Result<UnixStream> {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
    };
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(within))?;
    connect(&socket, &address)?;
    Ok(socket.into())
}

/// macOS refuses a connection that the listener has no room for.
#[cfg(target_os = "macos")]
fn connected(path: &Path, _: Duration) -> io::Result<UnixStream> {
    UnixStream::connect(path)
}

impl LocalSocket {
    #[cfg_attr(
        not(target_os = "macos"),
        expect(clippy::unnecessary_wraps, reason = "macOS has an option to set")
    )]
    fn new(stream: UnixStream) -> io::Result<Self> {
        #[cfg(target_os = "macos")]
        rustix::net::sockopt::set_socket_nosigpipe(&stream, true)?;
        Ok(Self(stream))
    }

    /// Connects to whoever listens at `name` in `dir`, and bounds how long that, and a write, waits.
    ///
    /// # Errors
    /// The system's; `NotFound` and `ConnectionRefused`: nobody does.
    pub fn connect(dir: &Path, name: &str, within: Duration) -> io::Result<Self> {
        Self::new(with_path(dir, name, |path| connected(path, within))?)
    }

    /// The same once more, for another thread.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Self> {
        take_low_descriptors();
        self.0.try_clone().map(Self)
    }

    /// Bounds how long reads and writes wait.
    ///
    /// # Errors
    /// The system's.
    pub fn set_timeouts(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(read)?;
        self.0.set_write_timeout(write)
    }

    /// Writes as many bytes as there is room for now.
    ///
    /// # Errors
    /// The system's.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.send(bytes, SendFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            sent => sent,
        }
    }

    fn send(&self, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
        #[cfg(not(target_os = "macos"))]
        let flags = flags | SendFlags::NOSIGNAL;
        Ok(send(&self.0, bytes, flags)?)
    }

    /// Ends the connection: reads of both sides end, those that wait included.
    pub fn shutdown(&self) {
        // It may have ended by itself.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

impl Read for LocalSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for &LocalSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes, SendFlags::empty())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
