//! Maps names to files of the simulated disk, shared between images until changed.
//!
//! A directory is copied for every image that is drawn, far more often than it changes: so it is shared until it
//! changes, and each name stores its hash.

use std::rc::Rc;

use super::rng::mix;

/// A name, with the hash of its text.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: Rc<str>,
    pub(crate) hash: u64,
}

impl Name {
    pub(crate) fn new(text: &str) -> Self {
        let hash = mix(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, text.as_bytes()));
        Self { text: text.into(), hash }
    }
}

/// A directory: names in order, each with the number of its inode.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Rc<Vec<(Name, usize)>>);

impl Names {
    fn place(&self, text: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(name, _)| (*name.text).cmp(text))
    }

    /// The inode that the name stands for.
    pub(crate) fn get(&self, text: &str) -> Option<usize> {
        self.place(text).ok().map(|at| self.0[at].1)
    }

    /// Every name with its inode, in order of the names.
    pub(crate) fn as_slice(&self) -> &[(Name, usize)] {
        &self.0
    }

    fn set(&mut self, name: &Name, inode: usize) {
        let place = self.place(&name.text);
        let all = Rc::make_mut(&mut self.0);
        match place {
            Ok(at) => all[at].1 = inode,
            Err(at) => all.insert(at, (name.clone(), inode)),
        }
    }

    fn remove(&mut self, name: &Name) {
        if let Ok(at) = self.place(&name.text) {
            Rc::make_mut(&mut self.0).remove(at);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum NameChange {
    /// The name stands for this inode.
    Set(Name, usize),
    /// The first name goes, the second one stands for the inode.
    Rename(Name, Name, usize),
    Remove(Name),
}

impl NameChange {
    pub(crate) fn apply(&self, names: &mut Names) {
        match self {
            Self::Set(name, inode) => names.set(name, *inode),
            Self::Rename(from, to, inode) => {
                names.remove(from);
                names.set(to, *inode);
            }
            Self::Remove(name) => names.remove(name),
        }
    }
}
