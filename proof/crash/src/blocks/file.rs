//! A recorded disk in memory, served over FUSE and made a block device by a loop device.
//!
//! The loop device uses direct I/O, so that [`BlockFile`] receives the requests that a disk would see: `REQ_OP_WRITE`
//! as WRITE, a discard as FALLOCATE, a flush as FSYNC (a FUA write as write and flush). Its contents share what they have in
//! common with other states, so that the next crash state is put in place without copying a disk.
//!
//! It can fail on demand: writes that contain a given pattern, all writes, or flushes.
//!
//! Invariant: while no recording runs no request is kept, so judging thousands of states costs no memory.

use std::sync::{Mutex, MutexGuard};

use super::event::{Event, Payload};
use super::record::Record;
use crate::bytes::index;
use rustix::io::Errno;
use seawall_crash_test::content::Content;
use seawall_crash_test::recorder::mount::{Answer, Served};
use seawall_crash_test::recorder::wire::{Attributes, OPEN_DIRECT_IO, ROOT, Reply, Request, opcode};

/// The disk's name in the mounted directory.
pub(crate) const DISK: &str = "disk";
/// The control file's.
pub(crate) const MARKS: &str = "marks";

const DISK_NODE: u64 = 2;
const MARKS_NODE: u64 = 3;

/// What fails.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failing {
    /// Writes that contain a page that starts with this.
    pub(crate) pages: Option<Vec<u8>>,
    pub(crate) writes: bool,
    pub(crate) flushes: bool,
}

#[derive(Debug, Default)]
struct State {
    content: Content,
    record: Record,
    failing: Failing,
    failed: u64,
}

/// The disk and its record.
#[derive(Debug)]
pub(crate) struct BlockFile {
    state: Mutex<State>,
}

impl BlockFile {
    pub(crate) fn new(bytes: u64) -> Self {
        let file = Self { state: Mutex::default() };
        file.state().content.resize(index(bytes));
        file
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the disk")
    }

    pub(crate) fn install(&self, content: Content) {
        self.state().content = content;
    }

    /// Starts a record; gives the contents from which it starts.
    pub(crate) fn start_record(&self) -> Content {
        let mut state = self.state();
        state.record.start();
        state.content.clone()
    }

    pub(crate) fn take_record(&self) -> Vec<Event> {
        self.state().record.take()
    }

    pub(crate) fn mark(&self, text: String) {
        self.state().record.mark(text);
    }

    /// Fails by these rules from now on; returns how many operations failed by the rules before.
    pub(crate) fn fail(&self, failing: Failing) -> u64 {
        let mut state = self.state();
        state.failing = failing;
        std::mem::take(&mut state.failed)
    }
}

/// A reply that is entered when it is sent, if there is a record.
fn recorded(reply: Reply, number: Option<u64>) -> Answer {
    match number {
        Some(number) => Answer::Recorded(reply, number),
        None => Answer::Reply(reply),
    }
}

impl State {
    fn put(&mut self, reply: Reply, offset: u64, payload: Payload) -> Answer {
        payload.lay(&mut self.content, offset, payload.bytes());
        recorded(reply, self.record.write(offset, || payload, false))
    }

    fn fails(&mut self, data: &[u8]) -> bool {
        let marked = |mark: &Vec<u8>| data.chunks(512).any(|sector| sector.starts_with(mark));
        let fails = self.failing.writes || self.failing.pages.as_ref().is_some_and(marked);
        self.failed += u64::from(fails);
        fails
    }

    fn write(&mut self, request: &Request<'_>) -> Answer {
        let data = request.data();
        let written = Reply::written(u32::try_from(data.len()).unwrap_or(0));
        if request.node == MARKS_NODE {
            let text = String::from_utf8_lossy(data);
            text.lines().for_each(|line| self.record.mark(line.to_owned()));
            return Answer::Reply(written);
        }
        if self.fails(data) {
            return Answer::Error(Errno::IO);
        }
        self.put(written, request.span().0, Payload::Data(data.into()))
    }

    fn serve(&mut self, request: &Request<'_>) -> Option<Answer> {
        let attributes = |node| {
            let bytes = if node == DISK_NODE { self.content.len() as u64 } else { 0 };
            Attributes::plain(node, bytes, node == ROOT)
        };
        let reply = match request.opcode {
            opcode::LOOKUP => match std::str::from_utf8(request.bytes(0, 0)) {
                Ok(DISK) => Reply::entry(&attributes(DISK_NODE)),
                Ok(MARKS) => Reply::entry(&attributes(MARKS_NODE)),
                _ => return None,
            },
            opcode::GETATTR | opcode::SETATTR => Reply::attr(&attributes(request.node)),
            opcode::OPEN => {
                let flags = if request.node == MARKS_NODE { OPEN_DIRECT_IO } else { 0 };
                Reply::default().opened(request.node, flags)
            }
            opcode::OPENDIR => Reply::default().opened(request.node, 0),
            opcode::READDIR => {
                let (from, room) = request.span();
                let file = Attributes::plain(0, 0, false).mode;
                let all = [(DISK.as_bytes(), DISK_NODE, file), (MARKS.as_bytes(), MARKS_NODE, file)];
                Reply::entries(all.into_iter(), from, room as usize)
            }
            opcode::READ => {
                let (offset, size) = request.span();
                Reply::default().bytes(&self.content.read(index(offset), index(offset + u64::from(size))))
            }
            opcode::WRITE => return Some(self.write(request)),
            opcode::FALLOCATE if self.failing.writes => return Some(Answer::Error(Errno::IO)),
            opcode::FALLOCATE => {
                return Some(self.put(Reply::default(), request.u64(8), Payload::Zeros(request.u64(16))));
            }
            opcode::FSYNC if self.failing.flushes => {
                self.failed += 1;
                return Some(Answer::Error(Errno::IO));
            }
            opcode::FSYNC => return Some(recorded(Reply::default(), self.record.flush())),
            _ => return Some(Answer::Error(Errno::NOSYS)),
        };
        Some(Answer::Reply(reply))
    }
}

impl Served for BlockFile {
    fn begin(&self, request: &Request<'_>) -> Answer {
        self.state().serve(request).unwrap_or(Answer::Error(Errno::NOENT))
    }

    fn done(&self, number: u64) {
        self.state().record.done(number);
    }
}
