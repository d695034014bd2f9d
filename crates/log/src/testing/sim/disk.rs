//! Simulated disk: completes operations later and in any order, fails them on request and records a trace.
//!
//! [`SimDisk`] is a running machine on top of [`Media`]. Everything that matters for a crash is kept as a trace of
//! events, so that the campaign can replay it and cut the power at every step.
//!
//! A sync that fails behaves as measured on ext4, xfs and btrfs: it reports once, the next one succeeds, the page
//! cache still shows the new data and the disk holds the old. [`Cache`] says how reads bypass the cache, if at
//! all.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use super::file::{Inode, SECTOR, Sector};
use super::media::Media;
use super::names::{Name, NameChange, Names};
use super::rng::Rng;
use crate::storage::disk::{Access, Completion, DirEntry, Disk, FileId, Op, Token};

/// How reads get past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Direct reads see the disk.
    Bypassed,
    /// There are no direct reads, but clean pages are dropped on request.
    Dropped,
    /// There are no direct reads, and clean pages stay.
    Kept,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An input/output error.
    Io,
    /// No space left.
    Full,
    /// A write that wrote less than requested; other operations fail with an input/output error.
    Short,
    /// Too many open files: what takes another descriptor fails. [`FaultPlan::operation`] then counts openings only.
    Descriptors,
}

/// Which operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FaultPlan {
    /// The first operation to fail, counted from 0.
    pub(crate) operation: u64,
    pub(crate) kind: FaultKind,
    /// Whether all later operations of the same sort fail too.
    pub(crate) sticky: bool,
}

/// What happened, as far as it matters to a crash.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    NewInode,
    Name(NameChange),
    DirSynced,
    WriteBegan { write: u64, inode: usize, first: usize, sectors: Rc<[Rc<Sector>]> },
    WriteEnded { write: u64, arrived: usize, durable: bool },
    Synced { inode: usize, since: u64 },
    Lost { inode: usize },
}

impl Event {
    /// Repeats the event on another disk.
    pub(crate) fn apply(&self, media: &mut Media) {
        match self {
            Self::NewInode => {
                media.new_inode();
            }
            Self::Name(change) => media.change(change.clone()),
            Self::DirSynced => media.dir_synced(),
            Self::WriteBegan { write, inode, first, sectors } => {
                media.write_began(*write, *inode, *first, sectors);
            }
            Self::WriteEnded { write, arrived, durable } => media.write_ended(*write, *arrived, *durable),
            Self::Synced { inode, since } => media.synced(*inode, *since),
            Self::Lost { inode } => media.lost(*inode),
        }
    }
}

#[derive(Debug)]
enum Queued {
    Write { token: Token, inode: usize, bytes: usize, dsync: bool },
    Sync { token: Token, inode: usize, since: u64 },
}

/// The running machine: names and contents as reads see them.
#[derive(Debug)]
struct View {
    names: Names,
    /// What the disk and the dirty pages hold: what a direct read returns.
    direct: Vec<Rc<Inode>>,
    /// What the page cache shows.
    cached: Vec<Rc<Inode>>,
    /// How reads get past the page cache.
    cache: Cache,
}

/// What the number of a file has in addition to its inode if it was opened with [`Access::Cached`].
const THROUGH_CACHE: u32 = 1 << 31;

fn inode_of(file: FileId) -> usize {
    (file.0 & !THROUGH_CACHE) as usize
}

/// A simulated disk with one directory.
#[derive(Debug)]
pub(crate) struct SimDisk {
    media: Media,
    /// `None` for a disk on which everything is durable at once: the fast case, for judging images.
    view: Option<View>,
    queue: Vec<Queued>,
    completed: std::collections::VecDeque<Completion>,
    rng: Rng,
    fault: Option<FaultPlan>,
    /// Operations so far: the numbers that a fault plan can name.
    pub(crate) operations: u64,
    pub(crate) bytes_read: u64,
    /// Operations that were made to fail.
    pub(crate) faults: u64,
    /// Openings so far that took another descriptor: the numbers that a plan of [`FaultKind::Descriptors`] can name.
    pub(crate) openings: u64,
    /// Whether what is opened now, outside of [`Self::apart`], is held open already and takes none, as the segments are that a
    /// log writes.
    pub(crate) holds: bool,
    /// What failed, by the operation's name.
    pub(crate) failed: BTreeMap<&'static str, u64>,
    next_token: u64,
    trace: Vec<Event>,
    hold_back: u64,
}

impl SimDisk {
    /// A disk that runs on from `media`; chance decides the order of completions. Its writes are numbered after those
    /// that an earlier process has left in the page cache.
    pub(crate) fn running(media: Media, seed: u64, fault: Option<FaultPlan>, cache: Cache) -> Self {
        let names = media.current_names();
        let direct: Vec<Rc<Inode>> = (0..media.inodes.len()).map(|inode| media.current(inode)).collect();
        let mut cached = direct.clone();
        for (inode, index, sector) in media.ghosts() {
            Rc::make_mut(&mut cached[inode]).put(index, sector);
        }
        let next_token = media.last_write() + 1;
        Self {
            view: Some(View { names, direct, cached, cache }),
            next_token,
            ..Self::idle(media, seed, fault)
        }
    }

    /// A disk on which everything is durable when it returns.
    pub(crate) fn idle(media: Media, seed: u64, fault: Option<FaultPlan>) -> Self {
        Self {
            media,
            view: None,
            queue: Vec::new(),
            completed: std::collections::VecDeque::new(),
            rng: Rng::new(seed),
            fault,
            operations: 0,
            bytes_read: 0,
            faults: 0,
            openings: 0,
            holds: false,
            failed: BTreeMap::new(),
            next_token: 1,
            trace: Vec::new(),
            hold_back: 2,
        }
    }

    pub(crate) fn into_media(self) -> Media {
        self.media
    }

    /// What happened since the last call.
    pub(crate) fn take_trace(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.trace)
    }

    /// Runs `work` with no view of operations in flight.
    pub(crate) fn apart<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let (queue, holds) = (std::mem::take(&mut self.queue), std::mem::take(&mut self.holds));
        let result = work(self);
        self.queue.extend(queue);
        self.holds = holds;
        result
    }

    /// As [`Self::plain`], for an operation that takes another descriptor.
    fn opening(&mut self, operation: &'static str) -> io::Result<()> {
        const EMFILE: i32 = 24;
        if !self.holds {
            let number = self.openings;
            self.openings += 1;
            if self.is_due(number, true) {
                self.operations += 1;
                self.met(operation);
                return Err(io::Error::from_raw_os_error(EMFILE));
            }
        }
        self.plain(operation)
    }

    fn is_due(&self, number: u64, opening: bool) -> bool {
        let of_kind = |plan: &FaultPlan| (plan.kind == FaultKind::Descriptors) == opening;
        let due = |plan: FaultPlan| number == plan.operation || (plan.sticky && number > plan.operation);
        self.fault.filter(of_kind).is_some_and(due)
    }

    fn met(&mut self, operation: &'static str) {
        self.faults += 1;
        *self.failed.entry(operation).or_default() += 1;
    }

    fn event(&mut self, event: Event) {
        event.apply(&mut self.media);
        if self.view.is_some() {
            self.trace.push(event);
        }
    }

    /// Counts an operation and says whether and how it is to fail.
    fn fate(&mut self, operation: &'static str) -> Option<FaultKind> {
        let number = self.operations;
        self.operations += 1;
        if !self.is_due(number, false) {
            return None;
        }
        self.met(operation);
        self.fault.map(|plan| plan.kind)
    }

    fn error(kind: FaultKind) -> io::Error {
        match kind {
            FaultKind::Full => io::ErrorKind::StorageFull.into(),
            FaultKind::Io | FaultKind::Short | FaultKind::Descriptors => {
                io::Error::other("injected input/output error")
            }
        }
    }

    fn plain(&mut self, operation: &'static str) -> io::Result<()> {
        self.fate(operation).map_or(Ok(()), |kind| Err(Self::error(kind)))
    }

    fn names(&self) -> &Names {
        self.view.as_ref().map_or(&self.media.names, |view| &view.names)
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.names().get(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn length(&self, inode: usize) -> usize {
        self.view.as_ref().map_or(&self.media.inodes[inode], |view| &view.direct[inode]).length
    }

    /// What files of this kind of name take, in bytes, as the running machine sees it.
    pub(crate) fn bytes_of(&self, counts: impl Fn(&str) -> bool) -> u64 {
        let files = self.names().as_slice().iter().filter(|(name, _)| counts(&name.text));
        files.map(|(_, inode)| self.length(*inode) as u64).sum()
    }

    fn name_changed(&mut self, change: NameChange) {
        if let Some(view) = &mut self.view {
            change.apply(&mut view.names);
            self.event(Event::Name(change));
        } else {
            self.media.change(change);
            self.media.dir_synced();
        }
    }

    fn end_write(&mut self, token: Token, inode: usize, bytes: usize, dsync: bool) -> io::Result<usize> {
        let fate = self.fate("write");
        let sectors = bytes / SECTOR;
        let arrived = match fate {
            None => bytes,
            Some(FaultKind::Short) => SECTOR * self.rng.index(sectors.max(1)).max(usize::from(sectors > 1)),
            Some(_) => SECTOR * self.rng.index(sectors + 1),
        };
        let failed = fate.is_some_and(|kind| kind != FaultKind::Short);
        self.event(Event::WriteEnded { write: token.0, arrived, durable: dsync && !failed });
        if let Some(view) = &mut self.view {
            // What arrived shows in direct reads.
            view.direct[inode] = self.media.current(inode);
            if failed || dsync {
                view.cached[inode] = Rc::clone(&view.direct[inode]);
            }
        }
        match fate {
            Some(kind) if failed => Err(Self::error(kind)),
            Some(_) if arrived == 0 => Err(Self::error(FaultKind::Io)),
            _ => Ok(arrived),
        }
    }

    fn end_sync(&mut self, inode: usize, since: u64) -> io::Result<usize> {
        match self.fate("sync") {
            None => {
                self.event(Event::Synced { inode, since });
                Ok(0)
            }
            Some(kind) => {
                // Reported once; the pages are clean now, and the disk may or may not have got them.
                if self.rng.coin() {
                    self.event(Event::Lost { inode });
                    if let Some(view) = &mut self.view {
                        view.direct[inode] = self.media.current(inode);
                    }
                }
                Err(Self::error(kind))
            }
        }
    }
}

impl Disk for SimDisk {
    fn list(&mut self) -> io::Result<Vec<DirEntry>> {
        self.opening("list")?;
        let entry = |(name, inode): &(Name, usize)| DirEntry {
            name: name.text.to_string(),
            bytes: self.length(*inode) as u64,
        };
        Ok(self.names().as_slice().iter().map(entry).collect())
    }

    fn open(&mut self, name: &str, access: Access) -> io::Result<FileId> {
        self.opening("open")?;
        let inode = u32::try_from(self.inode(name)?).map_err(io::Error::other)?;
        Ok(FileId(if access == Access::Cached { inode | THROUGH_CACHE } else { inode }))
    }

    fn create(&mut self, name: &str) -> io::Result<FileId> {
        self.opening("create")?;
        if self.names().get(name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = self.media.inodes.len();
        self.event(Event::NewInode);
        if let Some(view) = &mut self.view {
            view.direct.push(Rc::default());
            view.cached.push(Rc::default());
        }
        self.name_changed(NameChange::Set(Name::new(name), inode));
        Ok(FileId(u32::try_from(inode).map_err(io::Error::other)?))
    }

    fn close(&mut self, _: FileId) {}

    fn forget_cached(&mut self, file: FileId) {
        if let Some(view) = self.view.as_mut().filter(|view| view.cache != Cache::Kept) {
            // Dirty pages stay, and the disk will get those.
            let inode = inode_of(file);
            view.cached[inode] = Rc::clone(&view.direct[inode]);
        }
    }

    fn reads_past_cache(&self, _: FileId) -> bool {
        self.view.as_ref().is_none_or(|view| view.cache != Cache::Kept)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        if self.names().get(to).is_some() {
            self.plain("rename")?;
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.replace(from, to)
    }

    fn replace(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.plain("rename")?;
        let inode = self.inode(from)?;
        self.name_changed(NameChange::Rename(Name::new(from), Name::new(to), inode));
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.plain("remove")?;
        self.inode(name)?;
        self.name_changed(NameChange::Remove(Name::new(name)));
        Ok(())
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        self.plain("sync the directory")?;
        self.event(Event::DirSynced);
        Ok(())
    }

    fn allocate(&mut self, _: FileId, _: u64) -> io::Result<()> {
        self.plain("reserve space")
    }

    fn read_direct(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.plain("read")?;
        let inode = inode_of(file);
        let content = match &self.view {
            Some(view) if view.cache != Cache::Bypassed || file.0 & THROUGH_CACHE != 0 => &view.cached[inode],
            Some(view) => &view.direct[inode],
            None => &self.media.inodes[inode],
        };
        let read = content.read(usize::try_from(offset).unwrap_or(usize::MAX), buf);
        self.bytes_read += read as u64;
        Ok(read)
    }

    fn submit(&mut self, op: Op<'_>) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        match op {
            Op::Write { file, offset, buf, dsync } => {
                let (inode, offset) = (inode_of(file), usize::try_from(offset).unwrap_or(usize::MAX));
                if self.view.is_none() && self.fault.is_none() {
                    self.operations += 1;
                    self.media.put(inode, offset, buf);
                    self.completed.push_back(Completion { token, result: Ok(buf.len()) });
                    return token;
                }
                let (first, sectors) = (offset / SECTOR, buf.chunks(SECTOR).map(Sector::new).collect());
                if let Some(view) = &mut self.view {
                    Rc::make_mut(&mut view.cached[inode]).write(offset, buf);
                }
                self.event(Event::WriteBegan { write: token.0, inode, first, sectors });
                self.queue.push(Queued::Write { token, inode, bytes: buf.len(), dsync });
            }
            Op::Sync { file } => {
                let (inode, since) = (inode_of(file), self.media.now());
                self.queue.push(Queued::Sync { token, inode, since });
            }
        }
        token
    }

    fn complete(&mut self, block: bool) -> Option<Completion> {
        if let Some(done) = self.completed.pop_front() {
            return Some(done);
        }
        if self.queue.is_empty() || (!block && self.rng.one_in(self.hold_back)) {
            return None;
        }
        let next = self.rng.index(self.queue.len());
        let (token, result) = match self.queue.swap_remove(next) {
            Queued::Write { token, inode, bytes, dsync } => {
                (token, self.end_write(token, inode, bytes, dsync))
            }
            Queued::Sync { token, inode, since } => (token, self.end_sync(inode, since)),
        };
        Some(Completion { token, result })
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Cache, Disk, Media, Op, SECTOR, SimDisk};
    use crate::testing::sim::draw::Draw;
    use crate::testing::sim::rng::Rng;

    /// Writes this many sectors of `byte` to the file in a process that is killed afterwards.
    fn killed_after_a_write(media: Media, name: &str, byte: u8, sectors: usize) -> Media {
        let mut disk = SimDisk::running(media, 1, None, Cache::Bypassed);
        let file = disk.create(name).expect("a new file");
        let buf = vec![byte; sectors * SECTOR];
        disk.submit(Op::Write { file, offset: 0, buf: &buf, dsync: false });
        disk.complete(true).expect("it ends").result.expect("nothing fails");
        disk.into_media().killed(&mut Rng::new(1))
    }

    #[test]
    fn what_a_killed_process_wrote_stays_whole_whatever_the_next_one_writes() {
        let media = killed_after_a_write(Media::default(), "long", 7, 2);
        let media = killed_after_a_write(media, "short", 9, 1);
        let image = media.image(Draw::All, Draw::All, &mut Rng::new(1));
        let mut disk = SimDisk::idle(image, 1, None);
        for (name, byte, sectors) in [("long", 7, 2), ("short", 9, 1)] {
            let file = disk.open(name, Access::Direct).expect("it is there");
            let mut read = vec![0; 4 * SECTOR];
            let length = disk.read_direct(file, 0, &mut read).expect("it can be read");
            assert!(length == sectors * SECTOR && read[..length] == vec![byte; length], "{name}");
        }
    }
}
