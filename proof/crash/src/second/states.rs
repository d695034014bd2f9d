//! Records what the machine sends to an honest disk, and judges every state in which a cut may leave that.
//!
//! `seawall log append` writes in the machine; its LSNs come back through a virtual serial port, in order with what the
//! disk gets. The recording goes to the block layer's enumerator, which mounts each state here and recovers the log.
//!
//! The same is done for the library with relaxed commits between strict ones, and again with a planted bug that only FUA
//! shows: `TrustFlushOfFua` takes a durable write for a flush of what lies unsynced in front of it. Where the system
//! turns FUA into a flush nothing may be lost; where the drive takes FUA, the loss must be found.
//!
//! Invariant: marks enter the record before what the machine sends after them.

use std::fmt::Write as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall::Lsn;
use seawall::sim::rng::mix;
use seawall_sys::clock::monotonic_ns;

use super::bus::Bus;
use super::cache::{Disk, Nature};
use super::campaign::{CutOptions, machine_error, results_name};
use super::initramfs::{Kernel, METHODS, MachineSpec, Task, build};
use super::machine::{Machine, Message};
use crate::blocks::campaign::{Counts, DiskPool, Search};
use crate::blocks::event::Event;
use crate::blocks::window::Recording;
use crate::error::Result;
use crate::lock;
use crate::victim::{VictimKind, word_of};
use crate::workload::{Timeline, end_of, transaction};
use seawall_crash_test::content::Content;

/// Transactions of one recording.
const TRANSACTIONS: u64 = 120;
/// Transactions that the program is given at a time.
const GIVEN: u64 = 2;
/// How long a task may take in the machine: emulation is slow, a shared host slower.
const TASK_NS_MAX: u64 = 1_200_000_000_000;

/// What writes in the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Program {
    /// `seawall log append`.
    #[default]
    Append,
    /// The library, with relaxed commits between strict ones.
    Relaxed,
    /// The same with the bug that only FUA shows.
    Planted,
}

impl Program {
    const ALL: [Self; 3] = [Self::Append, Self::Relaxed, Self::Planted];

    fn name(self) -> &'static str {
        match self {
            Self::Append => "`seawall log append`",
            Self::Relaxed => "relaxed commits",
            Self::Planted => "relaxed commits with the bug",
        }
    }
}

/// The planted bug that only FUA shows.
const BUG: &str = "TrustFlushOfFua";

/// One recording and what its states came to.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Row {
    kernel: String,
    bus: Bus,
    fs: String,
    method: String,
    seed: u64,
    build: String,
    writes: u64,
    forced: u64,
    flushes: u64,
    /// Requests that were in flight at the same time, at most.
    overlap: u64,
    states: u64,
    nested: u64,
    torn: u64,
    #[serde(default)]
    program: Program,
    finding: Option<String>,
}

impl Row {
    /// Whether something was lost, or the bug not found where FUA shows it.
    fn failed(&self) -> bool {
        let shows = self.forced > 0 && !flushes_too(&self.fs, &self.method);
        self.finding.is_some() != (self.program == Program::Planted && shows)
    }
}

/// Whether each durable write of this method is followed by a flush although it has FUA, so that the bug is none: on btrfs a
/// plain call logs where the data lies and flushes for that; a ring does not.
fn flushes_too(fs: &str, method: &str) -> bool {
    fs == "btrfs" && !method.starts_with("uring")
}

/// The records that the program is given, in pieces.
fn input(seed: u64) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut start = Lsn::ZERO;
    for _ in 0..TRANSACTIONS / GIVEN {
        let mut piece = Vec::new();
        for _ in 0..GIVEN {
            let records = transaction(seed, VictimKind::Binary.life(), start);
            start = end_of(start, &records);
            for record in records {
                piece.extend(u32::try_from(record.len()).unwrap_or(u32::MAX).to_le_bytes());
                piece.extend(record);
            }
        }
        pieces.push(piece);
    }
    pieces
}

/// Requests that were in flight at the same time, at most.
fn overlap(events: &[Event]) -> u64 {
    let (mut now, mut most) = (0_u64, 0);
    for event in events {
        match event {
            Event::Write { .. } | Event::Flush { .. } => now += 1,
            Event::Done { .. } => now = now.saturating_sub(1),
            Event::Forced { .. } | Event::Mark(_) => {}
        }
        most = most.max(now);
    }
    most
}

/// Runs the program in the machine and gives what its disk was sent.
fn record(
    options: &CutOptions,
    kernel: &Kernel,
    program: Program,
    method: &str,
    seed: u64,
) -> Result<Recording> {
    let scratch = tempfile::tempdir()?;
    let disk = Disk::new(Nature::Honest, options.fs.image(scratch.path(), options.fs.disk_bytes)?);
    let (task, first) = if program == Program::Append {
        (Task::Record { input: input(seed) }, Some(format!("opened {} 0", VictimKind::Binary.life())))
    } else {
        let bug = if program == Program::Planted { format!("--plant {BUG}") } else { String::new() };
        let words = format!("--engine relaxed --seed {seed} --transactions {TRANSACTIONS} {bug}");
        (Task::Victim { program: options.victim.clone(), words }, None)
    };
    let words = format!("{METHODS}{method}");
    let Watched { start, events, console } = watch(options, kernel, disk, task, &words, first)?;
    // A method that the log refuses would be judged on nothing.
    if !events.iter().any(|event| matches!(event, Event::Write { .. })) {
        return Err(machine_error(&format!("{} by {method} wrote nothing", program.name()), console));
    }
    Ok(Recording { start, events, timeline: Timeline::new(seed, TRANSACTIONS), seed })
}

/// What a machine did from the moment when it was ready.
pub(super) struct Watched {
    /// What its disk held at that moment, all of it durable.
    pub(super) start: Content,
    /// What the disk was sent, between what the machine said on its virtual serial port.
    pub(super) events: Vec<Event>,
    /// The last lines of its console.
    pub(super) console: String,
}

/// Runs `task` in the machine on `disk` to its end; `first` is entered before everything else.
pub(super) fn watch(
    options: &CutOptions,
    kernel: &Kernel,
    disk: Disk,
    task: Task,
    words: &str,
    first: Option<String>,
) -> Result<Watched> {
    let scratch = tempfile::tempdir()?;
    let dir = scratch.path();
    let CutOptions { bus, fs, .. } = *options;
    let disk = Arc::new(Mutex::new(disk));
    let served = bus.serve(dir, &disk)?;
    let marks = dir.join("marks");
    let listener = UnixListener::bind(&marks)?;
    let spec = MachineSpec { bus, file_system: fs.name, task };
    let initramfs = dir.join("initramfs");
    std::fs::write(&initramfs, build(kernel, &options.busybox, &options.guest_binary, &spec)?)?;
    let mut machine = Machine::start(kernel, &initramfs, &served, Some(&marks), words)?;
    // The wait for a message has an end; after the first one the machine is connected.
    let message = machine.expect()?;
    if message != Message::Ready {
        let what = format!("the machine reported {message:?} instead of Ready");
        return Err(machine_error(&what, machine.last_lines()));
    }
    let (stream, _) = listener.accept()?;
    let start = {
        let mut disk = lock(&disk);
        disk.flush();
        let start = disk.current[..].into();
        disk.record.start();
        if let Some(first) = first {
            disk.record.mark(first);
        }
        disk.record.marks(stream)?;
        start
    };
    machine.go_on()?;
    // What is said is read even while the disk rests: a port that nobody reads would stop the machine.
    let until_ns = monotonic_ns() + TASK_NS_MAX;
    let ended = loop {
        lock(&disk).record.read_marks();
        let message = machine.next_message(Duration::from_millis(50))?;
        if message.is_some() || monotonic_ns() > until_ns {
            break message;
        }
    };
    let console = machine.last_lines();
    if ended != Some(Message::Ended) {
        let what = format!("the machine reported {ended:?} instead of its end");
        return Err(machine_error(&what, console));
    }
    machine.cut()?;
    let events = lock(&disk).record.take();
    Ok(Watched { start, events, console })
}

fn judge(options: &CutOptions, mut row: Row, recording: &Recording) -> Result<Row> {
    let count =
        |wanted: fn(&Event) -> bool| recording.events.iter().filter(|event| wanted(event)).count() as u64;
    row.writes = count(|event| matches!(event, Event::Write { .. }));
    row.forced = count(|event| matches!(event, Event::Forced { .. }));
    row.flushes = count(|event| matches!(event, Event::Flush { .. }));
    row.overlap = overlap(&recording.events);
    let (pool, one_in, mut counts) = (DiskPool::new(options.fs), options.one_in, Counts::default());
    let search = Search { recording, pool: &pool, jobs: 1, one_in, only: None, nested: true };
    let found = search.run(&mut counts)?;
    row.finding = found.map(|finding| format!("state {}: {finding}", finding.state));
    (row.states, row.nested, row.torn) = (counts.states, counts.nested, counts.torn);
    Ok(row)
}

fn markdown(rows: &[Row]) -> String {
    let mut text = format!(
        "# States that the second kernel's traffic allows\n\nEach row is one recording; every state was mounted and its log \
         recovered and judged. The bug is `{BUG}`: a durable write is trusted to flush what lies unsynced in front of it. It \
         must be found where writes have FUA, and must not be where each is followed by a flush, as plain calls are on btrfs; the search ends at the \
         first finding.\n\n| kernel | bus | file system | program | method | seed | build | writes | with FUA | flushes | \
         at a time | states | of second cuts | torn | finding |\n"
    );
    text += "| --- | --- | --- | --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n";
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.kernel,
            word_of(&row.bus),
            row.fs,
            row.program.name(),
            row.method,
            row.seed,
            row.build,
            row.writes,
            row.forced,
            row.flushes,
            row.overlap,
            row.states,
            row.nested,
            row.torn,
            row.finding.as_deref().unwrap_or("none")
        );
    }
    let states: u64 = rows
        .iter()
        .filter(|row| row.forced > 0 && row.program != Program::Planted)
        .map(|row| row.states)
        .sum();
    let _ = writeln!(text, "\n{states} states of recordings with FUA and without the bug.");
    text
}

/// Records and judges each method in turn; adds a row each to `second-kernel-states` in `results`.
pub(super) fn run(options: &CutOptions, seed: u64, results: &Path) -> Result<bool> {
    let kernel = Kernel::find(&options.kernel)?;
    let path = results.join("second-kernel-states.json");
    let mut rows: Vec<Row> = crate::campaign_file::load(&path)?.unwrap_or_default();
    let methods = options.methods.clone().unwrap_or_else(|| "direct+dsync".to_owned());
    let mut held = true;
    let all = methods.split(',').flat_map(|method| Program::ALL.map(|program| (method, program)));
    for (method, program) in all {
        if crate::interrupt::requested() {
            return Ok(false);
        }
        let row = Row {
            kernel: kernel.release.clone(),
            bus: options.bus,
            fs: options.fs.name.to_owned(),
            program,
            method: method.to_owned(),
            seed,
            build: options.build.clone().unwrap_or_default(),
            ..Row::default()
        };
        let seed = mix(seed ^ mix(rows.len() as u64));
        let recording = record(options, &kernel, program, method, seed)?;
        let row = judge(options, row, &recording)?;
        eprintln!(
            "{} {} {method}: {} states, {} writes with FUA, {:?}",
            results_name(options, &kernel),
            program.name(),
            row.states,
            row.forced,
            row.finding
        );
        held &= !row.failed();
        rows.push(row);
        crate::campaign_file::save(&path, &rows)?;
        std::fs::write(path.with_extension("md"), markdown(&rows))?;
    }
    print!("{}", markdown(&rows));
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::{Program, Row, input, overlap};
    use crate::blocks::event::{Event, Payload};

    #[test]
    fn the_bug_must_be_found_where_writes_have_fua_and_no_flush_and_nowhere_else() {
        for (program, fs, forced, finding, failed) in [
            (Program::Relaxed, "ext4", 9, false, false),
            (Program::Relaxed, "ext4", 9, true, true),
            (Program::Planted, "ext4", 9, false, true),
            (Program::Planted, "ext4", 9, true, false),
            (Program::Planted, "ext4", 0, false, false),
            (Program::Planted, "ext4", 0, true, true),
            (Program::Planted, "btrfs", 9, false, false),
            (Program::Planted, "btrfs", 9, true, true),
        ] {
            let finding = finding.then(|| "lost".to_owned());
            let (fs, method) = (fs.to_owned(), "direct+dsync".to_owned());
            let row = Row { fs, method, forced, program, finding, ..Row::default() };
            assert_eq!(row.failed(), failed, "{row:?}");
        }
    }

    #[test]
    fn requests_that_are_under_way_together_are_counted() {
        let write = |number| Event::Write { number, offset: 0, payload: Payload::Data(vec![3; 512].into()) };
        let done = |number| Event::Done { number };
        assert_eq!(overlap(&[write(1), done(1), Event::Flush { number: 2 }, write(3), done(2)]), 2);
    }

    #[test]
    fn the_input_is_records_with_their_lengths() {
        for piece in input(1) {
            let mut rest = &piece[..];
            while let [a, b, c, d, more @ ..] = rest {
                rest = &more[u32::from_le_bytes([*a, *b, *c, *d]) as usize..];
            }
            assert!(rest.is_empty());
        }
    }
}
