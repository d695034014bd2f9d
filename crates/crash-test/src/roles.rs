//! Names files by what they are for: `data/00017.log` and `data/00018.log` have one role, `data/#.log`.

use crate::call::{Call, Record};
use crate::tree::{Inode, Kind, Name, ROOT};
use std::collections::{BTreeMap, BTreeSet};

/// The role of each file and folder at each event.
#[derive(Debug)]
pub(crate) struct Roles {
    /// For each event: the role of what it is about; of a name call, the role of the (new) name.
    pub(crate) of: Vec<String>,
    /// For each event: the path of it, as a user reads it.
    pub(crate) paths: Vec<String>,
    /// For each event: what it is about.
    pub(crate) inodes: Vec<Inode>,
    folders: BTreeSet<Inode>,
}

/// Where each file has one of its names.
#[derive(Debug, Default)]
struct Places(BTreeMap<Inode, (Inode, Name)>);

impl Places {
    fn path(&self, inode: Inode) -> String {
        let mut parts = Vec::new();
        let mut at = inode;
        while at != ROOT && parts.len() < 64 {
            let Some((parent, name)) = self.0.get(&at) else {
                parts.push("(a file without a name)".to_owned());
                break;
            };
            parts.push(shown(name));
            at = *parent;
        }
        if parts.is_empty() {
            return ".".to_owned();
        }
        parts.reverse();
        parts.join("/")
    }
}

/// A name as a report shows it.
fn shown(name: &[u8]) -> String {
    seawall_sys::text::printable(&String::from_utf8_lossy(name)).into_owned()
}

/// A path with every run of digits as `#`.
pub(crate) fn role(path: &str) -> String {
    let mut role = String::with_capacity(path.len());
    for letter in path.chars() {
        let letter = if letter.is_ascii_digit() { '#' } else { letter };
        if letter != '#' || !role.ends_with('#') {
            role.push(letter);
        }
    }
    role
}

impl Roles {
    /// Follows the names through `record`.
    pub(crate) fn of(record: &Record) -> Self {
        let mut places = Places::default();
        for (parent, node) in &record.before.nodes {
            for (name, inode) in &node.names {
                places.0.insert(*inode, (*parent, name.clone()));
            }
        }
        let is_folder =
            |(inode, node): (&Inode, &crate::tree::Node)| (node.kind == Kind::Folder).then_some(*inode);
        let mut folders: BTreeSet<Inode> = record.before.nodes.iter().filter_map(is_folder).collect();
        let (mut paths, mut inodes) = (Vec::with_capacity(record.events.len()), Vec::new());
        for event in &record.events {
            let inode = match &event.call {
                Call::Create { parent, name, inode, .. } | Call::Link { inode, parent, name } => {
                    places.0.insert(*inode, (*parent, name.clone()));
                    *inode
                }
                Call::Rename { from, to, inode, over, exchange } => {
                    places.0.insert(*inode, to.clone());
                    if let (Some(over), true) = (over, exchange) {
                        places.0.insert(*over, from.clone());
                    }
                    *inode
                }
                // Unlinked files keep the name that they had.
                Call::Remove { inode, .. }
                | Call::Temporary { inode }
                | Call::Write { inode, .. }
                | Call::Zero { inode, .. }
                | Call::Resize { inode, .. }
                | Call::Sync { inode, .. } => *inode,
                Call::SyncAll | Call::Acknowledge { .. } => ROOT,
            };
            if matches!(event.call, Call::Create { kind: Kind::Folder, .. }) {
                folders.insert(inode);
            }
            paths.push(places.path(inode));
            inodes.push(inode);
        }
        Self { of: paths.iter().map(|path| role(path)).collect(), paths, inodes, folders }
    }

    /// The role of the folder of a path.
    pub(crate) fn folder_of(path: &str) -> String {
        role(path.rsplit_once('/').map_or(".", |(folder, _)| folder))
    }

    /// A sync of what has this role, in words.
    pub(crate) fn sync_of(role: &str, folder: bool) -> String {
        match (folder, role) {
            (true, ".") => "fsync of the directory".to_owned(),
            (true, _) => format!("fsync of the directory {role}"),
            (false, _) => format!("fsync of {role}"),
        }
    }

    /// The sync that `event` is, in words; nothing if it is another call.
    pub(crate) fn sync(&self, place: usize, call: &Call) -> Option<String> {
        match call {
            Call::Sync { inode, .. } => Some(Self::sync_of(&self.of[place], self.folders.contains(inode))),
            Call::SyncAll => Some("sync".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::role;

    #[test]
    fn a_run_of_digits_is_one_sign() {
        assert_eq!(role("data/00017.log"), "data/#.log");
        assert_eq!(role("key#1"), "key#");
        assert_eq!(role("."), ".");
    }
}
