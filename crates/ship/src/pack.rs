//! Compacts an archive: copies runs of small messages into packs, which a restore reads in their place.
//!
//! ```text
//! messages/  1 2 3 … 4096 │ 4097 … 8192 │ 8193 … 8640       one object each, a log that is quiet makes 8,640 a day
//! packs/     1-4096       │ 4097-8192   │                    one read each
//!            └ a copy of every message of the run, as it lies there; the last few of all stay without one
//! ```
//!
//! `packs/FROM-TO` is created once and never changed. Every number is little-endian:
//!
//! ```text
//!  at  size
//!   0   4   magic "SWPK"
//!   4   2   version
//!   6   2   zero
//!   8   8   FROM: position of the first message
//!  16   4   how many messages
//!  20   4   zero
//!  24   4n  length of each in bytes
//!   …       the messages
//!   …   4   CRC-32C of everything before
//! ```
//!
//! A pack is valid if and only if (1) it is as drawn, and its checksum is right, (2) FROM and TO are those of its name. `packs/FROM-TO-as-they-are` is
//! empty: the messages there are large enough by themselves, and the next compaction does not read them again.
//!
//! Invariants: nothing is removed and no message is changed, so that a pack is never needed: one that is missing or not valid is replaced by its messages;
//! what a pack holds is checked by its reader as the messages themselves are; a reader that knows no packs reads the messages.

use crate::archive::{Archive, Store, message_name};
use crate::destination::Compacted;
use crate::error::{Error, Result};
use crate::message::{Header, crc32c, take};
use seawall_sys::clock::monotonic_ns;
use seawall_sys::planted;
use std::ops::Range;

pub(crate) const PACKS: &str = "packs/";
const PLAIN: &str = "-as-they-are";
const MAGIC: [u8; 4] = *b"SWPK";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 24;
/// Messages of a pack, at most.
const MESSAGES_MAX: usize = 4096;
/// A pack spares at least this many reads, or it is not made.
const MESSAGES_MIN: usize = 8;
/// The last messages are looked at one by one.
const LEFT: u64 = 16;
/// After this many messages it is worth a list to look for packs.
const LOOK_AFTER: u64 = 32;

/// The pack of `messages`, the first of which lies at `from`.
fn seal(from: u64, messages: &[Vec<u8>]) -> Vec<u8> {
    let body: usize = messages.iter().map(Vec::len).sum();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + 4 * messages.len() + body + 4);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(from.to_le_bytes());
    bytes.extend(u32::try_from(messages.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend([0; 4]);
    for message in messages {
        bytes.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_le_bytes());
    }
    for message in messages {
        bytes.extend(message);
    }
    let sum = crc32c([&bytes, &[]]);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Where the messages lie in the pack of these positions; nothing if it is not valid.
fn open(bytes: &[u8], positions: &Range<u64>) -> Option<Vec<Range<usize>>> {
    let end = bytes.len().checked_sub(4).filter(|end| *end >= HEADER_BYTES)?;
    let sum = crc32c([&bytes[..end], &[]]);
    let is_sound = planted!(PackUnchecked, u32::from_le_bytes(take(bytes, end)) == sum);
    let count = usize::try_from(u32::from_le_bytes(take(bytes, 16))).ok()?;
    let fits = bytes[..4] == MAGIC
        && u16::from_le_bytes(take(bytes, 4)) == VERSION
        && u64::from_le_bytes(take(bytes, 8)) == positions.start
        && u64::try_from(count).ok()? == positions.end - positions.start;
    if !is_sound || !fits {
        return None;
    }
    let mut at = HEADER_BYTES.checked_add(count.checked_mul(4)?).filter(|at| *at <= end)?;
    let mut messages = Vec::with_capacity(count);
    for index in 0..count {
        let length = usize::try_from(u32::from_le_bytes(take(bytes, HEADER_BYTES + 4 * index))).ok()?;
        let next = at.checked_add(length).filter(|next| *next <= end)?;
        messages.push(at..next);
        at = next;
    }
    (at == end).then_some(messages)
}

fn pack_name(positions: &Range<u64>) -> String {
    format!("{PACKS}{:020}-{:020}", positions.start, positions.end - 1)
}

/// The positions of a pack by its name, and whether it holds them.
fn named(name: &str) -> Option<(Range<u64>, bool)> {
    let name = name.strip_prefix(PACKS)?;
    let (range, holds) = name.strip_suffix(PLAIN).map_or((name, true), |range| (range, false));
    let (from, to) = range.split_once('-')?;
    let (from, to) = (from.parse().ok()?, to.parse::<u64>().ok()?);
    (from > 0 && from <= to).then_some((from..to.checked_add(1)?, holds))
}

/// What is read one after the other from `position` on: a pack that holds what is due, or one message; and whether it is a pack.
fn plan(position: u64, packs: &[Range<u64>]) -> impl Iterator<Item = (Range<u64>, bool)> {
    let mut next = position;
    let mut packs = packs.iter().peekable();
    std::iter::from_fn(move || {
        while packs.next_if(|pack| pack.end <= next).is_some() {}
        let holds = |pack: &&&Range<u64>| planted!(PackLeavesGap, pack.start <= next);
        let pack = packs.peek().filter(holds).map(|pack| (*pack).clone());
        let item = pack.map_or((next..next + 1, false), |pack| (pack, true));
        next = item.0.end;
        Some(item)
    })
}

impl<S: Store> Archive<S> {
    /// Which positions packs cover, in order, that end after `position`.
    fn packs(&mut self, position: u64) -> Result<Vec<(Range<u64>, bool)>> {
        let names = self.store().list(PACKS, "")?;
        Ok(names.iter().filter_map(|name| named(name)).filter(|(pack, _)| pack.end > position).collect())
    }

    /// Reads the messages from `position` on as [`crate::destination::Destination::read_on`] does, from packs where there are some.
    pub(crate) fn read_packed(
        &mut self,
        position: u64,
        visit: &mut dyn FnMut(u64, &[u8]) -> Result<bool>,
    ) -> Result<u64> {
        let mut next = position;
        let mut more = true;
        let mut packs: Option<Vec<Range<u64>>> = None;
        loop {
            let known = packs.clone();
            let from = next;
            let mut items = plan(from, known.as_deref().unwrap_or_default());
            let mut reading = std::collections::VecDeque::new();
            let mut unsound = None;
            let looks = known.is_none();
            let ahead = self.ahead();
            let mut pace = *self.pace();
            // What is asked for, so that each answer is known for what it is.
            let asked = std::cell::RefCell::new(&mut reading);
            let mut names = std::iter::from_fn(|| {
                let (item, is_pack) = items.next()?;
                let name = if is_pack { pack_name(&item) } else { message_name(item.start) };
                asked.borrow_mut().push_back((item, is_pack));
                Some(name)
            });
            self.store().get_each(&mut names, ahead, &mut |bytes| {
                let Some((item, is_pack)) = asked.borrow_mut().pop_front() else { return Ok(false) };
                if let Some(pace) = &mut pace {
                    pace.took(bytes.len(), monotonic_ns());
                    std::thread::sleep(pace.left(monotonic_ns()));
                }
                let (whole, before) = (0..bytes.len(), next.saturating_sub(item.start));
                let messages = if is_pack { open(&bytes, &item) } else { None };
                if is_pack && messages.is_none() {
                    unsound = Some(item);
                    return Ok(false);
                }
                // Those in front were read by themselves.
                let before = usize::try_from(before).unwrap_or(usize::MAX);
                for at in messages.as_deref().unwrap_or(std::slice::from_ref(&whole)).iter().skip(before) {
                    next += 1;
                    more = visit(next - 1, &bytes[at.clone()])?;
                    if !more {
                        return Ok(false);
                    }
                }
                Ok(!looks || next - from < LOOK_AFTER)
            })?;
            *self.pace() = pace;
            if !more {
                return Ok(next);
            }
            // A pack that is not there any more is as good as one that is not valid.
            let missing = reading.front().filter(|(item, is_pack)| *is_pack && item.contains(&next));
            let without = unsound.or_else(|| missing.map(|(item, _)| item.clone()));
            match (&mut packs, without) {
                (Some(packs), Some(without)) => {
                    tracing::warn!(
                        from = without.start,
                        "a pack is missing or invalid: its messages are read"
                    );
                    packs.retain(|pack| *pack != without);
                }
                (None, _) if next - from >= LOOK_AFTER => {
                    let listed = self.packs(next)?.into_iter();
                    packs = Some(listed.filter_map(|(pack, holds)| holds.then_some(pack)).collect());
                }
                _ => break,
            }
        }
        self.refuse_removed(next)?;
        Ok(next)
    }

    /// Copies runs of small messages into packs; only says how many with `dry_run`.
    ///
    /// # Errors
    /// [`Error::Unavailable`]; [`Error::Damaged`] for a message that is invalid, of which no copy is made.
    pub fn compact(&mut self, dry_run: bool) -> Result<Compacted> {
        let begin = self.start()?.position;
        let done = self.packs(begin)?.into_iter().map(|(pack, _)| pack.end - 1).max().unwrap_or(begin);
        let last = self.last_position(0)?.saturating_sub(LEFT);
        let mut run = Run { from: done + 1, ..Run::default() };
        let mut compacted = Compacted::default();
        let most = self.pack_bytes();
        let mut next = done + 1;
        while next <= last {
            let (mut ended, from) = (false, next);
            let mut names = (next..=last).map(message_name);
            let ahead = self.ahead();
            let mut full = false;
            self.store().get_each(&mut names, ahead, &mut |bytes| {
                Header::open(&bytes)
                    .map_err(|what| Error::Damaged { position: next, what: what.to_owned() })?;
                if run.is_full_with(bytes.len(), most) {
                    full = true;
                    return Ok(false);
                }
                run.bytes += bytes.len();
                run.messages.push(bytes);
                next += 1;
                ended = next > last;
                Ok(true)
            })?;
            if full {
                self.put(&mut run, dry_run, &mut compacted)?;
            } else if next == from || !ended {
                let what = "it is missing, but a later one exists".to_owned();
                return Err(Error::Damaged { position: next, what });
            }
        }
        // A run that may still grow is left for the next time.
        if run.messages.len() >= MESSAGES_MIN * 8 {
            self.put(&mut run, dry_run, &mut compacted)?;
        }
        Ok(compacted)
    }

    fn put(&mut self, run: &mut Run, dry_run: bool, compacted: &mut Compacted) -> Result<()> {
        let Run { from, messages, bytes } = std::mem::take(run);
        let count = messages.len() as u64;
        let positions = from..from + count;
        run.from = positions.end;
        let spares = messages.len() >= MESSAGES_MIN;
        let name = if spares { pack_name(&positions) } else { format!("{}{PLAIN}", pack_name(&positions)) };
        if spares {
            compacted.packs += 1;
            compacted.messages += count;
            compacted.bytes += bytes as u64;
        } else {
            compacted.left += count;
        }
        if dry_run || count == 0 {
            return Ok(());
        }
        let pack = if spares { seal(from, &messages) } else { Vec::new() };
        // One that another compaction made is as good.
        self.store().create(&name, &pack).map(drop)
    }

    /// Removes the packs of messages before `position`.
    pub(crate) fn remove_packs(&mut self, position: u64) -> Result<()> {
        let names = self.store().list(PACKS, "")?;
        let gone = |name: &String| named(name).is_some_and(|(pack, _)| pack.end <= position + 1);
        for name in names.into_iter().filter(gone) {
            self.store().remove(&name)?;
        }
        Ok(())
    }
}

/// Messages in a row that may become a pack.
#[derive(Default)]
struct Run {
    from: u64,
    messages: Vec<Vec<u8>>,
    bytes: usize,
}

impl Run {
    /// Whether one more of this many bytes does not fit.
    fn is_full_with(&self, bytes: usize, most: usize) -> bool {
        !self.messages.is_empty() && (self.messages.len() == MESSAGES_MAX || self.bytes + bytes > most)
    }
}

#[cfg(test)]
mod tests {
    use super::{named, open, pack_name, plan, seal};

    #[test]
    fn a_pack_is_read_as_it_was_written_and_each_changed_byte_is_found() {
        let messages = [b"one".to_vec(), Vec::new(), b"three".to_vec()];
        let bytes = seal(7, &messages);
        let read = open(&bytes, &(7..10)).expect("sound");
        assert!(read.into_iter().map(|at| &bytes[at]).eq(messages.iter().map(Vec::as_slice)));
        for (from, to) in [(6, 9), (7, 9), (7, 11)] {
            assert_eq!(open(&bytes, &(from..to)), None, "another name");
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x40;
            assert_eq!(open(&bad, &(7..10)), None, "byte {at}");
            assert_eq!(open(&bytes[..at], &(7..10)), None, "{at} bytes");
        }
    }

    #[test]
    fn names_say_what_is_in_them() {
        assert_eq!(named(&pack_name(&(3..9))), Some((3..9, true)));
        assert_eq!(named(&format!("{}-as-they-are", pack_name(&(3..9)))), Some((3..9, false)));
        for name in ["packs/", "packs/x-y", "packs/00000000000000000009-00000000000000000003", "packs/0-7"] {
            assert_eq!(named(name), None, "{name}");
        }
    }

    #[test]
    fn no_position_is_left_out_and_each_comes_from_one_place() {
        for packs in [&[][..], &[1..5, 5..9], &[3..6, 8..20], &[1..9, 4..12], &[40..50, 60..70]] {
            for from in 1..12 {
                let mut next = from;
                for (item, is_pack) in plan(from, packs).take(30) {
                    assert!(item.contains(&next), "{packs:?} from {from}: {item:?} at {next}");
                    assert!(if is_pack { packs.contains(&item) } else { item == (next..next + 1) });
                    next = item.end;
                }
            }
        }
        let read: Vec<_> = plan(4, &[3..6, 8..20]).take(4).collect();
        assert_eq!(read, [(3..6, true), (6..7, false), (7..8, false), (8..20, true)]);
    }
}
