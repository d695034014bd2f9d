//! Experiments' comparisons, no part of the tests: the gauge against other instruments, and against real databases.

pub(crate) mod fidelity;
pub(crate) mod observe;
mod rounds;

use seawall_sys::clock::monotonic_ns;
use std::time::Duration;

/// Above this the machine is at other work.
const BUSY_LOAD: f64 = 0.7;
/// How long the load of the builds before a measurement is waited out.
const REST_MAX: Duration = Duration::from_mins(4);

/// Waits until the load is low, at most for [`REST_MAX`], and prints it.
pub(crate) fn rest_and_print_load() {
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let busy = |load: &str| {
        load.split_whitespace()
            .next()
            .and_then(|load| load.parse().ok())
            .is_some_and(|load: f64| load > BUSY_LOAD)
    };
    let begun_ns = monotonic_ns();
    while busy(&load()) && Duration::from_nanos(monotonic_ns() - begun_ns) < REST_MAX {
        std::thread::sleep(Duration::from_secs(1));
    }
    let load = load();
    let first = load.split_whitespace().next().unwrap_or("unknown");
    let warning = if busy(&load) { ": this machine is BUSY, and the figures are not worth much" } else { "" };
    println!("load {first}{warning}");
}
