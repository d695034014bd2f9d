//! Selects the commit method of a log: which rows of the method table it may use, and which is the fastest here.
//!
//! In reading order:
//!
//! * [`ack_level`] is what a commit requests to outlive;
//! * [`eligible`] lists the rows that a log can drive and that reach a class;
//! * [`select`] finds the permitted rows, remembers the fastest and starts its engine;
//! * [`shared`] lets all logs of a process on one disk share one probe;
//! * [`relaxed`] finds the rows that write relaxed commits, and the row that syncs them;
//! * [`evidence`] holds the class against what the devices counted meanwhile;
//! * [`trial`] measures rows in interleaved rounds on a scratch file;
//! * [`probe`](mod@probe) is the public measurement for services at start-up.
//!
//! Invariant: what a row promises is computed from its calls and the surroundings by `seawall_sys::durability`, never
//! from its name.

pub(crate) mod ack_level;
pub(crate) mod eligible;
pub(crate) mod evidence;
pub(crate) mod probe;
pub(crate) mod relaxed;
pub(crate) mod select;
pub(crate) mod shared;
pub(crate) mod trial;
