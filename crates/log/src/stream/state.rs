//! The state that tagged records define: a log's streams, its cuts, and from which segments on an opening reads both.
//!
//! Invariant: appending and opening apply the same records by the same function.

use crate::format::{SegmentHeader, Tag, TagKind};
use crate::lsn::Lsn;
use crate::stream::cuts::CutList;
use crate::stream::table::StreamTable;
use seawall_sys::planted;

/// What is done with the numbers of the records of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// No record has a tag.
    #[default]
    Untagged,
    /// Records of streams get the next number of their stream.
    Next,
    /// The same; streams are trimmed and cut as well, whose numbers are checked first.
    Checked,
    /// All tags stay as they are.
    Kept,
}

/// Trims and cuts of streams that a log at its cap could not state yet. They hold at `at`, before every record after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldTrims {
    /// Everything before this is durable.
    pub(crate) at: Lsn,
    /// What is held back.
    pub(crate) tags: Vec<Tag>,
}

/// The effect of all tagged records so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaggedState {
    pub(crate) streams: StreamTable,
    /// What is cut off the log itself.
    pub(crate) cuts: CutList,
    /// The number of the segment from which on the streams are read when the log is opened, 0 if there are none.
    pub(crate) streams_from: u64,
    /// The number of the segment from which on the cuts are read, 0 if there are none.
    pub(crate) cuts_from: u64,
    /// The end of the last record without a tag.
    pub(crate) plain_end: Lsn,
    /// How often the log was cut since it was opened.
    pub(crate) cut: u64,
    /// Whether the cuts were stated all at once.
    pub(crate) restates: bool,
    /// What the opening found held back, until the records come to that place.
    pub(crate) held: Option<HeldTrims>,
}

impl TaggedState {
    /// That of a log of these segments without tagged records.
    pub(crate) fn of(segments: &[SegmentHeader]) -> Self {
        let mut state = Self::default();
        for header in segments {
            state.streams.segment_started(header.first_lsn);
        }
        state
    }

    /// Takes in a tagged record at `lsn`, which takes `bytes` bytes of segment `segment`.
    pub(crate) fn apply(&mut self, tag: &Tag, payload: &[u8], (lsn, bytes): (Lsn, usize), segment: u64) {
        match tag.kind {
            TagKind::LogCut => {
                self.cuts.cut(Lsn::new(tag.number), lsn);
                self.cut += 1;
                if self.cuts_from == 0 {
                    self.cuts_from = segment;
                }
            }
            TagKind::LogCuts => {
                // A statement that does not read as one restates nothing: what was known before still holds.
                if let Some(cuts) = CutList::decode(payload) {
                    self.cuts = cuts;
                    self.cuts_from = segment;
                    self.restates = true;
                }
            }
            _ => {
                self.take_in_held(lsn);
                if self.streams_from == 0 {
                    self.streams_from = segment;
                }
                self.streams.apply(tag, lsn, u32::try_from(bytes).unwrap_or(u32::MAX));
            }
        }
    }

    /// Takes in what was held back up to `lsn`.
    pub(crate) fn take_in_held(&mut self, lsn: Lsn) {
        if let Some(held) = self.held.take_if(|held| held.at <= lsn) {
            held.tags.iter().for_each(|tag| self.streams.hold_back(tag));
        }
    }

    /// What a new segment must restate, `None` if nothing is cut.
    pub(crate) fn restatement(&mut self, first: Lsn) -> Option<Vec<u8>> {
        self.cuts.trim(first);
        if self.cuts.is_empty() {
            self.cuts_from = 0;
            return None;
        }
        Some(planted!(CutsNotRestated, self.cuts.encode()))
    }

    /// How far a log can be trimmed whose untagged records are trimmed to `plain`: not past a segment that a stream needs.
    pub(crate) fn trim_bound(&self, plain: Lsn) -> Lsn {
        if self.streams_from == 0 {
            return plain;
        }
        let plain = if self.plain_end <= plain { Lsn::MAX } else { plain };
        plain.min(planted!(TrimPastStreams, self.streams.needed_from()).unwrap_or(Lsn::MAX))
    }
}
