//! Tracks the cut parts of the log itself: ranges of LSNs whose untagged records no reader shows.
//!
//! A cut never moves anything: the log continues after what it cuts, and LSNs are not used twice.
//!
//! Invariants: the ranges are in order and do not touch; a later cut that begins before an earlier one takes it in.

use crate::lsn::Lsn;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CutList {
    ranges: Vec<(Lsn, Lsn)>,
}

/// One range in the payload of a record, bytes.
const RANGE_BYTES: usize = 16;

impl CutList {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a record that starts at `lsn` is cut off.
    pub(crate) fn hides(&self, lsn: Lsn) -> bool {
        let behind = self.ranges.partition_point(|(from, _)| *from <= lsn);
        behind.checked_sub(1).is_some_and(|at| lsn < self.ranges[at].1)
    }

    /// The records from `from` up to `to`, the end of the log, are cut.
    pub(crate) fn cut(&mut self, from: Lsn, to: Lsn) {
        let mut from = from;
        while let Some(last) = self.ranges.pop_if(|last| last.1 >= from) {
            from = from.min(last.0);
        }
        if from < to {
            self.ranges.push((from, to));
        }
    }

    /// Takes in what another list of the same log says is cut.
    pub(crate) fn join(&mut self, other: Self) {
        self.ranges.extend(other.ranges);
        self.ranges.sort_unstable();
        for (from, to) in std::mem::take(&mut self.ranges) {
            match self.ranges.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => self.ranges.push((from, to)),
            }
        }
    }

    /// What lies before `first` was trimmed.
    pub(crate) fn trim(&mut self, first: Lsn) {
        self.ranges.retain(|(_, to)| *to > first);
    }

    /// What it says of the records from `first` on, in a log of which nothing else is left.
    #[cfg(feature = "simulation")]
    pub(crate) fn seen_from(mut self, first: Lsn) -> Self {
        self.trim(first);
        if let Some((from, _)) = self.ranges.first_mut() {
            *from = first.max(*from);
        }
        self
    }

    /// As the payload of a record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let lsns = self.ranges.iter().flat_map(|(from, to)| [from.get(), to.get()]);
        lsns.flat_map(u64::to_le_bytes).collect()
    }

    /// Reads what [`CutList::encode`] wrote; `None` if it is none.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut list = Self::default();
        let (chunks, []) = payload.as_chunks::<RANGE_BYTES>() else { return None };
        for chunk in chunks {
            let [from, to] = [&chunk[..8], &chunk[8..]].map(|half| half.try_into().map(u64::from_le_bytes));
            let (from, to) = (Lsn::new(from.ok()?), Lsn::new(to.ok()?));
            let follows = list.ranges.last().is_none_or(|last| last.1 < from);
            if from >= to || !follows {
                return None;
            }
            list.ranges.push((from, to));
        }
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::CutList;
    use crate::lsn::Lsn;

    #[test]
    fn every_sequence_of_cuts_hides_what_a_list_of_records_loses() {
        // Records of length 1 at LSNs 0, 1, 2 …; a cut takes the place of one record.
        for word in 0..4_u32.pow(7) {
            let (mut list, mut end, mut left) = (CutList::default(), 0_u64, Vec::new());
            for step in 0..7 {
                match word / 4_u32.pow(step) % 4 {
                    0 | 1 => {
                        left.push(end);
                        end += 1;
                    }
                    back => {
                        let from = end.saturating_sub(u64::from(back) * 2 - 1);
                        left.retain(|lsn| *lsn < from);
                        list.cut(Lsn::new(from), Lsn::new(end));
                        end += 1;
                    }
                }
            }
            let hidden = |lsn: &u64| !list.hides(Lsn::new(*lsn));
            let kept: Vec<u64> = (0..end).filter(hidden).filter(|lsn| left.contains(lsn)).collect();
            assert_eq!(kept, left, "{word}");
            assert!((0..end).filter(|lsn| !left.contains(lsn)).count() >= list.ranges.len(), "{word}");
            assert_eq!(CutList::decode(&list.encode()), Some(list.clone()), "{word}");
        }
        assert_eq!(CutList::decode(&[0; 15]), None);
        assert_eq!(CutList::decode(&[0; 16]), None, "an empty range");
    }
}
