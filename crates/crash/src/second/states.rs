//! Records what the machine sends to an honest disk, and judges every state in which a cut may leave that.
//!
//! `seawall log append` writes in the machine; its LSNs come back through a virtual serial port, in order with what the
//! disk gets. The recording goes to the block layer's enumerator, which mounts each state here and recovers the log.
//!
//! A recording with FUA is judged twice more, for a bug that only FUA shows: each write with FUA becomes a plain write
//! of its first sectors and one with FUA of its last, as a commit method would send it that trusts in a flush after
//! FUA. Where the disk turns FUA into a flush nothing is lost; where it does not, the loss must be found.
//!
//! Invariant: marks enter the record before what the machine sends after them.

use std::fmt::Write as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall::Lsn;
use seawall::sim::rng::mix;
use seawall_sys::clock::monotonic_ns;

use super::bus::Bus;
use super::cache::{Disk, Nature};
use super::campaign::{Wishes, machine_error, results_name};
use super::initramfs::{Kernel, METHODS, Orders, Task, build};
use super::machine::{Machine, Message};
use super::nbd::lock;
use crate::blocks::campaign::{DiskPool, Search, Tally};
use crate::blocks::event::{Event, PAGE, Pages, Payload};
use crate::blocks::window::Recording;
use crate::error::Result;
use crate::victim::Engine;
use crate::workload::{Timeline, end_of, transaction};

/// Transactions of one recording.
const TRANSACTIONS: u64 = 120;
/// Transactions that the program is given at a time.
const GIVEN: u64 = 2;
const SECTOR: u64 = 512;
/// How long a task may take in the machine: emulation is slow, a shared host slower.
const TASK_NS_MAX: u64 = 600_000_000_000;

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
    /// Requests that were under way at the same time, at most.
    overlap: u64,
    states: u64,
    nested: u64,
    torn: u64,
    /// Whether the bug was found on this disk; nothing if no write had FUA.
    planted: Option<bool>,
    /// Whether it was found where FUA is a flush.
    planted_flushed: Option<bool>,
    finding: Option<String>,
}

impl Row {
    fn failed(&self) -> bool {
        self.finding.is_some() || self.planted == Some(false) || self.planted_flushed == Some(true)
    }
}

/// The records that the program is given, in pieces.
fn input(seed: u64) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut start = Lsn::ZERO;
    for _ in 0..TRANSACTIONS / GIVEN {
        let mut piece = Vec::new();
        for _ in 0..GIVEN {
            let records = transaction(seed, Engine::Binary.life(), start);
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

fn pages(image: &[u8]) -> Pages {
    let numbered = (0..).zip(image.chunks(PAGE));
    let used = numbered.filter(|(_, page)| page.iter().any(|byte| *byte != 0));
    used.map(|(number, page)| (number, Arc::from(page))).collect()
}

/// What a commit method would send that trusts in a flush after FUA; where FUA is a flush, with that flush.
fn planted(events: &[Event], flushed: bool) -> Vec<Event> {
    let mut numbers = events.len() as u64 * 4;
    let forced: Vec<u64> = events
        .iter()
        .filter_map(|event| if let Event::Forced { number } = event { Some(*number) } else { None })
        .collect();
    let mut planted = Vec::new();
    for event in events {
        match event {
            Event::Write { number, offset, payload: Payload::Data(data) }
                if forced.contains(number) && data.len() as u64 > SECTOR =>
            {
                let last = data.len() - crate::bytes::index(SECTOR);
                numbers += 1;
                let payload = Payload::Data(data[..last].into());
                planted.push(Event::Write { number: numbers, offset: *offset, payload });
                planted.push(Event::Done { number: numbers });
                let payload = Payload::Data(data[last..].into());
                planted.push(Event::Write { number: *number, offset: offset + last as u64, payload });
            }
            Event::Forced { .. } if flushed => {}
            Event::Done { number } if flushed && forced.contains(number) => {
                numbers += 1;
                planted.extend([
                    event.clone(),
                    Event::Flush { number: numbers },
                    Event::Done { number: numbers },
                ]);
            }
            _ => planted.push(event.clone()),
        }
    }
    planted
}

/// Requests that were under way at the same time, at most.
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

/// Runs `seawall log append` in the machine and gives what its disk was sent.
fn record(wishes: &Wishes, kernel: &Kernel, method: &str, seed: u64) -> Result<Recording> {
    let scratch = tempfile::tempdir()?;
    let disk = Disk::new(Nature::Honest, wishes.fs.image(scratch.path())?);
    let task = Task::Record { input: input(seed) };
    let opened = format!("opened {} 0", Engine::Binary.life());
    let words = format!("{METHODS}{method}");
    let Watched { start, events, console } = watch(wishes, kernel, disk, task, &words, Some(opened))?;
    // A method that the log refuses would be judged on nothing.
    if !events.iter().any(|event| matches!(event, Event::Write { .. })) {
        return Err(machine_error(&format!("`seawall log append` by {method} wrote nothing"), console));
    }
    Ok(Recording { start, events, timeline: Timeline::new(seed, TRANSACTIONS), seed })
}

/// What a machine did from the moment when it was ready.
pub(super) struct Watched {
    /// What its disk held at that moment, all of it durable.
    pub(super) start: Pages,
    /// What the disk was sent, between what the machine said on its virtual serial port.
    pub(super) events: Vec<Event>,
    /// The last lines of its console.
    pub(super) console: String,
}

/// Runs `task` in the machine on `disk` to its end; `first` is entered before everything else.
///
/// # Errors
/// Whatever keeps the machine from running it to its end.
pub(super) fn watch(
    wishes: &Wishes,
    kernel: &Kernel,
    disk: Disk,
    task: Task,
    words: &str,
    first: Option<String>,
) -> Result<Watched> {
    let scratch = tempfile::tempdir()?;
    let dir = scratch.path();
    let Wishes { bus, fs, .. } = *wishes;
    let disk = Arc::new(Mutex::new(disk));
    let served = bus.serve(dir, &disk)?;
    let marks = dir.join("marks");
    let listener = UnixListener::bind(&marks)?;
    let orders = Orders { bus, file_system: fs.name, task };
    let initramfs = dir.join("initramfs");
    std::fs::write(&initramfs, build(kernel, &wishes.busybox, &wishes.guest_binary, "", &orders)?)?;
    let mut machine = Machine::start(kernel, &initramfs, (bus, &served), Some(&marks), words)?;
    // The wait for a message has an end; behind the first one the machine is connected.
    expect(&mut machine, &Message::Ready)?;
    let (stream, _) = listener.accept()?;
    let start = {
        let mut disk = lock(&disk);
        disk.flush();
        let start = pages(disk.image());
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

fn expect(machine: &mut Machine, wanted: &Message) -> Result<()> {
    let message = machine.expect()?;
    if message == *wanted {
        return Ok(());
    }
    Err(machine_error(
        &format!("the machine reported {message:?} instead of {wanted:?}"),
        machine.last_lines(),
    ))
}

/// Judges the states of a recording; gives the first broken promise.
fn search(wishes: &Wishes, recording: &Recording, one_in: u64, tally: &Tally) -> Result<Option<String>> {
    let pool = DiskPool::new(wishes.fs);
    let search = Search { recording, pool: &pool, jobs: 1, one_in, only: None, nested: true, tally };
    let found = search.run()?;
    Ok(found.map(|finding| format!("state {}: {finding}", finding.state)))
}

fn judge(wishes: &Wishes, mut row: Row, recording: &Recording) -> Result<Row> {
    let count =
        |wanted: fn(&Event) -> bool| recording.events.iter().filter(|event| wanted(event)).count() as u64;
    row.writes = count(|event| matches!(event, Event::Write { .. }));
    row.forced = count(|event| matches!(event, Event::Forced { .. }));
    row.flushes = count(|event| matches!(event, Event::Flush { .. }));
    row.overlap = overlap(&recording.events);
    let tally = Tally::default();
    row.finding = search(wishes, recording, wishes.one_in, &tally)?;
    row.states = tally.states.load(Ordering::Relaxed);
    row.nested = tally.nested.load(Ordering::Relaxed);
    row.torn = tally.torn.load(Ordering::Relaxed);
    if row.forced > 0 {
        for (flushed, found) in [(false, &mut row.planted), (true, &mut row.planted_flushed)] {
            let events = planted(&recording.events, flushed);
            let planted = Recording { events, ..recording.clone() };
            *found = Some(search(wishes, &planted, wishes.one_in.max(7), &Tally::default())?.is_some());
        }
    }
    Ok(row)
}

fn markdown(rows: &[Row]) -> String {
    let mut text = "# States that the second kernel's traffic allows\n\nEach row is one recording of `seawall log append`; every \
                    state was mounted and its log recovered and judged. \"Bug\" is a commit that trusts in a flush after \
                    FUA: found on this disk, and where FUA is a flush.\n\n| kernel | bus | file system | method | seed | \
                    build | writes | with FUA | flushes | at a time | states | of second cuts | torn | bug found | bug \
                    found where FUA is a flush | finding |\n"
        .to_owned();
    text += "| --- | --- | --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |\n";
    let word = |found: Option<bool>| match found {
        None => "-",
        Some(true) => "yes",
        Some(false) => "no",
    };
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.kernel,
            row.bus.name(),
            row.fs,
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
            word(row.planted),
            word(row.planted_flushed),
            row.finding.as_deref().unwrap_or("none")
        );
    }
    let states: u64 = rows.iter().filter(|row| row.forced > 0).map(|row| row.states).sum();
    let _ = writeln!(text, "\n{states} states of recordings with FUA.");
    text
}

/// Records and judges each method in turn; adds a row each to `second-kernel-states` in `results`.
///
/// # Errors
/// Whatever keeps the harness from recording or judging.
pub(super) fn run(wishes: &Wishes, seed: u64, results: &Path) -> Result<bool> {
    let kernel = Kernel::find(&wishes.kernel)?;
    let path = results.join("second-kernel-states.json");
    let mut rows: Vec<Row> = crate::campaign_file::load(&path)?.unwrap_or_default();
    let methods = wishes.methods.clone().unwrap_or_else(|| "direct+dsync".to_owned());
    let mut held = true;
    for method in methods.split(',') {
        if crate::interrupt::requested() {
            return Ok(false);
        }
        let row = Row {
            kernel: kernel.release.clone(),
            bus: wishes.bus,
            fs: wishes.fs.name.to_owned(),
            method: method.to_owned(),
            seed,
            build: wishes.build.clone().unwrap_or_default(),
            ..Row::default()
        };
        let seed = mix(seed ^ mix(rows.len() as u64));
        let recording = record(wishes, &kernel, method, seed)?;
        let row = judge(wishes, row, &recording)?;
        eprintln!(
            "{} {method}: {} states, {} writes with FUA, {:?}",
            results_name(wishes, &kernel),
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
    use super::{input, overlap, planted};
    use crate::blocks::event::{Event, Payload};

    #[test]
    fn the_planted_bug_forces_only_the_last_sector() {
        let payload = Payload::Data(vec![3; 4096].into());
        let events = [
            Event::Write { number: 1, offset: 8192, payload },
            Event::Forced { number: 1 },
            Event::Done { number: 1 },
        ];
        let planted_events = planted(&events, false);
        let [
            Event::Write { offset: 8192, payload, .. },
            Event::Done { .. },
            Event::Write { number: 1, offset: 11_776, .. },
            rest @ ..,
        ] = &planted_events[..]
        else {
            panic!("{planted_events:?}");
        };
        assert_eq!((payload.bytes(), rest), (3584, &events[1..]));
        let flushed = planted(&events, true);
        assert!(flushed.iter().all(|event| !matches!(event, Event::Forced { .. })), "{flushed:?}");
        assert!(matches!(flushed[4..], [Event::Flush { .. }, Event::Done { .. }]), "{flushed:?}");
        assert_eq!((overlap(&events), overlap(&planted_events)), (1, 1));
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
