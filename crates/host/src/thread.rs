//! Measures a thread's CPU time and its wait for a CPU, and pins it to one CPU.
//!
//! Invariant: a number that the system does not keep is `None`, never 0.

use crate::os;
use seawall_sys::Result;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// A thread's accounts at one moment. The difference of two is what happened between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Times {
    /// CPU time in user mode, nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Context switches because the thread waited for something; `None` where the system does not count them.
    pub voluntary_switches: Option<u64>,
    /// Context switches because another thread was given the CPU; `None` where the system does not count them.
    pub involuntary_switches: Option<u64>,
    /// Time ready to run but waiting for a CPU, nanoseconds; `None` where the system does not count it.
    pub wait_ns: Option<u64>,
}

impl Times {
    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            voluntary_switches: added(self.voluntary_switches, earlier.voluntary_switches),
            involuntary_switches: added(self.involuntary_switches, earlier.involuntary_switches),
            wait_ns: added(self.wait_ns, earlier.wait_ns),
        }
    }

    /// The sum of two threads' or two blocks' accounts.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            voluntary_switches: sum(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: sum(self.involuntary_switches, other.involuntary_switches),
            wait_ns: sum(self.wait_ns, other.wait_ns),
        }
    }
}

/// What was added between two readings, if the system keeps the number.
fn added(now: Option<u64>, earlier: Option<u64>) -> Option<u64> {
    now.zip(earlier).map(|(now, earlier)| now.saturating_sub(earlier))
}

/// The sum of two numbers, if the system keeps them.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.zip(b).map(|(a, b)| a + b)
}

/// Whether a thread was tied to a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum Pinned {
    /// The scheduler chooses its CPU.
    No,
    /// It stays on this CPU.
    To(usize),
}

/// The accounts of the thread that opened them.
pub struct Accounts(os::thread::RunQueue);

impl Accounts {
    /// Opens the calling thread's accounts. Read them in the same thread.
    #[must_use]
    pub fn open() -> Self {
        Self(os::thread::RunQueue::open())
    }

    /// All accounts, about a microsecond.
    #[must_use]
    pub fn times(&self) -> Times {
        Times { wait_ns: self.0.wait_ns(), ..os::thread::times() }
    }

    /// Only the time spent waiting for a CPU, nanoseconds.
    #[must_use]
    pub fn wait_ns(&self) -> Option<u64> {
        self.0.wait_ns()
    }
}

/// CPU time of the calling thread so far, user and kernel together, nanoseconds and without the steps of a tick where
/// the system can; `None` where it cannot.
#[must_use]
pub fn cpu_ns() -> Option<u64> {
    os::thread::cpu_ns()
}

/// CPU time of the whole process so far, user and kernel together, nanoseconds; `None` where the system does not
/// report it so finely.
#[must_use]
pub fn process_cpu_ns() -> Option<u64> {
    os::thread::process_cpu_ns()
}

/// Ties the calling thread to `cpu`, counted from 0.
///
/// # Errors
/// The system's, if there is no such CPU or it is not allowed.
pub fn pin(cpu: usize) -> Result<Pinned> {
    os::thread::pin(cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_up_in_the_accounts() {
        let accounts = Accounts::open();
        let before = accounts.times();
        let mut sum = 0_u64;
        while accounts.times().since(&before).user_ns + accounts.times().since(&before).system_ns < 20_000_000
        {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
        let spent = accounts.times().since(&before);
        assert!(spent.voluntary_switches.is_none_or(|switches| switches > 0), "{spent:?}");
    }

    #[test]
    fn the_cpu_clock_counts_work_and_not_sleep() {
        let Some(before) = cpu_ns() else { return };
        std::thread::sleep(std::time::Duration::from_millis(50));
        let slept = cpu_ns().expect("known before, known again") - before;
        assert!(slept < 50_000_000, "{slept} ns of CPU while asleep");
        let mut sum = 0_u64;
        while cpu_ns().expect("known") - before < 5_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error() {
        assert!(pin(1_000_000).is_err());
    }
}
