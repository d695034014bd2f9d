//! Connects processes of this machine by a socket in a directory: whoever may use the directory may connect.
//!
//! Invariants: writing to a process that is gone is an error and no signal; a socket that a process left behind is replaced by the next
//! one that listens, so only the holder of a lock may listen.

use crate::os::local_socket as imp;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

/// A socket that waits for connections.
#[derive(Debug)]
pub struct LocalListener(imp::Listener);

impl LocalListener {
    /// Listens at `name` in `dir`, in place of a socket that is there.
    ///
    /// # Errors
    /// The system's, and that this system has no such sockets.
    pub fn bind(dir: &Path, name: &str) -> io::Result<Self> {
        imp::Listener::bind(dir, name).map(Self)
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self) -> io::Result<LocalSocket> {
        self.0.accept().map(LocalSocket)
    }

    /// The same listener once more, for another thread.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Wakes a thread that accepts at `name` in `dir`. Returns whether it does: Linux needs no path for that, which may be that of another
    /// listener by now.
    #[must_use]
    pub fn wake(&self, dir: &Path, name: &str) -> bool {
        self.0.wake(dir, name)
    }
}

/// A connection of two processes.
#[derive(Debug)]
pub struct LocalSocket(imp::Socket);

impl LocalSocket {
    /// Connects to whoever listens at `name` in `dir`.
    ///
    /// # Errors
    /// The system's; `NotFound` and `ConnectionRefused`: nobody does.
    pub fn connect(dir: &Path, name: &str) -> io::Result<Self> {
        imp::Socket::connect(dir, name).map(Self)
    }

    /// The same connection once more, for another thread.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Bounds how long reads and writes wait.
    ///
    /// # Errors
    /// The system's.
    pub fn set_timeouts(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        self.0.set_timeouts(read, write)
    }

    /// Ends the connection: reads of both sides end, those that wait included.
    pub fn shutdown(&self) {
        self.0.shutdown();
    }
}

impl Read for LocalSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for LocalSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn processes_connect_below_paths_of_any_length() {
        let dir = tempfile::tempdir().expect("a directory");
        let long = dir.path().join("x".repeat(120));
        std::fs::create_dir(&long).expect("makes it");
        let longs = usize::from(cfg!(target_os = "linux"));
        for dir in [dir.path(), &long].into_iter().take(1 + longs) {
            assert!(LocalSocket::connect(dir, "socket").is_err());
            // The second one takes the place of the first.
            drop(LocalListener::bind(dir, "socket").expect("listens"));
            let refused = LocalSocket::connect(dir, "socket").expect_err("nobody listens");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let listener = LocalListener::bind(dir, "socket").expect("listens");
            let mut one = LocalSocket::connect(dir, "socket").expect("connects");
            let mut other = listener.accept().expect("accepts");
            one.write_all(b"ping").expect("writes");
            let mut read = [0; 4];
            other.read_exact(&mut read).expect("reads");
            assert_eq!(&read, b"ping");
            drop(one);
            assert_eq!(other.read(&mut read).expect("ends"), 0);
            // No signal ends this test.
            assert!((0..2).any(|_| other.write(b"pong").is_err()));
        }
    }
}
