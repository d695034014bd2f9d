//! Refuses folders, files and programs that another user owns, may write to, or has put a link in the place of.
//!
//! A cluster's folder says which processes to end and where data lies; a program is run. In a folder that another user
//! can write to, both would be that user's choice: `cluster down` of root would end processes by a planted file.
//!
//! Invariants: nothing of a folder is read, run or removed before it was looked at here; links are not followed; what
//! is made is made for its owner alone.

use crate::{Error, Result};
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The longest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a path must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
    Folder,
    File,
}

/// What is known of a path: facts in, a refusal or nothing out.
#[derive(Debug, Clone, Copy)]
struct Facts {
    link: bool,
    folder: bool,
    file: bool,
    owner: u32,
    mode: u32,
}

const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Why the caller cannot rely on a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotOwn {
    /// It is a link.
    Link,
    /// It is no folder, where one is needed.
    NotAFolder,
    /// It is no plain file, where one is needed.
    NotAFile,
    /// Another user owns it.
    Owner {
        /// The owner's number.
        owner: u32,
        /// The caller's.
        user: u32,
    },
    /// Other users may write to it.
    Writable,
    /// Another user owns this folder above it.
    OwnerAbove(u32),
    /// Other users may replace what is in this folder above it.
    WritableAbove,
}

impl fmt::Display for NotOwn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const OWN: &str = "name a folder of your own with --dir";
        match self {
            Self::Link => f.write_str("is a link, and links are not followed: name what it leads to"),
            Self::NotAFolder => f.write_str("is no folder: name another folder with --dir"),
            Self::NotAFile => f.write_str("is no plain file: name another folder with --dir"),
            Self::Owner { owner, user } => write!(f, "belongs to user {owner}, not to you (user {user}): {OWN}"),
            Self::OwnerAbove(owner) => {
                write!(f, "belongs to user {owner}, who could replace what is in it: {OWN}")
            }
            Self::Writable => {
                f.write_str("may be written to by other users: remove that permission with `chmod go-w`")
            }
            Self::WritableAbove => f.write_str(
                "may be written to by other users, who could replace what is in it: remove that permission with \
                 `chmod go-w`",
            ),
        }
    }
}

fn refusal(facts: Facts, thing: Thing, user: u32) -> Option<NotOwn> {
    if facts.link {
        Some(NotOwn::Link)
    } else if thing == Thing::Folder && !facts.folder {
        Some(NotOwn::NotAFolder)
    } else if thing == Thing::File && !facts.file {
        Some(NotOwn::NotAFile)
    } else if facts.owner != user {
        Some(NotOwn::Owner { owner: facts.owner, user })
    } else if facts.mode & OTHERS_WRITE != 0 {
        Some(NotOwn::Writable)
    } else {
        None
    }
}

/// Why what lies in this folder may be replaced by another user.
fn ancestor_refusal(facts: Facts, user: u32) -> Option<NotOwn> {
    if facts.owner != user && facts.owner != 0 {
        Some(NotOwn::OwnerAbove(facts.owner))
    } else if facts.mode & OTHERS_WRITE != 0 && facts.mode & STICKY == 0 {
        Some(NotOwn::WritableAbove)
    } else {
        None
    }
}

#[cfg(unix)]
fn facts(known: &Metadata) -> Facts {
    use std::os::unix::fs::MetadataExt as _;
    let (link, folder, file) = (known.is_symlink(), known.is_dir(), known.is_file());
    Facts { link, folder, file, owner: known.uid(), mode: known.mode() }
}

#[cfg(not(unix))]
fn facts(known: &Metadata) -> Facts {
    Facts { link: known.is_symlink(), folder: known.is_dir(), file: known.is_file(), owner: 0, mode: 0 }
}

fn user() -> Result<u32> {
    seawall_sys::process::user()
        .ok_or_else(|| Error::failed("clusters are kept track of on Linux only", "run it there"))
}

/// Refuses `path` unless it is the caller's own. `false`: there is none.
pub(super) fn is_own(path: &Path, thing: Thing) -> Result<bool> {
    let known = match std::fs::symlink_metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        known => known.map_err(Error::io("look at", path))?,
    };
    match refusal(facts(&known), thing, user()?) {
        None => Ok(true),
        Some(why) => Err(Error::NotOwn { path: path.to_owned(), why }),
    }
}

/// Refuses a folder that is not the caller's own, or lies where another user could replace it. `false`: there is none.
pub(super) fn is_own_folder(folder: &Path) -> Result<bool> {
    if !is_own(folder, Thing::Folder)? {
        return Ok(false);
    }
    let whole = folder.canonicalize().map_err(Error::io("look at", folder))?;
    let user = user()?;
    for above in whole.ancestors().skip(1) {
        let known = std::fs::metadata(above).map_err(Error::io("look at", above))?;
        if let Some(why) = ancestor_refusal(facts(&known), user) {
            return Err(Error::NotOwn { path: above.to_owned(), why });
        }
    }
    Ok(true)
}

/// Makes a folder for the caller alone if there is none, and refuses one that is not the caller's own.
pub(super) fn provide_folder(folder: &Path) -> Result<()> {
    if is_own_folder(folder)? {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| {
        Error::caused(format!("cannot make {}", folder.display()), error, "name another folder with --dir")
    })?;
    is_own_folder(folder).map(drop)
}

/// Takes from others what a wide umask gave them: writing to `path`, and to the files in it.
#[cfg_attr(
    not(unix),
    expect(unused_variables, clippy::unnecessary_wraps, reason = "there are no such modes")
)]
pub(super) fn close_to_others(path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let failed = Error::io("close to other users", path);
        let mut paths = vec![path.to_path_buf()];
        if path.is_dir() {
            for entry in std::fs::read_dir(path).map_err(failed)? {
                paths.push(entry.map_err(failed)?.path());
            }
        }
        for path in &paths {
            let mode = std::fs::symlink_metadata(path).map_err(failed)?.permissions().mode();
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode & !OTHERS_WRITE))
                .map_err(failed)?;
        }
    }
    Ok(())
}

/// A new file that only the caller reads and writes; an error if there is one.
pub(super) fn create_new(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Replaces the caller's own file as a whole.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    remove_file(Path::new(&new))?;
    create_new(Path::new(&new))?.write_all(bytes)?;
    std::fs::rename(&new, path)
}

/// Removes a file if there is one.
pub(super) fn remove_file(path: &Path) -> std::io::Result<()> {
    std::fs::remove_file(path)
        .or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// The text of the caller's own file, if there is one.
pub(super) fn read(path: &Path) -> Result<Option<String>> {
    if !is_own(path, Thing::File)? {
        return Ok(None);
    }
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(Error::io("read", path))?;
    Ok(Some(text))
}

/// Where programs are kept for this user: `$XDG_CACHE_HOME/seawall/engines`, or `~/.cache/seawall/engines`.
pub(super) fn programs() -> Result<PathBuf> {
    programs_by(|name| std::env::var_os(name).map(PathBuf::from)).ok_or_else(|| {
        Error::failed(
            "programs are kept in the user's cache, and neither HOME nor XDG_CACHE_HOME names one",
            "set one of them",
        )
    })
}

fn programs_by(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    // The specification of XDG has paths ignored that are not absolute.
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("seawall").join("engines"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn facts_of(owner: u32, mode: u32) -> Facts {
        Facts { link: false, folder: true, file: false, owner, mode }
    }

    #[test]
    fn what_another_user_owns_may_write_to_or_links_is_refused() {
        let own = facts_of(1000, 0o40_700);
        let owner = |owner, user| Some(NotOwn::Owner { owner, user });
        for (facts, user, why) in [
            (own, 1000, None),
            (facts_of(1000, 0o40_755), 1000, None),
            (own, 1001, owner(1000, 1001)),
            (own, 0, owner(1000, 0)),
            (facts_of(0, 0o40_755), 1000, owner(0, 1000)),
            (facts_of(1000, 0o40_770), 1000, Some(NotOwn::Writable)),
            (facts_of(1000, 0o40_702), 1000, Some(NotOwn::Writable)),
            (facts_of(1000, 0o41_777), 1000, Some(NotOwn::Writable)),
            (Facts { link: true, ..own }, 1000, Some(NotOwn::Link)),
            (Facts { folder: false, ..own }, 1000, Some(NotOwn::NotAFolder)),
        ] {
            assert_eq!(refusal(facts, Thing::Folder, user), why, "{facts:?}");
        }
    }

    #[test]
    fn a_folder_above_is_the_users_or_roots_and_others_cannot_rename_in_it() {
        for (facts, user, held) in [
            (facts_of(0, 0o40_755), 1000, true),
            (facts_of(1000, 0o40_755), 1000, true),
            (facts_of(0, 0o41_777), 1000, true),
            (facts_of(0, 0o40_777), 1000, false),
            (facts_of(1000, 0o40_775), 1000, false),
            (facts_of(1000, 0o40_755), 0, false),
            (facts_of(1001, 0o41_777), 1000, false),
        ] {
            assert_eq!(ancestor_refusal(facts, user).is_none(), held, "{facts:?}");
        }
    }

    #[test]
    fn what_is_made_is_the_owners_alone_and_links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let new_folder = folder.path().join("a/b");
        provide_folder(&new_folder).expect("made");
        let mode = |path: &Path| std::fs::metadata(path).expect("is there").permissions().mode() & 0o777;
        assert_eq!(mode(&new_folder), 0o700);
        let file = new_folder.join("file");
        drop(create_new(&file).expect("made"));
        assert_eq!(mode(&file), 0o600);
        assert_eq!(read(&file).expect("own"), Some(String::new()));
        symlink(&file, new_folder.join("link")).expect("made");
        assert!(matches!(read(&new_folder.join("link")), Err(Error::NotOwn { why: NotOwn::Link, .. })));
        symlink(&new_folder, folder.path().join("folder-link")).expect("made");
        let linked = provide_folder(&folder.path().join("folder-link"));
        assert!(matches!(linked, Err(Error::NotOwn { why: NotOwn::Link, .. })));
        std::fs::set_permissions(&new_folder, PermissionsExt::from_mode(0o777)).expect("set");
        let refused = provide_folder(&new_folder).expect_err("writable by others").to_string();
        assert!(refused.contains("chmod"), "{refused}");
        assert_eq!(read(&new_folder.join("none")).expect("none"), None);
    }

    #[test]
    fn programs_are_kept_in_the_users_cache() {
        let with = |cache: Option<&str>, home: Option<&str>| {
            programs_by(|name| (if name == "HOME" { home } else { cache }).map(PathBuf::from))
        };
        assert_eq!(with(Some("/c"), Some("/h")), Some(PathBuf::from("/c/seawall/engines")));
        assert_eq!(with(Some("relative"), Some("/h")), Some(PathBuf::from("/h/.cache/seawall/engines")));
        assert_eq!(with(None, None), None);
    }
}
