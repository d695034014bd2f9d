//! Refuses folders, files and programs that another user owns, may write to, or has put a link in the place of.
//!
//! A cluster's folder says which processes to end and where data lies; a program is run. In a folder that another user
//! can write to, both would be that user's choice: `cluster down` of root would end processes by a planted file.
//!
//! Invariants: nothing of a folder is read, run or removed before it was looked at here; links are not followed; what
//! is made is made for its owner alone.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read as _};
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

/// Why the caller cannot rely on a thing of its own.
fn refusal(facts: Facts, thing: Thing, user: u32) -> Option<String> {
    let right_kind = if thing == Thing::Folder { facts.folder } else { facts.file };
    if facts.link {
        Some("is a link, and links are not followed: name what it leads to".to_owned())
    } else if !right_kind {
        let wanted = if thing == Thing::Folder { "folder" } else { "plain file" };
        Some(format!("is no {wanted}: name another folder with --dir"))
    } else if facts.owner != user {
        Some(format!(
            "belongs to user {}, not to you (user {user}): name a folder of your own with --dir",
            facts.owner
        ))
    } else if facts.mode & OTHERS_WRITE != 0 {
        Some("may be written to by other users: take that away with `chmod go-w`".to_owned())
    } else {
        None
    }
}

/// Why what lies in this folder may be replaced by another user.
fn ancestor_refusal(facts: Facts, user: u32) -> Option<String> {
    if facts.owner != user && facts.owner != 0 {
        Some(format!(
            "belongs to user {}, who could replace what is in it: name a folder of your own with --dir",
            facts.owner
        ))
    } else if facts.mode & OTHERS_WRITE != 0 && facts.mode & STICKY == 0 {
        Some("may be written to by other users, who could replace what is in it: take that away with `chmod go-w`".to_owned())
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

fn user() -> Result<u32, String> {
    seawall_sys::process::user()
        .ok_or_else(|| "clusters are kept track of on Linux only: run it there".to_owned())
}

/// Refuses `path` unless it is the caller's own. `false`: there is none.
pub(super) fn is_own(path: &Path, thing: Thing) -> Result<bool, String> {
    let known = match std::fs::symlink_metadata(path) {
        Ok(known) => known,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        Err(error) => return Err(format!("cannot look at {}: {error}", path.display())),
    };
    match refusal(facts(&known), thing, user()?) {
        None => Ok(true),
        Some(why) => Err(format!("{} {why}", path.display())),
    }
}

/// Refuses a folder that is not the caller's own, or lies where another user could replace it. `false`: there is none.
pub(super) fn is_own_folder(folder: &Path) -> Result<bool, String> {
    if !is_own(folder, Thing::Folder)? {
        return Ok(false);
    }
    let whole =
        folder.canonicalize().map_err(|error| format!("cannot look at {}: {error}", folder.display()))?;
    let user = user()?;
    for above in whole.ancestors().skip(1) {
        let known = std::fs::metadata(above)
            .map_err(|error| format!("cannot look at {}: {error}", above.display()))?;
        if let Some(why) = ancestor_refusal(facts(&known), user) {
            return Err(format!("{} {why}", above.display()));
        }
    }
    Ok(true)
}

/// Makes a folder for the caller alone if there is none, and refuses one that is not the caller's own.
pub(super) fn provide_folder(folder: &Path) -> Result<(), String> {
    if is_own_folder(folder)? {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| {
        format!("cannot make {}: {error}; name another folder with --dir", folder.display())
    })?;
    is_own_folder(folder).map(drop)
}

/// Takes from others what a wide umask gave them: writing to `path`, and to the files in it.
#[cfg_attr(
    not(unix),
    expect(unused_variables, clippy::unnecessary_wraps, reason = "there are no such modes")
)]
pub(super) fn close_to_others(path: &Path) -> Result<(), String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let told = |error: std::io::Error| format!("cannot close {} to others: {error}", path.display());
        let mut paths = vec![path.to_path_buf()];
        if path.is_dir() {
            for entry in std::fs::read_dir(path).map_err(told)? {
                paths.push(entry.map_err(told)?.path());
            }
        }
        for path in paths {
            let mode = std::fs::symlink_metadata(&path).map_err(told)?.permissions().mode();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode & !OTHERS_WRITE)).map_err(told)?;
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

/// The text of the caller's own file, if there is one.
pub(super) fn read(path: &Path) -> Result<Option<String>, String> {
    if !is_own(path, Thing::File)? {
        return Ok(None);
    }
    let told = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let mut text = String::new();
    File::open(path).map_err(told)?.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(told)?;
    Ok(Some(text))
}

/// Where programs are kept for this user: `$XDG_CACHE_HOME/seawall/engines`, or `~/.cache/seawall/engines`.
pub(super) fn programs() -> Result<PathBuf, String> {
    programs_by(|name| std::env::var_os(name).map(PathBuf::from))
}

fn programs_by(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, String> {
    // The specification of XDG has paths ignored that are not absolute.
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let cache = cache
        .ok_or("programs are kept in the user's cache, and neither HOME nor XDG_CACHE_HOME names one")?;
    Ok(cache.join("seawall").join("engines"))
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
        for (facts, user, said) in [
            (own, 1000, None),
            (facts_of(1000, 0o40_755), 1000, None),
            (own, 1001, Some("belongs to user 1000")),
            (own, 0, Some("belongs to user 1000")),
            (facts_of(0, 0o40_755), 1000, Some("belongs to user 0")),
            (facts_of(1000, 0o40_770), 1000, Some("chmod go-w")),
            (facts_of(1000, 0o40_702), 1000, Some("chmod go-w")),
            (facts_of(1000, 0o41_777), 1000, Some("chmod go-w")),
            (Facts { link: true, ..own }, 1000, Some("link")),
            (Facts { folder: false, ..own }, 1000, Some("no folder")),
        ] {
            let told = refusal(facts, Thing::Folder, user);
            assert_eq!(told.is_some(), said.is_some(), "{facts:?}: {told:?}");
            assert!(told.unwrap_or_default().contains(said.unwrap_or_default()));
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
        assert_eq!(read(&file), Ok(Some(String::new())));
        symlink(&file, new_folder.join("link")).expect("made");
        assert!(read(&new_folder.join("link")).is_err_and(|told| told.contains("link")));
        symlink(&new_folder, folder.path().join("folder-link")).expect("made");
        assert!(provide_folder(&folder.path().join("folder-link")).is_err_and(|told| told.contains("link")));
        std::fs::set_permissions(&new_folder, PermissionsExt::from_mode(0o777)).expect("set");
        assert!(provide_folder(&new_folder).is_err_and(|told| told.contains("chmod")));
        assert_eq!(read(&new_folder.join("none")), Ok(None));
    }

    #[test]
    fn programs_are_kept_in_the_users_cache() {
        let with = |cache: Option<&str>, home: Option<&str>| {
            programs_by(|name| (if name == "HOME" { home } else { cache }).map(PathBuf::from))
        };
        assert_eq!(with(Some("/c"), Some("/h")), Ok(PathBuf::from("/c/seawall/engines")));
        assert_eq!(with(Some("relative"), Some("/h")), Ok(PathBuf::from("/h/.cache/seawall/engines")));
        assert!(with(None, None).is_err());
    }
}
