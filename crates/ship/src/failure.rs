//! Defines the failures that a commit may have to outlive, and which acknowledgement outlives which.
//!
//! ```text
//!                         the log's own commit        a destination's acknowledgement
//!                         at class P, S or W          outlives it if
//!   the process ends      P S W                       always
//!   the system crashes      S W                       always
//!   power is cut here         W                       always
//!   power is cut everywhere   W                       every replica that it counts was synced before
//!   this machine is lost      –                       two replicas or more, on other machines, and none that lags may become leader
//!   the site is lost          –                       its owner says that it is off-site, and the line above
//! ```
//!
//! P, S, W are the classes process crash, system crash and power loss (`seawall::Durability`). The failures have no order: a
//! commit that is replicated and not synced outlives the loss of this machine and no common power cut, a commit that is synced here
//! outlives the reverse.
//!
//! Invariants: nothing is assumed of a destination: what it does not report, it does not promise; more replicas or an earlier
//! sync never weaken a promise.

use seawall::Durability;

/// What may happen to committed records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failure {
    /// The process ends.
    Process,
    /// The operating system of this machine crashes.
    System,
    /// The power of this machine is cut.
    PowerHere,
    /// The power of all machines that hold a copy is cut at once.
    PowerEverywhere,
    /// This machine or its disk is lost.
    Machine,
    /// Everything at this site is lost.
    Site,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Process, Self::System, Self::PowerHere, Self::PowerEverywhere, Self::Machine, Self::Site];

    /// Its name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::System => "system",
            Self::PowerHere => "power-here",
            Self::PowerEverywhere => "power-everywhere",
            Self::Machine => "machine",
            Self::Site => "site",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|failure| failure.name() == name)
    }

    /// The class of a commit of the log that outlives it; none does if the machine is lost.
    #[must_use]
    pub fn local_class(self) -> Option<Durability> {
        match self {
            Self::Process => Some(Durability::ProcessCrash),
            Self::System => Some(Durability::SystemCrash),
            Self::PowerHere | Self::PowerEverywhere => Some(Durability::PowerLoss),
            Self::Machine | Self::Site => None,
        }
    }
}

/// When a destination syncs what it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// Before it acknowledges, on every replica that the acknowledgement counts.
    Before,
    /// After it.
    After,
    /// It does not report that.
    Unknown,
}

impl Synced {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Before, Self::After, Self::Unknown];
}

/// What is known of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, which a destination reports or does not"
)]
pub struct Facts {
    /// What it is called, with what decides its promise, such as `NATS JetStream, 3 replicas`.
    pub name: String,
    /// The fewest replicas that hold a message when it is acknowledged.
    pub acknowledged_by: usize,
    /// Whether a replica that lacks acknowledged messages may become the leader.
    pub laggard_may_lead: bool,
    /// When it syncs.
    pub synced: Synced,
    /// The setting that says so, and where it was read.
    pub setting: String,
    /// Whether all its addresses are of this machine, or it is on its disk: then it is lost with this machine.
    pub on_this_machine: bool,
    /// Whether the user says that it is off-site.
    pub elsewhere: bool,
    /// Whether it is a service that replicates by itself, as an object store: then replication is its promise.
    pub keeps_copies: bool,
    /// The longest message that it takes, in bytes.
    pub message_bytes_max: usize,
    /// Messages that may be in flight at once.
    pub in_flight_max: usize,
    /// Batches are gathered into messages up to this many bytes; 0 for one message a batch.
    pub gather_bytes: usize,
    /// Open reports of lost acknowledged messages, and the version tried here: printed beside the promise.
    pub reports: Vec<String>,
}

impl Facts {
    /// Whether what it acknowledges outlives `failure`.
    ///
    /// # Errors
    /// Why it does not.
    pub fn outlives(&self, failure: Failure) -> Result<(), String> {
        let machine = || {
            if self.on_this_machine {
                Err(format!("{} is on this machine, as far as is known, and lost with it", self.name))
            } else if self.keeps_copies {
                Ok(())
            } else if self.acknowledged_by < 2 {
                Err(format!("{} acknowledges with one replica", self.name))
            } else if self.laggard_may_lead {
                Err(format!(
                    "{} may lose what it acknowledged when a lagging replica becomes leader",
                    self.name
                ))
            } else {
                Ok(())
            }
        };
        match failure {
            Failure::Process | Failure::System | Failure::PowerHere => Ok(()),
            Failure::PowerEverywhere => match self.synced {
                Synced::Before => Ok(()),
                Synced::After => Err(format!("{} syncs after it acknowledges ({})", self.name, self.setting)),
                Synced::Unknown => {
                    Err(format!("{} does not say when it syncs ({})", self.name, self.setting))
                }
            },
            Failure::Site if !self.elsewhere => Err(format!("{} is not declared off-site", self.name)),
            Failure::Machine | Failure::Site => machine(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Facts, Failure, Synced};
    use seawall::Durability;

    fn facts(
        acknowledged_by: usize,
        synced: Synced,
        [laggard, here, elsewhere, service]: [bool; 4],
    ) -> Facts {
        Facts {
            name: "it".to_owned(),
            acknowledged_by,
            laggard_may_lead: laggard,
            synced,
            setting: String::new(),
            on_this_machine: here,
            elsewhere,
            keeps_copies: service,
            message_bytes_max: 1 << 20,
            in_flight_max: 1,
            gather_bytes: 0,
            reports: Vec::new(),
        }
    }

    fn all() -> Vec<Facts> {
        let flags = (0..16_u8).map(|bits| [1, 2, 4, 8].map(|bit| bits & bit != 0));
        let flags: Vec<_> = flags.collect();
        let of = |copies| {
            flags.iter().flat_map(move |flags| Synced::ALL.map(|synced| facts(copies, synced, *flags)))
        };
        [1, 2, 3].into_iter().flat_map(of).collect()
    }

    #[test]
    fn the_table_in_the_header_holds() {
        let kept = |facts: &Facts| Failure::ALL.map(|failure| facts.outlives(failure).is_ok());
        let apart = [false; 4];
        assert_eq!(kept(&facts(2, Synced::Before, apart)), [true, true, true, true, true, false]);
        assert_eq!(kept(&facts(2, Synced::After, apart)), [true, true, true, false, true, false]);
        assert_eq!(kept(&facts(2, Synced::Unknown, apart)), [true, true, true, false, true, false]);
        assert_eq!(kept(&facts(1, Synced::Before, apart)), [true, true, true, true, false, false]);
        let laggard = [true, false, false, false];
        assert_eq!(kept(&facts(2, Synced::Before, laggard)), [true, true, true, true, false, false]);
        let here = [false, true, true, true];
        assert_eq!(kept(&facts(3, Synced::Before, here)), [true, true, true, true, false, false]);
        let service = [false, false, true, true];
        assert_eq!(kept(&facts(1, Synced::Before, service)), [true; 6]);
        let classes = Failure::ALL.map(Failure::local_class);
        let power = Some(Durability::PowerLoss);
        let lower = [Some(Durability::ProcessCrash), Some(Durability::SystemCrash)];
        assert_eq!(classes, [lower[0], lower[1], power, power, None, None]);
    }

    #[test]
    fn more_copies_and_an_earlier_sync_never_promise_less() {
        for facts in all() {
            for failure in Failure::ALL {
                let before = facts.outlives(failure).is_ok();
                let more = Facts { acknowledged_by: facts.acknowledged_by + 1, ..facts.clone() };
                let synced = Facts { synced: Synced::Before, ..facts.clone() };
                let apart = Facts { on_this_machine: false, laggard_may_lead: false, ..facts.clone() };
                for better in [more, synced, apart] {
                    assert!(!before || better.outlives(failure).is_ok(), "{facts:?} {failure:?}");
                }
            }
        }
    }

    #[test]
    fn names_are_found_again() {
        for failure in Failure::ALL {
            assert_eq!(Failure::find(failure.name()), Some(failure));
        }
        assert_eq!(Failure::find("power"), None);
    }
}
