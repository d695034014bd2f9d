//! Sorts errors by what an operator does about them: the command's exit codes, alerts and health follow this.
//!
//! | ending | what happened | what to do |
//! | --- | --- | --- |
//! | away | a destination is unreachable, or refuses for now | wait; check the network, the rights, the space there |
//! | fenced | another writer owns the destination | stop the program that writes here; continue with the other one |
//! | forked | log and destination do not match | find out which of them is right |
//! | damaged | acknowledged data, or data that a standby still needed, is missing or damaged | name a new destination; restore from another copy if it is the only one; start the standby again |
//! | usage | an option or address makes no sense | correct it |
//! | local | the log, its folder or this build | read the message |
//!
//! Invariant: only `away` may succeed when retried.

use crate::error::Error;

/// What an error asks of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// A destination is unreachable: retrying may help.
    Away,
    /// Another writer owns the destination.
    Fenced,
    /// Log and destination do not match.
    Forked,
    /// Acknowledged data is missing or damaged.
    Damaged,
    /// An option or an address makes no sense.
    Usage,
    /// The log, its folder or this build.
    Local,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Away, Self::Fenced, Self::Forked, Self::Damaged, Self::Usage, Self::Local];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Fenced => "fenced",
            Self::Forked => "forked",
            Self::Damaged => "damaged",
            Self::Usage => "usage",
            Self::Local => "local",
        }
    }
}

impl Error {
    /// What it asks of an operator.
    #[must_use]
    pub fn ending(&self) -> Ending {
        match self {
            Self::Unavailable { .. } | Self::Behind { .. } | Self::TimedOut { .. } => Ending::Away,
            Self::Replaced { .. } | Self::Second { .. } | Self::NotOwner => Ending::Fenced,
            Self::Other { .. } | Self::Diverged { .. } | Self::Forked { .. } => Ending::Forked,
            Self::Damaged { .. }
            | Self::Manifest { .. }
            | Self::Lost { .. }
            | Self::Altered { .. }
            | Self::Removed { .. } => Ending::Damaged,
            Self::Log(error) if matches!(**error, seawall::Error::Corrupt(_)) => Ending::Damaged,
            Self::Option { .. } | Self::BeyondPromise { .. } => Ending::Usage,
            Self::Log(_) | Self::Unfit { .. } | Self::InUse { .. } | Self::Closed => Ending::Local,
        }
    }

    /// Whether the log is not there yet, or is being made.
    #[must_use]
    pub fn lacks_log(&self) -> bool {
        use seawall::Error::{Io, NotALog, Rebuilding};
        let Self::Log(error) = self else { return false };
        match &**error {
            NotALog { .. } | Rebuilding { .. } => true,
            Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Ending;
    use crate::Error;

    #[test]
    fn only_what_is_away_is_tried_again() {
        let away = Error::unavailable("no answer", std::io::Error::other("reset"));
        assert!(away.is_passing() && away.ending() == Ending::Away);
        for (error, ending) in [
            (Error::Replaced { epoch: 3 }, Ending::Fenced),
            (Error::NotOwner, Ending::Fenced),
            (Error::Lost { position: 4 }, Ending::Damaged),
            (Error::Removed { position: 4, start: 9, address: "memory:a".to_owned() }, Ending::Damaged),
            (Error::unfit("x"), Ending::Local),
        ] {
            assert!(!error.is_passing() && error.ending() == ending, "{error}");
        }
        let missing = seawall::View::open("/no/such/folder").map(drop).map_err(Error::from);
        assert!(missing.expect_err("there is none").lacks_log());
    }

    #[test]
    fn the_table_in_the_header_names_each() {
        let header = include_str!("ending.rs").lines().filter_map(|line| line.strip_prefix("//! | "));
        let drawn: Vec<&str> = header.skip(2).filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(drawn, Ending::ALL.map(Ending::name));
    }
}
