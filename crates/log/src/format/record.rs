//! Encodes and walks the records of a batch and their tags, as `format/mod.rs` draws them.

use crate::format::{RECORD_BYTES_MAX, RECORD_HEADER_BYTES, TAG_BYTES};

const MORE_FOLLOWS: u32 = 1 << 31;
const HAS_TAG: u32 = 1 << 30;

const _: () = assert!(RECORD_BYTES_MAX < HAS_TAG as usize);

/// What a tagged record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagKind {
    /// A record of a stream.
    Data,
    /// A record of a stream, rewritten because the segment that held it is to be trimmed.
    Copy,
    /// What lies before the number is trimmed; [`u64::MAX`] removes the stream.
    StreamTrim,
    /// What lies at or after the number is cut.
    StreamCut,
    /// The stream has no records, and its next one gets the number.
    StreamState,
    /// The records without a tag from this LSN up to the tagged one are cut.
    LogCut,
    /// All cuts of the log that are still needed.
    LogCuts,
}

impl TagKind {
    const ALL: [Self; 7] = [
        Self::Data,
        Self::Copy,
        Self::StreamTrim,
        Self::StreamCut,
        Self::StreamState,
        Self::LogCut,
        Self::LogCuts,
    ];

    const fn code(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Copy => 2,
            Self::StreamTrim => 3,
            Self::StreamCut => 4,
            Self::StreamState => 5,
            Self::LogCut => 6,
            Self::LogCuts => 7,
        }
    }

    /// Whether it may carry a payload.
    const fn has_payload(self) -> bool {
        matches!(self, Self::Data | Self::Copy | Self::LogCuts)
    }
}

/// The tag of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// What it says.
    pub kind: TagKind,
    /// The stream, less than 2^24.
    pub stream: u32,
    /// A sequence number or an LSN, by its kind.
    pub number: u64,
}

impl Tag {
    /// What removes a stream: a trim past all numbers.
    pub(crate) const fn removal(stream: u32) -> Self {
        Self { kind: TagKind::StreamTrim, stream, number: u64::MAX }
    }

    pub(crate) fn removes(&self) -> bool {
        *self == Self::removal(self.stream)
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> [u8; TAG_BYTES] {
        let mut out = [0; TAG_BYTES];
        out[..4].copy_from_slice(&self.stream.to_le_bytes());
        out[3] = self.kind.code();
        out[4..].copy_from_slice(&self.number.to_le_bytes());
        out
    }

    /// Whether `head`, the header of a record and its tag, names a known kind that may have `length` bytes of payload.
    pub(crate) fn fits(head: [u8; RECORD_HEADER_BYTES + TAG_BYTES], length: usize) -> bool {
        let tag = head.last_chunk::<TAG_BYTES>().and_then(|bytes| Self::decode(*bytes));
        tag.is_some_and(|tag| tag.kind.has_payload() || length == 0)
    }

    /// Reads a tag; `None` if its kind is not known.
    #[must_use]
    #[inline]
    pub fn decode(bytes: [u8; TAG_BYTES]) -> Option<Self> {
        let [a, b, c, code, number @ ..] = bytes;
        let kind = TagKind::ALL.into_iter().find(|kind| kind.code() == code)?;
        Some(Self { kind, stream: u32::from_le_bytes([a, b, c, 0]), number: u64::from_le_bytes(number) })
    }
}

/// The header of a record of `length` bytes, or `None` if no record may be that long.
#[must_use]
pub fn record_header(length: usize, more: bool) -> Option<[u8; RECORD_HEADER_BYTES]> {
    let length = u32::try_from(length).ok().filter(|length| *length as usize <= RECORD_BYTES_MAX)?;
    Some((length | if more { MORE_FOLLOWS } else { 0 }).to_le_bytes())
}

/// Marks the record that starts `bytes` as the last one of its transaction.
pub(crate) fn end_transaction(bytes: &mut [u8]) {
    if let Some(head) = bytes.first_chunk_mut::<RECORD_HEADER_BYTES>() {
        *head = (u32::from_le_bytes(*head) & !MORE_FOLLOWS).to_le_bytes();
    }
}

/// The header of a record of `length` bytes after a tag, and the tag, or `None` if no record may be that long.
#[must_use]
#[inline]
pub fn tagged_header(length: usize, more: bool, tag: &Tag) -> Option<[u8; RECORD_HEADER_BYTES + TAG_BYTES]> {
    let word = u32::from_le_bytes(record_header(length, more)?) | HAS_TAG;
    let mut out = [0; RECORD_HEADER_BYTES + TAG_BYTES];
    out[..RECORD_HEADER_BYTES].copy_from_slice(&word.to_le_bytes());
    out[RECORD_HEADER_BYTES..].copy_from_slice(&tag.encode());
    Some(out)
}

/// What the four bytes before a record say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    /// The length of the payload in bytes.
    pub(crate) length: usize,
    /// Whether the next record belongs to the same transaction.
    pub(crate) more: bool,
    /// Whether a tag stands before the payload.
    pub(crate) has_tag: bool,
}

impl RecordHead {
    #[inline]
    pub(crate) fn read(head: [u8; RECORD_HEADER_BYTES]) -> Self {
        let word = u32::from_le_bytes(head);
        let length = (word & !(MORE_FOLLOWS | HAS_TAG)) as usize;
        Self { length, more: word & MORE_FOLLOWS != 0, has_tag: word & HAS_TAG != 0 }
    }

    /// How many bytes stand before the payload.
    #[inline]
    pub(crate) fn front_bytes(self) -> usize {
        RECORD_HEADER_BYTES + if self.has_tag { TAG_BYTES } else { 0 }
    }

    #[inline]
    pub(crate) fn record_bytes(self) -> usize {
        self.front_bytes() + self.length
    }
}

/// One record inside a batch. `{:?}` prints their number, not the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Its bytes.
    pub payload: &'a [u8],
    /// Whether the next record belongs to the same transaction.
    pub more: bool,
    /// Its tag, if it has one.
    pub tag: Option<Tag>,
}

impl RawRecord<'_> {
    /// How many bytes it takes in the log, its header included.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.tag.map_or(0, |_| TAG_BYTES) + self.payload.len()
    }
}

impl std::fmt::Debug for RawRecord<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("RawRecord");
        shown.field("bytes", &self.payload.len()).field("more", &self.more).field("tag", &self.tag).finish()
    }
}

/// Walks the records of a batch; stops at the first byte that is not a whole record.
#[derive(Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl std::fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("bytes_left", &self.rest.len()).finish()
    }
}

impl<'a> Records<'a> {
    /// Walks `body`: the records of a batch without its header and padding.
    #[must_use]
    pub fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// What has not been walked yet; empty after a sound batch.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = RawRecord<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawRecord<'a>> {
        let (head, mut rest) = self.rest.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let head = RecordHead::read(*head);
        let mut tag = None;
        if head.has_tag {
            let (bytes, behind) = rest.split_first_chunk::<TAG_BYTES>()?;
            tag = Some(Tag::decode(*bytes)?);
            rest = behind;
        }
        let payload = rest.get(..head.length)?;
        if tag.is_some_and(|tag| !tag.kind.has_payload() && head.length > 0) {
            return None;
        }
        self.rest = &rest[head.length..];
        Some(RawRecord { payload, more: head.more, tag })
    }
}
