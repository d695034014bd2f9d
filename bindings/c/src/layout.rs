//! Which interface this is: its version, and how its structures lie in memory.

use std::ffi::{CString, c_char};
use std::mem::offset_of;
use std::sync::OnceLock;

use crate::codes::NAMES;
use crate::cursor::Record;
use crate::error::{ErrorInfo, c_text, last, quiet};
use crate::log::{Opened, Part};
use crate::probe::{Probe, Tried};
use crate::queue::{Bytes, Message, QueueStats};
use crate::report::{Damage, Report};
use crate::stats::{Stats, Summary};
use crate::view::ViewState;

/// The version of this interface. It changes when a program that was built with an older header would not work any more: functions,
/// codes, options and fields at the end of structures are added without.
pub const SEAWALL_ABI_VERSION: i32 = 0;

/// Lines about one structure.
macro_rules! lines {
    ($name:literal, $type:ty: $($field:ident),*) => {{
        let mut lines = format!("{} {}\n", $name, size_of::<$type>());
        $(lines += &format!(
            "{}.{} {} {}\n",
            $name,
            stringify!($field),
            offset_of!($type, $field),
            field_bytes(|it: &$type| &it.$field)
        );)*
        lines
    }};
}

/// The size of the field that `field` selects.
fn field_bytes<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

#[rustfmt::skip]
fn layout() -> String {
    [
        lines!("seawall_error", ErrorInfo: code, cause, os_error, reserved, at, limit, message, path),
        lines!("seawall_opened", Opened: tail, method_origin, left_in_memory, foreign_files, lost_from, lost_to, first, end, segments,
            epoch, left_records, dir, method, engine, engine_refused, channel_refused, left_reason, foreign_file_names, evidence, reserved,
            evidence_because),
        lines!("seawall_part", Part: data, bytes, stream, kind),
        lines!("seawall_record", Record: lsn, end, data, bytes, seq, stream, flags, memory),
        lines!("seawall_summary", Summary: count, p50, p99, p999, max),
        lines!("seawall_stats", Stats: records, batches, relaxed_batches, debt_syncs, bytes_written, segments_started, segments_filled,
            stalls, stalled_for_ns, stalls_seen, follower_wakes, appended, durable, first, pinned, segments, is_prepared, streams,
            stream_bytes, stream_memory_bytes, rewritten_records, rewritten_bytes, disk_bytes, process_crash, write_ns, batch_records,
            rewrite_stalls),
        lines!("seawall_view_state", ViewState: log_id, first, end, segments, lost_from, lost_to, tail, writer, durability, reserved),
        lines!("seawall_damage", Damage: path, what, offset, lsn),
        lines!("seawall_report", Report: log_id, epoch, segments, spares, first, end, records, bytes, batches, witnessed, lost_from,
            lost_to, copied, kept, removed, damages, foreign_files, block_bytes, durability, tail, reserved, damage, foreign_file_names),
        lines!("seawall_tried", Tried: method, calls, commits, p50_ns, max_ns),
        lines!("seawall_probe", Probe: fastest, tried, tries, elapsed_ns, durability, promised_by, because, problem, left_behind),
        lines!("seawall_bytes", Bytes: data, bytes),
        lines!("seawall_message", Message: id, data, bytes, attempts, reserved, memory),
        lines!("seawall_queue_stats", QueueStats: waiting, out, delayed, dead, handles, is_owner),
    ]
    .concat()
}

/// `SEAWALL_ABI_VERSION` of this library. A program that loads it by its path compares that with the header it was built with.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_abi_version() -> i32 {
    SEAWALL_ABI_VERSION
}

/// The version of this library, such as "0.1.0"; "0.1.0+debug" of a build with debug assertions, which is slower. Stays for ever.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_version() -> *const c_char {
    let version = if cfg!(debug_assertions) {
        concat!(env!("CARGO_PKG_VERSION"), "+debug\0")
    } else {
        concat!(env!("CARGO_PKG_VERSION"), "\0")
    };
    version.as_ptr().cast()
}

/// How the structures of this library lie in memory, for bindings that describe them by themselves: for each structure a line
/// `NAME SIZE`, then for each of its fields `NAME.FIELD OFFSET SIZE`, in bytes. Stays for ever; NULL only by a mistake in Seawall.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_layout() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    quiet(std::ptr::null(), || TEXT.get_or_init(|| c_text(&layout())).as_ptr())
}

/// The last error of this thread: what the last call that returned a negative code failed by. Never NULL; with code 0 if no call of this
/// thread has failed. It belongs to the thread and stays until a call of the thread fails again, or the thread ends. Calls that
/// succeed leave it as it is.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_error_last() -> *const ErrorInfo {
    quiet(&raw const crate::error::NO_ERROR.0, last)
}

/// The name of a code: that of its constant in small letters, without `seawall_`; "unknown" if there is no such code. Stays for ever.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_error_name(code: i32) -> *const c_char {
    let row = NAMES.iter().find(|(known, _)| *known == code);
    row.map_or(c"unknown", |(_, name)| *name).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::layout;

    #[test]
    fn structures_have_no_holes() {
        let text = layout();
        let (mut size, mut end) = (0, 0);
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<usize>().expect("a number");
            if let [_, _] = words[..] {
                assert_eq!(size, end, "before {line}");
                (size, end) = (number(1), 0);
            } else {
                assert_eq!(number(1), end, "{line}");
                end = number(1) + number(2);
            }
        }
        assert_eq!(size, end);
    }
}
