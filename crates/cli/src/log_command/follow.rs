//! Keeps the place of `seawall log follow` in a log: what was read is not read again, and a trim that overtakes it is reported.
//!
//! Invariants: records come in order and none twice; a gap is printed once on standard error, with its LSNs.

use super::Stop;
use seawall::{Error, Lsn, Record, View, ViewReader};
use std::path::Path;

/// A place in a log.
pub(super) struct ViewFollower {
    view: View,
    reader: Option<ViewReader>,
    /// Where the next record starts, or lies behind.
    from: Lsn,
}

impl ViewFollower {
    /// The place `from` of the log in `dir`; by default the first record that is left.
    pub(super) fn open(dir: &Path, from: Option<Lsn>) -> Result<Self, Stop> {
        let view = View::open(dir)?;
        Ok(Self { from: from.unwrap_or(view.first_lsn()), view, reader: None })
    }

    /// The next record, if one is known.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Stop> {
        loop {
            match self.read() {
                Err(Error::Trimmed { .. }) => self.go_behind_the_gap()?,
                read => return Ok(read?),
            }
        }
    }

    fn read(&mut self) -> Result<Option<Record>, Error> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None if self.from > self.view.end_lsn() => return Ok(None),
            reader @ None => reader.insert(self.view.read(self.from)?),
        };
        let next = reader.next().transpose()?;
        self.from = next.as_ref().map_or(self.from, |record| record.end);
        Ok(next)
    }

    fn go_behind_the_gap(&mut self) -> Result<(), Stop> {
        self.reader = None;
        self.view = View::open(self.view.dir())?;
        let first = self.view.first_lsn();
        if first > self.from {
            let from = self.from;
            anstream::eprintln!(
                "trimmed: LSN {from} to {first} was forgotten before it was read; going on at {first}"
            );
            self.from = first;
        }
        Ok(())
    }

    /// Looks for more; returns whether there may be some.
    pub(super) fn look(&mut self) -> Result<bool, Stop> {
        let log = self.view.log_id();
        let changed = self.view.renew()?;
        if self.view.log_id() != log {
            return Err(Stop::Failed(format!(
                "another log was put at {}: follow that one from its beginning",
                self.view.dir().display()
            )));
        }
        if let Some(reader) = &mut self.reader {
            reader.go_on(&self.view);
        }
        Ok(changed)
    }
}
