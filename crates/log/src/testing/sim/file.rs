//! Represents a file of the simulated disk as a list of shared, immutable sectors.
//!
//! A write replaces sectors by others and never changes their contents. So files, writes in flight and the images
//! drawn from both share every sector, and an image costs a few pointers for each file that it changes.
//!
//! Invariant: the hash of a file changes with every sector in a way that can be undone sector by sector, so it needs
//! no second look at the contents.

use std::rc::Rc;

use super::rng::mix;

/// The sector: what arrives whole or not at all, in bytes.
pub(super) const SECTOR: usize = 512;

#[derive(Debug)]
pub(crate) struct Sector {
    pub(crate) bytes: [u8; SECTOR],
    hash: u64,
    pub(crate) zero: bool,
}

thread_local! {
    static ZERO: Rc<Sector> = Sector::of(&[], true);
}

impl Sector {
    fn of(content: &[u8], zero: bool) -> Rc<Self> {
        let mut bytes = [0; SECTOR];
        bytes[..content.len()].copy_from_slice(content);
        let hash = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &bytes);
        Rc::new(Self { bytes, hash, zero })
    }

    pub(crate) fn zero() -> Rc<Self> {
        ZERO.with(Rc::clone)
    }

    /// The sector with these bytes, and zeros after them if they are fewer.
    pub(crate) fn new(content: &[u8]) -> Rc<Self> {
        if content == &[0; SECTOR][..content.len()] {
            return Self::zero();
        }
        Self::of(content, false)
    }

    fn at(&self, index: usize) -> u64 {
        mix(self.hash ^ mix(index as u64 + 1))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    pub(crate) sectors: Vec<Rc<Sector>>,
    /// The length of the file in bytes; after it the last sector is zero.
    pub(crate) length: usize,
    hash: u64,
}

impl Inode {
    pub(crate) fn hash(&self) -> u64 {
        self.hash ^ mix(self.length as u64)
    }

    /// Puts a sector in place, extending the file with zeros if need be.
    pub(crate) fn put(&mut self, index: usize, sector: &Rc<Sector>) {
        while self.sectors.len() < index {
            let zero = Sector::zero();
            self.hash ^= zero.at(self.sectors.len());
            self.sectors.push(zero);
        }
        self.hash ^= sector.at(index);
        match self.sectors.get_mut(index) {
            Some(place) => {
                self.hash ^= place.at(index);
                *place = Rc::clone(sector);
            }
            None => self.sectors.push(Rc::clone(sector)),
        }
        self.length = self.length.max((index + 1) * SECTOR);
    }

    /// Writes `data` from `offset` on, which is a multiple of [`SECTOR`].
    pub(crate) fn write(&mut self, offset: usize, data: &[u8]) {
        debug_assert!(offset.is_multiple_of(SECTOR), "writes start at a sector");
        let length = self.length.max(offset + data.len());
        self.sectors.reserve(length.div_ceil(SECTOR) - self.sectors.len());
        for (index, content) in (offset / SECTOR..).zip(data.chunks(SECTOR)) {
            let sector = match self.sectors.get(index) {
                Some(old) if content.len() < SECTOR => {
                    let mut whole = old.bytes;
                    whole[..content.len()].copy_from_slice(content);
                    Sector::new(&whole)
                }
                _ => Sector::new(content),
            };
            self.put(index, &sector);
        }
        self.length = length;
    }

    /// Reads from `offset` on; returns the bytes read.
    pub(crate) fn read(&self, offset: usize, buf: &mut [u8]) -> usize {
        let end = self.length.min(offset.saturating_add(buf.len()));
        let mut at = offset;
        while at < end {
            let (index, from) = (at / SECTOR, at % SECTOR);
            let bytes = (SECTOR - from).min(end - at);
            buf[at - offset..at - offset + bytes]
                .copy_from_slice(&self.sectors[index].bytes[from..from + bytes]);
            at += bytes;
        }
        at - offset
    }
}

#[cfg(test)]
mod tests {
    use super::{Inode, SECTOR, Sector};

    #[test]
    fn what_was_written_is_read_and_the_hash_follows_the_content_alone() {
        let mut file = Inode::default();
        file.write(SECTOR, &[7; 700]);
        assert_eq!(file.length, SECTOR + 700);
        let mut read = vec![9; 4 * SECTOR];
        assert_eq!(file.read(500, &mut read), 712);
        assert_eq!((read[11], read[12], read[711], read[712]), (0, 7, 7, 9));
        assert_eq!(file.read(5000, &mut read), 0);
        let before = file.hash();
        file.put(2, &Sector::new(&[1; SECTOR]));
        assert_ne!(file.hash(), before);
        let mut other = Inode::default();
        other.write(2 * SECTOR, &[1; SECTOR]);
        other.write(SECTOR, &[7; SECTOR]);
        assert_eq!(file.hash(), other.hash());
        assert!(other.sectors[0].zero && !other.sectors[1].zero);
    }
}
