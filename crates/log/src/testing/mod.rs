//! Tests the log's promises: the judge of every crash test, the simulated disk, the orders of threads.
//!
//! * [`oracle`] judges whether a recovered log kept its promises;
//! * `sim` runs the log on a simulated disk that loses, tears, reorders and fails (feature `simulation`);
//! * `loom_scenes` runs group commit in every order of its threads, over the file-less segment writers of
//!   `loom_writers` (`--cfg loom`);
//! * `read_counts` counts what `verify` reads.
//!
//! The bugs that are planted on purpose stand in `mutant.rs`.
//!
//! Invariant: no module of the log's own depends on anything here.

#[cfg(all(test, loom))]
mod loom_scenes;
#[cfg_attr(not(feature = "simulation"), doc(hidden))]
pub mod oracle;
#[cfg(all(test, not(loom)))]
mod read_counts;
#[cfg(feature = "simulation")]
pub mod sim;
