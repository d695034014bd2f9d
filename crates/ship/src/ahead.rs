//! Decides how many objects are read at once: more with each that arrives, as far as memory allows.
//!
//! ```text
//!   read at once:  1  2  4  8 … 32      doubled with each object that came
//!                  └─ bounded by memory / the largest object that came
//! ```
//!
//! It begins with one, so that a look for news that are not there, as a standby's each second, stays one request.
//!
//! Invariant: what is read and not yet visited takes no more than the memory, but for one object.

/// Objects that are read at once, at most.
const AT_ONCE_MAX: usize = 32;

/// How many objects are read at once.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    memory_bytes: usize,
    at_once: usize,
    largest: usize,
}

impl Ahead {
    /// Within so much memory.
    #[must_use]
    pub fn within(memory_bytes: usize) -> Self {
        Self { memory_bytes, at_once: 1, largest: 1 }
    }

    /// How many may be read at once now.
    #[must_use]
    pub fn at_once(&self) -> usize {
        self.at_once.min(self.memory_bytes / self.largest).max(1)
    }

    /// An object of this many bytes came.
    pub fn came(&mut self, bytes: usize) {
        self.largest = self.largest.max(bytes);
        self.at_once = (self.at_once * 2).min(AT_ONCE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::{AT_ONCE_MAX, Ahead};

    #[test]
    fn it_grows_while_objects_come_and_stays_within_the_memory() {
        let mut ahead = Ahead::within(32 << 20);
        let small: Vec<usize> = (0..8)
            .map(|_| {
                let now = ahead.at_once();
                ahead.came(1000);
                now
            })
            .collect();
        assert_eq!(small, [1, 2, 4, 8, 16, AT_ONCE_MAX, AT_ONCE_MAX, AT_ONCE_MAX]);
        ahead.came(8 << 20);
        assert_eq!(ahead.at_once(), 4);
        ahead.came(256 << 20);
        assert_eq!(ahead.at_once(), 1, "one that is larger than the memory is read alone");
    }
}
