//! What of a record may have arrived on the disk when the power went.
//!
//! Two lists hold what is not certain yet: changes of names, in order, and for each file its writes and resizes. A state is
//! one choice of what arrived ([`Arrival`]), and [`Model::close`] makes any choice one that the rule allows:
//!
//! | rule | names, sizes cut | a sync of a file also keeps | a sync of a folder keeps |
//! | --- | --- | --- | --- |
//! | posix | any, but a name changes in order | | its names |
//! | ext4, xfs | a prefix: one journal | every change of names before the file's last change | every change before its last |
//! | btrfs | a prefix, and what was logged | the names of the file and the folders that are new | its names |
//!
//! Data is alike under all: each page arrives or not, and the size follows the last one that did; under posix the size may
//! also arrive alone. The write that was under way is torn at sectors.
//!
//! Invariants: a sync covers the calls that had ended before it began, and counts once it was answered; a rename is atomic;
//! the states of every rule are states of posix.

use crate::call::{Call, Event, Record};
use crate::content::{Content, at};
use crate::rule::Rule;
use crate::tree::{Inode, Name, Tree};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Pages are written back as a whole.
pub(crate) const PAGE: u64 = 4096;
/// What a disk writes as a whole.
pub(crate) const SECTOR: u64 = 512;

/// What of one write arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Nothing.
    Nothing,
    /// All of it.
    Whole,
    /// The size that it gave the file, and no data.
    Size,
    /// Only the bytes from the first to the second, as offsets in the file.
    Range(u64, u64),
    /// All but these; the size is that of the whole write.
    Without(u64, u64),
}

/// One choice of what arrived, for the lists of a model.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// For each change of names.
    pub(crate) names: Vec<bool>,
    /// For each file, for each of its writes.
    pub(crate) data: BTreeMap<Inode, Vec<Part>>,
}

/// A name in a folder.
type Place = (Inode, Name);

/// A change of names that is not certain yet.
#[derive(Clone, Debug)]
pub(crate) struct NameChange {
    /// Its place in the record.
    pub(crate) event: usize,
    call: Call,
    /// Its place in the journal, from 1.
    sequence: usize,
    /// Whether a sync made it certain; it waits for one before it that touches the same name.
    pub(crate) durable: bool,
}

/// A change of a file's content that is not certain yet.
#[derive(Clone, Debug)]
pub(crate) struct DataChange {
    /// Its place in the record.
    pub(crate) event: usize,
    pub(crate) call: Call,
    /// When it had ended.
    ended: usize,
    /// Of a change that the journal has: its place there.
    sequence: Option<usize>,
    /// Whether a sync made it certain.
    pub(crate) durable: bool,
    /// Whether a sync of it failed: the kernel takes it for written back, and no later sync does it again.
    dropped: bool,
}

impl DataChange {
    /// Whether it is data, which arrives by pages; else the journal has it.
    pub(crate) fn is_write(&self) -> bool {
        self.sequence.is_none()
    }

    /// Of a change of permission bits: those after it.
    pub(crate) fn mode(&self) -> Option<u32> {
        match self.call {
            Call::Mode { mode, .. } => Some(mode),
            _ => None,
        }
    }

    /// Of a write: where it begins and ends in the file.
    pub(crate) fn span(&self) -> (u64, u64) {
        match &self.call {
            Call::Write { offset, data, .. } => (*offset, *offset + data.len() as u64),
            _ => (0, 0),
        }
    }
}

/// How far the journal was when a file last changed.
#[derive(Clone, Copy, Debug, Default)]
struct Changed {
    /// In any way.
    at_all: usize,
    /// In a way that reading its data back needs.
    data: usize,
}

/// Contents by what is open of a file and what of it arrived, which also says what is certain: most choices differ in one file.
#[derive(Debug, Default)]
pub(crate) struct Made {
    known: HashMap<Vec<(usize, Part)>, Arc<Content>>,
    /// What they take, in parts and words.
    size: usize,
}

impl Made {
    /// The most that they may take: a run that never syncs has keys as long as itself.
    const MAX: usize = 1 << 20;
}

/// A sync that has not been answered yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    place: usize,
    ended: usize,
    /// `None`: of everything.
    inode: Option<Inode>,
    /// How much of the journal it makes certain under ext4 and xfs.
    keeps: usize,
    /// Whether it leaves out what reading data back does not need.
    data_only: bool,
}

/// The disk as far as it is certain, and what is open.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) rule: Rule,
    certain: Tree,
    /// The directory as the program sees it.
    seen: Tree,
    sizes: BTreeMap<Inode, u64>,
    pub(crate) names: Vec<NameChange>,
    pub(crate) files: BTreeMap<Inode, Vec<DataChange>>,
    changed: BTreeMap<Inode, Changed>,
    pending: Vec<Pending>,
    /// Changes that the journal has seen.
    journal: usize,
    /// How many of them are certain, the first ones; under ext4, xfs and btrfs.
    committed: usize,
    taken: usize,
    /// Whether a rename may arrive in two steps, as some of btrfs do; states are drawn without.
    in_steps: bool,
}

impl Model {
    pub(crate) fn new(record: &Record, rule: Rule) -> Self {
        let sizes = record.before.nodes.iter().map(|(inode, node)| (*inode, node.content.len() as u64));
        Self {
            rule,
            certain: record.before.clone(),
            seen: record.before.clone(),
            sizes: sizes.collect(),
            names: Vec::new(),
            files: BTreeMap::new(),
            changed: BTreeMap::new(),
            pending: Vec::new(),
            journal: 0,
            committed: 0,
            taken: 0,
            in_steps: false,
        }
    }

    /// Takes in the next event of the record.
    pub(crate) fn take(&mut self, event: &Event) {
        self.settle();
        let place = self.taken;
        self.taken += 1;
        match &event.call {
            Call::Create { .. } | Call::Link { .. } | Call::Remove { .. } | Call::Rename { .. } => {
                self.name(place, &event.call);
            }
            Call::Temporary { inode, mode } => {
                // Nothing shows it before it has a name.
                self.certain.node(*inode).mode = Some(*mode);
                self.touch(*inode, true);
            }
            Call::Mode { inode, .. } => {
                self.journal += 1;
                self.touch(*inode, self.rule == Rule::Xfs);
                self.data(place, event, *inode, Some(self.journal));
            }
            Call::Write { inode, offset, data, .. } => {
                let end = offset + data.len() as u64;
                let grows = end > self.size(*inode);
                let size = self.size(*inode).max(end);
                self.sizes.insert(*inode, size);
                self.touch(*inode, grows);
                self.data(place, event, *inode, None);
            }
            Call::Zero { inode, .. } => self.journalled(place, event, *inode),
            Call::Resize { inode, bytes } => {
                self.sizes.insert(*inode, *bytes);
                self.journalled(place, event, *inode);
            }
            Call::Sync { inode, data_only } => {
                let changed = self.changed.get(inode).copied().unwrap_or_default();
                let keeps =
                    if *data_only && !self.seen.is_folder(*inode) { changed.data } else { changed.at_all };
                self.pend(place, event, Some(*inode), keeps, *data_only);
            }
            Call::SyncFailed { inode } => {
                let changes = self.files.get_mut(inode).into_iter().flatten();
                changes.filter(|change| change.is_write()).for_each(|change| change.dropped = true);
            }
            Call::SyncAll => self.pend(place, event, None, self.journal, false),
            Call::Acknowledge { .. } => {}
        }
    }

    fn pend(&mut self, place: usize, event: &Event, inode: Option<Inode>, keeps: usize, data_only: bool) {
        self.pending.push(Pending { place, ended: event.ended, inode, keeps, data_only });
    }

    fn size(&self, inode: Inode) -> u64 {
        self.sizes.get(&inode).copied().unwrap_or(0)
    }

    fn touch(&mut self, inode: Inode, data: bool) {
        let changed = self.changed.entry(inode).or_default();
        changed.at_all = self.journal;
        if data {
            changed.data = self.journal;
        }
    }

    fn name(&mut self, place: usize, call: &Call) {
        self.journal += 1;
        let change = NameChange { event: place, call: call.clone(), sequence: self.journal, durable: false };
        for inode in inodes(call) {
            self.touch(inode, matches!(call, Call::Create { .. }));
        }
        for (parent, _) in places(call) {
            self.touch(parent, true);
        }
        self.seen.rename_by(call);
        self.names.push(change);
    }

    fn data(&mut self, place: usize, event: &Event, inode: Inode, sequence: Option<usize>) {
        let call = event.call.clone();
        let change =
            DataChange { event: place, call, ended: event.ended, sequence, durable: false, dropped: false };
        self.files.entry(inode).or_default().push(change);
    }

    fn journalled(&mut self, place: usize, event: &Event, inode: Inode) {
        self.journal += 1;
        self.touch(inode, true);
        self.data(place, event, inode, Some(self.journal));
    }

    /// Carries out the syncs that have been answered by now.
    pub(crate) fn settle(&mut self) {
        let now = self.taken;
        let (due, left) = self.pending.iter().partition(|pending| pending.ended <= now);
        self.pending = left;
        for sync in due {
            self.sync(sync);
        }
    }

    fn sync(&mut self, sync: Pending) {
        // xfs and btrfs log the whole inode, whichever sync it was.
        let leaves_modes = sync.data_only && matches!(self.rule, Rule::Posix | Rule::Ext4);
        let covered = |change: &DataChange| {
            change.ended <= sync.place && !change.dropped && !(leaves_modes && change.mode().is_some())
        };
        let Some(inode) = sync.inode else {
            for change in self.files.values_mut().flatten().filter(|change| covered(change)) {
                change.durable = true;
            }
            self.keep(sync.place, |_| true);
            self.committed = self.committed.max(sync.keeps);
            self.fold();
            return;
        };
        for change in self.files.get_mut(&inode).into_iter().flatten().filter(|change| covered(change)) {
            change.durable = true;
        }
        let folder = self.seen.is_folder(inode);
        match self.rule {
            Rule::Posix if folder => {
                self.keep(sync.place, |call| match call {
                    // Both folders of a rename change in one step; the new name is what the sync was for.
                    Call::Rename { to, .. } => to.0 == inode,
                    _ => places(call).any(|(parent, _)| parent == inode),
                });
            }
            Rule::Posix => {}
            Rule::Ext4 | Rule::Xfs => {
                self.committed = self.committed.max(sync.keeps);
                let committed = self.committed;
                for change in &mut self.names {
                    change.durable |= change.sequence <= committed;
                }
                for change in self.files.values_mut().flatten() {
                    change.durable |= change.sequence.is_some_and(|sequence| sequence <= committed);
                }
            }
            Rule::Btrfs => self.log(sync.place, inode, folder),
        }
        self.fold();
    }

    /// From now on a rename may arrive in two steps: btrfs can log the new name without the old one's end.
    pub(crate) fn in_steps(self) -> Self {
        Self { in_steps: self.rule == Rule::Btrfs, ..self }
    }

    /// Puts what `steps` makes of each change of names that is not certain in its place.
    fn split_names(&mut self, steps: impl Fn(&Call) -> Option<[Call; 2]>) {
        let split = |change: NameChange| match steps(&change.call).filter(|_| !change.durable) {
            Some(calls) => calls.map(|call| NameChange { call, ..change.clone() }).to_vec(),
            None => vec![change],
        };
        self.names = std::mem::take(&mut self.names).into_iter().flat_map(split).collect();
    }

    /// Renames over a name that are not certain, in two steps: the name goes, and comes again.
    pub(crate) fn split_replacements(&mut self) {
        if self.in_steps {
            self.split_names(|call| match call {
                Call::Rename { from, to, inode, over: Some(over), exchange: false } => {
                    let gone = Call::Remove { parent: to.0, name: Arc::clone(&to.1), inode: *over };
                    let (from, to) = (from.clone(), to.clone());
                    Some([gone, Call::Rename { from, to, inode: *inode, over: None, exchange: false }])
                }
                _ => None,
            });
        }
    }

    /// Makes the changes before `place` that `chosen` names certain.
    fn keep(&mut self, place: usize, chosen: impl Fn(&Call) -> bool) {
        for change in self.names.iter_mut().filter(|change| change.event < place && chosen(&change.call)) {
            change.durable = true;
        }
    }

    /// What btrfs writes to its log for a sync: the names of the file, or of the folder, and what they need.
    fn log(&mut self, place: usize, inode: Inode, folder: bool) {
        self.split_replacements();
        if self.in_steps && folder {
            self.split_names(|call| match call {
                Call::Rename { from, to, inode: moved, exchange: false, .. }
                    if to.0 == inode && from.0 != inode =>
                {
                    let come = Call::Link { inode: *moved, parent: to.0, name: Arc::clone(&to.1) };
                    Some([come, Call::Remove { parent: from.0, name: Arc::clone(&from.1), inode: *moved }])
                }
                _ => None,
            });
        }
        let mut about = BTreeSet::from([inode]);
        // Each pass can show a folder or a former owner of a name that has to be there too.
        loop {
            let before = about.len();
            let (mut taken, mut left): (BTreeSet<Place>, BTreeSet<Place>) = Default::default();
            let mut known: BTreeSet<Inode> = BTreeSet::new();
            for change in self.names.iter_mut().rev().filter(|change| change.event < place) {
                let of_folder = folder && places(&change.call).any(|(parent, _)| parent == inode);
                let of_file = inodes(&change.call).any(|one| about.contains(&one));
                // What the disk has under a name gives it up first; what is known already has its own past.
                let same_name = places(&change.call).any(|one| {
                    let owner = self.certain.nodes.get(&one.0).and_then(|folder| folder.names.get(&one.1));
                    let gives_up = |inode| known.contains(&inode) || owner == Some(&inode);
                    taken.contains(&one) && inodes(&change.call).any(gives_up)
                });
                if of_folder || of_file || same_name || change.durable {
                    change.durable = true;
                    taken.extend(places(&change.call));
                    known.extend(inodes(&change.call));
                    // A folder that is new is logged with a name in it that stays; one that was there needs nothing.
                    let stays = places(&change.call).last().filter(|place| !left.contains(place));
                    let stays = stays.filter(|_| !matches!(change.call, Call::Remove { .. }));
                    about.extend(
                        stays
                            .map(|(parent, _)| parent)
                            .filter(|parent| !self.certain.nodes.contains_key(parent)),
                    );
                    if let Call::Rename { from, exchange: false, .. } = &change.call {
                        left.insert(from.clone());
                    }
                    about.extend(inodes(&change.call).filter(|_| same_name && !(self.in_steps && of_folder)));
                }
            }
            if about.len() == before {
                return;
            }
        }
    }

    /// Moves what is certain, and waits for nothing, out of the lists.
    fn fold(&mut self) {
        let mut open: BTreeSet<Place> = BTreeSet::new();
        for change in std::mem::take(&mut self.names) {
            if change.durable && !places(&change.call).any(|place| open.contains(&place)) {
                self.certain.rename_by(&change.call);
            } else {
                open.extend(places(&change.call));
                self.names.push(change);
            }
        }
        for (inode, changes) in &mut self.files {
            let certain = changes.iter().take_while(|change| change.durable).count();
            if certain == 0 {
                continue;
            }
            let node = self.certain.node(*inode);
            for change in changes.drain(..certain) {
                match change.mode() {
                    Some(mode) => node.mode = Some(mode),
                    None => apply(Arc::make_mut(&mut node.content), &change.call, &Part::Whole),
                }
            }
        }
        self.files.retain(|_, changes| !changes.is_empty());
    }

    /// What a file certainly holds.
    pub(crate) fn certain_content(&self, inode: Inode) -> Vec<u8> {
        self.certain.nodes.get(&inode).map(|node| node.content.to_vec()).unwrap_or_default()
    }

    /// The permission bits that it was made with, or certainly has.
    pub(crate) fn first_modes(&self, of: Inode) -> impl Iterator<Item = u32> {
        let made = self.names.iter().filter_map(move |change| match change.call {
            Call::Create { inode, mode, .. } if inode == of => Some(mode),
            _ => None,
        });
        self.certain.nodes.get(&of).and_then(|node| node.mode).into_iter().chain(made)
    }

    /// Whether nothing is open, so that there is one state only.
    pub(crate) fn is_certain(&self) -> bool {
        self.names.is_empty() && self.files.is_empty()
    }

    /// A choice in which everything, or nothing that is not certain, arrived.
    pub(crate) fn all_or_nothing(&self, all: bool) -> Arrival {
        let part = |change: &DataChange| if all || change.durable { Part::Whole } else { Part::Nothing };
        Arrival {
            names: self.names.iter().map(|change| all || change.durable).collect(),
            data: self
                .files
                .iter()
                .map(|(inode, changes)| (*inode, changes.iter().map(part).collect()))
                .collect(),
        }
    }

    /// Each open change of a content, with what of it `arrival` has.
    pub(crate) fn data_of<'a>(
        &'a self,
        arrival: &'a mut Arrival,
    ) -> impl Iterator<Item = (Inode, &'a DataChange, &'a mut Part)> {
        arrival.data.iter_mut().flat_map(|(inode, parts)| {
            self.files[inode].iter().zip(parts).map(|(change, part)| (*inode, change, part))
        })
    }

    /// Makes `arrival` one that the rule allows, by taking away or adding as little as may be.
    pub(crate) fn close(&self, arrival: &mut Arrival) {
        if self.rule != Rule::Posix {
            self.close_journal(arrival);
        }
        self.close_names(arrival);
        for (_, change, part) in self.data_of(arrival) {
            // Elsewhere the size follows the last page that arrived.
            let (begin, end) = change.span();
            match *part {
                _ if change.durable => *part = Part::Whole,
                Part::Size if self.rule != Rule::Posix => *part = Part::Nothing,
                Part::Without(from, to) if to >= end && self.rule != Rule::Posix => {
                    *part = Part::Range(begin, from);
                }
                _ => {}
            }
        }
    }

    /// The part of [`Self::close`] that every rule has for names.
    pub(crate) fn close_names(&self, arrival: &mut Arrival) {
        // A name changes in order: what would come after a change that is lost is lost too.
        let mut lost: BTreeSet<Place> = BTreeSet::new();
        for (change, arrived) in self.names.iter().zip(&mut arrival.names) {
            *arrived |= change.durable;
            if *arrived && !change.durable && places(&change.call).any(|place| lost.contains(&place)) {
                *arrived = false;
            }
            if !*arrived {
                lost.extend(places(&change.call));
            }
        }
    }

    /// The journal arrives up to one place: the last one that `arrival` has in an unbroken row.
    fn close_journal(&self, arrival: &mut Arrival) {
        let names = self.names.iter().zip(&arrival.names).filter(|(change, _)| !change.durable);
        let lost_names = names.filter(|(_, arrived)| !**arrived).map(|(change, _)| change.sequence);
        let cuts = arrival.data.iter().flat_map(|(inode, parts)| self.files[inode].iter().zip(parts));
        let lost_cuts = cuts
            .filter(|(change, part)| !change.durable && **part == Part::Nothing)
            .filter_map(|(change, _)| change.sequence);
        let end = lost_names.chain(lost_cuts).min().unwrap_or(usize::MAX);
        for (change, arrived) in self.names.iter().zip(&mut arrival.names) {
            *arrived = change.sequence < end || change.durable;
        }
        for (_, change, part) in self.data_of(arrival) {
            if let Some(sequence) = change.sequence {
                *part = if sequence < end || change.durable { Part::Whole } else { Part::Nothing };
            }
        }
    }

    /// Lets the change of names `index` arrive, and what the rule wants to be there with it.
    pub(crate) fn let_name_arrive(&self, arrival: &mut Arrival, index: usize) {
        match self.rule {
            Rule::Posix => {
                // Backwards: what the same names were before.
                let mut needed: BTreeSet<Place> = BTreeSet::new();
                for at in (0..=index).rev() {
                    let call = &self.names[at].call;
                    if at == index || places(call).any(|place| needed.contains(&place)) {
                        arrival.names[at] = true;
                        needed.extend(places(call));
                    }
                }
            }
            _ => self.let_journal_arrive(arrival, self.names[index].sequence),
        }
    }

    /// Lets the change `index` of a file's content arrive.
    pub(crate) fn let_data_arrive(&self, arrival: &mut Arrival, inode: Inode, index: usize) {
        if let (Some(sequence), true) = (self.files[&inode][index].sequence, self.rule != Rule::Posix) {
            self.let_journal_arrive(arrival, sequence);
        }
        let parts = arrival.data.entry(inode).or_default();
        for (at, change) in self.files[&inode][..=index].iter().enumerate() {
            if at == index || !change.is_write() {
                parts[at] = Part::Whole;
            }
        }
    }

    fn let_journal_arrive(&self, arrival: &mut Arrival, sequence: usize) {
        for (change, arrived) in self.names.iter().zip(&mut arrival.names) {
            *arrived |= change.sequence <= sequence;
        }
        for (_, change, part) in self.data_of(arrival) {
            if change.sequence.is_some_and(|own| own <= sequence) {
                *part = Part::Whole;
            }
        }
    }

    /// The directory of this choice, which [`Self::close`] has made a legal one.
    pub(crate) fn state(&self, arrival: &Arrival) -> Tree {
        self.state_by(arrival, &mut Made::default())
    }

    /// The same, with the contents that `made` has from choices before.
    pub(crate) fn state_by(&self, arrival: &Arrival, made: &mut Made) -> Tree {
        let mut tree = self.certain.clone();
        for (change, arrived) in self.names.iter().zip(&arrival.names) {
            if *arrived {
                tree.rename_by(&change.call);
            }
        }
        for (inode, parts) in &arrival.data {
            let changes = &self.files[inode];
            let modes = changes.iter().zip(parts).filter(|(_, part)| **part == Part::Whole);
            let bits = modes.filter_map(|(change, _)| change.mode()).next_back();
            let node = tree.node(*inode);
            node.mode = bits.or(node.mode);
            let content = &mut node.content;
            let key = changes.iter().zip(parts).map(|(change, part)| (change.event, part.clone())).collect();
            if made.size >= Made::MAX {
                *made = Made::default();
            }
            let whole = made.known.entry(key).or_insert_with(|| {
                let whole = Self::content(content, changes, parts);
                made.size += changes.len() + whole.words();
                Arc::new(whole)
            });
            *content = Arc::clone(whole);
        }
        tree.reachable()
    }

    /// What a file holds when `parts` of its changes arrived.
    fn content(certain: &Content, changes: &[DataChange], parts: &[Part]) -> Content {
        let mut content = certain.clone();
        // After a cut that is lost, data arrives only in the pages that the file had and kept.
        let mut kept: Option<Kept> = None;
        for (change, part) in changes.iter().zip(parts) {
            match (&change.call, part) {
                (Call::Resize { bytes, .. }, Part::Nothing) => {
                    let size = content.len() as u64;
                    let pages =
                        kept.map_or(size, |kept| kept.pages).min(bytes.next_multiple_of(PAGE)).min(size);
                    kept = Some(Kept { pages, zeros: *bytes });
                }
                (_, Part::Nothing) => {}
                (call, part) => match kept {
                    Some(kept) => kept.apply(&mut content, call, part),
                    None => apply(&mut content, call, part),
                },
            }
        }
        content
    }

    /// The events that did not arrive as a whole, and what of them did.
    pub(crate) fn lost(&self, arrival: &Arrival) -> Vec<(usize, Part)> {
        let names = self.names.iter().zip(&arrival.names);
        let names = names.filter(|(_, arrived)| !**arrived).map(|(change, _)| (change.event, Part::Nothing));
        let data = arrival.data.iter().flat_map(|(inode, parts)| self.files[inode].iter().zip(parts));
        let data =
            data.filter(|(_, part)| **part != Part::Whole).map(|(change, part)| (change.event, part.clone()));
        let mut lost: Vec<(usize, Part)> = names.chain(data).collect();
        lost.sort_unstable_by_key(|(event, _)| *event);
        lost
    }

    /// The choice in which `lost` arrived as it says, and everything else as a whole; nothing if the rule does not allow it.
    pub(crate) fn without(&self, lost: &[(usize, Part)]) -> Option<Arrival> {
        let mut arrival = self.all_or_nothing(true);
        for (event, part) in lost {
            for (change, arrived) in self.names.iter().zip(&mut arrival.names) {
                *arrived &= change.event != *event;
            }
            for (_, _, arrived) in self.data_of(&mut arrival).filter(|(_, change, _)| change.event == *event)
            {
                *arrived = part.clone();
            }
        }
        self.close(&mut arrival);
        let still = self.lost(&arrival);
        lost.iter().all(|one| still.contains(one)).then_some(arrival)
    }
}

/// A file whose cut is lost: its pages on the disk are still those of the longer file.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// Where the pages end that it had before the cut and has after it.
    pages: u64,
    /// Where it was cut: what is written back to the page of that place has zeros after it.
    zeros: u64,
}

impl Kept {
    fn apply(self, content: &mut Content, call: &Call, part: &Part) {
        let size = content.len() as u64;
        let end = self.pages.min(size);
        let mut within = content.clone();
        within.resize(at(end));
        let first = self.zeros / PAGE * PAGE;
        let (from, to) = match (call, part) {
            (Call::Write { offset, data, .. }, Part::Whole | Part::Without(..)) => {
                (*offset, *offset + data.len() as u64)
            }
            (_, Part::Range(from, to)) => (*from, *to),
            _ => (0, 0),
        };
        if from < first + PAGE && to > first && self.zeros < end {
            within.zero(at(self.zeros), at(end));
        }
        apply(&mut within, call, part);
        content.write(0, &within.read(0, at(end)));
    }
}

/// Carries out `part` of a change of a content.
fn apply(content: &mut Content, call: &Call, part: &Part) {
    match call {
        Call::Write { offset, data, .. } => {
            let end = offset + data.len() as u64;
            let (first, second) = match part {
                Part::Nothing => return,
                Part::Whole => ((*offset, end), None),
                Part::Size => ((end, end), None),
                Part::Range(from, to) => (((*from).max(*offset), (*to).min(end)), None),
                Part::Without(from, to) => ((*offset, *from), Some((*to, end))),
            };
            for (from, to) in [Some(first), second].into_iter().flatten() {
                let (from, to, start) = (at(from), at(to), at(*offset));
                if content.len() < to {
                    content.resize(to);
                }
                if from < to {
                    content.write(from, &data[from - start..to - start]);
                }
            }
        }
        Call::Zero { offset, bytes, .. } => {
            content.zero(at(*offset), at(offset.saturating_add(*bytes)));
        }
        Call::Resize { bytes, .. } => content.resize(at(*bytes)),
        _ => {}
    }
}

/// The names that a call changes.
fn places(call: &Call) -> impl Iterator<Item = Place> {
    let (one, other) = match call {
        Call::Create { parent, name, .. }
        | Call::Link { parent, name, .. }
        | Call::Remove { parent, name, .. } => (Some((*parent, Arc::clone(name))), None),
        Call::Rename { from, to, .. } => (Some(from.clone()), Some(to.clone())),
        _ => (None, None),
    };
    one.into_iter().chain(other)
}

/// The files and folders whose names a call changes.
fn inodes(call: &Call) -> impl Iterator<Item = Inode> {
    let (one, other) = match call {
        Call::Create { inode, .. } | Call::Link { inode, .. } | Call::Remove { inode, .. } => {
            (Some(*inode), None)
        }
        Call::Rename { inode, over, .. } => (Some(*inode), *over),
        _ => (None, None),
    };
    one.into_iter().chain(other)
}
