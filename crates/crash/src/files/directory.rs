//! The recorded directory: plain files in memory, served over FUSE to the victim.
//!
//! One flat directory of plain files in memory, served over FUSE without write-back cache, so that every write, sync,
//! allocation and change of a name reaches [`Directory`] at once and in order. The file [`MARKS`] belongs to the
//! recorder: a write to it enters the record as a mark, and the directory's listing does not show the file.
//!
//! The protocol does not show `syncfs(2)` and `sync_file_range(2)`: they send no request to a file system process. A
//! method that relies on them therefore looks like one that syncs nothing; the block recorder sees both.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::event::Event;
use crate::bytes::index;
use crate::fuse::wire::{Attributes, O_DSYNC, OPEN_DIRECT_IO, ROOT, Reply, Request, SET_SIZE, errno, opcode};
use crate::fuse::{Answer, Served};

/// The control file.
pub(crate) const MARKS: &str = ".marks";

const MARKS_NODE: u64 = 2;
/// Files have the nodes from here on.
const FIRST_NODE: u64 = 3;
const KEEP_SIZE: u32 = 1;

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<String, u64>,
    contents: Vec<Vec<u8>>,
    events: Vec<Event>,
    numbers: u64,
}

/// The directory and its record.
#[derive(Debug, Default)]
pub(crate) struct Directory(Mutex<State>);

impl Directory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panics while it holds the record")
    }

    /// Everything that happened so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }
}

fn inode(node: u64) -> usize {
    index(node.saturating_sub(FIRST_NODE))
}

impl State {
    fn attributes(&self, node: u64) -> Option<Attributes> {
        let bytes = match node {
            ROOT | MARKS_NODE => 0,
            _ => self.contents.get(inode(node))?.len() as u64,
        };
        Some(Attributes { node, bytes, directory: node == ROOT })
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn create(&mut self, name: String) -> Option<Attributes> {
        if self.names.contains_key(&name) {
            return None;
        }
        let node = FIRST_NODE + self.contents.len() as u64;
        self.contents.push(Vec::new());
        self.names.insert(name.clone(), node);
        self.events.push(Event::Created);
        self.events.push(Event::Named { name, inode: inode(node) });
        self.attributes(node)
    }

    fn resize(&mut self, node: u64, bytes: usize, extend: bool) -> Option<()> {
        let content = self.contents.get_mut(inode(node))?;
        if bytes != content.len() && !(extend && bytes < content.len()) {
            content.resize(bytes, 0);
            self.events.push(Event::Size { inode: inode(node), bytes, extend });
        }
        Some(())
    }

    fn rename(&mut self, from: String, to: String) -> Option<()> {
        let node = self.names.remove(&from)?;
        self.names.insert(to.clone(), node);
        self.events.push(Event::Renamed { from, to });
        Some(())
    }

    fn write(&mut self, request: &Request<'_>) -> Option<Answer> {
        let data = request.data();
        let written = Reply::written(u32::try_from(data.len()).ok()?);
        if request.node == MARKS_NODE {
            let text = String::from_utf8_lossy(data);
            self.events.extend(text.lines().map(|line| Event::Mark(line.to_owned())));
            return Some(Answer::Reply(written));
        }
        let offset = index(request.span().0);
        self.resize(request.node, offset + data.len(), true)?;
        let inode = inode(request.node);
        self.contents.get_mut(inode)?[offset..offset + data.len()].copy_from_slice(data);
        let number = self.number();
        let dsync = request.write_flags() & O_DSYNC != 0;
        self.events.push(Event::Write { number, inode, offset, data: data.into(), dsync });
        Some(Answer::Recorded(written, number))
    }

    fn read(&self, request: &Request<'_>) -> Option<Reply> {
        let (offset, size) = request.span();
        let content = self.contents.get(inode(request.node))?;
        let from = index(offset).min(content.len());
        let to = (from + size as usize).min(content.len());
        Some(Reply::default().bytes(&content[from..to]))
    }

    fn allocate(&mut self, request: &Request<'_>) -> Option<Answer> {
        let (offset, length, mode) = (request.u64(8), request.u64(16), request.u32(24));
        let end = index(offset + length);
        match mode {
            0 => self.resize(request.node, end, true)?,
            KEEP_SIZE => {}
            // Holes and zeroed ranges would need a rule of their own in the model; the log does without.
            _ => return Some(Answer::Error(95)),
        }
        Some(Answer::Reply(Reply::default()))
    }

    fn serve(&mut self, request: &Request<'_>) -> Option<Answer> {
        let reply = match request.opcode {
            opcode::LOOKUP => match request.name(0, 0).as_str() {
                MARKS => Reply::entry(&self.attributes(MARKS_NODE)?),
                name => Reply::entry(&self.attributes(*self.names.get(name)?)?),
            },
            opcode::GETATTR => Reply::attr(&self.attributes(request.node)?),
            opcode::SETATTR => {
                if request.u32(0) & SET_SIZE != 0 && request.node != MARKS_NODE {
                    self.resize(request.node, index(request.u64(16)), false)?;
                }
                Reply::attr(&self.attributes(request.node)?)
            }
            opcode::MKNOD | opcode::CREATE => {
                let Some(made) = self.create(request.name(16, 0)) else {
                    return Some(Answer::Error(errno::EXIST));
                };
                let entry = Reply::entry(&made);
                if request.opcode == opcode::CREATE { entry.opened(made.node, 0) } else { entry }
            }
            opcode::OPEN => {
                let flags = if request.node == MARKS_NODE { OPEN_DIRECT_IO } else { 0 };
                Reply::default().opened(request.node, flags)
            }
            opcode::OPENDIR => Reply::default().opened(request.node, 0),
            opcode::READDIR => {
                let (from, room) = request.span();
                let entries = self.names.iter().map(|(name, node)| (name.as_str(), *node));
                Reply::entries(entries, from, room as usize)
            }
            opcode::UNLINK => {
                let name = request.name(0, 0);
                self.names.remove(&name)?;
                self.events.push(Event::Removed { name });
                Reply::default()
            }
            opcode::RENAME => {
                self.rename(request.name(8, 0), request.name(8, 1))?;
                Reply::default()
            }
            opcode::RENAME2 => {
                let no_replace = 1;
                match request.u32(8) {
                    0 => {}
                    flags if flags == no_replace && !self.names.contains_key(&request.name(16, 1)) => {}
                    flags if flags == no_replace => return Some(Answer::Error(errno::EXIST)),
                    _ => return Some(Answer::Error(errno::INVAL)),
                }
                self.rename(request.name(16, 0), request.name(16, 1))?;
                Reply::default()
            }
            opcode::READ if request.node == MARKS_NODE => Reply::default(),
            opcode::READ => self.read(request)?,
            opcode::WRITE => return self.write(request),
            opcode::FALLOCATE => return self.allocate(request),
            opcode::FSYNC => {
                let number = self.number();
                self.events.push(Event::Sync { number, inode: inode(request.node) });
                return Some(Answer::Recorded(Reply::default(), number));
            }
            opcode::FSYNCDIR => {
                let number = self.number();
                self.events.push(Event::SyncDir { number });
                return Some(Answer::Recorded(Reply::default(), number));
            }
            _ => return Some(Answer::Error(errno::NOSYS)),
        };
        Some(Answer::Reply(reply))
    }
}

impl Served for Directory {
    fn begin(&self, request: &Request<'_>) -> Answer {
        self.state().serve(request).unwrap_or(Answer::Error(errno::NOENT))
    }

    fn done(&self, number: u64) {
        self.state().events.push(Event::Done { number });
    }
}
