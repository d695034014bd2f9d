//! Names files by what they are for: `data/00017.log` and `data/00018.log` have one role, `data/#.log`.
//!
//! Temporary files have random names; those that are renamed to one role have one role, `data/tmp*`.

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
    /// A name in a folder.
    fn below(&self, parent: Inode, name: &Name) -> String {
        if parent == ROOT { shown(name) } else { format!("{}/{}", self.path(parent), shown(name)) }
    }

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
    seawall_host::text::printable(&String::from_utf8_lossy(name)).into_owned()
}

/// One role for the names of each set, up to where they differ.
fn temporary(sets: impl Iterator<Item = BTreeSet<String>>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for names in sets.filter(|names| names.len() > 1) {
        let folder = names.first().and_then(|name| name.rfind('/')).map_or(0, |slash| slash + 1);
        let common = names.iter().map(String::as_str).reduce(common).unwrap_or_default();
        // Names that begin in different ways are different files.
        if common.len() > folder {
            all.extend(names.iter().map(|name| (name.clone(), format!("{common}*"))));
        }
    }
    all
}

/// With what both begin.
fn common<'a>(one: &'a str, other: &str) -> &'a str {
    let same = one.char_indices().zip(other.chars()).find(|((_, a), b)| a != b);
    &one[..same.map_or(one.len().min(other.len()), |((at, _), _)| at)]
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
        let is_folder = |(inode, node): (&Inode, &std::sync::Arc<crate::tree::Node>)| {
            (node.kind == Kind::Folder).then_some(*inode)
        };
        let mut folders: BTreeSet<Inode> = record.before.nodes.iter().filter_map(is_folder).collect();
        let (mut paths, mut inodes) = (Vec::with_capacity(record.events.len()), Vec::new());
        let mut renamed: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        for event in &record.events {
            let inode = match &event.call {
                Call::Create { parent, name, inode, .. } | Call::Link { inode, parent, name } => {
                    places.0.insert(*inode, (*parent, name.clone()));
                    *inode
                }
                Call::Rename { from, to, inode, over, exchange } => {
                    let old = role(&places.path(*inode));
                    places.0.insert(*inode, to.clone());
                    let target = (Self::folder_of(&old), role(&places.path(*inode)));
                    renamed.entry(target).or_default().insert(old);
                    if let (Some(over), true) = (over, exchange) {
                        places.0.insert(*over, from.clone());
                    }
                    *inode
                }
                Call::Remove { inode, .. }
                | Call::Temporary { inode, .. }
                | Call::Mode { inode, .. }
                | Call::SyncFailed { inode }
                | Call::Write { inode, .. }
                | Call::Zero { inode, .. }
                | Call::Resize { inode, .. }
                | Call::Sync { inode, .. } => *inode,
                Call::SyncAll | Call::Acknowledge { .. } => ROOT,
            };
            if matches!(event.call, Call::Create { kind: Kind::Folder, .. }) {
                folders.insert(inode);
            }
            paths.push(match &event.call {
                // One that has other names keeps them.
                Call::Remove { parent, name, .. } => places.below(*parent, name),
                _ => places.path(inode),
            });
            inodes.push(inode);
        }
        let temporary = temporary(renamed.into_values());
        let role = |path: &String| {
            let role = role(path);
            temporary.get(&role).cloned().unwrap_or(role)
        };
        Self { of: paths.iter().map(role).collect(), paths, inodes, folders }
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

    /// A sync of what the event `place` is about, in words.
    pub(crate) fn sync_at(&self, place: usize) -> String {
        Self::sync_of(
            &self.of[place],
            self.inodes[place] == ROOT || self.folders.contains(&self.inodes[place]),
        )
    }

    /// The sync that `event` is, in words; nothing if it is another call.
    pub(crate) fn sync(&self, place: usize, call: &Call) -> Option<String> {
        match call {
            Call::Sync { .. } => Some(self.sync_at(place)),
            Call::SyncAll => Some("sync".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{role, temporary};
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_run_of_digits_is_one_sign() {
        assert_eq!(role("data/00017.log"), "data/#.log");
        assert_eq!(role("key#1"), "key#");
        assert_eq!(role("."), ".");
    }

    #[test]
    fn temporary_files_have_one_role() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let sets = [set(&["d/tmpq#x", "d/tmpü", "d/tmpa"]), set(&["d/a", "d/b"]), set(&["new"])];
        let expected = ["d/tmpa", "d/tmpq#x", "d/tmpü"].map(|name| (name.to_owned(), "d/tmp*".to_owned()));
        assert_eq!(temporary(sets.into_iter()), BTreeMap::from(expected));
    }
}
