//! Waits before a run until background load, such as the build of this command, has settled, and says so.
//!
//! Invariant: a wait ends at the first signal, and writes nothing.

use crate::amounts;
use crate::exit::Failure;
use crate::signals::STOP;
use clap::Args;
use seawall_gauge::settle::{self, Busy, Settling, Step};
use seawall_sys::clock::{monotonic_ns, nanoseconds};
use seawall_sys::inspect::{self, Environment};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the machine is looked at; a signal is heard as late.
const EVERY: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
pub(crate) struct Settle {
    /// Wait up to TIME for background load to settle, such as that of a build; 0 begins at once [default: 30s before runs of 10 s or more, otherwise 0]
    #[arg(long, global = true, value_name = "TIME", value_parser = amounts::time, help_heading = "How much")]
    settle: Option<Duration>,
}

impl Settle {
    pub(crate) fn is_asked(&self) -> bool {
        self.settle.is_some()
    }

    /// Waits if needed, before a run of `run_ns` if it is timed; the result states what was found last.
    pub(crate) fn before(
        &self,
        run_ns: Option<u64>,
        environment: &mut Environment,
        quiet: bool,
    ) -> Result<(), Failure> {
        let limit_ns = settle::limit_ns(self.settle.map(nanoseconds), run_ns);
        if limit_ns == 0 {
            return Ok(());
        }
        let mut settling = Settling::new(monotonic_ns(), limit_ns);
        let mut said = false;
        loop {
            environment.pressure = inspect::pressure();
            let busy = Busy::of(&environment.pressure, environment.cpus);
            match settling.look(monotonic_ns(), busy) {
                Step::Quiet => return Ok(()),
                Step::StaysBusy(busy) => {
                    if !quiet {
                        tell!("The machine stays busy; the run begins all the same: {busy}.");
                    }
                    return Ok(());
                }
                Step::Wait => {
                    if let Some(busy) = busy.filter(|_| !said && !quiet) {
                        tell!("{}", settle::announcement(busy, limit_ns));
                    }
                    said = true;
                    std::thread::sleep(EVERY);
                    if STOP.load(Ordering::Relaxed) {
                        return Err(Failure::Interrupted);
                    }
                }
            }
        }
    }
}
