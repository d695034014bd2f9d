//! Lists the logs that are measured, one row each, and opens them.
//!
//! Each is configured for speed with full durability: preallocated and reused space, segments of one size, every
//! commit durable before it returns. `cargo xtask peers` counts each row's system calls and measures nothing if one
//! of them does not sync.

use std::path::Path;

use crate::measure::Fault;
use crate::{floor, okaywal, raft_engine, sqlite, this_log};

/// Size of a segment of every log that has segments: what Seawall has unless told otherwise.
pub(crate) const SEGMENT_BYTES: u32 = 32 << 20;

/// What one thread commits through.
pub(crate) trait Writer: Send {
    /// Returns once `record` is durable.
    fn commit(&mut self, record: &[u8]) -> Result<(), Fault>;

    /// Lets go of what was committed, as a user does who has a checkpoint. Called between slices, and not timed.
    fn tidy(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

/// A row's writers, one for each thread.
pub(crate) type Writers = Vec<Box<dyn Writer>>;

/// How a row goes with workloads of several threads.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Crowd {
    /// It runs with as many.
    Shares,
    /// It has one thread all the same: it stands for the disk.
    StaysAlone,
    /// It has one writer at a time by design and is left out, which the table says.
    HasNone,
}

/// One row.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// Its package in `Cargo.lock`, where the version is read; empty if it is code of this program.
    pub(crate) package: &'static str,
    /// How it is set up.
    pub(crate) set_up: &'static str,
    pub(crate) crowd: Crowd,
    /// Opens it in an empty folder, for so many threads with records of so many bytes; gives a writer for each.
    pub(crate) open: fn(&Path, usize, usize) -> Result<Writers, Fault>,
}

/// All of them; the first one is what the others are held against.
pub(crate) const SUBJECTS: [Subject; 5] = [
    Subject {
        name: "floor",
        package: "",
        set_up: "one thread, writes of 4 KiB or a multiple, O_DIRECT and O_DSYNC, into a file of 64 MiB that was filled before",
        crowd: Crowd::StaysAlone,
        open: floor::open,
    },
    Subject {
        name: "seawall",
        package: "seawall",
        set_up: "as it comes, by the floor's commit method; trimmed between slices",
        crowd: Crowd::Shares,
        open: this_log::open,
    },
    Subject {
        name: "okaywal",
        package: "okaywal",
        set_up: "segments of 32 MiB, a buffer of 64 KiB; checkpoints itself at three quarters of a segment",
        crowd: Crowd::Shares,
        open: okaywal::open,
    },
    Subject {
        name: "raft-engine",
        package: "raft-engine",
        set_up: "a raft group for each thread, files of 32 MiB, filled and recycled, no compression; compacted and purged between slices",
        crowd: Crowd::Shares,
        open: raft_engine::open,
    },
    Subject {
        name: "sqlite",
        package: "rusqlite",
        set_up: "the SQLite that comes with rusqlite: journal_mode=WAL, synchronous=FULL, an INSERT each; emptied and checkpointed between slices",
        crowd: Crowd::HasNone,
        open: sqlite::open,
    },
];

/// The row of this name.
pub(crate) fn find(name: &str) -> Result<&'static Subject, Fault> {
    SUBJECTS.iter().find(|subject| subject.name == name).ok_or_else(|| {
        let known: Vec<&str> = SUBJECTS.iter().map(|subject| subject.name).collect();
        format!("there is no row `{name}`; there are: {}", known.join(", ")).into()
    })
}

/// The version of a package, as this program was built with it.
pub(crate) fn version(package: &str) -> Option<&'static str> {
    let lock = include_str!("../Cargo.lock");
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{package}\""));
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::{SUBJECTS, find, version};

    #[test]
    fn rows_are_unique_and_their_versions_are_known() {
        for (index, subject) in SUBJECTS.iter().enumerate() {
            assert!(SUBJECTS[..index].iter().all(|other| other.name != subject.name), "{}", subject.name);
            let known = version(subject.package).is_some_and(|version| version.contains('.'));
            assert_eq!(known, !subject.package.is_empty(), "{}", subject.name);
        }
        assert!(find("nobody").is_err_and(|told| told.to_string().contains("raft-engine")));
    }
}
