//! Reads records: inside the writing process, and from any other.
//!
//! In reading order:
//!
//! * [`scan`] validates batch after batch through large reads;
//! * [`segment_file`] reads parts of a segment through the page cache or past it, [`readahead`] does so on a thread;
//! * [`reader`] reads a log while this process writes it, [`index`] single records of it;
//! * [`time`] finds where the log was at a time;
//! * [`stream`] reads one stream, and [`rewrite`] copies forward what streams need of segments that should go;
//! * [`follower`] waits for more at its end, and [`follow_thread`] reads for those that are polled;
//! * [`pin`] holds trims back for readers that are slow, [`trim`] is the one way to move the first LSN, and [`retained`] does so by
//!   the log's own rules and as its streams let go;
//! * [`view`] reads a log without its lock, [`changes`] finds out whether it has changed since, and [`view_follower`] waits
//!   for more of it; [`view_stream`] reads and follows one stream so;
//! * [`sealed`] hands out the batches of a log as they lie on the disk, [`hold`] holds trims back for other processes.
//!
//! Invariants: nothing is handed out before its batch was checked by the full validity rule; nothing at or past the
//! durable LSN is ever shown.

pub(crate) mod changes;
pub(crate) mod follow_thread;
pub(crate) mod follower;
pub(crate) mod hold;
pub(crate) mod index;
pub(crate) mod pin;
pub(crate) mod readahead;
pub(crate) mod reader;
pub(crate) mod retained;
pub(crate) mod rewrite;
pub(crate) mod scan;
pub(crate) mod sealed;
pub(crate) mod segment_file;
pub(crate) mod stream;
pub(crate) mod time;
pub(crate) mod trim;
pub(crate) mod view;
pub(crate) mod view_follower;
pub(crate) mod view_stream;
