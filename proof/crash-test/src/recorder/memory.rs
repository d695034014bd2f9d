//! The recorded directory: files in memory, served over FUSE, each change an event of the record.
//!
//! The directory on the disk is read once and never written. A sync is answered at once, because the crash is simulated.

use super::mount::{Answer, Served};
use super::wire::{self, Attributes, OPEN_KEEP_CACHE, Reply, Request, WRITE_CACHE, opcode};
use super::{Fault, FaultOn};
use crate::call::{Call, Event};
use crate::tree::{Inode, Kind, Name, Node, ROOT, Tree};
use rustix::io::Errno;
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

/// What of a file or folder no tree has.
#[derive(Debug)]
struct About {
    links: u32,
    user: u32,
    group: u32,
    changed_seconds: u64,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl About {
    /// A file that this user has just made.
    fn new((user, group): (u32, u32), links: u32) -> Self {
        Self { links, user, group, changed_seconds: unix_seconds(), attributes: BTreeMap::new() }
    }
}

/// The directory and its record so far.
#[derive(Debug)]
pub(crate) struct State {
    tree: Tree,
    about: BTreeMap<Inode, About>,
    pub(crate) events: Vec<Event>,
    /// Which kinds of things happened that the record does not show.
    pub(crate) notices: BTreeSet<&'static str>,
    bytes: u64,
    bytes_max: u64,
    /// Whether the record would have become too long.
    pub(crate) overflown: bool,
    /// The call that fails.
    pub(crate) fault: Option<Fault>,
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
        let mut about: BTreeMap<Inode, About> =
            tree.nodes.keys().map(|inode| (*inode, About::new(owner, 0))).collect();
        for inode in tree.nodes.values().flat_map(|folder| folder.names.values()) {
            if let Some(about) = about.get_mut(inode) {
                about.links += 1;
            }
        }
        Self(Mutex::new(State {
            tree: tree.clone(),
            about,
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
}

impl State {
    /// Carries out a call, and enters it as one that ended at once.
    pub(crate) fn note(&mut self, call: Call, thread: u32) -> u64 {
        self.tree.take(&call);
        let ended = self.events.len() + 1;
        self.events.push(Event { call, thread, ended });
        self.events.len() as u64 - 1
    }

    fn node(&self, node: u64) -> Result<&Node, Errno> {
        self.tree.nodes.get(&inode(node)).map(|node| &**node).ok_or(Errno::NOENT)
    }

    fn about(&mut self, node: u64) -> Result<&mut About, Errno> {
        self.about.get_mut(&inode(node)).ok_or(Errno::NOENT)
    }

    fn named(&self, folder: u64, name: &[u8]) -> Result<Inode, Errno> {
        self.node(folder)?.names.get(name).copied().ok_or(Errno::NOENT)
    }

    /// Whether `new` can take the place of `old`: a folder that of an empty one only, and nothing else that of a folder.
    fn replaces(&self, new_is_folder: bool, old: Inode) -> Result<(), Errno> {
        match (new_is_folder, self.tree.is_folder(old)) {
            (true, false) => Err(Errno::NOTDIR),
            (false, true) => Err(Errno::ISDIR),
            _ if self.tree.nodes.get(&old).is_some_and(|node| !node.names.is_empty()) => Err(Errno::NOTEMPTY),
            _ => Ok(()),
        }
    }

    fn lose_name(&mut self, of: Inode) {
        if let Some(about) = self.about.get_mut(&of) {
            about.links = about.links.saturating_sub(1);
        }
    }

    fn attributes(&self, of: Inode) -> Result<Attributes, Errno> {
        let node = self.tree.nodes.get(&of).ok_or(Errno::NOENT)?;
        let about = self.about.get(&of).ok_or(Errno::NOENT)?;
        let (kind, bytes) = match &node.kind {
            Kind::File => (0o100_000, node.content.len()),
            Kind::Folder => (0o040_000, 4096),
            Kind::Symlink(target) => (0o120_000, target.len()),
            Kind::Special(mode) => (mode & 0o170_000, 0),
        };
        Ok(Attributes {
            node: u64::from(of) + 1,
            bytes: bytes as u64,
            mode: kind | node.mode.unwrap_or(0o755) & 0o7777,
            links: if node.kind == Kind::Folder { 2 } else { about.links },
            user: about.user,
            group: about.group,
            changed_seconds: about.changed_seconds,
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

    fn fails_name(&mut self) -> Result<(), Errno> {
        self.fails(FaultOn::Name).map_or(Ok(()), |errno| Err(Errno::from_raw_os_error(errno)))
    }

    /// Makes a file or folder, with a name if it has a parent.
    fn make(
        &mut self,
        request: &Request<'_>,
        name: Option<&[u8]>,
        kind: Kind,
        mode: u32,
    ) -> Result<Attributes, Errno> {
        self.fails_name()?;
        let new = self.tree.nodes.keys().last().map_or(1, |last| last + 1);
        let (parent, mode) = (inode(request.node), mode & 0o7777);
        let call = match name {
            Some(name) if self.named(request.node, name).is_ok() => return Err(Errno::EXIST),
            Some(name) => Call::Create { parent, name: name.into(), inode: new, kind, mode },
            None => Call::Temporary { inode: new, mode },
        };
        self.about.insert(new, About::new((request.user, request.group), u32::from(name.is_some())));
        self.note(call, request.thread);
        self.attributes(new)
    }

    fn remove(&mut self, request: &Request<'_>) -> Result<Reply, Errno> {
        let name = request.bytes(0, 0);
        let gone = self.named(request.node, name)?;
        self.replaces(request.opcode == opcode::RMDIR, gone)?;
        self.lose_name(gone);
        self.note(
            Call::Remove { parent: inode(request.node), name: name.into(), inode: gone },
            request.thread,
        );
        Ok(Reply::default())
    }

    fn rename(&mut self, request: &Request<'_>, to: u64, flags: u32, names: usize) -> Result<Reply, Errno> {
        let (old, new): (Name, Name) = (request.bytes(names, 0).into(), request.bytes(names, 1).into());
        if flags & !(NO_REPLACE | EXCHANGE) != 0 {
            return Err(Errno::INVAL);
        }
        let moved = self.named(request.node, &old)?;
        let over = self.named(to, &new).ok();
        let exchange = flags & EXCHANGE != 0;
        match over {
            Some(_) if flags & NO_REPLACE != 0 => return Err(Errno::EXIST),
            None if exchange => return Err(Errno::NOENT),
            Some(over) if over == moved => return Ok(Reply::default()),
            Some(over) if !exchange => self.replaces(self.tree.is_folder(moved), over)?,
            _ => {}
        }
        self.fails_name()?;
        if let Some(over) = over.filter(|_| !exchange) {
            self.lose_name(over);
        }
        let (from, to) = ((inode(request.node), old), (inode(to), new));
        self.note(Call::Rename { from, to, inode: moved, over, exchange }, request.thread);
        Ok(Reply::default())
    }

    fn link(&mut self, request: &Request<'_>) -> Result<Attributes, Errno> {
        self.fails_name()?;
        let (file, name): (Inode, Name) = (inode(request.u64(0)), request.bytes(8, 0).into());
        if self.named(request.node, &name).is_ok() {
            return Err(Errno::EXIST);
        }
        self.about(request.u64(0))?.links += 1;
        self.note(Call::Link { inode: file, parent: inode(request.node), name }, request.thread);
        self.attributes(file)
    }

    /// Refuses a length that the record may not have.
    fn length(&mut self, bytes: u64) -> Result<(), Errno> {
        // Holes cost nothing; only what is written counts.
        if bytes > FILE_BYTES_MAX {
            self.overflown = true;
            return Err(Errno::FBIG);
        }
        Ok(())
    }

    fn resize(&mut self, request: &Request<'_>, bytes: u64) -> Result<(), Errno> {
        self.length(bytes)?;
        self.about(request.node)?.changed_seconds = unix_seconds();
        self.note(Call::Resize { inode: inode(request.node), bytes }, request.thread);
        Ok(())
    }

    fn set(&mut self, request: &Request<'_>) -> Result<Attributes, Errno> {
        let valid = request.u32(0);
        if valid & wire::SET_SIZE != 0 {
            self.resize(request, request.u64(16))?;
        }
        let mode = request.u32(68) & 0o7777;
        if valid & wire::SET_MODE != 0 && self.node(request.node)?.mode != Some(mode) {
            self.note(Call::Mode { inode: inode(request.node), mode }, request.thread);
        }
        let about = self.about(request.node)?;
        if valid & wire::SET_OWNER != 0 {
            about.user = request.u32(76);
        }
        if valid & wire::SET_GROUP != 0 {
            about.group = request.u32(80);
        }
        if valid & wire::SET_MTIME != 0 {
            about.changed_seconds = request.u64(40);
        }
        self.attributes(inode(request.node))
    }

    fn write(&mut self, request: &Request<'_>) -> Result<Answer, Errno> {
        let mut data = request.data();
        match self.fails(FaultOn::Write) {
            Some(0) => data = &data[..data.len().div_ceil(2)],
            Some(errno) => return Err(Errno::from_raw_os_error(errno)),
            None => {}
        }
        let (offset, length) = (request.span().0, data.len() as u64);
        if self.bytes + length > self.bytes_max {
            self.overflown = true;
            return Err(Errno::FBIG);
        }
        self.length(offset.saturating_add(length))?;
        self.bytes += length;
        self.about(request.node)?.changed_seconds = unix_seconds();
        let mapped = request.u32(20) & WRITE_CACHE != 0;
        let call = Call::Write { inode: inode(request.node), offset, data: data.into(), mapped };
        let number = self.note(call, request.thread);
        if request.write_flags() & (wire::O_DSYNC | wire::O_DIRECT) == wire::O_DSYNC | wire::O_DIRECT {
            self.synced_by_themselves.insert(number);
        }
        Ok(Answer::Recorded(Reply::written(u32::try_from(length).unwrap_or(0)), number))
    }

    fn read(&mut self, request: &Request<'_>) -> Result<Reply, Errno> {
        let (offset, size) = request.span();
        let content = &self.node(request.node)?.content;
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(Reply::default().bytes(&content.read(from, from.saturating_add(size as usize))))
    }

    fn allocate(&mut self, request: &Request<'_>) -> Result<Reply, Errno> {
        let (offset, bytes, mode) = (request.u64(8), request.u64(16), request.u32(24));
        let end = offset.saturating_add(bytes);
        let size = self.node(request.node)?.content.len() as u64;
        if !matches!(mode & !KEEP_SIZE, 0 | PUNCH_HOLE | ZERO_RANGE) {
            self.notices.insert("fallocate that moves, inserts or unshares ranges was refused");
            return Err(Errno::OPNOTSUPP);
        }
        if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 && offset < size {
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

    fn sync(&mut self, request: &Request<'_>) -> Result<Answer, Errno> {
        if let Some(errno) = self.fails(FaultOn::Sync) {
            self.note(Call::SyncFailed { inode: inode(request.node) }, request.thread);
            return Err(Errno::from_raw_os_error(errno));
        }
        let call = Call::Sync { inode: inode(request.node), data_only: request.u32(8) & 1 != 0 };
        let number = self.note(call, request.thread);
        Ok(Answer::Recorded(Reply::default(), number))
    }

    fn list(&mut self, request: &Request<'_>) -> Result<Reply, Errno> {
        let handle = request.u64(0);
        let (from, room) = request.span();
        if from == 0 {
            let folder = self.node(request.node)?;
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

    fn extended(&mut self, request: &Request<'_>) -> Result<Reply, Errno> {
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
                self.about(request.node)?.attributes.insert(name, value);
                Ok(Reply::default())
            }
            opcode::REMOVEXATTR => {
                let removed = self.about(request.node)?.attributes.remove(request.bytes(0, 0));
                removed.map(|_| Reply::default()).ok_or(Errno::NODATA)
            }
            opcode::GETXATTR => {
                let value =
                    self.about(request.node)?.attributes.get(request.bytes(8, 0)).ok_or(Errno::NODATA)?;
                Reply::attribute(value, room).ok_or(Errno::RANGE)
            }
            _ => {
                let names = self.about(request.node)?.attributes.keys();
                let all: Vec<u8> = names.flat_map(|name| [&name[..], &[0]].concat()).collect();
                Reply::attribute(&all, room).ok_or(Errno::RANGE)
            }
        }
    }

    fn serve(&mut self, request: &Request<'_>) -> Result<Answer, Errno> {
        let reply = match request.opcode {
            opcode::LOOKUP => Reply::entry(&self.attributes(self.named(request.node, request.bytes(0, 0))?)?),
            opcode::GETATTR => Reply::attr(&self.attributes(inode(request.node))?),
            opcode::SETATTR => Reply::attr(&self.set(request)?),
            opcode::READLINK => match &self.node(request.node)?.kind {
                Kind::Symlink(target) => Reply::default().bytes(target),
                _ => return Err(Errno::INVAL),
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
            _ => return Err(Errno::NOSYS),
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
