//! Lists the rows of the `log` scenario: each workload of the log, and the plain loops that it is compared with.
//!
//! A group holds a *floor* and the workloads that are compared with it. The floor puts new bytes into a buffer and
//! writes it, by the log's commit method, into a zero-filled file: the least that any log must do. The *bare* loop
//! writes the same buffer again and again, as disks are often measured; the difference between the two is the cost of
//! handing changed memory to the disk, which no log can avoid. What stays in memory is compared with a plain copy into
//! memory as fresh as the log's, reading with a plain read of the log's files.
//!
//! Goals are this project's for its log, figures by the keys of the table's columns; they do not judge the disk.

use super::contest::{BARE, Contestant, FLOOR, GROWING, PACED, SEAWALL};

/// What a block of a row does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// So many threads commit, each waiting for its commit.
    Waiting(usize),
    /// One thread keeps so many commits outstanding, and waits for the oldest only when it has as many.
    Outstanding {
        /// How many.
        commits: usize,
        /// Whether it polls them as futures.
        polled: bool,
    },
    /// One thread commits transactions of so many records.
    Transactions(usize),
    /// Appends into memory alone, or copies there without a log.
    Append {
        /// Whether there is a log.
        log: bool,
    },
    /// Commits that outlive the process only, or buffered writes without a log.
    Outlive {
        /// Whether there is a log.
        log: bool,
        /// Whether its memory holds a whole block, so that it never waits for the disk.
        fits: bool,
    },
    /// Opens a log and reads its records, or reads its files without one.
    ReadBack {
        /// Whether there is a log.
        log: bool,
        /// Whether the files are out of the page cache.
        cold: bool,
    },
    /// Appends at a steady pace while another thread commits.
    Paced,
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    /// As on the command line; those of floors begin with what they are.
    pub(crate) id: &'static str,
    /// Its heading in the table.
    pub(crate) label: &'static str,
    /// What it does.
    pub(crate) what: &'static str,
    /// The rows that it stands among, the floor first.
    pub(crate) group: &'static str,
    pub(crate) work: Work,
    /// What commits.
    pub(crate) by: &'static Contestant,
    /// Bytes of a commit, an append or all that is read.
    pub(crate) bytes: usize,
    /// Whether it is compared by bytes, not by operations.
    pub(crate) by_bytes: bool,
    /// Keys of columns and what is to be reached.
    pub(crate) goals: &'static [(&'static str, f64)],
}

impl Workload {
    /// Whether others are compared with it.
    pub(crate) fn is_floor(&self) -> bool {
        self.id.starts_with("floor") || self.is_bare()
    }

    pub(crate) fn is_bare(&self) -> bool {
        self.id.starts_with("bare")
    }
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Bytes of the records that are read back, and how many there are.
pub(crate) const READ_RECORD_BYTES: usize = KIB;
pub(crate) const READ_RECORDS: u64 = 1 << 20;
const READ_BYTES: usize = READ_RECORD_BYTES << 20;

const OF_16: &str = "16 KiB a write, one thread waits";
const OF_4: &str = "4 KiB a write, records of 256 B to 1 KiB";
const OF_1024: &str = "1 MiB a write, by bytes";
const OF_100: &str = "100 KiB a write, 100 records of 1 KiB";
const MEMORY: &str = "256 B into memory";
const PROCESS: &str = "256 B that outlive the process only";
const CACHED: &str = "open and read 1 GiB, cached";
const COLD: &str = "open and read 1 GiB, cold";
const PACE: &str = "200,000 appends/s of 256 B beside commits";

const NEW: &str = "a plain loop of durable writes, each of new bytes";
const SAME: &str = "the same loop with a buffer that never changes";

const ONE: Work = Work::Waiting(1);
const FAST: &[(&str, f64)] = &[("vs_floor", 30.0)];

macro_rules! workloads {
    ($($id:literal $label:literal $group:ident $bytes:expr, $by:ident $work:expr, $what:expr, $goals:expr;)*) => {
        &[$(Workload {
            id: $id, label: $label, what: $what, group: $group, work: $work, by: &$by, bytes: $bytes,
            by_bytes: matches!($work, Work::Outstanding { commits: 512, .. } | Work::ReadBack { .. }) || $bytes == MIB,
            goals: $goals,
        }),*]
    };
}

/// All of them, each group with its floors first.
#[rustfmt::skip]
pub(crate) const WORKLOADS: &[Workload] = workloads! {
    "floor-16k"  "floor"          OF_16 16 * KIB,  FLOOR   ONE, NEW, &[];
    "bare-16k"   "bare"           OF_16 16 * KIB,  BARE    ONE, SAME, &[];
    "W1"         "W1"             OF_16 16 * KIB,  SEAWALL ONE, "1 writer, 16 KiB, each committed", &[("vs_floor", 0.95), ("p999_vs_floor", 1.0)];
    "W1g"        "W1g grows"      OF_16 16 * KIB,  GROWING ONE, "the same, nothing ever trimmed", &[];
    "floor-4k"   "floor"          OF_4  4 * KIB,   FLOOR   ONE, NEW, &[];
    "bare-4k"    "bare"           OF_4  4 * KIB,   BARE    ONE, SAME, &[];
    "W2"         "W2 1 writer"    OF_4  256,       SEAWALL ONE, "1 writer, 256 B, each committed", &[("vs_floor", 0.95)];
    "W3"         "W3 16 writers"  OF_4  256,       SEAWALL Work::Waiting(16), "16 threads, 256 B, each waits", &[("vs_floor", 6.5)];
    "W4"         "W4 64 writers"  OF_4  KIB,       SEAWALL Work::Waiting(64), "64 threads, 1 KiB, each waits", &[("vs_floor", 11.0), ("cpu_per_operation_ns", 9000.0)];
    "W4a"        "W4a 64 pending" OF_4  KIB,       SEAWALL Work::Outstanding { commits: 64, polled: false }, "1 thread, 64 outstanding, 1 KiB", FAST;
    "W4p"        "W4p 64 polled"  OF_4  KIB,       SEAWALL Work::Outstanding { commits: 64, polled: true }, "the same, by polled futures", FAST;
    "floor-1m"   "floor"          OF_1024 MIB,     FLOOR   ONE, NEW, &[];
    "bare-1m"    "bare"           OF_1024 MIB,     BARE    ONE, SAME, &[];
    "W4b"        "W4b 512 pending" OF_1024 KIB,    SEAWALL Work::Outstanding { commits: 512, polled: false }, "1 thread, 512 outstanding, 1 KiB", &[("vs_floor", 0.85)];
    "floor-100k" "floor"          OF_100 100 * KIB, FLOOR  ONE, NEW, &[];
    "bare-100k"  "bare"           OF_100 100 * KIB, BARE   ONE, SAME, &[];
    "W5"         "W5"             OF_100 100 * KIB, SEAWALL Work::Transactions(100), "transactions of 100 x 1 KiB", &[("vs_floor", 0.95)];
    "W5g"        "W5g grows"      OF_100 100 * KIB, GROWING Work::Transactions(100), "the same, nothing ever trimmed", &[];
    "floor-copy" "floor: copy"    MEMORY 256,      FLOOR   Work::Append { log: false }, "a plain copy into fresh memory", &[];
    "W6"         "W6 append"      MEMORY 256,      SEAWALL Work::Append { log: true }, "append only, 256 B, into memory", &[("per_s", 5e6), ("commit_p99_ns", 200.0)];
    "floor-write" "floor: write"  PROCESS 256,     FLOOR   Work::Outlive { log: false, fits: true }, "a plain buffered write of the same bytes", &[];
    "W13"        "W13"            PROCESS 256,     SEAWALL Work::Outlive { log: true, fits: true }, "commits that outlive the process only, 256 B, one thread", &[("per_s", 5e6), ("commit_p99_ns", 300.0)];
    "W13d"       "W13d"           PROCESS 256,     SEAWALL Work::Outlive { log: true, fits: false }, "the same as it comes: the disk keeps up, or it waits", &[];
    "floor-read" "floor: read"    CACHED READ_BYTES, FLOOR Work::ReadBack { log: false, cold: false }, "a plain read of the same files", &[];
    "W7"         "W7"             CACHED READ_BYTES, SEAWALL Work::ReadBack { log: true, cold: false }, "open, read back, page cache", &[("bytes_per_s", 4e9)];
    "floor-cold" "floor: read"    COLD READ_BYTES, FLOOR   Work::ReadBack { log: false, cold: true }, "a plain read of the same files", &[];
    "W7c"        "W7c"            COLD READ_BYTES, SEAWALL Work::ReadBack { log: true, cold: true }, "open, read back, cold cache", &[("vs_floor", 0.9)];
    "W8"         "W8"             PACE 256,        PACED   Work::Paced, "paced appends while commits run", &[("commit_p99_9_ns", 20_000.0)];
};

/// The workloads of these names, with their floors.
pub(crate) fn names() -> Vec<&'static str> {
    WORKLOADS.iter().filter(|one| !one.is_floor()).map(|one| one.id).collect()
}

/// Those of these names, all if there are none, and the floors that they are compared with.
pub(crate) fn chosen(names: &[String]) -> Vec<&'static Workload> {
    let is_chosen =
        |one: &Workload| !one.is_floor() && (names.is_empty() || names.iter().any(|name| name == one.id));
    let floor_of_one =
        |floor: &Workload| WORKLOADS.iter().any(|one| is_chosen(one) && one.group == floor.group);
    WORKLOADS.iter().filter(|one| is_chosen(one) || (one.is_floor() && floor_of_one(one))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_each_group_begins_with_its_floor_or_has_none() {
        for (at, one) in WORKLOADS.iter().enumerate() {
            assert!(WORKLOADS[..at].iter().all(|other| other.id != one.id), "{}", one.id);
            let first = WORKLOADS.iter().find(|other| other.group == one.group).expect("itself");
            assert!(first.is_floor() || first.id == "W8", "{}", one.id);
            assert!(one.goals.is_empty() || !one.is_floor(), "{}", one.id);
            assert!(one.label.chars().count() <= 16, "{}", one.id);
        }
        assert_eq!(chosen(&[]).len(), WORKLOADS.len());
        let ids: Vec<&str> = chosen(&["W2".to_owned()]).iter().map(|one| one.id).collect();
        assert_eq!(ids, ["floor-4k", "bare-4k", "W2"]);
    }
}
