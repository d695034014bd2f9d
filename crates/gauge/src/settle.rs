//! Decides when a run begins on a busy machine: it waits while load is falling, not for steady load.
//!
//! ```text
//!   build ends ──► share of the last 10 s in which tasks waited: 95 %, 35 %, 13 %, 9 % ──► the run begins
//!   work goes on ─► 95 %, after 10 s still 93 % ──► the run begins at once, and its result says "busy"
//! ```
//!
//! Invariants: pure; what is busy here is what the finding `busy` says, in the same words; nothing is waited for longer than the limit.

use crate::figures::{duration_ns, plural};
use seawall_sys::inspect::Pressure;
use std::fmt;

/// How long is waited at most, unless another time is asked for, nanoseconds.
pub const LIMIT_NS: u64 = 30_000_000_000;
/// Runs that are shorter wait only if asked to, nanoseconds.
pub(crate) const RUN_NS_MIN: u64 = 10_000_000_000;
/// Within this time the figure must fall, nanoseconds.
const WINDOW_NS: u64 = 10_000_000_000;
/// The share that it must fall to within the window. An idle machine's load falls to 0.85, its share of waiting to 0.37.
const FALLS_TO: f64 = 0.9;

/// How the CPUs are at other work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Busy {
    /// Percent of the last ten seconds in which some task waited for a CPU.
    Waiting(f64),
    /// The load over a minute. It decides only where waiting is not reported, because it remembers for a minute what is over.
    Load(f64),
}

impl Busy {
    /// What the system reports of its CPUs, if that is more than a measurement bears.
    pub fn of(pressure: &Pressure, cpus: usize) -> Option<Self> {
        const WAITING_PERCENT_MAX: f64 = 10.0;
        match (pressure.waiting_percent_10s, pressure.load_1m) {
            (Some(waiting), _) => (waiting > WAITING_PERCENT_MAX).then_some(Self::Waiting(waiting)),
            (None, Some(load)) => (load > cpus as f64).then_some(Self::Load(load)),
            (None, None) => None,
        }
    }

    fn figure(self) -> f64 {
        match self {
            Self::Waiting(figure) | Self::Load(figure) => figure,
        }
    }

    /// In words, for the time before a run on `cpus` CPUs.
    pub fn words(self, cpus: usize) -> String {
        format!("{self}, on {}", plural(cpus as u64, "CPU", "CPUs"))
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(percent) => {
                write!(out, "tasks waited for a CPU in {percent:.0} % of the ten seconds before it")
            }
            Self::Load(load) => write!(out, "load was {load:.1}"),
        }
    }
}

/// How long to wait at most: what was asked for, or the default if the run is timed and long enough, nanoseconds.
pub fn limit_ns(asked_ns: Option<u64>, run_ns: Option<u64>) -> u64 {
    let long = run_ns.is_some_and(|run_ns| run_ns >= RUN_NS_MIN);
    asked_ns.unwrap_or(if long { LIMIT_NS } else { 0 })
}

/// What follows from looking at the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Look again in a moment.
    Wait,
    /// The machine is quiet: begin.
    Quiet,
    /// It is not, and waiting longer is of no use or not wanted: begin all the same.
    StaysBusy(Busy),
}

/// The wait before a run, on the caller's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settling {
    end_ns: u64,
    /// When the figure was last held against an earlier one, and what it was.
    compared: Option<(u64, f64)>,
}

impl Settling {
    /// A wait of at most `limit_ns` from now on.
    pub fn new(now_ns: u64, limit_ns: u64) -> Self {
        Self { end_ns: now_ns.saturating_add(limit_ns), compared: None }
    }

    /// The machine was looked at.
    pub fn look(&mut self, now_ns: u64, busy: Option<Busy>) -> Step {
        let Some(busy) = busy else { return Step::Quiet };
        let falls = match self.compared {
            Some((then_ns, _)) if now_ns.saturating_sub(then_ns) < WINDOW_NS => true,
            Some((_, before)) => {
                self.compared = Some((now_ns, busy.figure()));
                busy.figure() <= before * FALLS_TO
            }
            None => {
                self.compared = Some((now_ns, busy.figure()));
                true
            }
        };
        if falls && now_ns < self.end_ns { Step::Wait } else { Step::StaysBusy(busy) }
    }
}

/// What is said when a wait begins.
pub fn announcement(busy: Busy, limit_ns: u64) -> String {
    let now = match busy {
        Busy::Waiting(percent) => format!("tasks waited for a CPU in {percent:.0} % of the last ten seconds"),
        Busy::Load(load) => format!("load is {load:.1}"),
    };
    format!(
        "The machine was at other work: {now}. Waits while that falls, for {} at most; --settle 0 begins at once.",
        duration_ns(limit_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn pressure(waiting: Option<f64>, load: Option<f64>) -> Pressure {
        Pressure { load_1m: load, waiting_percent_10s: waiting, stolen_percent: None }
    }

    /// Looks once a second at a machine whose CPUs are waited for as `percent` says of each second.
    fn settle(limit_s: u64, percent: impl Fn(u64) -> f64) -> (u64, Step) {
        let mut settling = Settling::new(0, limit_s * SECOND);
        (0..=600)
            .map(|second| {
                let busy = Busy::of(&pressure(Some(percent(second)), Some(9.0)), 2);
                (second, settling.look(second * SECOND, busy))
            })
            .find(|(_, step)| *step != Step::Wait)
            .expect("a limit ends every wait")
    }

    /// What Linux reports of a machine that became idle: an average that forgets with a time constant of ten seconds.
    fn forgotten(from: f64, second: u64) -> f64 {
        from * (-(second as f64) / 10.0).exp()
    }

    #[test]
    fn what_is_over_is_waited_for_and_work_that_goes_on_is_told_after_one_window() {
        let (second, step) = settle(30, |second| forgotten(98.0, second));
        assert_eq!((second, step), (23, Step::Quiet), "behind a build");
        assert_eq!(settle(30, |_| 0.3), (0, Step::Quiet), "an idle machine begins at once");
        let (second, step) = settle(30, |second| 90.0 + (second % 3) as f64);
        assert!(second == 10 && matches!(step, Step::StaysBusy(_)), "{second} {step:?}");
        // A build that ends while it is waited for.
        let (second, step) = settle(60, |second| forgotten(98.0, second.saturating_sub(5)));
        assert_eq!((second, step), (28, Step::Quiet));
        let again = |second| if second < 15 { forgotten(98.0, second) } else { 80.0 };
        assert!(matches!(settle(60, again), (20, Step::StaysBusy(_))), "work that comes back");
    }

    #[test]
    fn the_limit_ends_a_wait_and_none_is_begun_without_one() {
        assert!(matches!(settle(12, |second| forgotten(98.0, second)), (12, Step::StaysBusy(_))));
        assert!(matches!(settle(0, |_| 50.0), (0, Step::StaysBusy(_))));
        assert_eq!(settle(0, |_| 1.0), (0, Step::Quiet));
        assert_eq!(limit_ns(None, Some(30 * SECOND)), LIMIT_NS);
        assert_eq!(limit_ns(None, Some(SECOND)), 0, "a short run does not wait longer than it takes");
        assert_eq!(limit_ns(None, None), 0, "a run by count may be of any length");
        assert_eq!(limit_ns(Some(5), None), 5);
        assert_eq!(limit_ns(Some(0), Some(30 * SECOND)), 0);
    }

    #[test]
    fn load_decides_only_where_waiting_is_not_reported() {
        assert_eq!(Busy::of(&pressure(Some(0.0), Some(7.0)), 2), None, "a build's load, remembered");
        assert_eq!(Busy::of(&pressure(None, Some(7.0)), 2), Some(Busy::Load(7.0)));
        assert_eq!(Busy::of(&pressure(None, Some(2.0)), 2), None);
        assert_eq!(Busy::of(&pressure(Some(43.0), None), 2), Some(Busy::Waiting(43.0)));
        assert_eq!(Busy::of(&Pressure::default(), 2), None);
        assert_eq!(Busy::Load(7.0).words(1), "load was 7.0, on 1 CPU");
        let said = announcement(Busy::Waiting(95.0), LIMIT_NS);
        assert!(said.contains("95 %") && said.contains("30") && said.contains("--settle 0"), "{said}");
    }
}
