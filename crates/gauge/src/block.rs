//! Defines a writer's share of a block, and what it measured there.

use crate::latency::Latency;
use crate::row::Tail;
use seawall_host::thread::Times;

/// One writer's share of a block.
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    /// Where the writer's part of the journal starts, bytes.
    pub base: u64,
    /// Transactions that fit into it.
    pub capacity: u64,
    /// Writes of a transaction, one after the other.
    pub writes: u64,
    /// The writer's next transaction, counted over all its blocks.
    pub first: u64,
    /// At most N commits.
    pub commits_max: u64,
    /// Ends when so much time has passed, nanoseconds.
    pub time_max_ns: u64,
    /// Time between scheduled arrivals, nanoseconds; `None`: closed loop.
    pub interval_ns: Option<u64>,
    /// Whether write and sync are timed separately.
    pub splits: bool,
    /// The latency above which a commit counts as slow, if known from earlier blocks, nanoseconds.
    pub slow_ns: Option<u64>,
    /// Transactions to warm before the first, because they are expected to be written.
    pub warm: u64,
}

/// What a writer measured in a block.
#[derive(Debug, Default)]
pub struct Sample {
    /// Commits acknowledged.
    pub commits: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the first commit's start to the last one's end, nanoseconds.
    pub elapsed_ns: u64,
    /// Write and sync together.
    pub latency: Latency,
    /// The write alone, if timed separately.
    pub write: Latency,
    /// The sync alone, if timed separately.
    pub sync: Latency,
    /// From scheduled arrival to durable, if scheduled.
    pub response: Latency,
    /// The thread's accounts over the block.
    pub times: Times,
    /// What slow commits waited for.
    pub tail: Tail,
    /// The longest commit of each span.
    pub(crate) spans: Spans,
}

/// The longest of the commits that ended in each span of a block, and how many did: 100 ms, or twice that as often as a long block demands.
#[derive(Debug)]
pub(crate) struct Spans {
    /// How long a span is, nanoseconds.
    pub span_ns: u64,
    /// Span by span, nanoseconds; 0 where no commit ended.
    pub longest_ns: Vec<u64>,
    /// How many, span by span.
    pub commits: Vec<u64>,
}

impl Default for Spans {
    fn default() -> Self {
        let [longest_ns, commits] = [(); 2].map(|()| Vec::with_capacity(Self::MAX));
        Self { span_ns: Self::SHORTEST_NS, longest_ns, commits }
    }
}

impl Spans {
    const SHORTEST_NS: u64 = 100_000_000;
    /// The most spans, in memory that is allocated before the first commit.
    const MAX: usize = 1024;

    /// A commit of `latency_ns` ended `at_ns` after the block began.
    #[inline]
    pub(crate) fn record(&mut self, at_ns: u64, latency_ns: u64) {
        let mut index = at_ns / self.span_ns;
        while index >= Self::MAX as u64 {
            self.widen();
            index = at_ns / self.span_ns;
        }
        let index = usize::try_from(index).unwrap_or(Self::MAX - 1);
        if index >= self.longest_ns.len() {
            self.longest_ns.resize(index + 1, 0);
            self.commits.resize(index + 1, 0);
        }
        self.longest_ns[index] = self.longest_ns[index].max(latency_ns);
        self.commits[index] += 1;
    }

    #[cold]
    fn widen(&mut self) {
        self.span_ns *= 2;
        let count = self.longest_ns.len().div_ceil(2);
        for index in 0..count {
            let second = self.longest_ns.get(index * 2 + 1).copied().unwrap_or(0);
            self.longest_ns[index] = self.longest_ns[index * 2].max(second);
            let second = self.commits.get(index * 2 + 1).copied().unwrap_or(0);
            self.commits[index] = self.commits[index * 2] + second;
        }
        self.longest_ns.truncate(count);
        self.commits.truncate(count);
    }
}

#[cfg(test)]
mod tests {
    use super::Spans;

    #[test]
    fn the_longest_commit_of_each_span_is_kept_however_long_the_block() {
        let mut spans = Spans::default();
        let (taken, second) = (spans.longest_ns.capacity(), 1_000_000_000);
        for at_ns in (0..100 * second).step_by(10_000_000) {
            spans.record(at_ns, if at_ns == 42 * second { 7_000 } else { 5 });
        }
        assert_eq!((spans.span_ns, spans.longest_ns.len()), (100_000_000, 1000));
        assert!(spans.commits.iter().all(|commits| *commits == 10));
        assert_eq!(spans.longest_ns.iter().position(|ns| *ns == 7_000), Some(420));
        spans.record(3_600 * second, 9);
        assert_eq!(spans.longest_ns[usize::try_from(42 * second / spans.span_ns).expect("small")], 7_000);
        assert_eq!((spans.longest_ns.last(), spans.commits.last()), (Some(&9), Some(&1)));
        assert_eq!(spans.commits.iter().sum::<u64>(), 10_001, "none is lost");
        assert!(
            spans.longest_ns.len() <= Spans::MAX && spans.longest_ns.capacity() == taken,
            "nothing was allocated"
        );
    }
}
