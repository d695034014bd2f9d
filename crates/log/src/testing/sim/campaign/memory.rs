//! Judges what memory that outlived its process does to the next opening: the memory as it was left, and memory that is not to
//! be believed.

use super::{CommitRules, Past, Run};
use crate::crash_memory::left::LeftInMemory;
use crate::testing::oracle::Violation;
use crate::testing::sim::draw::Draw;
use crate::testing::sim::judge::{Terms, judge};
use crate::testing::sim::life::{Ending, Habits, Step, live_with};
use crate::testing::sim::media::Media;
use crate::testing::sim::memory::{MemoryEvent, Remains};
use crate::testing::sim::rng::{Rng, mix};

impl Run<'_> {
    /// Kills the process inside one store to memory and after it, and has memory be there that must not be believed.
    pub(super) fn stored(
        &mut self,
        media: &Media,
        past: &mut Past,
        event: &MemoryEvent,
        (rng, way): (&mut Rng, CommitRules),
    ) -> Result<(), Violation> {
        let torn = past.remains.apply(event, rng);
        if let Some(torn) = torn.filter(|_| rng.one_in(4)) {
            self.remembered(media, past, &torn, (rng, way))?;
        }
        if rng.coin() {
            self.remembered(media, past, &past.remains, (rng, way))?;
        }
        match rng.below(24) {
            0 => self.stale(media, past, &past.remains.after_system_crash(), (rng, way)),
            1 => past
                .remains
                .of_another_log()
                .map_or(Ok(()), |other| self.stale(media, past, &other, (rng, way))),
            2 if past.opened => self.stale(media, past, &past.old, (rng, way)),
            3 | 4 => {
                let damaged = past.remains.damaged(rng);
                let due = way.terms(past.ledger.acknowledged);
                self.drained(media, past, (&damaged, due), rng).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The process is killed and the memory is there as it left it: everything that it promised is due.
    pub(super) fn remembered(
        &mut self,
        media: &Media,
        past: &Past,
        remains: &Remains,
        (rng, way): (&mut Rng, CommitRules),
    ) -> Result<(), Violation> {
        let due = way.terms(past.ledger.due_after_kill());
        self.drained(media, past, (remains, due), rng).map(drop)
    }

    /// The process is killed, and the memory that is there is not the one that it left.
    fn stale(
        &mut self,
        media: &Media,
        past: &Past,
        remains: &Remains,
        (rng, way): (&mut Rng, CommitRules),
    ) -> Result<(), Violation> {
        let due = way.terms(past.ledger.acknowledged);
        match self.drained(media, past, (remains, due), rng)? {
            Some(LeftInMemory::Taken { .. }) => Err(Violation::Believed),
            _ => Ok(()),
        }
    }

    /// Opens the log where a killed process left this disk and this memory, cuts the power when that is open, and judges
    /// what is left: what was taken is durable. Returns what was taken, `None` if this was judged before.
    fn drained(
        &mut self,
        media: &Media,
        past: &Past,
        (remains, terms): (&Remains, Terms),
        rng: &mut Rng,
    ) -> Result<Option<LeftInMemory>, Violation> {
        let killed = media.killed(rng);
        let seen = killed.image(Draw::All, Draw::All, rng).hash();
        let content = mix(seen ^ remains.hash() ^ mix(terms.must_have.get()));
        if !self.is_next(content, past) {
            return Ok(None);
        }
        let Terms { dsync, class, .. } = terms;
        let habits = Habits { actions: 0, ending: Ending::Cut, class, ..Habits::plain(self.seed, dsync, 2) };
        let end = live_with((killed, remains), self.seed, habits, None);
        if let Some(error) = &end.refused {
            return Err(Violation::refused(error));
        }
        let mut exposed = end.trace.iter().filter_map(|step| match step {
            Step::Exposed(_, end) => Some(*end),
            _ => None,
        });
        let must_have = exposed.next_back().unwrap_or_default();
        if must_have < terms.must_have {
            return Err(Violation::Lost { acknowledged: terms.must_have, end: must_have });
        }
        // Drawn apart, so that a state which is repeated alone is the same.
        let image = end.media.image(Draw::None, Draw::None, &mut Rng::new(content));
        judge(image, &past.ledger, Terms { must_have, twice: false, ..terms })?;
        Ok(Some(end.left))
    }
}
