//! Kills the process at every store: bytes one by one, words at once.

use super::left::{Left, LeftInMemory};
use super::ring::{Ring, read_from};
use super::{Memory, MemoryHeader};
use crate::format::{LogId, record_header};
use crate::lsn::Lsn;

const LOG: LogId = LogId([7; 16]);
const BOOT: [u8; 16] = [9; 16];
const HEADER: MemoryHeader = MemoryHeader { log_id: LOG, boot: BOOT, epoch: 5, slots: 3, slot_bytes: 256 };

/// Memory of a process that is killed after this many stores.
#[derive(Clone)]
struct Killed {
    bytes: Vec<u8>,
    stores_left: usize,
}

impl Killed {
    fn after(stores_left: usize) -> Self {
        Self { bytes: vec![0; HEADER.file_bytes().expect("is small")], stores_left }
    }

    fn is_alive(&mut self) -> bool {
        let alive = self.stores_left > 0;
        self.stores_left -= usize::from(alive);
        alive
    }
}

impl Memory for Killed {
    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            if self.is_alive() {
                self.bytes[at] = *byte;
            }
        }
    }

    fn publish(&mut self, at: usize, word: u64) {
        if self.is_alive() {
            self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.bytes[at..at + into.len()]);
    }
}

/// Transactions of one record each, and where each ends.
fn transactions() -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut ends) = (Vec::new(), vec![0]);
    for (i, length) in [0, 3, 40, 250, 1, 90, 17, 300, 8, 60, 2].into_iter().enumerate() {
        bytes.extend(record_header(length, false).expect("is short"));
        bytes.extend(vec![u8::try_from(i + 1).expect("few"); length]);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn lsn(at: usize) -> Lsn {
    Lsn::new(1000 + at as u64)
}

/// Stores the transactions one by one; the segments are always two after. Returns what is left, how far the segments came,
/// and how far everything was acknowledged, by the time of the kill.
fn store_until(stores: usize) -> (Killed, usize, usize) {
    let (bytes, ends) = transactions();
    let mut killed = Killed::after(stores);
    let mut ring = Ring::new(&mut killed, &HEADER);
    let (mut written, mut acknowledged) = (0, 0);
    for i in 1..ends.len() {
        let fits = ring.put(lsn(ends[i - 1]), &bytes[ends[i - 1]..ends[i]], lsn(written));
        if ring.memory.stores_left == 0 {
            break;
        }
        if fits {
            acknowledged = ends[i];
        }
        // What does not fit is written, and so is everything before it.
        written = if fits { written.max(ends[i.saturating_sub(2)]) } else { ends[i] };
        acknowledged = acknowledged.max(written);
    }
    (killed, written, acknowledged)
}

#[test]
fn a_kill_at_any_store_leaves_everything_acknowledged_and_nothing_else() {
    let (bytes, ends) = transactions();
    let all = usize::MAX - store_until(usize::MAX).0.stores_left;
    assert!(all > bytes.len());
    let mut longest = 0;
    // An interpreter takes minutes for all of them.
    let step = if cfg!(miri) { 97 } else { 1 };
    for stores in (0..=all).step_by(step) {
        let (killed, written, acknowledged) = store_until(stores);
        let Some(header) = MemoryHeader::read(&killed) else {
            assert_eq!(acknowledged, 0, "{stores}: nothing is acknowledged before the header is whole");
            continue;
        };
        assert_eq!(header, HEADER);
        // The segments may have come further than the process knew.
        for end in ends.iter().copied().filter(|end| *end >= written) {
            let found = read_from(&killed, &header, lsn(end));
            assert!(bytes[end..].starts_with(&found), "{stores}: from {end} on other bytes were found");
            assert!(end + found.len() >= acknowledged, "{stores}: {end} + {} of {acknowledged}", found.len());
            longest = longest.max(found.len());
        }
    }
    assert!(longest > 400, "{longest}");
}

/// Openings, each killed at some store of the takeover and with its epoch on the disk or not: the next one still believes.
#[test]
fn however_often_a_takeover_is_killed_the_next_one_believes() {
    let (left, written, acknowledged) = store_until(usize::MAX);
    let due = acknowledged - written;
    for way in 0..4_usize.pow(4) {
        let mut memory = left.clone();
        let mut epoch = HEADER.epoch;
        for attempt in 0..4 {
            let (stores, on_disk) = (way / 4_usize.pow(attempt) % 2, way / 4_usize.pow(attempt) / 2 % 2 == 1);
            memory.stores_left = stores;
            let mut opening = Left::look(&mut memory, Some(BOOT));
            opening.bind(LOG, epoch + 1);
            // The epoch reaches the disk only after that.
            epoch += u64::from(stores == 1 && on_disk);
        }
        memory.stores_left = usize::MAX;
        let mut opening = Left::look(&mut memory, Some(BOOT));
        opening.bind(LOG, epoch + 1);
        let mut bytes = 0;
        let append = |records: &[u8], _| {
            bytes += records.len();
            Ok(lsn(written + bytes))
        };
        let found = opening.drain(lsn(written), append, |_| Ok(())).expect("drains");
        assert!(matches!(found, LeftInMemory::Taken { .. }), "{way}: {found:?}");
        assert_eq!(bytes, due, "{way}");
        assert!(MemoryHeader::read(&memory).is_none(), "nothing is taken twice");
    }
}

#[test]
fn an_error_leaves_the_memory_as_it_is_and_another_boot_log_or_epoch_is_not_believed() {
    let (mut memory, written, _) = store_until(usize::MAX);
    let refuse = |_: &[u8], _| Err(crate::Error::WouldBlock);
    let mut opening = Left::look(&mut memory, Some(BOOT));
    opening.bind(LOG, 6);
    assert!(opening.drain(lsn(written), refuse, |_| Ok(())).is_err());
    let failed = || Err(crate::Error::Closed);
    assert!(opening.drain(lsn(written), |_, _| Ok(lsn(0)), |_| failed()).is_err());
    for (boot, log, epoch, believed) in [
        (Some(BOOT), LOG, 6, true),
        (Some(BOOT), LOG, 7, true),
        (None, LOG, 7, false),
        (Some([1; 16]), LOG, 7, false),
        (Some(BOOT), LogId([8; 16]), 7, false),
        (Some(BOOT), LOG, 9, false),
        (Some(BOOT), LOG, 4, false),
    ] {
        let mut memory = memory.clone();
        let mut opening = Left::look(&mut memory, boot);
        opening.bind(log, epoch);
        let found = opening.drain(lsn(written), |_, _| Ok(lsn(0)), |_| Ok(())).expect("opens");
        assert_eq!(matches!(found, LeftInMemory::Taken { .. }), believed, "{boot:?} {log} {epoch}");
    }
}

/// Bytes changed at random, and headers of any geometry with a right checksum: nothing panics, takes more than the file
/// holds, or hands out bytes that do not begin where the log ends.
#[test]
fn arbitrary_memory_is_read_without_harm() {
    let (left, written, _) = store_until(usize::MAX);
    let (bytes, _) = transactions();
    let mut chance = seawall_sys::chance::SplitMix64::new(3);
    let mut any = move |below: u64| chance.next_u64() % below;
    let mut believed = 0;
    for round in 0..if cfg!(miri) { 30 } else { 4000 } {
        let mut memory = left.clone();
        let length = memory.bytes.len() as u64;
        for _ in 0..any(6) {
            let at = usize::try_from(any(length)).expect("small");
            memory.bytes[at] = u8::try_from(any(256)).expect("a byte");
        }
        if round % 3 == 0 {
            let slots = u32::try_from(any(800)).expect("small");
            let slot_bytes = usize::try_from([any(800), length / 2 - 64, u64::MAX - any(99)][round % 9 / 3])
                .expect("64 bits");
            MemoryHeader { slots, slot_bytes, ..HEADER }.write(&mut memory);
            memory.bytes.truncate(
                MemoryHeader { slots, slot_bytes, ..HEADER }.file_bytes().unwrap_or(90).clamp(90, 4096),
            );
        }
        let mut opening = Left::look(&mut memory, Some(BOOT));
        opening.bind(LOG, HEADER.epoch + 1);
        let mut at = written;
        let append = |records: &[u8], _| {
            assert!(at + records.len() <= bytes.len() && bytes[at..].starts_with(records), "{round}");
            at += records.len();
            Ok(lsn(at))
        };
        let found = opening.drain(lsn(written), append, |_| Ok(())).expect("drains");
        believed += usize::from(matches!(found, LeftInMemory::Taken { records } if records > 0));
    }
    assert!(believed > 0);
}
