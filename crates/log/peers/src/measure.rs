//! Measures all rows in turn, in slices of 50 ms, so that a busy moment of the machine affects all of them.
//!
//! ```text
//!   round 1:  floor  seawall  okaywal  …         each: 3 commits untimed, 50 ms of commits, housekeeping, a rest
//!   round 2:  seawall  okaywal  …  floor         the order turns by one each round
//! ```
//!
//! Invariants: a commit is timed from call to return in the thread that waits for it; records are new each time and
//! do not compress; housekeeping and the rest behind it are in no row's figures.

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use hdrhistogram::Histogram;
use seawall_sys::buffer::Aligned;
use seawall_sys::clock::monotonic_ns;
use seawall_sys::thread::process_cpu_ns;

use crate::subjects::{Crowd, SUBJECTS, Subject, Writer};

/// What went wrong, in words.
pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// One workload: so many threads that each wait for every commit.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) threads: usize,
    pub(crate) record_bytes: usize,
}

/// Named as in `seawall log bench`.
pub(crate) const WORKLOADS: [Workload; 4] = [
    Workload { name: "W1", what: "1 writer, 16 KiB, each committed", threads: 1, record_bytes: 16 << 10 },
    Workload { name: "W2", what: "1 writer, 256 B, each committed", threads: 1, record_bytes: 256 },
    Workload { name: "W3", what: "16 threads, 256 B, each waits", threads: 16, record_bytes: 256 },
    Workload { name: "W4", what: "64 threads, 1 KiB, each waits", threads: 64, record_bytes: 1024 },
];

/// Short enough that a slice of the fastest writes less than a segment.
const SLICE_NS: u64 = 50_000_000;
/// Commits of each thread that begin a slice: whoever had the disk before left the processor's cache full of other things.
const UNTIMED: u64 = 3;
/// For what a row does in the background when nobody writes, so that it is not done in another's slice.
const REST: Duration = Duration::from_millis(10);
/// What is written before the first slice, so that all run on room that was written before: more than all their files.
const WARM_UP_BYTES: usize = 192 << 20;
const WARM_UP_RECORD_BYTES: usize = 512 << 10;
/// Two segments.
const WARM_UP_TIDY_BYTES: usize = 64 << 20;

/// What a row gave in a workload.
pub(crate) struct Outcome {
    pub(crate) subject: &'static Subject,
    /// Commits in a second, slice by slice.
    pub(crate) rates: Vec<f64>,
    /// Nanoseconds of single commits.
    pub(crate) times: Histogram<u64>,
    /// All commits of the slices, untimed ones too: the processor's time is that of all.
    pub(crate) commits: u64,
    /// User and system time of the process during the slices, if the system tells.
    pub(crate) cpu_ns: Option<u64>,
}

impl Outcome {
    /// The middle slice.
    pub(crate) fn rate(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or(0.0)
    }

    /// CPU seconds for a million commits.
    pub(crate) fn cpu_s_per_million(&self) -> Option<f64> {
        self.cpu_ns.map(|ns| ns as f64 / 1e3 / self.commits.max(1) as f64)
    }
}

/// Bytes that do not compress.
pub(crate) fn record(bytes: usize) -> Vec<u8> {
    Aligned::incompressible(bytes, 7).as_slice().to_vec()
}

/// Makes it another record.
pub(crate) fn renew(record: &mut [u8], number: u64) {
    record[..8].copy_from_slice(&number.to_le_bytes());
}

pub(crate) fn histogram() -> Histogram<u64> {
    // One nanosecond to one hour.
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("these bounds are sound")
}

/// One thread's part of a slice.
struct Part {
    began_ns: u64,
    ended_ns: u64,
    commits: u64,
    times: Histogram<u64>,
}

/// Runs the workload on every row that can, in `dir`.
pub(crate) fn run(workload: &Workload, dir: &Path, rounds: usize) -> Result<Vec<Outcome>, Fault> {
    let mut rows = Vec::new();
    for subject in &SUBJECTS {
        let threads = match subject.crowd {
            Crowd::Shares => workload.threads,
            Crowd::HasNone if workload.threads > 1 => continue,
            Crowd::StaysAlone | Crowd::HasNone => 1,
        };
        let home = dir.join(format!("{}-{}", workload.name, subject.name));
        let opened = std::fs::create_dir_all(&home).map_err(Fault::from);
        let opened = opened.and_then(|()| (subject.open)(&home, threads, workload.record_bytes));
        let warmed = opened.and_then(|mut writers| warm_up(&mut writers).map(|()| writers));
        let outcome = Outcome { subject, rates: Vec::new(), times: histogram(), commits: 0, cpu_ns: Some(0) };
        rows.push((warmed.map_err(|fault| blame(workload, subject, &fault))?, outcome));
    }
    for round in 0..rounds {
        for turn in 0..rows.len() {
            let place = (round + turn) % rows.len();
            let (writers, outcome) = &mut rows[place];
            let measured = slice(writers, workload.record_bytes, outcome);
            let tidied = measured.and_then(|()| writers.iter_mut().try_for_each(|writer| writer.tidy()));
            tidied.map_err(|fault| blame(workload, outcome.subject, &fault))?;
            std::thread::sleep(REST);
        }
    }
    let outcomes = rows.into_iter().map(|(_, outcome)| outcome).collect();
    for subject in &SUBJECTS {
        // Of all workloads together it would be gigabytes; what cannot be removed now is removed at the end.
        let _ = std::fs::remove_dir_all(dir.join(format!("{}-{}", workload.name, subject.name)));
    }
    Ok(outcomes)
}

fn blame(workload: &Workload, subject: &Subject, fault: &Fault) -> Fault {
    format!("{}, {}: {fault}", workload.name, subject.name).into()
}

fn warm_up(writers: &mut [Box<dyn Writer>]) -> Result<(), Fault> {
    let mut large = record(WARM_UP_RECORD_BYTES);
    for number in 1..=WARM_UP_BYTES / WARM_UP_RECORD_BYTES {
        renew(&mut large, number as u64);
        writers.first_mut().ok_or("opened without a writer")?.commit(&large)?;
        if (number * WARM_UP_RECORD_BYTES).is_multiple_of(WARM_UP_TIDY_BYTES) {
            writers.iter_mut().try_for_each(|writer| writer.tidy())?;
            std::thread::sleep(REST);
        }
    }
    Ok(())
}

/// All threads of a row for one slice; adds to its outcome.
fn slice(writers: &mut [Box<dyn Writer>], record_bytes: usize, outcome: &mut Outcome) -> Result<(), Fault> {
    // A thread that starts late would be counted as a slow log.
    let start = Barrier::new(writers.len());
    let cpu_before = process_cpu_ns();
    let parts: Vec<Result<Part, Fault>> = std::thread::scope(|scope| {
        let start = &start;
        let mut writers = writers.iter_mut();
        let own = writers.next();
        let others: Vec<_> =
            writers.map(|writer| scope.spawn(move || part(writer.as_mut(), record_bytes, start))).collect();
        let own = own.map(|writer| part(writer.as_mut(), record_bytes, start));
        let panicked = || Err(Fault::from("one of its threads panicked"));
        let joined = others.into_iter().map(|other| other.join().unwrap_or_else(|_| panicked()));
        own.into_iter().chain(joined).collect()
    });
    let cpu_after = process_cpu_ns();
    let (mut first, mut last, mut timed) = (u64::MAX, 0, 0);
    for part in parts {
        let part = part?;
        (first, last) = (first.min(part.began_ns), last.max(part.ended_ns));
        timed += part.commits;
        outcome.commits += part.commits + UNTIMED;
        outcome.times.add(&part.times)?;
    }
    outcome.rates.push(timed as f64 / (last.saturating_sub(first).max(1) as f64 / 1e9));
    let spent = cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
    outcome.cpu_ns = outcome.cpu_ns.zip(spent).map(|(sum, spent)| sum + spent);
    Ok(())
}

fn part(writer: &mut dyn Writer, record_bytes: usize, start: &Barrier) -> Result<Part, Fault> {
    let mut record = record(record_bytes);
    let mut times = histogram();
    let begun = (0..UNTIMED).try_for_each(|number| {
        renew(&mut record, number);
        writer.commit(&record)
    });
    // The others would wait for ever for a thread that failed and did not come.
    start.wait();
    begun?;
    let began_ns = monotonic_ns();
    let (mut last, mut commits) = (began_ns, 0);
    while last < began_ns + SLICE_NS {
        renew(&mut record, began_ns + commits);
        writer.commit(&record)?;
        let now = monotonic_ns();
        times.saturating_record(now - last);
        (last, commits) = (now, commits + 1);
    }
    Ok(Part { began_ns, ended_ns: last, commits, times })
}
