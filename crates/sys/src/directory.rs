//! Holds a directory by a handle from which every file in it is opened: [`Directory`].
//!
//! A process that changes its working directory, and a directory that is renamed or moved, divert nothing.
//!
//! | system | how |
//! | --- | --- |
//! | Linux, macOS, illumos | `openat`, `unlinkat` and the like on the descriptor |
//! | Windows | the absolute path that the directory had when it was opened |
//!
//! Invariants: only regular files are opened, and no link in the last place of a path is followed: a FIFO, a device, a
//! link or a directory under the name of a file is an error that says so, and never blocks; no rename
//! replaces a file unless it is called [`Directory::replace`]; names are durable after [`Directory::sync`].

use crate::commit::again;
use crate::error::{Error, Result};
use crate::os::directory as os;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// The access rights of new files and directories: on Unix their mode bits, less what the process's umask forbids. On
/// Windows they inherit the rights of the directory they are made in, whatever is given here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permissions {
    /// Only their owner: files 0600, directories 0700.
    #[default]
    OwnerOnly,
    /// Their group may read: files 0640, directories 0750.
    Group,
    /// Everyone the umask admits: files 0666, directories 0777.
    Umask,
}

#[cfg(unix)]
impl Permissions {
    pub(crate) fn file_mode(self) -> u32 {
        match self {
            Self::OwnerOnly => 0o600,
            Self::Group => 0o640,
            Self::Umask => 0o666,
        }
    }

    /// Who may read may enter.
    pub(crate) fn directory_mode(self) -> u32 {
        let readers = self.file_mode() & 0o444;
        self.file_mode() | readers >> 2
    }
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// The length of what it stands for, bytes.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenHow {
    pub(crate) write: bool,
    pub(crate) create: Create,
    pub(crate) flags: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Create {
    /// It must be there.
    No,
    /// It is made if it is not there.
    Missing(Permissions),
    /// It must not be there.
    New(Permissions),
}

/// How an attempt to lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    /// Taken, and held until the handle is closed or [`Directory::unlock`] is called.
    Taken,
    /// Another handle holds it.
    Held,
    /// This system or file system locks no directories.
    Unavailable,
}

/// A directory, held open.
#[derive(Debug)]
pub struct Directory {
    handle: os::Handle,
    path: PathBuf,
}

pub(crate) fn not_regular(kind: &str) -> io::Error {
    io::Error::other(format!("it is {kind} and not a regular file: move it out of the directory"))
}

impl Directory {
    /// Opens the directory at `path`, which may be a link to one.
    ///
    /// # Errors
    /// `open`, the path and the system's error.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = std::path::absolute(path).and_then(|path| Ok((os::open(&path)?, path)));
        let (handle, path) = opened.map_err(|error| Error::new("open", path, error))?;
        Ok(Self { handle, path })
    }

    /// Opens the directory at `path` step by step, each from the one before, and follows no link that another user can
    /// have put there.
    ///
    /// # Errors
    /// A part of it is not there, is no directory, or is such a link.
    pub fn open_guarded(path: &Path) -> io::Result<Self> {
        Ok(Self::walk(path, None)?.0)
    }

    /// The same; makes the directories that are missing, and returns their names, each with what it was made in.
    ///
    /// # Errors
    /// As [`Directory::open_guarded`]; one cannot be made.
    pub fn walk(path: &Path, missing: Option<Permissions>) -> io::Result<(Self, Vec<(Self, OsString)>)> {
        let is_start = |part: &Component<'_>| matches!(part, Component::Prefix(_) | Component::RootDir);
        let mut start: PathBuf = path.components().take_while(is_start).collect();
        if start.as_os_str().is_empty() {
            start.push(".");
        }
        let mut at = Self { handle: os::start(&start)?, path: std::path::absolute(&start)? };
        let mut made = Vec::new();
        for part in path.components().skip_while(is_start) {
            let name = match part {
                Component::Normal(name) => name,
                Component::ParentDir => OsStr::new(".."),
                _ => continue,
            };
            let (below, is_new) = match (at.enter(name), missing) {
                (Err(error), Some(permissions)) if error.kind() == io::ErrorKind::NotFound => {
                    at.make_in(name, permissions)?;
                    (at.enter(name)?, true)
                }
                (entered, _) => (entered?, false),
            };
            let above = std::mem::replace(&mut at, below);
            if is_new {
                made.push((above, name.to_owned()));
            }
        }
        Ok((at, made))
    }

    /// Opens a directory in it, as [`Directory::open_guarded`] does.
    ///
    /// # Errors
    /// As those of that.
    pub fn enter(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self { handle: os::enter(&self.handle, &self.path, name)?, path: self.path.join(name) })
    }

    /// Makes a directory in it.
    ///
    /// # Errors
    /// The name is taken; the system's error.
    pub fn make_in(&self, name: &OsStr, permissions: Permissions) -> io::Result<()> {
        os::make_in(&self.handle, &self.path, name, permissions)
    }

    /// Removes a directory in it, which must be empty.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        os::remove_directory(&self.handle, &self.path, name)
    }

    /// Opens for writing what is there, of whatever kind, and without waiting for a reader of a pipe; whether it was reached by a
    /// link.
    ///
    /// # Errors
    /// Nothing is there, or it is one of another user's that must not be written; the system's error.
    pub fn open_existing(&self, name: &str) -> io::Result<(File, bool)> {
        os::open_existing(&self.handle, &self.path, name)
    }

    /// Whether it belongs to this user.
    ///
    /// # Errors
    /// The system's.
    pub fn is_own(&self) -> io::Result<bool> {
        os::is_own(&self.handle)
    }

    /// Why root should keep nothing in it, if there is a reason.
    ///
    /// # Errors
    /// The system's.
    pub fn refusal_for_root(&self) -> io::Result<Option<String>> {
        os::refusal_for_root(&self.handle)
    }

    /// Makes a directory at `path`; what it is made in must exist.
    ///
    /// # Errors
    /// `mkdir`, the path and the system's error.
    pub fn make(path: &Path, permissions: Permissions) -> Result<()> {
        os::make(path, permissions).map_err(|error| Error::new("mkdir", path, error))
    }

    /// Its absolute path when it was opened, for messages: it may have been moved since.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path by which it was opened still leads to it.
    ///
    /// # Errors
    /// The system's error; a path that leads nowhere is no error.
    pub fn is_at_its_path(&self) -> io::Result<bool> {
        os::is_at(&self.handle, &self.path)
    }

    /// When names in what its path leads to were last made, given or removed; as coarse as the file system keeps it.
    ///
    /// # Errors
    /// The system's error.
    pub fn modified(&self) -> io::Result<SystemTime> {
        again(|| std::fs::metadata(&self.path))?.modified()
    }

    /// When the content of this file was last changed, in microseconds since 1970-01-01 UTC, as the file system keeps it.
    ///
    /// # Errors
    /// The system's error.
    pub fn file_modified_us(&self, name: &str) -> io::Result<u64> {
        Ok(crate::clock::since_1970_us(again(|| self.open_file(name)?.metadata())?.modified()?))
    }

    /// The names in it, in any order; those that are not Unicode are left out.
    ///
    /// # Errors
    /// The system's error.
    pub fn list(&self) -> io::Result<Vec<Entry>> {
        os::list(&self.handle, &self.path)
    }

    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// The system's error, and that it is no regular file.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        self.open_with(name, OpenHow { write: false, create: Create::No, flags: 0 })
    }

    /// Opens a file for writing; makes it if it is not there.
    ///
    /// # Errors
    /// The system's error, and that it is no regular file.
    pub fn open_or_make(&self, name: &str, permissions: Permissions) -> io::Result<File> {
        self.open_with(name, OpenHow { write: true, create: Create::Missing(permissions), flags: 0 })
    }

    /// Makes a file and opens it for writing.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken, and the system's other errors.
    pub fn make_file(&self, name: &str, permissions: Permissions) -> io::Result<File> {
        self.open_with(name, OpenHow { write: true, create: Create::New(permissions), flags: 0 })
    }

    pub(crate) fn open_with(&self, name: &str, how: OpenHow) -> io::Result<File> {
        os::open_with(&self.handle, &self.path, name, how)
    }

    /// Whether `name` stands for the open file `file`. `true` on systems where an open file keeps its name.
    ///
    /// # Errors
    /// The system's error; a name that is not there is no error.
    pub fn is_named(&self, name: &str, file: &File) -> io::Result<bool> {
        os::is_named(&self.handle, name, file)
    }

    /// Gives a file another name, which must not be taken.
    ///
    /// Where the file system has no such rename, which old kernels and some network file systems have not, the new name
    /// is linked to the file and the old one removed: a crash in between leaves both names.
    ///
    /// # Errors
    /// `AlreadyExists` if the new name is taken; `Unsupported` where the file system has neither way; and the
    /// system's other errors.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match os::rename_new(&self.handle, &self.path, from, to) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.link_instead(from, to),
            result => result,
        }
    }

    fn link_instead(&self, from: &str, to: &str) -> io::Result<()> {
        os::link(&self.handle, &self.path, from, to)?;
        self.remove(from)
    }

    /// Whether files here are renamed at once, so that a crash leaves one of the two names. Tried with names that are
    /// not there.
    #[must_use]
    pub fn renames_at_once(&self) -> bool {
        let nothing = ["seawall-none-1", "seawall-none-2"];
        let tried = os::rename_new(&self.handle, &self.path, nothing[0], nothing[1]);
        tried.map_or_else(|error| error.kind() != io::ErrorKind::Unsupported, |()| true)
    }

    /// Gives a file another name and replaces what had that name.
    ///
    /// # Errors
    /// The system's error, and that what had that name is a directory.
    pub fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        os::replace(&self.handle, &self.path, from, to).map_err(|error| self.or_is_directory(to, error))
    }

    /// Makes `bytes` the whole content of the file `name` and syncs it: a crash leaves the old content or the new one. It is written
    /// under the name `staging`, where a crash may leave it, so that no link that has the name is written through. The new name is
    /// durable after [`Directory::sync`].
    ///
    /// # Errors
    /// As [`Directory::replace`].
    pub fn replace_content(
        &self,
        (name, staging): (&str, &str),
        permissions: Permissions,
        bytes: &[u8],
    ) -> io::Result<()> {
        self.remove_if_there(staging)?;
        let mut file = self.make_file(staging, permissions)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        drop(file);
        // The error that counts is the first one.
        written.and_then(|()| self.replace(staging, name)).inspect_err(|_| drop(self.remove(staging)))
    }

    /// Removes the name of a file.
    ///
    /// # Errors
    /// The system's error, and that it is a directory.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        os::remove(&self.handle, &self.path, name).map_err(|error| self.or_is_directory(name, error))
    }

    /// Removes the name of a file, if it is there.
    ///
    /// # Errors
    /// As [`Directory::remove`].
    pub fn remove_if_there(&self, name: &str) -> io::Result<()> {
        match self.remove(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Why what has this name stays. Systems say of a directory different things, none of which is what to do.
    fn or_is_directory(&self, name: &str, error: io::Error) -> io::Error {
        if error.kind() != io::ErrorKind::NotFound && os::is_directory(&self.handle, &self.path, name) {
            return io::Error::new(
                io::ErrorKind::IsADirectory,
                format!("{name} is a directory and not a regular file: move it out of the directory"),
            );
        }
        error
    }

    /// Makes the names in it durable; nothing on Windows, which journals names itself. Opens nothing.
    ///
    /// # Errors
    /// The system's error. A second call that succeeds proves nothing.
    pub fn sync(&self) -> io::Result<()> {
        os::sync(&self.handle)
    }

    /// Tries to lock the directory itself against other processes that lock it: exclusively, or shared with readers.
    ///
    /// # Errors
    /// The system's error.
    pub fn try_lock(&self, shared: bool) -> io::Result<Locking> {
        os::try_lock(&self.handle, shared)
    }

    /// Gives up the lock, also on behalf of processes that were forked off and hold the same handle.
    ///
    /// # Errors
    /// The system's error.
    pub fn unlock(&self) -> io::Result<()> {
        os::unlock(&self.handle)
    }

    /// The name of the network file system on which it lies; `None` if the system reports none.
    ///
    /// # Errors
    /// The system's error.
    pub fn network_file_system(&self) -> io::Result<Option<&'static str>> {
        os::network_file_system(&self.handle, &self.path)
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use super::Locking;
    use super::{Directory, Permissions};
    use std::io::{ErrorKind, Read as _, Write as _};
    #[cfg(unix)]
    use std::path::Path;

    fn held() -> (tempfile::TempDir, Directory) {
        let dir = tempfile::tempdir().expect("a folder");
        let held = Directory::open(dir.path()).expect("opens");
        (dir, held)
    }

    fn put(directory: &Directory, name: &str, text: &str) {
        let mut file = directory.make_file(name, Permissions::OwnerOnly).expect("made");
        file.write_all(text.as_bytes()).expect("written");
    }

    fn text(directory: &Directory, name: &str) -> String {
        let mut text = String::new();
        directory.open_file(name).expect("opens").read_to_string(&mut text).expect("read");
        text
    }

    #[test]
    fn a_rename_never_replaces_and_a_replacement_does() {
        let (_dir, directory) = held();
        for link in [false, true] {
            put(&directory, "a", "new");
            put(&directory, "b", "old");
            let rename = |from, to| {
                if link { directory.link_instead(from, to) } else { directory.rename(from, to) }
            };
            assert_eq!(rename("a", "b").expect_err("taken").kind(), ErrorKind::AlreadyExists, "{link}");
            assert_eq!((text(&directory, "a"), text(&directory, "b")), ("new".into(), "old".into()));
            rename("a", "c").expect("free");
            assert_eq!(directory.open_file("a").expect_err("gone").kind(), ErrorKind::NotFound);
            directory.replace("c", "b").expect("replaced");
            assert_eq!(text(&directory, "b"), "new");
            directory.remove("b").expect("removed");
            assert!(directory.list().expect("lists").is_empty());
        }
    }

    /// A remedy in place of what each system says of it.
    #[test]
    fn a_directory_in_the_place_of_a_file_is_named_and_stays() {
        let (dir, directory) = held();
        put(&directory, "a", "new");
        std::fs::create_dir_all(dir.path().join("b/c")).expect("a folder");
        for refused in [directory.remove("b"), directory.remove_if_there("b"), directory.replace("a", "b")] {
            let refused = refused.expect_err("a directory").to_string();
            assert!(refused.contains("b is a directory") && refused.contains("move it out"), "{refused}");
        }
        directory.remove_if_there("c").expect("is not there");
        for missing in [directory.remove("c"), directory.replace("c", "b")] {
            assert_eq!(missing.expect_err("nothing").kind(), ErrorKind::NotFound);
        }
        assert_eq!((text(&directory, "a"), dir.path().join("b/c").is_dir()), ("new".into(), true));
    }

    #[test]
    fn every_name_is_listed_with_its_length() {
        let (_dir, directory) = held();
        for (name, text) in [("one", "1"), ("three", "333")] {
            put(&directory, name, text);
        }
        for _ in 0..2 {
            let mut found: Vec<_> =
                directory.list().expect("lists").into_iter().map(|entry| (entry.name, entry.bytes)).collect();
            found.sort();
            assert_eq!(found, [("one".to_owned(), 1), ("three".to_owned(), 3)]);
        }
        directory.sync().expect("synced");
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_is_moved_is_still_the_same() {
        let (dir, directory) = held();
        let elsewhere = tempfile::tempdir().expect("a folder");
        assert!(directory.is_at_its_path().expect("looks"));
        std::fs::rename(dir.path(), elsewhere.path().join("moved")).expect("moved");
        assert!(!directory.is_at_its_path().expect("looks"));
        std::fs::create_dir(dir.path()).expect("another one in its place");
        assert!(!directory.is_at_its_path().expect("looks"));
        put(&directory, "a", "here");
        directory.rename("a", "b").expect("renamed");
        assert_eq!(std::fs::read(elsewhere.path().join("moved/b")).expect("there"), b"here");
        assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_opened_and_nothing_waits() {
        let (dir, directory) = held();
        put(&directory, "file", "text");
        std::os::unix::fs::symlink("file", dir.path().join("link")).expect("a link");
        std::os::unix::fs::symlink("nothing", dir.path().join("dangling")).expect("a link");
        std::fs::create_dir(dir.path().join("directory")).expect("a folder");
        let made = std::process::Command::new("mkfifo").arg(dir.path().join("fifo")).status();
        assert!(made.expect("runs").success());
        std::os::unix::net::UnixListener::bind(dir.path().join("socket")).expect("bound");
        for (name, kind) in [
            ("link", "a symbolic link"),
            ("dangling", "a symbolic link"),
            ("directory", "a directory"),
            ("fifo", "a FIFO"),
            ("socket", "a socket"),
        ] {
            for opened in [directory.open_file(name), directory.open_or_make(name, Permissions::OwnerOnly)] {
                let refused = opened.expect_err(name).to_string();
                assert!(refused.contains(kind) && refused.contains("move it out"), "{refused}");
            }
        }
        assert!(!dir.path().join("nothing").exists());
        // What leads to the directory itself may be a link.
        let elsewhere = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(dir.path(), elsewhere.path().join("to")).expect("a link");
        let by_link = Directory::open(&elsewhere.path().join("to")).expect("opens");
        assert_eq!(text(&by_link, "file"), "text");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_made_is_for_whom_it_was_made() {
        use std::os::unix::fs::PermissionsExt as _;
        let (dir, directory) = held();
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        for permissions in [Permissions::OwnerOnly, Permissions::Group, Permissions::Umask] {
            let (file, folder) =
                (format!("{permissions:?}"), dir.path().join(format!("{permissions:?}.dir")));
            directory.make_file(&file, permissions).expect("made");
            Directory::make(&folder, permissions).expect("made");
            let (file, folder) = (mode(&dir.path().join(file)), mode(&folder));
            assert_eq!((file & !permissions.file_mode(), folder & !permissions.directory_mode()), (0, 0));
            assert_eq!((file & 0o600, folder & 0o700), (0o600, 0o700), "{permissions:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_lock_is_the_handles_own() {
        let (dir, directory) = held();
        let other = Directory::open(dir.path()).expect("opens");
        assert_eq!(directory.try_lock(false).expect("locks"), Locking::Taken);
        for shared in [false, true] {
            assert_eq!(other.try_lock(shared).expect("asks"), Locking::Held);
        }
        directory.unlock().expect("unlocks");
        assert_eq!(other.try_lock(true).expect("locks"), Locking::Taken);
        assert_eq!(directory.try_lock(true).expect("locks"), Locking::Taken);
        assert_eq!(directory.try_lock(false).expect("asks"), Locking::Held);
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_was_given_to_another_file_is_recognised() {
        let (dir, directory) = held();
        let file = directory.open_or_make("LOCK", Permissions::OwnerOnly).expect("made");
        assert!(directory.is_named("LOCK", &file).expect("looks"));
        std::fs::remove_file(dir.path().join("LOCK")).expect("removed");
        assert!(!directory.is_named("LOCK", &file).expect("looks"));
        put(&directory, "LOCK", "");
        assert!(!directory.is_named("LOCK", &file).expect("looks"));
    }

    #[test]
    fn a_temporary_folder_is_on_this_machine() {
        let (_dir, directory) = held();
        assert_eq!(directory.network_file_system().expect("known"), None);
        let _ = directory.renames_at_once();
    }
}
