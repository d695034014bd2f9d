//! A descriptor for poll(2), epoll(7) and kqueue(2), which can be read once something has happened.
//!
//! It is a pipe: raising it writes one byte, unless one is there. So it says that something happened and not how often, and a read
//! of a few bytes takes that back.
//!
//! Invariants: raising never waits; what happens before it is raised is seen by who takes it back and then looks.

pub use crate::os::signal::Signal;

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::Signal;

    #[test]
    fn however_often_it_is_raised_one_read_takes_it_back() {
        let signal = Signal::new().expect("a pipe");
        assert!(signal.descriptor() > 2 && !signal.lower());
        // More often than a pipe has room for.
        (0..100_000).for_each(|_| signal.raise());
        assert!(signal.lower() && !signal.lower());
        signal.raise();
        assert!(signal.lower());
    }
}
