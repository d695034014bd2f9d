//! Lists the rows of the method table that a log can drive and that reach a durability class.

use seawall_sys::durability::{Durability, FileState, classify};
use seawall_sys::engine::Engine;
use seawall_sys::inspect::Environment;
use seawall_sys::method::{Cache, Method, NtFlush, OpenSync, RingPoll, Sync, Write, WriteFlag};
use seawall_sys::methods;

/// Whether the log can drive this row: writes at positions, with a sync of the file at most, and without a processor of
/// its own for polling.
pub(crate) fn drivable(method: &Method) -> bool {
    let write = match method.write {
        Write::Positional | Write::Overlapped | Write::Flagged(WriteFlag::Dsync) => true,
        Write::Ring { poll, .. } => poll == RingPoll::Interrupt,
        Write::Flagged(_) | Write::Mapped => false,
    };
    let sync = match method.sync {
        Sync::NtFlush(kind) => matches!(kind, NtFlush::Normal | NtFlush::DataSyncOnly),
        Sync::None
        | Sync::Fsync
        | Sync::Fdatasync
        | Sync::RingFdatasync
        | Sync::RingLinkedFdatasync
        | Sync::FlushFileBuffers
        | Sync::FullFsync
        | Sync::BarrierFsync => true,
        Sync::Syncfs
        | Sync::SyncFileRange
        | Sync::Msync
        | Sync::FdatasyncOtherThread
        | Sync::FdatasyncOtherDescriptor => false,
    };
    write && sync && method.open_sync != OpenSync::Full
}

/// The rows that a log can drive and that reach `class` in `environment`, the most promising first.
pub(crate) fn reaching(environment: &Environment, class: Durability) -> Vec<&'static Method> {
    let around = environment.surroundings(FileState::ZeroFilled);
    let reaches = |method: &&Method| drivable(method) && classify(method, &around).class >= class;
    let mut rows: Vec<&'static Method> = methods::here().iter().filter(reaches).collect();
    let on_rings = |method: &Method| method.engine() == Engine::IoUring;
    rows.sort_by_key(|method| (on_rings(method), method.cache != Cache::Direct, method.sync != Sync::None));
    rows
}
