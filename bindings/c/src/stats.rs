//! What a log has done since it was opened.

use seawall::{ProcessCrashCommits, Summary as InnerSummary};
use seawall_sys::clock::nanoseconds;

use crate::error::call;
use crate::log::{Log, inner};
use crate::pointers::give_prefix;

/// The pinned LSN of a log without pins.
pub const SEAWALL_NOT_PINNED: u64 = 0xffff_ffff_ffff_ffff;

/// Quantiles of a distribution.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Summary {
    /// How many values.
    pub count: u64,
    /// Half of the values are at most this.
    pub p50: u64,
    /// 99 of 100 values are at most this.
    pub p99: u64,
    /// 999 of 1000 values are at most this.
    pub p999: u64,
    /// The largest value.
    pub max: u64,
}

impl From<InnerSummary> for Summary {
    fn from(summary: InnerSummary) -> Self {
        let InnerSummary { count, p50, p99, p999, max, .. } = summary;
        Self { count, p50, p99, p999, max }
    }
}

/// Counters and distributions since the log was opened. Fields may be added at the end.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Stats {
    /// Records accepted.
    pub records: u64,
    /// Batches that were written and acknowledged, marks included.
    pub batches: u64,
    /// Of these, those that were acknowledged at a lower class than the log promises.
    pub relaxed_batches: u64,
    /// Times that such batches were made durable.
    pub debt_syncs: u64,
    /// Bytes written for them, headers and padding included.
    pub bytes_written: u64,
    /// Segments started.
    pub segments_started: u64,
    /// Segments that were created and filled with zeros; one that was trimmed in time is recycled instead.
    pub segments_filled: u64,
    /// Times that an append had to wait for memory or for a segment.
    pub stalls: u64,
    /// For how long the oldest batch has been in flight, nanoseconds, if that is past `stall_threshold_ns`; 0 if not.
    pub stalled_for_ns: u64,
    /// Such stalls of the disk.
    pub stalls_seen: u64,
    /// Times that followers in other processes were woken.
    pub follower_wakes: u64,
    /// The end of what was appended.
    pub appended: u64,
    /// The end of what is durable.
    pub durable: u64,
    /// The first LSN that is left.
    pub first: u64,
    /// The lowest LSN that a pin holds, or `SEAWALL_NOT_PINNED`.
    pub pinned: u64,
    /// Segments in the log.
    pub segments: u64,
    /// Whether the next segment is prepared: 1 or 0.
    pub is_prepared: u64,
    /// Streams that the log has.
    pub streams: u64,
    /// Bytes of the log that hold records of streams which are still needed.
    pub stream_bytes: u64,
    /// Memory that their positions take, bytes.
    pub stream_memory_bytes: u64,
    /// Records of streams that were rewritten because their segment was to go.
    pub rewritten_records: u64,
    /// What these take, bytes.
    pub rewritten_bytes: u64,
    /// What the log takes on the disk, bytes.
    pub disk_bytes: u64,
    /// How commits are served that are to outlive the process only: 0 there was none yet, 1 in memory, 2 they are written.
    pub process_crash: u64,
    /// How long one batch took to become durable, nanoseconds.
    pub write_ns: Summary,
    /// Records in one batch.
    pub batch_records: Summary,
    /// Times that an append had to wait until more was rewritten, because the log held three times what its streams need.
    pub rewrite_stalls: u64,
}

/// Writes into `*stats`, a structure of `bytes` bytes (pass `sizeof`), what the log has done since it was opened. Fields that this
/// library does not know become 0. Of a log that was closed, what it had done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_get_stats(log: *const Log, stats: *mut Stats, bytes: u64) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let log = unsafe { inner(log) }?;
        let found = log.stats();
        let shown = Stats {
            records: found.records,
            batches: found.batches,
            relaxed_batches: found.relaxed_batches,
            debt_syncs: found.debt_syncs,
            bytes_written: found.bytes_written,
            segments_started: found.segments_started,
            segments_filled: found.segments_filled,
            stalls: found.stalls,
            stalled_for_ns: found.stalled_for.map_or(0, |time| nanoseconds(time).max(1)),
            stalls_seen: found.stalls_seen,
            follower_wakes: found.follower_wakes,
            appended: found.appended.get(),
            durable: found.durable.get(),
            first: found.first.get(),
            pinned: found.pinned.map_or(SEAWALL_NOT_PINNED, seawall::Lsn::get),
            segments: found.segments,
            is_prepared: log.is_prepared().into(),
            streams: found.streams,
            stream_bytes: found.stream_bytes,
            stream_memory_bytes: found.stream_memory_bytes,
            rewritten_records: found.rewritten_records,
            rewritten_bytes: found.rewritten_bytes,
            disk_bytes: found.disk_bytes,
            process_crash: match found.process_crash {
                ProcessCrashCommits::NoneYet => 0,
                ProcessCrashCommits::InMemory => 1,
                _ => 2,
            },
            write_ns: found.write_ns.into(),
            batch_records: found.batch_records.into(),
            rewrite_stalls: found.rewrite_stalls,
        };
        // SAFETY: as the header asks; the structure has numbers of 8 bytes only.
        unsafe { give_prefix(stats, bytes, &shown) }?;
        Ok(0)
    })
}
