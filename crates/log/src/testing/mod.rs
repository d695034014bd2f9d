//! Tests the log's promises: the judge of every crash test, the simulated disk, the orders of threads.
//!
//! * `oracle` judges whether a recovered log kept its promises (feature `oracle`);
//! * `sim` runs the log on a simulated disk that loses, tears, reorders and fails (feature `simulation`);
//! * `loom_scenes` runs group commit in every order of its threads, over the file-less segment writers of
//!   `loom_writers`, and followers over the page of `loom_page` (`--cfg loom`);
//! * `read_counts` counts what `verify` reads;
//! * `mutant` says of each planted bug how it is found, `wrong` does what is wrong (feature `mutants`);
//! * `fixtures` builds what unit tests share.
//!
//! Invariant: no module of the log's own depends on anything here, but for a planted bug.

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(all(test, loom))]
mod loom_page;
#[cfg(all(test, loom))]
mod loom_scenes;
#[cfg(feature = "mutants")]
pub mod mutant;
#[cfg(feature = "oracle")]
pub mod oracle;
#[cfg(all(test, feature = "simulation", not(loom)))]
mod read_counts;
#[cfg(feature = "simulation")]
pub mod sim;
#[cfg(feature = "mutants")]
pub(crate) mod wrong;
