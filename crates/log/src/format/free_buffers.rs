//! Keeps the buffers that hold no batch, and remembers which of them have been used.
//!
//! ```text
//!   cold                         warm
//!   ┌────────────────────────────┬───────────────────────────┐ ◄─ taken here, and put back here
//!   │ not used since they came   │ used since then           │
//!   │ or were given back         │                           │
//!   └────────────────────────────┴───────────────────────────┘
//! ```
//!
//! The buffer that was used last is taken first, so that a lone committer uses one and the others need no memory. A cold
//! buffer takes its memory from the system page by page when it is written; warm ones are given back when the log is idle.
//!
//! Invariant: a buffer that gives its memory back is neither free nor in a batch, so nothing can be written to it meanwhile.

use crate::format::buffer::AlignedBuf;

/// Memory that stays with an idle log, in bytes, so that its next commit meets no page fault.
const KEPT_BYTES: usize = 2 << 20;

/// The free buffers of one log, all of the ordinary size.
#[derive(Debug)]
pub(crate) struct FreeBuffers {
    free: Vec<AlignedBuf>,
    /// So many, counted from the start, are cold.
    cold: usize,
    /// So many stay warm.
    kept: usize,
}

impl FreeBuffers {
    /// `count` buffers of `batch_bytes` bytes, of which as many as an idle log keeps are warm.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn take(count: usize, batch_bytes: usize) -> std::io::Result<Self> {
        let kept = (KEPT_BYTES / batch_bytes.max(1)).min(count);
        let take = |number| {
            let mut buffer = AlignedBuf::try_zeroed(batch_bytes)?.numbered(number);
            if number < count - kept {
                // The allocator may have cleared memory that was used before.
                let _ = buffer.give_back();
            } else {
                buffer.touch();
            }
            Ok(buffer)
        };
        let free = (0..count).map(take).collect::<std::io::Result<_>>()?;
        Ok(Self { free, cold: count - kept, kept })
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn warm(&self) -> &[AlignedBuf] {
        self.free.get(self.cold..).unwrap_or_default()
    }

    /// Takes the one that was used last.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<AlignedBuf> {
        let taken = self.free.pop();
        self.cold = self.cold.min(self.free.len());
        taken
    }

    /// Puts one back that was used.
    #[inline]
    pub(crate) fn push(&mut self, buffer: AlignedBuf) {
        self.free.push(buffer);
    }

    /// Whether more is warm than an idle log keeps.
    pub(crate) fn has_excess(&self) -> bool {
        self.free.len() > self.cold + self.kept && self.free.len() > 1
    }

    /// Takes out a warm buffer that an idle log does not keep.
    pub(crate) fn take_excess(&mut self) -> Option<AlignedBuf> {
        self.has_excess().then(|| self.free.remove(self.cold))
    }

    /// Puts one back whose memory was given back.
    pub(crate) fn put_cold(&mut self, buffer: AlignedBuf) {
        self.free.insert(self.cold, buffer);
        self.cold += 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{FreeBuffers, KEPT_BYTES};

    const BYTES: usize = KEPT_BYTES / 2;

    fn numbers(free: &FreeBuffers) -> (Vec<Option<u16>>, usize) {
        (free.free.iter().map(|one| one.number).collect(), free.cold)
    }

    #[test]
    fn a_lone_committer_uses_one_buffer_and_a_crowd_leaves_what_can_be_given_back() {
        let mut free = FreeBuffers::take(5, BYTES).expect("memory");
        assert_eq!((free.warm().len(), free.has_excess()), (2, false));
        for _ in 0..10 {
            let one = free.pop().expect("is free");
            assert_eq!(one.number, Some(4));
            free.push(one);
        }
        assert!(!free.has_excess());
        let all: Vec<_> = std::iter::from_fn(|| free.pop()).collect();
        assert_eq!((all.len(), free.len(), free.has_excess()), (5, 0, false));
        for one in all {
            free.push(one);
        }
        assert_eq!(free.warm().len(), 5);
        let mut given = 0;
        while let Some(mut one) = free.take_excess() {
            assert_eq!(free.len(), 4, "one at a time is missing");
            let _ = one.give_back();
            free.put_cold(one);
            given += 1;
        }
        assert_eq!((given, free.warm().len()), (3, 2));
        // The one that was used last is the next.
        assert_eq!(numbers(&free), (vec![Some(4), Some(3), Some(2), Some(1), Some(0)], 3));
    }

    #[test]
    fn what_is_taken_while_one_is_given_back_counts_as_used() {
        let mut free = FreeBuffers::take(3, 2 * KEPT_BYTES).expect("memory");
        assert!(free.warm().is_empty());
        let (a, b) = (free.pop().expect("is free"), free.pop().expect("is free"));
        free.push(a);
        free.push(b);
        let out = free.take_excess().expect("nothing that large is kept");
        let (c, d) = (free.pop().expect("is free"), free.pop().expect("is free"));
        assert!(free.pop().is_none());
        free.put_cold(out);
        free.push(c);
        free.push(d);
        assert_eq!((free.warm().len(), free.len(), free.has_excess()), (2, 3, true));
    }

    #[test]
    fn small_logs_keep_all_of_their_memory_and_the_last_free_buffer_is_never_taken() {
        let mut free = FreeBuffers::take(8, 16 << 10).expect("memory");
        assert_eq!((free.warm().len(), free.has_excess()), (8, false));
        let mut large = FreeBuffers::take(2, 2 * KEPT_BYTES).expect("memory");
        let one = large.pop().expect("is free");
        assert!(large.take_excess().is_none());
        large.push(one);
        let used = large.pop().expect("is free");
        assert!(!large.has_excess(), "one is free, and it was not used");
        large.push(used);
        assert!(free.take_excess().is_none() && large.take_excess().is_some());
        assert!(large.take_excess().is_none());
    }
}
