//! A recorded disk in memory, served over FUSE and made a block device by a loop device.
//!
//! The loop device uses direct I/O, so that [`BlockFile`] receives the requests that a disk would see: `REQ_OP_WRITE`
//! as WRITE, a discard as FALLOCATE, a flush as FSYNC (a FUA write as write and flush). Its contents are a
//! copy-on-write view: shared pages below, private ones above, so that the next crash state is put in place without
//! copying a disk.
//!
//! It can fail on demand: writes that contain a given pattern, all writes, or flushes.
//!
//! Invariant: while no recording runs no request is kept, so judging thousands of states costs no memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::event::{Event, PAGE, Pages, Payload, page_spans};
use seawall_crash_test::recorder::mount::{Answer, Served};
use seawall_crash_test::recorder::wire::{Attributes, OPEN_DIRECT_IO, ROOT, Reply, Request, errno, opcode};

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
    /// All writes.
    pub(crate) writes: bool,
    /// Flushes.
    pub(crate) flushes: bool,
}

#[derive(Debug, Default)]
struct State {
    below: Arc<Pages>,
    above: HashMap<u64, Box<[u8]>>,
    record: Option<Vec<Event>>,
    failing: Failing,
    failed: u64,
    numbers: u64,
}

/// The disk and its record.
#[derive(Debug)]
pub(crate) struct BlockFile {
    bytes: u64,
    state: Mutex<State>,
}

impl BlockFile {
    /// An empty disk of `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the disk")
    }

    /// Replaces the contents.
    pub(crate) fn install(&self, below: Arc<Pages>, above: impl IntoIterator<Item = (u64, Box<[u8]>)>) {
        let mut state = self.state();
        state.below = below;
        state.above = above.into_iter().collect();
    }

    /// The contents now.
    pub(crate) fn contents(&self) -> Pages {
        let state = self.state();
        let mut pages = (*state.below).clone();
        pages.extend(state.above.iter().map(|(number, page)| (*number, Arc::from(&page[..]))));
        pages.retain(|_, page| page.iter().any(|byte| *byte != 0));
        pages
    }

    /// Starts a record; gives the contents from which it starts.
    pub(crate) fn start_record(&self) -> Pages {
        let pages = self.contents();
        self.state().record = Some(Vec::new());
        pages
    }

    /// Ends the record.
    pub(crate) fn take_record(&self) -> Vec<Event> {
        self.state().record.take().unwrap_or_default()
    }

    /// Enters a mark from this process.
    pub(crate) fn mark(&self, text: String) {
        self.state().note(Event::Mark(text));
    }

    /// Fails by these rules from now on; returns how many operations failed by the rules before.
    pub(crate) fn fail(&self, failing: Failing) -> u64 {
        let mut state = self.state();
        state.failing = failing;
        std::mem::take(&mut state.failed)
    }
}

impl State {
    fn note(&mut self, event: Event) {
        if let Some(record) = &mut self.record {
            record.push(event);
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn page(&mut self, number: u64) -> &mut [u8] {
        let below = &self.below;
        self.above.entry(number).or_insert_with(|| match below.get(&number) {
            Some(page) => Box::from(&page[..]),
            None => vec![0; PAGE].into_boxed_slice(),
        })
    }

    fn read(&self, offset: u64, size: u64) -> Reply {
        let zeros = [0; PAGE];
        let mut reply = Reply::default();
        for (number, place, _, length) in page_spans(offset, size) {
            let page = self.above.get(&number).map(|page| &page[..]);
            let page = page.or_else(|| self.below.get(&number).map(|page| &page[..])).unwrap_or(&zeros);
            reply = reply.bytes(&page[place..place + length]);
        }
        reply
    }

    fn put(&mut self, offset: u64, payload: Payload) -> u64 {
        for (number, place, from, length) in page_spans(offset, payload.bytes()) {
            match &payload {
                Payload::Data(data) => {
                    self.page(number)[place..place + length].copy_from_slice(&data[from..from + length]);
                }
                Payload::Zeros(_)
                    if !self.above.contains_key(&number) && !self.below.contains_key(&number) => {}
                Payload::Zeros(_) => self.page(number)[place..place + length].fill(0),
            }
        }
        let number = self.number();
        self.note(Event::Write { number, offset, payload });
        number
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
            text.lines().for_each(|line| self.note(Event::Mark(line.to_owned())));
            return Answer::Reply(written);
        }
        if self.fails(data) {
            return Answer::Error(errno::IO);
        }
        Answer::Recorded(written, self.put(request.span().0, Payload::Data(data.into())))
    }

    fn serve(&mut self, request: &Request<'_>, disk_bytes: u64) -> Option<Answer> {
        let attributes = |node| {
            let bytes = if node == DISK_NODE { disk_bytes } else { 0 };
            Attributes::plain(node, bytes, node == ROOT)
        };
        let reply = match request.opcode {
            opcode::LOOKUP => match request.name(0, 0).as_str() {
                DISK => Reply::entry(&attributes(DISK_NODE)),
                MARKS => Reply::entry(&attributes(MARKS_NODE)),
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
                self.read(offset, u64::from(size).min(disk_bytes.saturating_sub(offset)))
            }
            opcode::WRITE => return Some(self.write(request)),
            opcode::FALLOCATE if self.failing.writes => return Some(Answer::Error(errno::IO)),
            opcode::FALLOCATE => {
                let number = self.put(request.u64(8), Payload::Zeros(request.u64(16)));
                return Some(Answer::Recorded(Reply::default(), number));
            }
            opcode::FSYNC if self.failing.flushes => {
                self.failed += 1;
                return Some(Answer::Error(errno::IO));
            }
            opcode::FSYNC => {
                let number = self.number();
                self.note(Event::Flush { number });
                return Some(Answer::Recorded(Reply::default(), number));
            }
            _ => return Some(Answer::Error(errno::NOSYS)),
        };
        Some(Answer::Reply(reply))
    }
}

impl Served for BlockFile {
    fn begin(&self, request: &Request<'_>) -> Answer {
        self.state().serve(request, self.bytes).unwrap_or(Answer::Error(errno::NOENT))
    }

    fn done(&self, number: u64) {
        self.state().note(Event::Done { number });
    }
}
