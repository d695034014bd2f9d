//! Writes a command's output to the path that the user named, even if other users change what is there meanwhile.
//!
//! Invariants: a path is walked once, before the work, and what it leads to is held; no link is followed that another
//! user can have made; what is new is written under a name of its own and renamed, so that it is there whole or not.

use crate::os;
use seawall_sys::scratch::random_digits;
use seawall_sys::{Directory, Error, Permissions, Result};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Whether the program that reads standard output has closed it, as far as the system tells before the next write.
#[must_use]
pub fn is_standard_output_closed() -> bool {
    os::process::is_standard_output_closed()
}

/// A file that will be written.
#[derive(Debug)]
pub struct OutputFile {
    directory: Directory,
    name: String,
    existing: Option<File>,
    by_link: bool,
}

impl OutputFile {
    /// Finds the file of this path, or where it will be made; changes nothing.
    ///
    /// # Errors
    /// It cannot be written, or not safely.
    pub fn find(path: &Path) -> io::Result<Self> {
        let name = path.file_name().and_then(OsStr::to_str).ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
        let directory = Directory::open_guarded(path.parent().unwrap_or(Path::new("")))?;
        let (existing, by_link) = match directory.open_existing(&name) {
            Ok((file, by_link)) => (Some(file), by_link),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                directory.make_file(&name, Permissions::Umask)?;
                directory.remove(&name)?;
                (None, false)
            }
            Err(error) => return Err(error),
        };
        Ok(Self { directory, name, existing, by_link })
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// The system's error.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if let Some(mut file) = self.existing.as_ref()
            && (self.by_link || self.directory.is_named(&self.name, file)?)
        {
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            return file.write_all(bytes);
        }
        replace_in(&self.directory, &self.name, bytes)
    }

    /// Refuses what has this name now unless it is a regular file: a rename would put an end to a device, and to a link.
    ///
    /// # Errors
    /// It is something else; the system's error.
    pub fn check_replaceable(&self) -> io::Result<()> {
        match self.directory.path().join(&self.name).symlink_metadata() {
            Ok(found) if found.is_file() => Ok(()),
            Ok(found) => {
                let kind = if found.is_symlink() { "a link" } else { "no regular file" };
                Err(io::Error::other(format!(
                    "it is {kind}, which would be replaced: name a file of its own"
                )))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the whole file by another one: a reader at any time sees the old content or the new one.
    ///
    /// # Errors
    /// As [`OutputFile::check_replaceable`]; the system's error.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.check_replaceable()?;
        replace_in(&self.directory, &self.name, bytes)
    }

    /// Removes the file, if one is there.
    ///
    /// # Errors
    /// As [`OutputFile::check_replaceable`]; the system's error.
    pub fn remove(&self) -> io::Result<()> {
        self.check_replaceable()?;
        match self.directory.remove(&self.name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// What was found there.
    #[must_use]
    pub fn existing(&self) -> Option<&File> {
        self.existing.as_ref()
    }

    /// Whether both are the same file.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.existing, &other.existing) {
            (Some(one), Some(other)) if os::is_same(one, other).unwrap_or(false) => true,
            (Some(_), None) | (None, Some(_)) => false,
            _ => {
                let place = |one: &Self| std::fs::canonicalize(one.directory.path()).ok();
                self.name == other.name && place(self) == place(other)
            }
        }
    }
}

/// A new folder for what a command keeps.
#[derive(Debug)]
pub struct OutputFolder {
    directory: Directory,
    path: PathBuf,
    /// The folders that were made, each with what it was made in.
    made: Vec<(Directory, OsString)>,
}

impl OutputFolder {
    /// Makes a folder in `out`, which is made too if it is not there, under the first of the `names` that is free.
    ///
    /// # Errors
    /// It cannot be made, or another user could replace what root would keep in it.
    pub fn make(out: &Path, names: impl IntoIterator<Item = String>) -> io::Result<Self> {
        let (within, mut made) = Directory::walk(out, Some(Permissions::Umask))?;
        let tried = Self::make_in(&within, names);
        match tried {
            Ok((directory, name)) => {
                made.push((within, OsString::from(&name)));
                Ok(Self { directory, path: out.join(name), made })
            }
            Err(error) => {
                remove_made(&made);
                Err(error)
            }
        }
    }

    fn make_in(
        within: &Directory,
        names: impl IntoIterator<Item = String>,
    ) -> io::Result<(Directory, String)> {
        if let Some(why) = within.refusal_for_root()? {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        for name in names {
            match within.make_in(OsStr::new(&name), Permissions::Umask) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let directory = within.enter(OsStr::new(&name))?;
                    if directory.is_own()? {
                        return Ok((directory, name));
                    }
                    let why = "another user put another folder in its place";
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Its path, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `bytes` as the whole content of a file in it.
    ///
    /// # Errors
    /// The system's error.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        replace_in(&self.directory, name, bytes)
    }

    /// Removes these files, it, and what was made for it, as far as nothing else is in there.
    pub fn discard(self, names: &[&str]) {
        for name in names {
            let _ = self.directory.remove(name);
        }
        remove_made(&self.made);
    }
}

/// Writes `bytes` as the whole content of `path`: a reader sees the old text or the new one. No link is followed and no existing
/// file is written into, whatever stands there.
///
/// # Errors
/// The failed call and the path.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let replaced = || {
        let name = path.file_name().and_then(OsStr::to_str).ok_or(io::ErrorKind::InvalidFilename)?;
        let directory = Directory::open_guarded(path.parent().unwrap_or(Path::new("")))?;
        replace_in(&directory, name, bytes)
    };
    replaced().map_err(|error| Error::new("replace", path, error))
}

fn remove_made(made: &[(Directory, OsString)]) {
    for (within, name) in made.iter().rev() {
        let _ = within.remove_directory(name);
    }
}

fn replace_in(directory: &Directory, name: &str, bytes: &[u8]) -> io::Result<()> {
    let part = format!(".{}.part", random_digits());
    let written = directory
        .make_file(&part, Permissions::Umask)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| directory.replace(&part, name));
    if written.is_err() {
        // The error that counts is the first one.
        let _ = directory.remove(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    #[cfg(unix)]
    use std::os::unix::fs::symlink;

    #[cfg(unix)]
    #[test]
    fn a_folder_that_is_moved_away_is_still_written_and_what_took_its_place_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("a/b");
        let made = OutputFolder::make(&out, ["run".to_owned()]).expect("made");
        let second = OutputFolder::make(&out, ["run", "run-2"].map(str::to_owned)).expect("made");
        assert_eq!(second.path(), out.join("run-2"));
        let victim = dir.path().join("victim");
        fs::create_dir(&victim).expect("made");
        fs::write(victim.join("result.json"), "precious").expect("written");
        fs::rename(out.join("run"), dir.path().join("aside")).expect("moved");
        symlink(&victim, out.join("run")).expect("linked");
        made.replace("result.json", b"ours").expect("written");
        assert_eq!(fs::read(victim.join("result.json")).expect("read"), b"precious");
        assert_eq!(fs::read(dir.path().join("aside/result.json")).expect("read"), b"ours");
        fs::remove_file(out.join("run")).expect("removed");
        second.discard(&["result.json"]);
        made.discard(&["result.json"]);
        assert!(!dir.path().join("a").exists(), "what was made is removed");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_put_in_the_place_of_a_file_during_the_run_is_not_followed() {
        let dir = tempfile::tempdir().expect("a folder");
        let (victim, path) = (dir.path().join("victim"), dir.path().join("x.json"));
        for existed in [false, true] {
            fs::write(&victim, "precious").expect("written");
            if existed {
                fs::remove_file(&path).expect("removed");
                fs::write(&path, "old").expect("written");
            }
            let found = OutputFile::find(&path).expect("writable");
            assert_eq!(path.exists(), existed, "looking changes nothing");
            let _ = fs::remove_file(&path);
            symlink(&victim, &path).expect("linked");
            found.write(b"new").expect("written");
            assert_eq!(fs::read(&victim).expect("read"), b"precious");
            assert_eq!(fs::read(&path).expect("read"), b"new");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_is_neither_replaced_nor_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("watch.prom");
        let found = OutputFile::find(&path).expect("writable");
        found.replace(b"one").expect("written");
        found.replace(b"two").expect("written again");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        found.remove().expect("removed");
        found.remove().expect("nothing to remove");
        fs::write(dir.path().join("victim"), "precious").expect("written");
        symlink("victim", &path).expect("linked");
        assert!(found.replace(b"three").is_err() && found.remove().is_err() && path.is_symlink());
        let device = OutputFile::find(Path::new("/dev/null")).expect("writable");
        assert!(device.check_replaceable().is_err());
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 2, "nothing else is left");
    }

    #[cfg(unix)]
    #[test]
    fn one_file_under_two_names_is_recognised() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("x"), "old").expect("written");
        symlink("x", dir.path().join("link")).expect("linked");
        let find = |name: &str| OutputFile::find(&dir.path().join(name)).expect("writable");
        assert!(find("x").is_same(&find("./x")) && find("x").is_same(&find("link")));
        assert!(find("new").is_same(&find("./new")) && !find("new").is_same(&find("x")));
        find("link").write(b"through").expect("written");
        assert_eq!(fs::read(dir.path().join("x")).expect("read"), b"through");
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("report.md");
        replace(&path, b"one").expect("written");
        replace(&path, b"two").expect("written again");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        fs::create_dir(dir.path().join("folder")).expect("made");
        fs::write(dir.path().join("folder/x"), b"x").expect("written");
        assert!(replace(&dir.path().join("folder"), b"three").is_err());
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_its_place_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().expect("a folder");
        let (victim, path) = (dir.path().join("victim"), dir.path().join("report.md"));
        fs::write(&victim, b"precious").expect("written");
        symlink(&victim, &path).expect("linked");
        replace(&path, b"report").expect("written");
        assert_eq!(fs::read(&victim).expect("read"), b"precious");
        assert_eq!(fs::read(&path).expect("read"), b"report");
    }
}
