//! Draws what a disk may hold after a few calls, so that other models of a disk can be compared with this one.

use std::collections::{BTreeMap, BTreeSet};

use super::draw::DRAWS;
use super::file::{SECTOR, Sector};
use super::media::Media;
use super::names::{Name, NameChange};
use super::rng::Rng;

/// A call of a program, by the names of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes an empty file.
    Create(String),
    /// Fills sectors of a file with a byte: the first sector, how many, the byte.
    Fill(String, usize, usize, u8),
    /// Makes a file's data durable.
    Sync(String),
    /// Makes all names durable.
    SyncDir,
    /// Gives a file another name, over the file that has it.
    Rename(String, String),
    /// Removes a name.
    Remove(String),
}

/// The files of a disk: their names and contents.
pub type Image = BTreeMap<String, Vec<u8>>;

/// The different images among `count` that are drawn after `steps`.
///
/// # Panics
/// A step names a file that is not there.
#[must_use]
pub fn images(steps: &[Step], seed: u64, count: usize) -> BTreeSet<Image> {
    let mut media = Media::default();
    let inode = |media: &Media, name: &str| media.current_names().get(name).expect("the file is there");
    for (number, step) in (1_u64..).zip(steps) {
        match step {
            Step::Create(name) => {
                let inode = media.new_inode();
                media.change(NameChange::Set(Name::new(name), inode));
            }
            Step::Fill(name, first, sectors, byte) => {
                let inode = inode(&media, name);
                let sectors: Vec<_> = (0..*sectors).map(|_| Sector::new(&[*byte; SECTOR])).collect();
                media.write_began(number, inode, *first, &sectors);
                media.write_ended(number, sectors.len() * SECTOR, false);
            }
            Step::Sync(name) => {
                let (inode, now) = (inode(&media, name), media.now());
                media.synced(inode, now);
            }
            Step::SyncDir => media.dir_synced(),
            Step::Rename(from, to) => {
                let inode = inode(&media, from);
                media.change(NameChange::Rename(Name::new(from), Name::new(to), inode));
            }
            Step::Remove(name) => media.change(NameChange::Remove(Name::new(name))),
        }
    }
    let mut rng = Rng::new(seed);
    let content = |image: &Media, inode: usize| {
        let file = &image.inodes[inode];
        let mut bytes: Vec<u8> = file.sectors.iter().flat_map(|sector| sector.bytes).collect();
        bytes.truncate(file.length);
        bytes
    };
    let image = |_| {
        let (data, names) = (DRAWS[rng.index(DRAWS.len())], DRAWS[rng.index(DRAWS.len())]);
        let image = media.image(data, names, &mut rng);
        let names = image.names.as_slice().iter();
        names.map(|(name, inode)| (name.text.to_string(), content(&image, *inode))).collect()
    };
    (0..count).map(image).collect()
}
