//! Judges a state: by a command on a directory, or in this process.

use crate::error::Result;
use crate::tree::Tree;
use std::sync::Arc;

/// What a check said of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Everything acknowledged is there.
    Kept,
    /// Something is not: what the check printed, or how it ended.
    Broken(String),
}

/// Judges states; several threads ask it at once.
pub trait Check: Sync {
    /// Whether `state` holds what `acknowledged` says.
    ///
    /// # Errors
    /// The check could not be run at all.
    fn judge(&self, state: &Tree, acknowledged: &[Arc<[u8]>]) -> Result<Answer>;
}

/// The directory as it is on the disk, and its permission bits.
///
/// # Errors
/// A file cannot be read.
pub fn load(
    directory: &std::path::Path,
) -> Result<(Tree, std::collections::BTreeMap<crate::tree::Inode, u32>)> {
    use crate::tree::{Kind, Node, ROOT};
    use std::os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    };
    let failed = |path: &std::path::Path| {
        let path = path.to_owned();
        move |cause| crate::Error::File { action: "reading", path, cause }
    };
    let (mut tree, mut modes) = (Tree::default(), std::collections::BTreeMap::new());
    let mut known = std::collections::BTreeMap::new();
    let mut due = vec![(ROOT, directory.to_owned())];
    let mut next = ROOT;
    while let Some((folder, path)) = due.pop() {
        for entry in std::fs::read_dir(&path).map_err(failed(&path))? {
            let entry = entry.map_err(failed(&path))?;
            let path = entry.path();
            let about = entry.metadata().map_err(failed(&path))?;
            let inode = *known.entry(about.ino()).or_insert_with(|| {
                next += 1;
                next
            });
            let kind = match about.file_type() {
                kind if kind.is_dir() => Kind::Folder,
                kind if kind.is_file() => Kind::File,
                kind if kind.is_symlink() => Kind::Symlink(
                    std::fs::read_link(&path).map_err(failed(&path))?.as_os_str().as_bytes().into(),
                ),
                _ => Kind::Special(about.mode()),
            };
            let mut node = Node::new(kind);
            match node.kind {
                Kind::Folder => due.push((inode, path.clone())),
                Kind::File => node.content = Arc::new(std::fs::read(&path).map_err(failed(&path))?),
                _ => {}
            }
            modes.insert(inode, about.permissions().mode() & 0o7777);
            tree.nodes.insert(inode, node);
            let names = &mut tree.nodes.get_mut(&folder).expect("it was found before").names;
            names.insert(entry.file_name().as_bytes().into(), inode);
        }
    }
    Ok((tree, modes))
}
