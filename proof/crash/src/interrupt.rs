//! Records a request to stop (SIGINT or SIGTERM), so that loops end and mounts are released in order.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT and SIGTERM ask instead of killing.
pub(crate) fn listen() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| REQUESTED.store(true, Ordering::SeqCst))
}

/// Whether a signal came.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}
