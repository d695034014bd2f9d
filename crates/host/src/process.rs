//! Reads what this process takes, memory, threads and descriptors; and sets how signals reach
//! it and what it starts.

use crate::os;
use std::process::Command;

/// What this process takes at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Memory that is resident, bytes.
    pub resident_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors, that of the question not counted.
    pub descriptors: u64,
}

impl Usage {
    /// What was taken since `earlier`; 0 where less is taken now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            resident_bytes: self.resident_bytes.saturating_sub(earlier.resident_bytes),
            threads: self.threads.saturating_sub(earlier.threads),
            descriptors: self.descriptors.saturating_sub(earlier.descriptors),
        }
    }
}

/// What this process takes now; `None` where the system does not report it.
#[must_use]
pub fn usage() -> Option<Usage> {
    os::process::usage()
}

/// Has a write beyond the limit on the size of files (`ulimit -f`) fail with an error, where it would otherwise end the
/// process by a signal and leave its files behind. To be called once, at the start.
pub fn outlive_the_file_size_limit() {
    os::process::outlive_the_file_size_limit();
}

/// Has the program that `command` starts outlive a Ctrl-C of this one's terminal, which goes to a whole group of processes.
pub fn shield_from_ctrl_c(command: &mut Command) {
    os::process::shield_from_ctrl_c(command);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_seen() {
        let before = usage().expect("reported");
        let files: Vec<_> = (0..500).map(|_| std::fs::File::open("/dev/null").expect("opens")).collect();
        let memory = vec![7_u8; 256 << 20];
        let taken = usage().expect("reported").since(&before);
        assert!(taken.descriptors >= 400 && taken.resident_bytes >= 128 << 20, "{taken:?}");
        assert!(before.threads >= 1);
        assert_eq!((files.len(), memory[1 << 20]), (500, 7));
    }
}
