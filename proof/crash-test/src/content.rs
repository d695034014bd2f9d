//! What a file holds: pieces that many states share, and no memory for holes.
//!
//! A piece may be shorter than its room, and be missing: what is not in it is zeros. So a preallocated file of 64 MiB costs
//! a state 4,096 pointers.

use seawall_sys::chance::mix;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of a file that one piece has room for.
const PIECE: usize = 16 << 10;

type Piece = Option<Arc<Vec<u8>>>;

/// The bytes of a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Content {
    bytes: usize,
    pieces: Vec<Piece>,
}

impl Content {
    /// How long the file is.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the file is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Cuts the file, or lets it grow by zeros.
    pub fn resize(&mut self, bytes: usize) {
        self.pieces.resize(bytes.div_ceil(PIECE), None);
        if let (true, Some(Some(last))) = (bytes < self.bytes, self.pieces.last_mut()) {
            let end = bytes - (bytes - 1) / PIECE * PIECE;
            if last.len() > end {
                Arc::make_mut(last).truncate(end);
            }
        }
        self.bytes = bytes;
    }

    /// Writes `data` at `offset`; the file grows if it has to.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        if offset + data.len() > self.bytes {
            self.resize(offset + data.len());
        }
        let mut left = data;
        for (piece, from, to) in rooms(offset, offset + data.len()) {
            let (now, rest) = left.split_at(to - from);
            left = rest;
            let piece = &mut self.pieces[piece];
            if piece.is_none() && now.iter().all(|byte| *byte == 0) {
                continue;
            }
            let bytes = Arc::make_mut(piece.get_or_insert_default());
            if bytes.len() < to {
                bytes.resize(to, 0);
            }
            bytes[from..to].copy_from_slice(now);
        }
    }

    /// The words of memory that a copy takes.
    pub(crate) fn words(&self) -> usize {
        self.pieces.len()
    }

    /// Makes a range zeros, as far as the file goes.
    pub fn zero(&mut self, from: usize, to: usize) {
        for (piece, from, to) in rooms(from, to.min(self.bytes)) {
            match &mut self.pieces[piece] {
                Some(bytes) if from == 0 && to >= bytes.len() => self.pieces[piece] = None,
                Some(bytes) => {
                    let bytes = Arc::make_mut(bytes);
                    let to = to.min(bytes.len());
                    bytes[from.min(to)..to].fill(0);
                }
                None => {}
            }
        }
    }

    /// The bytes of a range, as far as the file goes.
    #[must_use]
    pub fn read(&self, from: usize, to: usize) -> Vec<u8> {
        let to = to.min(self.bytes);
        let from = from.min(to);
        let mut all = Vec::with_capacity(to - from);
        for (piece, from, to) in rooms(from, to) {
            let end = all.len() + to - from;
            let bytes = self.pieces[piece].as_ref().and_then(|piece| piece.get(from..to.min(piece.len())));
            all.extend_from_slice(bytes.unwrap_or_default());
            all.resize(end, 0);
        }
        all
    }

    /// All bytes of the file.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.read(0, self.bytes)
    }

    /// What is not a hole: where it is, and its bytes.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let offsets = (0_u64..).step_by(PIECE);
        offsets.zip(&self.pieces).filter_map(|(offset, piece)| Some((offset, &piece.as_ref()?[..])))
    }
}

impl From<&[u8]> for Content {
    fn from(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        content.write(0, bytes);
        content
    }
}

/// Zeros are zeros, whether a piece has them or not.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, other): (&Piece, &Piece)| match (one, other) {
            (Some(one), Some(other)) if Arc::ptr_eq(one, other) => true,
            _ => significant(one) == significant(other),
        };
        self.bytes == other.bytes && self.pieces.iter().zip(&other.pieces).all(same)
    }
}

impl Eq for Content {}

/// For each piece that a range touches: its number, and from where to where in it.
fn rooms(from: usize, to: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (from / PIECE..to.div_ceil(PIECE)).filter(move |_| from < to).map(move |piece| {
        let start = piece * PIECE;
        (piece, from.max(start) - start, to.min(start + PIECE) - start)
    })
}

/// A piece up to its last byte that is not zero.
fn significant(piece: &Piece) -> &[u8] {
    let bytes = piece.as_ref().map_or(&[][..], |piece| &piece[..]);
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// The numbers of pieces, so that one that many states share is read once.
#[derive(Debug, Default)]
pub struct Hashes(HashMap<usize, (Arc<Vec<u8>>, u64)>);

impl Hashes {
    /// Pieces that are kept alive for it.
    const MAX: usize = 8192;

    /// A number that only equal contents share.
    pub fn of(&mut self, content: &Content) -> u64 {
        if self.0.len() >= Self::MAX {
            self.0.clear();
        }
        content.pieces.iter().enumerate().fold(mix(content.bytes as u64), |all, (at, piece)| {
            let Some(bytes) = piece else { return all };
            // The piece is kept, so that no other one comes to lie at its address.
            let new = || (Arc::clone(bytes), hash(2, significant(piece)));
            let number = self.0.entry(Arc::as_ptr(bytes).addr()).or_insert_with(new).1;
            if number == hash(2, &[]) { all } else { mix(all ^ number ^ mix(at as u64)) }
        })
    }
}

/// A place in a file that is in memory.
pub(crate) fn at(offset: u64) -> usize {
    usize::try_from(offset).expect("a file in memory is not longer than memory")
}

/// A number for some bytes: fast, and not for adversaries.
pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    // Four lanes, because one multiplication waits for the one before.
    let mut lanes = [seed, seed ^ 1, seed ^ 2, seed ^ 3];
    for (at, word) in words.iter().enumerate() {
        let lane = &mut lanes[at % 4];
        *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    let tail = rest.iter().fold(bytes.len() as u64, |all, byte| all << 8 ^ u64::from(*byte) ^ all >> 56);
    lanes.iter().fold(mix(tail ^ seed), |all, lane| mix(all ^ lane))
}

#[cfg(test)]
mod tests {
    use super::{Content, Hashes, PIECE};
    use seawall_sys::chance::SplitMix64;

    #[test]
    fn it_is_a_vector_of_bytes() {
        let mut rng = SplitMix64::new(7);
        let mut below = |end: usize| usize::try_from(rng.next_u64()).expect("64 bits") % end;
        let (mut content, mut bytes) = (Content::default(), Vec::new());
        for _ in 0..2000 {
            let place = below(4 * PIECE);
            let end = place + below(2 * PIECE);
            match below(4) {
                0 => {
                    content.resize(place);
                    bytes.resize(place, 0);
                }
                1 => {
                    content.zero(place, end);
                    let end = end.min(bytes.len());
                    bytes[place.min(end)..end].fill(0);
                }
                kind => {
                    let data = vec![if kind == 2 { 0 } else { 7 }; end - place];
                    content.write(place, &data);
                    bytes.resize(bytes.len().max(end), 0);
                    bytes[place..end].copy_from_slice(&data);
                }
            }
            assert_eq!(content.to_vec(), bytes);
            assert_eq!(content.read(place, end), bytes[place.min(bytes.len())..end.min(bytes.len())]);
            let anew = Content::from(&bytes[..]);
            assert_eq!(content, anew);
            assert_eq!(Hashes::default().of(&content), Hashes::default().of(&anew));
        }
        let mut other = content.clone();
        other.write(content.len(), b"x");
        assert_ne!((Hashes::default().of(&content), &content), (Hashes::default().of(&other), &other));
    }
}
