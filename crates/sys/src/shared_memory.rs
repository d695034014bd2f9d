//! Shares a small file in memory between processes: one maps it and writes, others read it and sleep until a word changes.
//!
//! | | the process that makes it: [`SharedMemory`] | any other: [`SharedFile`] |
//! | --- | --- | --- |
//! | reads | by loads from the mapping | by pread(2) |
//! | writes | by stores into the mapping | by pwrite(2), if it may |
//! | sleeps | never | by futex(2) on a mapping that it only reads |
//!
//! The files lie in the system's folder in memory ([`folder`]), so that no store waits for a disk, and nothing of them
//! outlives the machine's boot. Linux has such a folder; on other systems every call returns `Unsupported`.
//!
//! Invariants: a [`SharedFile`] touches no byte of its mapping, only the kernel does, so that a file which is cut short
//! under it is an error and no signal; what is read is untrusted; the maker alone, and whoever has its user's rights, can
//! change the length of the file.

use crate::commit::again;
use crate::directory::{Create, Directory, OpenHow, Permissions};
use crate::os::shared_memory as os;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// The folder in memory in which all processes of this machine that see the same one can share files.
///
/// # Errors
/// `Unsupported` where there is none, or where it does not lie in memory; the system's error.
pub fn folder() -> io::Result<Directory> {
    os::folder()
}

/// A number that another boot of this machine, and another machine, do not have.
///
/// # Errors
/// `Unsupported` where the system has none; the system's error.
pub fn boot_id() -> io::Result<[u8; 16]> {
    let text = crate::os::inspect::boot().ok_or(io::ErrorKind::Unsupported)?;
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let mut id = [0; 16];
    if digits.len() != 2 * id.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        *byte =
            digit(0).zip(digit(1)).map(|(high, low)| high << 4 | low).ok_or(io::ErrorKind::InvalidData)?;
    }
    Ok(id)
}

/// What distinguishes an open file from every other one on this machine.
///
/// # Errors
/// `Unsupported` where the system does not say, and the system's error.
pub fn identity(file: &File) -> io::Result<[u64; 2]> {
    os::identity(file)
}

/// A file in memory, mapped by the process that made it.
#[derive(Debug)]
pub struct SharedMemory {
    mapping: os::Mapping,
    others_read: bool,
}

impl SharedMemory {
    /// Makes the file `name`, which must not exist, of `bytes` zeros, and maps it. Whoever may read `like` may read it, and
    /// its owner alone may write it.
    ///
    /// # Errors
    /// `AlreadyExists`, `Unsupported`, and the system's other errors; then no file is left.
    pub fn create(folder: &Directory, name: &str, bytes: usize, like: &File) -> io::Result<Self> {
        let file = folder.make_file(name, Permissions::OwnerOnly)?;
        // The memory is taken here: a store into a page that the system cannot provide would end the process.
        let made = os::fill(&file, bytes)
            .and_then(|()| os::Mapping::new(&file, bytes, true))
            .and_then(|mapping| Ok(Self { mapping, others_read: os::set_readers(&file, like)? }));
        if made.is_err() {
            let _ = folder.remove(name);
        }
        made
    }

    /// Whether other users may read it.
    #[must_use]
    pub fn others_read(&self) -> bool {
        self.others_read
    }

    /// The word at `at`, a multiple of 4.
    #[must_use]
    #[inline]
    pub fn word(&self, at: usize) -> &AtomicU32 {
        self.mapping.word(at)
    }

    /// The number at `at`, a multiple of 8.
    #[must_use]
    #[inline]
    pub fn number(&self, at: usize) -> &AtomicU64 {
        self.mapping.number(at)
    }

    /// Wakes every process that sleeps on the word at `at`.
    pub fn wake(&self, at: usize) {
        self.mapping.wake(at);
    }
}

/// A file that another process shares.
#[derive(Debug)]
pub struct SharedFile {
    file: File,
    mapping: os::Mapping,
    is_writable: bool,
}

impl SharedFile {
    /// Opens the file `name` of at least `bytes` bytes.
    ///
    /// # Errors
    /// `UnexpectedEof` if it is shorter, `Unsupported`, and the system's other errors.
    pub fn open(folder: &Directory, name: &str, bytes: usize) -> io::Result<Self> {
        let how = |write| OpenHow { write, create: Create::No, flags: 0 };
        let (file, is_writable) = match folder.open_with(name, how(true)) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                (folder.open_with(name, how(false))?, false)
            }
            Err(error) => return Err(error),
        };
        if again(|| file.metadata())?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mapping = os::Mapping::new(&file, bytes, false)?;
        Ok(Self { file, mapping, is_writable })
    }

    /// Whether this process may write it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Whether it belongs to the same user as `other`.
    ///
    /// # Errors
    /// The system's.
    pub fn has_owner_of(&self, other: &File) -> io::Result<bool> {
        os::have_one_owner(&self.file, other)
    }

    /// Fills `buf` from byte `at` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file has become shorter, and the system's.
    pub fn read(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        os::read(&self.file, at, buf)
    }

    /// Writes `bytes` at byte `at`. What the caller reads afterwards is no older than this write.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        os::write(&self.file, at, bytes)?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }

    /// Sleeps while the word at `at`, a multiple of 4, holds `value`, until woken, at most for `limit`. May return early.
    pub fn wait(&self, at: usize, value: u32, limit: Duration) {
        self.mapping.wait(at, value, limit);
    }

    /// Wakes every process that sleeps on the word at `at`.
    pub fn wake(&self, at: usize) {
        self.mapping.wake(at);
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::{SharedFile, SharedMemory, boot_id, folder, identity};
    use crate::directory::Directory;
    use std::fs::{File, Permissions};
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    const BYTES: usize = 4096;

    /// A file of the test, removed with it.
    struct Named(Directory, String);

    impl Named {
        fn new(name: &str) -> Self {
            Self(folder().expect("in memory"), format!("seawall-test-{name}-{}", std::process::id()))
        }

        fn make(&self, mode: u32) -> SharedMemory {
            let like = tempfile::tempfile().expect("a file");
            like.set_permissions(Permissions::from_mode(mode)).expect("set");
            SharedMemory::create(&self.0, &self.1, BYTES, &like).expect("made")
        }
    }

    impl Drop for Named {
        fn drop(&mut self) {
            let _ = self.0.remove(&self.1);
        }
    }

    #[test]
    fn what_one_side_stores_the_other_reads_and_the_other_way_round() {
        let named = Named::new("both");
        let memory = named.make(0o600);
        assert!(!memory.others_read());
        let twice = SharedMemory::create(&named.0, &named.1, BYTES, &tempfile::tempfile().expect("a file"));
        assert_eq!(twice.expect_err("taken").kind(), ErrorKind::AlreadyExists);
        let file = SharedFile::open(&named.0, &named.1, BYTES).expect("opens");
        memory.number(64).store(u64::from_le_bytes(*b"durable!"), Ordering::SeqCst);
        let mut read = [0; 8];
        file.read(64, &mut read).expect("reads");
        assert_eq!(&read, b"durable!");
        file.write(80, &7_u32.to_le_bytes()).expect("writes");
        assert_eq!(u32::from_le(memory.word(80).load(Ordering::SeqCst)), 7);
    }

    #[test]
    fn others_may_read_what_they_may_read_of_the_model_and_never_write() {
        for (mode, others) in [(0o600, false), (0o640, true), (0o666, true)] {
            let named = Named::new(&format!("mode-{mode:o}"));
            assert_eq!(named.make(mode).others_read(), others, "{mode:o}");
            let made = named.0.open_file(&named.1).expect("opens").metadata().expect("looks");
            assert_eq!(made.permissions().mode() & 0o777, mode & 0o644, "{mode:o}");
        }
    }

    #[test]
    fn a_sleeper_that_may_only_read_is_woken_and_a_changed_word_lets_none_sleep() {
        let named = Named::new("sleep");
        let memory = named.make(0o600);
        let file = named.0.open_file(&named.1).expect("opens");
        let mapping = super::os::Mapping::new(&file, BYTES, false).expect("maps");
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while memory.word(84).load(Ordering::SeqCst) == 0 {
                    mapping.wait(84, 0, Duration::from_mins(10));
                }
            });
            memory.word(84).store(1, Ordering::SeqCst);
            while !sleeper.is_finished() {
                memory.wake(84);
            }
        });
        mapping.wait(84, 0, Duration::from_mins(10));
    }

    #[test]
    fn a_file_that_is_cut_short_is_an_error_and_no_signal() {
        let named = Named::new("short");
        let memory = named.make(0o600);
        let file = SharedFile::open(&named.0, &named.1, BYTES).expect("opens");
        drop(memory);
        let cut = File::options().write(true).open(named.0.path().join(&named.1)).expect("opens");
        cut.set_len(0).expect("cut");
        assert_eq!(file.read(64, &mut [0; 8]).expect_err("short").kind(), ErrorKind::UnexpectedEof);
        file.wait(84, 0, Duration::from_mins(10));
        file.wake(84);
        let again = SharedFile::open(&named.0, &named.1, BYTES).expect_err("short");
        assert_eq!(again.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_boot_and_a_file_have_an_identity() {
        assert_eq!(boot_id().expect("known"), boot_id().expect("known"));
        assert_ne!(boot_id().expect("known"), [0; 16]);
        let files = [tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("a file")];
        let [one, other] = files.map(|file| identity(&file).expect("known"));
        assert_ne!(one, other);
    }
}
