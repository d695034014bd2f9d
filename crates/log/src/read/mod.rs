//! Reads records: inside the writing process, and from any other.
//!
//! In reading order:
//!
//! * [`scan`] validates batch after batch through large reads;
//! * [`segment_file`] reads parts of a segment through the page cache or past it, [`readahead`] does so on a thread;
//! * [`reader`] reads a log while this process writes it, [`index`] single records of it;
//! * [`pin`] holds trims back for readers that are slow;
//! * [`view`] reads a log without its lock, [`changes`] finds out whether it has changed since, and [`view_follower`] waits
//!   for more of it.
//!
//! Invariants: nothing is handed out before its batch was checked by the full validity rule; nothing at or past the
//! durable LSN is ever shown.

pub(crate) mod changes;
pub(crate) mod index;
pub(crate) mod pin;
pub(crate) mod readahead;
pub(crate) mod reader;
pub(crate) mod scan;
pub(crate) mod segment_file;
pub(crate) mod view;
pub(crate) mod view_follower;
