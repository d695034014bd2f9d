//! Saves and loads recordings, so that one of their states can be judged again later.
//!
//! A recording of threads and a real kernel cannot be made twice; the file keeps it whole. Numbers are little-endian,
//! every string of bytes has its length before it:
//!
//! ```text
//! "SWCRASH1" | kind u64 (0 files, 1 blocks) | seed | transactions | file system | pages … | events …
//! ```
//!
//! Invariant: what was read back equals what was written; a file that is cut off or of another kind is an error.

use std::io;
use std::path::Path;

use crate::blocks::event::{Event as BlockEvent, Pages, Payload};
use crate::bytes::index;
use crate::files::event::Event as FileEvent;

const MAGIC: &[u8; 8] = b"SWCRASH1";

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tape {
    /// By the file recorder.
    Files(Vec<FileEvent>),
    /// By the block recorder: file system, contents at the start, events.
    Blocks(String, Pages, Vec<BlockEvent>),
}

/// A recording in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Where records and chance came from.
    pub(crate) seed: u64,
    /// Transactions that one life issues at most.
    pub(crate) transactions: u64,
    /// What happened.
    pub(crate) tape: Tape,
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn numbers(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.number(*number);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn file_event(&mut self, event: &FileEvent) {
        match event {
            FileEvent::Created => self.number(0),
            FileEvent::Named { name, inode } => {
                self.numbers(&[1, *inode as u64]);
                self.bytes(name.as_bytes());
            }
            FileEvent::Renamed { from, to } => {
                self.number(2);
                self.bytes(from.as_bytes());
                self.bytes(to.as_bytes());
            }
            FileEvent::Removed { name } => {
                self.number(3);
                self.bytes(name.as_bytes());
            }
            FileEvent::Write { number, inode, offset, data, dsync } => {
                self.numbers(&[4, *number, *inode as u64, *offset as u64, u64::from(*dsync)]);
                self.bytes(data);
            }
            FileEvent::Size { inode, bytes, extend } => {
                self.numbers(&[5, *inode as u64, *bytes as u64, u64::from(*extend)]);
            }
            FileEvent::Sync { number, inode } => self.numbers(&[6, *number, *inode as u64]),
            FileEvent::SyncDir { number } => self.numbers(&[7, *number]),
            FileEvent::Done { number } => self.numbers(&[8, *number]),
            FileEvent::Mark(text) => {
                self.number(9);
                self.bytes(text.as_bytes());
            }
        }
    }

    fn block_event(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::Write { number, offset, payload: Payload::Data(data) } => {
                self.numbers(&[0, *number, *offset]);
                self.bytes(data);
            }
            BlockEvent::Write { number, offset, payload: Payload::Zeros(bytes) } => {
                self.numbers(&[1, *number, *offset, *bytes]);
            }
            BlockEvent::Flush { number } => self.numbers(&[2, *number]),
            BlockEvent::Forced { number } => self.numbers(&[5, *number]),
            BlockEvent::Done { number } => self.numbers(&[3, *number]),
            BlockEvent::Mark(text) => {
                self.number(4);
                self.bytes(text.as_bytes());
            }
        }
    }
}

struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, bytes: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn index(&mut self) -> io::Result<usize> {
        self.number().map(index)
    }

    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let length = self.index()?;
        self.take(length)
    }

    fn text(&mut self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    fn file_event(&mut self) -> io::Result<FileEvent> {
        Ok(match self.number()? {
            0 => FileEvent::Created,
            1 => FileEvent::Named { inode: self.index()?, name: self.text()? },
            2 => FileEvent::Renamed { from: self.text()?, to: self.text()? },
            3 => FileEvent::Removed { name: self.text()? },
            4 => {
                let (number, inode, offset) = (self.number()?, self.index()?, self.index()?);
                let dsync = self.number()? == 1;
                FileEvent::Write { number, inode, offset, data: self.bytes()?.into(), dsync }
            }
            5 => FileEvent::Size { inode: self.index()?, bytes: self.index()?, extend: self.number()? == 1 },
            6 => FileEvent::Sync { number: self.number()?, inode: self.index()? },
            7 => FileEvent::SyncDir { number: self.number()? },
            8 => FileEvent::Done { number: self.number()? },
            9 => FileEvent::Mark(self.text()?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }

    fn block_event(&mut self) -> io::Result<BlockEvent> {
        Ok(match self.number()? {
            kind @ (0 | 1) => {
                let (number, offset) = (self.number()?, self.number()?);
                let payload = if kind == 0 {
                    Payload::Data(self.bytes()?.into())
                } else {
                    Payload::Zeros(self.number()?)
                };
                BlockEvent::Write { number, offset, payload }
            }
            2 => BlockEvent::Flush { number: self.number()? },
            5 => BlockEvent::Forced { number: self.number()? },
            3 => BlockEvent::Done { number: self.number()? },
            4 => BlockEvent::Mark(self.text()?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }
}

impl Kept {
    fn encode(&self) -> Vec<u8> {
        let mut out = Out(MAGIC.to_vec());
        match &self.tape {
            Tape::Files(events) => {
                out.numbers(&[0, self.seed, self.transactions, events.len() as u64]);
                for event in events {
                    out.file_event(event);
                }
            }
            Tape::Blocks(file_system, pages, events) => {
                out.numbers(&[1, self.seed, self.transactions]);
                out.bytes(file_system.as_bytes());
                out.number(pages.len() as u64);
                for (number, page) in pages {
                    out.number(*number);
                    out.bytes(page);
                }
                out.number(events.len() as u64);
                for event in events {
                    out.block_event(event);
                }
            }
        }
        out.0
    }

    fn decode(bytes: &[u8]) -> io::Result<Self> {
        let mut input = In(bytes);
        if input.take(MAGIC.len())? != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (kind, seed, transactions) = (input.number()?, input.number()?, input.number()?);
        let tape = if kind == 0 {
            let count = input.number()?;
            Tape::Files((0..count).map(|_| input.file_event()).collect::<io::Result<_>>()?)
        } else {
            let file_system = input.text()?;
            let count = input.number()?;
            let page = |input: &mut In<'_>| Ok((input.number()?, input.bytes()?.into()));
            let pages = (0..count).map(|_| page(&mut input)).collect::<io::Result<_>>()?;
            let count = input.number()?;
            Tape::Blocks(
                file_system,
                pages,
                (0..count).map(|_| input.block_event()).collect::<io::Result<_>>()?,
            )
        };
        Ok(Self { seed, transactions, tape })
    }

    /// Writes the recording to `path`.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.encode())
    }

    /// Reads a recording back.
    ///
    /// # Errors
    /// Those of the file, and `InvalidData` or `UnexpectedEof` if it is no recording or not all of one.
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        Self::decode(&std::fs::read(path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockEvent, FileEvent, Kept, Payload, Tape};

    #[test]
    fn what_is_read_back_equals_what_was_written_and_nothing_less_is_accepted() {
        let files = vec![
            FileEvent::Created,
            FileEvent::Named { name: "a".to_owned(), inode: 0 },
            FileEvent::Renamed { from: "a".to_owned(), to: "b".to_owned() },
            FileEvent::Removed { name: "b".to_owned() },
            FileEvent::Size { inode: 0, bytes: 3, extend: true },
            FileEvent::Write { number: 1, inode: 0, offset: 512, data: vec![1, 2, 3].into(), dsync: true },
            FileEvent::Sync { number: 2, inode: 0 },
            FileEvent::SyncDir { number: 3 },
            FileEvent::Done { number: 3 },
            FileEvent::Mark("acked 7".to_owned()),
        ];
        let blocks = vec![
            BlockEvent::Write { number: 1, offset: 512, payload: Payload::Data(vec![9; 512].into()) },
            BlockEvent::Write { number: 2, offset: 0, payload: Payload::Zeros(4096) },
            BlockEvent::Flush { number: 3 },
            BlockEvent::Forced { number: 2 },
            BlockEvent::Done { number: 3 },
            BlockEvent::Mark("opened 1 0".to_owned()),
        ];
        let pages = [(5, vec![1; 4096].into())].into();
        for tape in [Tape::Files(files), Tape::Blocks("xfs".to_owned(), pages, blocks)] {
            let kept = Kept { seed: 7, transactions: 9, tape };
            let bytes = kept.encode();
            assert_eq!(Kept::decode(&bytes).expect("it was just encoded"), kept);
            for cut in 0..bytes.len() {
                assert!(Kept::decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}
