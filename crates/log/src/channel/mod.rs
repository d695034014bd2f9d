//! Publishes the durable LSN to followers in other processes through a page of shared memory, on which they sleep.
//!
//! * [`publisher`] is the writer's side, [`subscriber`] the follower's;
//! * [`words`] is what both do with the page, so that tests and `loom` run the same steps on memory of their own.
//!
//! The writer makes the page as a file of a random name in the system's folder in memory, and writes that name into
//! `LOCK`, which it holds. A follower reads the name there.
//!
//! ```text
//! LOCK       seawall-0123456789abcdef0123456789abcdef\n     empty: no page; it stays behind a writer that has ended
//!
//!  at  size  of the page; every number is little-endian
//!   0     8  magic "SWCHAN01"
//!   8    16  log identity
//!  24     8  epoch of the writer
//!  32    16  identity of the boot
//!  48    16  identity of the file LOCK
//!  64     8  durable LSN
//!  72     8  number of the newest started segment: at least that of the segment before the durable LSN
//!  80     8  1: the writer has ended
//!  88     8  1: the writer wakes followers that cannot say that they sleep
//!  96     4  the word: another value after every change; bit 0: a follower sleeps
//! 104     8  how often the log was cut before the durable LSN since this writer opened it; may be ahead of that LSN
//! ```
//!
//! A follower that may write the page says in the word that it sleeps; so the writer makes a system call only if one does,
//! and one that died asleep costs one call. Where `LOCK` lets other users read, who may only read the page, the writer
//! wakes after every batch that made something durable: one call each.
//!
//! Invariants: what is published was durable before; the page is believed by its log, epoch, boot and `LOCK` alone, and only
//! while a writer holds the log; nothing that it says makes a follower show a record whose batch is not valid.

pub(crate) mod publisher;
pub(crate) mod subscriber;
pub(crate) mod words;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};

use seawall_sys::directory::Directory;
use seawall_sys::shared_memory;

use crate::channel::words::Field;
use crate::format::LogId;
use crate::format::names::LOCK_FILE;

const PAGE_BYTES: usize = 4096;
/// Length of what never changes in it, in bytes.
const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"SWCHAN01";

/// Where the word lies.
const WORD: usize = 96;
/// Where it stands that the writer always wakes.
const ALWAYS: usize = 88;

/// Where a number lies.
fn at(field: Field) -> usize {
    match field {
        Field::Durable => 64,
        Field::Segment => 72,
        Field::Ended => 80,
        Field::Cuts => 104,
    }
}

const PREFIX: &str = "seawall-";
const NAME_BYTES: usize = PREFIX.len() + 32;

/// Whose page it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) log_id: LogId,
    pub(crate) epoch: u64,
    pub(crate) boot: [u8; 16],
    /// The file `LOCK`, which a copy of the directory has another one of.
    pub(crate) lock: [u64; 2],
}

impl Owner {
    /// The writer of this process.
    fn here(log_id: LogId, epoch: u64, lock: &File) -> io::Result<Self> {
        Ok(Self { log_id, epoch, boot: shared_memory::boot_id()?, lock: shared_memory::identity(lock)? })
    }

    /// Its numbers in the page, after the magic.
    fn numbers(&self) -> [u64; 7] {
        let halves = |bytes: [u8; 16]| u128::from_le_bytes(bytes);
        let low = |number: u128| u64::try_from(number & u128::from(u64::MAX)).unwrap_or(0);
        let [id, boot] = [halves(self.log_id.0), halves(self.boot)];
        [low(id), low(id >> 64), self.epoch, low(boot), low(boot >> 64), self.lock[0], self.lock[1]]
    }

    fn decode(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let mut numbers = header.chunks_exact(8).map(|chunk| chunk.try_into().map_or(0, u64::from_le_bytes));
        let mut next = || numbers.next().unwrap_or(0);
        if next().to_le_bytes() != MAGIC {
            return None;
        }
        let mut pair = || (u128::from(next()) | u128::from(next()) << 64).to_le_bytes();
        let log_id = LogId(pair());
        let epoch = next();
        let mut pair = || (u128::from(next()) | u128::from(next()) << 64).to_le_bytes();
        let boot = pair();
        Some(Self { log_id, epoch, boot, lock: [next(), next()] })
    }

    /// Why this page does not speak for the log of `expected`, whose batches are of its epoch at least.
    pub(crate) fn refusal(&self, expected: &Self) -> Option<&'static str> {
        if self.boot != expected.boot {
            return Some("it is of another boot");
        }
        if self.lock != expected.lock {
            return Some("it belongs to the log that this one was copied from");
        }
        if self.log_id != expected.log_id {
            return Some("it is of another log");
        }
        (self.epoch < expected.epoch).then_some("it belongs to a writer that has ended")
    }
}

/// The name of the page in the file `LOCK`; `None` if that names none.
pub(crate) fn named_in(lock: &File) -> io::Result<Option<String>> {
    let mut text = String::new();
    let mut lock: &File = lock;
    lock.rewind()?;
    // Whatever else stands there names no page.
    if lock.take(NAME_BYTES as u64 + 2).read_to_string(&mut text).is_err() {
        return Ok(None);
    }
    let name = text.strip_suffix('\n').filter(|name| name.len() == NAME_BYTES);
    let digits = |name: &&str| name.strip_prefix(PREFIX).is_some_and(is_hexadecimal);
    Ok(name.filter(digits).map(str::to_owned))
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// As [`named_in`], in the log's directory; nothing where there is no `LOCK`.
pub(crate) fn named(dir: &Directory) -> io::Result<Option<(String, File)>> {
    let lock = match dir.open_file(LOCK_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    Ok(named_in(&lock)?.map(|name| (name, lock)))
}

fn name_in(mut lock: &File, name: &str) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(format!("{name}\n").as_bytes())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{HEADER_BYTES, MAGIC, NAME_BYTES, Owner, name_in, named_in};
    use crate::format::LogId;

    fn owner() -> Owner {
        Owner { log_id: LogId([7; 16]), epoch: 3, boot: [9; 16], lock: [5, 6] }
    }

    #[test]
    fn an_owner_is_read_as_it_was_written() {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        for (to, number) in header[8..].chunks_exact_mut(8).zip(owner().numbers()) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        assert_eq!(Owner::decode(&header), Some(owner()));
        assert_eq!(Owner::decode(&[0; HEADER_BYTES]), None);
    }

    #[test]
    fn a_page_speaks_for_its_own_log_epoch_boot_and_lock_alone() {
        assert_eq!(owner().refusal(&owner()), None);
        assert_eq!(owner().refusal(&Owner { epoch: 2, ..owner() }), None);
        for other in [
            Owner { log_id: LogId([8; 16]), ..owner() },
            Owner { epoch: 4, ..owner() },
            Owner { boot: [8; 16], ..owner() },
            Owner { lock: [5, 7], ..owner() },
        ] {
            assert!(owner().refusal(&other).is_some(), "{other:?}");
        }
    }

    #[test]
    fn nothing_but_a_name_is_taken_for_one() {
        let file = tempfile::tempfile().expect("a file");
        let name = format!("seawall-{:032x}", 77);
        assert_eq!(name.len(), NAME_BYTES);
        for bad in ["", "garbage", &name[1..], &name.replacen("00", "..", 1), &format!("{name}0")] {
            name_in(&file, bad).expect("writes");
            assert_eq!(named_in(&file).expect("reads"), None, "{bad}");
        }
        name_in(&file, &name).expect("writes");
        assert_eq!(named_in(&file).expect("reads"), Some(name));
    }
}
