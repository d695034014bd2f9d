//! Saves and loads recordings, so that one of their states can be judged again later.
//!
//! A recording of threads and a real kernel cannot be made twice; the file keeps it whole: eight bytes that name the
//! format, then the recording as `postcard` encodes it.
//!
//! Invariant: what was read back equals what was written; a file that is cut off or of another kind is an error.

use std::io;
use std::path::Path;

use crate::blocks::event::Event as BlockEvent;
use seawall_crash_test::call::Record;
use seawall_crash_test::content::Content;

const MAGIC: &[u8; 8] = b"SWCRASH5";

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Tape {
    /// By the file recorder.
    Files(Record),
    /// By the block recorder: file system, contents at the start, events.
    Blocks(String, Content, Vec<BlockEvent>),
}

/// A recording in a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Kept {
    /// Where records and chance came from.
    pub(crate) seed: u64,
    /// Transactions that one life issues at most.
    pub(crate) transactions: u64,
    pub(crate) tape: Tape,
}

impl Kept {
    fn encode(&self) -> io::Result<Vec<u8>> {
        let body = postcard::to_allocvec(self).map_err(|error| io::Error::other(error.to_string()))?;
        Ok([&MAGIC[..], &body].concat())
    }

    fn decode(bytes: &[u8]) -> io::Result<Self> {
        let malformed = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let body = bytes.strip_prefix(MAGIC);
        let body = body.ok_or_else(|| malformed("it is no recording of this version".to_owned()))?;
        postcard::from_bytes(body).map_err(|error| malformed(error.to_string()))
    }

    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.encode()?)
    }

    /// Reads a recording back: `InvalidData` if it is none or not all of one.
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        Self::decode(&std::fs::read(path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockEvent, Kept, Tape};
    use crate::blocks::event::Payload;
    use seawall_crash_test::call::{Call, Event, Record};
    use seawall_crash_test::tree::Tree;

    #[test]
    fn what_is_read_back_equals_what_was_written_and_nothing_less_is_accepted() {
        let write = Call::Write { inode: 1, offset: 512, data: [1, 2, 3][..].into(), mapped: false };
        let events = vec![Event { call: write, thread: 7, ended: 1 }];
        let files = Record { before: Tree::default(), events, notices: Vec::new() };
        let blocks = vec![
            BlockEvent::Write { number: 1, offset: 512, payload: Payload::Data(vec![9; 512].into()) },
            BlockEvent::Write { number: 2, offset: 0, payload: Payload::Zeros(4096) },
            BlockEvent::Flush { number: 3 },
            BlockEvent::Forced { number: 2 },
            BlockEvent::Done { number: 3 },
            BlockEvent::Mark("opened 1 0".to_owned()),
        ];
        let start = [1; 4096][..].into();
        for tape in [Tape::Files(files), Tape::Blocks("xfs".to_owned(), start, blocks)] {
            let kept = Kept { seed: 7, transactions: 9, tape };
            let bytes = kept.encode().expect("has a length");
            assert_eq!(Kept::decode(&bytes).expect("it was just encoded"), kept);
            for cut in 0..bytes.len() {
                assert!(Kept::decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}
