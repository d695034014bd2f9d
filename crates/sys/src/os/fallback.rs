//! What a system provides that lacks something: refusals with their reason, and substitutes that promise nothing.
//!
//! One module for each row of the table in `os.rs`; `cpuid` and `wait` do something and have files of their own.

pub(crate) mod cpuid;
pub(crate) mod wait;

/// Only Linux has pwritev2(2).
pub(crate) const WRITE_VECTOR: Option<crate::write_call::Put> = None;

/// Calls that are refused.
macro_rules! refused {
    ($why:expr; $($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        $(
            pub fn $name($(_: $argument),*) -> std::io::Result<$result> {
                Err(std::io::Error::new(std::io::ErrorKind::Unsupported, $why))
            }
        )*
    };
}

/// A type of which there is no value here.
macro_rules! absent {
    ($type:ident; $($method:ident($this:ty $(, $argument:ty)*) $(-> $result:ty)?;)*) => {
        #[derive(Debug)]
        pub enum $type {}

        impl $type {
            $(
                pub fn $method(self: $this $(, _: $argument)*) $(-> $result)? {
                    match *self {}
                }
            )*
        }
    };
}

/// There is no ring to be used wrongly.
#[cfg(feature = "testing")]
pub mod mistakes {}

pub(crate) mod counters {
    use crate::counters::Counts;
    use crate::error::Result;

    absent! { Reader;
        read(&Self) -> Result<Counts>;
        busy_ms(&Self) -> Result<u64>;
    }

    impl Reader {
        pub(crate) fn open(_: &[&str]) -> Option<Self> {
            None
        }

        pub(crate) fn disks() -> Option<Self> {
            None
        }
    }
}

/// Only Linux says which boot of the system a file was mapped in.
pub(crate) mod crash_memory {
    use crate::commit::OpenError;
    use crate::directory::{Directory, Permissions};

    const WHY: &str = "memory that outlives its process is used on Linux only";

    absent! { CrashMapping;
        bytes(&Self) -> usize;
        store(&mut Self, usize, &[u8]);
        publish(&mut Self, usize, u64);
        about_to_store(&Self, usize, usize);
        load(&Self, usize, &mut [u8]);
    }

    impl CrashMapping {
        refused! { WHY; open_in(&Directory, &str) -> Option<Self>; }

        pub fn make_in(_: &Directory, _: &str, _: Permissions, _: usize) -> Result<Self, OpenError> {
            Err(OpenError::unavailable(WHY))
        }
    }
}

/// Every process is the first one.
pub(crate) mod fork {
    #[inline]
    pub(crate) fn generation() -> u32 {
        0
    }

    pub(crate) fn install_handler() {}

    #[derive(Debug)]
    pub enum Child {}

    impl Child {
        refused! { "this system has no fork";
            run(impl FnOnce() -> u8) -> Self;
            run_without_streams(u8, impl FnOnce() -> u8) -> Self;
        }

        pub fn wait(self) -> std::io::Result<Option<u8>> {
            match self {}
        }
    }
}

/// A machine of which only CPUID and the standard library are asked.
pub(crate) mod inspect {
    use super::cpuid;
    use crate::inspect::{Environment, FileSystem, Pressure};
    use std::path::Path;

    pub(crate) fn pressure() -> Pressure {
        Pressure::default()
    }

    pub(crate) fn boot() -> Option<String> {
        None
    }

    /// Mounts are not told apart.
    pub(crate) fn mount_instance(_: &Path) -> Option<String> {
        None
    }

    /// A machine on `file_system` whose devices, memory, load and lies the system adds where it knows them.
    pub(crate) fn environment(system: String, file_system: FileSystem) -> Environment {
        Environment {
            system,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_model: cpuid::brand(),
            memory_bytes: None,
            hypervisor: cpuid::hypervisor(),
            container: None,
            wine: None,
            pressure: pressure(),
            clock: crate::clock::resolution(),
            file_system,
            devices: Vec::new(),
            lies: Vec::new(),
            writeback: Vec::new(),
            limits: Vec::new(),
        }
    }
}

/// macOS and illumos do not distinguish unwritten extents; Windows reports a file's valid data length to privileged programs
/// only.
pub(crate) mod layout {
    use crate::error::Result;
    use crate::layout::Layout;
    use std::fs::File;
    use std::path::Path;

    pub(crate) fn layout(_: &File, _: &Path) -> Result<Option<Layout>> {
        Ok(None)
    }
}

/// The standard library has no sockets in directories there.
pub(crate) mod local_socket {
    use std::io;
    use std::path::Path;
    use std::time::Duration;

    const WHY: &str = "processes of this system cannot be connected by a socket in a directory";

    absent! { LocalListener;
        accept(&Self) -> io::Result<LocalSocket>;
        try_clone(&Self) -> io::Result<Self>;
        wake(&Self, &Path, &str) -> bool;
    }

    impl LocalListener {
        refused! { WHY; bind(&Path, &str) -> Self; }
    }

    absent! { LocalSocket;
        try_clone(&Self) -> io::Result<Self>;
        set_timeouts(&Self, Option<Duration>, Option<Duration>) -> io::Result<()>;
        try_write(&Self, &[u8]) -> io::Result<usize>;
        shutdown(&Self);
    }

    impl LocalSocket {
        refused! { WHY; connect(&Path, &str, Duration) -> Self; }
    }

    impl io::Read for LocalSocket {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            match *self {}
        }
    }

    impl io::Write for &LocalSocket {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            match **self {}
        }

        fn flush(&mut self) -> io::Result<()> {
            match **self {}
        }
    }
}

/// Advice about large pages: macOS and illumos choose page sizes themselves, Windows wants a privilege for large ones. None
/// of them takes single pages of the heap back so that they read as zeros.
pub(crate) mod memory {
    pub(crate) fn prefer_large_pages(_: &mut [u8]) {}

    pub(crate) fn give_back(_: &mut [u8]) -> bool {
        false
    }
}

/// The users of a block device are not reported: every device is refused, because overwriting could destroy data.
pub(crate) mod raw_device {
    use crate::error::{Error, Result};
    use std::fs::File;
    use std::io;
    use std::path::Path;

    /// Called before everything else.
    pub(crate) fn uses(path: &Path) -> Result<Vec<String>> {
        Err(unsupported(path))
    }

    pub(crate) fn open_exclusively(path: &Path) -> Result<File> {
        Err(unsupported(path))
    }

    pub(crate) fn bytes(_: &File, path: &Path) -> Result<u64> {
        Err(unsupported(path))
    }

    pub(crate) fn start(_: &File, path: &Path, _: usize) -> Result<Vec<u8>> {
        Err(unsupported(path))
    }

    pub(crate) fn description(_: &Path) -> String {
        String::new()
    }

    fn unsupported(path: &Path) -> Error {
        let why = "only Linux reports whether a device is in use: name a folder instead";
        Error::new("open", path, io::Error::new(io::ErrorKind::Unsupported, why))
    }
}

/// The share of a file that is cached is unknown.
pub(crate) mod residency {
    use crate::error::Result;
    use std::fs::File;
    use std::path::Path;

    pub(crate) fn cached_bytes(_: &File, _: &Path, _: u64, _: u64) -> Result<Option<u64>> {
        Ok(None)
    }

    pub(crate) fn dirty_bytes(_: &File) -> Option<u64> {
        None
    }

    pub(crate) fn available_memory_bytes() -> Option<u64> {
        None
    }
}

/// There is no `io_uring`.
pub(crate) mod rings {
    use crate::commit::{CommitHandle, NumberedBuffer, OpenError, Target, Unavailable};
    use crate::method::Method;

    const WHY: &str = "io_uring is Linux'";

    pub(crate) fn probe() -> Result<(), Unavailable> {
        Err(Unavailable(WHY.to_owned()))
    }

    absent! { Rings;
        forget(&Self, u16) -> bool;
        open(&Self, &crate::Directory, usize, &Target) -> Result<Box<dyn CommitHandle>, OpenError>;
    }

    impl Rings {
        pub(crate) fn start(
            _: &'static Method,
            _: usize,
            _: usize,
            _: &[NumberedBuffer<'_>],
        ) -> Result<Self, OpenError> {
            Err(OpenError::unavailable(WHY))
        }
    }
}

/// A scratch folder is reached by its name, where no path leads through a descriptor.
pub(crate) mod scratch {
    use crate::error::Result;
    use std::fs::{File, Metadata, OpenOptions};
    use std::path::{Path, PathBuf};

    pub(crate) fn make_folder(name: &Path) -> std::io::Result<()> {
        std::fs::create_dir(name)
    }

    pub(crate) fn is_own_folder(metadata: &Metadata) -> bool {
        metadata.is_dir()
    }

    pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    pub(crate) fn hold(name: &Path) -> Result<(Option<File>, PathBuf)> {
        Ok((None, name.to_path_buf()))
    }

    pub(crate) fn path_for_children(path: &Path) -> PathBuf {
        path.to_path_buf()
    }

    pub(crate) fn named(_: &Path) -> Option<PathBuf> {
        None
    }
}

/// Processes share no words to sleep on.
pub(crate) mod shared_memory {
    use crate::directory::Directory;
    use std::fs::File;
    use std::sync::atomic::{AtomicU32, AtomicU64};
    use std::time::Duration;

    const WHY: &str = "processes share words to sleep on where there is futex(2) and /dev/shm, on Linux";

    refused! { WHY;
        folder() -> Directory;
        identity(&File) -> [u64; 2];
        have_one_owner(&File, &File) -> bool;
        fill(&File, usize) -> ();
        set_readers(&File, &File) -> bool;
        read(&File, u64, &mut [u8]) -> ();
        write(&File, u64, &[u8]) -> ();
    }

    absent! { Mapping;
        word(&Self, usize) -> &AtomicU32;
        number(&Self, usize) -> &AtomicU64;
        wait(&Self, usize, u32, Duration);
        wake(&Self, usize);
    }

    impl Mapping {
        refused! { WHY; new(&File, usize, bool) -> Self; }
    }
}

/// Event loops wait for no descriptors of pipes.
pub(crate) mod signal {
    absent! { Signal;
        raise(&Self);
        lower(&Self) -> bool;
        descriptor(&Self) -> i32;
    }

    impl Signal {
        refused! { "Windows has no descriptor that event loops wait for: wait in a thread"; new() -> Self; }
    }
}

/// No advice about a file's pages and blocks is taken, and there are no uncached reads.
pub(crate) mod store {
    use crate::directory::{Directory, OpenHow};
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::path::Path;

    /// The file, which is read through the cache.
    pub(crate) fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
        options.open(path).map(|file| (file, false))
    }

    /// As [`open_direct`], in a directory that is held.
    pub(crate) fn open_direct_in(
        directory: &Directory,
        name: &str,
        how: OpenHow,
    ) -> io::Result<(File, bool)> {
        directory.open_with(name, how).map(|file| (file, false))
    }

    pub(crate) fn forget_cached(_: &File) {}

    pub(crate) fn read_no_more(_: &File) {}

    /// A full disk shows when the file is filled.
    pub(crate) fn reserve(_: &File, _: u64) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn write_in_place(_: &File) {}
}

/// Threads cannot be cancelled.
pub(crate) mod thread {
    #[derive(Debug)]
    pub(crate) struct CancelState;

    impl CancelState {
        pub(crate) fn forbid() -> Self {
            Self
        }

        pub(crate) fn restore(&self) {}
    }
}
