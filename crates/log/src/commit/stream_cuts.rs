//! Tells readers of a stream in this process at which number it was cut since they last looked up its records.
//!
//! Numbers are used again after a cut: a reader that stands after it would continue in the middle of another history.
//!
//! Invariant: readers begin and look, and cuts are noted, under the lock under which the stream is cut: none is missed, and none is
//! counted that came before what was read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::commit::sync::{Mutex, lock};
use crate::format::{Tag, TagKind};
use crate::stream::StreamId;
use seawall_sys::planted;

/// The readers of the streams of one log.
#[derive(Debug, Default)]
pub(crate) struct StreamCuts(Mutex<Watches>);

#[derive(Debug, Default)]
struct Watches {
    of: HashMap<StreamId, Vec<Weak<AtomicU64>>>,
    /// Those that were added since the ones that are gone were forgotten, and those that were left then.
    added: usize,
    left: usize,
}

/// The lowest number at which a stream was cut since a reader looked where its records are.
#[derive(Debug)]
pub(crate) struct CutWatch(Arc<AtomicU64>);

impl CutWatch {
    /// Where the stream was cut before `number`, if it was, which the reader has reached and where it looks now. A cut that lies
    /// after is of no concern: what is read there from now on follows it.
    pub(crate) fn look(&self, number: u64) -> Option<u64> {
        let cut = planted!(StreamGoesOnBehindCut, self.0.load(Ordering::Acquire));
        if cut >= number {
            self.0.store(u64::MAX, Ordering::Release);
            return None;
        }
        Some(cut)
    }
}

impl StreamCuts {
    /// Watches the stream from now on.
    pub(crate) fn watch(&self, stream: StreamId) -> CutWatch {
        let lowest = Arc::new(AtomicU64::new(u64::MAX));
        let mut watches = lock(&self.0);
        // So that forgetting looks at few for each that was added.
        if watches.added > watches.left + 64 {
            watches.of.retain(|_, of| {
                of.retain(|watch| watch.strong_count() > 0);
                !of.is_empty()
            });
            (watches.left, watches.added) = (watches.of.values().map(Vec::len).sum(), 0);
        }
        watches.added += 1;
        watches.of.entry(stream).or_default().push(Arc::downgrade(&lowest));
        CutWatch(lowest)
    }

    /// A stream was trimmed, cut or removed as `tag` says.
    pub(crate) fn note(&self, tag: &Tag) {
        let cut = match tag.kind {
            TagKind::StreamCut => tag.number,
            _ if tag.removes() => 0,
            _ => return,
        };
        let Some(stream) = StreamId::new(tag.stream) else { return };
        if let Some(of) = lock(&self.0).of.get(&stream) {
            for lowest in of.iter().filter_map(Weak::upgrade) {
                lowest.fetch_min(cut, Ordering::AcqRel);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::StreamCuts;
    use crate::commit::sync::lock;
    use crate::format::{Tag, TagKind};
    use crate::stream::StreamId;

    #[test]
    fn each_reader_learns_of_the_lowest_cut_since_it_began_and_those_that_are_gone_are_forgotten() {
        let (cuts, stream) = (StreamCuts::default(), StreamId::new(3).expect("is small"));
        let tag = |kind, number| Tag { kind, stream: 3, number };
        let early = cuts.watch(stream);
        cuts.note(&tag(TagKind::StreamTrim, 4));
        assert_eq!(early.look(9), None, "a trim is no cut");
        cuts.note(&tag(TagKind::StreamCut, 5));
        let late = cuts.watch(stream);
        cuts.note(&tag(TagKind::StreamCut, 8));
        cuts.note(&Tag { stream: 4, ..tag(TagKind::StreamCut, 1) });
        assert_eq!([early.look(9), early.look(6), late.look(9)], [Some(5), Some(5), Some(8)]);
        assert_eq!((late.look(8), late.look(9)), (None, None), "what is read there follows that cut");
        cuts.note(&Tag::removal(3));
        assert_eq!(late.look(1), Some(0));
        for number in 0..10_000 {
            drop(cuts.watch(StreamId::new(number % 5000).expect("is small")));
        }
        let kept: usize = lock(&cuts.0).of.values().map(Vec::len).sum();
        assert!(kept < 1000, "{kept}");
        assert_eq!(early.look(9), Some(0));
    }
}
