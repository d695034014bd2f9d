//! The steps by which a writer publishes and a follower sleeps, on shared words.
//!
//! ```text
//! writer     store segment, store durable -> swap the word for a new count, bit 0 off -> if bit 0 was on: wake all
//! follower   look -> write a tag of its own into the word, bit 0 on -> look again -> if nothing changed: sleep while the
//!            word is that tag
//! ```
//!
//! The follower's write may take the place of the writer's count. That is harmless because it looks again afterwards:
//! either the writer's swap came before, then the second look sees what was stored before the swap; or it comes later, then
//! it finds bit 0 on, and wakes. The writer counts on its own and never reads its count in the word. No two writes of
//! followers are the same: otherwise a late one could bring back the value on which another follower is about to sleep,
//! after the writer has changed it.
//!
//! Invariant: no change is missed by a follower that sleeps, and one that sleeps or has died asleep costs one wake.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use seawall_sys::planted;

/// A follower sleeps.
const SLEEPS: u32 = 1;

/// The numbers of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Durable,
    Segment,
    Ended,
    Cuts,
}

/// The page as the writer reaches it.
pub(crate) trait WriterWords {
    /// Stores a number; what was stored before is seen by each reader of this one.
    fn store(&self, field: Field, value: u64);

    /// Replaces the word, sequentially consistent; returns what it was.
    fn swap(&self, word: u32) -> u32;

    /// Wakes every follower that sleeps on the word.
    fn wake(&self);
}

/// The page as a follower reaches it.
pub(crate) trait FollowerWords {
    fn load(&self, field: Field) -> io::Result<u64>;

    fn word(&self) -> io::Result<u32>;

    /// Writes the word, before any later load; returns whether this process may do so.
    fn set_word(&self, word: u32) -> io::Result<bool>;

    /// Sleeps while the word is `word`, at most for `limit`. May return early.
    fn sleep(&self, word: u32, limit: Duration);
}

/// What a page says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published {
    /// Everything before this LSN is durable.
    pub(crate) durable: u64,
    /// The newest segment that is started, at least.
    pub(crate) segment: u64,
    pub(crate) ended: bool,
    /// How often the log was cut, since it was opened, before the durable LSN, at least.
    pub(crate) cuts: u64,
}

/// Has every follower look again, after the stores that it is to see; `changes` counts them. Returns whether that took a
/// system call.
pub(crate) fn announce(words: &impl WriterWords, changes: &AtomicU32, always: bool) -> bool {
    let count = changes.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
    let wakes = words.swap(count << 1) & SLEEPS != 0 || always;
    if wakes {
        words.wake();
    }
    wakes
}

/// What the page says now.
pub(crate) fn look(words: &impl FollowerWords) -> io::Result<Published> {
    // In this order: the segment of the durable LSN and the cuts before it were published before.
    let durable = words.load(Field::Durable)?;
    let (segment, cuts) = (words.load(Field::Segment)?, words.load(Field::Cuts)?);
    Ok(Published { durable, segment, ended: words.load(Field::Ended)? != 0, cuts })
}

/// Sleeps until the page says something else than `seen`, at most for `limit`. May return early. `tag` is of this call
/// alone.
pub(crate) fn sleep_past(
    words: &impl FollowerWords,
    seen: Published,
    tag: u32,
    limit: Duration,
) -> io::Result<()> {
    let word = words.word()?;
    let own = planted!(SleepersShareTag, tag) << 1 | SLEEPS;
    let word = if words.set_word(own)? { own } else { word };
    if planted!(SleepAfterOneLook, look(words)? == seen) {
        words.sleep(word, limit);
    }
    Ok(())
}
