//! Knows files and names: what was synced, which syncs were redundant, and what nobody made durable.
//!
//! A sync is redundant if the same file was synced before in this run, has the change time that it had then, and nothing of it
//! is dirty. A name is durable when its folder was synced after the call that made, moved or removed it.

use seawall_host::ptrace::is_on_a_disk;
use seawall_host::text::printable;
use seawall_sys::residency::dirty_bytes;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

type Id = (u64, u64);
type Time = (i64, i64);

fn id(meta: &Metadata) -> Id {
    (meta.dev(), meta.ino())
}

fn changed(meta: &Metadata) -> Time {
    (meta.ctime(), meta.ctime_nsec())
}

/// What is known of a file.
#[derive(Default)]
struct Known {
    /// Its change time at the last sync.
    synced: Option<Time>,
    /// Made in this run.
    created: bool,
    /// Opened so that its writes are syncs.
    writes_sync: bool,
    /// Mapped for writing, shared, by this path, and not synced since.
    mapped: Option<PathBuf>,
}

/// A call on a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    Create,
    Remove,
    Rename,
}

struct Pending {
    act: Act,
    path: PathBuf,
    role: String,
}

#[derive(Default)]
struct Tally {
    all: u64,
    /// Another call on the name came before its folder was synced.
    late: u64,
}

/// A sync about to happen.
pub(crate) struct Synced {
    id: Id,
    changed: Time,
    pub(crate) role: String,
    pub(crate) dirty: Option<u64>,
    pub(crate) redundant: bool,
}

pub(crate) struct Files {
    here: PathBuf,
    known: HashMap<Id, Known>,
    pending: HashMap<Id, Vec<Pending>>,
    tallies: BTreeMap<(Act, String), Tally>,
    early: BTreeMap<String, u64>,
    on_disk: HashMap<u64, bool>,
}

impl Files {
    /// `folder`: where the program starts, if not here.
    pub(crate) fn new(folder: Option<&Path>) -> Self {
        let here = folder.unwrap_or(Path::new(".")).canonicalize().unwrap_or_default();
        let (known, pending, on_disk) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { here, known, pending, tallies: BTreeMap::new(), early: BTreeMap::new(), on_disk }
    }

    /// The path relative to the current folder, with digits as `#`.
    pub(crate) fn role(&self, path: &Path) -> String {
        let short = path.strip_prefix(&self.here).unwrap_or(path);
        let text = short.to_string_lossy();
        let text = text.strip_suffix(" (deleted)").unwrap_or(&text);
        let mut role = String::new();
        for letter in printable(text).chars() {
            match letter {
                '0'..='9' if role.ends_with('#') => {}
                '0'..='9' => role.push('#'),
                other => role.push(other),
            }
        }
        if role.is_empty() { ".".to_owned() } else { role }
    }

    /// A sync of the file at `link` (`/proc/…/fd/…`, or its path) begins.
    pub(crate) fn sync(&self, link: &Path) -> Option<Synced> {
        let meta = std::fs::metadata(link).ok()?;
        let path = std::fs::read_link(link).unwrap_or_else(|_| link.to_path_buf());
        let dirty = dirty(link, &meta);
        let before = self.known.get(&id(&meta)).and_then(|known| known.synced);
        let clean = meta.is_dir() || dirty == Some(0);
        let redundant = clean && before == Some(changed(&meta));
        Some(Synced { id: id(&meta), changed: changed(&meta), role: self.role(&path), dirty, redundant })
    }

    /// It succeeded.
    pub(crate) fn synced(&mut self, sync: &Synced) {
        let known = self.known.entry(sync.id).or_default();
        known.synced = Some(sync.changed);
        known.mapped = None;
        self.pending.remove(&sync.id);
    }

    /// Everything was synced.
    pub(crate) fn synced_all(&mut self) {
        self.pending.clear();
        for known in self.known.values_mut() {
            known.mapped = None;
            // A time that no file has: not never synced, and not known to be unchanged.
            known.synced = known.synced.or(Some((0, -1)));
        }
    }

    /// A file was opened, and made by that if `created`.
    pub(crate) fn opened(&mut self, path: &Path, created: bool, writes_sync: bool) {
        let Ok(meta) = std::fs::metadata(path) else { return };
        let known = self.known.entry(id(&meta)).or_default();
        known.writes_sync |= writes_sync;
        if created {
            // The number may have been a removed file's.
            *known = Known { created, writes_sync, ..Known::default() };
            self.named(Act::Create, path, None);
        }
    }

    /// A file was mapped for writing.
    pub(crate) fn mapped(&mut self, link: &Path) {
        let Some(meta) = std::fs::metadata(link).ok().filter(Metadata::is_file) else { return };
        let path = std::fs::read_link(link).unwrap_or_default();
        self.known.entry(id(&meta)).or_default().mapped = Some(path);
    }

    /// Before a rename: whether data of the file would come later than its name.
    pub(crate) fn is_early(&self, from: &Path) -> bool {
        let Some(meta) = std::fs::symlink_metadata(from).ok().filter(Metadata::is_file) else { return false };
        let known = self.known.get(&id(&meta));
        let never = known.is_some_and(|known| known.created && known.synced.is_none());
        let safe = meta.size() == 0 || known.is_some_and(|known| known.writes_sync);
        !safe && (never || dirty(from, &meta).is_some_and(|bytes| bytes > 0))
    }

    /// A name was made, removed, or came from another one; `early`: before the data was synced.
    pub(crate) fn renamed(&mut self, from: &Path, to: &Path, early: bool) {
        if self.named(Act::Rename, to, Some(from)) && early {
            *self.early.entry(format!("{} to {}", self.role(from), self.role(to))).or_default() += 1;
        }
    }

    /// Notes a call on a name; whether it lies on a disk.
    pub(crate) fn named(&mut self, act: Act, path: &Path, from: Option<&Path>) -> bool {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let Ok(meta) = std::fs::metadata(parent) else { return false };
        let on_disk = || File::open(parent).is_ok_and(|folder| is_on_a_disk(&folder));
        if !*self.on_disk.entry(meta.dev()).or_insert_with(on_disk) {
            return false;
        }
        let role = match from {
            Some(from) => format!("{} to {}", self.role(from), self.role(path)),
            None => self.role(path),
        };
        let mut was_new = false;
        for waiting in self.pending.values_mut() {
            waiting.retain(|pending| {
                let same = pending.path == path;
                if same && let Some(tally) = self.tallies.get_mut(&(pending.act, pending.role.clone())) {
                    tally.late += 1;
                }
                // A new name that went away again was never to be durable.
                let gone = from == Some(&*pending.path) && pending.act == Act::Create;
                was_new |= same && pending.act == Act::Create;
                !same && !gone
            });
        }
        self.tallies.entry((act, role.clone())).or_default().all += 1;
        if act != Act::Remove || !was_new {
            let path = path.to_path_buf();
            self.pending.entry(id(&meta)).or_default().push(Pending { act, path, role });
        }
        true
    }

    /// What nobody made durable, a sentence each.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut never: BTreeMap<(Act, &str), (u64, &Path)> = BTreeMap::new();
        for pending in self.pending.values().flatten() {
            let row = never.entry((pending.act, &pending.role)).or_insert((0, &pending.path));
            row.0 += 1;
        }
        let mut all = Vec::new();
        for ((act, role), (count, path)) in never {
            let tally = self.tallies.get(&(act, role.to_owned()));
            let (made, late) = tally.map_or((count, 0), |tally| (tally.all, tally.late));
            let verb = match act {
                Act::Create => "create",
                Act::Remove => "unlink",
                Act::Rename => "rename",
            };
            let folder = self.role(path.parent().unwrap_or(Path::new("/")));
            let how = if late > 0 && made > count {
                format!("{made} times, {late} made durable only by a later step's sync, {count} never")
            } else {
                format!("{count} of {made} never made durable")
            };
            all.push(format!("{verb} of {role}: {how}; missing: fsync of {folder} after it"));
        }
        for (what, count) in &self.early {
            all.push(format!("{what}: renamed before fsync of the file, {count} times"));
        }
        let mut mapped: Vec<String> = Vec::new();
        for (id_before, known) in &self.known {
            let Some(path) = &known.mapped else { continue };
            let Ok(meta) = std::fs::metadata(path) else { continue };
            let on_disk = || File::open(path).is_ok_and(|file| is_on_a_disk(&file));
            if id(&meta) == *id_before && meta.size() > 0 && !known.writes_sync && on_disk() {
                mapped.push(format!("{}: mapped for writing, never msync'ed or fsync'ed", self.role(path)));
            }
        }
        mapped.sort();
        mapped.dedup();
        all.extend(mapped);
        all
    }
}

/// The dirty bytes of a file; `None` if they are not known.
fn dirty(link: &Path, meta: &Metadata) -> Option<u64> {
    if !meta.is_file() && !meta.file_type().is_block_device() {
        return None;
    }
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(link).ok()?;
    dirty_bytes(&file)
}
