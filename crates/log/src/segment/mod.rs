//! Segments as files: which exist, and how they are prepared, recycled and removed.
//!
//! * [`inventory`] lists started and spare segments and decides what is done next;
//! * [`lifecycle`] does it, one crash-safe step at a time.
//!
//! Invariants: a name that ends in `.seg` stands for a file whose blocks are all written and synced; segments go oldest
//! first, and only when a first LSN behind them is durable.

pub(crate) mod inventory;
pub(crate) mod lifecycle;
