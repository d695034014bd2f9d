//! Records the progress of standbys in an archive, for `seawall log status`.
//!
//! ```text
//! PREFIX/standbys/OWNER-POSITION-SECONDS      empty; the name says all: who, up to which message, when, since 1970
//! ```
//!
//! Invariants: nothing depends on one: a standby that may not write there follows all the same; of each standby the newest name counts, and it removes
//! its older ones.

use crate::archive::{Archive, Store};
use crate::destination::Follower;
use crate::error::Result;
use crate::note::{hex, unhex};

const STANDBYS: &str = "standbys/";

impl Follower {
    fn name(&self) -> String {
        format!("{STANDBYS}{}-{:020}-{:012}", hex(&self.owner), self.position, self.unix_s)
    }

    fn of(name: &str) -> Option<Self> {
        let mut words = name.strip_prefix(STANDBYS)?.split('-');
        let (owner, position, unix_s) = (words.next()?, words.next()?, words.next()?);
        Some(Self { owner: unhex(owner)?, position: position.parse().ok()?, unix_s: unix_s.parse().ok()? })
    }
}

impl<S: Store> Archive<S> {
    /// The standbys that have said how far they are, by the newest name of each.
    pub(crate) fn listed_followers(&mut self) -> Result<Vec<Follower>> {
        let mut found: Vec<Follower> = Vec::new();
        for follower in self.store().list(STANDBYS, "")?.iter().filter_map(|name| Follower::of(name)) {
            match found.iter_mut().find(|known| known.owner == follower.owner) {
                Some(known) if known.unix_s <= follower.unix_s => *known = follower,
                Some(_) => {}
                None => found.push(follower),
            }
        }
        Ok(found)
    }

    /// Says how far one is, and removes what it said before.
    pub(crate) fn put_follower(&mut self, follower: &Follower) -> Result<()> {
        let mine = format!("{STANDBYS}{}-", hex(&follower.owner));
        let (name, before) = (follower.name(), self.store().list(&mine, "")?);
        self.store().create(&name, b"")?;
        before.iter().filter(|old| **old != name).try_for_each(|old| self.store().remove(old))
    }
}

#[cfg(test)]
mod tests {
    use super::Follower;

    #[test]
    fn a_name_says_all_of_it() {
        let follower = Follower { owner: [0xAB; 16], position: 77, unix_s: 1_764_000_000 };
        assert_eq!(Follower::of(&follower.name()), Some(follower));
        for name in ["standbys/", "standbys/ab-1-2", "messages/1", "standbys/x"] {
            assert_eq!(Follower::of(name), None, "{name}");
        }
    }
}
