//! Parses `/proc/self/mountinfo` and finds the mount of a path.
//!
//! The format is that of the kernel's `Documentation/filesystems/proc.rst` 3.5:
//!
//! ```text
//!   36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//!   id |  |    |     |     |          |        | |    |         super block's options
//!      |  |    |     |     |          |        | |    source
//!      |  |    |     |     |          |        | kind
//!      |  |    |     |     |          |        end of the optional fields, of which there are none or many
//!      |  |    |     |     mount's own options
//!      |  |    |     mount point; white space and backslashes as three octal digits
//!      |  |    the folder of the file system that is mounted (a bind mount's, a subvolume's)
//!      |  st_dev of its files, except where a file system hands out anonymous numbers (btrfs, overlay)
//!      parent's id
//! ```
//!
//! Invariants: the functions are pure, over text; a line of another form is skipped, never guessed at.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) id: u64,
    pub(super) device: (u32, u32),
    pub(super) root: PathBuf,
    pub(super) point: PathBuf,
    pub(super) kind: String,
    pub(super) source: PathBuf,
    pub(super) own_options: Vec<String>,
    pub(super) super_options: Vec<String>,
    /// Options in force that the table does not list: see [`super::ext4`].
    pub(super) unlisted_options: Vec<String>,
}

/// What is known about a path whose mount is wanted.
pub(super) struct Key<'a> {
    /// The kernel's own answer (`mnt_id` in `/proc/self/fdinfo`, Linux 3.15): always right where it is there.
    pub(super) id: Option<u64>,
    /// The path's `st_dev`, if it is known.
    pub(super) device: Option<(u32, u32)>,
    /// The path without symbolic links.
    pub(super) path: &'a Path,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let mut next = || fields.next();
        let id = next()?.parse().ok()?;
        next()?;
        let (major, minor) = next()?.split_once(':')?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        let (root, point, own_options) = (next()?, next()?, next()?);
        while next()? != "-" {}
        let (kind, source, super_options) = (next()?, next()?, next().unwrap_or(""));
        Some(Self {
            id,
            device,
            root: unescaped(root),
            point: unescaped(point),
            kind: kind.to_owned(),
            source: unescaped(source),
            own_options: options(own_options),
            super_options: options(super_options),
            unlisted_options: Vec::new(),
        })
    }

    /// What stands in for a mount that no table lists: its files' `st_dev`, and what statfs(2) calls it.
    pub(super) fn unlisted(device: (u32, u32), kind: &str) -> Self {
        Self {
            id: 0,
            device,
            root: PathBuf::new(),
            point: PathBuf::new(),
            kind: kind.to_owned(),
            source: PathBuf::new(),
            own_options: Vec::new(),
            super_options: Vec::new(),
            unlisted_options: Vec::new(),
        }
    }

    /// The options in force: the mount's own and the super block's, each once, `ro` winning over `rw`.
    pub(super) fn options(&self) -> Vec<String> {
        let mut all = vec![if self.is_read_only() { "ro" } else { "rw" }.to_owned()];
        for option in self.own_options.iter().chain(&self.super_options) {
            if option != "rw" && !all.contains(option) {
                all.push(option.clone());
            }
        }
        all
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.super_options.iter().chain(&self.unlisted_options).any(|own| own == option)
    }

    /// Whether the mount or its super block is read-only.
    pub(super) fn is_read_only(&self) -> bool {
        self.own_options.iter().chain(&self.super_options).any(|option| option == "ro")
    }

    /// The value of a `name=value` option of the super block.
    pub(super) fn super_value(&self, name: &str) -> Option<&str> {
        self.super_options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The mounts in the table's order: a later one hides an earlier one at the same point.
pub(super) fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(Mount::parse).collect()
}

/// The mount that a path is on: by id, else the longest mount point above it, those of its `st_dev` first.
pub(super) fn find<'a>(mounts: &'a [Mount], key: &Key<'_>) -> Option<&'a Mount> {
    if let Some(mount) = mounts.iter().find(|mount| Some(mount.id) == key.id) {
        return Some(mount);
    }
    let above = || mounts.iter().filter(|mount| key.path.starts_with(&mount.point));
    let longest = |mount: &&Mount| mount.point.components().count();
    let of_device = above().filter(|mount| Some(mount.device) == key.device).max_by_key(longest);
    // An id that the table does not list is that of a mount outside of it (`chroot`): not one of these.
    let by_path = || if key.id.is_some() { None } else { above().max_by_key(longest) };
    of_device.or_else(by_path)
}

/// Options are split at commas before escapes are undone, because a comma inside a value is written `\054`.
fn options(field: &str) -> Vec<String> {
    let all = field.split(',').filter(|option| !option.is_empty());
    all.map(|option| unescaped(option).to_string_lossy().into_owned()).collect()
}

/// Undoes `\040` and its like.
fn unescaped(field: &str) -> PathBuf {
    let bytes = field.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if let Some(byte) = bytes.get(at..at + 4).and_then(octal) {
            plain.push(byte);
            at += 4;
        } else {
            plain.push(bytes[at]);
            at += 1;
        }
    }
    PathBuf::from(OsString::from_vec(plain))
}

fn octal(escape: &[u8]) -> Option<u8> {
    let (b'\\', digits) = escape.split_first()? else { return None };
    let value = digits.iter().try_fold(0_u32, |value, digit| match digit {
        b'0'..=b'7' => Some(value * 8 + u32::from(digit - b'0')),
        _ => None,
    })?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
40 27 8:1 / /data\\040one rw,noatime shared:2 master:3 - xfs /dev/sda1 rw,attr2
41 27 8:1 /inner /data\\040one/deep ro,relatime - xfs /dev/sda1 rw,attr2
42 27 0:50 / /over rw - tmpfs first rw
43 27 0:51 / /over rw - tmpfs second rw
44 27 0:52 / /merged rw - overlay overlay rw,upperdir=/a\\054b/u,workdir=/w,volatile
not a line
45 27 bad / /x rw - ext4 /dev/x rw
46 27 1:2 / /y rw";

    #[test]
    fn lines_are_parsed_and_others_passed_over() {
        let mounts = parse(TABLE);
        let points: Vec<_> = mounts.iter().map(|mount| mount.point.to_str().expect("text")).collect();
        assert_eq!(points, ["/proc", "/", "/data one", "/data one/deep", "/over", "/over", "/merged"]);
        assert_eq!(mounts[3].root, Path::new("/inner"));
        assert_eq!(mounts[1].options(), ["rw", "relatime", "discard"]);
        assert_eq!(mounts[3].options(), ["ro", "relatime", "attr2"]);
        assert!(mounts[3].is_read_only() && !mounts[2].is_read_only());
        assert_eq!(mounts[6].super_value("workdir"), Some("/w"));
        assert_eq!(mounts[6].super_value("work"), None);
    }

    #[test]
    fn a_path_is_on_the_mount_that_the_kernel_names_or_the_longest_above_it() {
        let mounts = parse(TABLE);
        let rows = [
            (None, None, "/home", 27),
            (None, None, "/proc/1", 22),
            (None, Some((8, 1)), "/data one/x", 40),
            (None, Some((8, 1)), "/data one/deep/x", 41),
            (None, Some((254, 0)), "/data one/x", 27),
            (None, None, "/over", 43),
            (None, Some((0, 50)), "/over", 42),
            (Some(42), Some((8, 1)), "/data one", 42),
        ];
        for (id, device, path, expected) in rows {
            let found = find(&mounts, &Key { id, device, path: Path::new(path) });
            assert_eq!(found.map(|mount| mount.id), Some(expected), "{id:?} {device:?} {path}");
        }
        let outside = Key { id: Some(99), device: Some((3, 3)), path: Path::new("/home") };
        assert_eq!(find(&mounts, &outside), None);
        assert_eq!(find(&[], &Key { id: Some(1), device: None, path: Path::new("/") }), None);
    }

    #[test]
    fn escapes_are_undone_and_half_escapes_kept() {
        let rows =
            [("a\\040b", "a b"), ("\\134", "\\"), ("a\\04", "a\\04"), ("\\999", "\\999"), ("\\777", "\\777")];
        for (escaped, plain) in rows {
            assert_eq!(unescaped(escaped), Path::new(plain));
        }
        assert_eq!(options("a=x\\054y,b,,c"), ["a=x,y", "b", "c"]);
    }
}
