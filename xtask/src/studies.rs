//! Experiments' comparisons, no part of the tests: the gauge against other instruments, and against real databases.

pub(crate) mod fidelity;
pub(crate) mod observe;
mod rounds;

/// Prints how busy the machine is: other work on the CPUs is in every figure.
pub(crate) fn print_load() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown").to_owned();
    let busy = load.parse::<f64>().is_ok_and(|load| load > 0.7);
    println!(
        "load {load}{}",
        if busy { ": this machine is BUSY, and the figures are not worth much" } else { "" }
    );
}
