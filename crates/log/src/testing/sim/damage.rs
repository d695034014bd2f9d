//! Injects damage into a simulated disk image: flipped bits, garbage, misplaced sectors and lost headers.

use super::file::{SECTOR, Sector};
use super::media::Media;
use super::rng::Rng;
use crate::format::{FileRole, file_role, segment_name};

/// Flips a bit, writes garbage, or writes a sector of another place over one that holds something. Says where.
pub(super) fn damage(image: &mut Media, rng: &mut Rng) -> Option<(u64, usize, usize)> {
    let names = image.names.clone();
    let names = names.as_slice();
    let (name, inode) = names.get(rng.index(names.len()))?;
    let FileRole::Segment(number) = file_role(&name.text)? else { return None };
    let file = &image.inodes[*inode];
    let count = file.sectors.len();
    if rng.one_in(6) && count > 2 {
        // Both copies of the segment header at once, now and then those of every segment.
        let garbage = Sector::new(&[0xA5; SECTOR]);
        let every = rng.one_in(3);
        for (_, other) in names.iter().filter(|(_, other)| every || other == inode) {
            let last = image.inodes[*other].sectors.len().saturating_sub(1);
            image.damage(*other, 0, &garbage);
            image.damage(*other, last, &garbage);
        }
        return Some((number, 0, 0));
    }
    let used = file.sectors.iter().enumerate().filter(|(_, sector)| !sector.zero);
    let chosen = rng.index(used.clone().count());
    let (index, old) = used.map(|(index, sector)| (index, sector.bytes)).nth(chosen)?;
    let mut data = old;
    match rng.below(4) {
        0 => data[rng.index(SECTOR)] ^= 1 << rng.below(8),
        1 => data.fill_with(|| u8::try_from(rng.below(256)).unwrap_or(0)),
        2 => data.fill(0),
        _ => {
            let (_, other) = names.get(rng.index(names.len()))?;
            let other = &image.inodes[*other].sectors;
            data = other.get(rng.index(other.len()))?.bytes;
        }
    }
    image.damage(*inode, index, &Sector::new(&data));
    Some((number, index * SECTOR, (index + 1) * SECTOR))
}

/// Whether the damage of `to` bytes from the start, or up to `to`, hit one of two sound copies of a segment's header in
/// `whole`: then the other one will do.
pub(super) fn spares_a_header(whole: &Media, segment: u64, to: usize) -> bool {
    let Some(inode) = whole.names.get(&segment_name(segment)) else { return false };
    let of_header = to == SECTOR || (to > SECTOR && to == whole.inodes[inode].length);
    of_header && whole.sound_headers(segment, inode) == [true; 2]
}

/// Lets every segment read as zeros, as after a discard by mistake. Says whether the numbers of the files alone show
/// that there was a log once: a log that was just made has segment 1 at most.
pub(super) fn wipe(image: &mut Media) -> bool {
    let names = image.names.clone();
    let mut shown = false;
    for (name, inode) in names.as_slice() {
        if let Some(FileRole::Segment(number)) = file_role(&name.text) {
            let zero = Sector::zero();
            (0..image.inodes[*inode].sectors.len()).for_each(|index| image.damage(*inode, index, &zero));
            shown |= number > 1;
        }
    }
    shown
}
