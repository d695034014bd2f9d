//! Answers `NVMe` commands as a drive with a volatile write cache that takes FUA on each write.
//!
//! It is the part of an `NVMe` 1.4 controller that Linux uses over fabrics: properties, identify, queues, reads, writes and
//! flushes. [`super::nvme_tcp`] transports the commands. One namespace, which is what `disk` is, with sectors of 512 bytes.
//!
//! | field of a submission entry | bytes |
//! | --- | --- |
//! | opcode, command id, namespace | 0, 2..4, 4..8 |
//! | first block, blocks less one | 40..48, 48..50 |
//! | control, whose bit 14 is FUA | 50..52 |
//!
//! Invariants: a command outside of the disk, or one that this drive does not know, ends in an error and changes nothing; a
//! write with FUA is answered when the disk says that it is done.

use super::cache::SECTOR_BYTES;
use super::nbd::Shared;
use crate::blocks::event::Payload;
use crate::lock;

/// Bytes of a submission entry.
pub(super) const COMMAND_BYTES: usize = 64;
/// The longest transfer of a command: 2^5 pages of 4096 bytes, all of it in the command's own capsule.
pub(super) const TRANSFER_BYTES_MAX: usize = 4096 << TRANSFER_PAGES_LOG2;
const TRANSFER_PAGES_LOG2: u8 = 5;
/// The drive's name on the fabric.
pub(super) const SUBSYSTEM: &str = "nqn.2026-01.io.seawall:disk";
const PAGE_BYTES: usize = 4096;
const QUEUE_ENTRIES_MAX: u16 = 128;
const CONTROLLER: u16 = 1;
/// Blocks that the drive writes as one, less one: 16 KiB.
const ATOMIC_BLOCKS: u16 = 31;

const FABRICS: u8 = 0x7f;
/// Of the commands of administration: tell of events.
const EVENTS: u8 = 0x0c;
const PROPERTY_SET: u8 = 0;
const CONNECT: u8 = 1;
const PROPERTY_GET: u8 = 4;
const FUA: u16 = 1 << 14;

const INVALID_OPCODE: u16 = 0x4001;
const INVALID_FIELD: u16 = 0x4002;
const OUT_OF_RANGE: u16 = 0x4080;

/// A submission entry with the data in its capsule.
pub(super) struct Command {
    pub(super) entry: [u8; COMMAND_BYTES],
    pub(super) data: Vec<u8>,
}

/// How a command ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Completion {
    /// What the command gives in its completion entry.
    pub(super) result: u64,
    /// 0, or why it failed.
    pub(super) status: u16,
    /// What it reads.
    pub(super) data: Vec<u8>,
}

impl Completion {
    fn failed(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    fn of(result: u64) -> Self {
        Self { result, ..Self::default() }
    }

    fn read(data: Vec<u8>) -> Self {
        Self { data, ..Self::default() }
    }
}

impl Command {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.entry[at..at + N]);
        bytes
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }

    /// Its id, by which the completion names it.
    pub(super) fn id(&self) -> u16 {
        self.u16(2)
    }

    fn opcode(&self) -> u8 {
        self.entry[0]
    }

    /// Its range on the disk in bytes: offset and length.
    fn range(&self) -> (usize, usize) {
        let offset = self.u64(40).saturating_mul(SECTOR_BYTES as u64);
        (usize::try_from(offset).unwrap_or(usize::MAX), (usize::from(self.u16(48)) + 1) * SECTOR_BYTES)
    }
}

/// One queue of the drive, which is one connection.
pub(super) struct Queue {
    disk: Shared,
    /// Which queue it is: 0 takes the commands of administration.
    pub(super) id: u16,
    /// The register by which the host enables the controller and shuts it down.
    configuration: u32,
}

impl Queue {
    pub(super) fn new(disk: &Shared) -> Self {
        Self { disk: Shared::clone(disk), id: 0, configuration: 0 }
    }

    /// Notes that a command has arrived; gives its number in the record of the disk if it has one.
    pub(super) fn arrive(&self, command: &Command) -> Option<u64> {
        if self.id == 0 || command.opcode() == FABRICS {
            return None;
        }
        let mut disk = lock(&self.disk);
        match command.opcode() {
            0 => disk.record.flush(),
            1 => {
                let data = || Payload::Data(command.data[..].into());
                disk.record.write(command.range().0 as u64, data, command.u16(50) & FUA != 0)
            }
            _ => None,
        }
    }

    /// Executes a command; `None` if it is answered never: a request for events, of which there are none.
    pub(super) fn execute(&mut self, command: &mut Command, number: Option<u64>) -> Option<Completion> {
        let completion = match (command.opcode(), self.id) {
            (FABRICS, _) => self.fabrics(command),
            (EVENTS, 0) => return None,
            (_, 0) => self.administer(command),
            _ => self.transfer(command),
        };
        if let Some(number) = number {
            lock(&self.disk).record.done(number);
        }
        Some(completion)
    }

    fn fabrics(&mut self, command: &Command) -> Completion {
        match command.entry[4] {
            CONNECT => {
                self.id = command.u16(42);
                Completion::of(CONTROLLER.into())
            }
            PROPERTY_SET => {
                if command.u32(44) == 0x14 {
                    self.configuration = command.u32(48);
                }
                Completion::of(0)
            }
            PROPERTY_GET => match command.u32(44) {
                // Entries of a queue, contiguous queues, 10 s to enable, the NVM command set.
                0 => Completion::of(u64::from(QUEUE_ENTRIES_MAX - 1) | 1 << 16 | 20 << 24 | 1 << 37),
                8 => Completion::of(0x0001_0400),
                0x14 => Completion::of(self.configuration.into()),
                0x1c => {
                    let shut_down = self.configuration >> 14 & 3 != 0;
                    Completion::of(u64::from(self.configuration & 1) | if shut_down { 2 << 2 } else { 0 })
                }
                _ => Completion::failed(INVALID_FIELD),
            },
            _ => Completion::failed(INVALID_OPCODE),
        }
    }

    fn administer(&self, command: &Command) -> Completion {
        match (command.opcode(), command.entry[40]) {
            // Identify: namespace, controller, list of namespaces, names of the namespace.
            (6, 0) => Completion::read(self.namespace()),
            (6, 1) => Completion::read(controller()),
            (6, 2) => Completion::read(page(&[(0, &u32::from(command.u32(4) == 0).to_le_bytes())])),
            (6, 3) => Completion::read(page(&[(0, &[2, 16]), (4, b"seawall-disk-one")])),
            // Set the number of queues: as many as are asked for. Events and keeping alive: accepted.
            (9, 7) => Completion::of(command.u32(44).into()),
            (9, 0x0b | 0x0f) | (0x18, _) => Completion::of(0),
            // Abort: not aborted.
            (8, _) => Completion::of(1),
            (6 | 9 | 0x0a, _) => Completion::failed(INVALID_FIELD),
            _ => Completion::failed(INVALID_OPCODE),
        }
    }

    fn namespace(&self) -> Vec<u8> {
        let disk = lock(&self.disk);
        let blocks = (disk.len() / SECTOR_BYTES) as u64;
        let mut fields = vec![(104, &b"seawall-disk-one"[..]), (130, &[9])];
        let blocks = blocks.to_le_bytes();
        fields.extend([(0, &blocks[..]), (8, &blocks[..]), (16, &blocks[..])]);
        let atomic = ATOMIC_BLOCKS.to_le_bytes();
        if disk.atomic {
            fields.extend([(24, &[2][..]), (34, &atomic[..]), (36, &atomic[..])]);
        }
        page(&fields)
    }

    fn transfer(&self, command: &mut Command) -> Completion {
        let (offset, bytes) = command.range();
        let mut disk = lock(&self.disk);
        match command.opcode() {
            0 => {
                disk.flush();
                Completion::of(0)
            }
            1 if command.data.len() != bytes => Completion::failed(INVALID_FIELD),
            1 => {
                let forced = command.u16(50) & FUA != 0;
                if disk.write(offset, std::mem::take(&mut command.data), forced) {
                    Completion::of(0)
                } else {
                    Completion::failed(OUT_OF_RANGE)
                }
            }
            2 => match disk.read(offset, bytes) {
                Some(data) => Completion::read(data.to_vec()),
                None => Completion::failed(OUT_OF_RANGE),
            },
            _ => Completion::failed(INVALID_OPCODE),
        }
    }
}

/// A page with these fields, each at its offset.
fn page(fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    for (at, bytes) in fields {
        page[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    page
}

fn controller() -> Vec<u8> {
    let capsule = u32::try_from((COMMAND_BYTES + TRANSFER_BYTES_MAX) / 16).unwrap_or(u32::MAX);
    page(&[
        (4, format!("{:<20}{:<40}{:<8}", "1", "Seawall disk", "1").as_bytes()),
        (77, &[TRANSFER_PAGES_LOG2]),
        (78, &CONTROLLER.to_le_bytes()),
        (80, &0x0001_0400_u32.to_le_bytes()),
        // An I/O controller.
        (111, &[1]),
        // Keeping alive counts in tenths of a second.
        (320, &10_u16.to_le_bytes()),
        // Entries of 64 and of 16 bytes, commands at a time, one namespace.
        (512, &[0x66, 0x44]),
        (514, &QUEUE_ENTRIES_MAX.to_le_bytes()),
        (516, &1_u32.to_le_bytes()),
        // A volatile write cache.
        (525, &[1]),
        // Scatter-gather lists, with data in the capsule.
        (536, &(1_u32 | 1 << 20).to_le_bytes()),
        (768, SUBSYSTEM.as_bytes()),
        (1792, &capsule.to_le_bytes()),
        (1796, &1_u32.to_le_bytes()),
        (1803, &[1]),
    ])
}
