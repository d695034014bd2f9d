//! Tests that judge simulated disks by the thousand, and the mistakes made on purpose.
#![cfg(feature = "simulation")]

mod campaign;
mod forged;
#[cfg(feature = "mutants")]
mod mutants;
