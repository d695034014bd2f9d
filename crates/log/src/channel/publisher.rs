//! The writer's side: creates the page, publishes the durable LSN, wakes followers, and marks the end of the log.
//!
//! Invariants: the page is named in `LOCK` only once it is whole; the page of a writer that died is closed and removed by
//! the next one, so that its followers look again at once.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use seawall_sys::fork::Home;
use seawall_sys::shared_memory::{self, SharedFile, SharedMemory};

use crate::channel::words::{Field, WriterWords, announce};
use crate::channel::{HEADER_BYTES, MAGIC, Owner, PAGE_BYTES, PREFIX, at, name_in, named_in};
use crate::format::LogId;
use crate::lsn::Lsn;

/// Publishes what one opening of a log makes durable.
#[derive(Debug)]
pub(crate) struct Publisher<W = SharedMemory> {
    words: W,
    /// Whether followers that cannot say that they sleep are woken.
    always: bool,
    changes: AtomicU32,
    /// The durable LSN that followers were last woken for.
    announced: AtomicU64,
    /// How often waking took a system call.
    wakes: AtomicU64,
}

/// The page of an open log, and its name.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) publisher: Arc<Publisher>,
    name: String,
    home: Home,
}

impl WriterWords for SharedMemory {
    #[inline]
    fn store(&self, field: Field, value: u64) {
        self.number(at(field)).store(value.to_le(), Ordering::Release);
    }

    #[inline]
    fn swap(&self, word: u32) -> u32 {
        u32::from_le(self.word(super::WORD).swap(word.to_le(), Ordering::SeqCst))
    }

    fn wake(&self) {
        SharedMemory::wake(self, super::WORD);
    }
}

impl<W: WriterWords> Publisher<W> {
    /// Publishes what is durable now, in which segment, at the most.
    pub(crate) fn new(words: W, always: bool, (durable, segment): (Lsn, u64)) -> Self {
        words.store(Field::Segment, segment);
        words.store(Field::Durable, durable.get());
        let announced = AtomicU64::new(durable.get());
        Self { words, always, changes: AtomicU32::new(0), announced, wakes: AtomicU64::new(0) }
    }

    /// Segment `number` is started: what is published from now on may lie in it.
    pub(crate) fn segment(&self, number: u64) {
        self.words.store(Field::Segment, number);
    }

    /// Publishes what is durable. Called with the core locked, so that no older LSN follows.
    #[inline]
    pub(crate) fn publish(&self, durable: Lsn, cuts: u64) {
        self.words.store(Field::Cuts, cuts);
        self.words.store(Field::Durable, durable.get());
    }

    /// Wakes the followers, after everything before `durable` was published, unless they were woken for it.
    #[inline]
    pub(crate) fn wake(&self, durable: Lsn) {
        // A mark makes nothing durable that was not, and wakes none.
        if self.announced.swap(durable.get(), Ordering::SeqCst) != durable.get() {
            self.announce();
        }
    }

    fn announce(&self) {
        if announce(&self.words, &self.changes, self.always) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Relaxed)
    }

    /// The log has ended: followers look at the directory.
    pub(crate) fn end(&self) {
        self.words.store(Field::Ended, 1);
        self.announce();
    }
}

impl Page {
    /// Makes the page of the writer that holds `lock`, where everything before `durable`, in `segment`, is durable.
    ///
    /// # Errors
    /// The system's. The log is then followed by looking at the disk.
    pub(crate) fn make(lock: &File, (log_id, epoch): (LogId, u64), durable: (Lsn, u64)) -> io::Result<Self> {
        let folder = shared_memory::folder()?;
        let owner = Owner::here(log_id, epoch, lock)?;
        let name = format!("{PREFIX}{}", LogId::random());
        let memory = SharedMemory::create(&folder, &name, PAGE_BYTES, lock)?;
        let numbers = std::iter::once(u64::from_le_bytes(MAGIC)).chain(owner.numbers());
        for (at, number) in (0..HEADER_BYTES).step_by(8).zip(numbers) {
            memory.number(at).store(number.to_le(), Ordering::Relaxed);
        }
        let always = memory.others_read();
        memory.number(super::ALWAYS).store(u64::from(always).to_le(), Ordering::Release);
        let publisher = Arc::new(Publisher::new(memory, always, durable));
        let page = Self { publisher, name, home: Home::here() };
        // If this fails, the page is dropped.
        name_in(lock, &page.name)?;
        Ok(page)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // A process that was forked off has the same page, and must not close that of its parent.
        if self.home.is_here() {
            self.publisher.end();
            let _ = shared_memory::folder().and_then(|folder| folder.remove(&self.name));
        }
    }
}

/// Takes the name of an earlier writer's page out of `lock`, which this process holds: that writer has ended. If it died, its
/// page is closed and removed.
pub(crate) fn close_left(lock: &File) -> io::Result<()> {
    let left = named_in(lock)?;
    if lock.metadata()?.len() > 0 {
        lock.set_len(0)?;
    }
    let Some(name) = left else { return Ok(()) };
    let folder = shared_memory::folder()?;
    let file = match SharedFile::open(&folder, &name, PAGE_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    // In a copy of the directory, `LOCK` names the page of the log that was copied, which may be open.
    if super::subscriber::owner(&file)?
        .is_none_or(|owner| Some(owner.lock) != shared_memory::identity(lock).ok())
    {
        return Ok(());
    }
    file.write(at(Field::Ended) as u64, &1_u64.to_le_bytes())?;
    // A value that the follower has not slept on: it had bit 0.
    file.write(super::WORD as u64, &0_u32.to_le_bytes())?;
    file.wake(super::WORD);
    folder.remove(&name)
}
