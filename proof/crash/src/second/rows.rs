//! Runs `seawall bench` in the machine under strace, and leaves each row's calls with what they made the disk do.
//!
//! The disk has what few machines have: writes with FUA, poll queues and atomic writes. It runs on a file of the file
//! system, then on the raw disk, in one boot, and leaves two files for each place:
//!
//! ```text
//!   NAME.trace     91 io_uring_enter(5<anon_inode:[io_uring]>, 1, 1, …) = 1     a call that has ended, by strace
//!                  0 device_write(16384, FUA) = 0                               a request that has arrived at the disk
//!                  0 device_flush() = 0
//!   NAME.json      the result of `seawall bench`
//! ```
//!
//! strace writes to a virtual serial port, in order with what the disk gets: a request stands before the call that
//! waited for it.

use std::fmt::Write as _;
use std::path::Path;

use super::cache::{Disk, Nature};
use super::campaign::{CutOptions, machine_error};
use super::initramfs::{Kernel, Task};
use super::states::watch;
use crate::blocks::event::Event;
use crate::error::Result;

/// One place and what runs there.
struct BenchTarget {
    name: &'static str,
    /// What `seawall bench` is given to find it; `$D` is the disk.
    folder: &'static str,
    methods: &'static str,
}

/// Transactions of each method: what the tests of calls expect.
const TRANSACTIONS: &str = "24";

/// The journal, and the room that `seawall bench` leaves on a disk.
const DISK_BYTES: u64 = 192 << 20;

const TARGETS: [BenchTarget; 2] = [
    BenchTarget {
        name: "file",
        folder: "/disk",
        methods: "direct+fdatasync,direct+dsync,direct+rwf-dsync,uring-direct-rwf-dsync,\
                  uring-direct-fixed-dsync,uring-direct-sqpoll,uring-direct-iopoll,atomic+dsync",
    },
    BenchTarget {
        name: "raw",
        folder: "--raw-device-overwrite $D",
        methods: "direct+dsync,direct+rwf-dsync,uring-direct-fixed-dsync,uring-direct-iopoll,atomic+dsync",
    },
];

/// What begins the line that ends a place: its result follows.
const RESULT: &str = "result ";

/// What the machine does: `$V` is the virtual serial port.
fn script() -> String {
    let mut script = String::new();
    for (at, BenchTarget { folder: place, methods, .. }) in TARGETS.iter().enumerate() {
        if at > 0 {
            script += "umount /disk || exit\n";
        }
        // Writing to a string cannot fail.
        let _ = writeln!(
            script,
            "/strace -f -y -s 0 -e {TRACED} -e signal=none -o $V /seawall bench {place} --methods {methods} \
             --transactions {TRANSACTIONS} --rounds 1 --journal 1MiB --no-out --no-progress --json /result >/said 2>&1 \
             || {{ cat /said; echo SEAWALL ended badly; sleep 3600; }}\n\
             (echo -n '{RESULT}'; tr -d '\\n' </result; echo) >$V"
        );
    }
    script
}

/// The calls that the tests of calls look at; the guest's C library, musl, opens files by `open`.
const TRACED: &str = "trace=open,openat,pwrite64,pwritev2,write,pwritev,fdatasync,fsync,sync,syncfs,sync_file_range,msync,mmap,io_uring_setup,io_uring_enter,io_uring_register";

/// Marks and requests in one text; the places' results by themselves.
fn texts(events: &[Event]) -> Vec<(String, String)> {
    let (mut places, mut trace) = (Vec::new(), String::new());
    for (at, event) in events.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = match event {
            Event::Mark(text) => {
                if let Some(json) = text.strip_prefix(RESULT) {
                    places.push((std::mem::take(&mut trace), json.to_owned()));
                    continue;
                }
                writeln!(trace, "{text}")
            }
            Event::Write { payload, .. } => {
                let forced = matches!(events.get(at + 1), Some(Event::Forced { .. }));
                let flag = if forced { ", FUA" } else { "" };
                writeln!(trace, "0 device_write({}{flag}) = 0", payload.bytes())
            }
            Event::Flush { .. } => writeln!(trace, "0 device_flush() = 0"),
            Event::Forced { .. } | Event::Done { .. } => continue,
        };
    }
    places
}

/// Boots the machine once, runs every place, and leaves the files in `folder`.
pub(super) fn run(options: &CutOptions, folder: &Path) -> Result<bool> {
    let kernel = Kernel::find(&options.kernel)?;
    let scratch = tempfile::tempdir()?;
    let mut disk = Disk::new(Nature::Honest, options.fs.image(scratch.path(), DISK_BYTES)?);
    disk.atomic = true;
    let task = Task::Script { script: script(), programs: vec!["strace".into()], modules: &[] };
    let watched = watch(options, &kernel, disk, task, "", None)?;
    let places = texts(&watched.events);
    if places.len() != TARGETS.len() {
        let what = format!("{} of {} results arrived", places.len(), TARGETS.len());
        return Err(machine_error(&what, watched.console));
    }
    std::fs::create_dir_all(folder)?;
    for (place, (trace, json)) in TARGETS.iter().zip(places) {
        std::fs::write(folder.join(format!("{}.trace", place.name)), trace)?;
        std::fs::write(folder.join(format!("{}.json", place.name)), json)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::texts;
    use crate::blocks::event::{Event, Payload};

    #[test]
    fn requests_stand_between_the_calls_and_a_result_ends_a_place() {
        let mark = |text: &str| Event::Mark(text.to_owned());
        let write = |number| Event::Write { number, offset: 0, payload: Payload::Zeros(512) };
        let events = [
            mark("7 openat(x) = 3"),
            write(1),
            Event::Forced { number: 1 },
            Event::Done { number: 1 },
            mark("7 pwrite64(3) = 512"),
            mark("result {}"),
            write(2),
            Event::Flush { number: 3 },
            mark("result { }"),
        ];
        let file = "7 openat(x) = 3\n0 device_write(512, FUA) = 0\n7 pwrite64(3) = 512\n";
        let raw = "0 device_write(512) = 0\n0 device_flush() = 0\n";
        let expected = [(file, "{}"), (raw, "{ }")].map(|(trace, json)| (trace.to_owned(), json.to_owned()));
        assert_eq!(texts(&events), expected);
    }
}
