//! Connects processes of this machine by a socket in a directory: whoever may use the directory may connect.
//!
//! Invariants: writing to a process that is gone is an error and no signal; a socket that a process left behind is replaced by the next
//! one that listens, so only the holder of a lock may listen.

pub use crate::os::local_socket::{LocalListener, LocalSocket};

#[cfg(all(test, unix))]
mod tests {
    use super::{LocalListener, LocalSocket};
    use std::io::{self, Read as _, Write as _};
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(20);

    /// As that of a process that is stopped.
    #[test]
    fn nobody_waits_for_long_to_be_accepted_or_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = LocalListener::bind(dir.path(), "socket").expect("listens");
        let one = LocalSocket::connect(dir.path(), "socket", SOON).expect("connects");
        let _other = listener.accept().expect("accepts");
        while one.try_write(&[0; 1 << 13]).expect("takes what there is room for") > 0 {}
        let briefly = Duration::from_millis(1);
        while LocalSocket::connect(dir.path(), "socket", briefly).is_ok() {}
    }

    #[test]
    fn processes_connect_below_paths_of_any_length() {
        let dir = tempfile::tempdir().expect("a directory");
        let long = dir.path().join("x".repeat(120));
        std::fs::create_dir(&long).expect("makes it");
        let longs = usize::from(cfg!(target_os = "linux"));
        for dir in [dir.path(), &long].into_iter().take(1 + longs) {
            assert!(LocalSocket::connect(dir, "socket", SOON).is_err());
            // The second one takes the place of the first.
            drop(LocalListener::bind(dir, "socket").expect("listens"));
            let refused = LocalSocket::connect(dir, "socket", SOON).expect_err("nobody listens");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let listener = LocalListener::bind(dir, "socket").expect("listens");
            let one = LocalSocket::connect(dir, "socket", SOON).expect("connects");
            let mut other = listener.accept().expect("accepts");
            (&one).write_all(b"ping").expect("writes");
            let mut read = [0; 4];
            other.read_exact(&mut read).expect("reads");
            assert_eq!(&read, b"ping");
            drop(one);
            assert_eq!(other.read(&mut read).expect("ends"), 0);
            // No signal ends this test.
            assert!((0..2).any(|_| (&other).write(b"pong").is_err()));
        }
    }
}
