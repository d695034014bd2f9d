//! Prints a witness's lines for its operator: escaped, bounded in length and rate-limited.
//!
//! A line has no control characters; lines about unauthenticated connections are rate-limited by the minute.
//!
//! Otherwise a peer could write to the operator's terminal, forge lines of the witness, or fill the disk that its
//! output goes to.
//!
//! Invariant: nothing is dropped silently: lines over the limit are counted, and the count is printed.

use std::sync::{Mutex, PoisonError};

use seawall_sys::clock::monotonic_ns;
use seawall_sys::text::printable_cut;

/// Characters of a line; a text of the protocol has at most 400 bytes.
pub(crate) const LINE_CHARS_MAX: usize = 600;
/// Lines a minute about connections that have not proven to know the token.
pub(crate) const UNPROVEN_LINES_MAX: u64 = 20;
/// The minute, in nanoseconds.
const WINDOW_NS: u64 = 60_000_000_000;

/// Where lines go.
pub(crate) struct Lines {
    out: Box<dyn Fn(&str) + Send + Sync>,
    unproven: Mutex<Limit>,
}

/// How many lines a window lets through. Pure: the time is a parameter.
#[derive(Debug, Default)]
struct Limit {
    window_start_ns: u64,
    given: u64,
    left_out: u64,
}

impl Limit {
    /// Whether one more line is given at `now_ns`.
    fn take(&mut self, now_ns: u64) -> bool {
        if self.given < UNPROVEN_LINES_MAX {
            if self.given == 0 {
                self.window_start_ns = now_ns;
            }
            self.given += 1;
            return true;
        }
        self.left_out += 1;
        false
    }

    /// How many lines the window that has ended at `now_ns` left out, if one has.
    fn end(&mut self, now_ns: u64) -> Option<u64> {
        if self.given == 0 || now_ns.saturating_sub(self.window_start_ns) < WINDOW_NS {
            return None;
        }
        let left_out = self.left_out;
        *self = Self::default();
        (left_out > 0).then_some(left_out)
    }
}

impl Lines {
    pub(crate) fn new(out: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { out: Box::new(out), unproven: Mutex::default() }
    }

    /// Prints a line.
    pub(crate) fn print(&self, line: &str) {
        (self.out)(&printable_cut(line, LINE_CHARS_MAX));
    }

    /// Prints a line about a connection that has not proven to know the token, or counts it.
    pub(crate) fn print_unproven(&self, line: &str) {
        self.tick();
        let given = self.unproven.lock().unwrap_or_else(PoisonError::into_inner).take(monotonic_ns());
        if given {
            self.print(line);
        }
    }

    /// Prints how many lines were left out, once their minute is over.
    pub(crate) fn tick(&self) {
        let left_out = self.unproven.lock().unwrap_or_else(PoisonError::into_inner).end(monotonic_ns());
        if let Some(left_out) = left_out {
            self.print(&format!(
                "{left_out} more connections that did not prove to know the token in one minute"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn lines_about_unproven_connections_are_bounded_in_each_minute_and_the_rest_is_counted() {
        let mut limit = Limit::default();
        let given = (0..1000).filter(|at| limit.take(at * 1_000_000)).count() as u64;
        assert_eq!(
            (given, limit.end(59_999_999_999), limit.end(60_000_000_000)),
            (UNPROVEN_LINES_MAX, None, Some(980))
        );
        assert!(limit.take(61_000_000_000), "a new minute");
        assert_eq!(
            (limit.end(90_000_000_000), limit.end(121_000_000_000)),
            (None, None),
            "nothing was left out"
        );
    }

    #[test]
    fn a_line_is_one_line_of_bounded_length_without_control_characters() {
        let printed = Arc::<Mutex<Vec<String>>>::default();
        let out = Arc::clone(&printed);
        let lines = Lines::new(move |line: &str| out.lock().expect("is not poisoned").push(line.to_owned()));
        lines.print("a\u{1b}]52;c;eA==\u{7}\nrun 00 broke no promise\u{202e}");
        lines.print(&"x".repeat(100_000));
        let printed = printed.lock().expect("is not poisoned");
        assert_eq!(printed[0], "a\\u{1b}]52;c;eA==\\u{7}\\nrun 00 broke no promise\\u{202e}");
        assert!(printed[1].len() < LINE_CHARS_MAX + 40 && printed[1].contains("bytes more"));
    }
}
