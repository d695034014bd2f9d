//! Defines [`AckLevel`], what a commit requests to outlive before it is acknowledged.

use seawall_sys::durability::Durability;

/// What an acknowledged commit outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AckLevel {
    /// The end of the process.
    Process,
    /// A crash of the system.
    System,
    /// A power cut. At this level a log of any class starts segments, closes, and makes trims durable.
    Full,
}

impl AckLevel {
    /// Every level, weakest first.
    pub(crate) const ALL: [Self; 3] = [Self::Process, Self::System, Self::Full];
    /// The levels below the strictest, weakest first.
    pub(crate) const RELAXED: [Self; 2] = [Self::Process, Self::System];

    /// The level of a log that promises `class`.
    pub(crate) const fn of(class: Durability) -> Self {
        match class {
            Durability::ProcessCrash => Self::Process,
            Durability::SystemCrash => Self::System,
            Durability::PowerLoss => Self::Full,
        }
    }

    /// The class that a commit at this level outlives.
    pub(crate) const fn class(self) -> Durability {
        match self {
            Self::Process => Durability::ProcessCrash,
            Self::System => Durability::SystemCrash,
            Self::Full => Durability::PowerLoss,
        }
    }
}
