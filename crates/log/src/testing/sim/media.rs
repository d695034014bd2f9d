//! Models a disk's contents: what is durable, and what may or may not have arrived.
//!
//! [`Media`] separates what is certainly durable from what may or may not have arrived: sectors of writes that are in
//! flight or not yet synced, and changes to names before the directory was synced. From it the campaign draws legal
//! *images*: what a disk may hold after the power went.
//!
//! Invariants: a sector of 512 bytes arrives whole or not at all; of several unsynced writes to one sector any one may
//! be the last to arrive in order of issue; a rename is atomic; names are lost and kept independently of each other
//! and of contents (less than any real file system keeps, as POSIX allows).

use std::rc::Rc;

use super::draw::{Deal, Draw};
use super::file::{Inode, SECTOR, Sector};
use super::names::{NameChange, Names};
use super::rng::{Rng, mix};
use crate::format::{BatchHeader, SegmentHeader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The write has not returned.
    InFlight,
    /// It has, as the event of this number, and no sync has covered it.
    Written(u64),
}

/// One sector of one write that may or may not have arrived.
#[derive(Clone, Debug)]
struct PendingSector {
    write: u64,
    inode: usize,
    /// Which sector of the file.
    index: usize,
    /// Which sector of the write.
    ordinal: usize,
    sector: Rc<Sector>,
    state: State,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Media {
    /// Shared between images until one of them changes.
    pub(crate) inodes: Vec<Rc<Inode>>,
    pub(crate) names: Names,
    pieces: Vec<PendingSector>,
    /// Sectors that a failed sync left in the page cache only.
    ghosts: Vec<PendingSector>,
    changes: Vec<NameChange>,
    clock: u64,
}

impl Media {
    /// The number of the next event.
    pub(crate) fn now(&self) -> u64 {
        self.clock
    }

    /// The highest number of a write that may or may not have arrived, 0 if there is none.
    pub(crate) fn last_write(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.write).max().unwrap_or(0)
    }

    pub(crate) fn new_inode(&mut self) -> usize {
        self.inodes.push(Rc::default());
        self.inodes.len() - 1
    }

    pub(crate) fn change(&mut self, change: NameChange) {
        self.changes.push(change);
    }

    pub(crate) fn dir_synced(&mut self) {
        for change in self.changes.drain(..) {
            change.apply(&mut self.names);
        }
    }

    /// Makes a write durable at once.
    pub(crate) fn put(&mut self, inode: usize, offset: usize, data: &[u8]) {
        Rc::make_mut(&mut self.inodes[inode]).write(offset, data);
    }

    /// A write of whole sectors begins at sector `first` of the file.
    pub(crate) fn write_began(&mut self, write: u64, inode: usize, first: usize, sectors: &[Rc<Sector>]) {
        for (ordinal, sector) in sectors.iter().enumerate() {
            let (index, sector) = (first + ordinal, Rc::clone(sector));
            self.ghosts.retain(|ghost| (ghost.inode, ghost.index) != (inode, index));
            self.pieces.push(PendingSector { write, inode, index, ordinal, sector, state: State::InFlight });
        }
    }

    /// The write returned after `arrived` bytes; with `durable` these are safe.
    pub(crate) fn write_ended(&mut self, write: u64, arrived: usize, durable: bool) {
        self.clock += 1;
        let now = self.clock;
        self.pieces.retain(|piece| piece.write != write || piece.ordinal * SECTOR < arrived);
        for piece in self.pieces.iter_mut().filter(|piece| piece.write == write) {
            piece.state = State::Written(now);
        }
        if durable {
            self.complete(|piece| piece.write == write);
        }
    }

    /// The sync that was submitted at event `since` returned.
    pub(crate) fn synced(&mut self, inode: usize, since: u64) {
        self.complete(|piece| {
            piece.inode == inode && matches!(piece.state, State::Written(at) if at <= since)
        });
    }

    /// A sync failed and the writes that it was to cover never arrive.
    pub(crate) fn lost(&mut self, inode: usize) {
        let (lost, kept) = std::mem::take(&mut self.pieces)
            .into_iter()
            .partition(|piece| piece.inode == inode && piece.state != State::InFlight);
        self.pieces = kept;
        let mut lost: Vec<PendingSector> = lost;
        self.ghosts.append(&mut lost);
    }

    /// Everything that `chosen` names is durable; older versions of its sectors are history.
    fn complete(&mut self, chosen: impl Fn(&PendingSector) -> bool) {
        if !self.pieces.iter().any(&chosen) {
            return;
        }
        let pieces = std::mem::take(&mut self.pieces);
        let mut kept: Vec<PendingSector> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            if chosen(&piece) {
                kept.retain(|old| (old.inode, old.index) != (piece.inode, piece.index));
                Rc::make_mut(&mut self.inodes[piece.inode]).put(piece.index, &piece.sector);
            } else {
                kept.push(piece);
            }
        }
        self.pieces = kept;
    }

    /// Whether the fate of every write and every change of a name is decided.
    pub(crate) fn is_idle(&self) -> bool {
        self.pieces.is_empty() && self.changes.is_empty()
    }

    /// The machine runs on but the process is gone: what was in flight arrives in part.
    pub(crate) fn killed(&self, rng: &mut Rng) -> Self {
        let mut media = self.clone();
        media.clock += 1;
        let now = media.clock;
        media.pieces.retain(|piece| piece.state != State::InFlight || rng.coin());
        for piece in &mut media.pieces {
            if piece.state == State::InFlight {
                piece.state = State::Written(now);
            }
        }
        media
    }

    /// What a running machine sees: every name as if all changes had arrived.
    pub(crate) fn current_names(&self) -> Names {
        let mut names = self.names.clone();
        self.changes.iter().for_each(|change| change.apply(&mut names));
        names
    }

    /// What a running machine sees of a file: its content as if all writes had arrived.
    pub(crate) fn current(&self, inode: usize) -> Rc<Inode> {
        let mut file = Rc::clone(&self.inodes[inode]);
        for piece in self.pieces.iter().filter(|piece| piece.inode == inode) {
            Rc::make_mut(&mut file).put(piece.index, &piece.sector);
        }
        file
    }

    /// What each file of this kind of name takes, in bytes, as a running machine sees it.
    pub(crate) fn bytes_of(&self, counts: impl Fn(&str) -> bool) -> Vec<u64> {
        let names = self.current_names();
        let files = names.as_slice().iter().filter(|(name, _)| counts(&name.text));
        files.map(|(_, inode)| self.current(*inode).length as u64).collect()
    }

    /// What the page cache shows where it differs from the disk, writes whose sync failed: file, sector, content.
    pub(crate) fn ghosts(&self) -> impl Iterator<Item = (usize, usize, &Rc<Sector>)> {
        self.ghosts.iter().map(|piece| (piece.inode, piece.index, &piece.sector))
    }

    /// One of the writes that may or may not have arrived, and its sectors.
    fn one_write(&self, rng: &mut Rng) -> (u64, usize) {
        let starts = |(i, piece): (usize, &PendingSector)| i == 0 || self.pieces[i - 1].write != piece.write;
        let writes = self.pieces.iter().enumerate().filter(|piece| starts(*piece));
        let chosen = rng.index(writes.clone().count());
        let one = writes.map(|(_, piece)| piece.write).nth(chosen).unwrap_or(0);
        (one, self.pieces.iter().filter(|piece| piece.write == one).count())
    }

    /// Draws an image: what the disk holds after the power went.
    pub(crate) fn image(&self, draw: Draw, names: Draw, rng: &mut Rng) -> Self {
        let mut image = Self {
            inodes: self.inodes.clone(),
            names: self.names.clone(),
            clock: self.clock,
            ..Self::default()
        };
        let mut deal = Deal::new(draw, self.one_write(rng), rng);
        for piece in &self.pieces {
            if deal.arrives(piece.write, rng) {
                Rc::make_mut(&mut image.inodes[piece.inode]).put(piece.index, &piece.sector);
            }
        }
        let single = rng.index(self.changes.len());
        for (i, change) in self.changes.iter().enumerate() {
            let arrived = match names {
                Draw::None => false,
                Draw::All => true,
                Draw::AllButOne => i != single,
                Draw::OnlyOne => i == single,
                Draw::Torn => i <= single,
                Draw::Half | Draw::Soup => rng.coin(),
            };
            if arrived {
                change.apply(&mut image.names);
            }
        }
        image
    }

    /// A number that two idle disks share only if they hold the same files.
    pub(crate) fn hash(&self) -> u64 {
        let names = self.names.as_slice().iter();
        names.fold(0, |all, (name, inode)| mix(all ^ name.hash ^ self.inodes[*inode].hash()))
    }

    /// Prints what every file holds, for a state that is repeated by hand.
    pub(crate) fn describe(&self) {
        for (name, inode) in self.names.as_slice() {
            let file = &self.inodes[*inode];
            eprintln!("{}: {} bytes", name.text, file.length);
            for (at, sector) in file.sectors.iter().enumerate() {
                let (at, sector) = (at * SECTOR, &sector.bytes);
                if let Ok(header) = SegmentHeader::decode_unplaced(sector, u32::from(at > 0)) {
                    eprintln!("  {at:6} {header:?}");
                } else if let Ok((header, _)) = BatchHeader::decode(sector) {
                    eprintln!("  {at:6} {header:?}");
                }
            }
        }
    }

    /// Whether the first and the second copy of the header of segment `number`, which is file `inode`, are sound.
    pub(crate) fn sound_headers(&self, number: u64, inode: usize) -> [bool; 2] {
        let file = &self.inodes[inode];
        let copies = [(0, file.sectors.first()), (1, file.sectors.last())];
        copies.map(|(copy, sector)| {
            let sound = |sector: &Rc<Sector>| {
                SegmentHeader::decode(&sector.bytes, copy, number, file.length as u64).is_ok()
            };
            sector.is_some_and(sound)
        })
    }

    /// Overwrites a sector of an idle disk with other content.
    pub(crate) fn damage(&mut self, inode: usize, index: usize, sector: &Rc<Sector>) {
        Rc::make_mut(&mut self.inodes[inode]).put(index, sector);
    }
}
