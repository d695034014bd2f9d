//! Handles Ctrl-C: stops the run, so that it keeps its result and removes its journal.
//!
//! Invariant: the first signals only ask; from the third on the process ends at once, because a device that hangs
//! must not take the terminal with it, and then prints the journal's name.

use crate::exit::{Failure, INTERRUPTED};
use seawall_host::text::printable;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

static SIGNALS: AtomicU32 = AtomicU32::new(0);

/// Handles SIGINT, SIGTERM, SIGHUP and their Windows kin: each sets [`STOP`], then `heard` does the rest.
pub(crate) fn handle(mut heard: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    let handler = move || {
        STOP.store(true, Ordering::SeqCst);
        heard();
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::Message(format!("cannot take over the signals: {error}")))
}

pub(crate) fn listen() -> Result<(), Failure> {
    listen_and(|| {})
}

/// Stops a run at the first signal; `heard` is called at every one.
pub(crate) fn listen_and(mut heard: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    handle(move || {
        heard();
        if SIGNALS.fetch_add(1, Ordering::Relaxed) >= 2 {
            let id = std::process::id();
            for left in seawall_sys::scratch::remove_all() {
                tell!("\nremove {}", printable(&left.display().to_string()));
            }
            tell!(
                "\nended at once; in clusters that were named, remove the streams and topics named seawall-{id}-*"
            );
            std::process::exit(i32::from(INTERRUPTED));
        }
    })
}
