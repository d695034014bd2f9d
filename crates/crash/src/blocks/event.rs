//! Defines the events of the block recorder: writes, discards, flushes, completions and the victim's marks.
//!
//! The record holds every request to the disk (writes and discards of sectors, flushes), the moment of each
//! completion, and in between the victim's marks. Pages of 4096 bytes make up the disk's contents; a page that was
//! never written is zero.

use std::collections::HashMap;
use std::sync::Arc;

/// The unit in which contents are kept, in bytes.
pub(crate) const PAGE: usize = 4096;

/// One page.
pub(crate) type Page = Arc<[u8]>;

/// The contents of a disk, by page number.
pub(crate) type Pages = HashMap<u64, Page>;

/// What a write leaves behind.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Payload {
    /// These bytes.
    Data(Arc<[u8]>),
    /// So many zeros: a discard.
    Zeros(u64),
}

impl Payload {
    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Data(data) => data.len() as u64,
            Self::Zeros(bytes) => *bytes,
        }
    }
}

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Event {
    /// A write arrived.
    Write { number: u64, offset: u64, payload: Payload },
    /// The write of this number, which arrived just before, has FUA: when it is answered it is durable.
    Forced { number: u64 },
    /// A flush arrived.
    Flush { number: u64 },
    /// What had this number was answered.
    Done { number: u64 },
    /// The victim said something.
    Mark(String),
}

/// The spans, page by page, of the first `bytes` bytes of a write at `offset`: page number, place in the page, place in the write
/// and length.
pub(crate) fn page_spans(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let page = PAGE as u64;
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= bytes {
            return None;
        }
        let place = (offset + at) % page;
        let length = (page - place).min(bytes - at);
        let span = ((offset + at) / page, place, at, length);
        at += length;
        let index = crate::bytes::index;
        Some((span.0, index(span.1), index(span.2), index(span.3)))
    })
}

#[cfg(test)]
mod tests {
    use super::page_spans;

    #[test]
    fn a_write_is_cut_at_page_borders() {
        let all: Vec<_> = page_spans(3584, 5120).collect();
        assert_eq!(all, [(0, 3584, 0, 512), (1, 0, 512, 4096), (2, 0, 4608, 512)]);
        assert_eq!(page_spans(0, 0).count(), 0);
    }
}
