//! The table of the calls that are stopped for: what each does, and where its arguments are.

use crate::Options;
use seawall_host::seccomp::{Action, Filter, Row};

/// What a call does; numbers are the places of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Syncs the file of descriptor 0.
    Sync,
    /// Syncs everything, or the file system of descriptor 0.
    SyncAll,
    /// Syncs the mapping at 0.
    SyncMapping,
    /// Starts or awaits write-back, which makes nothing durable.
    WriteBack,
    /// A write through descriptor 0 with the flags at 5.
    FlaggedWrite,
    /// A write through descriptor 0; a sync if that was opened so.
    Write,
    /// Opens the path at 1 below the folder 0, with the flags at 2.
    Open,
    /// The same with the flags in a structure at 2.
    OpenHow,
    /// Maps descriptor 4 with the protection at 2.
    Map,
    /// Makes a name: folder and path.
    Create(Option<usize>, usize),
    /// Removes a name: folder and path.
    Remove(Option<usize>, usize),
    /// Renames: folder and path before, folder and path after.
    Rename(Option<usize>, usize, Option<usize>, usize),
    /// Makes a ring.
    Ring,
}

pub(crate) struct Traced {
    number: libc::c_long,
    pub(crate) name: &'static str,
    pub(crate) effect: Effect,
    when: Option<(u8, u32)>,
}

const fn row(number: libc::c_long, name: &'static str, effect: Effect) -> Traced {
    Traced { number, name, effect, when: None }
}

impl Traced {
    /// Only where this argument has one of these bits.
    const fn when(self, argument: u8, bits: u32) -> Self {
        Self { when: Some((argument, bits)), ..self }
    }
}

/// Bits of open flags: what may make a name, and what makes writes syncs.
const OPEN_BITS: u32 = (libc::O_CREAT | libc::O_SYNC).cast_unsigned();

/// `RWF_DSYNC` and `RWF_SYNC`.
pub(crate) const SYNC_WRITE: u32 = 0x2 | 0x4;

use Effect as E;

/// Every architecture has these.
static COMMON: [Traced; 21] = [
    row(libc::SYS_fsync, "fsync", E::Sync),
    row(libc::SYS_fdatasync, "fdatasync", E::Sync),
    row(libc::SYS_sync, "sync", E::SyncAll),
    row(libc::SYS_syncfs, "syncfs", E::SyncAll),
    row(libc::SYS_msync, "msync", E::SyncMapping),
    row(libc::SYS_sync_file_range, "sync_file_range", E::WriteBack),
    row(libc::SYS_pwritev2, "pwritev2", E::FlaggedWrite).when(5, SYNC_WRITE),
    row(libc::SYS_openat, "openat", E::Open).when(2, OPEN_BITS),
    row(libc::SYS_openat2, "openat2", E::OpenHow),
    // `MAP_SHARED` or `MAP_SHARED_VALIDATE`.
    row(libc::SYS_mmap, "mmap", E::Map).when(3, 1),
    row(libc::SYS_mkdirat, "mkdir", E::Create(Some(0), 1)),
    row(libc::SYS_mknodat, "mknod", E::Create(Some(0), 1)),
    row(libc::SYS_symlinkat, "symlink", E::Create(Some(1), 2)),
    row(libc::SYS_linkat, "link", E::Create(Some(2), 3)),
    row(libc::SYS_unlinkat, "unlink", E::Remove(Some(0), 1)),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_renameat, "rename", E::Rename(Some(0), 1, Some(2), 3)),
    #[cfg(not(target_arch = "x86_64"))]
    row(38, "rename", E::Rename(Some(0), 1, Some(2), 3)),
    row(libc::SYS_renameat2, "rename", E::Rename(Some(0), 1, Some(2), 3)),
    row(libc::SYS_io_uring_setup, "io_uring_setup", E::Ring),
    row(libc::SYS_pwritev2, "pwritev2", E::Write),
    row(libc::SYS_pwrite64, "pwrite64", E::Write),
    row(libc::SYS_pwritev, "pwritev", E::Write),
];

static WRITES: [Traced; 2] =
    [row(libc::SYS_write, "write", E::Write), row(libc::SYS_writev, "writev", E::Write)];

/// What newer architectures left out.
#[cfg(target_arch = "x86_64")]
static OLD: [Traced; 9] = [
    row(libc::SYS_open, "open", E::Open).when(1, OPEN_BITS),
    row(libc::SYS_creat, "creat", E::Open),
    row(libc::SYS_mkdir, "mkdir", E::Create(None, 0)),
    row(libc::SYS_mknod, "mknod", E::Create(None, 0)),
    row(libc::SYS_symlink, "symlink", E::Create(None, 1)),
    row(libc::SYS_link, "link", E::Create(None, 1)),
    row(libc::SYS_unlink, "unlink", E::Remove(None, 0)),
    row(libc::SYS_rmdir, "rmdir", E::Remove(None, 0)),
    row(libc::SYS_rename, "rename", E::Rename(None, 0, None, 1)),
];
#[cfg(not(target_arch = "x86_64"))]
static OLD: [Traced; 0] = [];

/// All of them; the place of a row is what the kernel reports at a stop.
fn rows(options: Options) -> impl Iterator<Item = &'static Traced> {
    let all = COMMON.iter().chain(&OLD).chain(&WRITES);
    all.filter(move |row| options.writes || row.effect != E::Write)
}

/// The filter that stops for them.
pub(crate) fn filter(options: Options) -> Filter {
    let rows: Vec<Row> = rows(options)
        .map(|traced| {
            let refused = traced.effect == E::Ring && options.no_uring;
            let enosys = u16::try_from(libc::ENOSYS).unwrap_or(38);
            let action = if refused { Action::Errno(enosys) } else { Action::Trace(0) };
            Row { call: traced.number, when: traced.when, action }
        })
        .collect();
    Filter::new(&rows)
}

/// The row of a call and its arguments, brought into the order of `openat` if it opens.
pub(crate) fn of(
    number: libc::c_long,
    arguments: &mut [u64; 6],
    options: Options,
) -> Option<&'static Traced> {
    let flagged = arguments[5] & u64::from(SYNC_WRITE) != 0;
    let fits = |row: &&Traced| row.number == number && (row.effect != E::FlaggedWrite || flagged);
    let found = rows(options).find(fits)?;
    let here = i64::from(libc::AT_FDCWD).cast_unsigned();
    let created = (libc::O_CREAT | libc::O_TRUNC).cast_unsigned();
    match found.name {
        "open" => *arguments = [here, arguments[0], arguments[1], 0, 0, 0],
        "creat" => *arguments = [here, arguments[0], u64::from(created), 0, 0, 0],
        _ => {}
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_installs_and_no_call_has_two_rows_but_flagged_writes() {
        let all = Options { writes: true, no_uring: true };
        let mut numbers: Vec<_> =
            rows(all).filter(|row| row.effect != E::FlaggedWrite).map(|row| row.number).collect();
        let before = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), before);
        std::thread::spawn(move || filter(all).install().expect("installs")).join().expect("ends");
    }
}
