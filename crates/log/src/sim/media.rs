//! What is really on the disk, and what might be?
//!
//! [`Media`] keeps apart what is durable for certain and what may or may not have arrived: sectors of writes that are
//! under way or not yet synced, and changes to names before the directory was synced. From it the campaign draws
//! legal *images*: what a disk may hold after the power went.
//!
//! Invariants: a sector of 512 bytes arrives whole or not at all; of several unsynced writes to one sector any one may
//! be the last to arrive in order of issue; a rename is atomic; names are lost and kept independently of each other
//! and of contents (weaker than any real file system, as POSIX allows).

use std::collections::BTreeMap;
use std::rc::Rc;

use super::rng::{Rng, mix};

/// The sector: what arrives whole or not at all, in bytes.
pub(super) const SECTOR: usize = 512;

/// One file's content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    pub(crate) bytes: Vec<u8>,
    /// Changes with every sector, in a way that can be undone sector by sector.
    hash: u64,
}

fn sector_hash(offset: usize, sector: &[u8]) -> u64 {
    let content = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, sector);
    mix(content ^ mix(offset as u64 + 1))
}

impl Inode {
    /// Overwrites the sector at `offset`, extending the file with zeros if need be.
    fn put(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        if self.bytes.len() < end {
            let old = self.bytes.len();
            self.bytes.resize(end, 0);
            let zero = [0; SECTOR];
            for at in (old..end).step_by(SECTOR) {
                self.hash ^= sector_hash(at, &zero[..SECTOR.min(end - at)]);
            }
        }
        let place = &mut self.bytes[offset..end];
        self.hash ^= sector_hash(offset, place);
        place.copy_from_slice(data);
        self.hash ^= sector_hash(offset, place);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The write has not returned.
    InFlight,
    /// It has, as the event of this number, and no sync has covered it.
    Written(u64),
}

/// One sector of one write that may or may not have arrived.
#[derive(Clone, Debug)]
struct Piece {
    write: u64,
    inode: usize,
    offset: usize,
    data: Rc<[u8]>,
    from: usize,
    to: usize,
    state: State,
}

/// A change to the directory that no sync has covered.
#[derive(Clone, Debug)]
pub(crate) enum NameChange {
    /// The name stands for this inode.
    Set(String, usize),
    /// The first name goes, the second one stands for the inode.
    Rename(String, String, usize),
    /// The name goes.
    Remove(String),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Set(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Rename(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

/// The disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Media {
    /// Shared between images until one of them changes.
    pub(crate) inodes: Vec<Rc<Inode>>,
    pub(crate) names: BTreeMap<String, usize>,
    pieces: Vec<Piece>,
    /// Sectors that a failed sync left in the page cache only.
    ghosts: Vec<Piece>,
    changes: Vec<NameChange>,
    clock: u64,
}

/// How an image is drawn from what may have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    /// Nothing unsynced arrived.
    None,
    /// All of it did.
    All,
    /// Each write as a whole did or did not.
    Half,
    /// Every write but one.
    AllButOne,
    /// One write only.
    OnlyOne,
    /// One write was torn at a sector, the ones before it arrived.
    Torn,
    /// Each sector by itself.
    Soup,
}

/// Every way to draw an image.
pub(crate) const DRAWS: [Draw; 7] =
    [Draw::None, Draw::All, Draw::Half, Draw::AllButOne, Draw::OnlyOne, Draw::Torn, Draw::Soup];

impl Media {
    /// The number of the next event.
    pub(crate) fn now(&self) -> u64 {
        self.clock
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
        for (i, sector) in data.chunks(SECTOR).enumerate() {
            Rc::make_mut(&mut self.inodes[inode]).put(offset + i * SECTOR, sector);
        }
    }

    pub(crate) fn write_began(&mut self, write: u64, inode: usize, offset: usize, data: &Rc<[u8]>) {
        for from in (0..data.len()).step_by(SECTOR) {
            let to = data.len().min(from + SECTOR);
            let (data, offset) = (Rc::clone(data), offset + from);
            self.ghosts.retain(|ghost| (ghost.inode, ghost.offset) != (inode, offset));
            self.pieces.push(Piece { write, inode, offset, data, from, to, state: State::InFlight });
        }
    }

    /// The write returned after `arrived` bytes; with `durable` these are safe.
    pub(crate) fn write_ended(&mut self, write: u64, arrived: usize, durable: bool) {
        self.clock += 1;
        let now = self.clock;
        self.pieces.retain(|piece| piece.write != write || piece.from < arrived);
        for piece in self.pieces.iter_mut().filter(|piece| piece.write == write) {
            piece.to = piece.to.min(arrived);
            piece.state = State::Written(now);
        }
        if durable {
            self.settle(|piece| piece.write == write);
        }
    }

    /// The sync that was submitted at event `since` returned.
    pub(crate) fn synced(&mut self, inode: usize, since: u64) {
        self.settle(|piece| piece.inode == inode && matches!(piece.state, State::Written(at) if at <= since));
    }

    /// A sync failed and the writes that it was to cover never arrive.
    pub(crate) fn lost(&mut self, inode: usize) {
        let (lost, kept) = std::mem::take(&mut self.pieces)
            .into_iter()
            .partition(|piece| piece.inode == inode && piece.state != State::InFlight);
        self.pieces = kept;
        let mut lost: Vec<Piece> = lost;
        self.ghosts.append(&mut lost);
    }

    /// Everything that `chosen` names is durable; older versions of its sectors are history.
    fn settle(&mut self, chosen: impl Fn(&Piece) -> bool) {
        let pieces = std::mem::take(&mut self.pieces);
        let mut kept: Vec<Piece> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            if chosen(&piece) {
                kept.retain(|old| (old.inode, old.offset) != (piece.inode, piece.offset));
                let data = &piece.data[piece.from..piece.to];
                Rc::make_mut(&mut self.inodes[piece.inode]).put(piece.offset, data);
            } else {
                kept.push(piece);
            }
        }
        self.pieces = kept;
    }

    /// Whether anything may or may not have arrived.
    pub(crate) fn is_settled(&self) -> bool {
        self.pieces.is_empty() && self.changes.is_empty()
    }

    /// The machine goes on but the process is gone: what was under way arrives in part.
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

    /// What a running machine sees: every content and name as if all had arrived.
    pub(crate) fn view(&self) -> (Vec<Vec<u8>>, BTreeMap<String, usize>) {
        let image = self.image(Draw::All, Draw::All, &mut Rng::new(0));
        (image.inodes.into_iter().map(|inode| inode.bytes.clone()).collect(), image.names)
    }

    /// What the page cache shows where it differs from the disk: writes whose sync failed.
    pub(crate) fn ghosts(&self) -> impl Iterator<Item = (usize, usize, &[u8])> {
        self.ghosts.iter().map(|piece| (piece.inode, piece.offset, &piece.data[piece.from..piece.to]))
    }

    /// Draws an image: what the disk holds after the power went.
    pub(crate) fn image(&self, draw: Draw, names: Draw, rng: &mut Rng) -> Self {
        let mut image = Self {
            inodes: self.inodes.clone(),
            names: self.names.clone(),
            clock: self.clock,
            ..Self::default()
        };
        let mut writes: Vec<u64> = self.pieces.iter().map(|piece| piece.write).collect();
        writes.dedup();
        let one = if writes.is_empty() { 0 } else { writes[rng.index(writes.len())] };
        let sectors = self.pieces.iter().filter(|piece| piece.write == one).count();
        let tear = rng.index(sectors + 1);
        let salt = rng.next_u64();
        let mut of_one = 0;
        for piece in &self.pieces {
            let arrived = match draw {
                Draw::None => false,
                Draw::All => true,
                Draw::Half => mix(salt ^ piece.write) & 1 == 1,
                Draw::AllButOne => piece.write != one,
                Draw::OnlyOne => piece.write == one,
                Draw::Torn if piece.write == one => {
                    of_one += 1;
                    of_one <= tear
                }
                Draw::Torn => piece.write < one,
                Draw::Soup => rng.coin(),
            };
            if arrived {
                let data = &piece.data[piece.from..piece.to];
                Rc::make_mut(&mut image.inodes[piece.inode]).put(piece.offset, data);
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

    /// A number that two settled disks share only if they hold the same files.
    pub(crate) fn hash(&self) -> u64 {
        self.names.iter().fold(0, |all, (name, inode)| {
            let name = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, name.as_bytes());
            let inode = &self.inodes[*inode];
            mix(all ^ mix(name) ^ inode.hash ^ mix(inode.bytes.len() as u64))
        })
    }

    /// Prints what every file holds: for a person who repeats one state.
    pub(crate) fn describe(&self) {
        for (name, inode) in &self.names {
            let bytes = &self.inodes[*inode].bytes;
            eprintln!("{name}: {} bytes", bytes.len());
            for (at, sector) in bytes.chunks(SECTOR).enumerate() {
                let at = at * SECTOR;
                if let Ok(header) = crate::format::SegmentHeader::decode_unplaced(sector, u32::from(at > 0)) {
                    eprintln!("  {at:6} {header:?}");
                } else if let Ok((header, _)) = crate::format::BatchHeader::decode(sector) {
                    let crate::format::BatchHeader { kind, epoch, segment, offset, lsn, durable, trim_lsn, .. } =
                        header;
                    let end = header.end();
                    eprintln!(
                        "  {at:6} {kind:?} epoch {epoch} segment {segment} offset {offset} lsn {lsn}..{end} durable \
                         {durable} trim {trim_lsn}"
                    );
                }
            }
        }
    }

    /// Overwrites a sector of a settled disk with what no one wrote there.
    pub(crate) fn damage(&mut self, inode: usize, offset: usize, data: &[u8]) {
        Rc::make_mut(&mut self.inodes[inode]).put(offset, data);
    }
}
