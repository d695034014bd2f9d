//! Defines [`AckLevel`], what a commit requests to outlive before it is acknowledged.

use seawall_sys::durability::Class;

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
    pub(crate) const fn of(class: Class) -> Self {
        match class {
            Class::ProcessCrash => Self::Process,
            Class::SystemCrash => Self::System,
            Class::PowerLoss => Self::Full,
        }
    }

    /// The class that a commit at this level outlives.
    pub(crate) const fn class(self) -> Class {
        match self {
            Self::Process => Class::ProcessCrash,
            Self::System => Class::SystemCrash,
            Self::Full => Class::PowerLoss,
        }
    }
}
