//! The recorded directory: files in memory, served over FUSE, each change an event of the record.
//!
//! The directory on the disk is read once and never written. A sync is answered at once, because the crash is simulated.

use super::mount::{Answer, Served};
use super::wire::{self, Attributes, OPEN_KEEP_CACHE, Reply, Request, WRITE_CACHE, errno, opcode};
use super::{Fault, FaultOn};
use crate::call::{Call, Event};
use crate::content::Content;
use crate::tree::{Inode, Kind, Name, ROOT, Tree};
use seawall_sys::clock::unix_seconds;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long a file may be.
const FILE_BYTES_MAX: u64 = 16 << 30;
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;
const NO_REPLACE: u32 = 1;
const EXCHANGE: u32 = 2;

/// A file or folder as the program sees it.
#[derive(Debug)]
struct Node {
    kind: Kind,
    content: Content,
    names: BTreeMap<Name, Inode>,
    mode: u32,
    links: u32,
    user: u32,
    group: u32,
    changed_seconds: u64,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The directory and its record so far.
#[derive(Debug)]
pub(crate) struct State {
    nodes: BTreeMap<Inode, Node>,
    next: Inode,
    pub(crate) events: Vec<Event>,
    /// Which kinds of things happened that the record does not show.
    pub(crate) notices: BTreeSet<&'static str>,
    bytes: u64,
    bytes_max: u64,
    /// Whether the record would have become too long.
    pub(crate) overflown: bool,
    fault: Option<Fault>,
    /// Whether the fault has been delivered.
    pub(crate) faulted: bool,
    /// Direct writes to files opened with `O_DSYNC`: of one made asynchronously the kernel sends no sync.
    synced_by_themselves: BTreeSet<u64>,
    /// What each open folder listed when it was read from its beginning.
    listings: BTreeMap<u64, Vec<(Name, u64, u32)>>,
}

/// The same, shared with the server.
#[derive(Debug)]
pub(crate) struct Memory(Mutex<State>);

impl Memory {
    /// The directory `tree`, which belongs to this user.
    pub(crate) fn new(tree: &Tree, owner: (u32, u32), bytes_max: u64) -> Self {
        let now = unix_seconds();
        let node = |(inode, node): (&Inode, &Arc<crate::tree::Node>)| {
            let links = tree
                .nodes
                .values()
                .flat_map(|other| other.names.values())
                .filter(|one| *one == inode)
                .count();
            let made = Node {
                kind: node.kind.clone(),
                content: Content::clone(&node.content),
                names: node.names.clone(),
                mode: node.mode.unwrap_or(0o755),
                links: u32::try_from(links).unwrap_or(1).max(1),
                user: owner.0,
                group: owner.1,
                changed_seconds: now,
                attributes: BTreeMap::new(),
            };
            (*inode, made)
        };
        Self(Mutex::new(State {
            nodes: tree.nodes.iter().map(node).collect(),
            next: tree.nodes.keys().last().map_or(1, |last| last + 1),
            events: Vec::new(),
            notices: BTreeSet::new(),
            bytes: 0,
            bytes_max,
            overflown: false,
            fault: None,
            faulted: false,
            synced_by_themselves: BTreeSet::new(),
            listings: BTreeMap::new(),
        }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a call fails.
    pub(crate) fn fail(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }
}

impl State {
    /// Enters a call that ended at once.
    pub(crate) fn note(&mut self, call: Call, thread: u32) -> u64 {
        let ended = self.events.len() + 1;
        self.events.push(Event { call, thread, ended });
        self.events.len() as u64 - 1
    }

    fn node(&mut self, node: u64) -> Result<&mut Node, i32> {
        self.nodes.get_mut(&inode(node)).ok_or(errno::NOENT)
    }

    fn named(&self, folder: u64, name: &[u8]) -> Result<Inode, i32> {
        let node = self.nodes.get(&inode(folder)).ok_or(errno::NOENT)?;
        node.names.get(name).copied().ok_or(errno::NOENT)
    }

    fn attributes(&self, of: Inode) -> Result<Attributes, i32> {
        let node = self.nodes.get(&of).ok_or(errno::NOENT)?;
        let (kind, bytes) = match &node.kind {
            Kind::File => (0o100_000, node.content.len()),
            Kind::Folder => (0o040_000, 4096),
            Kind::Symlink(target) => (0o120_000, target.len()),
            Kind::Special(mode) => (mode & 0o170_000, 0),
        };
        Ok(Attributes {
            node: u64::from(of) + 1,
            bytes: bytes as u64,
            mode: kind | node.mode & 0o7777,
            links: if node.kind == Kind::Folder { 2 } else { node.links },
            user: node.user,
            group: node.group,
            changed_seconds: node.changed_seconds,
        })
    }

    /// Counts a call of this kind; its error number if it is the one that fails.
    fn fails(&mut self, on: FaultOn) -> Option<i32> {
        let fault = self.fault.as_mut().filter(|fault| fault.on == on)?;
        if fault.nth > 0 {
            fault.nth -= 1;
            return None;
        }
        let errno = fault.errno;
        self.fault = None;
        self.faulted = true;
        Some(errno)
    }

    fn fails_name(&mut self) -> Result<(), i32> {
        self.fails(FaultOn::Name).map_or(Ok(()), Err)
    }

    /// Makes a file or folder, with a name if it has a parent.
    fn make(
        &mut self,
        request: &Request<'_>,
        name: Option<&[u8]>,
        kind: Kind,
        mode: u32,
    ) -> Result<Attributes, i32> {
        self.fails_name()?;
        let new = self.next;
        let node = Node {
            kind: kind.clone(),
            content: Content::default(),
            names: BTreeMap::new(),
            mode: mode & 0o7777,
            links: u32::from(name.is_some()),
            user: request.user,
            group: request.group,
            changed_seconds: unix_seconds(),
            attributes: BTreeMap::new(),
        };
        let call = if let Some(name) = name {
            let parent = inode(request.node);
            let name: Name = name.into();
            let names = &mut self.nodes.get_mut(&parent).ok_or(errno::NOENT)?.names;
            if names.contains_key(&name) {
                return Err(errno::EXIST);
            }
            names.insert(Arc::clone(&name), new);
            Call::Create { parent, name, inode: new, kind, mode: mode & 0o7777 }
        } else {
            Call::Temporary { inode: new, mode: mode & 0o7777 }
        };
        self.next += 1;
        self.nodes.insert(new, node);
        self.note(call, request.thread);
        self.attributes(new)
    }

    fn remove(&mut self, request: &Request<'_>) -> Result<Reply, i32> {
        let name = request.bytes(0, 0);
        let gone = self.named(request.node, name)?;
        let folder = self.nodes.get(&gone).is_some_and(|node| node.kind == Kind::Folder);
        match (request.opcode == opcode::RMDIR, folder) {
            (true, false) => return Err(errno::NOTDIR),
            (false, true) => return Err(errno::ISDIR),
            _ => {}
        }
        if self.nodes.get(&gone).is_some_and(|node| !node.names.is_empty()) {
            return Err(errno::NOTEMPTY);
        }
        self.node(request.node)?.names.remove(name);
        if let Some(node) = self.nodes.get_mut(&gone) {
            node.links = node.links.saturating_sub(1);
        }
        self.note(
            Call::Remove { parent: inode(request.node), name: name.into(), inode: gone },
            request.thread,
        );
        Ok(Reply::default())
    }

    fn rename(&mut self, request: &Request<'_>, to: u64, flags: u32, names: usize) -> Result<Reply, i32> {
        let (old, new): (Name, Name) = (request.bytes(names, 0).into(), request.bytes(names, 1).into());
        if flags & !(NO_REPLACE | EXCHANGE) != 0 {
            return Err(errno::INVAL);
        }
        let moved = self.named(request.node, &old)?;
        let over = self.named(to, &new).ok();
        let exchange = flags & EXCHANGE != 0;
        match over {
            Some(_) if flags & NO_REPLACE != 0 => return Err(errno::EXIST),
            None if exchange => return Err(errno::NOENT),
            Some(over) if over == moved => return Ok(Reply::default()),
            Some(over) if !exchange => {
                let folder =
                    |inode| self.nodes.get(inode).is_some_and(|node: &Node| node.kind == Kind::Folder);
                match (folder(&moved), folder(&over)) {
                    (true, false) => return Err(errno::NOTDIR),
                    (false, true) => return Err(errno::ISDIR),
                    _ => {}
                }
                if self.nodes.get(&over).is_some_and(|node| !node.names.is_empty()) {
                    return Err(errno::NOTEMPTY);
                }
            }
            _ => {}
        }
        self.fails_name()?;
        let from = &mut self.node(request.node)?.names;
        match over.filter(|_| exchange) {
            Some(over) => from.insert(Arc::clone(&old), over),
            None => from.remove(&old),
        };
        self.node(to)?.names.insert(Arc::clone(&new), moved);
        if let Some(node) = over.filter(|_| !exchange).and_then(|over| self.nodes.get_mut(&over)) {
            node.links = node.links.saturating_sub(1);
        }
        let (from, to) = ((inode(request.node), old), (inode(to), new));
        self.note(Call::Rename { from, to, inode: moved, over, exchange }, request.thread);
        Ok(Reply::default())
    }

    fn link(&mut self, request: &Request<'_>) -> Result<Attributes, i32> {
        self.fails_name()?;
        let (file, name): (Inode, Name) = (inode(request.u64(0)), request.bytes(8, 0).into());
        let names = &mut self.node(request.node)?.names;
        if names.contains_key(&name) {
            return Err(errno::EXIST);
        }
        names.insert(Arc::clone(&name), file);
        self.nodes.get_mut(&file).ok_or(errno::NOENT)?.links += 1;
        self.note(Call::Link { inode: file, parent: inode(request.node), name }, request.thread);
        self.attributes(file)
    }

    /// A length in memory, if the record may have it.
    fn length(&mut self, bytes: u64) -> Result<usize, i32> {
        // Holes cost nothing; only what is written counts.
        if bytes > FILE_BYTES_MAX {
            self.overflown = true;
            return Err(errno::FBIG);
        }
        usize::try_from(bytes).map_err(|_| errno::FBIG)
    }

    fn resize(&mut self, request: &Request<'_>, bytes: u64) -> Result<(), i32> {
        let length = self.length(bytes)?;
        let node = self.node(request.node)?;
        node.content.resize(length);
        node.changed_seconds = unix_seconds();
        self.note(Call::Resize { inode: inode(request.node), bytes }, request.thread);
        Ok(())
    }

    fn set(&mut self, request: &Request<'_>) -> Result<Attributes, i32> {
        let valid = request.u32(0);
        if valid & wire::SET_SIZE != 0 {
            self.resize(request, request.u64(16))?;
        }
        let mode = request.u32(68) & 0o7777;
        if valid & wire::SET_MODE != 0 && self.node(request.node)?.mode != mode {
            self.node(request.node)?.mode = mode;
            self.note(Call::Mode { inode: inode(request.node), mode }, request.thread);
        }
        let node = self.node(request.node)?;
        if valid & wire::SET_OWNER != 0 {
            node.user = request.u32(76);
        }
        if valid & wire::SET_GROUP != 0 {
            node.group = request.u32(80);
        }
        if valid & wire::SET_MTIME != 0 {
            node.changed_seconds = request.u64(40);
        }
        self.attributes(inode(request.node))
    }

    fn write(&mut self, request: &Request<'_>) -> Result<Answer, i32> {
        let mut data = request.data();
        match self.fails(FaultOn::Write) {
            Some(0) => data = &data[..data.len().div_ceil(2)],
            Some(errno) => return Err(errno),
            None => {}
        }
        let (offset, length) = (request.span().0, data.len() as u64);
        if self.bytes + length > self.bytes_max {
            self.overflown = true;
            return Err(errno::FBIG);
        }
        let end = self.length(offset.saturating_add(length))?;
        self.bytes += length;
        let node = self.node(request.node)?;
        node.content.write(end - data.len(), data);
        node.changed_seconds = unix_seconds();
        let mapped = request.u32(20) & WRITE_CACHE != 0;
        let call = Call::Write { inode: inode(request.node), offset, data: data.into(), mapped };
        let number = self.note(call, request.thread);
        if request.write_flags() & (wire::O_DSYNC | wire::O_DIRECT) == wire::O_DSYNC | wire::O_DIRECT {
            self.synced_by_themselves.insert(number);
        }
        Ok(Answer::Recorded(Reply::written(u32::try_from(length).unwrap_or(0)), number))
    }

    fn read(&mut self, request: &Request<'_>) -> Result<Reply, i32> {
        let (offset, size) = request.span();
        let content = &self.node(request.node)?.content;
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(Reply::default().bytes(&content.read(from, from.saturating_add(size as usize))))
    }

    fn allocate(&mut self, request: &Request<'_>) -> Result<Reply, i32> {
        let (offset, bytes, mode) = (request.u64(8), request.u64(16), request.u32(24));
        let end = offset.saturating_add(bytes);
        let size = self.node(request.node)?.content.len() as u64;
        if !matches!(mode & !KEEP_SIZE, 0 | PUNCH_HOLE | ZERO_RANGE) {
            self.notices.insert("fallocate that moves, inserts or unshares ranges was refused");
            return Err(errno::OPNOTSUPP);
        }
        if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 && offset < size {
            let (from, to) = (self.length(offset)?, self.length(end.min(size))?);
            self.node(request.node)?.content.zero(from, to);
            self.note(
                Call::Zero { inode: inode(request.node), offset, bytes: end.min(size) - offset },
                request.thread,
            );
        }
        if mode & (KEEP_SIZE | PUNCH_HOLE) == 0 && end > size {
            self.resize(request, end)?;
        }
        Ok(Reply::default())
    }

    fn sync(&mut self, request: &Request<'_>) -> Result<Answer, i32> {
        if let Some(errno) = self.fails(FaultOn::Sync) {
            self.note(Call::SyncFailed { inode: inode(request.node) }, request.thread);
            return Err(errno);
        }
        let call = Call::Sync { inode: inode(request.node), data_only: request.u32(8) & 1 != 0 };
        let number = self.note(call, request.thread);
        Ok(Answer::Recorded(Reply::default(), number))
    }

    fn list(&mut self, request: &Request<'_>) -> Result<Reply, i32> {
        let handle = request.u64(0);
        let (from, room) = request.span();
        if from == 0 {
            let folder = self.nodes.get(&inode(request.node)).ok_or(errno::NOENT)?;
            let here = u64::from(inode(request.node)) + 1;
            let dots = [(Name::from(&b"."[..]), here, 0o040_000), (Name::from(&b".."[..]), here, 0o040_000)];
            let entry = |(name, inode): (&Name, &Inode)| {
                let mode = self.attributes(*inode).map_or(0, |attributes| attributes.mode);
                (Arc::clone(name), u64::from(*inode) + 1, mode)
            };
            let listing = dots.into_iter().chain(folder.names.iter().map(entry)).collect();
            self.listings.insert(handle, listing);
        }
        let listing = self.listings.get(&handle).map_or(&[][..], |listing| &listing[..]);
        let entries = listing.iter().map(|(name, node, mode)| (&name[..], *node, *mode));
        Ok(Reply::entries(entries, from, room as usize))
    }

    fn extended(&mut self, request: &Request<'_>) -> Result<Reply, i32> {
        let room = request.u32(0);
        match request.opcode {
            opcode::SETXATTR => {
                let name = request.bytes(8, 0).to_vec();
                let from = 8 + name.len() + 1;
                let rest = request.rest(from);
                let value = rest[..rest.len().min(room as usize)].to_vec();
                if !name.starts_with(b"security.") {
                    self.notices.insert("extended attributes were set: a state has none");
                }
                self.node(request.node)?.attributes.insert(name, value);
                Ok(Reply::default())
            }
            opcode::REMOVEXATTR => {
                let removed = self.node(request.node)?.attributes.remove(request.bytes(0, 0));
                removed.map(|_| Reply::default()).ok_or(errno::NODATA)
            }
            opcode::GETXATTR => {
                let value =
                    self.node(request.node)?.attributes.get(request.bytes(8, 0)).ok_or(errno::NODATA)?;
                Reply::attribute(value, room).ok_or(errno::RANGE)
            }
            _ => {
                let names = self.node(request.node)?.attributes.keys();
                let all: Vec<u8> = names.flat_map(|name| [&name[..], &[0]].concat()).collect();
                Reply::attribute(&all, room).ok_or(errno::RANGE)
            }
        }
    }

    fn serve(&mut self, request: &Request<'_>) -> Result<Answer, i32> {
        let reply = match request.opcode {
            opcode::LOOKUP => match self.named(request.node, request.bytes(0, 0)) {
                Ok(found) => Reply::entry(&self.attributes(found)?),
                Err(error) => return Err(error),
            },
            opcode::GETATTR => Reply::attr(&self.attributes(inode(request.node))?),
            opcode::SETATTR => Reply::attr(&self.set(request)?),
            opcode::READLINK => match &self.node(request.node)?.kind {
                Kind::Symlink(target) => Reply::default().bytes(target),
                _ => return Err(errno::INVAL),
            },
            opcode::SYMLINK => {
                let target = request.bytes(0, 1).into();
                Reply::entry(&self.make(request, Some(request.bytes(0, 0)), Kind::Symlink(target), 0o777)?)
            }
            opcode::MKDIR => {
                Reply::entry(&self.make(request, Some(request.bytes(8, 0)), Kind::Folder, request.u32(0))?)
            }
            opcode::MKNOD => {
                let mode = request.u32(0);
                let kind = if mode & 0o170_000 == 0o100_000 { Kind::File } else { Kind::Special(mode) };
                Reply::entry(&self.make(request, Some(request.bytes(16, 0)), kind, mode)?)
            }
            opcode::CREATE => {
                let made = self.make(request, Some(request.bytes(16, 0)), Kind::File, request.u32(4))?;
                Reply::entry(&made).opened(made.node, OPEN_KEEP_CACHE)
            }
            opcode::TMPFILE => {
                let made = self.make(request, None, Kind::File, request.u32(4))?;
                Reply::entry(&made).opened(made.node, OPEN_KEEP_CACHE)
            }
            opcode::UNLINK | opcode::RMDIR => self.remove(request)?,
            opcode::RENAME => self.rename(request, request.u64(0), 0, 8)?,
            opcode::RENAME2 => self.rename(request, request.u64(0), request.u32(8), 16)?,
            opcode::LINK => Reply::entry(&self.link(request)?),
            opcode::OPEN => Reply::default().opened(request.node, OPEN_KEEP_CACHE),
            // Each open folder has a listing of its own.
            opcode::OPENDIR => Reply::default().opened(request.unique, 0),
            opcode::READDIR => self.list(request)?,
            opcode::READ => self.read(request)?,
            opcode::WRITE => return self.write(request),
            opcode::FALLOCATE => self.allocate(request)?,
            opcode::FSYNC | opcode::FSYNCDIR => return self.sync(request),
            opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::REMOVEXATTR => {
                self.extended(request)?
            }
            _ => return Err(errno::NOSYS),
        };
        Ok(Answer::Reply(reply))
    }
}

/// The file that a node of the protocol stands for.
fn inode(node: u64) -> Inode {
    Inode::try_from(node.saturating_sub(1)).unwrap_or(Inode::MAX)
}

impl Served for Memory {
    fn begin(&self, request: &Request<'_>) -> Answer {
        self.state().serve(request).unwrap_or_else(Answer::Error)
    }

    fn done(&self, number: u64) {
        let mut state = self.state();
        let begun = state.events.len();
        let state = &mut *state;
        if let Some(event) = usize::try_from(number).ok().and_then(|number| state.events.get_mut(number)) {
            event.ended = begun;
            let thread = event.thread;
            if let (Call::Write { inode, .. }, true) =
                (&event.call, state.synced_by_themselves.remove(&number))
            {
                let inode = *inode;
                state.note(Call::Sync { inode, data_only: true }, thread);
            }
        }
    }
}

const _: () = assert!(wire::ROOT == ROOT as u64 + 1);
