//! Guesses the end of a destination's chain from its last messages, so that an epoch can be taken before
//! everything else is read.
//!
//! ```text
//!   … │ 7 8 9 8' 10 x │     the last messages: lines of messages of which each states the one before it
//!         └──┴────┴──► the longest line is taken for the chain; 8' and x are left over from races
//! ```
//!
//! Invariant: a guess is only ever a reason to try: what was taken by it counts once the chain was read from its beginning and
//! is found to be what was guessed ([`was_right`]). A wrong one leaves a message that every reader ignores.

use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::message::{Chain, Header, Verdict, is_message};
use seawall_sys::planted;

/// A line of messages of which each follows the one before it.
struct Line {
    chain: Chain,
    messages: u64,
}

/// The lines that the last messages belong to.
#[derive(Default)]
pub struct Guess {
    lines: Vec<Line>,
}

impl std::fmt::Debug for Guess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guess").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}

impl Guess {
    /// Looks at the message at the next `position`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is invalid: nothing can be guessed.
    pub fn look_at(&mut self, position: u64, bytes: &[u8]) -> Result<()> {
        let damaged = |what: &str| Error::Damaged { position, what: what.to_owned() };
        if !is_message(bytes) {
            self.lines.iter_mut().for_each(|line| line.chain.position = position);
            return Ok(());
        }
        let (header, _) = Header::open(bytes).map_err(damaged)?;
        let mut followed = false;
        for line in &mut self.lines {
            if !followed && (line.chain.last, line.chain.number) == (header.previous, header.number) {
                followed = matches!(line.chain.take(bytes)?, Verdict::Next(..));
                line.messages += u64::from(followed);
            }
            line.chain.position = position;
        }
        if !followed {
            self.lines.push(Line { chain: Chain::ending_with(position, header, bytes), messages: 1 });
        }
        Ok(())
    }

    /// The end of the longest line, the first one of several: what was left over came later.
    #[must_use]
    pub fn end(self) -> Option<Chain> {
        let best = self
            .lines
            .into_iter()
            .reduce(|best, line| if line.messages > best.messages { line } else { best });
        best.map(|line| line.chain)
    }
}

/// Where the chain in `from` probably ends; `None` if nothing can be said of it.
///
/// # Errors
/// [`Error::Unavailable`].
pub fn end(from: &mut dyn Destination) -> Result<Option<Chain>> {
    // What was left over from a race is no more than what may be in flight at once.
    let messages = 2 * from.facts().in_flight_max as u64;
    let begin = from.begin()?.position;
    let first = from.last()?.saturating_sub(messages).max(begin) + 1;
    let mut guess = Guess::default();
    match from.read_on(first, &mut |position, bytes| guess.look_at(position, bytes).map(|()| true)) {
        Ok(_) => Ok(guess.end()),
        // Reading it from its beginning reports what is wrong.
        Err(Error::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the right to write that was taken by a guess counts: `taken` is the chain with the epoch at its end, `read` the chain as
/// it was read from its beginning to the same position.
#[must_use]
pub fn was_right(taken: &Chain, read: &Chain) -> bool {
    planted!(
        ShipGuessTrusted,
        (taken.position, taken.number, taken.last) == (read.position, read.number, read.last)
    )
}

#[cfg(test)]
mod tests {
    use super::Guess;
    use crate::message::{Chain, Kind};
    use seawall::{LogId, Lsn};

    fn batch(chain: &mut Chain, epoch: u64, owner: u8) -> Vec<u8> {
        let kind = if chain.epoch == epoch { Kind::Batches } else { Kind::Epoch };
        let mut header = chain.next_header(kind, LogId([7; 16]), (epoch, [owner; 16]));
        if kind == Kind::Batches {
            header.end = Lsn::new(header.lsn.get() + 10);
        }
        let bytes = header.seal(b"sixteen bytes of");
        chain.take(&bytes).expect("it follows");
        bytes
    }

    /// The old writer's pipeline arrives after the new epoch.
    #[test]
    fn the_line_that_goes_on_is_taken_and_not_what_was_left_over() {
        let mut chain = Chain::default();
        let mut messages: Vec<Vec<u8>> = (0..6).map(|_| batch(&mut chain, 1, 1)).collect();
        let mut late = chain.clone();
        messages.push(batch(&mut chain, 2, 2));
        messages.extend((0..3).map(|_| batch(&mut late, 1, 1)));
        messages.push(messages[5].clone());
        chain.position = messages.len() as u64;
        for first in 0..4 {
            let mut guess = Guess::default();
            for (position, bytes) in (1..).zip(&messages).skip(first) {
                guess.look_at(position, bytes).expect("sound");
            }
            let end = guess.end().expect("there are messages");
            assert_eq!(
                (end.position, end.number, end.last),
                (chain.position, chain.number, chain.last),
                "{first}"
            );
            assert_eq!((end.lsn, end.epoch, end.owner), (chain.lsn, 2, [2; 16]));
        }
        assert_eq!(Guess::default().end(), None);
    }
}
