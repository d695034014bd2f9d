//! Computes what an acknowledged record outlives in a replicated engine: [`outlives`].
//!
//! ```text
//!                         a node's process   one machine, with its disk   a power cut of all
//!   a local method        by its class       no: there is one copy        by its class
//!   copies behind the     yes                if there are two or more,    only if every copy counted was
//!   acknowledgement                          and no copy that lags may    synced before the acknowledgement
//!                                            become the leader
//! ```
//!
//! Nodes that share a machine fail with it, so the middle column applies to nodes on separate machines only.
//!
//! Invariants: nothing is assumed of an engine: a fact that it does not report is unknown, and so is what follows
//! from it; more copies or an earlier sync never make a promise weaker (tested over all inputs).

use seawall_sys::durability::{Claim, Durability};

/// When an engine syncs what it has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Before it acknowledges, on every copy that the acknowledgement counts.
    Before,
    /// After it: by a timer, by amount, or when the kernel thinks fit.
    After,
    /// The engine does not report it.
    Unknown,
}

impl SyncPolicy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Before, Self::After, Self::Unknown];
}

/// What an engine reports of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFacts {
    /// Unique among the engines of a run, the same in every run alike; the start of its rows' ids.
    pub id: String,
    /// What it is called, with what decides its promise, such as `NATS JetStream, 3 replicas`.
    pub name: String,
    /// Its version, if it reports one.
    pub version: Option<String>,
    /// Copies of each record.
    pub copies: usize,
    /// Copies that exist at least when a record is acknowledged.
    pub acknowledged_by: usize,
    /// Whether a copy that lags behind acknowledged records may become the leader.
    pub laggard_may_lead: bool,
    /// When it syncs.
    pub policy: SyncPolicy,
    /// The setting that says so, such as `sync_interval: always`.
    pub setting: String,
    /// Where that was read.
    pub read_from: String,
    /// Whether all its nodes were reached by this machine's own addresses.
    pub on_this_machine: bool,
}

/// Whether something is outlived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlived {
    /// It is.
    Yes,
    /// It would be if the nodes were on machines of their own, which they are not.
    IfApart,
    /// It is not.
    No,
    /// The engine does not report the setting that decides it.
    Unknown,
}

impl Outlived {
    /// The figure that stands for it in a table; none for what is unknown.
    pub fn figure(self) -> Option<f64> {
        match self {
            Self::Yes => Some(1.0),
            Self::IfApart => Some(0.5),
            Self::No => Some(0.0),
            Self::Unknown => None,
        }
    }
}

/// What an acknowledged record outlives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlives {
    /// The crash of one process: of the writer, or of one node.
    pub process: Outlived,
    /// The loss of one machine, with its disk.
    pub machine: Outlived,
    /// A power cut of all machines at once.
    pub power_cut: Outlived,
}

/// The promise of an engine.
pub fn outlives(facts: &EngineFacts) -> Outlives {
    let apart = if facts.on_this_machine { Outlived::IfApart } else { Outlived::Yes };
    Outlives {
        process: Outlived::Yes,
        machine: if facts.acknowledged_by >= 2 && !facts.laggard_may_lead { apart } else { Outlived::No },
        power_cut: match facts.policy {
            SyncPolicy::Before => Outlived::Yes,
            SyncPolicy::After => Outlived::No,
            SyncPolicy::Unknown => Outlived::Unknown,
        },
    }
}

pub(crate) fn outlives_here(durability: &Claim) -> Outlives {
    let from = |class| if durability.class >= class { Outlived::Yes } else { Outlived::No };
    Outlives {
        process: from(Durability::ProcessCrash),
        machine: Outlived::No,
        power_cut: from(Durability::PowerLoss),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_sys::durability::Promiser;

    fn facts(acknowledged_by: usize, policy: SyncPolicy, laggard: bool, here: bool) -> EngineFacts {
        EngineFacts {
            id: "engine".to_owned(),
            name: "engine".to_owned(),
            version: None,
            copies: 3,
            acknowledged_by,
            laggard_may_lead: laggard,
            policy,
            setting: String::new(),
            read_from: String::new(),
            on_this_machine: here,
        }
    }

    #[test]
    fn the_table_in_the_header_holds() {
        use Outlived::{IfApart, No, Unknown, Yes};
        let rows = [
            (facts(2, SyncPolicy::Before, false, false), [Yes, Yes, Yes]),
            (facts(2, SyncPolicy::Before, false, true), [Yes, IfApart, Yes]),
            (facts(2, SyncPolicy::After, false, false), [Yes, Yes, No]),
            (facts(2, SyncPolicy::After, true, false), [Yes, No, No]),
            (facts(1, SyncPolicy::Before, false, false), [Yes, No, Yes]),
            (facts(2, SyncPolicy::Unknown, false, true), [Yes, IfApart, Unknown]),
        ];
        for (facts, expected) in rows {
            let outlived = outlives(&facts);
            assert_eq!([outlived.process, outlived.machine, outlived.power_cut], expected, "{facts:?}");
        }
    }

    #[test]
    fn more_copies_an_earlier_sync_or_machines_of_their_own_never_weaken_a_promise() {
        let rank = |one: Outlived| one.figure().unwrap_or(-1.0);
        let ranks = |facts: &EngineFacts| {
            let outlived = outlives(facts);
            [outlived.process, outlived.machine, outlived.power_cut].map(rank)
        };
        for policy in SyncPolicy::ALL {
            for (laggard, here) in [(false, false), (false, true), (true, false), (true, true)] {
                for copies in 1..4 {
                    let less = ranks(&facts(copies, policy, laggard, here));
                    for more in [
                        facts(copies + 1, policy, laggard, here),
                        facts(copies, SyncPolicy::Before, laggard, here),
                        facts(copies, policy, false, here),
                        facts(copies, policy, laggard, false),
                    ] {
                        let ranks = ranks(&more);
                        assert!(less.iter().zip(&ranks).all(|(less, more)| less <= more), "{more:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn one_copy_never_outlives_its_machine_whatever_its_class() {
        for class in Durability::ALL {
            let durability = Claim { class, promised_by: Promiser::Device, because: Vec::new() };
            let outlived = outlives_here(&durability);
            assert_eq!(outlived.machine, Outlived::No);
            assert_eq!(outlived.power_cut == Outlived::Yes, class == Durability::PowerLoss);
        }
    }
}
