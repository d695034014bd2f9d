//! A directory in memory: names, and the contents of the files behind them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file, folder or link; never used twice in a record.
pub type Inode = u32;

/// The directory itself.
pub const ROOT: Inode = 0;

/// A name in a folder: bytes, as the kernel has them.
pub type Name = Arc<[u8]>;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link and where it leads.
    Symlink(Arc<[u8]>),
    /// A pipe or socket, of this mode: it is laid out as a pipe.
    Special(u32),
}

/// A file, folder or link of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Of a file: its content.
    pub content: Arc<Vec<u8>>,
    /// Of a folder: its names, and what they stand for.
    pub names: BTreeMap<Name, Inode>,
}

impl Node {
    /// An empty one.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { kind, content: Arc::default(), names: BTreeMap::new() }
    }
}

/// A directory with everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Every file and folder, also those without a name.
    pub nodes: BTreeMap<Inode, Node>,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: BTreeMap::from([(ROOT, Node::new(Kind::Folder))]) }
    }
}
