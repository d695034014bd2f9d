//! The table of commit methods: one row per method, for every system, compiled everywhere.
//!
//! The gauge and the log read the same rows, and [`crate::open`] runs them; [`here`] gives those of the system at
//! hand. Sources: the man pages named in the rows; the published experiments' programs for [`Set::Published`].
//!
//! Invariants (tested below): ids are unique within a system; every row is executable on its system; no row
//! reaches deeper than its calls; each system has its published rows and at least one durable row.

use crate::method::{
    Cache::{self, Buffered, Direct, NoCache},
    Method, NtFlush,
    OpenSync::{self, WriteThrough},
    RingPoll,
    Set::{self, Added, Published},
    Sync,
    System::{self, Illumos, Linux, MacOs, Windows},
    Write::{self, Flagged, Mapped, Overlapped, Positional},
    WriteFlag,
};

struct Row(&'static str, Cache, OpenSync, Write, Sync, Set, &'static str, &'static str);

const fn ring(flag: WriteFlag, registered: bool, poll: RingPoll) -> Write {
    Write::Ring { flag, registered, poll }
}

const fn rows<const N: usize>(system: System, rows: &[Row; N]) -> [Method; N] {
    let mut methods = [Method {
        id: "",
        system,
        cache: Buffered,
        open_sync: OpenSync::None,
        write: Positional,
        sync: Sync::None,
        set: Added,
        calls: "",
        since: "",
    }; N];
    let mut i = 0;
    while i < N {
        let Row(id, cache, open_sync, write, sync, set, calls, since) = rows[i];
        methods[i] = Method { id, system, cache, open_sync, write, sync, set, calls, since };
        i += 1;
    }
    methods
}

const NONE: OpenSync = OpenSync::None;
const DSYNC: OpenSync = OpenSync::Data;
const SYNC: OpenSync = OpenSync::Full;
const NO_FLAG: WriteFlag = WriteFlag::None;
const IRQ: RingPoll = RingPoll::Interrupt;

#[rustfmt::skip]
const LINUX: [Method; 30] = rows(Linux, &[
    //  id                          cache     open   write                                          sync                            set        calls                                             needs
    Row("buffered",                 Buffered, NONE,  Positional,                                    Sync::None,                     Published, "pwrite",                                         "any kernel"),
    Row("buffered+fsync",           Buffered, NONE,  Positional,                                    Sync::Fsync,                    Published, "pwrite, fsync",                                  "any kernel"),
    Row("buffered+fdatasync",       Buffered, NONE,  Positional,                                    Sync::Fdatasync,                Published, "pwrite, fdatasync",                              "any kernel"),
    Row("dsync",                    Buffered, DSYNC, Positional,                                    Sync::None,                     Published, "pwrite on O_DSYNC",                              "any kernel"),
    Row("direct",                   Direct,   NONE,  Positional,                                    Sync::None,                     Published, "pwrite on O_DIRECT",                             "a file system with O_DIRECT"),
    Row("direct+dsync",             Direct,   DSYNC, Positional,                                    Sync::None,                     Published, "pwrite on O_DIRECT|O_DSYNC",                     "a file system with O_DIRECT"),
    Row("buffered+syncfs",          Buffered, NONE,  Positional,                                    Sync::Syncfs,                   Added,     "pwrite, syncfs",                                 "Linux 2.6.39"),
    Row("sync",                     Buffered, SYNC,  Positional,                                    Sync::None,                     Added,     "pwrite on O_SYNC",                               "any kernel"),
    Row("rwf-dsync",                Buffered, NONE,  Flagged(WriteFlag::Dsync),                     Sync::None,                     Added,     "pwritev2(RWF_DSYNC)",                            "Linux 4.7"),
    Row("rwf-sync",                 Buffered, NONE,  Flagged(WriteFlag::Sync),                      Sync::None,                     Added,     "pwritev2(RWF_SYNC)",                             "Linux 4.7"),
    Row("direct+sync",              Direct,   SYNC,  Positional,                                    Sync::None,                     Added,     "pwrite on O_DIRECT|O_SYNC",                      "a file system with O_DIRECT"),
    Row("direct+fdatasync",         Direct,   NONE,  Positional,                                    Sync::Fdatasync,                Added,     "pwrite on O_DIRECT, fdatasync",                  "a file system with O_DIRECT"),
    Row("direct+fsync",             Direct,   NONE,  Positional,                                    Sync::Fsync,                    Added,     "pwrite on O_DIRECT, fsync",                      "a file system with O_DIRECT"),
    Row("direct+rwf-dsync",         Direct,   NONE,  Flagged(WriteFlag::Dsync),                     Sync::None,                     Added,     "pwritev2(RWF_DSYNC) on O_DIRECT",                "Linux 4.7, O_DIRECT"),
    Row("sync-file-range",          Buffered, NONE,  Positional,                                    Sync::SyncFileRange,            Added,     "pwrite, sync_file_range",                        "Linux 2.6.17"),
    Row("dontcache",                Buffered, NONE,  Flagged(WriteFlag::DontCache),                 Sync::None,                     Added,     "pwritev2(RWF_DONTCACHE)",                        "Linux 6.14, a file system with it"),
    Row("dontcache+fdatasync",      Buffered, NONE,  Flagged(WriteFlag::DontCache),                 Sync::Fdatasync,                Added,     "pwritev2(RWF_DONTCACHE), fdatasync",             "Linux 6.14, a file system with it"),
    Row("atomic+dsync",             Direct,   DSYNC, Flagged(WriteFlag::Atomic),                    Sync::None,                     Added,     "pwritev2(RWF_ATOMIC) on O_DIRECT|O_DSYNC",       "Linux 6.11, a device with atomic writes"),
    Row("mmap+msync",               Buffered, NONE,  Mapped,                                        Sync::Msync,                    Added,     "copy into a mapping, msync",                     "any kernel"),
    Row("fdatasync-other-thread",   Buffered, NONE,  Positional,                                    Sync::FdatasyncOtherThread,     Added,     "pwrite, fdatasync in another thread",            "any kernel"),
    Row("fdatasync-other-fd",       Buffered, NONE,  Positional,                                    Sync::FdatasyncOtherDescriptor, Added,     "pwrite, fdatasync on another descriptor",        "any kernel"),
    Row("uring+fdatasync",          Buffered, NONE,  ring(NO_FLAG, false, IRQ),                     Sync::RingFdatasync,            Added,     "io_uring write, then io_uring fdatasync",        "Linux 5.6, io_uring allowed"),
    Row("uring-linked",             Buffered, NONE,  ring(NO_FLAG, false, IRQ),                     Sync::RingLinkedFdatasync,      Added,     "io_uring write linked to fdatasync",             "Linux 5.6, io_uring allowed"),
    Row("uring-rwf-dsync",          Buffered, NONE,  ring(WriteFlag::Dsync, false, IRQ),            Sync::None,                     Added,     "io_uring write with RWF_DSYNC",                  "Linux 5.6, io_uring allowed"),
    Row("uring-direct+fdatasync",   Direct,   NONE,  ring(NO_FLAG, true, IRQ),                      Sync::RingFdatasync,            Added,     "io_uring fixed write on O_DIRECT, fdatasync",    "Linux 5.6, io_uring allowed, O_DIRECT"),
    Row("uring-direct-linked",      Direct,   NONE,  ring(NO_FLAG, true, IRQ),                      Sync::RingLinkedFdatasync,      Added,     "io_uring fixed write on O_DIRECT linked to fdatasync", "Linux 5.6, io_uring allowed, O_DIRECT"),
    Row("uring-direct-rwf-dsync",   Direct,   NONE,  ring(WriteFlag::Dsync, false, IRQ),            Sync::None,                     Added,     "io_uring write with RWF_DSYNC on O_DIRECT",      "Linux 5.6, io_uring allowed, O_DIRECT"),
    Row("uring-direct-fixed-dsync", Direct,   NONE,  ring(WriteFlag::Dsync, true, IRQ),             Sync::None,                     Added,     "io_uring fixed write with RWF_DSYNC on O_DIRECT","Linux 5.6, io_uring allowed, O_DIRECT"),
    Row("uring-direct-sqpoll",      Direct,   NONE,  ring(WriteFlag::Dsync, true, RingPoll::Submission), Sync::None,                Added,     "io_uring fixed write with RWF_DSYNC on O_DIRECT, SQPOLL", "Linux 5.11, io_uring allowed, O_DIRECT"),
    Row("uring-direct-iopoll",      Direct,   NONE,  ring(WriteFlag::Dsync, true, RingPoll::Completion), Sync::None,                Added,     "io_uring fixed write with RWF_DSYNC on O_DIRECT, IOPOLL",    "Linux 5.6, a device with poll queues"),
]);

#[rustfmt::skip]
const WINDOWS: [Method; 14] = rows(Windows, &[
    Row("buffered",                 Buffered, NONE,         Positional, Sync::None,                            Published, "WriteFile",                                            "any"),
    Row("buffered+flush",           Buffered, NONE,         Positional, Sync::FlushFileBuffers,                Published, "WriteFile, FlushFileBuffers",                          "any"),
    Row("write-through",            Buffered, WriteThrough, Positional, Sync::None,                            Published, "WriteFile on WRITE_THROUGH",                           "any"),
    Row("no-buffering",             Direct,   NONE,         Positional, Sync::None,                            Published, "WriteFile on NO_BUFFERING",                            "any"),
    Row("no-buffering+write-through", Direct, WriteThrough, Positional, Sync::None,                            Published, "WriteFile on NO_BUFFERING|WRITE_THROUGH",              "any"),
    Row("no-buffering+flush",       Direct,   NONE,         Positional, Sync::FlushFileBuffers,                Added,     "WriteFile on NO_BUFFERING, FlushFileBuffers",          "any"),
    Row("nt-flush",                 Buffered, NONE,         Positional, Sync::NtFlush(NtFlush::Normal),        Added,     "WriteFile, NtFlushBuffersFileEx(0)",                   "Windows 8"),
    Row("nt-flush-data-sync",       Buffered, NONE,         Positional, Sync::NtFlush(NtFlush::DataSyncOnly),  Added,     "WriteFile, NtFlushBuffersFileEx(DATA_SYNC_ONLY)",      "Windows 10 1709, NTFS"),
    Row("nt-flush-data-only",       Buffered, NONE,         Positional, Sync::NtFlush(NtFlush::DataOnly),      Added,     "WriteFile, NtFlushBuffersFileEx(DATA_ONLY)",           "Windows 8"),
    Row("nt-flush-no-sync",         Buffered, NONE,         Positional, Sync::NtFlush(NtFlush::NoSync),        Added,     "WriteFile, NtFlushBuffersFileEx(NO_SYNC)",             "Windows 8"),
    Row("no-buffering+nt-flush-data-sync", Direct, NONE,    Positional, Sync::NtFlush(NtFlush::DataSyncOnly),  Added,     "WriteFile on NO_BUFFERING, NtFlushBuffersFileEx(DATA_SYNC_ONLY)", "Windows 10 1709, NTFS"),
    Row("mapped+flush",             Buffered, NONE,         Mapped,     Sync::FlushFileBuffers,                Added,     "copy into a mapping, FlushViewOfFile, FlushFileBuffers", "any"),
    Row("overlapped+flush",         Direct,   NONE,         Overlapped, Sync::FlushFileBuffers,                Added,     "overlapped WriteFile on NO_BUFFERING, FlushFileBuffers", "any"),
    Row("overlapped+write-through", Direct,   WriteThrough, Overlapped, Sync::None,                            Added,     "overlapped WriteFile on NO_BUFFERING|WRITE_THROUGH",   "any"),
]);

#[rustfmt::skip]
const MACOS: [Method; 8] = rows(MacOs, &[
    Row("buffered",                 Buffered, NONE, Positional, Sync::None,         Published, "pwrite",                              "any"),
    Row("buffered+fsync",           Buffered, NONE, Positional, Sync::Fsync,        Published, "pwrite, fsync",                       "any"),
    Row("buffered+barrier",         Buffered, NONE, Positional, Sync::BarrierFsync, Added,     "pwrite, fcntl(F_BARRIERFSYNC)",       "macOS 10.14, APFS"),
    Row("buffered+fullfsync",       Buffered, NONE, Positional, Sync::FullFsync,    Added,     "pwrite, fcntl(F_FULLFSYNC)",          "any"),
    Row("nocache",                  NoCache,  NONE, Positional, Sync::None,         Added,     "pwrite under F_NOCACHE",              "any"),
    Row("nocache+fsync",            NoCache,  NONE, Positional, Sync::Fsync,        Added,     "pwrite under F_NOCACHE, fsync",       "any"),
    Row("nocache+barrier",          NoCache,  NONE, Positional, Sync::BarrierFsync, Added,     "pwrite under F_NOCACHE, F_BARRIERFSYNC", "macOS 10.14, APFS"),
    Row("nocache+fullfsync",        NoCache,  NONE, Positional, Sync::FullFsync,    Added,     "pwrite under F_NOCACHE, F_FULLFSYNC", "any"),
]);

#[rustfmt::skip]
const ILLUMOS: [Method; 5] = rows(Illumos, &[
    Row("buffered",                 Buffered, NONE,  Positional, Sync::None,      Published, "pwrite",            "any"),
    Row("buffered+fsync",           Buffered, NONE,  Positional, Sync::Fsync,     Published, "pwrite, fsync",     "any"),
    Row("buffered+fdatasync",       Buffered, NONE,  Positional, Sync::Fdatasync, Published, "pwrite, fdatasync", "any"),
    Row("dsync",                    Buffered, DSYNC, Positional, Sync::None,      Published, "pwrite on O_DSYNC", "any"),
    Row("sync",                     Buffered, SYNC,  Positional, Sync::None,      Added,     "pwrite on O_SYNC",  "any"),
]);

/// Every method of every system.
pub const ALL: [&[Method]; 4] = [&LINUX, &WINDOWS, &MACOS, &ILLUMOS];

/// The methods of `system`, in table order.
#[must_use]
pub const fn of(system: System) -> &'static [Method] {
    match system {
        Linux => &LINUX,
        Windows => &WINDOWS,
        MacOs => &MACOS,
        Illumos => &ILLUMOS,
    }
}

/// The methods of the system this program was built for.
#[must_use]
pub const fn here() -> &'static [Method] {
    of(crate::os::SYSTEM)
}

/// The system this program was built for.
#[must_use]
pub const fn system() -> System {
    crate::os::SYSTEM
}

/// The method of this system called `id`.
#[must_use]
pub fn find(id: &str) -> Option<&'static Method> {
    here().iter().find(|method| method.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::Depth;
    use std::collections::HashSet;

    /// For a system, its methods that are less than durable, by letter; all others must be `D`.
    type Expected = (System, &'static [(char, &'static [&'static str])]);

    #[test]
    fn ids_are_unique_within_a_system_and_say_nothing_odd() {
        for methods in ALL {
            let mut seen = HashSet::new();
            for method in methods {
                assert!(seen.insert(method.id), "{} stands twice", method.id);
                assert!(
                    method.id.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '+'),
                    "{}",
                    method.id
                );
                assert!(!method.calls.is_empty() && !method.since.is_empty(), "{}", method.id);
            }
        }
    }

    #[test]
    fn two_rows_of_a_system_never_make_the_same_calls() {
        for methods in ALL {
            for (i, a) in methods.iter().enumerate() {
                for b in &methods[i + 1..] {
                    let same =
                        (a.cache, a.open_sync, a.write, a.sync) == (b.cache, b.open_sync, b.write, b.sync);
                    assert!(!same, "{} and {} are one method", a.id, b.id);
                }
            }
        }
    }

    /// The classes that the systems' documentation gives, row by row. Written down a second time on purpose:
    /// a change of `reach` that promises more than before must be made here too, knowingly.
    #[test]
    fn no_row_claims_more_than_its_calls_give() {
        let expected: [Expected; 4] = [
            (Linux, &[('K', &["buffered", "dontcache"]), ('O', &["direct", "sync-file-range"])]),
            (
                Windows,
                &[
                    ('K', &["buffered"]),
                    (
                        'O',
                        &[
                            "no-buffering",
                            "nt-flush-data-only",
                            "nt-flush-no-sync",
                            "write-through",
                            "no-buffering+write-through",
                            "overlapped+write-through",
                        ],
                    ),
                ],
            ),
            (
                MacOs,
                &[
                    ('K', &["buffered", "nocache"]),
                    ('O', &["buffered+fsync", "nocache+fsync"]),
                    ('B', &["buffered+barrier", "nocache+barrier"]),
                ],
            ),
            (Illumos, &[('K', &["buffered"])]),
        ];
        for (system, letters) in expected {
            for method in of(system) {
                let listed = letters.iter().find(|(_, ids)| ids.contains(&method.id));
                let letter = listed.map_or('D', |(letter, _)| *letter);
                assert_eq!(method.reach().letter(), letter, "{system:?} {}", method.id);
            }
        }
    }

    #[test]
    fn a_row_without_any_sync_is_never_stable() {
        for method in ALL.into_iter().flatten() {
            let asks = method.sync != Sync::None
                || method.open_sync != OpenSync::None
                || matches!(
                    method.write,
                    Flagged(WriteFlag::Dsync | WriteFlag::Sync)
                        | Write::Ring { flag: WriteFlag::Dsync | WriteFlag::Sync, .. }
                );
            assert!(asks || method.reach().data < Depth::Stable, "{}", method.id);
            assert!(method.reach_without_libc_syncs().data <= method.reach().data, "{}", method.id);
        }
    }

    #[test]
    fn every_system_has_its_published_rows_and_a_durable_one() {
        for methods in ALL {
            assert!(methods.iter().any(|m| m.set == Published));
            assert!(methods.iter().any(|m| m.reach().data == Depth::Stable));
        }
        let published = |system| of(system).iter().filter(|m| m.set == Published).count();
        assert_eq!((published(Linux), published(Windows)), (6, 5));
    }

    #[test]
    fn rings_that_poll_for_completion_never_sync_by_ring() {
        for method in &LINUX {
            if matches!(method.write, Write::Ring { poll: RingPoll::Completion, .. }) {
                assert_eq!(method.sync, Sync::None, "{}: fsync on an IOPOLL ring is EINVAL", method.id);
            }
        }
    }
}
