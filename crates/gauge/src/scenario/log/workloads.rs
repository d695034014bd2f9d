//! Lists the rows of the `log` scenario: each workload of the log, and the plain loops that it is compared with.
//!
//! A group holds a *floor* and the workloads that are compared with it. The floor puts new bytes into a buffer and
//! writes it, by the log's commit method, into a zero-filled file: the least that any log must do. The *bare* loop
//! writes the same buffer again and again, as disks are often measured; the difference between the two is the cost of
//! handing changed memory to the disk, which no log can avoid. What stays in memory is compared with a plain copy into
//! memory as fresh as the log's, reading with a plain read of the log's files.
//!
//! Goals are this project's for its log, figures by the keys of the table's columns; they do not judge the disk.

use super::contest::{APART, BARE, Contestant, FLOOR, GROWING, PACED, SEAWALL};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// So many threads commit, each waiting for its commit.
    Waiting(usize),
    /// The same, each thread to its own streams in turn.
    Streams { threads: usize, streams: u32 },
    /// One thread keeps up to N commits outstanding and waits for the oldest only at N.
    Outstanding { commits: usize, polled: bool },
    /// One thread commits transactions of N records.
    Transactions(usize),
    /// Appends into memory alone, or copies there without a log.
    Append { log: bool },
    /// Commits that outlive the process only.
    Outlive(Outliving),
    /// Opens a log and reads its records, or reads its files without one.
    ReadBack {
        log: bool,
        /// Whether the files are out of the page cache.
        cold: bool,
    },
    /// Appends at a steady pace while another thread commits.
    Paced,
    /// Reads single records of a log at random, or blocks of its files without one.
    Points {
        by: PointsBy,
        /// Whether the files are out of the page cache.
        cold: bool,
    },
    /// A follower reads all that a log holds while a thread commits to it.
    CatchUp { cold: bool },
    /// Opens a log of many streams, or reads its files past the page cache without one.
    Open { log: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outliving {
    /// By a buffered write, without a log.
    Write,
    /// By `commit_as`, into memory.
    CommitAs {
        /// Whether that holds a whole block, so that it never waits for the disk.
        fits: bool,
    },
    /// The same in a log that was opened for no more.
    OpenedCommitAs,
    /// By `commit` of such a log, which readers of every process show.
    OpenedCommit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointsBy {
    /// Not at all: a block of 4 KiB somewhere in the same files is read.
    Offset,
    Lsn,
    Stream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    None,
    Row(&'static str),
    /// The fastest other log of its group.
    OtherLog,
}

impl Work {
    /// How many threads commit, each waiting for its commit, and to how many streams; `None` if it works otherwise.
    pub(crate) const fn waiting(self) -> Option<(usize, u32)> {
        match self {
            Self::Waiting(threads) => Some((threads, 0)),
            Self::Streams { threads, streams } => Some((threads, streams)),
            _ => None,
        }
    }

    pub(crate) const fn reads_all(self) -> bool {
        matches!(self, Self::ReadBack { .. } | Self::CatchUp { .. } | Self::Open { .. })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    /// As on the command line; those of floors begin with what they are.
    pub(crate) id: &'static str,
    pub(crate) label: &'static str,
    pub(crate) what: &'static str,
    /// The rows that it stands among, the floor first.
    pub(crate) group: &'static str,
    pub(crate) work: Work,
    pub(crate) by: &'static Contestant,
    /// Bytes of a commit, an append or all that is read.
    pub(crate) bytes: usize,
    pub(crate) by_bytes: bool,
    pub(crate) base: Base,
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

    /// Whether it runs only when it is named: it takes too long for a run of two minutes over all rows.
    pub(crate) fn is_heavy(&self) -> bool {
        matches!(self.work, Work::CatchUp { .. } | Work::Open { .. })
    }
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Bytes of the records that are read back; the settings say how many there are.
pub(crate) const READ_RECORD_BYTES: usize = KIB;

const OF_16: &str = "16 KiB a write, one thread waits";
const OF_4: &str = "4 KiB a write, records of 256 B to 1 KiB";
const OF_1024: &str = "1 MiB a write, by bytes";
const OF_100: &str = "100 KiB a write, 100 records of 1 KiB";
const MEMORY: &str = "256 B into memory";
const PROCESS: &str = "256 B that outlive the process only";
const CACHED: &str = "open and read a log, cached";
const COLD: &str = "open and read a log, cold";
const POINTS: &str = "1 KiB at random, cached";
const COLD_POINTS: &str = "1 KiB at random, cold";
const BEHIND: &str = "a follower catches up beside commits";
const OPEN: &str = "open a log of 10,000 streams, cold";
const PACE: &str = "200,000 appends/s of 256 B beside commits";

const NEW: &str = "a plain loop of durable writes, each of new bytes";
const SAME: &str = "the same loop with a buffer that never changes";

const ONE: Work = Work::Waiting(1);
const W9: Work = Work::Streams { threads: 64, streams: 1000 };
const W11: Work = Work::Streams { threads: 16, streams: 16 };
const CAUGHT_UP: &[(&str, f64)] = &[("vs_base", 0.8), ("p99_vs_alone", 1.2)];
/// A tenth of what as many logs take.
const SHARED: &[(&str, f64)] =
    &[("vs_base", 1.3), ("memory_vs_base", 0.1), ("threads_vs_base", 0.1), ("descriptors_vs_base", 0.1)];
const FAST: &[(&str, f64)] = &[("vs_floor", 30.0)];

macro_rules! workloads {
    (@base) => { Base::None };
    (@base $base:literal) => { Base::Row($base) };
    ($($id:literal $label:literal $group:ident $bytes:expr, $by:ident $work:expr, $what:expr, $goals:expr $(, of $base:literal)?;)*) => {
        &[$(Workload {
            id: $id, label: $label, what: $what, group: $group, work: $work, by: &$by, bytes: $bytes,
            by_bytes: matches!($work, Work::Outstanding { commits: 512, .. }) || $work.reads_all() || $bytes == MIB,
            base: workloads!(@base $($base)?),
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
    "W4c"        "W4c 256 writers" OF_4 256,       SEAWALL Work::Waiting(256), "256 threads, 256 B, each waits", &[];
    "W9"         "W9 1,000 streams" OF_4 KIB,      SEAWALL W9, "64 threads, each its own of 1,000 streams, 1 KiB, each waits", &[("vs_base", 0.95), ("memory_per_stream_bytes", 512.0)], of "W4";
    "W11s"       "W11s 16 logs"   OF_4  256,       APART   Work::Waiting(16), "16 threads, each its own log, 256 B, each waits", &[];
    "W11"        "W11 16 streams" OF_4  256,       SEAWALL W11, "16 threads, each its own stream of one log, 256 B, each waits", SHARED, of "W11s";
    "floor-1m"   "floor"          OF_1024 MIB,     FLOOR   ONE, NEW, &[];
    "bare-1m"    "bare"           OF_1024 MIB,     BARE    ONE, SAME, &[];
    "W4b"        "W4b 512 pending" OF_1024 KIB,    SEAWALL Work::Outstanding { commits: 512, polled: false }, "1 thread, 512 outstanding, 1 KiB", &[("vs_floor", 0.85)];
    "floor-100k" "floor"          OF_100 100 * KIB, FLOOR  ONE, NEW, &[];
    "bare-100k"  "bare"           OF_100 100 * KIB, BARE   ONE, SAME, &[];
    "W5"         "W5"             OF_100 100 * KIB, SEAWALL Work::Transactions(100), "transactions of 100 x 1 KiB", &[("vs_floor", 0.95)];
    "W5g"        "W5g grows"      OF_100 100 * KIB, GROWING Work::Transactions(100), "the same, nothing ever trimmed", &[];
    "floor-copy" "floor: copy"    MEMORY 256,      FLOOR   Work::Append { log: false }, "a plain copy into fresh memory", &[];
    "W6"         "W6 append"      MEMORY 256,      SEAWALL Work::Append { log: true }, "append only, 256 B, into memory", &[("per_s", 5e6), ("commit_p99_ns", 200.0)];
    "floor-write" "floor: write"  PROCESS 256,     FLOOR   Work::Outlive(Outliving::Write), "a plain buffered write of the same bytes", &[];
    "W13"        "W13"            PROCESS 256,     SEAWALL Work::Outlive(Outliving::CommitAs { fits: true }), "commits that outlive the process only, 256 B, one thread", &[("per_s", 5e6), ("commit_p99_ns", 300.0)];
    "W13d"       "W13d"           PROCESS 256,     SEAWALL Work::Outlive(Outliving::CommitAs { fits: false }), "the same as it comes: the disk keeps up, or it waits", &[];
    "W13p"       "W13p"           PROCESS 256,     SEAWALL Work::Outlive(Outliving::OpenedCommitAs), "as W13, in a log opened to outlive the process only", &[];
    "W13w"       "W13w"           PROCESS 256,     SEAWALL Work::Outlive(Outliving::OpenedCommit), "each commit of such a log, which readers of every process show", &[];
    "floor-read" "floor: read"    CACHED KIB, FLOOR Work::ReadBack { log: false, cold: false }, "a plain read of the same files", &[];
    "W7"         "W7"             CACHED KIB, SEAWALL Work::ReadBack { log: true, cold: false }, "open, read back, page cache", &[("bytes_per_s", 4e9)];
    "floor-cold" "floor: read"    COLD KIB, FLOOR   Work::ReadBack { log: false, cold: true }, "a plain read of the same files", &[];
    "W7c"        "W7c"            COLD KIB, SEAWALL Work::ReadBack { log: true, cold: true }, "open, read back, cold cache", &[("vs_floor", 0.9)];
    "floor-at"   "floor: read"    POINTS KIB,      FLOOR   Work::Points { by: PointsBy::Offset, cold: false }, "4 KiB of the same files at random", &[];
    "W10"        "W10 read_at"    POINTS KIB,      SEAWALL Work::Points { by: PointsBy::Lsn, cold: false }, "single records by LSN, page cache", &[("commit_p50_ns", 5e3), ("commit_p99_ns", 20e3)];
    "W10s"       "W10s stream"    POINTS KIB,      SEAWALL Work::Points { by: PointsBy::Stream, cold: false }, "single records by number in one of 10,000 streams, page cache", &[];
    "floor-at-cold" "floor: read" COLD_POINTS KIB, FLOOR   Work::Points { by: PointsBy::Offset, cold: true }, "4 KiB of the same files at random, past the page cache", &[];
    "W10c"       "W10c read_at"   COLD_POINTS KIB, SEAWALL Work::Points { by: PointsBy::Lsn, cold: true }, "single records by LSN, cold cache", &[("vs_floor", 0.77)];
    "W12"        "W12 catch up"   BEHIND KIB,      SEAWALL Work::CatchUp { cold: false }, "a follower from the start to the end, page cache", CAUGHT_UP, of "W7";
    "W12c"       "W12c catch up"  BEHIND KIB,      SEAWALL Work::CatchUp { cold: true }, "the same, cold cache", CAUGHT_UP, of "W7c";
    "floor-open" "floor: read"    OPEN KIB,        FLOOR   Work::Open { log: false }, "the same files in pieces of 1 MiB, past the page cache", &[];
    "open"       "open"           OPEN KIB,        SEAWALL Work::Open { log: true }, "open and close, nothing read by the user", &[("bytes_per_s", 1_073_741_824.0)];
    "W8"         "W8"             PACE 256,        PACED   Work::Paced, "paced appends while commits run", &[("commit_p99_9_ns", 20_000.0)];
};

/// The workloads of these names, with their floors.
pub(crate) fn names() -> Vec<&'static str> {
    WORKLOADS.iter().filter(|one| !one.is_floor()).map(|one| one.id).collect()
}

/// Those of these names, all but the heavy ones if there are none, and what they are compared with.
pub(crate) fn chosen(names: &[String]) -> Vec<&'static Workload> {
    let is_named = |one: &Workload| {
        !one.is_floor()
            && if names.is_empty() { !one.is_heavy() } else { names.iter().any(|name| name == one.id) }
    };
    let is_base =
        |base: &Workload| WORKLOADS.iter().any(|one| is_named(one) && one.base == Base::Row(base.id));
    let is_chosen = |one: &Workload| is_named(one) || is_base(one);
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
            assert!(first.is_floor() || ["W8", "W12"].contains(&first.id), "{}", one.id);
            assert!(one.goals.is_empty() || !one.is_floor(), "{}", one.id);
            assert!(one.label.chars().count() <= 16, "{}", one.id);
        }
        let ids = |names: &[&str]| -> Vec<&str> {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(&names).iter().map(|one| one.id).collect()
        };
        let left_out = WORKLOADS.iter().map(|one| one.id).filter(|id| !ids(&[]).contains(id));
        assert_eq!(left_out.collect::<Vec<_>>(), ["W12", "W12c", "floor-open", "open"]);
        assert_eq!(ids(&["W2"]), ["floor-4k", "bare-4k", "W2"]);
        assert_eq!(ids(&["W9"]), ["floor-4k", "bare-4k", "W4", "W9"], "with what it is compared with");
        assert_eq!(ids(&["W12c"]), ["floor-cold", "W7c", "W12c"]);
        assert_eq!(ids(&["open"]), ["floor-open", "open"]);
        let known = |one: &Workload| match one.base {
            Base::Row(id) => WORKLOADS.iter().any(|other| other.id == id && other.by_bytes == one.by_bytes),
            base => base == Base::None,
        };
        assert!(WORKLOADS.iter().all(known), "a base is a row");
    }
}
