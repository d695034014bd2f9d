//! Defines a scene: program, commit method and disk behaviour of one recording.

use std::path::{Path, PathBuf};

use crate::directory_disk::Sabotage;
use crate::victim::{VictimKind, VictimOptions};

/// One recording to be made.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Scene {
    /// Where records and chance come from.
    #[arg(long)]
    pub(crate) seed: u64,
    /// How many of 1000 replies to writes and syncs are held back.
    #[arg(skip)]
    pub(crate) held_in_1000: u64,
    /// The commit method.
    #[arg(long, default_value = "direct+fdatasync")]
    pub(crate) method: String,
    /// Which program the victim is.
    #[arg(long, value_enum, default_value_t = VictimKind::Core)]
    pub(crate) engine: VictimKind,
    /// What the victim leaves out.
    #[arg(long, value_enum, default_value_t = Sabotage::None)]
    pub(crate) sabotage: Sabotage,
    /// Transactions.
    #[arg(long, default_value_t = 40)]
    pub(crate) transactions: u64,
}

impl Scene {
    pub(crate) fn honest(
        engine: VictimKind,
        method: &str,
        seed: u64,
        held_in_1000: u64,
        transactions: u64,
    ) -> Self {
        Self { seed, held_in_1000, method: method.to_owned(), engine, sabotage: Sabotage::None, transactions }
    }

    /// The options of a victim in `dir`.
    pub(crate) fn victim(&self, dir: &Path, marks: Option<PathBuf>) -> VictimOptions {
        VictimOptions {
            scene: self.clone(),
            plant: None,
            dir: dir.to_owned(),
            marks,
            life: self.engine.life(),
            start: 0,
            quiet: false,
            cached_reads: false,
        }
    }
}

impl std::fmt::Display for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.engine, self.method)?;
        if self.sabotage != Sabotage::None {
            write!(f, " {:?}", self.sabotage)?;
        }
        write!(f, ", {} of 1000 held back, seed {}", self.held_in_1000, self.seed)
    }
}
