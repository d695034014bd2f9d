//! A directory in memory: names, and the contents of the files behind them.

use crate::call::Call;
use crate::content::{Content, Hashes, at, hash};
use seawall_sys::chance::mix;
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
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Of a file: its content.
    pub content: Arc<Content>,
    /// Of a folder: its names, and what they stand for.
    pub names: BTreeMap<Name, Inode>,
    /// Its permission bits; not known of a file without a name.
    pub mode: Option<u32>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.names.keys().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>();
        write!(f, "{:?} of {} bytes {names:?}", self.kind, self.content.len())
    }
}

impl Node {
    /// An empty one.
    #[must_use]
    pub fn new(kind: Kind, mode: Option<u32>) -> Self {
        Self { kind, content: Arc::default(), names: BTreeMap::new(), mode }
    }
}

/// A directory with everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Every file and folder, also those without a name.
    pub nodes: BTreeMap<Inode, Arc<Node>>,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: BTreeMap::from([(ROOT, Arc::new(Node::new(Kind::Folder, Some(0o755))))]) }
    }
}

impl Tree {
    /// The file or folder, an empty file if a call on it was the first that is known.
    pub fn node(&mut self, inode: Inode) -> &mut Node {
        Arc::make_mut(self.nodes.entry(inode).or_insert_with(|| Arc::new(Node::new(Kind::File, None))))
    }

    fn set(&mut self, parent: Inode, name: &Name, inode: Option<Inode>) -> Option<Inode> {
        let names = &mut self.node(parent).names;
        match inode {
            Some(inode) => names.insert(Arc::clone(name), inode),
            None => names.remove(name),
        }
    }

    fn content(&mut self, inode: Inode) -> &mut Content {
        Arc::make_mut(&mut self.node(inode).content)
    }

    /// Whether this is a folder.
    pub(crate) fn is_folder(&self, inode: Inode) -> bool {
        self.nodes.get(&inode).is_some_and(|node| node.kind == Kind::Folder)
    }

    /// Changes what `call` does.
    pub(crate) fn take(&mut self, call: &Call) {
        match call {
            Call::Temporary { inode, mode } | Call::Mode { inode, mode } => {
                self.node(*inode).mode = Some(*mode);
            }
            Call::Write { inode, offset, data, .. } => self.content(*inode).write(at(*offset), data),
            Call::Zero { inode, offset, bytes } => {
                self.content(*inode).zero(at(*offset), at(offset.saturating_add(*bytes)));
            }
            Call::Resize { inode, bytes } => self.content(*inode).resize(at(*bytes)),
            _ => self.rename_by(call),
        }
    }

    /// Changes the names as `call` does; calls that change none leave the tree as it is.
    pub(crate) fn rename_by(&mut self, call: &Call) {
        match call {
            Call::Create { parent, name, inode, kind, mode } => {
                // What was already known of it came from a sync that the name lagged behind.
                let node = self.node(*inode);
                node.kind = kind.clone();
                node.mode.get_or_insert(*mode);
                self.set(*parent, name, Some(*inode));
            }
            Call::Link { inode, parent, name } => {
                self.set(*parent, name, Some(*inode));
            }
            Call::Remove { parent, name, .. } => {
                self.set(*parent, name, None);
            }
            Call::Rename { from, to, inode, over, exchange } => {
                self.set(from.0, &from.1, if *exchange { *over } else { None });
                self.set(to.0, &to.1, Some(*inode));
            }
            _ => {}
        }
    }

    /// The part that can be reached by a name.
    #[must_use]
    pub fn reachable(&self) -> Self {
        let mut found = Self { nodes: BTreeMap::new() };
        let mut due = vec![ROOT];
        while let Some(inode) = due.pop() {
            let Some(node) = self.nodes.get(&inode) else { continue };
            if found.nodes.insert(inode, Arc::clone(node)).is_none() {
                due.extend(node.names.values());
            }
        }
        found
    }

    /// A number that only trees with equal names, contents and permission bits share.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint_by(&mut Hashes::default())
    }

    /// The same, with the contents that `hashes` has seen before.
    pub(crate) fn fingerprint_by(&self, hashes: &mut Hashes) -> u64 {
        self.fingerprint_below(ROOT, 0, hashes)
    }

    fn fingerprint_below(&self, inode: Inode, depth: u32, hashes: &mut Hashes) -> u64 {
        // A rename that arrived without another one can leave a folder inside itself.
        let Some(node) = self.nodes.get(&inode).filter(|_| depth < 64) else { return 1 };
        let kind = match &node.kind {
            Kind::File => hashes.of(&node.content),
            Kind::Folder => 3,
            Kind::Symlink(target) => hash(4, target),
            Kind::Special(mode) => mix(5 ^ (u64::from(*mode) << 8)),
        };
        node.names.iter().fold(mix(kind ^ (u64::from(node.mode.unwrap_or(0)) << 16)), |all, (name, inode)| {
            mix(all ^ hash(6, name)).wrapping_add(mix(self.fingerprint_below(*inode, depth + 1, hashes)))
        })
    }
}
