//! Connects processes of this machine by a socket in a directory: whoever may use the directory may connect.
//!
//! Invariants: writing to a process that is gone is an error and no signal; a socket that a process left behind is replaced by the next
//! one that listens, so only the holder of a lock may listen.

pub use crate::os::local_socket::{LocalListener, LocalSocket};

#[cfg(all(test, unix))]
mod tests {
    use super::{LocalListener, LocalSocket};
    use std::io::{self, Read as _, Write as _};

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
