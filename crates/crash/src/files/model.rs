//! Models which data, sizes and names may be in a directory after the power went.
//!
//! [`Model`] takes in the record event by event and separates what is durable from what may or may not be. Images are
//! drawn from it under one of two rules:
//!
//! | | data, size and names not yet synced | a sync of a file |
//! | --- | --- | --- |
//! | strict | each arrives or not, independently of all others | makes that file's data and size durable |
//! | journal | data and sizes likewise; names only in order | also makes every earlier change of a name durable |
//!
//! Strict is what POSIX allows, which is less than any real file system keeps: a loss under it alone means "not portable", not
//! "lost on ext4". Journal is what ext4, xfs and btrfs do.
//!
//! Invariants: a sector of 512 bytes arrives whole or not at all; a sync covers the operations that had ended before
//! it began; a rename is atomic; data past the size that arrived cannot be reached.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use seawall::sim::draw::{Deal, Draw};
use seawall::sim::rng::{Rng, mix};

use super::disk::Files;
use super::event::Event;

const SECTOR: usize = 512;

/// Which rule images are drawn by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// What POSIX allows.
    Strict,
    /// What journalling file systems do.
    Journal,
}

#[derive(Clone, Debug)]
enum Change {
    Data { offset: usize, data: Arc<[u8]>, from: usize, to: usize },
    Size { bytes: usize, extend: bool },
}

/// Something that may or may not have arrived.
#[derive(Clone, Debug)]
struct Open {
    /// The write that it belongs to.
    number: u64,
    inode: usize,
    change: Change,
    /// When it ended, if it has.
    ended: Option<u64>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(String, usize),
    Rename(String, String),
    Remove(String),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Set(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Rename(from, to) => {
                // A name whose creation was lost cannot become another one.
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

#[derive(Debug)]
enum Pending {
    Write { dsync: bool },
    Sync { inode: usize, since: u64, names: u64 },
    SyncDir { names: u64 },
}

/// The disk as far as it is certain, and what is open.
#[derive(Debug)]
pub(crate) struct Model {
    rule: Rule,
    inodes: Vec<Rc<Vec<u8>>>,
    names: BTreeMap<String, usize>,
    open: Vec<Open>,
    /// Changes of names that are open, each with its number.
    changes: Vec<(u64, NameChange)>,
    changed: u64,
    pending: HashMap<u64, Pending>,
    clock: u64,
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Data { offset, data, from, to } => {
            let room = content.len().saturating_sub(*offset).min(to - from);
            if room > 0 {
                content[*offset..offset + room].copy_from_slice(&data[*from..from + room]);
            }
        }
        Change::Size { bytes, extend } => {
            if !extend || *bytes > content.len() {
                content.resize(*bytes, 0);
            }
        }
    }
}

impl Model {
    /// An empty directory.
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            inodes: Vec::new(),
            names: BTreeMap::new(),
            open: Vec::new(),
            changes: Vec::new(),
            changed: 0,
            pending: HashMap::new(),
            clock: 0,
        }
    }

    /// Whether nothing is open, so that there is one image only.
    pub(crate) fn is_durable(&self) -> bool {
        self.open.is_empty() && self.changes.is_empty()
    }

    fn change_name(&mut self, change: NameChange) {
        self.changed += 1;
        self.changes.push((self.changed, change));
    }

    /// Takes in the next event.
    pub(crate) fn take(&mut self, event: &Event) {
        self.clock += 1;
        match event {
            Event::Created => self.inodes.push(Rc::default()),
            Event::Named { name, inode } => self.change_name(NameChange::Set(name.clone(), *inode)),
            Event::Renamed { from, to } => self.change_name(NameChange::Rename(from.clone(), to.clone())),
            Event::Removed { name } => self.change_name(NameChange::Remove(name.clone())),
            Event::Size { inode, bytes, extend } => {
                let change = Change::Size { bytes: *bytes, extend: *extend };
                self.open.push(Open { number: 0, inode: *inode, change, ended: Some(self.clock) });
            }
            Event::Write { number, inode, offset, data, dsync } => {
                self.write(*number, *inode, *offset, data, *dsync);
            }
            Event::Sync { number, inode } => {
                let pending = Pending::Sync { inode: *inode, since: self.clock, names: self.changed };
                self.pending.insert(*number, pending);
            }
            Event::SyncDir { number } => {
                self.pending.insert(*number, Pending::SyncDir { names: self.changed });
            }
            Event::Done { number } => self.done(*number),
            Event::Mark(_) => {}
        }
    }

    fn write(&mut self, number: u64, inode: usize, offset: usize, data: &Arc<[u8]>, dsync: bool) {
        self.pending.insert(number, Pending::Write { dsync });
        let mut from = 0;
        while from < data.len() {
            // Up to the next sector of the file.
            let to = data.len().min(from + SECTOR - (offset + from) % SECTOR);
            let change = Change::Data { offset: offset + from, data: Arc::clone(data), from, to };
            self.open.push(Open { number, inode, change, ended: None });
            from = to;
        }
    }

    fn done(&mut self, number: u64) {
        let now = self.clock;
        match self.pending.remove(&number) {
            Some(Pending::Write { dsync }) => {
                let mut end = (0, 0);
                for open in self.open.iter_mut().filter(|open| open.number == number) {
                    open.ended = Some(now);
                    if let Change::Data { offset, from, to, .. } = open.change {
                        end = (open.inode, offset + to - from);
                    }
                }
                if dsync {
                    // The size that is needed to read it back goes along.
                    self.make_durable(|open| {
                        let leads = open.inode == end.0
                            && matches!(open.change, Change::Size { bytes, extend: true } if bytes <= end.1);
                        open.number == number || leads
                    });
                }
            }
            Some(Pending::Sync { inode, since, names }) => {
                self.make_durable(|open| {
                    open.inode == inode && open.ended.is_some_and(|ended| ended < since)
                });
                if self.rule == Rule::Journal {
                    self.sync_names(names);
                }
            }
            Some(Pending::SyncDir { names }) => self.sync_names(names),
            None => {}
        }
    }

    /// Everything that is `chosen` is durable; older versions of its sectors are history.
    fn make_durable(&mut self, chosen: impl Fn(&Open) -> bool) {
        let mut kept: Vec<Open> = Vec::with_capacity(self.open.len());
        for open in std::mem::take(&mut self.open) {
            if !chosen(&open) {
                kept.push(open);
                continue;
            }
            if let Change::Data { offset, .. } = open.change {
                let sector = offset / SECTOR;
                kept.retain(|old| {
                    let same = matches!(old.change, Change::Data { offset, .. } if offset / SECTOR == sector);
                    old.inode != open.inode || !same
                });
            }
            apply(Rc::make_mut(&mut self.inodes[open.inode]), &open.change);
        }
        self.open = kept;
    }

    fn sync_names(&mut self, up_to: u64) {
        for (number, change) in std::mem::take(&mut self.changes) {
            if number <= up_to {
                change.apply(&mut self.names);
            } else {
                self.changes.push((number, change));
            }
        }
    }

    /// Draws an image and a number that only equal images share.
    pub(crate) fn image(&self, draw: Draw, names: Draw, rng: &mut Rng) -> (Files, u64) {
        let mut inodes = self.inodes.clone();
        let mut writes: Vec<u64> = self.open.iter().map(|open| open.number).collect();
        writes.dedup();
        let one = if writes.is_empty() { 0 } else { writes[rng.index(writes.len())] };
        let sectors = self.open.iter().filter(|open| open.number == one).count();
        let mut deal = Deal::new(draw, (one, sectors), rng);
        for open in &self.open {
            if deal.arrives(open.number, rng) {
                apply(Rc::make_mut(&mut inodes[open.inode]), &open.change);
            }
        }
        let names = self.drawn_names(names, rng);
        let files: Files = names.into_iter().map(|(name, inode)| (name, Rc::clone(&inodes[inode]))).collect();
        let key = key(&files);
        (files, key)
    }

    fn drawn_names(&self, draw: Draw, rng: &mut Rng) -> BTreeMap<String, usize> {
        let mut names = self.names.clone();
        let single = rng.index(self.changes.len());
        let cut = rng.index(self.changes.len() + 1);
        for (i, (_, change)) in self.changes.iter().enumerate() {
            let arrived = match (draw, self.rule) {
                (Draw::None, _) => false,
                (Draw::All, _) => true,
                (_, Rule::Journal) | (Draw::Torn, _) => i < cut,
                (Draw::AllButOne, _) => i != single,
                (Draw::OnlyOne, _) => i == single,
                (Draw::Half | Draw::Soup, _) => rng.coin(),
            };
            if arrived {
                change.apply(&mut names);
            }
        }
        names
    }
}

fn key(files: &Files) -> u64 {
    let hash = |bytes: &[u8]| crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes);
    files.iter().fold(0, |all, (name, content)| {
        let file = hash(name.as_bytes()) ^ mix(hash(content) ^ mix(content.len() as u64));
        mix(all ^ mix(file))
    })
}

#[cfg(test)]
mod tests {
    use super::{Draw, Event, Model, Rng, Rule};
    use std::sync::Arc;

    fn model(rule: Rule, events: &[Event]) -> Model {
        let mut model = Model::new(rule);
        for event in events {
            model.take(event);
        }
        model
    }

    fn write(number: u64, offset: usize, byte: u8, dsync: bool) -> [Event; 2] {
        let data: Arc<[u8]> = vec![byte; 1024].into();
        let size = Event::Size { inode: 0, bytes: offset + 1024, extend: true };
        [size, Event::Write { number, inode: 0, offset, data, dsync }]
    }

    fn file() -> Vec<Event> {
        vec![Event::Created, Event::Named { name: "a".to_owned(), inode: 0 }]
    }

    fn drawn(model: &Model, draw: Draw) -> Option<Vec<u8>> {
        let (files, _) = model.image(draw, draw, &mut Rng::new(1));
        files.get("a").map(|content| content.to_vec())
    }

    #[test]
    fn a_sync_covers_what_had_ended_before_it_began() {
        let mut events = file();
        events.extend(write(1, 0, 7, false));
        events.push(Event::Sync { number: 2, inode: 0 });
        events.extend([Event::Done { number: 1 }, Event::Done { number: 2 }, Event::SyncDir { number: 3 }]);
        events.push(Event::Done { number: 3 });
        assert_eq!(drawn(&model(Rule::Strict, &events), Draw::None), Some(vec![0; 1024]), "size, not data");
        events.extend([Event::Sync { number: 4, inode: 0 }, Event::Done { number: 4 }]);
        let durable = model(Rule::Strict, &events);
        assert!(durable.is_durable());
        assert_eq!(drawn(&durable, Draw::None), Some(vec![7; 1024]));
    }

    #[test]
    fn a_name_needs_a_sync_of_its_directory_unless_the_rule_is_journal() {
        let mut events = file();
        events.extend([Event::Sync { number: 1, inode: 0 }, Event::Done { number: 1 }]);
        assert_eq!(drawn(&model(Rule::Strict, &events), Draw::None), None);
        assert_eq!(drawn(&model(Rule::Journal, &events), Draw::None), Some(Vec::new()));
    }

    #[test]
    fn a_dsync_write_takes_its_size_along_and_only_when_it_ended() {
        let mut events = file();
        events.extend([Event::SyncDir { number: 1 }, Event::Done { number: 1 }]);
        events.extend(write(2, 0, 7, true));
        assert_eq!(drawn(&model(Rule::Strict, &events), Draw::None), Some(Vec::new()));
        events.push(Event::Done { number: 2 });
        assert_eq!(drawn(&model(Rule::Strict, &events), Draw::None), Some(vec![7; 1024]));
    }
}
