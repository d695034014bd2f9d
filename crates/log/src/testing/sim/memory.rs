//! Simulates memory that outlives the process, store by store, and what a crash may leave of it.
//!
//! A kill leaves every store that was made before it. The memory may also be there when it should not: after a crash of
//! the system, in the directory of another log, from an earlier opening, or damaged.

use std::cell::RefCell;
use std::rc::Rc;

use super::rng::{Rng, mix};
use crate::crash_memory::ring::Ring;
use crate::crash_memory::{DRAINS_AT, Memory, MemoryHeader};
use crate::format::LogId;

/// Slots of simulated memory: few and small, so that they are used again often.
const SLOTS: u32 = 4;
const SLOT_BYTES: usize = 1024;

/// One store, in the order in which they reach the memory.
#[derive(Clone, Debug)]
pub(crate) enum MemoryEvent {
    /// It was made, of this many zeros.
    Made(usize),
    /// Bytes were stored, in any order.
    Stored(usize, Vec<u8>),
    Removed,
}

/// The stores of one life, in their order.
pub(crate) type Stores = Rc<RefCell<Vec<MemoryEvent>>>;

/// The memory as the process has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimMemory {
    bytes: Vec<u8>,
    stores: Stores,
}

impl Memory for SimMemory {
    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.stores.borrow_mut().push(MemoryEvent::Stored(at, bytes.to_vec()));
    }

    fn publish(&mut self, at: usize, word: u64) {
        self.store(at, &word.to_le_bytes());
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.bytes[at..at + into.len()]);
    }
}

/// The identity of a boot.
pub(crate) fn boot_id(boot: u64) -> [u8; 16] {
    u128::from(boot + 1).to_le_bytes()
}

/// Memory for the opening of `epoch` in this boot.
pub(crate) fn make(log_id: LogId, epoch: u64, boot: u64, stores: &Stores) -> Ring<SimMemory> {
    let header = MemoryHeader { log_id, boot: boot_id(boot), epoch, slots: SLOTS, slot_bytes: SLOT_BYTES };
    let bytes = header.file_bytes().unwrap_or(0);
    stores.borrow_mut().push(MemoryEvent::Made(bytes));
    let memory = SimMemory { bytes: vec![0; bytes], stores: Rc::clone(stores) };
    Ring::new(memory, &header)
}

/// What there is of it when a process begins, and in which boot that is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remains {
    image: Option<Rc<Vec<u8>>>,
    pub(crate) boot: u64,
}

impl Remains {
    /// What it holds, to be looked at by an opening whose stores go to `stores`.
    pub(crate) fn memory(&self, stores: &Stores) -> Option<SimMemory> {
        let bytes = self.image.as_deref()?.clone();
        Some(SimMemory { bytes, stores: Rc::clone(stores) })
    }

    pub(crate) fn is_there(&self) -> bool {
        self.image.is_some()
    }

    pub(crate) fn hash(&self) -> u64 {
        let words = self.image.iter().flat_map(|image| image.chunks(8));
        words.fold(self.boot, |all, word| {
            mix(all ^ word.iter().fold(1, |word, byte| word << 8 | u64::from(*byte)))
        })
    }

    /// The memory after one store; `None` if nothing of it can be torn, else what a kill inside of it leaves.
    pub(crate) fn apply(&mut self, event: &MemoryEvent, rng: &mut Rng) -> Option<Self> {
        match event {
            MemoryEvent::Made(bytes) => self.image = Some(Rc::new(vec![0; *bytes])),
            MemoryEvent::Removed => self.image = None,
            MemoryEvent::Stored(at, bytes) => {
                let torn = (bytes.len() > 8).then(|| {
                    let mut torn = self.clone();
                    torn.put(*at, &bytes[..rng.index(bytes.len())]);
                    torn
                });
                self.put(*at, bytes);
                return torn;
            }
        }
        None
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(image) = &mut self.image {
            Rc::make_mut(image)[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// The same memory in the next boot.
    pub(crate) fn after_system_crash(&self) -> Self {
        Self { image: self.image.clone(), boot: self.boot + 1 }
    }

    /// None, in the next boot.
    pub(crate) fn gone(&self) -> Self {
        Self { image: None, boot: self.boot + 1 }
    }

    /// As the opening that made it left it, before a later one wrote that it drains it.
    pub(crate) fn kept(&self) -> Self {
        let mut kept = self.clone();
        kept.put(DRAINS_AT, &[0; 8]);
        kept
    }

    /// The memory that another log would have.
    pub(crate) fn of_another_log(&self) -> Option<Self> {
        let mut memory = self.memory(&Stores::default())?;
        let header = MemoryHeader::read(&memory)?;
        MemoryHeader { log_id: LogId(*b"of another log!!"), ..header }.write(&mut memory);
        Some(Self { image: Some(Rc::new(memory.bytes)), boot: self.boot })
    }

    /// The same, damaged: one byte, or a part of it that is zeros.
    pub(crate) fn damaged(&self, rng: &mut Rng) -> Self {
        let mut damaged = self.clone();
        let Some(image) = &mut damaged.image else { return damaged };
        let image = Rc::make_mut(image);
        let at = rng.index(image.len());
        if rng.coin() {
            image[at] ^= 1 << rng.below(8);
        } else {
            let end = image.len().min(at + rng.index(600));
            image[at..end].fill(0);
        }
        damaged
    }
}
