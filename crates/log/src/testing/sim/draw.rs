//! Draws which unsynced writes reached the disk before a crash.
//!
//! Every model of a disk uses this draw. It decides piece by piece in the order in which the pieces were written, all
//! pieces of one write together.

use super::rng::{Rng, mix};

/// How an image is drawn from what may have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Nothing unsynced arrived.
    None,
    /// All of it did.
    All,
    /// Each write as a whole did or did not.
    Half,
    /// Every write but one.
    AllButOne,
    /// One write only.
    OnlyOne,
    /// One write was torn at a sector, the ones before it arrived.
    Torn,
    /// Each sector by itself.
    Soup,
}

/// Every way to draw an image.
pub const DRAWS: [Draw; 7] =
    [Draw::None, Draw::All, Draw::Half, Draw::AllButOne, Draw::OnlyOne, Draw::Torn, Draw::Soup];

/// One drawing.
#[derive(Clone, Debug)]
pub struct Deal {
    draw: Draw,
    one: u64,
    /// Pieces of that write that arrive if it is torn.
    tear: usize,
    salt: u64,
    /// Pieces of that write that were dealt.
    of_one: usize,
}

impl Deal {
    /// Deals by `draw`; `one` is the write that is singled out, with this many `pieces`.
    pub fn new(draw: Draw, (one, pieces): (u64, usize), rng: &mut Rng) -> Self {
        Self { draw, one, tear: rng.index(pieces + 1), salt: rng.next_u64(), of_one: 0 }
    }

    /// Whether the next piece, one of this write, arrived.
    pub fn arrives(&mut self, write: u64, rng: &mut Rng) -> bool {
        let is_one = write == self.one;
        self.of_one += usize::from(is_one);
        match self.draw {
            Draw::None => false,
            Draw::All => true,
            Draw::Half => mix(self.salt ^ write) & 1 == 1,
            Draw::AllButOne => !is_one,
            Draw::OnlyOne => is_one,
            Draw::Torn if is_one => self.of_one <= self.tear,
            Draw::Torn => self.of_one == 0,
            Draw::Soup => rng.coin(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DRAWS, Deal, Draw, Rng};

    /// Which pieces of the writes 3, 3, 3, 5, 5, 8 arrive if 5 is singled out.
    fn dealt(draw: Draw, seed: u64) -> Vec<bool> {
        let mut rng = Rng::new(seed);
        let mut deal = Deal::new(draw, (5, 2), &mut rng);
        [3, 3, 3, 5, 5, 8].into_iter().map(|write| deal.arrives(write, &mut rng)).collect()
    }

    #[test]
    fn every_way_gives_what_its_name_says() {
        for seed in 0..200 {
            for draw in DRAWS {
                let got = dealt(draw, seed);
                let (same, whole) = (got[0] == got[1] && got[1] == got[2], got[3] == got[4]);
                let fits = match draw {
                    Draw::None => got == [false; 6],
                    Draw::All => got == [true; 6],
                    Draw::Half => same && whole,
                    Draw::AllButOne => got == [true, true, true, false, false, true],
                    Draw::OnlyOne => got == [false, false, false, true, true, false],
                    Draw::Torn => same && got[0] && (got[3] || !got[4]) && !got[5],
                    Draw::Soup => true,
                };
                assert!(fits, "{draw:?} from seed {seed}: {got:?}");
            }
        }
        for (draw, least) in [(Draw::Half, 4), (Draw::Torn, 3), (Draw::Soup, 40)] {
            let mut different: Vec<Vec<bool>> = (0..200).map(|seed| dealt(draw, seed)).collect();
            different.sort();
            different.dedup();
            assert!(different.len() >= least, "{draw:?}: {}", different.len());
        }
    }
}
