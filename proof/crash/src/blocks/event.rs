//! Defines the events of the block recorder: writes, discards, flushes, completions and the victim's marks.
//!
//! The record holds every request to the disk (writes and discards of sectors, flushes), the moment of each
//! completion, and in between the victim's marks.

use std::sync::Arc;

use crate::bytes::index;
use seawall_crash_test::content::Content;

/// What a write leaves behind.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Payload {
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

    /// Lays its first `bytes` bytes over `disk` at `offset`.
    pub(crate) fn lay(&self, disk: &mut Content, offset: u64, bytes: u64) {
        let (from, length) = (index(offset), index(bytes));
        match self {
            Self::Data(data) => disk.write(from, &data[..length]),
            Self::Zeros(_) => disk.zero(from, from.saturating_add(length)),
        }
    }
}

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Event {
    Write {
        number: u64,
        offset: u64,
        payload: Payload,
    },
    /// The write of this number, which arrived just before, has FUA: when it is answered it is durable.
    Forced {
        number: u64,
    },
    Flush {
        number: u64,
    },
    /// What had this number was answered.
    Done {
        number: u64,
    },
    /// The victim said something.
    Mark(String),
}
