//! Lists what calls return: codes of errors and their names.
//!
//! Invariants: a code never changes its meaning, and its name is that of the error in every language.

use std::ffi::CStr;

/// Done.
pub const SEAWALL_OK: i32 = 0;
/// A record was handed out.
pub const SEAWALL_RECORD: i32 = 1;

/// The operating system refused an operation: see `os_error`, `path`.
pub const SEAWALL_IO: i32 = -1;
/// No space is left for another segment. Nothing was written and the log stays open: try again when there is space.
pub const SEAWALL_DISK_FULL: i32 = -2;
/// The log takes as much of the disk as `disk_bytes_max` allows. Nothing was written: trim it, or open it with a larger bound.
pub const SEAWALL_DISK_CAP: i32 = -3;
/// Another writer holds the log.
pub const SEAWALL_LOCKED: i32 = -4;
/// A write or a sync failed earlier, see `cause`; its outcome is unknown. Open the log again to learn what is durable.
pub const SEAWALL_FAILED: i32 = -5;
/// Acknowledged data is damaged; `at` is the LSN, `limit` the offset in the file `path`.
pub const SEAWALL_CORRUPT: i32 = -6;
/// A segment was written by a newer version of Seawall.
pub const SEAWALL_NEWER_FORMAT: i32 = -7;
/// A segment was written by an older version of Seawall, in a format that this one does not read.
pub const SEAWALL_OLDER_FORMAT: i32 = -8;
/// A segment uses a feature of the format that this library does not have.
pub const SEAWALL_UNKNOWN_FEATURE: i32 = -9;
/// Segments of different logs lie in the directory.
pub const SEAWALL_FOREIGN_SEGMENT: i32 = -10;
/// A foreign file in the directory has the name of a segment.
pub const SEAWALL_FOREIGN_FILE: i32 = -11;
/// Another log was put at the path of the one that was followed.
pub const SEAWALL_OTHER_LOG: i32 = -12;
/// The directory holds no log.
pub const SEAWALL_NOT_A_LOG: i32 = -13;
/// The disk takes no writes as small as the log's blocks.
pub const SEAWALL_BLOCKS_TOO_SMALL: i32 = -14;
/// The record or transaction is longer, `at` bytes, than the log accepts, `limit`.
pub const SEAWALL_TOO_LONG: i32 = -15;
/// A call that does not wait would have had to; nothing was accepted.
pub const SEAWALL_WOULD_BLOCK: i32 = -16;
/// A wait ended without a result. Nothing was cancelled: what was appended may still become durable. `at` is the LSN that was
/// waited for, 0 for a message; `limit` the time in nanoseconds.
pub const SEAWALL_TIMED_OUT: i32 = -17;
/// The LSN `at` was trimmed; the first one left is `limit`.
pub const SEAWALL_TRIMMED: i32 = -18;
/// No record starts, or ends, at the LSN `at`.
pub const SEAWALL_NO_RECORD: i32 = -19;
/// The LSN `at` lies past the end of the log, `limit`.
pub const SEAWALL_BEYOND_END: i32 = -20;
/// The record `at` of a stream was trimmed; the first one left is `limit`.
pub const SEAWALL_STREAM_TRIMMED: i32 = -21;
/// The record `at` of a stream is missing, as in a log that was salvaged with a gap; the next one is `limit`.
pub const SEAWALL_STREAM_GAP: i32 = -22;
/// A stream has no durable record `at` yet; it goes on with `limit`.
pub const SEAWALL_STREAM_END: i32 = -23;
/// A commit requested a higher durability class than the log promises.
pub const SEAWALL_BEYOND_PROMISE: i32 = -24;
/// An option lies outside its bounds, or there is none of that name.
pub const SEAWALL_INVALID_OPTION: i32 = -25;
/// The log was closed.
pub const SEAWALL_CLOSED: i32 = -26;
/// This process was forked off the one that opened the log, which still uses it.
pub const SEAWALL_FORKED: i32 = -27;
/// An argument is not what the call takes: NULL, for example. The message names it.
pub const SEAWALL_INVALID_ARGUMENT: i32 = -28;
/// Another thread is in a call with the same cursor.
pub const SEAWALL_BUSY: i32 = -29;
/// A mistake in Seawall itself; the message says which, and standard error where. What was called may be unusable: close it and
/// open it again.
pub const SEAWALL_PANICKED: i32 = -30;
/// The directory is that of a rebuild or a standby that is not finished: finish it, or take over.
pub const SEAWALL_REBUILDING: i32 = -31;
/// An error that has no code in this version of the interface.
pub const SEAWALL_OTHER: i32 = -32;
/// The process that owns the queue refused, with an error that has no code here; the message has its words.
pub const SEAWALL_QUEUE_OWNER: i32 = -33;
/// The directory has a log that is not a queue's.
pub const SEAWALL_NOT_A_QUEUE: i32 = -34;
/// A record of the log is not one of a queue.
pub const SEAWALL_FOREIGN_RECORD: i32 = -35;
/// The queue has never handed out the message `at`.
pub const SEAWALL_NO_MESSAGE: i32 = -36;
/// The process that owns the queue has not answered for `limit` nanoseconds. What was put may be stored.
pub const SEAWALL_NO_ANSWER: i32 = -37;
/// The process that owns the queue speaks version `at` of the protocol, which is another one than this library's.
pub const SEAWALL_QUEUE_VERSION: i32 = -38;

/// The codes with their names.
pub(crate) const NAMES: [(i32, &CStr); 40] = [
    (SEAWALL_OK, c"ok"),
    (SEAWALL_RECORD, c"record"),
    (SEAWALL_IO, c"io"),
    (SEAWALL_DISK_FULL, c"disk_full"),
    (SEAWALL_DISK_CAP, c"disk_cap"),
    (SEAWALL_LOCKED, c"locked"),
    (SEAWALL_FAILED, c"failed"),
    (SEAWALL_CORRUPT, c"corrupt"),
    (SEAWALL_NEWER_FORMAT, c"newer_format"),
    (SEAWALL_OLDER_FORMAT, c"older_format"),
    (SEAWALL_UNKNOWN_FEATURE, c"unknown_feature"),
    (SEAWALL_FOREIGN_SEGMENT, c"foreign_segment"),
    (SEAWALL_FOREIGN_FILE, c"foreign_file"),
    (SEAWALL_OTHER_LOG, c"other_log"),
    (SEAWALL_NOT_A_LOG, c"not_a_log"),
    (SEAWALL_BLOCKS_TOO_SMALL, c"blocks_too_small"),
    (SEAWALL_TOO_LONG, c"too_long"),
    (SEAWALL_WOULD_BLOCK, c"would_block"),
    (SEAWALL_TIMED_OUT, c"timed_out"),
    (SEAWALL_TRIMMED, c"trimmed"),
    (SEAWALL_NO_RECORD, c"no_record"),
    (SEAWALL_BEYOND_END, c"beyond_end"),
    (SEAWALL_STREAM_TRIMMED, c"stream_trimmed"),
    (SEAWALL_STREAM_GAP, c"stream_gap"),
    (SEAWALL_STREAM_END, c"stream_end"),
    (SEAWALL_BEYOND_PROMISE, c"beyond_promise"),
    (SEAWALL_INVALID_OPTION, c"invalid_option"),
    (SEAWALL_CLOSED, c"closed"),
    (SEAWALL_FORKED, c"forked"),
    (SEAWALL_INVALID_ARGUMENT, c"invalid_argument"),
    (SEAWALL_BUSY, c"busy"),
    (SEAWALL_PANICKED, c"panicked"),
    (SEAWALL_REBUILDING, c"rebuilding"),
    (SEAWALL_OTHER, c"other"),
    (SEAWALL_QUEUE_OWNER, c"queue_owner"),
    (SEAWALL_NOT_A_QUEUE, c"not_a_queue"),
    (SEAWALL_FOREIGN_RECORD, c"foreign_record"),
    (SEAWALL_NO_MESSAGE, c"no_message"),
    (SEAWALL_NO_ANSWER, c"no_answer"),
    (SEAWALL_QUEUE_VERSION, c"queue_version"),
];

/// The code of the error of this name.
pub(crate) fn of(name: &str) -> i32 {
    let row = NAMES.iter().find(|(code, text)| *code < 0 && text.to_bytes() == name.as_bytes());
    row.map_or(SEAWALL_OTHER, |(code, _)| *code)
}

#[cfg(test)]
mod tests {
    use super::{NAMES, SEAWALL_QUEUE_VERSION, of};

    #[test]
    fn codes_are_without_gaps_and_names_are_unique() {
        let mut codes: Vec<i32> = NAMES.iter().map(|(code, _)| *code).collect();
        codes.sort_unstable();
        assert_eq!(codes, (SEAWALL_QUEUE_VERSION..=1).collect::<Vec<_>>());
        let mut names: Vec<_> = NAMES.iter().map(|(_, name)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }

    /// The names in the one `match` of a source of errors, which is complete because that match is.
    fn names(source: &str) -> Vec<String> {
        let source = std::fs::read_to_string(source).expect("is there");
        let lines =
            source.lines().filter(|line| line.trim_start().starts_with("Self::") && line.contains(" => \""));
        lines.filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
    }

    /// Every variant that the sources of log and queue name has a code. `NoBatch` alone has none: no function of this interface asks
    /// for a batch.
    #[test]
    fn every_error_of_log_and_queue_has_a_code() {
        for (source, count) in [("../../crates/log/src/error.rs", 29), ("../../crates/queue/src/error.rs", 9)]
        {
            let names = names(source);
            assert_eq!(names.len(), count, "{names:?}");
            for name in names.iter().filter(|name| *name != "no_batch") {
                assert!(NAMES.iter().any(|(_, known)| known.to_bytes() == name.as_bytes()), "{name}");
            }
        }
        assert_eq!(of(seawall::Error::Closed.name()), super::SEAWALL_CLOSED);
        assert_eq!(of(seawall_queue::Error::Foreign.name()), super::SEAWALL_FOREIGN_RECORD);
    }
}
